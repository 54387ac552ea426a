/* SPDX-License-Identifier: MIT */
/*
 * Seeks are no requests; they say where the next read or write goes. One of several threads at a
 * position is told to the reader of the log: it may come before or after what others do meanwhile.
 */
#include "real.h"
#include "request.h"

struct seek {
	struct open_file *file; /* NULL: moves no position that is followed */
	uint64_t start_ns;
	int fd;
};

static struct seek seek_begin(int fd, off_t offset, int whence)
{
	struct seek seek = {.fd = fd};
	struct open_file *file;

	if (!capture_is_on || (whence == SEEK_CUR && !offset)) /* that one only asks */
		return seek;
	file = descriptor_known(fd); /* one resolved later asks for the position anyway */
	if (!file || file->kind != FILE_RECORDED)
		return seek;
	seek.file = file;
	if (unlikely(request_position_has_users(file)))
		file->queried = 1; /* where the others are then only the kernel knows */
	seek.start_ns = now_ns();
	return seek;
}

static __attribute__((noinline)) void tell(struct seek seek, off_t result)
{
	struct record record = {.start_ns = seek.start_ns,
				.end_ns = now_ns(),
				.offset = result,
				.length = -1,
				.file = request_file_number(seek.file, seek.fd),
				.api = API_POSIX,
				.op = OP_SEEK};

	if (record.file)
		log_append(&record, NULL, 0);
	else
		log_drop();
}

static off_t seek_end(struct seek seek, off_t result)
{
	if (!seek.file || result < 0)
		return result;
	if (unlikely(atomic_load_explicit(&seek.file->has_users, memory_order_relaxed))) {
		seek.file->queried = 1; /* the second user may have come meanwhile */
		if (!request_is_paused())
			tell(seek, result);
	}
	atomic_store_explicit(&seek.file->position, result, memory_order_relaxed);
	return result;
}

#define SEEK(name)                                                            \
	EXPORT off_t name(int fd, off_t offset, int whence)                   \
	{                                                                     \
		struct seek seek = seek_begin(fd, offset, whence);            \
                                                                              \
		return seek_end(seek, real.name(fd, offset, whence));         \
	}

SEEK(lseek)
SEEK(__lseek)
SEEK(lseek64)
