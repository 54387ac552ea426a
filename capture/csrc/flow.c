/* SPDX-License-Identifier: MIT */
#include "flow.h"

struct flow flow_begin(FILE *stream)
{
	struct flow flow = {.stream = stream, .request = {.fd = flow_descriptor(stream)}};

	if (!capture_is_on || flow.request.fd < 0)
		return flow;
	flow.request = request_begin(flow.request.fd);
	flow.pending = __fpending(stream);
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
				.offset_source = OFFSET_QUERIED,
				.op = (uint16_t)op};

	if (flow.request.file && length > 0)
		request_moved(flow.request.file, flow.request.fd, &record);
}

void flow_append_moved(struct flow flow, enum record_op op, off_t now, off_t moved)
{
	struct open_file *file = flow.request.file;
	off_t seen = atomic_exchange(&file->position, now);
	bool stepped_back = (file->flags & O_ACCMODE) == O_RDWR && now - seen < moved;

	if (stepped_back || open_file_is_queried(file, flow.request.fd))
		flow_append(flow, op, now - moved, moved);
	else
		flow_append(flow, op, seen, now - seen);
}

void flow_wrote(struct flow flow, size_t accepted)
{
	off_t moved;

	if (!flow.request.file)
		return;
	moved = (off_t)(flow.pending + accepted) - (off_t)__fpending(flow.stream);
	if (moved <= 0)
		return;
	if (flow_is_recorded(flow))
		flow_append_moved(flow, OP_WRITE, raw_position(flow.request.fd), moved);
	else
		flow_append(flow, OP_WRITE, -1, moved);
}

void flow_failed(struct flow flow, enum record_op op, size_t length)
{
	struct record record = {.offset = -1, .length = (int64_t)length, .api = API_STDIO,
				.op = (uint16_t)op};

	if (flow.request.file)
		request_done(flow.request, record, -1);
}
