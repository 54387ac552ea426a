/* SPDX-License-Identifier: MIT */
/*
 * The shadow of a ring, on a ring that no kernel works on: what is hard to
 * make a kernel do is done here by hand. Requests are decoded to nothing but
 * their user data.
 */
#include "uring_reap.h"
#include "uring_sqe.h"

#include <pthread.h>
#include <string.h>

#include "check.h"
#include "log.h"
#include "memory.h"

#define SQ_ENTRIES 8u
#define CQ_ENTRIES 16u
#define THREAD_REQUESTS 200000u

static uint32_t sq_head, sq_tail, sq_mask, sq_entries, cq_tail, cq_mask, cq_entries;
static struct sqe sqes[2 * SQ_ENTRIES];
static struct cqe cqes[2 * CQ_ENTRIES];

static struct io_uring uring;

/* What came of each request, by its length, which is its number here. */
static struct {
	int64_t result;
	int ends, place;
} outcome[THREAD_REQUESTS + 1];

static _Atomic uint32_t decoded;
static int finished;

void sqe_decode(struct ring *ring, const struct sqe *sqe, uint64_t start_ns,
		struct pending *pending)
{
	CHECK(ring->state == RING_READY && start_ns);
	pending->slot = sqe->length;
	pending->expected = sqe->opcode == URING_FSYNC ? 0 : (int64_t)sqe->length;
	if (sqe->address) /* of one whose length is not its number */
		pending->expected = (int64_t)sqe->address;
	decoded++;
}

void sqe_complete(struct ring *ring, struct pending *pending, int64_t result, uint64_t end_ns)
{
	CHECK(ring->state == RING_READY && end_ns && pending->kind == PENDING_PLAIN);
	outcome[pending->slot].result = result;
	outcome[pending->slot].ends++;
	outcome[pending->slot].place = ++finished;
}

static struct ring *fresh_ring(uint32_t flags)
{
	memset(sqes, 0, sizeof(sqes));
	memset(cqes, 0, sizeof(cqes));
	memset(outcome, 0, sizeof(outcome));
	decoded = 0;
	sq_head = sq_tail = cq_tail = UINT32_MAX - 3; /* positions wrap soon */
	sq_entries = SQ_ENTRIES;
	cq_entries = CQ_ENTRIES;
	sq_mask = sq_entries - 1;
	cq_mask = cq_entries - 1;
	memset(&uring, 0, sizeof(uring));
	uring.sq.head = &sq_head;
	uring.sq.tail = &sq_tail;
	uring.sq.mask = &sq_mask;
	uring.sq.entries = &sq_entries;
	uring.sq.sqes = sqes;
	uring.sq.first = uring.sq.end = sq_tail;
	uring.cq.tail = &cq_tail;
	uring.cq.mask = &cq_mask;
	uring.cq.entries = &cq_entries;
	uring.cq.cqes = cqes;
	uring.flags = flags;
	uring.fd = 5;
	return ring_adopt(&uring);
}

static void queue(struct ring *ring, uint8_t opcode, uint8_t flags, uint64_t user_data,
		  uint32_t number)
{
	uint32_t shift = ring->flags & URING_SETUP_SQE128 ? 1 : 0;

	sqes[(uring.sq.end++ & sq_mask) << shift] = (struct sqe){
		.opcode = opcode, .flags = flags, .user_data = user_data, .length = number};
}

static void submit(struct ring *ring)
{
	ring_submit(ring, uring.sq.end);
	sq_tail = sq_head = uring.sq.end;
	ring_submitted(ring, uring.sq.end, 0);
}

static void complete(uint64_t user_data, int32_t result, uint32_t flags)
{
	uint32_t shift = uring.flags & URING_SETUP_CQE32 ? 1 : 0;
	struct cqe *cqe = &cqes[(cq_tail & cq_mask) << shift];

	*cqe = (struct cqe){user_data, result, flags};
	__atomic_store_n(&cq_tail, cq_tail + 1, __ATOMIC_RELEASE);
}

#define check_ended(number, expected)                                         \
	do {                                                                  \
		CHECK(outcome[number].ends == 1);                             \
		CHECK(outcome[number].result == (expected));                  \
	} while (0)

