/* SPDX-License-Identifier: MIT */
/* Streams that are opened and closed, by the job or at its exit. */
#include "streams.h"

#include "close.h"
#include "flow.h"
#include "open.h"
#include "real.h"

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
		opening_end(opening, stream ? flow_descriptor(stream) : -1);    \
		return stream;                                                \
	}

OPEN_STREAM(fopen)
OPEN_STREAM(fopen64)
OPEN_STREAM(_IO_fopen)

#define OPEN_DESCRIPTOR(name)                                                 \
	EXPORT FILE *name(int fd, const char *mode)                           \
	{                                                                     \
		FILE *stream = real.name(fd, mode);                           \
		struct open_file *file = capture_is_on && stream ? descriptor_known(fd) : NULL; \
                                                                              \
		if (file && file->kind == FILE_RECORDED && mode[0] == 'a')    \
			atomic_fetch_or(&file->flags, O_APPEND);              \
		return stream;                                                \
	}

OPEN_DESCRIPTOR(fdopen)
OPEN_DESCRIPTOR(_IO_fdopen)

/* Where the pending bytes will go: to the end of a file that is appended to. */
static off_t pending_position(struct flow flow)
{
	struct inode inode;

	if (flow.request.file->flags & O_APPEND && inode_of_descriptor(flow.request.fd, &inode) == 0)
		return inode.bytes;
	return raw_position(flow.request.fd) + flow_step_to_pending(flow.stream);
}

/* Bytes taken from the pending ones were recorded ahead at exit, as far as foreseen. */
static off_t not_foreseen(struct open_file *file, off_t moved)
{
	off_t foreseen = atomic_exchange(&file->foreseen, 0);

	return moved > foreseen ? moved - foreseen : 0;
}

/* What earlier calls moved unseen; which way is told by what the stream may do. */
static void append_unseen(struct flow flow)
{
	struct open_file *file = flow.request.file;
	bool writes = (file->flags & O_ACCMODE) == O_WRONLY || __fwriting(flow.stream);

	if (!open_file_is_queried(file, flow.request.fd))
		flow_append_moved(flow, writes ? OP_WRITE : OP_READ, raw_position(flow.request.fd), 0);
}

/* Before a close: the stream is gone after it. `flush`: of a wide one, which is then done already. */
static struct flow drain_begin(FILE *stream, int (*flush)(FILE *))
{
	struct flow flow;

	if (flow_is_wide(stream)) { /* as bytes it can be counted */
		flow = flow_begin_unknown(stream, OP_WRITE);
		if (flush(stream) != 0)
			flow_failed(flow, OP_WRITE, UNKNOWN);
		flow_wrote(flow, UNKNOWN);
	}
	flow = flow_begin(stream);
	if (!flow_is_recorded(flow))
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
				.offset_source = OFFSET_INFERRED,
				.op = OP_WRITE};

	if (number && flow.pending)
		log_append(&record, NULL, 0);
	else if (!number && flow.request.file)
		flow_append(flow, OP_WRITE, -1, (off_t)flow.pending);
}

#define CLOSE_STREAM(name)                                                    \
	EXPORT int name(FILE *stream)                                         \
	{                                                                     \
		struct closing closing;                                       \
		struct flow flow;                                             \
		int result;                                                   \
                                                                              \
		if (!capture_is_on || log_is_borrowed() || flow_descriptor(stream) < 0) \
			return real.name(stream);                             \
		flow = drain_begin(stream, real.fflush);                      \
		closing = closing_begin(flow.request.fd);                     \
		if (closing.left) /* where the close leaves the position is up to libc */ \
			flow.request.file->queried = 1;                       \
		result = real.name(stream);                                   \
		drain_end(flow, closing.number, result == EOF ? -errno : 0);  \
		closing_end(closing, API_STDIO, result == EOF ? -errno : 0);  \
		return result;                                                \
	}

CLOSE_STREAM(fclose)
CLOSE_STREAM(_IO_fclose)
CLOSE_STREAM(pclose)
CLOSE_STREAM(endmntent)

/* glibc closes the old file and gives the new one its number. */
#define REOPEN_STREAM(name)                                                   \
	EXPORT FILE *name(const char *path, const char *mode, FILE *stream)   \
	{                                                                     \
		struct opening opening;                                       \
		struct closing closing;                                       \
		struct flow flow;                                             \
		FILE *result;                                                 \
                                                                              \
		if (!capture_is_on || log_is_borrowed() || flow_descriptor(stream) < 0) \
			return real.name(path, mode, stream);                 \
		flow = drain_begin(stream, real.fflush);                      \
		closing = closing_begin(flow.request.fd);                     \
		opening = stream_opening(path, mode);                         \
		result = real.name(path, mode, stream);                       \
		drain_end(flow, closing.number, 0);                           \
		closing_end(closing, API_STDIO, 0);                           \
		if (path) /* without one, the new open is seen when it is used */ \
			opening_end(opening, result ? flow_descriptor(result) : -1); \
		return result;                                                \
	}

REOPEN_STREAM(freopen)
REOPEN_STREAM(freopen64)

/* --- exit -------------------------------------------------------------- */

#ifdef __GLIBC__
void streams_end(void)
{
	if (!flow_lock_streams())
		return;
	for (FILE *stream = _IO_list_all; stream; stream = stream->_chain) {
		struct open_file *file = descriptor_known(stream->_fileno);
		struct flow flow;

		if (!file || file->kind != FILE_RECORDED)
			continue;
		flow = drain_begin(stream, real.fflush_unlocked); /* as libc: no waiting at an exit */
		drain_end(flow, request_known_number(file), 0);
		if (flow.pending)
			file->position = flow.position + (off_t)flow.pending;
		file->foreseen = (int64_t)flow.pending;
	}
	_IO_list_unlock();
}
#else
void streams_end(void)
{
}
#endif
