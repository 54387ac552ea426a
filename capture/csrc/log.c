/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <limits.h>
#include <string.h>

#include "header.h"
#include "logfile.h"
#include "real.h"
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

/*
 * glibc keeps the values of the first 32 keys inside the thread; setting any
 * later key may call malloc, which must not happen in the middle of a request.
 */
#define FIRST_ALLOCATING_KEY 32

#define FORK_SEEN 0 /* what MADV_WIPEONFORK leaves */
#define FORK_NOT_SEEN 1

static struct {
	char folder[PATH_MAX];
	uint32_t chunk_limit;
	uint32_t pid;
	_Atomic uint32_t generation; /* 0: not started */
	_Atomic uint32_t failed;     /* no log can be made, or no more chunks */
	_Atomic(struct log_header *) header;
	_Atomic(char *) segments[SEGMENTS];
	struct stack returned;
	_Atomic uint32_t *fork_mark; /* a word that reads FORK_SEEN after any fork */
	_Atomic uint32_t plain_mark; /* stands in where the kernel cannot wipe */
	pthread_key_t exit_key;
	bool exit_key_usable;
	struct log_header early; /* counters from before there is a header */
} state;

__thread struct thread this_thread __attribute__((tls_model("initial-exec")));

static struct chunk_header *chunk_at(uint32_t index)
{
	char *segment = atomic_load_explicit(&state.segments[index / SEGMENT_CHUNKS],
					     memory_order_acquire);

	return (struct chunk_header *)(segment +
				       (size_t)(index % SEGMENT_CHUNKS) * LOG_CHUNK_BYTES);
}

static uint32_t *next_returned(uint32_t index)
{
	return &chunk_at(index)->next_returned;
}

uint32_t log_generation(void)
{
	return atomic_load_explicit(&state.generation, memory_order_relaxed);
}

bool log_exists(void)
{
	return atomic_load_explicit(&state.header, memory_order_relaxed) != NULL;
}

/* --- counters ---------------------------------------------------------- */

static _Atomic uint64_t *counter_at(struct log_header *header, size_t field)
{
	return (_Atomic uint64_t *)((char *)header + field);
}

static void settle_range(struct log_header *header, size_t first, size_t last)
{
	for (size_t field = first; field <= last; field += sizeof(uint64_t)) {
		uint64_t early = atomic_exchange(counter_at(&state.early, field), 0);

		if (early)
			atomic_fetch_add(counter_at(header, field), early);
	}
}

/* Move what was counted before the header existed into it; safe to repeat. */
static void settle_counters(struct log_header *header)
{
	settle_range(header, offsetof(struct log_header, dropped_records),
		     offsetof(struct log_header, ignored_bytes_written));
	settle_range(header, offsetof(struct log_header, unmatched_completions),
		     offsetof(struct log_header, unknown_submissions));
}

void log_count(size_t field, uint64_t amount)
{
	struct log_header *header = atomic_load(&state.header);

	atomic_fetch_add_explicit(counter_at(header ? header : &state.early, field), amount,
				  memory_order_relaxed);
	if (header)
		return;
	header = atomic_load(&state.header);
	if (header)
		settle_counters(header);
}

uint64_t log_counted(size_t field)
{
	struct log_header *header = atomic_load(&state.header);

	return atomic_load(counter_at(header ? header : &state.early, field));
}

/* --- the file ---------------------------------------------------------- */

/*
 * Make the log. Threads that come here together each make one, the first to
 * publish wins and the others remove theirs: nobody waits, nothing is lost.
 */
static __attribute__((noinline)) struct log_header *create(void)
{
	char path[PATH_MAX + LOGFILE_NAME_MAX];
	struct log_header *header, *winner = NULL;

	if (atomic_load(&state.failed))
		return NULL;
	logfile_name(path, state.folder, state.pid);
	header = logfile_create(path);
	if (!header) {
		atomic_store(&state.failed, 1);
		return NULL;
	}
	header_fill(header, path);
	if (atomic_compare_exchange_strong(&state.header, &winner, header)) {
		settle_counters(header);
		return header;
	}
	RAW(SYS_munmap, header, LOG_HEADER_BYTES);
	RAW(SYS_unlinkat, AT_FDCWD, path, 0);
	return winner;
}

