/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <limits.h>
#include <string.h>

#include "chunks.h"
#include "counters.h"
#include "header.h"
#include "logfile.h"
#include "real.h"

/*
 * glibc keeps the values of the first 32 keys inside the thread; setting any
 * later key may call malloc, which must not happen in the middle of a request.
 */
#define FIRST_ALLOCATING_KEY 32

#define FORK_SEEN 0 /* what MADV_WIPEONFORK leaves */
#define FORK_NOT_SEEN 1

static struct {
	char folder[PATH_MAX];
	uint32_t pid, parent_pid;
	_Atomic uint32_t generation; /* 0: not started */
	_Atomic uint32_t failed;     /* no log can be made */
	_Atomic(struct log_header *) header;
	_Atomic uint32_t *fork_mark; /* a word that reads FORK_SEEN after any fork */
	_Atomic uint32_t plain_mark; /* stands in where the kernel cannot wipe */
	void (*tell_refusal)(int error);
	pthread_key_t exit_key;
	bool exit_key_usable;
} state;

__thread struct thread this_thread __attribute__((tls_model("initial-exec")));

uint32_t log_generation(void)
{
	return atomic_load_explicit(&state.generation, memory_order_relaxed);
}

bool log_exists(void)
{
	return atomic_load_explicit(&state.header, memory_order_relaxed) != NULL;
}

/* --- counters ---------------------------------------------------------- */

void log_count(size_t field, uint64_t amount)
{
	struct log_header *header = atomic_load(&state.header);

	counters_add(header, field, amount);
	if (header)
		return;
	header = atomic_load(&state.header);
	if (header)
		counters_settle(header);
}

void log_count_own_read(uint64_t bytes)
{
	if (!log_is_borrowed())
		LOG_COUNT(own_bytes_read, bytes);
}

uint64_t log_counted(size_t field)
{
	return counters_value(atomic_load(&state.header), field);
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
	int error;

	if (atomic_load(&state.failed))
		return NULL;
	logfile_name(path, state.folder, state.pid);
	error = logfile_create(path, &header);
	if (error) {
		if (!atomic_exchange(&state.failed, 1) && state.tell_refusal)
			state.tell_refusal(-error);
		return NULL;
	}
	header_fill(header, path);
	if (atomic_compare_exchange_strong(&state.header, &winner, header)) {
		counters_settle(header);
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

/* --- records --------------------------------------------------------- */

static struct chunk_header *take_chunk(struct log_header *header)
{
	uint32_t tid = (uint32_t)RAW(SYS_gettid);
	struct chunk_header *full = NULL, *chunk;

	if (this_thread.generation == log_generation())
		full = this_thread.chunk;
	chunk = chunk_take(header, tid);
	if (full)
		chunk_is_full(full);
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
	chunk_return(chunk);
}

static struct record *reserve(struct log_header *header, uint32_t slots)
{
	struct record *slot = NULL;

	if (likely(this_thread.chunk && this_thread.generation == log_generation()))
		slot = chunk_slots(this_thread.chunk, slots);
	while (unlikely(!slot)) {
		struct chunk_header *chunk = take_chunk(header);

		if (!chunk)
			return NULL;
		slot = chunk_slots(chunk, slots);
	}
	return slot;
}

void log_drop(void)
{
	LOG_COUNT(dropped_records, 1);
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
		log_drop();
		return NULL;
	}
	slot_store(slot, record, text, text_bytes);
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

uint32_t log_parent_pid(void)
{
	long pid = RAW(SYS_getppid);

	return pid ? (uint32_t)pid : state.parent_pid;
}

void log_renew(void)
{
	state.parent_pid = state.pid;
	state.pid = (uint32_t)RAW(SYS_getpid);
	chunks_forget();
	if (state.header)
		RAW(SYS_munmap, state.header, LOG_HEADER_BYTES);
	state.header = NULL;
	state.failed = 0;
	counters_renew();
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

void log_tell_refusal(void (*tell)(int error))
{
	state.tell_refusal = tell;
}

int log_start(const char *folder, uint64_t limit_bytes)
{
	if (folder[0] != '/' || strlen(folder) >= PATH_MAX - LOGFILE_NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(state.folder, folder);
	chunks_start(limit_bytes);
	state.pid = (uint32_t)RAW(SYS_getpid);
	state.fork_mark = make_fork_mark();
	atomic_store(state.fork_mark, FORK_NOT_SEEN);
	state.exit_key_usable = real.pthread_key_create(&state.exit_key, return_chunk) == 0 &&
				state.exit_key < FIRST_ALLOCATING_KEY;
	atomic_store(&state.generation, 1);
	return 0;
}