static void one_user_data_for_all(uint32_t flags)
{
	struct ring *ring = fresh_ring(flags);

	for (int round = 0; round < 10; round++) {
		memset(outcome, 0, sizeof(*outcome) * 10);
		queue(ring, URING_WRITE, 0, 0, 1);
		queue(ring, URING_FSYNC, 0, 0, 2);
		queue(ring, URING_WRITE, 0, 0, 3);
		submit(ring);
		complete(0, 0, 0);
		complete(0, 3, 0);
		complete(0, 1, 0);
		ring_reap(ring);
		check_ended(1, 1);
		check_ended(2, 0);
		check_ended(3, 3);
		CHECK(ring->in_flight == 0);
	}
}

/* More completions than the queue holds, all taken by the job before we looked. */
static void completions_are_overwritten(void)
{
	struct ring *ring = fresh_ring(0);

	for (uint32_t i = 1; i <= 24; i++) {
		queue(ring, URING_WRITE, 0, i, i);
		if (i % SQ_ENTRIES == 0)
			submit(ring);
	}
	for (uint32_t i = 1; i <= 24; i++)
		complete(i, (int32_t)i, 0);
	ring_reap(ring);
	for (uint32_t i = 1; i <= 24; i++)
		CHECK(outcome[i].ends == (i > 8));
	complete(999, 0, 0); /* of nobody */
	ring_reap(ring);
	CHECK(ring->in_flight == 8);
}

static void refused_requests_end_and_are_new_again(void)
{
	struct ring *ring = fresh_ring(0);

	queue(ring, URING_WRITE, 0, 1, 1);
	queue(ring, URING_WRITE, 0, 2, 2);
	ring_submit(ring, uring.sq.end);
	sq_tail = uring.sq.end;
	sq_head++;
	ring_submitted(ring, uring.sq.end, -EBUSY);
	check_ended(2, -EBUSY);
	CHECK(outcome[1].ends == 0);
	submit(ring);
	complete(2, 2, 0);
	complete(1, 1, 0);
	ring_reap(ring);
	check_ended(1, 1);
	CHECK(outcome[2].ends == 2 && outcome[2].result == 2);
	CHECK(decoded == 3);
}

static void silent_requests_end_with_a_later_link(void)
{
	struct ring *ring = fresh_ring(0);

	queue(ring, URING_WRITE, URING_SQE_SKIP_SUCCESS | URING_SQE_LINK, 1, 1);
	queue(ring, URING_WRITE, URING_SQE_SKIP_SUCCESS | URING_SQE_LINK, 1, 2);
	queue(ring, URING_WRITE, 0, 1, 3);
	queue(ring, URING_WRITE, URING_SQE_SKIP_SUCCESS, 1, 4);
	submit(ring);
	complete(1, 3, 0);
	ring_reap(ring);
	check_ended(1, 1);
	check_ended(2, 2);
	check_ended(3, 3);
	CHECK(outcome[1].place < outcome[2].place && outcome[2].place < outcome[3].place);
	CHECK(outcome[4].ends == 0);
	complete(1, -EIO, 0); /* failed: it does say so */
	ring_reap(ring);
	check_ended(4, -EIO);
	queue(ring, URING_WRITE, URING_SQE_SKIP_SUCCESS | URING_SQE_LINK, 1, 6);
	queue(ring, URING_WRITE, 0, 2, 7);
	submit(ring);
	complete(1, -ENOSPC, 0);
	complete(2, -ECANCELED, 0);
	ring_reap(ring);
	check_ended(6, -ENOSPC);
	check_ended(7, -ECANCELED);
	CHECK(ring->silent_first == 0 && ring->in_flight == 0);
}

#define SILENT_LINK (URING_SQE_SKIP_SUCCESS | URING_SQE_LINK)

/* Writes of 100 bytes and one user data; the last is no silent one. */
static void queue_chain(struct ring *ring, uint32_t first, uint32_t last, uint8_t flags)
{
	for (uint32_t i = first; i <= last; i++) {
		queue(ring, URING_WRITE, i < last ? flags : 0, 7, i);
		sqes[(uring.sq.end - 1) & sq_mask].address = 100;
	}
}

