/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "ring.h"

/* What the headers of the liburing that distributions ship (2.1 to 2.3) may lack. */
#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#endif
#define IORING_REGISTER_RING_FDS 20 /* enum members: no #ifndef can see them */
#define IORING_UNREGISTER_RING_FDS 21

#define NEEDED_FEATURES (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_SINGLE_MMAP)
/*
 * What a closed ring had locked comes back to its user only after close() or
 * exit() returned: up to 40 ms later in 300 runs, on 6.18 with two cores.
 */
#define UNLOCK_PAUSE_NS 1000000
#define UNLOCK_TRIES_MAX 1000
#define BUFFER_BYTES_MAX (INT64_C(1) << 30) /* the kernel's limit on one */
#define REGISTERED_FILES_MAX 1024
#define THREAD_IDLE_MS 10 /* then it sleeps, and the next submission wakes it by a system call */

/* Dropped in this order, newest first, until the kernel takes the rest. */
static const struct {
	unsigned flag;
	uint64_t feature;
} SETUP_FLAGS[] = {
	{ IORING_SETUP_NO_SQARRAY, LOOP_FEATURE_NO_SQARRAY },       /* 6.6 */
	{ IORING_SETUP_DEFER_TASKRUN, LOOP_FEATURE_DEFER_TASKRUN }, /* 6.1 */
	{ IORING_SETUP_SINGLE_ISSUER, LOOP_FEATURE_SINGLE_ISSUER }, /* 6.0 */
	{ IORING_SETUP_COOP_TASKRUN, LOOP_FEATURE_COOP_TASKRUN },   /* 5.19 */
};
#define TASK_WORK_FLAGS (IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN)
#define SETUP_FLAG_COUNT (int)(sizeof(SETUP_FLAGS) / sizeof(SETUP_FLAGS[0]))

/* Whether to try once more what failed for want of lockable memory; pauses before. */
static bool unlock_awaited(int error, int *tries)
{
	if (error != ENOMEM || (*tries)++ == UNLOCK_TRIES_MAX)
		return false;
	sleep_until(clock_ns() + UNLOCK_PAUSE_NS);
	return true;
}

static int setup(struct ring *ring, uint32_t entries, bool thread, struct io_uring_params *params)
{
	int tries = 0;
	unsigned flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;

	if (thread)
		flags |= IORING_SETUP_SQPOLL;
	for (int i = 0; i < SETUP_FLAG_COUNT; i++) {
		/* Task work is the issuer's, and with a thread it is the one that issues. */
		if (thread && SETUP_FLAGS[i].flag & TASK_WORK_FLAGS)
			continue;
		flags |= SETUP_FLAGS[i].flag;
		ring->features |= SETUP_FLAGS[i].feature;
	}
	for (int i = 0;; i++) {
		int fd;

		do {
			*params = (struct io_uring_params){ .flags = flags,
							    .cq_entries = entries,
							    .sq_thread_idle = THREAD_IDLE_MS };
			fd = syscall(SYS_io_uring_setup, entries, params);
		} while (fd < 0 && unlock_awaited(errno, &tries));
		if (fd >= 0)
			return fd;
		if (errno != EINVAL || i == SETUP_FLAG_COUNT)
			return -errno;
		if (!(flags & SETUP_FLAGS[i].flag))
			continue;
		flags &= ~SETUP_FLAGS[i].flag;
		ring->features &= ~SETUP_FLAGS[i].feature;
		ring->refused |= SETUP_FLAGS[i].feature;
	}
}

/* A ring with or without a submission thread: with, if asked for and allowed. */
static int setup_either(struct ring *ring, uint32_t entries, bool thread,
			struct io_uring_params *params)
{
	int fd;

	*ring = (struct ring){ 0 };
	if (thread) {
		fd = setup(ring, entries, true, params);
		if (fd >= 0) {
			ring->features |= LOOP_FEATURE_SUBMISSION_THREAD;
			return fd;
		}
		*ring = (struct ring){ .refused = LOOP_FEATURE_SUBMISSION_THREAD };
	}
	return setup(ring, entries, false, params);
}

/* The ring's descriptor, looked up once for the thread instead of at each call. Since 5.18. */
static void register_ring(struct ring *ring)
{
	struct io_uring_rsrc_update update = { .offset = UINT32_MAX, .data = ring->uring.ring_fd };

	if (syscall(SYS_io_uring_register, ring->uring.ring_fd, IORING_REGISTER_RING_FDS, &update,
		    1) != 1) {
		ring->refused |= LOOP_FEATURE_REGISTERED_RING;
		return;
	}
	ring->features |= LOOP_FEATURE_REGISTERED_RING;
	ring->registered_fd = update.offset;
}