static inline struct log_header *log_header(void)
{
	struct log_header *header;

	if (unlikely(atomic_load_explicit(state.fork_mark, memory_order_relaxed) == FORK_SEEN))
		log_renew();
	header = atomic_load_explicit(&state.header, memory_order_acquire);
	return likely(header != NULL) ? header : create();
}

uint32_t log_file_number(void)
{
	struct log_header *header = log_header();

	return header ? __atomic_add_fetch(&header->files, 1, __ATOMIC_RELAXED) : 0;
}

/* --- chunks ------------------------------------------------------------ */

static int map_segment(uint32_t number, int fd)
{
	char *expected = NULL;
	char *segment;

	if (atomic_load_explicit(&state.segments[number], memory_order_acquire))
		return 0;
	/* Past the end of the file for now; each chunk is allocated before its first use. */
	segment = raw_map(SEGMENT_BYTES, MAP_SHARED, fd,
			  LOG_HEADER_BYTES + (off_t)number * (off_t)SEGMENT_BYTES);
	if (!segment)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong(&state.segments[number], &expected, segment))
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

	if (atomic_load_explicit(&state.failed, memory_order_relaxed))
		return NULL;
	index = __atomic_fetch_add(&header->chunks, 1, __ATOMIC_RELAXED);
	if (index >= state.chunk_limit || back_chunk(header, index)) {
		uint32_t handed_out = index + 1;

		/* Once full, stay full: trying again at each request would slow the job. */
		atomic_store(&state.failed, 1);
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

static struct record *slots_of(struct chunk_header *chunk, uint32_t slots)
{
	uint32_t first = __atomic_fetch_add(&chunk->next_slot, slots, __ATOMIC_RELAXED);

	return first + slots <= LOG_CHUNK_SLOTS ? (struct record *)chunk + first : NULL;
}

static void store(struct record *slot, const struct record *record, const char *text,
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
		uint32_t index = stack_pop(&state.returned, next_returned);
		struct chunk_header *chunk;
		struct record *slot;

		if (index == STACK_EMPTY)
			return NULL;
		chunk = chunk_at(index);
		slot = slots_of(chunk, 1);
		if (slot) {
			uint64_t now = now_ns();
			struct record owner = {.start_ns = now, .end_ns = now, .offset = -1,
					       .length = -1, .result = tid, .op = OP_THREAD};

			store(slot, &owner, NULL, 0);
			return chunk;
		}
	}
}

static struct chunk_header *take_chunk(struct log_header *header)
{
	uint32_t tid = (uint32_t)RAW(SYS_gettid);
	struct chunk_header *full = NULL, *chunk;

	if (this_thread.generation == log_generation())
		full = this_thread.chunk;
	chunk = adopt(tid);
	if (!chunk)
		chunk = grow(header, tid);
	if (full) /* out of the resident set; the file keeps it */
		RAW(SYS_madvise, full, LOG_CHUNK_BYTES, MADV_DONTNEED);
	this_thread.chunk = chunk;
	this_thread.generation = log_generation();
	if (chunk && state.exit_key_usable)
		real.pthread_setspecific(state.exit_key, &this_thread);
	return chunk;
}

/* Runs as a thread ends; should it write again afterwards, it takes another chunk. */
static void return_chunk(void *unused)
{
	struct chunk_header *chunk = this_thread.chunk;

	(void)unused;
	if (!chunk || this_thread.generation != log_generation() || log_is_borrowed())
		return;
	this_thread.chunk = NULL;
	if (__atomic_load_n(&chunk->next_slot, __ATOMIC_RELAXED) + WORTH_RETURNING_SLOTS <
	    LOG_CHUNK_SLOTS)
		stack_push(&state.returned, chunk->index, next_returned);
}

static struct record *reserve(struct log_header *header, uint32_t slots)
{
	struct record *slot = NULL;

