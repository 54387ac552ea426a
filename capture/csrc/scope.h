/* SPDX-License-Identifier: MIT */
/* Which files are recorded, by their path. */
#ifndef IOTRACE_SCOPE_H
#define IOTRACE_SCOPE_H

#include "raw.h"

/*
 * Copy the newline-separated patterns and the space-separated DEVICE:INODE, in
 * hexadecimal, of `standard` (each may be NULL); -ENOMEM: no memory.
 */
int scope_start(const char *system, const char *include, const char *exclude,
		const char *standard);

/*
 * Is it one of the files that the whole job was given as standard input,
 * output or error? A job's own log is no checkpoint. `include` may ask for it.
 */
bool scope_leaves_to_job(uint64_t device, uint64_t inode, const char *path, size_t bytes);

/*
 * Is a file wanted? `writes`: it is opened for writing, or its name is
 * changed. Read-only use of a system path is left out.
 */
bool scope_wants(const char *path, size_t bytes, bool writes);

/* fnmatch(3) without flags, as Python's fnmatchcase: `*` and `?` match a slash too. */
bool scope_matches(const char *pattern, size_t pattern_bytes, const char *text, size_t bytes);

#endif
