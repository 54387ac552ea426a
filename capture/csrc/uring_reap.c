/* SPDX-License-Identifier: MIT */
#include "uring_reap.h"

#include <sched.h>
#include <string.h>

#include "log.h"
#include "uring_sqe.h"

/* Requests with the same user data among which the one that fits best is looked for. */
#define CANDIDATES 64
/*
 * Tries to get hold of what another thread is busy with, when it cannot be left to it. Who is
 * busy never blocks, but may have no processor for long: a hundredth of this was too little.
 */
#define PATIENCE 10000000
#define SPINS 1000

static struct pending *at(struct ring *ring, uint32_t index)
{
	return index ? ring->pending + index - 1 : NULL;
}

static struct bucket *bucket_of(struct ring *ring, uint64_t user_data)
{
	/* Fibonacci hashing: user data are pointers or small numbers. */
	return ring->buckets + (user_data * 0x9e3779b97f4a7c15u >> (64 - ring->bucket_bits));
}

static bool is_silent(const struct pending *pending)
{
	return pending->sqe_flags & URING_SQE_SKIP_SUCCESS;
}

/* --- the table --------------------------------------------------------- */

static void unlink_silent(struct ring *ring, uint32_t index)
{
	uint32_t before = 0, here = ring->silent_first;

	while (here && here != index) {
		before = here;
		here = at(ring, here)->next_silent;
	}
	*(before ? &at(ring, before)->next_silent : &ring->silent_first) =
		at(ring, index)->next_silent;
	if (ring->silent_last == index)
		ring->silent_last = before;
}

static void give_place(struct ring *ring, uint32_t index)
{
	struct pending *pending = at(ring, index);
	struct bucket *bucket = bucket_of(ring, pending->user_data);
	uint32_t before = 0, here = bucket->first;

	while (here && here != index) {
		before = here;
		here = at(ring, here)->next;
	}
	*(before ? &at(ring, before)->next : &bucket->first) = pending->next;
	if (bucket->last == index)
		bucket->last = before;
	if (is_silent(pending))
		unlink_silent(ring, index);
	ring->in_flight--;
	pending->kind = PENDING_FREE;
	pending->next = ring->pending_free;
	ring->pending_free = index;
}

static void finish(struct ring *ring, uint32_t index, int64_t result, uint64_t now)
{
	sqe_complete(ring, at(ring, index), result, now);
	give_place(ring, index);
}

/*
 * A full table holds what never tells its end: silent requests that went well, and completions
 * that were written over. Those whose end nobody waits for go, in turn; few are looked at each time.
 */
static void forget_one(struct ring *ring)
{
	for (int i = 0; i < CANDIDATES; i++) {
		uint32_t index = ring->forgotten++ % ring->pending_entries + 1;

		if (!at(ring, index)->record || is_silent(at(ring, index))) {
			give_place(ring, index);
			return;
		}
	}
}

static uint32_t take_place(struct ring *ring)
{
	uint32_t index;

	if (!ring->pending_free && ring->pending_used == ring->pending_entries)
		forget_one(ring);
	index = ring->pending_free;
	if (index)
		ring->pending_free = at(ring, index)->next;
	else if (ring->pending_used < ring->pending_entries)
		index = ++ring->pending_used;
	return index;
}

/*
 * The kernel lets requests at the position of one file run at once, even to one place, unless they
 * are links of one chain.
 */
static void find_crossing(struct ring *ring, struct pending *pending)
{
	for (uint32_t index = 1; index <= ring->pending_used; index++) {
		struct pending *other = at(ring, index);

		if (other->kind != PENDING_AT_POSITION || other->file != pending->file ||
		    other->chain == pending->chain)
			continue;
		other->is_crossed = pending->is_crossed = true;
		if (pending->file)
			pending->file->queried = 1;
	}
}

