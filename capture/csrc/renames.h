/* SPDX-License-Identifier: MIT */
/*
 * Renames that no wrapper sees. Libraries that make system calls themselves
 * (Rust's rustix: safetensors gives a checkpoint its final name so) rename a
 * file while they still hold it open; its close tells what it is called then.
 */
#ifndef IOTRACE_RENAMES_H
#define IOTRACE_RENAMES_H

#include "request.h"

/* Remember the name of a file that was just opened for writing. */
void renames_watch(struct open_file *file, int fd);

/* A rename that was seen, as it lies in the log; NULL: it was not recorded. */
void renames_seen(const struct record *renamed, int64_t device, int64_t inode);

/* Before a close: record a rename in the same folder that was not seen. */
void renames_find(struct open_file *file, int fd);

#endif
