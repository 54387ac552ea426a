/* SPDX-License-Identifier: MIT */
#include "flow.h"

#include "proc_files.h"

struct flow flow_begin(FILE *stream)
{
	struct flow flow = {.stream = stream, .request = {.fd = flow_descriptor(stream)},
			    .position = -1, .account = -1};

	if (!capture_is_on || flow.request.fd < 0)
		return flow;
	flow.request = request_begin(flow.request.fd);
	flow.pending = flow_is_wide(stream) ? 0 : __fpending(stream);
	flow.steps_back = flow_is_wide(stream) || flow_step_to_pending(stream);
	return flow;
}

/* What the kernel has counted for this thread; -1: it does not. Its own read counts in the end. */
static int64_t account(enum record_op op, int64_t *own)
{
	char text[512] = "\n"; /* the label is looked for with the newline before it */
	uint64_t read;

	if (proc_read("/proc/thread-self/io", text + 1, sizeof(text) - 2, &read) <= 0)
		return -1;
	*own = op == OP_READ ? (int64_t)read : 0;
	return proc_number(text, op == OP_READ ? "\nrchar: " : "\nwchar: ");
}

struct flow flow_begin_unknown(FILE *stream, enum record_op op)
{
	struct flow flow = flow_begin(stream);
	int64_t own = 0;

	if (flow_is_recorded(flow))
		flow.position = raw_position(flow.request.fd);
	else if (flow.request.file)
		flow.account = account(op, &own) + own;
	return flow;
}

struct flow flow_begin_read(FILE *stream)
{
	struct flow flow = flow_begin(stream);

	flow.ahead = flow_bytes_ahead(stream);
	if (flow_is_recorded(flow))
		flow.position = raw_position(flow.request.fd);
	return flow;
}

void flow_append(struct flow flow, enum record_op op, off_t offset, off_t length)
{
	struct record record = {.start_ns = flow.request.start_ns,
				.end_ns = now_ns(),
				.offset = offset,
				.length = length,
				.result = length,
				.api = API_STDIO,
				.offset_source = OFFSET_INFERRED,
				.op = (uint16_t)op};

	if (flow.request.file && length > 0)
		request_moved(flow.request.file, flow.request.fd, &record);
}

void flow_append_moved(struct flow flow, enum record_op op, off_t now, off_t moved)
{
	struct open_file *file = flow.request.file;
	int64_t seen = atomic_load(&file->position);
	bool stepped_back = op == OP_WRITE && flow.steps_back && now - seen < moved;

	if (stepped_back || open_file_is_queried(file, flow.request.fd)) {
		file->position = now;
		flow_append(flow, op, now - moved, moved);
		return;
	}
	while (now > seen && !atomic_compare_exchange_weak(&file->position, &seen, now))
		;
	flow_append(flow, op, seen, now - seen); /* nothing, if others were asked later and are done */
}

/* Of a call that does not tell what it moved: how far the kernel went, or what it counted. */
static void moved_unknown(struct flow flow, enum record_op op)
{
	off_t drained = (off_t)flow.pending - (off_t)__fpending(flow.stream);
	off_t now, moved = drained > 0 ? drained : 0;
	int64_t own;

	if (flow_is_recorded(flow)) {
		now = raw_position(flow.request.fd);
		if (flow.position >= 0)
			moved = now - flow.position;
		flow_append_moved(flow, op, now, moved);
		return;
	}
	if (flow.account >= 0)
		moved = account(op, &own) - flow.account;
	flow_append(flow, op, -1, moved);
}

void flow_wrote(struct flow flow, size_t accepted)
{
	off_t moved;

	if (!flow.request.file)
		return;
	if (accepted == UNKNOWN) {
		moved_unknown(flow, OP_WRITE);
		return;
	}
	moved = (off_t)(flow.pending + accepted) - (off_t)__fpending(flow.stream);
	if (moved <= 0)
		return;
	if (flow_is_recorded(flow))
		flow_append_moved(flow, OP_WRITE, raw_position(flow.request.fd), moved);
	else
		flow_append(flow, OP_WRITE, -1, moved);
}

void flow_read(struct flow flow, size_t taken)
{
	off_t now;

	if (!flow.request.file)
		return;
	if (flow_is_recorded(flow)) {
		now = raw_position(flow.request.fd);
		flow_append_moved(flow, OP_READ, now, now - flow.position);
	} else if (taken == UNKNOWN) {
		moved_unknown(flow, OP_READ);
	} else {
		now = (off_t)(taken + flow_bytes_ahead(flow.stream)) - (off_t)flow.ahead;
		flow_append(flow, OP_READ, -1, now);
	}
}

void flow_failed(struct flow flow, enum record_op op, size_t length)
{
	struct record record = {.length = (int64_t)length, .api = API_STDIO,
				.offset_source = OFFSET_INFERRED, .op = (uint16_t)op};

	if (!flow_is_recorded(flow))
		return;
	record.offset = raw_position(flow.request.fd);
	request_done(flow.request, record, -1);
}
