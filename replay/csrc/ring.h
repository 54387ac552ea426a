/* SPDX-License-Identifier: MIT */
/*
 * One io_uring of the calling thread. liburing maps it and fills its entries;
 * submitting and waiting are done here, because liburing 2.3 cannot say how
 * many entries a failed call took, and fills an SQ array that is not there.
 */
#ifndef IOTRACE_RING_H
#define IOTRACE_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define RING_BUFFERS_MAX 3

struct ring {
	struct io_uring uring;
	uint64_t features, refused; /* LOOP_FEATURE_* */
	uint32_t queued;            /* entries the kernel has not taken yet */
	uint32_t in_kernel;         /* taken, not completed */
	uint64_t submissions, retries;
	struct iovec buffers[RING_BUFFERS_MAX];
	int buffer_count;
	uint32_t file_slots, files_used;
	int registered_fd;
};

/* With `thread`, entries are submitted by a thread of the kernel, unless it refuses. */
int ring_open(struct ring *ring, uint32_t entries, bool thread);
void ring_close(struct ring *ring);
/* May be refused, which ring->refused then says. */
void ring_register_buffers(struct ring *ring, const struct iovec *buffers, int count);
void ring_register_files(struct ring *ring, uint32_t count);
/* Index of the registered buffer that [data, data + bytes) lies in, or -1. */
int ring_buffer_of(const struct ring *ring, const void *data, int64_t bytes);
/* A place for fd among the registered files, or -1. */
int ring_add_file(struct ring *ring, int fd);
void ring_remove_file(struct ring *ring, int place);
/* Never NULL while fewer than `entries` are queued. */
struct io_uring_sqe *ring_entry(struct ring *ring);
/*
 * Submit what is queued; with `wait`, until something completes or it is
 * wake_ns (CLOCK_MONOTONIC; INT64_MAX: never). -errno: nothing more can be
 * submitted.
 */
int ring_enter(struct ring *ring, bool wait, int64_t wake_ns);
/* Take back the newest entry that the kernel has not taken: its user_data; 0: none. */
uint64_t ring_withdraw(struct ring *ring);
/* The next completion; false: none. */
bool ring_reap(struct ring *ring, uint64_t *user_data, int32_t *result);

#endif
