/* SPDX-License-Identifier: MIT */
/*
 * A shadow of each ring. Requests are taken off the submission queue before
 * the kernel is told of them, and completions off the completion queue at
 * each call on the ring that can be seen, and at calls that may follow from
 * them (rings_look); the job's own heads are not touched.
 *
 * Whoever submits announces the requests in a queue; whoever looks for
 * completions first takes what was announced. Each part has one thread at a
 * time, and no thread waits for another: it leaves the work to it.
 */
#ifndef IOTRACE_URING_RING_H
#define IOTRACE_URING_RING_H

#include <stdatomic.h>

#include "descriptors.h"
#include "record.h"
#include "uring_abi.h"

/* A request between submission and completion. */
struct pending {
	uint64_t user_data;
	const struct record *record; /* NULL: matched with its completion, but not recorded */
	struct open_file *file;      /* OPENS: the new one; AT_POSITION, APPENDS: the one moved */
	int64_t expected;            /* result if all goes well; -1: any */
	int32_t fd;
	uint32_t slot;  /* OPENS: of the registered files, + 1; 0: a descriptor */
	uint32_t order; /* of submission to this ring */
	uint32_t chain; /* `order` of the first of the chain of links it is in */
	uint32_t next, next_silent; /* index + 1 */
	uint8_t sqe_flags;
	bool is_linked;  /* APPENDS: runs after the append before it, to the same file */
	bool is_crossed; /* AT_POSITION: another moved it at the same time */
	enum pending_kind {
		PENDING_FREE,
		PENDING_PLAIN,
		PENDING_OPENS,
		PENDING_RENAMES,
		PENDING_AT_POSITION,
		PENDING_APPENDS,
	} kind;
};

struct bucket {
	uint32_t first, last; /* index + 1 of pending; first come, first served */
};

enum ring_state { RING_FREE, RING_CLAIMED, RING_WITHOUT_MEMORY, RING_READY };

struct ring {
	_Atomic uint32_t state;
	int32_t fd;
	uint32_t flags; /* of setup */
	uint32_t generation; /* of the log the records are in */
	struct uring_params params; /* until all of its memory is mapped */

	uint32_t *sq_head, *sq_tail, *sq_array;
	uint8_t *sqes;
	uint32_t sq_entries;
	uint32_t *cq_tail;
	uint8_t *cqes;
	uint32_t cq_entries;

	/* Of the thread that submits. */
	_Atomic bool is_submitting;
	uint32_t sq_seen; /* requests up to here were announced */
	uint32_t order, chain;
	uint32_t chain_appends_to; /* number of the file of the chain's last append; 0: none */
	_Atomic uint32_t announced; /* tail of the queue */

	/* Of the thread that looks for completions. */
	_Atomic bool is_reaping;
	_Atomic uint32_t cq_seen;
	_Atomic uint32_t taken; /* head of the queue */
	uint32_t pending_used, pending_free;
	uint32_t silent_first, silent_last; /* in the order of submission */
	uint32_t in_flight;
	uint32_t forgotten; /* where in a full table to look for one that will not be missed */
	uint32_t broken_chain; /* the last of which a link failed */
	bool has_broken;

	void *memory;
	size_t memory_bytes;
	struct pending *queue, *pending;
	struct bucket *buckets;
	uint32_t queue_entries, pending_entries, bucket_bits;

	_Atomic uint64_t *files; /* registered: what uring_files.c makes of them */
	uint32_t files_count;
	size_t files_bytes;

	const void *registering_thread; /* that knows the ring by a number of its own */
	uint32_t registered_index;
};

/* --- which ring -------------------------------------------------------- */

/* liburing has set a ring up in *uring; NULL: not understood, and counted. */
struct ring *ring_adopt(const struct io_uring *uring);

/* The ring behind *uring, adopted now if it was not seen to be set up. */
struct ring *ring_of(const struct io_uring *uring);

/* The kernel has set up a ring; its memory comes with ring_mapped(). */
void ring_set_up(int fd, const struct uring_params *params);
void ring_mapped(int fd, off_t offset, void *address);

/* A ring by its descriptor, or by its number in this thread; NULL: none. */
struct ring *ring_by_fd(int fd, bool is_registered);

/* Memory is about to go; false quickly when there is no ring. */
bool rings_exist(void);
void rings_unmapped(const void *address, size_t bytes);

/* liburing is about to take the ring down, and its memory. */
void ring_exit(const struct io_uring *uring);

/* liburing has moved the memory of a ring. */
void ring_moved(struct ring *ring, const struct io_uring *uring);

/*
 * Look for completions on all rings. A job sees them in its memory, by inlined functions of
 * liburing: what it does next that can be seen tells that it may have, and is no part of them.
 */
void rings_look(void);

/* --- what happens on it ------------------------------------------------ */

/* Record the requests up to `end`, before the kernel is told of them. */
void ring_submit(struct ring *ring, uint32_t end);

/* After it was told: those up to `end` that it did not take have failed with `error`. */
void ring_submitted(struct ring *ring, uint32_t end, int error);

/* Look for completions; left to another thread that is at it. */
void ring_reap(struct ring *ring);

#endif
