/* SPDX-License-Identifier: MIT */
/* The room in a raw log: chunks that belong to one thread at a time. */
#ifndef IOTRACE_CHUNKS_H
#define IOTRACE_CHUNKS_H

#include "raw.h"
#include "record.h"

/* How far a log may grow; call once, before any other. */
void chunks_start(uint64_t limit_bytes);

/* Room for the thread `tid`: what an ended thread left, or more of the file; NULL: full. */
struct chunk_header *chunk_take(struct log_header *header, uint32_t tid);

/* The next `slots` slots of a chunk; NULL: they do not fit any more. */
static inline struct record *chunk_slots(struct chunk_header *chunk, uint32_t slots)
{
	uint32_t first = __atomic_fetch_add(&chunk->next_slot, slots, __ATOMIC_RELAXED);

	return first + slots <= LOG_CHUNK_SLOTS ? (struct record *)chunk + first : NULL;
}

/* Its thread wrote its last record there: give the memory back, the file keeps it. */
void chunk_is_full(struct chunk_header *chunk);

/* Its thread has ended: let another have the room that is left. */
void chunk_return(struct chunk_header *chunk);

/* Put a record into a slot, the text behind it; the record is complete with the last store. */
void slot_store(struct record *slot, const struct record *record, const char *text,
		size_t text_bytes);

/* For a fork: the parent's chunks are none of the child's. */
void chunks_forget(void);

#endif
