/* SPDX-License-Identifier: MIT */
/* What makes streams write what they hold: flushes, seeks, other buffers. */
#include "flow.h"

#include "real.h"

static struct flow flush_begin(FILE *stream)
{
	return flow_is_wide(stream) ? flow_begin_unknown(stream, OP_WRITE) : flow_begin(stream);
}

/* After a flush the kernel's position is the stream's own, whoever moved it. */
static void flush_end(struct flow flow, bool failed)
{
	off_t now;

	if (!flow.request.file)
		return;
	flow_wrote(flow, flow_is_wide(flow.stream) ? UNKNOWN : 0);
	if (unlikely(failed)) {
		flow_failed(flow, OP_WRITE, flow.pending);
	} else if (flow_is_recorded(flow)) {
		now = raw_position(flow.request.fd);
		if (__fwriting(flow.stream) && !open_file_is_queried(flow.request.file, flow.request.fd))
			flow_append_moved(flow, OP_WRITE, now, 0);
		else /* a stream that read has stepped back */
			flow.request.file->position = now;
	}
}

/* All streams that hold something, one by one, as libc does it itself. */
static void flush_all(void)
{
#ifdef __GLIBC__
	FILE *stream;

	if (!capture_is_on || !flow_lock_streams())
		return;
	for (stream = _IO_list_all; stream; stream = stream->_chain) {
		struct flow flow;

		if (!__fwriting(stream) || !__fpending(stream))
			continue;
		flow = flush_begin(stream);
		flush_end(flow, real.fflush(stream) != 0);
	}
	_IO_list_unlock();
#endif
}

#define FLUSH(name)                                                           \
	EXPORT int name(FILE *stream)                                         \
	{                                                                     \
		struct flow flow;                                             \
		int result;                                                   \
                                                                              \
		if (!stream) {                                                \
			flush_all();                                          \
			return real.name(stream);                             \
		}                                                             \
		flow = flush_begin(stream);                                   \
		result = real.name(stream);                                   \
		flush_end(flow, result != 0);                                 \
		return result;                                                \
	}

FLUSH(fflush)
FLUSH(fflush_unlocked)
FLUSH(_IO_fflush)

#define SETTING(type, name, parameters, arguments)                            \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		struct flow flow = flush_begin(stream);                       \
		type result = real.name arguments;                            \
                                                                              \
		flush_end(flow, false);                                       \
		return result;                                                \
	}

FOR_EACH_STREAM_SETTING(SETTING)

#define VOID_SETTING(type, name, parameters, arguments)                       \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		struct flow flow = flush_begin(stream);                       \
                                                                              \
		real.name arguments;                                          \
		flush_end(flow, false);                                       \
	}

FOR_EACH_VOID_STREAM_SETTING(VOID_SETTING)

EXPORT void _flushlbf(void)
{
	flush_all();
}

/* A seek writes what is pending, then may read a block around its target. */
static struct flow seek_begin(FILE *stream)
{
	struct flow flow = flow_begin(stream);

	if (!flow_is_recorded(flow))
		return flow;
	flow.position = raw_position(flow.request.fd);
	flow.refilled = flow_bytes_refilled(stream);
	if (!open_file_is_queried(flow.request.file, flow.request.fd))
		flow_append_moved(flow, flow.pending ? OP_WRITE : OP_READ, flow.position, 0);
	if (flow.pending)
		flow.position += flow_step_to_pending(stream);
	return flow;
}

static void seek_end(struct flow flow)
{
	off_t written, now, refilled;

	if (!flow_is_recorded(flow))
		return;
	written = (off_t)flow.pending - (off_t)__fpending(flow.stream);
	if (written > 0)
		flow_append(flow, OP_WRITE, flow.position, written);
	else
		written = 0;
	now = raw_position(flow.request.fd);
	refilled = (off_t)flow_bytes_refilled(flow.stream);
	if (refilled > 0 && (now != flow.position + written || refilled != (off_t)flow.refilled))
		flow_append(flow, OP_READ, now - refilled, refilled);
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
