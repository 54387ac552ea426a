/* SPDX-License-Identifier: MIT */
/* Calls that move bytes between two descriptors: a read of one and a write of the other. */
#include "real.h"
#include "request.h"

/* `offset` is the caller's, which the kernel has moved on by now; NULL: at the position. */
static void transferred(struct request request, enum record_op op, const off_t *offset,
			size_t bytes, ssize_t result)
{
	if (!offset)
		request_move(request, op, NULL, bytes, result);
	else /* after a failure it may not even be readable */
		request_at(request, op, NULL, bytes, result < 0 ? -1 : *offset - result, result);
}

static struct request begin(int fd, const off_t *offset)
{
	return offset ? request_begin(fd) : request_begin_move(fd);
}

#define TRANSFER(name)                                                        \
	EXPORT ssize_t name(int in, off_t *in_offset, int out, off_t *out_offset, \
			    size_t bytes, unsigned int flags)                 \
	{                                                                     \
		struct request from = begin(in, in_offset), to = begin(out, out_offset); \
		ssize_t result = real.name(in, in_offset, out, out_offset, bytes, flags); \
                                                                              \
		transferred(from, OP_READ, in_offset, bytes, result);         \
		transferred(to, OP_WRITE, out_offset, bytes, result);         \
		return result;                                                \
	}

TRANSFER(copy_file_range)
TRANSFER(splice)

#define SEND(name)                                                            \
	EXPORT ssize_t name(int out, int in, off_t *offset, size_t bytes)     \
	{                                                                     \
		struct request from = begin(in, offset), to = begin(out, NULL); \
		ssize_t result = real.name(out, in, offset, bytes);           \
                                                                              \
		transferred(from, OP_READ, offset, bytes, result);            \
		transferred(to, OP_WRITE, NULL, bytes, result);               \
		return result;                                                \
	}

SEND(sendfile)
SEND(sendfile64)
