/* SPDX-License-Identifier: MIT */
#include "log.h"
#include "uring_reap.h"
#include "uring_sqe.h"

static bool takes_two_places(const struct ring *ring, const struct sqe *sqe)
{
	return ring->flags & URING_SETUP_SQE_MIXED &&
	       (sqe->opcode == URING_NOP128 || sqe->opcode == URING_CMD128);
}

/* NULL: the job has put a number there that the kernel will refuse. */
static const struct sqe *sqe_at(const struct ring *ring, uint32_t position)
{
	uint32_t shift = ring->flags & URING_SETUP_SQE128 ? 7 : 6;
	uint32_t place = position & (ring->sq_entries - 1);

	if (ring->sq_array)
		place = ring->sq_array[place];
	if (place >= ring->sq_entries)
		return NULL;
	return (const struct sqe *)(ring->sqes + ((size_t)place << shift));
}

static void submit_one(struct ring *ring, const struct sqe *sqe, uint32_t order, bool is_linked,
		       uint64_t start_ns)
{
	struct pending pending = {.user_data = sqe->user_data,
				  .sqe_flags = sqe->flags,
				  .order = order,
				  .expected = -1,
				  .kind = PENDING_PLAIN};

	if (!is_linked) {
		ring->chain = order;
		ring->chain_appends_to = 0;
	}
	pending.chain = ring->chain;
	sqe_decode(ring, sqe, start_ns, &pending);
	ring_announce(ring, &pending);
}

static void submit(struct ring *ring, uint32_t first, uint32_t end)
{
	bool rewinds = ring->flags & URING_SETUP_SQ_REWIND;
	uint64_t start_ns = now_ns();
	bool is_linked = false;

	for (uint32_t i = first; i != end; i++) {
		const struct sqe *sqe = sqe_at(ring, i);

		if (!sqe)
			continue;
		submit_one(ring, sqe, rewinds ? ring->order + i : i, is_linked, start_ns);
		is_linked = sqe->flags & (URING_SQE_LINK | URING_SQE_HARDLINK);
		if (takes_two_places(ring, sqe) && i + 1 != end)
			i++;
	}
	ring->order += end - first;
}

void ring_submit(struct ring *ring, uint32_t end)
{
	uint32_t first, count;

	ring_settle(ring);
	first = ring->flags & URING_SETUP_SQ_REWIND ? 0 : ring->sq_seen;
	count = end - first;
	if ((int32_t)count <= 0)
		return;
	if (atomic_exchange_explicit(&ring->is_submitting, true, memory_order_acquire)) {
		LOG_COUNT(unknown_submissions, count); /* two threads at once: it is theirs */
		return;
	}
	if (count > ring->sq_entries) { /* polled, and not seen for a while */
		LOG_COUNT(unknown_submissions, count - ring->sq_entries);
		first = end - ring->sq_entries;
	}
	submit(ring, first, end);
	ring->sq_seen = end;
	atomic_store_explicit(&ring->is_submitting, false, memory_order_release);
}

void ring_submitted(struct ring *ring, uint32_t end, int error)
{
	uint32_t head;

	if (ring->flags & (URING_SETUP_SQPOLL | URING_SETUP_SQ_REWIND) || !ring->sq_head ||
	    ring->sq_seen != end)
		return;
	head = __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
	if ((int32_t)(end - head) <= 0 || end - head > ring->sq_entries)
		return;
	/* The job will hand these over again: a new try is a new request. */
	ring_refused(ring, head, end, error < 0 ? error : -EAGAIN);
	ring->sq_seen = head;
}
