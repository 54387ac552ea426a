/* SPDX-License-Identifier: MIT */
/*
 * Streams of libc. Their reads and writes never leave libc by a name, so they
 * are told from outside: by how full the buffer is around each call, and by
 * where the kernel's position has come to. One record may stand for several
 * system calls of one stdio call. What calls that are not wrapped (fprintf,
 * getc, ...) moved is found by the next wrapped one, fclose at the latest.
 */
#include "streams.h"

#include <stdio_ext.h>
#include <string.h>

#include "close.h"
#include "open.h"
#include "real.h"

#undef fread_unlocked /* macros of <stdio.h> when optimising */
#undef fwrite_unlocked

/* The fields of glibc's FILE are part of its ABI; elsewhere these reads stay unseen. */
#ifdef __GLIBC__
static int descriptor_of(FILE *stream)
{
	return stream->_fileno; /* fileno() would set errno for a stream without one */
}

/* Bytes that can be read without the kernel, and all bytes of the last refill. */
static size_t bytes_ahead(FILE *stream)
{
	return (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
}

static size_t bytes_refilled(FILE *stream)
{
	return (size_t)(stream->_IO_read_end - stream->_IO_read_base);
}

/* How far the kernel's position is from where pending bytes will go: it read ahead. */
static off_t step_to_pending(FILE *stream)
{
	return stream->_IO_write_base - stream->_IO_read_end;
}
#else
static int descriptor_of(FILE *stream)
{
	int saved_errno = errno, fd = fileno(stream);

	errno = saved_errno;
	return fd;
}

static size_t bytes_ahead(FILE *stream)
{
	(void)stream;
	return 0;
}

static size_t bytes_refilled(FILE *stream)
{
	(void)stream;
	return 0;
}

static off_t step_to_pending(FILE *stream)
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

static struct flow flow_begin(FILE *stream)
{
	struct flow flow = {.stream = stream, .request = {.fd = descriptor_of(stream)}};

	if (!capture_is_on || flow.request.fd < 0)
		return flow;
	flow.request = request_begin(flow.request.fd);
	flow.pending = __fpending(stream);
	return flow;
}

static bool is_recorded(struct flow flow)
{
	return flow.request.file && flow.request.file->kind == FILE_RECORDED;
}

static void append(struct flow flow, enum record_op op, off_t offset, off_t length)
{
	struct record record = {.start_ns = flow.request.start_ns,
				.end_ns = now_ns(),
				.offset = offset,
				.length = length,
				.result = length,
				.api = API_STDIO,
				.offset_source = OFFSET_QUERIED,
				.op = (uint16_t)op};

	if (flow.request.file && length > 0)
		request_moved(flow.request.file, flow.request.fd, &record);
}

/*
 * Claim what lies between the position that was last seen and `now`: each
 * byte once, whichever thread asks. With a position that others move too, or
 * a stream that stepped back from what it had read ahead, only `moved`, the
 * bytes of this call, can be told.
 */
static void append_moved(struct flow flow, enum record_op op, off_t now, off_t moved)
{
	struct open_file *file = flow.request.file;
	off_t seen = atomic_exchange(&file->position, now);
	bool stepped_back = (file->flags & O_ACCMODE) == O_RDWR && now - seen < moved;

	if (stepped_back || open_file_is_queried(file, flow.request.fd))
		append(flow, op, now - moved, moved);
	else
		append(flow, op, seen, now - seen);
}

/* Bytes taken from the pending ones were recorded ahead at exit, as far as foreseen. */
static off_t not_foreseen(struct open_file *file, off_t moved)
{
	off_t foreseen = atomic_exchange(&file->foreseen, 0);

	return moved > foreseen ? moved - foreseen : 0;
}

/* After a call that put `accepted` bytes in the buffer. */
static void flow_wrote(struct flow flow, size_t accepted)
{
	off_t moved;

	if (!flow.request.file)
		return;
	moved = (off_t)(flow.pending + accepted) - (off_t)__fpending(flow.stream);
	if (moved <= 0)
		return;
	if (is_recorded(flow))
		append_moved(flow, OP_WRITE, raw_position(flow.request.fd), moved);
	else
		append(flow, OP_WRITE, -1, moved);
}

static void flow_failed(struct flow flow, enum record_op op, size_t length)
{
	struct record record = {.offset = -1, .length = (int64_t)length, .api = API_STDIO,
				.op = (uint16_t)op};

	if (flow.request.file)
		request_done(flow.request, record, -1);
}

#define WRITE_STREAM(name)                                                    \
	EXPORT size_t name(const void *buffer, size_t bytes, size_t count, FILE *stream) \
	{                                                                     \
		struct flow flow = flow_begin(stream);                        \
		size_t written = real.name(buffer, bytes, count, stream);     \
                                                                              \
		flow_wrote(flow, written * bytes);                            \
		if (unlikely(written != count))                               \
			flow_failed(flow, OP_WRITE, bytes * count);           \
		return written;                                               \
	}

WRITE_STREAM(fwrite)
WRITE_STREAM(fwrite_unlocked)

EXPORT int fputs(const char *text, FILE *stream)
{
	struct flow flow = flow_begin(stream);
	int result = real.fputs(text, stream);

	flow_wrote(flow, result < 0 ? 0 : strlen(text));
	return result;
}

static struct flow read_begin(FILE *stream, size_t wanted)
{
	struct flow flow = {.stream = stream};

	if (!capture_is_on || wanted <= bytes_ahead(stream))
		return flow;
	flow = flow_begin(stream);
	if (is_recorded(flow))
		flow.position = raw_position(flow.request.fd);
	return flow;
}

static void read_end(struct flow flow, size_t got)
{
	off_t now;

	if (!flow.request.file)
		return;
	if (!is_recorded(flow)) {
		append(flow, OP_READ, -1, (off_t)got);
		return;
	}
	now = raw_position(flow.request.fd);
	append_moved(flow, OP_READ, now, now - flow.position);
}

#define READ_STREAM(name, parameters, arguments)                              \
	EXPORT size_t name parameters                                         \
	{                                                                     \
		struct flow flow = read_begin(stream, bytes * count);         \
		size_t got = real.name arguments;                             \
                                                                              \
		read_end(flow, got * bytes);                                  \
		return got;                                                   \
	}

READ_STREAM(fread, (void *buffer, size_t bytes, size_t count, FILE *stream),
	    (buffer, bytes, count, stream))
READ_STREAM(fread_unlocked, (void *buffer, size_t bytes, size_t count, FILE *stream),
	    (buffer, bytes, count, stream))
READ_STREAM(__fread_chk, (void *buffer, size_t room, size_t bytes, size_t count, FILE *stream),
	    (buffer, room, bytes, count, stream))
READ_STREAM(__fread_unlocked_chk,
	    (void *buffer, size_t room, size_t bytes, size_t count, FILE *stream),
	    (buffer, room, bytes, count, stream))

#define FLUSH(name)                                                           \
	EXPORT int name(FILE *stream)                                         \
	{                                                                     \
		struct flow flow;                                             \
		int result;                                                   \
                                                                              \
		if (!stream)                                                  \
			return real.name(stream);                             \
		flow = flow_begin(stream);                                    \
		result = real.name(stream);                                   \
		flow_wrote(flow, 0);                                          \
		if (unlikely(result))                                         \
			flow_failed(flow, OP_WRITE, flow.pending);            \
		else if (is_recorded(flow)) /* a stream that read has stepped back */ \
			flow.request.file->position = raw_position(flow.request.fd); \
		return result;                                                \
	}

FLUSH(fflush)
FLUSH(fflush_unlocked)

/* A seek writes what is pending, then may read a block around its target. */
static struct flow seek_begin(FILE *stream)
{
	struct flow flow = flow_begin(stream);

	if (!is_recorded(flow))
		return flow;
	flow.position = raw_position(flow.request.fd);
	flow.refilled = bytes_refilled(stream);
	if (!open_file_is_queried(flow.request.file, flow.request.fd))
		append_moved(flow, flow.pending ? OP_WRITE : OP_READ, flow.position, 0);
	if (flow.pending)
		flow.position += step_to_pending(stream);
	return flow;
}

static void seek_end(struct flow flow)
{
	off_t written, now, refilled;

	if (!is_recorded(flow))
		return;
	written = (off_t)flow.pending - (off_t)__fpending(flow.stream);
	if (written > 0)
		append(flow, OP_WRITE, flow.position, written);
	else
		written = 0;
	now = raw_position(flow.request.fd);
	refilled = (off_t)bytes_refilled(flow.stream);
	if (refilled > 0 && (now != flow.position + written || refilled != (off_t)flow.refilled))
		append(flow, OP_READ, now - refilled, refilled);
	flow.request.file->position = now;
}

#define SEEK_STREAM(name, offset_type)                                        \
	EXPORT int name(FILE *stream, offset_type offset, int whence)         \
	{                                                                     \
		struct flow flow = seek_begin(stream);                        \
		int result = real.name(stream, offset, whence);               \
                                                                              \
		seek_end(flow);                                               \
		return result;                                                \
	}

SEEK_STREAM(fseek, long)
SEEK_STREAM(fseeko, off_t)
SEEK_STREAM(fseeko64, off_t)

EXPORT void rewind(FILE *stream)
{
	struct flow flow = seek_begin(stream);

	real.rewind(stream);
	seek_end(flow);
}

#define SET_POSITION(name, position_type)                                     \
	EXPORT int name(FILE *stream, const position_type *position)          \
	{                                                                     \
		struct flow flow = seek_begin(stream);                        \
		int result = real.name(stream, position);                     \
                                                                              \
		seek_end(flow);                                               \
		return result;                                                \
	}

SET_POSITION(fsetpos, fpos_t)
SET_POSITION(fsetpos64, fpos64_t)

/* --- open and close ---------------------------------------------------- */

static int flags_of(const char *mode)
{
	int flags = mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT;

	if (mode[0] == 'w')
		flags |= O_TRUNC;
	if (mode[0] == 'a')
		flags |= O_APPEND;
	for (mode++; *mode && *mode != ','; mode++) {
		if (*mode == '+')
			flags = (flags & ~O_ACCMODE) | O_RDWR;
		if (*mode == 'x')
			flags |= O_EXCL;
		if (*mode == 'e')
			flags |= O_CLOEXEC;
	}
	return flags;
}

static struct opening stream_opening(const char *path, const char *mode)
{
	struct opening opening = opening_begin(AT_FDCWD, path, flags_of(mode), 0666);

	opening.api = API_STDIO;
	return opening;
}

#define OPEN_STREAM(name)                                                     \
	EXPORT FILE *name(const char *path, const char *mode)                 \
	{                                                                     \
		struct opening opening = stream_opening(path, mode);          \
		FILE *stream = real.name(path, mode);                         \
                                                                              \
		opening_end(opening, stream ? descriptor_of(stream) : -1);    \
		return stream;                                                \
	}

OPEN_STREAM(fopen)
OPEN_STREAM(fopen64)

EXPORT FILE *fdopen(int fd, const char *mode)
{
	FILE *stream = real.fdopen(fd, mode);
	struct open_file *file = capture_is_on && stream ? descriptor_known(fd) : NULL;

	if (file && file->kind == FILE_RECORDED && mode[0] == 'a')
		atomic_fetch_or(&file->flags, O_APPEND);
	return stream;
}

/* Where the pending bytes will go: to the end of a file that is appended to. */
static off_t pending_position(struct flow flow)
{
	struct inode inode;

	if (flow.request.file->flags & O_APPEND && inode_of_descriptor(flow.request.fd, &inode) == 0)
		return inode.bytes;
	return raw_position(flow.request.fd) + step_to_pending(flow.stream);
}

/* What earlier calls moved unseen; which way is told by what the stream may do. */
static void append_unseen(struct flow flow)
{
	struct open_file *file = flow.request.file;
	bool writes = (file->flags & O_ACCMODE) == O_WRONLY || __fwriting(flow.stream);

	if (!open_file_is_queried(file, flow.request.fd))
		append_moved(flow, writes ? OP_WRITE : OP_READ, raw_position(flow.request.fd), 0);
}

/* Before a close: the stream is gone after it. */
static struct flow drain_begin(FILE *stream)
{
	struct flow flow = flow_begin(stream);

	if (!is_recorded(flow))
		return flow;
	append_unseen(flow);
	if (flow.pending)
		flow.position = pending_position(flow);
	flow.pending = (size_t)not_foreseen(flow.request.file, (off_t)flow.pending);
	if (flow.pending)
		request_file_number(flow.request.file, flow.request.fd);
	return flow;
}

/* The descriptor is out of the table by now: the number was made sure of before. */
static void drain_end(struct flow flow, uint32_t number, int error)
{
	struct record record = {.start_ns = flow.request.start_ns,
				.end_ns = now_ns(),
				.offset = flow.position,
				.length = (int64_t)flow.pending,
				.result = error ? error : (int64_t)flow.pending,
				.file = number,
				.api = API_STDIO,
				.offset_source = OFFSET_QUERIED,
				.op = OP_WRITE};

	if (number && flow.pending)
		log_append(&record, NULL, 0);
	else if (!number && flow.request.file)
		append(flow, OP_WRITE, -1, (off_t)flow.pending);
}

EXPORT int fclose(FILE *stream)
{
	struct closing closing;
	struct flow flow;
	int result;

	if (!capture_is_on || log_is_borrowed() || descriptor_of(stream) < 0)
		return real.fclose(stream);
	flow = drain_begin(stream);
	closing = closing_begin(flow.request.fd);
	if (closing.left) /* where the close leaves the position is up to libc */
		flow.request.file->queried = 1;
	result = real.fclose(stream);
	drain_end(flow, closing.number, result ? -errno : 0);
	closing_end(closing, API_STDIO, result ? -errno : 0);
	return result;
}

/* glibc closes the old file and gives the new one its number. */
#define REOPEN_STREAM(name)                                                   \
	EXPORT FILE *name(const char *path, const char *mode, FILE *stream)   \
	{                                                                     \
		struct opening opening;                                       \
		struct closing closing;                                       \
		struct flow flow;                                             \
		FILE *result;                                                 \
                                                                              \
		if (!capture_is_on || log_is_borrowed() || descriptor_of(stream) < 0) \
			return real.name(path, mode, stream);                 \
		flow = drain_begin(stream);                                   \
		closing = closing_begin(flow.request.fd);                     \
		opening = stream_opening(path, mode);                         \
		result = real.name(path, mode, stream);                       \
		drain_end(flow, closing.number, 0);                           \
		closing_end(closing, API_STDIO, 0);                           \
		if (path) /* without one, the new open is seen when it is used */ \
			opening_end(opening, result ? descriptor_of(result) : -1); \
		return result;                                                \
	}

REOPEN_STREAM(freopen)
REOPEN_STREAM(freopen64)

/* --- exit -------------------------------------------------------------- */

#ifdef __GLIBC__
/* All streams of the process; exported by glibc for debuggers, so it may go one day. */
extern FILE *_IO_list_all __attribute__((weak, visibility("default")));

void streams_end(void)
{
	FILE *stream = &_IO_list_all ? _IO_list_all : NULL;

	for (; stream; stream = stream->_chain) {
		struct open_file *file = descriptor_known(stream->_fileno);
		struct flow flow;

		if (!file || file->kind != FILE_RECORDED)
			continue;
		flow = drain_begin(stream);
		drain_end(flow, request_known_number(file), 0);
		file->position = raw_position(flow.request.fd);
		file->foreseen = (int64_t)flow.pending;
	}
}
#else
void streams_end(void)
{
}
#endif
