/* SPDX-License-Identifier: MIT */
/* A path argument made absolute: joined, not normalised, never followed. */
#ifndef IOTRACE_PATH_H
#define IOTRACE_PATH_H

#include "raw.h"

#include <limits.h>

struct path {
	const char *text; /* the argument itself when it was absolute; not terminated otherwise */
	size_t bytes;
	bool is_deleted; /* of path_of_descriptor: the file has no name any more */
	char buffer[PATH_MAX];
};

/*
 * `at` as in openat(2). An overlong path is cut, and counted as such; bytes is
 * 0 for a name relative to a folder that has none in this process's view.
 */
void path_resolve(struct path *path, int at, const char *argument);

/* What the kernel calls an open file, or last did; bytes is 0 if it cannot tell. */
void path_of_descriptor(struct path *path, int fd);

/* A file of /proc, /sys or a memfd: regular by its mode, but no storage is behind it. */
bool path_is_kernel_file(const struct path *path);

#endif
