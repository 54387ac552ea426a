/* SPDX-License-Identifier: MIT */
/*
 * The list of a job's processes on this host, one file for all of them. Most
 * processes of a job touch no file and make no raw log; what they moved is in
 * the kernel's count of their parents, and some are still there at the end.
 * Programs into which this library cannot be loaded are written down by the
 * process that starts them.
 *
 * The launcher makes the file: a header, and room for entries. Each process
 * stores into a mapping, which goes on when it may open no file any more
 * (other user, chroot, limits). Who has no mapping, or finds no room, has the
 * launcher append the entry behind the room. Read by iotrace.capture.roster.
 */
#ifndef IOTRACE_ROSTER_H
#define IOTRACE_ROSTER_H

#include "raw.h"

#define ROSTER_TEXT_BYTES 168
#define ROSTER_MAGIC 0x3154534f52544f49ull /* "IOTROST1" */

struct roster_header {
	uint64_t magic;
	uint32_t room;  /* entries that the file is allocated for; 0: entries are not mapped */
	uint32_t taken; /* atomic: how many of them are handed out, or were asked for */
	char boot_id[40]; /* of this host; the kernel's text */
	uint64_t reserved[25];
};

enum roster_kind {
	ROSTER_BEGIN = 1, /* a program starts, or a forked child; text: its name */
	ROSTER_END,       /* it ends, or makes way for another */
	ROSTER_UNWATCHED, /* a program is started that cannot be watched; text: its path */
	ROSTER_EXEC,      /* a program that can be watched replaces this one; text: its path */
	ROSTER_STAYED,    /* it did not */
	ROSTER_UNLOGGED,  /* a program could make no raw log; reason: errno */
};

enum unwatched_reason { WATCHABLE, UNWATCHED_STATIC, UNWATCHED_PRIVILEGED, UNWATCHED_FOREIGN };

struct roster_entry {
	uint32_t kind;
	uint32_t pid, parent_pid;
	uint32_t reason; /* enum unwatched_reason, or errno */
	uint64_t boottime_ns, monotonic_ns;
	/*
	 * At the end, by the kernel's count: since the process began, children
	 * it has waited for included; and what of it is from before this program.
	 */
	int64_t bytes_read, bytes_written;
	int64_t base_read, base_written;
	/* For a program without a log, what of it is known: pipes, files out of scope, our own. */
	uint64_t explained_read, explained_written;
	uint64_t dropped_records;
	char text[ROSTER_TEXT_BYTES]; /* the end of it, if it is longer; NUL-padded */
};

_Static_assert(sizeof(struct roster_header) == 256 && sizeof(struct roster_entry) == 256,
	       "read as an array");

/* Folder of the raw logs; without a list in it nothing is written. */
void roster_start(const char *folder);

void roster_begin(void);

/* Before a program is executed, and when that failed. */
void roster_exec(const char *path);
void roster_stayed(void);

/* It had something to record and could make no raw log; told at once, as it may be killed. */
void roster_unlogged(int error);

/* `entry` holds the numbers. */
void roster_end(struct roster_entry entry);

/* Write down a program that is about to be executed, if this library cannot follow it there. */
void roster_check(int at, const char *path, int flags);

/* The same for a name that is looked up in PATH. */
void roster_check_name(const char *file);

#endif