static void silent_requests_of_one_length_and_user_data(void)
{
	struct ring *ring = fresh_ring(0);
	uint64_t unmatched = LOG_COUNTED(unmatched_completions);

	queue_chain(ring, 1, 3, SILENT_LINK); /* all goes well */
	queue_chain(ring, 4, 6, SILENT_LINK);
	submit(ring);
	complete(7, 100, 0);
	complete(7, 100, 0);
	ring_reap(ring);
	for (uint32_t i = 1; i <= 6; i++)
		check_ended(i, 100);
	queue_chain(ring, 7, 9, URING_SQE_LINK); /* the second fails, the third is not run */
	queue_chain(ring, 10, 11, URING_SQE_LINK);
	submit(ring);
	complete(7, 100, 0);
	complete(7, -EIO, 0);
	complete(7, -ECANCELED, 0);
	complete(7, 100, 0);
	complete(7, 100, 0);
	ring_reap(ring);
	check_ended(8, -EIO);
	check_ended(9, -ECANCELED);
	check_ended(11, 100);
	CHECK(LOG_COUNTED(unmatched_completions) == unmatched);
	queue_chain(ring, 12, 14, SILENT_LINK); /* one has failed: which is not known, and told */
	submit(ring);
	complete(7, 60, 0);
	ring_reap(ring);
	check_ended(12, 60);
	check_ended(13, -ECANCELED);
	check_ended(14, -ECANCELED);
	CHECK(LOG_COUNTED(unmatched_completions) == unmatched + 1);
	CHECK(ring->silent_first == 0 && ring->in_flight == 0);
}

static void no_request_moves_more_than_it_asks_for(void)
{
	struct ring *ring = fresh_ring(0);
	uint64_t unmatched = LOG_COUNTED(unmatched_completions);

	queue(ring, URING_READ, SILENT_LINK, 9, 50);
	queue(ring, URING_READ, 0, 9, 300); /* of a file of 100 bytes */
	submit(ring);
	complete(9, 100, 0);
	ring_reap(ring);
	check_ended(50, 50);
	check_ended(300, 100);
	CHECK(ring->silent_last == 0 && LOG_COUNTED(unmatched_completions) == unmatched);
	ring = fresh_ring(0);
	queue(ring, URING_READ, 0, 9, 50);
	submit(ring);
	complete(9, 51, 0); /* of one that was not seen */
	ring_reap(ring);
	CHECK(outcome[50].ends == 0 && LOG_COUNTED(unmatched_completions) == unmatched + 1);
}

/* As if they had gone well, or as if nobody had looked in time at how they went. */
static void a_full_table_forgets_who_never_tells_its_end(uint8_t flags)
{
	struct ring *ring = fresh_ring(0);
	uint64_t unmatched = LOG_COUNTED(unmatched_completions);

	for (uint32_t i = 1; i <= 1000; i++) {
		queue(ring, URING_WRITE, flags, i % 3, 1);
		if (i % SQ_ENTRIES == 0)
			submit(ring);
	}
	CHECK(ring->in_flight <= ring->pending_entries);
	for (uint32_t i = 2; i <= 4; i++) {
		queue(ring, URING_WRITE, 0, 1000 + i, i);
		submit(ring);
		complete(1000 + i, (int32_t)i, 0);
		ring_reap(ring);
		check_ended(i, i);
	}
	CHECK(outcome[1].ends == 0 && LOG_COUNTED(unmatched_completions) == unmatched);
}

static void mixed_sizes(void)
{
	struct ring *ring = fresh_ring(URING_SETUP_SQE_MIXED | URING_SETUP_CQE_MIXED);

	queue(ring, URING_CMD128, 0, 1, 1);
	queue(ring, URING_WRITE, 0, 0xbad, 0); /* the second half of the first */
	queue(ring, URING_WRITE, 0, 2, 2);
	submit(ring);
	CHECK(decoded == 2);
	complete(1, 1, URING_CQE_LARGE);
	complete(0xbad, 1, 0); /* its second half */
	complete(0xbad, 0, URING_CQE_FILLER);
	complete(2, 2, 0);
	ring_reap(ring);
	check_ended(1, 1);
	check_ended(2, 2);
}

