/* SPDX-License-Identifier: MIT */
/* The raw log of this process: record.h says what the file looks like. */
#ifndef IOTRACE_LOG_H
#define IOTRACE_LOG_H

#include <stdatomic.h>

#include "raw.h"
#include "record.h"

/* What a thread knows; zero is the right start for every thread. */
struct thread {
	struct chunk_header *chunk;
	uint32_t generation; /* the log `chunk` is part of */
	int32_t paused;      /* depth of iotrace_pause */
};

extern __thread struct thread this_thread __attribute__((tls_model("initial-exec")));

/* Folder of the raw logs and the size one may grow to; call once, before any other. */
int log_start(const char *folder, uint64_t limit_bytes);

/* Call this, once in a process, when its log cannot be made; in the middle of a request. */
void log_tell_refusal(void (*tell)(int error));

/* 1, 2, ...: goes up by one in each forked child, whose log is its own. */
uint32_t log_generation(void);

/* True in a vfork child: its memory, and so the log and the tables, are its parent's. */
bool log_is_borrowed(void);

/* A fresh number for an open file; 0: there is no log. Creates the log. */
uint32_t log_file_number(void);

/*
 * Append one record and its text; returns it where it lies in the log, text
 * behind it, until a fork. NULL: counted as dropped. Creates the log.
 */
const struct record *log_append(const struct record *record, const char *text,
				size_t text_bytes);

/*
 * Complete a record of an asynchronous request where it lies. `generation` is
 * that of its log; nothing happens in a process forked since.
 */
void log_finish(const struct record *at, uint32_t generation, int64_t result, uint64_t end_ns);

/* log_generation(), also right at once in a child that was forked without libc. */
uint32_t log_settled_generation(void);

/* Count a record that cannot be appended. */
void log_drop(void);

/* True when this process has written a log. */
bool log_exists(void);

/* Add to a counter of the header; works before there is a header. */
void log_count(size_t field, uint64_t amount);
#define LOG_COUNT(field, amount) log_count(offsetof(struct log_header, field), amount)

/* The same for what the library has read: not in a vfork child, which the kernel counts apart. */
void log_count_own_read(uint64_t bytes);

/* What such a counter has come to. */
uint64_t log_counted(size_t field);
#define LOG_COUNTED(field) log_counted(offsetof(struct log_header, field))

/*
 * getppid(), which tells nothing to the first process of a namespace: there it
 * is the pid that its parent has for itself, 0 once another program is loaded.
 */
uint32_t log_parent_pid(void);

/* For a fork: forget the parent's log. Called by itself where forks are seen. */
void log_renew(void);

#endif
