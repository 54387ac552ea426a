/* SPDX-License-Identifier: MIT */
/* The file of a raw log: made, and grown so that a store can never meet a full disk. */
#ifndef IOTRACE_LOGFILE_H
#define IOTRACE_LOGFILE_H

#include "raw.h"
#include "record.h"

#define LOGFILE_NAME_MAX 64

/* FOLDER/<pid>-<start ticks>-<random>.raw; needs LOGFILE_NAME_MAX bytes beyond the folder's. */
void logfile_name(char *path, const char *folder, uint32_t pid);

/* Make the file and map its first LOG_HEADER_BYTES; gives 0, or -errno and no file. */
int logfile_create(const char *path, struct log_header **header);

/*
 * Give the file these bytes and return it open, or -errno. It is opened anew
 * each time: an open descriptor kept for it would show in the job, and a job
 * that closes all descriptors would leave us writing to whatever took its
 * number.
 */
int logfile_grow(const char *path, off_t offset, size_t bytes);

#endif
