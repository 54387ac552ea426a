/* SPDX-License-Identifier: MIT */
/* Which files are recorded, by their path. */
#ifndef IOTRACE_SCOPE_H
#define IOTRACE_SCOPE_H

#include "raw.h"

/* Copy the newline-separated patterns (each may be NULL); -ENOMEM: no memory. */
int scope_start(const char *system, const char *include, const char *exclude);

/*
 * Is a file wanted? `writes`: it is opened for writing, or its name is
 * changed. Read-only use of a system path is left out.
 */
bool scope_wants(const char *path, size_t bytes, bool writes);

/* fnmatch(3) without flags, as Python's fnmatchcase: `*` and `?` match a slash too. */
bool scope_matches(const char *pattern, size_t pattern_bytes, const char *text, size_t bytes);

#endif
