/* SPDX-License-Identifier: MIT */
/*
 * Functions of libraries that may be loaded long after this one, by a plugin
 * and for it alone: RTLD_NEXT does not look there.
 */
#ifndef IOTRACE_LATE_H
#define IOTRACE_LATE_H

#include "raw.h"

/*
 * The definition of `name` that a caller at `caller` would have got without
 * us; NULL: none, the job only asked whether there is one.
 */
void *late_find(const char *name, const void *caller);

/*
 * Define a wrapper's access to the real function: a pointer that the first
 * call fills in. With two copies of a library in one job, the one whose
 * function was called first serves both.
 */
#define LATE(type, name, parameters)                                          \
	static type(*_Atomic real_##name) parameters;                         \
                                                                              \
	static __attribute__((noinline)) bool find_##name(const void *caller) \
	{                                                                     \
		void *found = late_find(#name, caller);                       \
		type(*function) parameters;                                   \
                                                                              \
		__builtin_memcpy(&function, &found, sizeof(function));        \
		real_##name = function;                                       \
		return found != NULL;                                         \
	}
#define LATE_FOUND(name) (likely(real_##name != NULL) || find_##name(__builtin_return_address(0)))

#endif
