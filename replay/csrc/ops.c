/* SPDX-License-Identifier: MIT */
/* One request carried out by plain system calls, and timed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loop.h"

static int64_t result_of(int64_t returned)
{
	return returned < 0 ? -errno : returned;
}

static int64_t move_flagged(const struct slot *slot, off_t offset, int flags)
{
	struct iovec whole = { slot->buffer, slot->transfer_bytes };
	const struct iovec *iov = slot->vectored ? slot->iov : &whole;
	int count = slot->vectored ? slot->iov_count : 1;

	return result_of(slot->request->op == LOOP_READ
				 ? preadv2(slot->fd, iov, count, offset, flags)
				 : pwritev2(slot->fd, iov, count, offset, flags));
}

static int64_t move_bytes(struct loop *loop, const struct slot *slot)
{
	off_t offset = slot->request->offset + slot->done;
	bool read = slot->request->op == LOOP_READ;
	int flags = transfer_flags(loop, slot);

	if (read && slot->request->mapping)
		return mapping_read(loop, slot);
	if (flags)
		return move_flagged(slot, offset, flags);
	if (slot->vectored)
		return result_of(read ? preadv(slot->fd, slot->iov, slot->iov_count, offset)
				      : pwritev(slot->fd, slot->iov, slot->iov_count, offset));
	return result_of(read ? pread(slot->fd, slot->buffer, slot->transfer_bytes, offset)
			      : pwrite(slot->fd, slot->buffer, slot->transfer_bytes, offset));
}

static void perform_data(struct loop *loop, struct slot *slot)
{
	int64_t result;

	transfer_begin(slot);
	do {
		transfer_prepare(loop, slot);
		result = move_bytes(loop, slot);
	} while (!transfer_advance(loop, slot, result, clock_ns()));
}

static int64_t sync_file(int fd, const struct loop_request *request)
{
	switch (request->flags) {
	case 0:
	case 6:
		return result_of(fsync(fd));
	case 1:
	case 7:
	case 3: /* msync(MS_SYNC) writes a range's data: fdatasync is its nearest */
		return result_of(fdatasync(fd));
	case 2:
		return result_of(sync_file_range(fd, request->offset, request->length,
						 SYNC_FILE_RANGE_WAIT_BEFORE |
							 SYNC_FILE_RANGE_WRITE |
							 SYNC_FILE_RANGE_WAIT_AFTER));
	case 4:
	case 5: /* sync() waits for every file system of the machine; we only use this one */
		return result_of(syncfs(fd));
	default:
		return -EINVAL;
	}
}

static int64_t evict(int fd)
{
	if (fsync(fd))
		return -errno;
	return -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int64_t act_on_file(int fd, const struct loop_request *request)
{
	switch (request->op) {
	case LOOP_SYNC:
		return sync_file(fd, request);
	case LOOP_TRUNCATE:
		return result_of(ftruncate(fd, request->length));
	case LOOP_ALLOCATE:
		return result_of(fallocate(fd, request->flags, request->offset, request->length));
	default:
		return evict(fd);
	}
}

static bool syncs_folder(const struct loop_request *request)
{
	return request->op == LOOP_SYNC && (request->flags == 6 || request->flags == 7);
}

/* By handle; else by path, opened for the purpose; else the root, or its file system. */
static int64_t perform_on_file(const struct loop *loop, const struct slot *slot)
{
	const struct loop_request *request = slot->request;
	int root_fd = loop->options->root_fd;
	int flags = request->op == LOOP_TRUNCATE ? O_WRONLY
		    : syncs_folder(request)	 ? O_RDONLY | O_DIRECTORY
						 : O_RDONLY;
	int64_t result;
	int fd;

	if (request->handle >= 0)
		return act_on_file(slot->fd, request);
	if (request->path < 0)
		return request->op == LOOP_SYNC ? act_on_file(root_fd, request) : -EBADF;
	fd = loop_open_beneath(root_fd, loop->job->paths[request->path], flags, 0);
	if (fd < 0)
		return fd;
	result = act_on_file(fd, request);
	close(fd);
	return result;
}

static int64_t perform_open(struct loop *loop, struct slot *slot)
{
	const struct loop_request *request = slot->request;

	slot->fd = loop_open_beneath(loop->options->root_fd, loop->job->paths[request->path],
				     request->flags, request->mode);
	if (slot->fd < 0)
		return slot->fd;
	mapping_open(loop, &loop->handles[request->handle], slot->fd);
	return 0;
}

static int64_t perform_name(const struct loop *loop, const struct loop_request *request)
{
	int root_fd = loop->options->root_fd;
	const char *path = loop->job->paths[request->path];

	switch (request->op) {
	case LOOP_RENAME:
		return name_rename(root_fd, path, loop->job->paths[request->target]);
	case LOOP_LINK:
		return name_link(root_fd, path, loop->job->paths[request->target]);
	case LOOP_UNLINK:
		return name_remove(root_fd, path, 0);
	case LOOP_RMDIR:
		return name_remove(root_fd, path, AT_REMOVEDIR);
	case LOOP_MKDIR:
		return name_mkdir(root_fd, path, request->mode);
	default:
		return -EINVAL;
	}
}

static int64_t perform_other(struct loop *loop, struct slot *slot)
{
	switch (slot->request->op) {
	case LOOP_OPEN:
		return perform_open(loop, slot);
	case LOOP_CLOSE:
		mapping_close(loop, &loop->handles[slot->request->handle]);
		return result_of(close(slot->fd));
	case LOOP_EVICT:
		mapping_let_go(loop);
		return perform_on_file(loop, slot);
	case LOOP_SYNC:
	case LOOP_TRUNCATE:
	case LOOP_ALLOCATE:
		return perform_on_file(loop, slot);
	default:
		return perform_name(loop, slot->request);
	}
}

void perform(struct loop *loop, struct slot *slot)
{
	if (is_data(slot->request)) {
		perform_data(loop, slot);
		return;
	}
	slot->result = perform_other(loop, slot);
	slot->end_ns = clock_ns();
}
