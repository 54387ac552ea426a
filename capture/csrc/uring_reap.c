/* SPDX-License-Identifier: MIT */
#include "uring_reap.h"

#include <sched.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "uring_pending.h"
#include "uring_sqe.h"

/*
 * Tries to get hold of what another thread is busy with, when it cannot be left to it. Who is
 * busy never blocks, but may have no processor for long: a hundredth of this was too little.
 */
#define PATIENCE 10000000
#define SPINS 1000

static void finish(struct ring *ring, uint32_t index, int64_t result, uint64_t now)
{
	sqe_complete(ring, pending_at(ring, index), result, now);
	pending_remove(ring, index);
}

static void take_announced(struct ring *ring)
{
	uint32_t end = atomic_load_explicit(&ring->announced, memory_order_acquire);
	uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);

	for (; taken != end; taken++)
		pending_add(ring, &ring->queue[taken & (ring->queue_entries - 1)]);
	atomic_store_explicit(&ring->taken, taken, memory_order_release);
}

/* --- matching ---------------------------------------------------------- */

/* None moves more than it asks for, and a silent one that moves all of it says nothing. */
static bool is_possible(const struct pending *pending, int32_t result)
{
	return result < 0 || pending->expected < 0 ||
	       result < pending->expected + !pending_is_silent(pending);
}

/* What a silent one has moved it says only if that is less than it should. */
static bool fits(struct ring *ring, const struct pending *pending, int32_t result)
{
	if (result == -ECANCELED && ring->has_broken)
		return pending->chain == ring->broken_chain;
	if (result < 0)
		return true;
	return !pending_is_silent(pending) && (pending->expected < 0 || pending->expected == result);
}

/*
 * Of the requests with this user data, the first that such a result is expected of, else the
 * first that can have it: jobs give the same user data to many.
 */
static uint32_t match(struct ring *ring, uint64_t user_data, int32_t result)
{
	uint32_t index = pending_first(ring, user_data), first = 0, found = 0;
	int count = 0;

	for (; index && count < PENDING_CANDIDATES; index = pending_at(ring, index)->next) {
		if (pending_at(ring, index)->user_data != user_data ||
		    !is_possible(pending_at(ring, index), result))
			continue;
		count++;
		if (!first)
			first = index;
		if (!found && fits(ring, pending_at(ring, index), result))
			found = index;
		if (found && !pending_is_silent(pending_at(ring, found)))
			return found;
	}
	if (!found)
		found = first;
	if (count > 1 && pending_is_silent(pending_at(ring, found)) && result != -ECANCELED)
		LOG_COUNT(unmatched_completions, 1); /* another may have failed like that */
	return found;
}

/*
 * Requests that asked for no completion in case of success have succeeded
 * when a later link of their chain has run, in the order of the chain: each
 * begins where the one before has left the position, or finds the file that it
 * has opened. Others keep an unknown end: the kernel refuses to let a request
 * wait for all before it (IOSQE_IO_DRAIN) on a ring where some are silent.
 */
static void finish_silent(struct ring *ring, const struct pending *seen, uint64_t now)
{
	uint32_t index = ring->silent_first;

	while (index) {
		struct pending *silent = pending_at(ring, index);
		uint32_t next = silent->next_silent;

		if ((int32_t)(silent->order - seen->order) < 0 && silent->chain == seen->chain)
			finish(ring, index, silent->expected < 0 ? 0 : silent->expected, now);
		index = next;
	}
}

/* One has not done all it should: the later links of its chain never run. */
static void break_chain(struct ring *ring, const struct pending *seen, uint64_t now)
{
	ring->has_broken = true;
	ring->broken_chain = seen->chain;
	if (!pending_is_silent(seen)) /* each of them will say so */
		return;
	for (uint32_t index = 1; index <= ring->pending_used; index++) {
		struct pending *later = pending_at(ring, index);

		if (later->kind != PENDING_FREE && later->chain == seen->chain &&
		    (int32_t)(later->order - seen->order) > 0)
			finish(ring, index, -ECANCELED, now);
	}
}

static void reap_one(struct ring *ring, const struct cqe *cqe, uint64_t now)
{
	uint32_t index = match(ring, cqe->user_data, cqe->result);
	struct pending seen;

	if (!index) {
		if (cqe->user_data != LIBURING_TIMEOUT)
			LOG_COUNT(unmatched_completions, 1);
		return;
	}
	if (cqe->flags & URING_CQE_MORE)
		return;
	seen = *pending_at(ring, index);
	if (ring->silent_first && cqe->result != -ECANCELED)
		finish_silent(ring, &seen, now);
	finish(ring, index, cqe->result, now);
	if (seen.sqe_flags & URING_SQE_LINK && cqe->result != -ECANCELED &&
	    (cqe->result < 0 || (seen.expected >= 0 && cqe->result != seen.expected)))
		break_chain(ring, &seen, now);
}

/* --- the completion queue ---------------------------------------------- */

static struct cqe *cqe_at(struct ring *ring, uint32_t position)
{
	uint32_t shift = ring->flags & URING_SETUP_CQE32 ? 5 : 4;

