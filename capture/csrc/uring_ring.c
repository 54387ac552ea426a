/* SPDX-License-Identifier: MIT */
#include "uring_ring.h"

#include <string.h>

#include "log.h"
#include "memory.h"
#include "uring_files.h"
#include "uring_reap.h"

#define RINGS 1024u
#define ENTRIES_MAX 65536u /* the kernel's limit on a completion queue */
/*
 * Requests in flight may outnumber the completion queue: the kernel keeps what
 * does not fit. Memory that is never touched costs nothing.
 */
#define PENDING_PER_COMPLETION 4u

static struct ring rings[RINGS];
static _Atomic uint32_t rings_used; /* entries from here on were never used */

bool rings_exist(void)
{
	return atomic_load_explicit(&rings_used, memory_order_relaxed) != 0;
}

/* --- finding ----------------------------------------------------------- */

#define FOR_EACH_RING(ring)                                                   \
	for (struct ring *ring = rings; ring < rings + atomic_load(&rings_used); ring++) \
		if (atomic_load_explicit(&ring->state, memory_order_acquire) >= \
		    RING_WITHOUT_MEMORY)

static struct ring *ring_by_tail(const uint32_t *sq_tail)
{
	FOR_EACH_RING(ring)
		if (ring->sq_tail == sq_tail && ring->state == RING_READY)
			return ring;
	return NULL;
}

struct ring *ring_by_fd(int fd, bool is_registered)
{
	FOR_EACH_RING(ring)
		if (is_registered ? ring->registering_thread == &this_thread &&
					    ring->registered_index == (uint32_t)fd
				  : ring->fd == fd)
			return ring;
	return NULL;
}

static struct ring *claim(void)
{
	for (uint32_t i = 0; i < RINGS; i++) {
		uint32_t expected = RING_FREE, used;

		if (!atomic_compare_exchange_strong(&rings[i].state, &expected, RING_CLAIMED))
			continue;
		used = atomic_load(&rings_used);
		while (used < i + 1 && !atomic_compare_exchange_weak(&rings_used, &used, i + 1))
			;
		return &rings[i];
	}
	return NULL;
}

/* Forget it; what is still in flight keeps an unknown end. */
static void release(struct ring *ring)
{
	ring_keep_others_off(ring);
	atomic_store(&ring->state, RING_CLAIMED);
	uring_files_unregister(ring);
	if (ring->memory)
		RAW(SYS_munmap, ring->memory, ring->memory_bytes);
	memset((char *)ring + sizeof(ring->state), 0, sizeof(*ring) - sizeof(ring->state));
	atomic_store(&ring->state, RING_FREE);
}

static void ring_end(struct ring *ring)
{
	ring_look(ring);
	release(ring);
}

/* A ring with this descriptor or this memory is gone, whoever closed it. */
static void release_stale(int fd, const uint32_t *sq_tail)
{
	FOR_EACH_RING(ring)
		if ((fd >= 0 && ring->fd == fd) || (sq_tail && ring->sq_tail == sq_tail))
			release(ring);
}

/* --- set up ------------------------------------------------------------ */

static bool is_queue_size(uint32_t entries)
{
	return entries && entries <= ENTRIES_MAX && (entries & (entries - 1)) == 0;
}

static uint32_t bits_of(uint32_t entries)
{
	return 31 - (uint32_t)__builtin_clz(entries);
}

static int allocate(struct ring *ring)
{
	size_t queue, pending, buckets;
	char *memory;

	ring->queue_entries = 2 * ring->sq_entries;
	ring->pending_entries = PENDING_PER_COMPLETION * ring->cq_entries;
	ring->bucket_bits = bits_of(ring->cq_entries) + 1;
	queue = ring->queue_entries * sizeof(*ring->queue);
	pending = ring->pending_entries * sizeof(*ring->pending);
	buckets = sizeof(*ring->buckets) << ring->bucket_bits;
	ring->memory_bytes = queue + pending + buckets;
	memory = raw_map(ring->memory_bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!memory)
		return -ENOMEM;
	ring->memory = memory;
	ring->queue = (struct pending *)memory;
	ring->pending = (struct pending *)(memory + queue);
	ring->buckets = (struct bucket *)(memory + queue + pending);
	return 0;
}

static bool make_ready(struct ring *ring)
{
	if (!is_queue_size(ring->sq_entries) || !is_queue_size(ring->cq_entries) ||
	    allocate(ring) != 0) {
		release(ring);
		LOG_COUNT(unknown_submissions, 1);
		return false;
	}
	ring->generation = log_settled_generation();
	ring->cq_seen = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
	atomic_store(&ring->state, RING_READY);
	return true;
}

/* What liburing's fields point to, if they are where they should be. */
static bool read_queues(const struct io_uring *uring, uint32_t *sq_entries, uint32_t *cq_entries)
{
	uint32_t sq_mask, cq_mask;

	return memory_read(sq_entries, uring->sq.entries, sizeof(*sq_entries)) &&
	       memory_read(cq_entries, uring->cq.entries, sizeof(*cq_entries)) &&
	       memory_read(&sq_mask, uring->sq.mask, sizeof(sq_mask)) &&
	       memory_read(&cq_mask, uring->cq.mask, sizeof(cq_mask)) &&
	       is_queue_size(*sq_entries) && is_queue_size(*cq_entries) &&
	       sq_mask == *sq_entries - 1 && cq_mask == *cq_entries - 1 && uring->sq.tail &&
	       uring->cq.tail && uring->sq.sqes && uring->cq.cqes;
}

