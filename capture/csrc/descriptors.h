/* SPDX-License-Identifier: MIT */
/*
 * File descriptors and the open files behind them. Several descriptors may
 * refer to one open file and then share its position, as in the kernel.
 * Everything is atomic and nothing waits; memory is never unmapped, so a job
 * that races a close with a request can misattribute that request at worst.
 */
#ifndef IOTRACE_DESCRIPTORS_H
#define IOTRACE_DESCRIPTORS_H

#include <stdatomic.h>

#include "inode.h"
#include "raw.h"

enum file_kind {
	FILE_RECORDED,
	FILE_IGNORED, /* left out by scope */
	FILE_OTHER,   /* pipe, socket, terminal, folder, /proc */
	FILE_UNKNOWN, /* could not be resolved */
	FILE_UNSEEN,  /* there is no way to record it; its requests are counted */
};

struct record;

struct open_file {
	uint8_t kind;
	_Atomic uint8_t queried;   /* others move the position too: ask the kernel */
	_Atomic uint32_t flags;    /* open flags */
	_Atomic uint32_t references;
	_Atomic uint32_t epoch;    /* `sharings` when `queried` was last settled */
	_Atomic uint64_t number;   /* log generation << 32 | number in that log */
	const struct record *named; /* the record in that log that says its last name */
	uint64_t folder_hash, name_hash; /* what renames.c watches; 0: nothing */
	_Atomic(const void *) user; /* the first thread that used the position */
	_Atomic uint8_t has_users;  /* several threads do */
	_Atomic int64_t position;
	_Atomic int64_t foreseen;  /* stdio bytes recorded ahead of the write at exit */
	uint32_t index, next_free; /* the pool's own */
};

/* The open file behind a descriptor; never NULL. Resolves what is not known yet. */
struct open_file *descriptor_file(int fd);

/* The same, without resolving: NULL when not known. */
struct open_file *descriptor_known(int fd);

/*
 * From now on another process may run in this memory beside this one, with
 * descriptors of its own and the storage of one of our threads: nothing of it
 * can be recorded.
 */
void descriptors_have_guests(void);

/* A new open file, or NULL without memory; belongs to the one descriptor it is put in. */
struct open_file *open_file_new(uint32_t flags);

extern struct open_file ignored_file, other_file;

/*
 * `fd` now refers to `file` (NULL: unknown). What it referred to before is
 * returned with the count of other descriptors that still refer to it; it may
 * be looked at until the call that caused this returns.
 */
struct replaced {
	struct open_file *file; /* NULL: nothing known */
	uint32_t left;
} descriptor_put(int fd, struct open_file *file);

/* Let `to` refer to what `fd` does. */
struct replaced descriptor_copy(int fd, int to);

/* The first known descriptor from `first` on, at most `last`; -1: none. */
int descriptor_next(unsigned int first, unsigned int last);

/* A descriptor of the open file with this `number`; -1: none is known. */
int descriptor_numbered(uint64_t number);

/*
 * Open files may have come to be shared with another process: all of them
 * (fork), or those whose descriptors survive an exec (spawn).
 */
void descriptors_shared(bool survive_exec_only);

/*
 * Does a write go to the end of its file, whatever its offset says? The flags
 * of the one write come before those of the open file.
 */
#define RW_APPEND 0x10u   /* RWF_APPEND */
#define RW_NOAPPEND 0x20u /* RWF_NOAPPEND: Linux 6.9 */

static inline bool write_appends(bool file_appends, uint32_t rw_flags)
{
	return rw_flags & RW_APPEND || (file_appends && !(rw_flags & RW_NOAPPEND));
}

/* The position of this open file must be asked for: it is shared or appended to. */
bool open_file_is_queried(struct open_file *file, int fd);

#endif
