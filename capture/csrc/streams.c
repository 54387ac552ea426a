/* SPDX-License-Identifier: MIT */
/* Reads, writes and seeks of streams. */
#include "flow.h"

#include <string.h>

#include "real.h"

#undef fread_unlocked /* macros of <stdio.h> when optimising */
#undef fwrite_unlocked

#define WRITE_STREAM(name)                                                    \
	EXPORT size_t name(const void *buffer, size_t bytes, size_t count, FILE *stream) \
	{                                                                     \
		struct flow flow = flow_begin(stream);                        \
		size_t written = real.name(buffer, bytes, count, stream);     \
                                                                              \
		flow_wrote(flow, written * bytes);                            \
		if (unlikely(written != count && bytes))                      \
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

	if (!capture_is_on || wanted <= flow_bytes_ahead(stream))
		return flow;
	flow = flow_begin(stream);
	if (flow_is_recorded(flow))
		flow.position = raw_position(flow.request.fd);
	return flow;
}

static void read_end(struct flow flow, size_t got)
{
	off_t now;

	if (!flow.request.file)
		return;
	if (!flow_is_recorded(flow)) {
		flow_append(flow, OP_READ, -1, (off_t)got);
		return;
	}
	now = raw_position(flow.request.fd);
	flow_append_moved(flow, OP_READ, now, now - flow.position);
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
		else if (flow_is_recorded(flow)) /* a stream that read has stepped back */ \
			flow.request.file->position = raw_position(flow.request.fd); \
		return result;                                                \
	}

FLUSH(fflush)
FLUSH(fflush_unlocked)

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