static void unregister_ring(struct ring *ring)
{
	struct io_uring_rsrc_update update = { .offset = ring->registered_fd };

	if (ring->features & LOOP_FEATURE_REGISTERED_RING)
		syscall(SYS_io_uring_register, ring->uring.ring_fd, IORING_UNREGISTER_RING_FDS,
			&update, 1);
}

int ring_open(struct ring *ring, uint32_t entries, bool thread)
{
	struct io_uring_params params;
	int fd, error;

	fd = setup_either(ring, entries, thread, &params);
	if (fd < 0)
		return fd;
	error = (params.features & NEEDED_FEATURES) == NEEDED_FEATURES ? 0 : -ENOSYS;
	if (!error)
		error = io_uring_queue_mmap(fd, &params, &ring->uring);
	if (error) {
		close(fd);
		return error;
	}
	ring->uring.features = params.features;
	/* With an SQ array, entry i is always at place i: it is written once. */
	if (!(params.flags & IORING_SETUP_NO_SQARRAY))
		for (unsigned i = 0; i < params.sq_entries; i++)
			ring->uring.sq.array[i] = i;
	register_ring(ring);
	return 0;
}

void ring_close(struct ring *ring)
{
	unregister_ring(ring);
	io_uring_queue_exit(&ring->uring);
}

void ring_register_buffers(struct ring *ring, const struct iovec *buffers, int count)
{
	struct rlimit lockable;
	size_t bytes = 0;
	int tries = 0, error;

	for (int i = 0; i < count; i++) {
		ring->buffers[i] = buffers[i];
		if (ring->buffers[i].iov_len > BUFFER_BYTES_MAX)
			ring->buffers[i].iov_len = BUFFER_BYTES_MAX;
		bytes += ring->buffers[i].iov_len;
	}
	if (getrlimit(RLIMIT_MEMLOCK, &lockable) || bytes > lockable.rlim_cur)
		tries = UNLOCK_TRIES_MAX; /* never, without a privilege, however long one waits */
	do {
		error = -io_uring_register_buffers(&ring->uring, ring->buffers, count);
	} while (error && unlock_awaited(error, &tries));
	if (error) {
		ring->refused |= LOOP_FEATURE_REGISTERED_BUFFERS;
		return;
	}
	ring->features |= LOOP_FEATURE_REGISTERED_BUFFERS;
	ring->buffer_count = count;
}

int ring_buffer_of(const struct ring *ring, const void *data, int64_t bytes)
{
	for (int i = 0; i < ring->buffer_count; i++) {
		const struct iovec *buffer = &ring->buffers[i];
		int64_t at = (const uint8_t *)data - (const uint8_t *)buffer->iov_base;

		if (at >= 0 && at + bytes <= (int64_t)buffer->iov_len)
			return i;
	}
	return -1;
}

/* The kernel lets a table hold no more files than the process may open. */
void ring_register_files(struct ring *ring, uint32_t count)
{
	uint32_t slots = count < REGISTERED_FILES_MAX ? count : REGISTERED_FILES_MAX;
	struct rlimit limit;
	int *files;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && slots > limit.rlim_cur)
		slots = limit.rlim_cur;
	files = malloc((slots + 1) * sizeof(*files));
	if (!files)
		return;
	for (uint32_t i = 0; i < slots; i++)
		files[i] = -1;
	if (io_uring_register_files(&ring->uring, files, slots)) {
		ring->refused |= LOOP_FEATURE_REGISTERED_FILES;
	} else {
		ring->features |= LOOP_FEATURE_REGISTERED_FILES;
		ring->file_slots = slots;
	}
	free(files);
}

int ring_add_file(struct ring *ring, int fd)
{
	int place = ring->files_used;

	if (ring->files_used == ring->file_slots)
		return -1;
	if (io_uring_register_files_update(&ring->uring, place, &fd, 1) != 1)
		return -1;
	ring->files_used++;
	return place;
}

void ring_remove_file(struct ring *ring, int place)
{
	int none = -1;

	io_uring_register_files_update(&ring->uring, place, &none, 1);
}

int loop_probe_uring(void)
{
	struct ring ring;
	int error = ring_open(&ring, 1, false);

	if (!error)
		ring_close(&ring);
	return error;
}

const char *loop_liburing_version(void)
{
#ifdef IO_URING_VERSION_MAJOR
#define TEXT(x) #x
#define VERSION(major, minor) TEXT(major) "." TEXT(minor)
	return VERSION(IO_URING_VERSION_MAJOR, IO_URING_VERSION_MINOR);
#else
	return "2.3 or older"; /* headers carry a version since 2.4 */
#endif
}
