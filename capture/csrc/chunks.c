/* SPDX-License-Identifier: MIT */
#include "chunks.h"

#include <stdatomic.h>
#include <string.h>

#include "logfile.h"
#include "stack.h"

/*
 * Chunks are mapped a segment at a time: one mapping per chunk could reach
 * vm.max_map_count (65530) in a long run.
 */
#define SEGMENT_CHUNKS 256u
#define SEGMENT_BYTES ((size_t)SEGMENT_CHUNKS * LOG_CHUNK_BYTES)
#define SEGMENTS 4096u /* 64 GiB */

/* A chunk with less room than this is not worth handing to another thread. */
#define WORTH_RETURNING_SLOTS 64

static struct {
	uint32_t limit;
	_Atomic uint32_t full;
	_Atomic(char *) segments[SEGMENTS];
	struct stack returned;
} chunks;

static struct chunk_header *chunk_at(uint32_t index)
{
	char *segment = atomic_load_explicit(&chunks.segments[index / SEGMENT_CHUNKS],
					     memory_order_acquire);

	return (struct chunk_header *)(segment +
				       (size_t)(index % SEGMENT_CHUNKS) * LOG_CHUNK_BYTES);
}

static uint32_t *next_returned(uint32_t index)
{
	return &chunk_at(index)->next_returned;
}

static int map_segment(uint32_t number, int fd)
{
	char *expected = NULL;
	char *segment;

	if (atomic_load_explicit(&chunks.segments[number], memory_order_acquire))
		return 0;
	/* Past the end of the file for now; each chunk is allocated before its first use. */
	segment = raw_map(SEGMENT_BYTES, MAP_SHARED, fd,
			  LOG_HEADER_BYTES + (off_t)number * (off_t)SEGMENT_BYTES);
	if (!segment)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong(&chunks.segments[number], &expected, segment))
		RAW(SYS_munmap, segment, SEGMENT_BYTES);
	return 0;
}

static int back_chunk(struct log_header *header, uint32_t index)
{
	off_t offset = LOG_HEADER_BYTES + (off_t)index * LOG_CHUNK_BYTES;
	int fd = logfile_grow((char *)header + header->path_at, offset, LOG_CHUNK_BYTES);
	int error;

	if (fd < 0)
		return fd;
	error = map_segment(index / SEGMENT_CHUNKS, fd);
	raw_close(fd);
	return error;
}

static struct chunk_header *grow(struct log_header *header, uint32_t tid)
{
	struct chunk_header *chunk;
	uint32_t index;
	int error;

	if (atomic_load_explicit(&chunks.full, memory_order_relaxed))
		return NULL;
	index = __atomic_fetch_add(&header->chunks, 1, __ATOMIC_RELAXED);
	error = index < chunks.limit ? back_chunk(header, index) : LOG_LIMIT;
	if (error) {
		uint32_t handed_out = index + 1;

		/* Once full, stay full: trying again at each request would slow the job. */
		atomic_store(&chunks.full, 1);
		header->stopped_by = error;
		__atomic_compare_exchange_n(&header->chunks, &handed_out, index, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		return NULL;
	}
	chunk = chunk_at(index);
#ifdef MADV_POPULATE_WRITE
	RAW(SYS_madvise, chunk, LOG_CHUNK_BYTES, MADV_POPULATE_WRITE); /* 16 faults in one */
#endif
	chunk->index = index;
	chunk->next_slot = 1;
	__atomic_store_n(&chunk->owner_tid, tid, __ATOMIC_RELEASE);
	return chunk;
}

void slot_store(struct record *slot, const struct record *record, const char *text,
		size_t text_bytes)
{
	if (text_bytes) {
		__atomic_store_n(&slot->text_bytes, (uint32_t)text_bytes, __ATOMIC_RELEASE);
		memcpy(slot + 1, text, text_bytes);
	}
	memcpy(slot, record, offsetof(struct record, text_bytes));
	slot->api = record->api;
	slot->offset_source = record->offset_source;
	__atomic_store_n(&slot->op, record->op, __ATOMIC_RELEASE);
}

static struct chunk_header *adopt(uint32_t tid)
{
	for (;;) {
		uint32_t index = stack_pop(&chunks.returned, next_returned);
		struct chunk_header *chunk;
		struct record *slot;

		if (index == STACK_EMPTY)
			return NULL;
		chunk = chunk_at(index);
		slot = chunk_slots(chunk, 1);
		if (slot) {
			uint64_t now = now_ns();
			struct record owner = {.start_ns = now, .end_ns = now, .offset = -1,
					       .length = -1, .result = tid, .op = OP_THREAD};

			slot_store(slot, &owner, NULL, 0);
			return chunk;
		}
	}
}

struct chunk_header *chunk_take(struct log_header *header, uint32_t tid)
{
	struct chunk_header *chunk = adopt(tid);

	return chunk ? chunk : grow(header, tid);
}

void chunk_is_full(struct chunk_header *chunk)
{
	RAW(SYS_madvise, chunk, LOG_CHUNK_BYTES, MADV_DONTNEED);
}

void chunk_return(struct chunk_header *chunk)
{
	if (__atomic_load_n(&chunk->next_slot, __ATOMIC_RELAXED) + WORTH_RETURNING_SLOTS <
	    LOG_CHUNK_SLOTS)
		stack_push(&chunks.returned, chunk->index, next_returned);
}

void chunks_forget(void)
{
	for (uint32_t i = 0; i < SEGMENTS && chunks.segments[i]; i++) {
		RAW(SYS_munmap, chunks.segments[i], SEGMENT_BYTES);
		chunks.segments[i] = NULL;
	}
	chunks.returned.head = 0;
	chunks.full = 0;
}

void chunks_start(uint64_t limit_bytes)
{
	uint64_t limit = limit_bytes / LOG_CHUNK_BYTES;

	chunks.limit = limit < SEGMENTS * SEGMENT_CHUNKS ? (uint32_t)limit
							 : SEGMENTS * SEGMENT_CHUNKS;
}
