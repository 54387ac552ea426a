/* SPDX-License-Identifier: MIT */
/*
 * Streams of libc. Their reads and writes never leave libc by a name, so they
 * are told from outside: by how full the buffer is around each call, and by
 * where the kernel's position has come to. One record may stand for several
 * system calls of one stdio call, and says so: its offset is `inferred`. What
 * calls that are not wrapped (putpwent, ...) moved is found by the next
 * wrapped one, fclose at the latest.
 */
#ifndef IOTRACE_FLOW_H
#define IOTRACE_FLOW_H

#include "real_streams.h"
#include "request.h"

#include <stdio_ext.h>

/* The fields of glibc's FILE are part of its ABI; elsewhere these reads stay unseen. */
#ifdef __GLIBC__
#define STREAM_UNBUFFERED 0x0002
#define STREAM_IN_BACKUP 0x0100 /* reads from what ungetc() put back */
#define STREAM_LINE_BUFFERED 0x0200

static inline int flow_descriptor(FILE *stream)
{
	return stream->_fileno; /* fileno() would set errno for a stream without one */
}

/* None, if another thread moved the one after the other was looked at. */
static inline size_t flow_bytes_between(const char *from, const char *to)
{
	return to > from ? (size_t)(to - from) : 0;
}

/* Bytes that can be read without the kernel, and all bytes of the last refill. */
static inline size_t flow_bytes_ahead(FILE *stream)
{
	size_t ahead = flow_bytes_between(stream->_IO_read_ptr, stream->_IO_read_end);

	if (unlikely(stream->_flags & STREAM_IN_BACKUP))
		ahead += (size_t)(stream->_IO_save_end - stream->_IO_save_base);
	return ahead;
}

static inline size_t flow_bytes_refilled(FILE *stream)
{
	return (size_t)(stream->_IO_read_end - stream->_IO_read_base);
}

/* Is a byte among the next ones, so that reading up to it needs no kernel? */
static inline bool flow_is_ahead(FILE *stream, int byte)
{
	const char *next = stream->_IO_read_ptr;
	size_t ahead = flow_bytes_between(next, stream->_IO_read_end);

	return ahead && memchr(next, byte, ahead);
}

/* Bytes that can be written without the kernel; none where each line leaves at once. */
static inline size_t flow_room(FILE *stream)
{
	return stream->_IO_write_end > stream->_IO_write_ptr
		       ? (size_t)(stream->_IO_write_end - stream->_IO_write_ptr)
		       : 0;
}

/* A stream that reads in lines or bytes makes standard output write what it holds. */
static inline bool flow_flushes_output(FILE *stream)
{
	return stream->_flags & (STREAM_UNBUFFERED | STREAM_LINE_BUFFERED);
}

/* How far the kernel's position is from where pending bytes will go: it read ahead. */
static inline off_t flow_step_to_pending(FILE *stream)
{
	return stream->_IO_write_base - stream->_IO_read_end;
}

/* Characters wait in a buffer of their own, and become bytes only as they leave. */
static inline bool flow_is_wide(FILE *stream)
{
	return stream->_mode > 0;
}
#else
static inline int flow_descriptor(FILE *stream)
{
	int saved_errno = errno, fd = fileno(stream);

	errno = saved_errno;
	return fd;
}

static inline size_t flow_bytes_ahead(FILE *stream)
{
	(void)stream;
	return 0;
}

static inline size_t flow_bytes_refilled(FILE *stream)
{
	(void)stream;
	return 0;
}

static inline bool flow_is_ahead(FILE *stream, int byte)
{
	(void)stream;
	(void)byte;
	return false;
}

static inline size_t flow_room(FILE *stream)
{
	(void)stream;
	return 0;
}

static inline bool flow_flushes_output(FILE *stream)
{
	(void)stream;
	return false;
}

static inline off_t flow_step_to_pending(FILE *stream)
{
	(void)stream;
	return 0;
}

static inline bool flow_is_wide(FILE *stream)
{
	(void)stream;
	return false;
}
#endif

#ifdef __GLIBC__
/* All streams of the process; exported by glibc for debuggers, so they may go one day. */
extern FILE *_IO_list_all __attribute__((weak, visibility("default")));
extern void _IO_list_lock(void) __attribute__((weak, visibility("default")));
extern void _IO_list_unlock(void) __attribute__((weak, visibility("default")));

/* Other threads open and close streams: the list stays as it is until _IO_list_unlock(). */
static inline bool flow_lock_streams(void)
{
	if (!&_IO_list_all || !&_IO_list_lock || !&_IO_list_unlock)
		return false;
	_IO_list_lock();
	return true;
}
#endif

/* A stdio call that may reach the kernel. */
struct flow {
	struct request request;
	FILE *stream;
	size_t pending;   /* bytes waiting to be written, before the call */
	size_t ahead;     /* bytes waiting to be read, before the call */
	off_t position;   /* the kernel's, before the call; only where needed */
	size_t refilled;  /* bytes of the last refill, before the call */
	bool steps_back;  /* it may have read ahead, and a write goes where the job is */
	int64_t account;  /* of a file that is not recorded: the kernel's count, where needed */
};

/* Before the real call. */
struct flow flow_begin(FILE *stream);

/* The same, for a call that does not tell how many bytes it takes. */
struct flow flow_begin_unknown(FILE *stream, enum record_op op);

/* Before a read that tells how many bytes it takes. */
struct flow flow_begin_read(FILE *stream);

/* After a call that put `accepted` bytes in the buffer; UNKNOWN: it did not say. */
void flow_wrote(struct flow flow, size_t accepted);

/* After a read that took `taken` bytes; UNKNOWN: it did not say. */
void flow_read(struct flow flow, size_t taken);

/* After a call that failed. */
void flow_failed(struct flow flow, enum record_op op, size_t length);

static inline bool flow_is_recorded(struct flow flow)
{
	return flow.request.file && flow.request.file->kind == FILE_RECORDED;
}

/* Record that the kernel moved `length` bytes at `offset`, if it did. */
void flow_append(struct flow flow, enum record_op op, off_t offset, off_t length);

/*
 * Claim what lies between the position that was last seen and `now`: each
 * byte once, whichever thread asks. With a position that others move too, or
 * a stream that stepped back from what it had read ahead, only `moved`, the
 * bytes of this call, can be told.
 */
void flow_append_moved(struct flow flow, enum record_op op, off_t now, off_t moved);

#endif
