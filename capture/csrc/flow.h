/* SPDX-License-Identifier: MIT */
/*
 * Streams of libc. Their reads and writes never leave libc by a name, so they
 * are told from outside: by how full the buffer is around each call, and by
 * where the kernel's position has come to. One record may stand for several
 * system calls of one stdio call. What calls that are not wrapped (fprintf,
 * getc, ...) moved is found by the next wrapped one, fclose at the latest.
 */
#ifndef IOTRACE_FLOW_H
#define IOTRACE_FLOW_H

#include "request.h"

#include <stdio.h>
#include <stdio_ext.h>

/* The fields of glibc's FILE are part of its ABI; elsewhere these reads stay unseen. */
#ifdef __GLIBC__
static inline int flow_descriptor(FILE *stream)
{
	return stream->_fileno; /* fileno() would set errno for a stream without one */
}

/* Bytes that can be read without the kernel, and all bytes of the last refill. */
static inline size_t flow_bytes_ahead(FILE *stream)
{
	return (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
}

static inline size_t flow_bytes_refilled(FILE *stream)
{
	return (size_t)(stream->_IO_read_end - stream->_IO_read_base);
}

/* How far the kernel's position is from where pending bytes will go: it read ahead. */
static inline off_t flow_step_to_pending(FILE *stream)
{
	return stream->_IO_write_base - stream->_IO_read_end;
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

static inline off_t flow_step_to_pending(FILE *stream)
{
	(void)stream;
	return 0;
}
#endif

/* A stdio call that may reach the kernel. */
struct flow {
	struct request request;
	FILE *stream;
	size_t pending;   /* bytes waiting to be written, before the call */
	off_t position;   /* the kernel's, before the call; only where needed */
	size_t refilled;  /* bytes of the last refill, before the call */
};

/* Before the real call. */
struct flow flow_begin(FILE *stream);

/* After a call that put `accepted` bytes in the buffer. */
void flow_wrote(struct flow flow, size_t accepted);

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
