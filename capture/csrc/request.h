/* SPDX-License-Identifier: MIT */
/*
 * One intercepted call on a descriptor: begin it, make the real call, end it.
 * Nothing between touches errno but the real call, so errno needs no saving.
 */
#ifndef IOTRACE_REQUEST_H
#define IOTRACE_REQUEST_H

#include "descriptors.h"
#include "log.h"

extern bool capture_is_on;

struct request {
	struct open_file *file; /* NULL: capture is off */
	uint64_t start_ns;
	int fd;
	uint32_t rw_flags; /* RWF_* of preadv2 and pwritev2 */
};

static inline struct request request_begin(int fd)
{
	struct request request = {.fd = fd};

	if (unlikely(!capture_is_on))
		return request;
	request.file = descriptor_file(fd);
	if (request.file->kind == FILE_RECORDED)
		request.start_ns = now_ns();
	return request;
}

/*
 * Do several threads use the position of this open file, as this one is about to? Once that is known
 * nothing is stored any more, so that they do not wait for each other's cache.
 */
static inline bool request_position_has_users(struct open_file *file)
{
	const void *user = atomic_load_explicit(&file->user, memory_order_relaxed);

	if (likely(user == &this_thread))
		return atomic_load_explicit(&file->has_users, memory_order_relaxed);
	if (!user && atomic_compare_exchange_strong(&file->user, &user, &this_thread))
		return false;
	if (!atomic_load_explicit(&file->has_users, memory_order_relaxed))
		file->has_users = 1;
	return true;
}

/* Begin one at the position. */
static inline struct request request_begin_move(int fd)
{
	struct request request = request_begin(fd);

	if (likely(request.file && request.file->kind == FILE_RECORDED))
		request_position_has_users(request.file);
	return request;
}

/* A read or write of `length` bytes at the open file's position. */
ssize_t request_move(struct request request, enum record_op op, const void *buffer,
		     size_t length, ssize_t result);

/* The same at an offset the caller named. */
ssize_t request_at(struct request request, enum record_op op, const void *buffer,
		   size_t length, off_t offset, ssize_t result);

/* The same, where all but the file is filled in already; keeps no position. */
void request_moved(struct open_file *file, int fd, struct record *record);

/*
 * Where a write that has just ended went, which goes to the end of its file: counted back from the
 * size, which others may have moved on. No offset if the descriptor is not the file's any more.
 */
void request_place_appended(struct record *record, struct open_file *file, int fd, int64_t result);

/* Any other op on an open file; fills in what all records have. */
int request_done(struct request request, struct record record, int result);

/* Number of the open file in this log, described there on first use; 0: no log. */
uint32_t request_file_number(struct open_file *file, int fd);

/* Number an open file and describe it under the path it was opened with. */
uint32_t request_describe(struct open_file *file, const char *path, size_t bytes,
			  const struct inode *inode);

/* The same, but 0 if this log has not shown the open file, or the thread is paused. */
uint32_t request_known_number(struct open_file *file);

/* A hook of ours runs on this thread: what it does is not the job's. */
static inline bool request_is_paused(void)
{
	return this_thread.paused > 0;
}

#endif