static void more_completions_of_one_request(void)
{
	struct ring *ring = fresh_ring(0);

	queue(ring, URING_WRITE, 0, 1, 1);
	sqes[(uring.sq.end - 1) & sq_mask].address = UINT64_MAX; /* any result */
	submit(ring);
	complete(1, 7, URING_CQE_MORE);
	ring_reap(ring);
	CHECK(outcome[1].ends == 0);
	complete(1, 9, 0);
	ring_reap(ring);
	check_ended(1, 9);
}

/* --- two threads ------------------------------------------------------- */

static _Atomic uint32_t submitted, done;
static struct ring *common;

static void *reap_all(void *unused)
{
	while (done < THREAD_REQUESTS) {
		uint32_t up_to = submitted;

		while (done < up_to && cq_tail - common->cq_seen < CQ_ENTRIES) {
			done++;
			complete(done % 3, (int32_t)done, 0);
		}
		ring_reap(common);
	}
	ring_reap(common);
	return unused;
}

static void submitter_and_reaper(void)
{
	pthread_t thread;

	common = fresh_ring(0);
	CHECK(pthread_create(&thread, NULL, reap_all, NULL) == 0);
	for (uint32_t i = 1; i <= THREAD_REQUESTS; i++) {
		queue(common, URING_WRITE, 0, i % 3, i);
		if (i % SQ_ENTRIES && i != THREAD_REQUESTS)
			continue;
		submit(common);
		submitted = i;
		while (i - done > CQ_ENTRIES - SQ_ENTRIES)
			ring_reap(common);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	ring_reap(common);
	for (uint32_t i = 1; i <= THREAD_REQUESTS; i++)
		check_ended(i, i);
}

/* --- what is not understood -------------------------------------------- */

static void strange_rings(void)
{
	struct io_uring strange;

	fresh_ring(0);
	memset(&strange, 0, sizeof(strange));
	CHECK(!ring_adopt(&strange));
	strange = uring;
	strange.sq.entries = (uint32_t *)8;
	CHECK(!ring_adopt(&strange));
	strange = uring;
	sq_mask = 6;
	CHECK(!ring_adopt(&strange));
	memset(&strange, 0xff, sizeof(strange));
	CHECK(!ring_adopt(&strange));
	for (int i = 0; i < 5000; i++) /* set up and never seen to end */
		CHECK(fresh_ring(0));
}

static void memory_that_is_not_there(void)
{
	char text[64], *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec parts[] = {{text, 10}, {text, 20}};
	uint64_t first;

	CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
	memcpy(page + 4090, "hello", 6);
	CHECK(memory_read_text(text, page + 4090, sizeof(text)) == 5);
	page[4095] = '!';
	CHECK(memory_read_text(text, page + 4090, sizeof(text)) == -EFAULT);
	CHECK(memory_read_text(text, "longer", 3) == -ENAMETOOLONG);
	CHECK(!memory_read(text, page + 4090, 10) && !memory_read(text, NULL, 1));
	CHECK(memory_parts_bytes(parts, 2, &first) == 30 && first == (uint64_t)text);
	CHECK(memory_parts_bytes((struct iovec *)page + 256, 1, &first) == -1);
	CHECK(memory_parts_bytes(parts, 5000, &first) == -1);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && log_start(argv[1], 1 << 20) == 0);
	one_user_data_for_all(0);
	one_user_data_for_all(URING_SETUP_SQE128 | URING_SETUP_CQE32);
	completions_are_overwritten();
	refused_requests_end_and_are_new_again();
	silent_requests_end_with_a_later_link();
	silent_requests_of_one_length_and_user_data();
	no_request_moves_more_than_it_asks_for();
	a_full_table_forgets_who_never_tells_its_end(0);
	a_full_table_forgets_who_never_tells_its_end(URING_SQE_SKIP_SUCCESS);
	mixed_sizes();
	more_completions_of_one_request();
	submitter_and_reaper();
	strange_rings();
	memory_that_is_not_there();
	return 0;
}
