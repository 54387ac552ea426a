/* SPDX-License-Identifier: MIT */
/* Seeks are no requests; they say where the next read or write goes. */
#include "real.h"
#include "request.h"

static off_t moved_to(int fd, off_t result)
{
	struct open_file *file;

	if (!capture_is_on || result < 0)
		return result;
	file = descriptor_known(fd); /* one resolved later asks for the position anyway */
	if (file && file->kind == FILE_RECORDED)
		atomic_store_explicit(&file->position, result, memory_order_relaxed);
	return result;
}

#define SEEK(name)                                                            \
	EXPORT off_t name(int fd, off_t offset, int whence)                   \
	{                                                                     \
		return moved_to(fd, real.name(fd, offset, whence));           \
	}

SEEK(lseek)
SEEK(__lseek)
SEEK(lseek64)
