/* SPDX-License-Identifier: MIT */
#include "late.h"

#include "dlsym.h"

/* Where they are looked for if the caller's own libraries do not lead to them. */
static const char *const libraries[] = {
	"liburing.so.2", "liburing-ffi.so.2", "liburing.so.1", "libaio.so.1t64", "libaio.so.1",
	"librt.so.1",
};

static bool is_ours(const void *address)
{
	Dl_info found, own;

	return dladdr(address, &found) && dladdr((const void *)&is_ours, &own) &&
	       found.dli_fbase == own.dli_fbase;
}

static void *find_in(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	void *found = handle ? dlsym(handle, name) : NULL;

	if (handle)
		dlclose(handle); /* only the count goes down: it was loaded before */
	return found && !is_ours(found) ? found : NULL;
}

void *late_find(const char *name, const void *caller)
{
	void *found = dlsym(RTLD_NEXT, name);
	int saved_errno = errno;
	Dl_info info;

	if (!found && dladdr(caller, &info) && info.dli_fname && info.dli_fname[0])
		found = find_in(info.dli_fname, name);
	for (size_t i = 0; !found && i < sizeof(libraries) / sizeof(*libraries); i++)
		found = find_in(libraries[i], name);
	errno = saved_errno;
	return found && !is_ours(found) ? found : NULL;
}
