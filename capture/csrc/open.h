/* SPDX-License-Identifier: MIT */
/* What every way to open a file ends in. */
#ifndef IOTRACE_OPEN_H
#define IOTRACE_OPEN_H

#include "request.h"

struct opening {
	const char *path;
	uint64_t start_ns; /* 0: leave this one alone */
	int at;            /* as openat(2) */
	int flags;
	mode_t mode;
	uint8_t api;
};

/* Before the real call. */
struct opening opening_begin(int at, const char *path, int flags, mode_t mode);

/* After it; returns the descriptor, or -1 with errno as it was. */
int opening_end(struct opening opening, int fd);

#endif
