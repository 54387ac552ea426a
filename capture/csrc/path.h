/* SPDX-License-Identifier: MIT */
/*
 * A path argument made absolute: joined, not normalised, and not followed but
 * by links of /proc. In a root folder of its own, a process's paths begin where
 * the launcher sees that.
 */
#ifndef IOTRACE_PATH_H
#define IOTRACE_PATH_H

#include "raw.h"

#include <limits.h>

struct path {
	const char *text; /* an absolute argument itself, or in `buffer`, not terminated */
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

/* A link of /proc/self as seen from outside; bytes of it, or 0. */
size_t path_read_link(const char *name, char *buffer, size_t room);

/* Ask the launcher where this process's root folder is; until then, and without one, it is "/". */
void path_find_root(void);

/* A path as this process would say it. */
const char *path_below_root(const char *text, size_t *bytes);

/* A file of /proc, /sys or a memfd: regular by its mode, but no storage is behind it. */
bool path_is_kernel_file(const struct path *path);

#endif