	return (struct cqe *)(ring->cqes +
			      ((size_t)(position & (ring->cq_entries - 1)) << shift));
}

/* Copy one; false: the job has seen it, and the kernel has written over it since. */
static bool copy_cqe(struct ring *ring, uint32_t position, struct cqe *cqe)
{
	memcpy(cqe, cqe_at(ring, position), sizeof(*cqe));
	return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) - position <= ring->cq_entries;
}

static void reap(struct ring *ring)
{
	/* The tail first: whatever has completed by then was announced before. */
	uint32_t end = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
	uint32_t seen = atomic_load_explicit(&ring->cq_seen, memory_order_relaxed);
	uint64_t now = now_ns();
	struct cqe cqe;

	take_announced(ring);
	for (; (int32_t)(end - seen) > 0; seen++) {
		if (!copy_cqe(ring, seen, &cqe)) {
			LOG_COUNT(unmatched_completions, 1);
			continue;
		}
		if (ring->flags & URING_SETUP_CQE_MIXED) {
			seen += cqe.flags & URING_CQE_LARGE ? 1 : 0;
			if (cqe.flags & URING_CQE_FILLER)
				continue;
		}
		reap_one(ring, &cqe, now);
	}
	atomic_store_explicit(&ring->cq_seen, seen, memory_order_relaxed);
}

static __attribute__((noinline)) void start_anew(struct ring *ring)
{
	pending_forget_all(ring);
	ring->taken = ring->announced;
	ring->is_submitting = ring->is_reaping = false;
	ring->cq_seen = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
	if (ring->sq_array) /* the queue is the parent's, too; liburing keeps its own tail */
		ring->sq_seen = __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
	ring->generation = log_generation();
}

void ring_settle(struct ring *ring)
{
	if (unlikely(ring->generation != log_settled_generation()))
		start_anew(ring);
}

static bool begin_reaping(struct ring *ring)
{
	return !atomic_exchange_explicit(&ring->is_reaping, true, memory_order_acquire);
}

static void end_reaping(struct ring *ring)
{
	atomic_store_explicit(&ring->is_reaping, false, memory_order_release);
}

void ring_reap(struct ring *ring)
{
	if (__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) ==
	    atomic_load_explicit(&ring->cq_seen, memory_order_relaxed))
		return;
	ring_settle(ring);
	if (!begin_reaping(ring))
		return;
	reap(ring);
	end_reaping(ring);
}

static bool is_awaited(const struct ring *ring)
{
	return __atomic_load_n(&ring->in_flight, __ATOMIC_RELAXED) ||
	       atomic_load_explicit(&ring->announced, memory_order_relaxed) !=
		       atomic_load_explicit(&ring->taken, memory_order_relaxed);
}

/* Gone without a word: who was found by dlsym() has unmapped it, or a fork has left it out. */
static bool is_there(struct ring *ring)
{
	struct cqe last;
	uint32_t tail;

	return memory_read(&tail, ring->cq_tail, sizeof(tail)) &&
	       memory_read(&last, cqe_at(ring, ring->cq_entries - 1), sizeof(last));
}

/* Ready, and no parent's. */
static bool is_own(const struct ring *ring)
{
	return ring->state == RING_READY && ring->generation == log_settled_generation();
}

void ring_look(struct ring *ring)
{
	if (!is_own(ring) || !is_awaited(ring) || !begin_reaping(ring))
		return;
	if (is_own(ring) && is_there(ring)) /* it was not released meanwhile */
		reap(ring);
	end_reaping(ring);
}

static bool insist_on_reaping(struct ring *ring)
{
	for (int i = 1; i <= PATIENCE; i++) {
		if (begin_reaping(ring))
			return true;
		if (i % SPINS == 0) /* who reaps may have lost its processor */
			sched_yield();
	}
	return false;
}

void ring_keep_others_off(struct ring *ring)
{
	if (is_own(ring))
		insist_on_reaping(ring);
}

void ring_refused(struct ring *ring, uint32_t first, uint32_t end, int error)
{
	uint64_t now = now_ns();

	if (!insist_on_reaping(ring))
		return;
	take_announced(ring);
	for (uint32_t index = 1; index <= ring->pending_used; index++) {
		struct pending *pending = pending_at(ring, index);

		if (pending->kind != PENDING_FREE && pending->order - first < end - first)
			finish(ring, index, error, now);
	}
	end_reaping(ring);
}

/* --- announcing -------------------------------------------------------- */

static bool is_full(struct ring *ring, uint32_t end)
{
	return end - atomic_load_explicit(&ring->taken, memory_order_acquire) ==
	       ring->queue_entries;
}

void ring_announce(struct ring *ring, const struct pending *pending)
{
	uint32_t end = atomic_load_explicit(&ring->announced, memory_order_relaxed);

	if (unlikely(is_full(ring, end)) && insist_on_reaping(ring)) {
		take_announced(ring);
		end_reaping(ring);
	}
	if (unlikely(is_full(ring, end)))
		return; /* its end stays unknown */
	ring->queue[end & (ring->queue_entries - 1)] = *pending;
	atomic_store_explicit(&ring->announced, end + 1, memory_order_release);
}
