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

#define CHUNK_LEAST_BYTES (64 << 10)

/* The part of the tape's size that is this worker's. */
static int64_t tape_share(const struct loop *loop)
{
	uint32_t workers = loop->shared ? loop->progress->workers : 0;

	return tape_bytes(loop->tape) / (workers ? workers : 1);
}

/*
 * Each request in flight has the same room: for the longest read, of `longest` bytes, and for so
 * much that all together are as long as the tape, which is longer than caches are; but no more
 * than its part of `landing_bytes`, and no less than 64 KiB. A read longer than its room is cut,
 * and counted.
 */
int landing_setup(struct loop *loop, int64_t longest)
{
	struct landing *landing = &loop->landing;
	int64_t count = loop->slot_count, room = longest + 2 * DIRECT_BLOCK_BYTES;
	int64_t most = loop->options->landing_bytes;
	int error;

	landing->users = calloc(count, sizeof(*landing->users));
	if (!landing->users)
		return -ENOMEM;
	landing->chunk_count = count;
	room = max64(room, tape_share(loop) / count);
	if (most)
		room = min64(room, most / count);
	room = max64(room, CHUNK_LEAST_BYTES) & -(int64_t)DIRECT_BLOCK_BYTES;
	error = tape_sink(loop->tape, room * count, &landing->base);
	if (!error)
		landing->chunk_bytes = room;
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