static void take_pointers(struct ring *ring, const struct io_uring *uring, uint32_t sq_entries,
			  uint32_t cq_entries)
{
	ring->flags = uring->flags;
	ring->sq_head = uring->sq.head;
	ring->sq_tail = uring->sq.tail;
	ring->sq_array = NULL; /* liburing's is the identity */
	ring->sqes = (uint8_t *)uring->sq.sqes;
	ring->sq_entries = sq_entries;
	ring->cq_tail = uring->cq.tail;
	ring->cqes = (uint8_t *)uring->cq.cqes;
	ring->cq_entries = cq_entries;
}

struct ring *ring_adopt(const struct io_uring *uring)
{
	uint32_t sq_entries, cq_entries;
	struct ring *ring;

	if (!read_queues(uring, &sq_entries, &cq_entries)) {
		LOG_COUNT(unknown_submissions, 1);
		return NULL;
	}
	release_stale(uring->fd, uring->sq.tail);
	ring = claim();
	if (!ring) {
		LOG_COUNT(unknown_submissions, 1);
		return NULL;
	}
	ring->fd = uring->fd;
	take_pointers(ring, uring, sq_entries, cq_entries);
	ring->sq_seen = uring->sq.first;
	return make_ready(ring) ? ring : NULL;
}

struct ring *ring_of(const struct io_uring *uring)
{
	struct ring *ring = ring_by_tail(uring->sq.tail);

	return likely(ring != NULL) ? ring : ring_adopt(uring);
}

void ring_moved(struct ring *ring, const struct io_uring *uring)
{
	uint32_t sq_entries, cq_entries, cq_seen = ring->cq_seen;
	struct ring *now;

	if (!read_queues(uring, &sq_entries, &cq_entries)) {
		ring_end(ring);
		LOG_COUNT(unknown_submissions, 1);
		return;
	}
	if (sq_entries <= ring->sq_entries && cq_entries <= ring->cq_entries) {
		take_pointers(ring, uring, sq_entries, cq_entries);
		return;
	}
	/* What is in flight cannot move with it: its completions will be counted. */
	now = ring_adopt(uring);
	if (now)
		now->cq_seen = cq_seen;
}

/* --- set up by hand ---------------------------------------------------- */

static void place_rings(struct ring *ring, uint8_t *sq, uint8_t *cq)
{
	const struct uring_params *params = &ring->params;

	if (sq) {
		ring->sq_head = (uint32_t *)(sq + params->sq.head);
		ring->sq_tail = (uint32_t *)(sq + params->sq.tail);
		if (!(params->flags & URING_SETUP_NO_SQARRAY))
			ring->sq_array = (uint32_t *)(sq + params->sq.array);
	}
	if (cq) {
		ring->cq_tail = (uint32_t *)(cq + params->cq.tail);
		ring->cqes = cq + params->cq.cqes;
	}
	if (!ring->sq_tail || !ring->cq_tail || !ring->sqes)
		return;
	ring->sq_seen = __atomic_load_n(ring->sq_tail, __ATOMIC_ACQUIRE);
	make_ready(ring);
}

void ring_set_up(int fd, const struct uring_params *params)
{
	struct ring *ring;

	release_stale(fd, NULL);
	ring = claim();
	if (!ring) {
		LOG_COUNT(unknown_submissions, 1);
		return;
	}
	ring->fd = fd;
	ring->params = *params;
	ring->flags = params->flags;
	ring->sq_entries = params->sq_entries;
	ring->cq_entries = params->cq_entries;
	atomic_store(&ring->state, RING_WITHOUT_MEMORY);
	if (!(params->flags & URING_SETUP_NO_MMAP))
		return;
	ring->sqes = (uint8_t *)params->sq.user_address;
	place_rings(ring, (uint8_t *)params->cq.user_address, (uint8_t *)params->cq.user_address);
}

void ring_mapped(int fd, off_t offset, void *address)
{
	struct ring *ring = ring_by_fd(fd, false);
	bool single;

	if (!ring || ring->state != RING_WITHOUT_MEMORY)
		return;
	single = ring->params.features & URING_FEATURE_SINGLE_MMAP;
	if (offset == URING_OFFSET_SQES)
		ring->sqes = address;
	place_rings(ring, offset == URING_OFFSET_SQ_RING ? address : NULL,
		    offset == URING_OFFSET_CQ_RING ||
				    (offset == URING_OFFSET_SQ_RING && single)
			    ? address
			    : NULL);
}

/* --- going away -------------------------------------------------------- */

void ring_exit(const struct io_uring *uring)
{
	struct ring *ring = ring_by_tail(uring->sq.tail);

	if (ring)
		ring_end(ring);
}

void rings_unmapped(const void *address, size_t bytes)
{
	const char *first = address;

	FOR_EACH_RING(ring) {
		const char *parts[] = {(char *)ring->sq_tail, (char *)ring->cq_tail,
				       (char *)ring->sqes};

		for (size_t i = 0; i < 3; i++) {
			if (parts[i] < first || parts[i] >= first + bytes)
				continue;
			ring_end(ring);
			break;
		}
	}
}

void rings_look(void)
{
	FOR_EACH_RING(ring)
		ring_look(ring);
}
