/* SPDX-License-Identifier: MIT */
/* Whole files, outside the timed part: fill, check, and what of them is cached. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loop.h"

#define BLOCK_BYTES (4 << 20)
#define WINDOW_BYTES (INT64_C(1) << 30) /* mapped at once when residency is measured */

int loop_fill_file(struct tape *tape, int fd, int64_t offset, int64_t length, int32_t file,
		   int64_t payload_offset)
{
	int64_t most = min64(BLOCK_BYTES, tape_span(tape));

	while (length > 0) {
		const uint8_t *source = tape_source(tape, file, payload_offset);
		ssize_t moved = pwrite(fd, source, min64(length, most), offset);

		if (moved < 0 && errno == EINTR)
			continue;
		if (moved <= 0)
			return moved ? -errno : -EIO;
		offset += moved;
		payload_offset += moved;
		length -= moved;
	}
	return 0;
}

int loop_check_file(struct tape *tape, int fd, int64_t offset, int64_t length, int32_t file,
		    int64_t payload_offset, int64_t *mismatched)
{
	uint8_t *buffer = malloc(BLOCK_BYTES);
	int error = 0;

	if (!buffer)
		return -ENOMEM;
	*mismatched = 0;
	while (length > 0) {
		ssize_t moved = pread(fd, buffer, min64(length, BLOCK_BYTES), offset);

		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0) {
			error = -errno;
			break;
		}
		if (!moved) { /* what the file lacks differs */
			*mismatched += length;
			break;
		}
		*mismatched += tape_compare(tape, file, payload_offset, moved, buffer);
		offset += moved;
		payload_offset += moved;
		length -= moved;
	}
	free(buffer);
	return error;
}

static int64_t resident_in_window(int fd, int64_t offset, int64_t length, int64_t page)
{
	int64_t pages = (length + page - 1) / page, resident = 0;
	unsigned char *present = malloc(pages);
	void *map;

	if (!present)
		return -ENOMEM;
	/* Private: FUSE refuses shared maps of files it caches nothing of. */
	map = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, offset);
	if (map == MAP_FAILED || mincore(map, length, present)) {
		resident = -errno;
	} else {
		for (int64_t i = 0; i < pages; i++)
			if (present[i] & 1)
				resident += min64(page, length - i * page);
	}
	if (map != MAP_FAILED)
		munmap(map, length);
	free(present);
	return resident;
}

int64_t loop_resident_bytes(int fd)
{
	int64_t page = sysconf(_SC_PAGESIZE), resident = 0;
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	for (int64_t at = 0; at < status.st_size; at += WINDOW_BYTES) {
		int64_t part = resident_in_window(fd, at, min64(WINDOW_BYTES, status.st_size - at), page);

		if (part < 0)
			return part;
		resident += part;
	}
	return resident;
}
