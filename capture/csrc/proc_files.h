/* SPDX-License-Identifier: MIT */
/* What /proc says of this process, also where it may not look itself. */
#ifndef IOTRACE_PROC_FILES_H
#define IOTRACE_PROC_FILES_H

#include "raw.h"

/*
 * Read a file of /proc whole; bytes read, or -errno. What the kernel counts
 * as read for that goes to `own_bytes_read` and, unless NULL, to `own`.
 */
long proc_read(const char *path, char *buffer, size_t bytes, uint64_t *own);

/* The number after a label in such a text; 0: there is none. */
int64_t proc_number(const char *text, const char *label);

#endif
