/* SPDX-License-Identifier: MIT */
/*
 * What this process may not do itself, asked of the launcher: a process that
 * became another user, or has another root folder, reaches neither the raw
 * logs nor, at times, its own files of /proc. The launcher listens on a
 * socket without a file; the kernel tells it which process asks, and a secret
 * in the environment that it is one of the job. Served by iotrace.capture.keeper.
 */
#ifndef IOTRACE_KEEPER_H
#define IOTRACE_KEEPER_H

#include "raw.h"

enum keeper_request {
	KEEPER_NEW_LOG = 1, /* body: name in the folder of the raw logs; gives a descriptor */
	KEEPER_LOG,         /* the same, of a log that is there */
	KEEPER_ENTRY,       /* body: a struct roster_entry */
	KEEPER_PROC_FILE,   /* body: path; gives the text */
	KEEPER_PROC_LINK,
	KEEPER_GROW, /* body: offset and bytes of a part to allocate, name of the log */
};

#define KEEPER_NAME_BYTES 64
#define KEEPER_SECRET_BYTES 32 /* in hexadecimal */
#define KEEPER_BODY_MAX 256

/* `address` is NAME:SECRET; NULL: there is nobody to ask. */
void keeper_start(const char *address);

/* Would asking help against this error of an open? */
bool keeper_may_help(long error);

/* Descriptor of a log, which is opened with the launcher's rights; or -errno. */
int keeper_log(enum keeper_request request, const char *name);

/* Allocate a part of a log under the launcher's limits and not this process's; 0 or -errno. */
int keeper_grow(const char *name, int64_t offset, int64_t bytes);

/* Bytes of the answer, or -errno. */
long keeper_text(enum keeper_request request, const char *path, char *buffer, size_t bytes);

/* Put an entry into the list of processes, or mark that it had no room; lost without a launcher. */
void keeper_keep(const void *entry, size_t bytes);

#endif