	if (likely(this_thread.chunk && this_thread.generation == log_generation()))
		slot = slots_of(this_thread.chunk, slots);
	while (unlikely(!slot)) {
		struct chunk_header *chunk = take_chunk(header);

		if (!chunk)
			return NULL;
		slot = slots_of(chunk, slots);
	}
	return slot;
}

void log_drop(const struct record *record)
{
	LOG_COUNT(dropped_records, 1);
	if (record->result > 0 && record->op == OP_READ)
		LOG_COUNT(dropped_bytes_read, (uint64_t)record->result);
	if (record->result > 0 && record->op == OP_WRITE)
		LOG_COUNT(dropped_bytes_written, (uint64_t)record->result);
}

const struct record *log_append(const struct record *record, const char *text, size_t text_bytes)
{
	struct log_header *header = log_header();
	struct record *slot = NULL;

	if (text_bytes > LOG_TEXT_MAX) {
		text_bytes = LOG_TEXT_MAX;
		LOG_COUNT(cut_texts, 1);
	}
	if (header)
		slot = reserve(header,
			       1 + (uint32_t)((text_bytes + LOG_SLOT_BYTES - 1) / LOG_SLOT_BYTES));
	if (!slot) {
		log_drop(record);
		return NULL;
	}
	store(slot, record, text, text_bytes);
	return slot;
}

void log_finish(const struct record *at, uint32_t generation, int64_t result, uint64_t end_ns)
{
	struct record *record = (struct record *)at;

	if (!at || generation != log_settled_generation())
		return;
	record->result = result;
	__atomic_store_n(&record->end_ns, end_ns, __ATOMIC_RELEASE);
}

/* --- start and fork ---------------------------------------------------- */

uint32_t log_settled_generation(void)
{
	if (unlikely(atomic_load_explicit(state.fork_mark, memory_order_relaxed) == FORK_SEEN))
		log_renew();
	return log_generation();
}

bool log_is_borrowed(void)
{
	if (atomic_load_explicit(state.fork_mark, memory_order_relaxed) == FORK_SEEN)
		log_renew();
	return (uint32_t)RAW(SYS_getpid) != state.pid;
}

void log_renew(void)
{
	state.pid = (uint32_t)RAW(SYS_getpid);
	for (uint32_t i = 0; i < SEGMENTS && state.segments[i]; i++) {
		RAW(SYS_munmap, state.segments[i], SEGMENT_BYTES);
		state.segments[i] = NULL;
	}
	if (state.header)
		RAW(SYS_munmap, state.header, LOG_HEADER_BYTES);
	state.header = NULL;
	state.returned.head = 0;
	state.failed = 0;
	memset(&state.early, 0, sizeof(state.early));
	this_thread.chunk = NULL;
	atomic_fetch_add(&state.generation, 1);
	atomic_store(state.fork_mark, FORK_NOT_SEEN);
}

/* A word that any fork wipes, even one made without libc. */
static _Atomic uint32_t *make_fork_mark(void)
{
	const size_t bytes = 65536; /* one page of any size in use */
	void *page = raw_memory(bytes);

	if (page && RAW(SYS_madvise, page, bytes, MADV_WIPEONFORK) == 0)
		return page;
	return &state.plain_mark;
}

int log_start(const char *folder, uint64_t limit_bytes)
{
	uint64_t chunks = limit_bytes / LOG_CHUNK_BYTES;

	if (folder[0] != '/' || strlen(folder) >= PATH_MAX - LOGFILE_NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(state.folder, folder);
	state.chunk_limit = chunks < SEGMENTS * SEGMENT_CHUNKS ? (uint32_t)chunks
							       : SEGMENTS * SEGMENT_CHUNKS;
	state.pid = (uint32_t)RAW(SYS_getpid);
	state.fork_mark = make_fork_mark();
	atomic_store(state.fork_mark, FORK_NOT_SEEN);
	state.exit_key_usable = real.pthread_key_create(&state.exit_key, return_chunk) == 0 &&
				state.exit_key < FIRST_ALLOCATING_KEY;
	atomic_store(&state.generation, 1);
	return 0;
}
