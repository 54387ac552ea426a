/* SPDX-License-Identifier: MIT */
#include "uring_pending.h"

#include <string.h>

static struct bucket *bucket_of(struct ring *ring, uint64_t user_data)
{
	/* Fibonacci hashing: user data are pointers or small numbers. */
	return ring->buckets + (user_data * 0x9e3779b97f4a7c15u >> (64 - ring->bucket_bits));
}

uint32_t pending_first(struct ring *ring, uint64_t user_data)
{
	return bucket_of(ring, user_data)->first;
}

/* --- removing ---------------------------------------------------------- */

static void unlink_silent(struct ring *ring, uint32_t index)
{
	uint32_t before = 0, here = ring->silent_first;

	while (here && here != index) {
		before = here;
		here = pending_at(ring, here)->next_silent;
	}
	*(before ? &pending_at(ring, before)->next_silent : &ring->silent_first) =
		pending_at(ring, index)->next_silent;
	if (ring->silent_last == index)
		ring->silent_last = before;
}

void pending_remove(struct ring *ring, uint32_t index)
{
	struct pending *pending = pending_at(ring, index);
	struct bucket *bucket = bucket_of(ring, pending->user_data);
	uint32_t before = 0, here = bucket->first;

	while (here && here != index) {
		before = here;
		here = pending_at(ring, here)->next;
	}
	*(before ? &pending_at(ring, before)->next : &bucket->first) = pending->next;
	if (bucket->last == index)
		bucket->last = before;
	if (pending_is_silent(pending))
		unlink_silent(ring, index);
	ring->in_flight--;
	pending->kind = PENDING_FREE;
	pending->next = ring->pending_free;
	ring->pending_free = index;
}

void pending_forget_all(struct ring *ring)
{
	memset(ring->buckets, 0, sizeof(*ring->buckets) << ring->bucket_bits);
	ring->pending_used = ring->pending_free = 0;
	ring->silent_first = ring->silent_last = 0;
	ring->in_flight = 0;
}

/* --- adding ------------------------------------------------------------ */

/*
 * A full table holds what never tells its end: silent requests that went well, and completions
 * that were written over. Those whose end nobody waits for go, in turn; few are looked at each time.
 */
static void forget_one(struct ring *ring)
{
	for (int i = 0; i < PENDING_CANDIDATES; i++) {
		uint32_t index = ring->forgotten++ % ring->pending_entries + 1;
		struct pending *pending = pending_at(ring, index);

		if (!pending->record || pending_is_silent(pending)) {
			pending_remove(ring, index);
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
		ring->pending_free = pending_at(ring, index)->next;
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
		struct pending *other = pending_at(ring, index);

		if (other->kind != PENDING_AT_POSITION || other->file != pending->file ||
		    other->chain == pending->chain)
			continue;
		other->is_crossed = pending->is_crossed = true;
		if (pending->file)
			pending->file->queried = 1;
	}
}

void pending_add(struct ring *ring, const struct pending *announced)
{
	struct bucket *bucket = bucket_of(ring, announced->user_data);
	uint32_t index = take_place(ring);
	struct pending *pending = pending_at(ring, index);

	if (!index)
		return;
	*pending = *announced;
	pending->next = pending->next_silent = 0;
	if (bucket->last)
		pending_at(ring, bucket->last)->next = index;
	else
		bucket->first = index;
	bucket->last = index;
	if (pending_is_silent(pending)) {
		if (ring->silent_last)
			pending_at(ring, ring->silent_last)->next_silent = index;
		else
			ring->silent_first = index;
		ring->silent_last = index;
	}
	if (pending->kind == PENDING_AT_POSITION)
		find_crossing(ring, pending);
	ring->in_flight++;
}
