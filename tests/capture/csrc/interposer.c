/* SPDX-License-Identifier: MIT */
/* Another library that stands in front of libc, as profilers do: it passes on, and counts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>

int interposer_calls;

#define NEXT(type, name, parameters, arguments)                               \
	type name parameters                                                  \
	{                                                                     \
		static type(*next) parameters;                                \
                                                                              \
		if (!next)                                                    \
			*(void **)&next = dlsym(RTLD_NEXT, #name);            \
		interposer_calls++;                                           \
		return next arguments;                                        \
	}

NEXT(ssize_t, write, (int fd, const void *buffer, size_t bytes), (fd, buffer, bytes))
NEXT(ssize_t, pwrite, (int fd, const void *buffer, size_t bytes, off_t at), (fd, buffer, bytes, at))
NEXT(int, close, (int fd), (fd))
NEXT(FILE *, fopen, (const char *path, const char *mode), (path, mode))
NEXT(size_t, fwrite, (const void *buffer, size_t bytes, size_t count, FILE *stream),
     (buffer, bytes, count, stream))
