/* SPDX-License-Identifier: MIT */
#include "real.h"

#include <string.h>

#include "dlsym.h"

/* The bounds of this library in memory; the linker defines them. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/*
 * The definition after ours. Where libc was preloaded by the job and stands
 * before us, the first one of all, unless that is ours.
 */
static void *find(const char *name)
{
	const char *found = dlsym(RTLD_NEXT, name);

	if (!found)
		found = dlsym(RTLD_DEFAULT, name);
	return found >= __ehdr_start && found < _end ? NULL : (void *)found;
}

#define EARLY_SYSTEM_CALL(type, name, parameters, ...)                        \
	static type early_##name parameters                                   \
	{                                                                     \
		return (type)libc_result(__VA_ARGS__);                        \
	}
FOR_EACH_SYSTEM_CALL(EARLY_SYSTEM_CALL)

#define EARLY_STAT(type, name, parameters, call, ...)                         \
	static type early_##name parameters                                   \
	{                                                                     \
		return (type)libc_result(call);                               \
	}
FOR_EACH_STAT(EARLY_STAT)

#define EARLY_FUNCTION(type, name, parameters, arguments, ...)                   \
	static type early_##name parameters                                   \
	{                                                                     \
		type(*next) parameters;                                       \
		void *found = find(#name);                                    \
                                                                              \
		memcpy(&next, &found, sizeof(next));                          \
		return next arguments;                                        \
	}
FOR_EACH_FUNCTION(EARLY_FUNCTION)
FOR_EACH_STREAM_FUNCTION(EARLY_FUNCTION)

#define EARLY(type, name, ...) .name = early_##name,
struct real_functions real = {FOR_EACH_SYSTEM_CALL(EARLY) FOR_EACH_STAT(EARLY) FOR_EACH_FUNCTION(EARLY)
			      FOR_EACH_STREAM_FUNCTION(EARLY)};

/* A name this libc lacks keeps its early definition: the kernel may know the call. */
static void resolve(const char *name, void *slot)
{
	void *found = find(name);

	if (found)
		memcpy(slot, &found, sizeof(found));
}

void real_resolve(void)
{
#define RESOLVE(type, name, ...) resolve(#name, &real.name);
	FOR_EACH_SYSTEM_CALL(RESOLVE)
	FOR_EACH_STAT(RESOLVE)
	FOR_EACH_FUNCTION(RESOLVE)
	FOR_EACH_STREAM_FUNCTION(RESOLVE)
#undef RESOLVE
}
