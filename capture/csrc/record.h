/* SPDX-License-Identifier: MIT */
/*
 * The raw log: one MAP_SHARED file per process, written by the preload
 * library, read by iotrace.capture.rawlog. Little endian, host order.
 *
 *   [ header, LOG_HEADER_BYTES ][ chunk 0 ][ chunk 1 ] ...
 *
 * A chunk belongs to one thread at a time and is an array of 64-byte slots.
 * Slot 0 is the chunk's own header. Each later slot is a record, or the
 * continuation of one: text that follows a record takes the next slots, whole.
 * A record is complete when its `op` is not OP_NONE: `op` is stored last,
 * with release order, so a log is readable at any instant of a SIGKILL.
 * `text_bytes` is stored first: a torn record (op none, start_ns or
 * text_bytes not 0) is skipped together with its text.
 *
 * When a thread ends, the room left in its chunk goes to the next new thread:
 * an OP_THREAD record says whose the later records of the chunk are.
 *
 * The names of ops, APIs and offset sources are in the header as text, so a
 * reader needs no copy of these enums.
 */
#ifndef IOTRACE_RECORD_H
#define IOTRACE_RECORD_H

#include <stdint.h>

#define LOG_MAGIC 0x31474f4c52544f49ull /* "IOTRLOG1" */
#define LOG_VERSION 3
#define LOG_HEADER_BYTES 65536 /* a multiple of every page size in use */
#define LOG_CHUNK_BYTES 65536 /* readers take it from the header */
#define LOG_SLOT_BYTES 64
#define LOG_CHUNK_SLOTS (LOG_CHUNK_BYTES / LOG_SLOT_BYTES)
#define LOG_LIMIT 1 /* stopped_by: it is as large as it may be */
#define LOG_TEXT_MAX 32768 /* bytes of text one record may carry; longer is cut and counted */

/* One line adds an op. The name is what the trace's `op` column says. */
#define FOR_EACH_OP(X)                                                        \
	X(OP_NONE, "none")                                                    \
	X(OP_FILE, "file")   /* not a request: describes an open file */      \
	X(OP_NOTE, "note")   /* not a request: JSON text from a hook */       \
	X(OP_OPEN, "open")                                                    \
	X(OP_CLOSE, "close")                                                  \
	X(OP_READ, "read")                                                    \
	X(OP_WRITE, "write")                                                  \
	X(OP_SYNC, "sync")                                                    \
	X(OP_ALLOCATE, "allocate")                                            \
	X(OP_TRUNCATE, "truncate")                                            \
	X(OP_RENAME, "rename")                                                \
	X(OP_LINK, "link")                                                    \
	X(OP_UNLINK, "unlink")                                                \
	X(OP_MKDIR, "mkdir")                                                  \
	X(OP_RMDIR, "rmdir")                                                  \
	X(OP_STAT, "stat")                                                    \
	X(OP_GETXATTR, "getxattr")                                            \
	X(OP_MAP, "map")                                                      \
	X(OP_UNMAP, "unmap")                                                  \
	X(OP_ADVISE, "advise")                                                \
	X(OP_COUNTER, "counter") /* not a request: a value at a time */       \
	X(OP_THREAD, "thread")   /* not a request: result: tid of the records after it */ \
	X(OP_SEEK, "seek")       /* not a request: offset: where one of several threads moved to */ \
	X(OP_TAKEN, "taken")     /* not a request: file: has the position of another process's */

#define FOR_EACH_API(X)                                                       \
	X(API_NONE, "")                                                       \
	X(API_POSIX, "posix")                                                 \
	X(API_STDIO, "stdio")                                                 \
	X(API_IO_URING, "io_uring")                                           \
	X(API_LIBAIO, "libaio")                                               \
	X(API_MMAP, "mmap")

/* Where `offset` comes from. */
#define FOR_EACH_OFFSET_SOURCE(X)                                             \
	X(OFFSET_NONE, "")                                                    \
	X(OFFSET_ARGUMENT, "argument") /* the call named it */                \
	X(OFFSET_TRACKED, "tracked")   /* the library followed the position */ \
	X(OFFSET_QUERIED, "queried")   /* asked of the kernel around the call */ \
	X(OFFSET_END, "end") /* counted back from the size after it: others may have added to that */ \
	X(OFFSET_LINKED_END, "linked end") /* so, after the append before it: a link of its chain */ \
	X(OFFSET_INFERRED, "inferred") /* from a stream's buffer and position: may be several calls */

#define ENUM_MEMBER(id, name) id,
enum record_op { FOR_EACH_OP(ENUM_MEMBER) OP_COUNT };
enum record_api { FOR_EACH_API(ENUM_MEMBER) API_COUNT };
enum record_offset_source { FOR_EACH_OFFSET_SOURCE(ENUM_MEMBER) OFFSET_SOURCE_COUNT };
#undef ENUM_MEMBER

