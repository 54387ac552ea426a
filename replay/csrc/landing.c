/* SPDX-License-Identifier: MIT */
/*
 * Where reads land: each in memory that no other request in flight uses. A file system that
 * checks checksums in that memory, as btrfs does for direct reads, calls the data damaged when
 * something else lands there too.
 *
 * Each read lands behind the one before, as the tensors of an engine do: a batch of small reads
 * then reaches the device in few segments, and none lands in the processor's caches time and
 * again. The memory is cut into as many chunks as requests may be in flight. When one is full the
 * next that none of them uses is filled, and there always is one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "loop.h"

/* More than the longest read of the kernel, so that one at a time is never cut for want of it. */
#define BUDGET_BYTES ((INT64_C(2) << 30) + (1 << 20))
#define BUDGET_TAPES 4 /* all workers: so many times the tape, which is a share of the memory, */
#define BUDGET_LEAST_BYTES (INT64_C(128) << 20) /* but this for each, */
#define CHUNK_LEAST_BYTES (64 << 10)            /* and this for each request */

static int64_t clamp(int64_t n, int64_t least, int64_t most)
{
	if (n > most)
		n = most;
	return n < least ? least : n;
}

/*
 * Memory for reads of up to `longest` bytes, in all no less than this worker's share of the
 * tape's size. Reads that the budget leaves no room for are cut.
 */
int landing_setup(struct loop *loop, int64_t longest)
{
	struct landing *landing = &loop->landing;
	int64_t workers = loop->shared && loop->progress->workers ? loop->progress->workers : 1;
	int64_t share = tape_bytes(loop->tape) / workers;
	int64_t one = clamp(longest + 2 * DIRECT_BLOCK_BYTES, 0, BUDGET_BYTES);
	int64_t budget = clamp(clamp(BUDGET_TAPES * share, BUDGET_LEAST_BYTES, BUDGET_BYTES), one,
			       BUDGET_BYTES);
	int64_t bytes = clamp(one * loop->slot_count, share, budget);
	int error;

	landing->users = calloc(loop->slot_count, sizeof(*landing->users));
	if (!landing->users)
		return -ENOMEM;
	landing->chunk_count = loop->slot_count;
	bytes = clamp(bytes / landing->chunk_count, CHUNK_LEAST_BYTES, BUDGET_BYTES);
	bytes &= -(int64_t)DIRECT_BLOCK_BYTES;
	error = tape_sink(loop->tape, bytes * landing->chunk_count, &landing->base);
	if (!error)
		landing->chunk_bytes = bytes;
	return error;
}

void landing_teardown(struct loop *loop)
{
	free(loop->landing.users);
}

static void next_chunk(struct landing *landing)
{
	do {
		landing->chunk = landing->chunk + 1 == landing->chunk_count ? 0 : landing->chunk + 1;
	} while (landing->users[landing->chunk]);
	landing->used = 0;
}

/* At the file's place in a block, which O_DIRECT asks for. */
static int64_t next_place(const struct landing *landing, const struct loop_request *request)
{
	return landing->used + ((request->offset - landing->used) & (DIRECT_BLOCK_BYTES - 1));
}

void landing_take(struct loop *loop, struct slot *slot)
{
	struct landing *landing = &loop->landing;
	int64_t needed = transfer_landing(loop, slot->request), place, room;

	slot->landing_bytes = 0;
	if (!needed)
		return;
	place = next_place(landing, slot->request);
	if (place + needed > landing->chunk_bytes && landing->used) {
		next_chunk(landing);
		place = next_place(landing, slot->request);
	}
	room = landing->chunk_bytes - place;
	slot->landing = landing->base + landing->chunk * landing->chunk_bytes + place;
	slot->landing_bytes = needed < room ? needed : room;
	slot->landing_chunk = landing->chunk;
	landing->users[landing->chunk]++;
	landing->used = place + slot->landing_bytes;
}

void landing_give(struct loop *loop, const struct slot *slot)
{
	if (slot->landing_bytes)
		loop->landing.users[slot->landing_chunk]--;
}
