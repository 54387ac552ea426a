/* SPDX-License-Identifier: MIT */
/* Reads and writes of one descriptor. */
#include "memory.h"
#include "real.h"
#include "request.h"

/* The parts were valid if the kernel took them; looking at them otherwise could fault. */
static size_t length_of(const struct iovec *parts, int count, ssize_t result)
{
	size_t length = 0;
	uint64_t first;

	if (unlikely(result < 0))
		return count < 0 ? (size_t)-1 :
				   (size_t)memory_parts_bytes(parts, (uint32_t)count, &first);
	for (int i = 0; i < count; i++)
		length += parts[i].iov_len;
	return length;
}

static const void *first_of(const struct iovec *parts, int count, ssize_t result)
{
	return result >= 0 && count > 0 ? parts->iov_base : NULL;
}

static ssize_t vector_move(struct request request, enum record_op op, const struct iovec *parts,
			   int count, ssize_t result)
{
	return request_move(request, op, first_of(parts, count, result),
			    length_of(parts, count, result), result);
}

static ssize_t vector_at(struct request request, enum record_op op, const struct iovec *parts,
			 int count, off_t offset, ssize_t result)
{
	if (offset == -1) /* preadv2 and pwritev2: at the position */
		return vector_move(request, op, parts, count, result);
	return request_at(request, op, first_of(parts, count, result),
			  length_of(parts, count, result), offset, result);
}

#define MOVE(name, op, pointer)                                               \
	EXPORT ssize_t name(int fd, pointer buffer, size_t bytes)             \
	{                                                                     \
		struct request request = request_begin_move(fd);              \
                                                                              \
		return request_move(request, op, buffer, bytes,               \
				    real.name(fd, buffer, bytes));            \
	}

#define AT(name, op, pointer)                                                 \
	EXPORT ssize_t name(int fd, pointer buffer, size_t bytes, off_t offset) \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return request_at(request, op, buffer, bytes, offset,         \
				  real.name(fd, buffer, bytes, offset));      \
	}

#define VECTOR_MOVE(name, op)                                                 \
	EXPORT ssize_t name(int fd, const struct iovec *parts, int count)     \
	{                                                                     \
		struct request request = request_begin_move(fd);              \
                                                                              \
		return vector_move(request, op, parts, count,                 \
				   real.name(fd, parts, count));              \
	}

#define VECTOR_AT(name, op)                                                   \
	EXPORT ssize_t name(int fd, const struct iovec *parts, int count, off_t offset) \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return vector_at(request, op, parts, count, offset,           \
				 real.name(fd, parts, count, offset));        \
	}

#define VECTOR_AT_FLAGS(name, op)                                             \
	EXPORT ssize_t name(int fd, const struct iovec *parts, int count,     \
			    off_t offset, int flags)                          \
	{                                                                     \
		struct request request =                                      \
			offset == -1 ? request_begin_move(fd) : request_begin(fd); \
                                                                              \
		request.rw_flags = (uint32_t)flags;                           \
		return vector_at(request, op, parts, count, offset,           \
				 real.name(fd, parts, count, offset, flags)); \
	}

MOVE(read, OP_READ, void *)
MOVE(__read, OP_READ, void *)
MOVE(write, OP_WRITE, const void *)
MOVE(__write, OP_WRITE, const void *)

AT(pread, OP_READ, void *)
AT(pread64, OP_READ, void *)
AT(__pread64, OP_READ, void *)
AT(pwrite, OP_WRITE, const void *)
AT(pwrite64, OP_WRITE, const void *)
AT(__pwrite64, OP_WRITE, const void *)

VECTOR_MOVE(readv, OP_READ)
VECTOR_MOVE(writev, OP_WRITE)

VECTOR_AT(preadv, OP_READ)
VECTOR_AT(preadv64, OP_READ)
VECTOR_AT(pwritev, OP_WRITE)
VECTOR_AT(pwritev64, OP_WRITE)

VECTOR_AT_FLAGS(preadv2, OP_READ)
VECTOR_AT_FLAGS(preadv64v2, OP_READ)
VECTOR_AT_FLAGS(pwritev2, OP_WRITE)
VECTOR_AT_FLAGS(pwritev64v2, OP_WRITE)

/* What _FORTIFY_SOURCE makes of them. */
EXPORT ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room)
{
	struct request request = request_begin_move(fd);

	return request_move(request, OP_READ, buffer, bytes,
			    real.__read_chk(fd, buffer, bytes, room));
}

#define AT_CHECKED(name)                                                      \
	EXPORT ssize_t name(int fd, void *buffer, size_t bytes, off_t offset, size_t room) \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return request_at(request, OP_READ, buffer, bytes, offset,    \
				  real.name(fd, buffer, bytes, offset, room)); \
	}

AT_CHECKED(__pread_chk)
AT_CHECKED(__pread64_chk)
