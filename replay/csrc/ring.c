/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "ring.h"

/* What the headers of the liburing that distributions ship (2.1 to 2.3) may lack. */
#ifndef IORING_ENTER_REGISTERED_RING
#define IORING_ENTER_REGISTERED_RING (1U << 4)
#endif

#define BUSY_PAUSE_NS 1000000
#define BUSY_TRIES_MAX 1000 /* a second in all */

struct io_uring_sqe *ring_entry(struct ring *ring)
{
	struct io_uring_sq *sq = &ring->uring.sq;

	ring->queued++;
	return &sq->sqes[sq->sqe_tail++ & (*sq->kring_entries - 1)];
}

/*
 * The kernel's thread sees the new tail by itself, unless it sleeps. Entries
 * count as taken at once: their places are used again only after they are
 * complete. Returns whether the thread is to be woken.
 */
static bool hand_over(struct ring *ring)
{
	struct io_uring_sq *sq = &ring->uring.sq;

	if (!ring->queued)
		return false;
	ring->in_kernel += ring->queued;
	ring->queued = 0;
	/* In one order: the thread sees the new tail, or we see that it went to sleep. */
	__atomic_store_n(sq->ktail, sq->sqe_tail, __ATOMIC_SEQ_CST);
	return __atomic_load_n(sq->kflags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP;
}

/* One system call. What the kernel took is read off its head, whatever the call says. */
static int enter(struct ring *ring, uint32_t submit, bool wait, int64_t wake_ns)
{
	struct io_uring *uring = &ring->uring;
	struct __kernel_timespec timeout;
	struct io_uring_getevents_arg argument = { 0 };
	unsigned flags = IORING_ENTER_EXT_ARG;
	int fd = uring->ring_fd, returned, error;
	uint32_t left;

	if (ring->features & LOOP_FEATURE_REGISTERED_RING) {
		flags |= IORING_ENTER_REGISTERED_RING;
		fd = ring->registered_fd;
	}
	if (ring->features & LOOP_FEATURE_SUBMISSION_THREAD) {
		if (hand_over(ring))
			flags |= IORING_ENTER_SQ_WAKEUP;
		else if (!wait)
			return 0;
		submit = 0;
	}
	if (wait)
		flags |= IORING_ENTER_GETEVENTS;
	if (wait && wake_ns != INT64_MAX) {
		int64_t pause = wake_ns - clock_ns();

		if (pause < 0)
			pause = 0;
		timeout.tv_sec = pause / 1000000000;
		timeout.tv_nsec = pause % 1000000000;
		argument.ts = (uintptr_t)&timeout;
	}
	__atomic_store_n(uring->sq.ktail, uring->sq.sqe_tail, __ATOMIC_RELEASE);
	returned = syscall(SYS_io_uring_enter, fd, submit, wait ? 1 : 0, flags, &argument,
			   sizeof(argument));
	error = returned < 0 ? -errno : 0;
	if (ring->features & LOOP_FEATURE_SUBMISSION_THREAD) {
		ring->submissions += !!(flags & IORING_ENTER_SQ_WAKEUP);
		return error;
	}
	left = uring->sq.sqe_tail - __atomic_load_n(uring->sq.khead, __ATOMIC_ACQUIRE);
	ring->submissions += left < ring->queued;
	ring->in_kernel += ring->queued - left;
	ring->queued = left;
	return error;
}

int ring_enter(struct ring *ring, bool wait, int64_t wake_ns)
{
	for (int tries = 0;; tries++) {
		int error = enter(ring, ring->queued, wait, wake_ns);

		if (!error || error == -ETIME)
			return 0;
		if (error != -EINTR && error != -EAGAIN && error != -EBUSY)
			return error;
		if (tries == BUSY_TRIES_MAX)
			return error;
		ring->retries++;
		if (error == -EINTR)
			return 0;
		/* Short of memory: completions make room; without any, time does. */
		if (ring->in_kernel) {
			error = enter(ring, 0, true, clock_ns() + BUSY_PAUSE_NS);
			return error == -ETIME || error == -EINTR ? 0 : error;
		}
		sleep_until(clock_ns() + BUSY_PAUSE_NS);
	}
}

uint64_t ring_withdraw(struct ring *ring)
{
	struct io_uring_sq *sq = &ring->uring.sq;

	if (!ring->queued)
		return 0;
	/* The last one, so that those before keep their order and their places. */
	sq->sqe_tail--;
	ring->queued--;
	/* A thread that submits has not been shown it yet. */
	if (!(ring->features & LOOP_FEATURE_SUBMISSION_THREAD))
		__atomic_store_n(sq->ktail, sq->sqe_tail, __ATOMIC_RELEASE);
	return sq->sqes[sq->sqe_tail & (*sq->kring_entries - 1)].user_data;
}

bool ring_reap(struct ring *ring, uint64_t *user_data, int32_t *result)
{
	struct io_uring_cq *cq = &ring->uring.cq;
	unsigned head = *cq->khead;
	const struct io_uring_cqe *cqe;

	if (head == __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE))
		return false;
	cqe = &cq->cqes[head & (*cq->kring_entries - 1)];
	*user_data = cqe->user_data;
	*result = cqe->res;
	__atomic_store_n(cq->khead, head + 1, __ATOMIC_RELEASE);
	ring->in_kernel--;
	return true;
}