/*
 * One request, or one note. -1 in offset, length or result means "not
 * applicable". `text_bytes` bytes of text follow in the next slots.
 *
 * A request to an asynchronous interface is appended when it is submitted,
 * with `end_ns` 0, and completed where it lies: `result` first, `end_ns` last.
 * What was in flight when its process died keeps an `end_ns` of 0.
 *
 * OP_FILE   file: the new open's number; text: absolute path as opened;
 *           offset: st_dev, length: st_ino, result: birth time in ns or 0,
 *           address: size at open, flags: st_mode, and FILE_NAMELESS for one
 *           that has no name (any more): text: the last, or one of the kernel's
 *           (an fd that was inherited or opened unseen has an OP_FILE and no OP_OPEN)
 * OP_OPEN   file: number given by the thread's last OP_FILE, or 0
 *           when the open failed; flags: open flags; result: 0 or -errno;
 *           text: path (only when the open failed, or is asynchronous);
 *           length: creation mode
 * OP_CLOSE  length: descriptors that still refer to the open file
 * OP_RENAME text: source path, NUL, target path, both absolute; file: 0
 *           with api none: no call was seen; the file had the new name when it was
 *           closed, so it was renamed at some time before, in the same folder
 * OP_LINK, OP_UNLINK, OP_MKDIR, OP_RMDIR  text: path(s), absolute
 *           offset: st_dev and length: st_ino of the inode named, for
 *           RENAME, LINK and UNLINK, address: names it had (looked up before the
 *           call; 0 if unknown)
 * OP_STAT, OP_GETXATTR by path: file 0, text: the path, absolute; of files that are there
 * OP_SYNC   flags: enum sync_kind; of a folder file: 0, text: its path
 * OP_ALLOCATE flags: fallocate mode; OP_TRUNCATE length: the new size
 *           (truncate by path: file 0, text: path)
 * OP_COUNTER text: name; result: value; of a part of a file: file, offset, length
 * OP_MAP    flags: prot; address: where; offset, length: of the file
 * OP_UNMAP  and OP_SYNC, OP_ADVISE on memory: address; offset, length: of the
 *           part of the file that was mapped there
 * OP_ADVISE flags: the advice
 */
#define FILE_NAMELESS 0x10000u

enum sync_kind {
	SYNC_FILE,
	SYNC_DATA,
	SYNC_RANGE,
	SYNC_MAPPING,
	SYNC_FILE_SYSTEM,
	SYNC_ALL,
	SYNC_FOLDER,      /* fsync of a folder: what SYNC_FILE is of a file */
	SYNC_FOLDER_DATA, /* fdatasync of one */
};

struct record {
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t end_ns;
	int64_t offset;
	int64_t length;
	int64_t result; /* bytes moved, 0, or -errno */
	uint64_t address;
	uint32_t file;  /* number of the open file description, 1.., or 0 */
	uint32_t flags;
	uint32_t text_bytes;
	uint8_t api;
	uint8_t offset_source;
	uint16_t op; /* stored last */
};

struct chunk_header {
	uint32_t owner_tid; /* of the first owner; 0: chunk not in use */
	uint32_t next_slot; /* atomic; first free slot; may run past LOG_CHUNK_SLOTS */
	uint32_t index, next_returned; /* the writer's list of returned chunks */
	uint64_t reserved[6];
};

struct log_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes, chunk_bytes, slot_bytes;
	uint32_t pid, parent_pid;
	uint64_t pid_start_ticks; /* field 22 of /proc/self/stat */
	uint8_t boot_id[40];      /* text of /proc/sys/kernel/random/boot_id */
	uint64_t monotonic_ns, realtime_ns; /* read together at creation */
	uint32_t chunks;          /* atomic: chunks handed out */
	uint32_t files;           /* atomic: open numbers handed out */
	/* What the log does not hold; all atomic. */
	uint64_t dropped_records;    /* no room, or disabled after a failure */
	uint64_t unknown_descriptors; /* requests on an fd that could not be resolved */
	uint64_t cut_texts;
	uint64_t ignored_opens;       /* opens left out by scope */
	uint64_t ignored_bytes_read;  /* bytes on files left out by scope */
	uint64_t other_bytes_read, other_bytes_written; /* pipes, sockets, terminals */
	uint64_t own_bytes_read;      /* the library's own, such as of /proc */
	uint64_t ignored_bytes_written;
	/* NUL-separated names in enum order, each list ends with an empty name
	 * after the last; the first name of apis and offset sources is "". */
	uint32_t op_names_at, op_names_count;     /* byte offset in the file */
	uint32_t api_names_at, api_names_count;
	uint32_t offset_source_names_at, offset_source_names_count;
	uint32_t argv_at, argv_bytes;             /* NUL-separated, may be cut */
	uint32_t rank_at, rank_bytes;             /* launcher variables found: NAME=VALUE, NUL-separated */
	uint32_t executable_at, executable_bytes; /* readlink of /proc/self/exe */
	uint32_t path_at, path_bytes;             /* of this log; the writer opens it again to grow it */
	/* Of asynchronous interfaces; atomic. */
	uint64_t unmatched_completions; /* no request is known that they could end */
	uint64_t unknown_submissions;   /* requests that were seen but not understood */
	uint64_t own_bytes_written;     /* to make room in logs, where the file system cannot */
	int32_t stopped_by; /* why the log stopped growing: -errno or LOG_LIMIT; 0: it did not */
	uint32_t reserved;
};

_Static_assert(sizeof(struct record) == LOG_SLOT_BYTES, "a record is one slot");
_Static_assert(sizeof(struct chunk_header) == LOG_SLOT_BYTES, "a chunk header is one slot");

#endif
