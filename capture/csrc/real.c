/* SPDX-License-Identifier: MIT */
#include "real.h"

#include <string.h>

#include "dlsym.h"

#define EARLY_SYSTEM_CALL(type, name, parameters, ...)                        \
	static type early_##name parameters                                   \
	{                                                                     \
		return (type)libc_result(__VA_ARGS__);                        \
	}
FOR_EACH_SYSTEM_CALL(EARLY_SYSTEM_CALL)

#define EARLY_FUNCTION(type, name, parameters, arguments)                     \
	static type early_##name parameters                                   \
	{                                                                     \
		type(*next) parameters;                                       \
		void *found = dlsym(RTLD_NEXT, #name);                        \
                                                                              \
		memcpy(&next, &found, sizeof(next));                          \
		return next arguments;                                        \
	}
FOR_EACH_FUNCTION(EARLY_FUNCTION)

#define EARLY(type, name, ...) .name = early_##name,
struct real_functions real = {FOR_EACH_SYSTEM_CALL(EARLY) FOR_EACH_FUNCTION(EARLY)};

/* A name this libc lacks keeps its early definition: the kernel may know the call. */
static void resolve(const char *name, void *slot)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (found)
		memcpy(slot, &found, sizeof(found));
}

void real_resolve(void)
{
#define RESOLVE(type, name, ...) resolve(#name, &real.name);
	FOR_EACH_SYSTEM_CALL(RESOLVE)
	FOR_EACH_FUNCTION(RESOLVE)
#undef RESOLVE
}
