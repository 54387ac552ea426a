/* SPDX-License-Identifier: MIT */
/*
 * The job's memory, read through the kernel: what a job hands to an
 * asynchronous interface is looked at before the kernel has accepted it, and
 * a bad pointer must end in the job's -EFAULT, not in a fault here.
 */
#ifndef IOTRACE_MEMORY_H
#define IOTRACE_MEMORY_H

#include "raw.h"

#include <sys/uio.h>

/* All of it, or false. */
bool memory_read(void *to, const void *from, size_t bytes);

/* A string with its NUL; its length, or -EFAULT, or -ENAMETOOLONG. */
long memory_read_text(char *to, const char *from, size_t room);

/* Bytes that `count` parts stand for, and where the first lies; -1 if they cannot be read. */
int64_t memory_parts_bytes(const struct iovec *parts, uint32_t count, uint64_t *first);

#endif
