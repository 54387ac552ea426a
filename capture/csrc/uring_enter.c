/* SPDX-License-Identifier: MIT */
#include "uring_enter.h"

#include "memory.h"
#include "request.h"
#include "uring_files.h"

void uring_was_set_up(int fd, const void *params)
{
	struct uring_params copy;

	if (fd < 0 || !capture_is_on || log_is_borrowed())
		return;
	if (memory_read(&copy, params, sizeof(copy)))
		ring_set_up(fd, &copy);
}

/* Up to where the kernel will take requests: a thread that polls takes all. */
static uint32_t end_of(const struct ring *ring, uint32_t count)
{
	uint32_t tail = __atomic_load_n(ring->sq_tail, __ATOMIC_ACQUIRE);
	uint32_t head;

	if (ring->flags & URING_SETUP_SQ_REWIND)
		return count;
	if (ring->flags & URING_SETUP_SQPOLL)
		return tail;
	head = __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
	return tail - head < count ? tail : head + count;
}

struct ring_call uring_enter_begin(int fd, uint32_t count, uint32_t flags)
{
	struct ring_call call = {NULL, 0};

	if (!capture_is_on || (!count && !rings_exist()))
		return call;
	call.ring = ring_by_fd(fd, flags & URING_ENTER_REGISTERED_RING);
	if (!call.ring || call.ring->state != RING_READY) {
		LOG_COUNT(unknown_submissions, count);
		call.ring = NULL;
		return call;
	}
	ring_reap(call.ring);
	call.end = end_of(call.ring, count);
	ring_submit(call.ring, call.end);
	return call;
}

void uring_call_end(struct ring_call call, int error)
{
	if (!call.ring)
		return;
	ring_submitted(call.ring, call.end, error);
	ring_reap(call.ring);
}

void uring_was_registered(int fd, uint32_t opcode, const void *argument, uint32_t count,
			  int result)
{
	struct ring *ring;

	if (result < 0 || !rings_exist() || !capture_is_on)
		return;
	ring = ring_by_fd(fd, opcode & URING_REGISTER_USE_REGISTERED_RING);
	if (ring)
		uring_registered(ring, opcode, argument, count);
}
