/* SPDX-License-Identifier: MIT */
/* The size of a file, its allocation, and what is said about its use. */
#include "names.h"
#include "real.h"
#include "request.h"

static struct record truncate_record(off_t bytes)
{
	return (struct record){.offset = -1, .length = bytes, .op = OP_TRUNCATE};
}

#define TRUNCATE(name)                                                        \
	EXPORT int name(int fd, off_t bytes)                                  \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return request_done(request, truncate_record(bytes),          \
				    real.name(fd, bytes));                    \
	}

#define TRUNCATE_PATH(name)                                                   \
	EXPORT int name(const char *path, off_t bytes)                        \
	{                                                                     \
		struct naming naming = naming_begin(OP_TRUNCATE);             \
                                                                              \
		naming.record.length = bytes;                                 \
		return naming_end(naming, AT_FDCWD, path, real.name(path, bytes)); \
	}

TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)
TRUNCATE_PATH(truncate)
TRUNCATE_PATH(truncate64)

static struct record range_record(enum record_op op, off_t offset, off_t bytes, int flags)
{
	return (struct record){.offset = offset,
			       .length = bytes,
			       .flags = (uint32_t)flags,
			       .offset_source = OFFSET_ARGUMENT,
			       .op = (uint16_t)op};
}

#define ALLOCATE(name)                                                        \
	EXPORT int name(int fd, int mode, off_t offset, off_t bytes)          \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return request_done(request,                                  \
				    range_record(OP_ALLOCATE, offset, bytes, mode), \
				    real.name(fd, mode, offset, bytes));      \
	}

ALLOCATE(fallocate)
ALLOCATE(fallocate64)

/* These return the error, and leave errno alone. */
static int done_with_error(struct request request, struct record record, int error)
{
	int saved_errno = errno;

	errno = error;
	request_done(request, record, error ? -1 : 0);
	errno = saved_errno;
	return error;
}

#define POSIX_ALLOCATE(name)                                                  \
	EXPORT int name(int fd, off_t offset, off_t bytes)                    \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return done_with_error(request,                               \
				       range_record(OP_ALLOCATE, offset, bytes, 0), \
				       real.name(fd, offset, bytes));         \
	}

#define ADVISE(name)                                                          \
	EXPORT int name(int fd, off_t offset, off_t bytes, int advice)        \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return done_with_error(request,                               \
				       range_record(OP_ADVISE, offset, bytes, advice), \
				       real.name(fd, offset, bytes, advice)); \
	}

POSIX_ALLOCATE(posix_fallocate)
POSIX_ALLOCATE(posix_fallocate64)
ADVISE(posix_fadvise)
ADVISE(posix_fadvise64)

EXPORT ssize_t readahead(int fd, off_t offset, size_t bytes)
{
	struct request request = request_begin(fd);

	return request_done(request, range_record(OP_ADVISE, offset, (off_t)bytes, POSIX_FADV_WILLNEED),
			    (int)real.readahead(fd, offset, bytes));
}
