/* SPDX-License-Identifier: MIT */
#include "real.h"

#include <link.h>
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

/* --- other interposers behind this one --------------------------------- */

#define BEHIND_MAX 8u

/* Where a loaded object lies. */
struct range {
	uintptr_t first, end; /* end 0: not found */
};

static struct range behind[BEHIND_MAX];
static uint32_t behind_count;

struct search {
	uintptr_t address;
	struct range found;
};

static int look_in(struct dl_phdr_info *object, size_t bytes, void *argument)
{
	struct search *search = argument;
	struct range range = {UINTPTR_MAX, 0};

	(void)bytes;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		uintptr_t first = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

		if (object->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		if (first < range.first)
			range.first = first;
		if (first + object->dlpi_phdr[i].p_memsz > range.end)
			range.end = first + object->dlpi_phdr[i].p_memsz;
	}
	if (search->address < range.first || search->address >= range.end)
		return 0;
	search->found = range;
	return 1;
}

static struct range range_of(const void *address)
{
	struct search search = {(uintptr_t)address, {0, 0}};

	dl_iterate_phdr(look_in, &search);
	return search.found;
}

static bool is_in(struct range range, uintptr_t address)
{
	return address >= range.first && address < range.end;
}

bool real_is_behind(const void *caller)
{
	for (uint32_t i = 0; i < behind_count; i++)
		if (is_in(behind[i], (uintptr_t)caller))
			return true;
	return false;
}

/* Note which objects other than libc and this one hold definitions that we call. */
static void find_behind(void)
{
	struct range libc, ours = {(uintptr_t)__ehdr_start, (uintptr_t)_end};
	void *function;

	memcpy(&function, &real.syscall, sizeof(function));
	libc = range_of(function);
	for (size_t at = 0; at < sizeof(real) && behind_count < BEHIND_MAX; at += sizeof(function)) {
		struct range found;

		memcpy(&function, (const char *)&real + at, sizeof(function));
		if (is_in(libc, (uintptr_t)function) || is_in(ours, (uintptr_t)function) ||
		    real_is_behind(function))
			continue;
		found = range_of(function);
		if (found.end)
			behind[behind_count++] = found;
	}
}

void real_resolve(void)
{
#define RESOLVE(type, name, ...) resolve(#name, &real.name);
	FOR_EACH_SYSTEM_CALL(RESOLVE)
	FOR_EACH_STAT(RESOLVE)
	FOR_EACH_FUNCTION(RESOLVE)
	FOR_EACH_STREAM_FUNCTION(RESOLVE)
#undef RESOLVE
	find_behind();
}
