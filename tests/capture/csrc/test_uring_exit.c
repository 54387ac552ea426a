/* SPDX-License-Identifier: MIT */
/*
 * Rings that come and go with requests in flight, while other threads look at all of them. No
 * kernel works on these rings, so that nothing but our own work takes time.
 *
 * usage: test_uring_exit FOLDER
 */
#include "uring_reap.h"
#include "uring_sqe.h"

#include <pthread.h>

#include "check.h"
#include "log.h"

#define ENTRIES 8u
#define ROUNDS 20000
#define MAKERS 2
#define LOOKERS 2

static _Atomic int makers_left = MAKERS;
static _Atomic uint64_t ended;

void sqe_decode(struct ring *ring, const struct sqe *sqe, uint64_t start_ns,
		struct pending *pending)
{
	CHECK(ring->state == RING_READY && start_ns);
	pending->slot = sqe->length;
}

void sqe_complete(struct ring *ring, struct pending *pending, int64_t result, uint64_t end_ns)
{
	CHECK(ring->state == RING_READY && end_ns);
	CHECK(pending->kind == PENDING_PLAIN && pending->slot == (uint32_t)result);
	ended++;
}

/* Two requests are made, and one is done when the ring goes. */
static void *make(void *number)
{
	uint32_t sq_head = 0, sq_tail = 0, cq_tail = 0, mask = ENTRIES - 1, entries = ENTRIES;
	struct sqe sqes[ENTRIES] = {{.opcode = URING_WRITE, .user_data = 1, .length = 1},
				    {.opcode = URING_WRITE, .user_data = 2, .length = 2}};
	struct cqe cqes[ENTRIES] = {{.user_data = 1, .result = 1}};
	struct io_uring uring = {.fd = 1000 + (int)(intptr_t)number};

	uring.sq.head = &sq_head;
	uring.sq.tail = &sq_tail;
	uring.cq.tail = &cq_tail;
	uring.sq.mask = uring.cq.mask = &mask;
	uring.sq.entries = uring.cq.entries = &entries;
	uring.sq.sqes = sqes;
	uring.cq.cqes = cqes;
	for (int i = 0; i < ROUNDS; i++) {
		struct ring *ring;

		sq_head = sq_tail = 0;
		__atomic_store_n(&cq_tail, 0, __ATOMIC_RELEASE);
		ring = ring_adopt(&uring);
		CHECK(ring);
		ring_submit(ring, 2);
		sq_head = sq_tail = 2;
		ring_submitted(ring, 2, 0);
		__atomic_store_n(&cq_tail, 1, __ATOMIC_RELEASE);
		ring_exit(&uring);
	}
	makers_left--;
	return NULL;
}

static void *look(void *unused)
{
	while (makers_left)
		rings_look();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAKERS + LOOKERS];

	CHECK(argc == 2 && log_start(argv[1], 1 << 20) == 0);
	for (int i = 0; i < MAKERS + LOOKERS; i++)
		CHECK(pthread_create(&threads[i], NULL, i < MAKERS ? make : look,
				     (void *)(intptr_t)i) == 0);
	for (int i = 0; i < MAKERS + LOOKERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(ended > 0);
	return 0;
}
