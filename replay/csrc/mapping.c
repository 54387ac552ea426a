/* SPDX-License-Identifier: MIT */
/*
 * Reads of a mapped file: it is mapped when it is opened, as engines do, and a read copies from
 * there, page fault by page fault. Pages that the kernel cannot bring in raise SIGBUS, which
 * becomes the read's error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "loop.h"

/* A signal handler has no other way to what its thread is doing. */
static _Thread_local sigjmp_buf *volatile way_out;

static void leave_copy(int number)
{
	if (way_out)
		siglongjmp(*way_out, 1);
	signal(number, SIG_DFL); /* not ours: it comes again, and ends the process */
}

void mapping_setup(struct loop *loop)
{
	/* Not deferred: a jump out of the handler leaves the signal mask as it is. */
	struct sigaction action = { .sa_handler = leave_copy, .sa_flags = SA_NODEFER };

	pthread_mutex_init(&loop->map_lock, NULL);
	if (loop->maps)
		sigaction(SIGBUS, &action, &loop->sigbus_before);
}

void mapping_teardown(struct loop *loop)
{
	for (int32_t i = 0; loop->maps && loop->handles && i < loop->job->handle_count; i++)
		mapping_close(loop, &loop->handles[i]);
	if (loop->maps)
		sigaction(SIGBUS, &loop->sigbus_before, NULL);
}

static int64_t file_bytes(int fd)
{
	struct stat status;

	return fstat(fd, &status) ? -errno : status.st_size;
}

void mapping_open(struct loop *loop, struct handle *handle, int fd)
{
	static const int advice[] = { [LOOP_MAPPING_PLAIN] = MADV_NORMAL,
				      [LOOP_MAPPING_SEQUENTIAL] = MADV_SEQUENTIAL,
				      [LOOP_MAPPING_RANDOM] = MADV_RANDOM,
				      [LOOP_MAPPING_WILLNEED] = MADV_WILLNEED };
	void *map;

	if (!handle->mapping)
		return;
	handle->file_bytes = file_bytes(fd);
	/* Private: FUSE refuses shared maps of files it caches nothing of. */
	map = mmap(NULL, handle->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	handle->map_error = map == MAP_FAILED ? -errno : 0;
	if (map == MAP_FAILED)
		return;
	if (handle->mapping != LOOP_MAPPING_PLAIN)
		madvise(map, handle->map_bytes, advice[handle->mapping]);
	pthread_mutex_lock(&loop->map_lock);
	handle->map = map;
	pthread_mutex_unlock(&loop->map_lock);
}

void mapping_close(struct loop *loop, struct handle *handle)
{
	if (!handle->map)
		return;
	pthread_mutex_lock(&loop->map_lock);
	munmap(handle->map, handle->map_bytes);
	handle->map = NULL;
	pthread_mutex_unlock(&loop->map_lock);
}

void mapping_let_go(struct loop *loop)
{
	if (!loop->maps)
		return;
	pthread_mutex_lock(&loop->map_lock);
	for (int32_t i = 0; i < loop->job->handle_count; i++)
		if (loop->handles[i].map)
			madvise(loop->handles[i].map, loop->handles[i].map_bytes, MADV_DONTNEED);
	pthread_mutex_unlock(&loop->map_lock);
}

/* Not inlined: what it changes must not lie in the frame that is jumped back to. */
__attribute__((noinline)) static void copy(const struct slot *slot, const uint8_t *from,
					   int64_t length)
{
	for (int i = 0; length > 0; i++) {
		int64_t part = min64(slot->iov[i].iov_len, length);

		memcpy(slot->iov[i].iov_base, from, part);
		from += part;
		length -= part;
	}
}

/* false: a page could not be had. */
static bool copy_out(const struct slot *slot, const uint8_t *from, int64_t length)
{
	sigjmp_buf here;

	if (sigsetjmp(here, 0)) {
		way_out = NULL;
		return false;
	}
	way_out = &here;
	copy(slot, from, length);
	way_out = NULL;
	return true;
}

int64_t mapping_read(struct loop *loop, const struct slot *slot)
{
	struct handle *handle = &loop->handles[slot->request->handle];
	int64_t offset = slot->request->offset + slot->done, length = slot->transfer_bytes;
	int64_t size = __atomic_load_n(&handle->file_bytes, __ATOMIC_RELAXED);

	if (!handle->map)
		return handle->map_error ? handle->map_error : -EBADF;
	if (offset + length > size) { /* it may have grown since */
		size = file_bytes(slot->fd);
		__atomic_store_n(&handle->file_bytes, size, __ATOMIC_RELAXED);
	}
	while (size > offset) {
		length = min64(length, size - offset);
		if (copy_out(slot, handle->map + offset, length))
			return length;
		size = file_bytes(slot->fd);
		if (size >= offset + length)
			return -EIO;
	}
	return size < 0 ? size : 0;
}