static void add(struct ring *ring, const struct pending *announced)
{
	struct bucket *bucket = bucket_of(ring, announced->user_data);
	uint32_t index = take_place(ring);
	struct pending *pending = at(ring, index);

	if (!index)
		return; /* its end stays unknown, its completion will be counted */
	*pending = *announced;
	pending->next = pending->next_silent = 0;
	if (bucket->last)
		at(ring, bucket->last)->next = index;
	else
		bucket->first = index;
	bucket->last = index;
	if (is_silent(pending)) {
		if (ring->silent_last)
			at(ring, ring->silent_last)->next_silent = index;
		else
			ring->silent_first = index;
		ring->silent_last = index;
	}
	if (pending->kind == PENDING_AT_POSITION)
		find_crossing(ring, pending);
	ring->in_flight++;
}

static void take_announced(struct ring *ring)
{
	uint32_t end = atomic_load_explicit(&ring->announced, memory_order_acquire);
	uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);

	for (; taken != end; taken++)
		add(ring, &ring->queue[taken & (ring->queue_entries - 1)]);
	atomic_store_explicit(&ring->taken, taken, memory_order_release);
}

/* --- matching ---------------------------------------------------------- */

/* None moves more than it asks for, and a silent one that moves all of it says nothing. */
static bool is_possible(const struct pending *pending, int32_t result)
{
	return result < 0 || pending->expected < 0 ||
	       result < pending->expected + !is_silent(pending);
}

/* What a silent one has moved it says only if that is less than it should. */
static bool fits(struct ring *ring, const struct pending *pending, int32_t result)
{
	if (result == -ECANCELED && ring->has_broken)
		return pending->chain == ring->broken_chain;
	if (result < 0)
		return true;
	return !is_silent(pending) && (pending->expected < 0 || pending->expected == result);
}

/*
 * Of the requests with this user data, the first that such a result is expected of, else the
 * first that can have it: jobs give the same user data to many.
 */
static uint32_t match(struct ring *ring, uint64_t user_data, int32_t result)
{
	uint32_t index = bucket_of(ring, user_data)->first, first = 0, found = 0;
	int count = 0;

	for (; index && count < CANDIDATES; index = at(ring, index)->next) {
		if (at(ring, index)->user_data != user_data ||
		    !is_possible(at(ring, index), result))
			continue;
		count++;
		if (!first)
			first = index;
		if (!found && fits(ring, at(ring, index), result))
			found = index;
		if (found && !is_silent(at(ring, found)))
			return found;
	}
	if (!found)
		found = first;
	if (count > 1 && is_silent(at(ring, found)) && result != -ECANCELED)
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
		struct pending *silent = at(ring, index);
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
	if (!is_silent(seen)) /* each of them will say so */
		return;
	for (uint32_t index = 1; index <= ring->pending_used; index++) {
		struct pending *later = at(ring, index);

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
	seen = *at(ring, index);
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
	memset(ring->buckets, 0, sizeof(*ring->buckets) << ring->bucket_bits);
	ring->pending_used = ring->pending_free = 0;
	ring->silent_first = ring->silent_last = 0;
	ring->in_flight = 0;
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
	ring_settle(ring);
	return !atomic_exchange_explicit(&ring->is_reaping, true, memory_order_acquire);
}

static void end_reaping(struct ring *ring)
{
	atomic_store_explicit(&ring->is_reaping, false, memory_order_release);
}

void ring_reap(struct ring *ring)
{
	if (__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) ==
		    atomic_load_explicit(&ring->cq_seen, memory_order_relaxed) ||
	    !begin_reaping(ring))
		return;
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

void ring_refused(struct ring *ring, uint32_t first, uint32_t end, int error)
{
	uint64_t now = now_ns();

	if (!insist_on_reaping(ring))
		return;
	take_announced(ring);
	for (uint32_t index = 1; index <= ring->pending_used; index++) {
		struct pending *pending = at(ring, index);

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

bool ring_announce(struct ring *ring, const struct pending *pending)
{
	uint32_t end = atomic_load_explicit(&ring->announced, memory_order_relaxed);

	if (unlikely(is_full(ring, end)) && insist_on_reaping(ring)) {
		take_announced(ring);
		end_reaping(ring);
	}
	if (unlikely(is_full(ring, end)))
		return false; /* its end stays unknown, its completion will be counted */
	ring->queue[end & (ring->queue_entries - 1)] = *pending;
	atomic_store_explicit(&ring->announced, end + 1, memory_order_release);
	return true;
}
