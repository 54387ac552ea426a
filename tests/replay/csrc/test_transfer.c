/* SPDX-License-Identifier: MIT */
/*
 * How the bytes of one request are cut into memory segments, against a kernel
 * of a few lines that moves as many of them as it likes. Exit status 0: all well.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "loop.h"

#define TAPE_BYTES (4 << 20)
#define SPAN_BYTES (1 << 20)
#define CASES 3000
#define PIECES_MAX 6
#define FILE_BYTES (2 << 20)
#define SECTOR 512
#define BLOCK 4096
#define LANDING_BYTES (4 << 20) /* of a request; a tight one has */
#define TIGHT_BYTES (64 << 10)

struct trial {
	struct loop_request request;
	struct loop_piece pieces[PIECES_MAX];
	bool congruent; /* every piece of payload lies in memory as in the file */
	bool direct, checked, tight;
};

/* Memory for one request in flight, between two that are others'. */
static struct {
	uint8_t *before, *own, *after;
} landing;

static uint64_t state = 1;

static int64_t below(int64_t bound)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)((state >> 33) % (uint64_t)bound);
}

static int64_t a_length(void)
{
	static const int64_t AROUND[] = { 1, 511, 4095, 16383, 20479, 24576 };

	switch (below(3)) {
	case 0:
		return 1 + below(5000);
	case 1:
		return AROUND[below(6)] + below(3);
	default:
		return 15000 + below(200000);
	}
}

static struct trial a_trial(uint8_t op)
{
	struct trial trial = { .congruent = true, .direct = below(2), .tight = below(2) };
	struct loop_request *request = &trial.request;
	int count = 1 + below(PIECES_MAX);

	trial.checked = op == LOOP_READ && !below(3);
	*request = (struct loop_request){ .op = op, .gather = below(2), .piece_count = count };
	request->offset = trial.direct ? below(40) * SECTOR : below(9000);
	for (int i = 0; i < count; i++) {
		int64_t at = request->offset + request->length, length = a_length();

		if (trial.direct && i + 1 == count)
			length += -(uint64_t)(at + length) % SECTOR;
		trial.pieces[i] = (struct loop_piece){ at, length, 1 + below(3), 0 };
		if (!below(4)) {
			trial.pieces[i].offset += 1 + below(4096);
			trial.congruent = false;
		}
		if (op == LOOP_WRITE && !below(5))
			trial.pieces[i].file = -1;
		request->length += length;
	}
	return trial;
}

/* Move up to all of the segments, as the kernel does; direct I/O is refused where it would be. */
static int64_t move(const struct trial *trial, const struct slot *slot, uint8_t *file)
{
	uint8_t *at = file + trial->request.offset + slot->done;
	int64_t left = below(3) ? slot->transfer_bytes : 1 + below(slot->transfer_bytes);
	int64_t moved = 0;

	if (trial->direct)
		left = left < SECTOR ? SECTOR : left & -(int64_t)SECTOR;
	CHECK(slot->iov_count >= 1 && slot->vectored == (slot->iov_count > 1));
	CHECK(slot->buffer == slot->iov[0].iov_base);
	for (int i = 0; i < slot->iov_count; i++) {
		int64_t length = slot->iov[i].iov_len, part = length < left ? length : left;

		CHECK(length > 0);
		if (trial->direct)
			CHECK(!((uintptr_t)slot->iov[i].iov_base % SECTOR) && !(length % SECTOR));
		if (trial->request.op == LOOP_WRITE)
			memcpy(at + moved, slot->iov[i].iov_base, part);
		else
			memcpy(slot->iov[i].iov_base, at + moved, part);
		moved += part;
		left -= part;
	}
	return moved;
}

/* Each segment of a read lands in the request's own memory, and on no other segment. */
static void check_landing(const struct loop *loop, const struct slot *slot)
{
	for (int i = 0; i < slot->iov_count; i++) {
		const uint8_t *begin = slot->iov[i].iov_base, *end = begin + slot->iov[i].iov_len;
		bool staged = begin >= slot->staging && end <= slot->staging + loop->staging_bytes;

		CHECK(staged || (begin >= slot->landing &&
				 end <= slot->landing + slot->landing_bytes));
		for (int k = 0; k < i; k++) {
			const uint8_t *other = slot->iov[k].iov_base;

			CHECK(end <= other || begin >= other + slot->iov[k].iov_len);
		}
	}
}

/* What the file holds after a write, or before a read. */
static void expect(const struct tape *tape, const struct trial *trial, uint8_t *file)
{
	uint8_t *at = file + trial->request.offset;

	for (int i = 0; i < trial->request.piece_count; at += trial->pieces[i++].length)
		tape_read(tape, trial->pieces[i].file, trial->pieces[i].offset,
			  trial->pieces[i].length, at);
}

/* The bytes of one transfer that must be copied, in the words of the rule. */
static int64_t copied_bytes(const struct trial *trial)
{
	const struct loop_request *request = &trial->request;
	int64_t least = request->gather || request->piece_count == 1 ? 1 : 16384;
	int64_t block = !trial->direct ? 1 : request->offset % 4096 ? 512 : 4096;
	int64_t at = request->offset, copied = 0;

	for (int i = 0; i < request->piece_count; i++) {
		const struct loop_piece *piece = &trial->pieces[i];
		int64_t low = (at + block - 1) / block * block, high = at + piece->length;

		if (i + 1 < request->piece_count)
			high = high / block * block;
		if (trial->checked || high - low < least ||
		    (request->op == LOOP_WRITE && piece->file >= 0 && (piece->offset - at) % block))
			low = high = at;
		copied += piece->length - (high - low);
		at += piece->length;
	}
	return copied;
}

static void run(struct tape *tape, const struct trial *trial, uint8_t *file, uint8_t *staging,
		struct slot *slot)
{
	struct loop_job job = { .requests = &trial->request, .request_count = 1,
				.pieces = trial->pieces, .piece_count = PIECES_MAX };
	struct loop_options options = { .queue_depth = 1, .check_reads = trial->checked };
	struct handle handle = { .direct = trial->direct };
	struct loop loop = { .job = &job, .options = &options, .tape = tape, .handles = &handle };
	struct transfer_needs needs = transfer_survey(&loop, &trial->request);
	struct iovec iov[64];
	int64_t landing_bytes;

	CHECK(needs.copied_bytes == copied_bytes(trial));
	CHECK(transfer_is_staged(&loop, &trial->request) == (needs.copied_bytes > 0));
	CHECK(needs.segments <= 64);
	loop.staging_bytes = trial->tight ? 4096 : FILE_BYTES;
	loop.iov_capacity = trial->tight ? 2 : needs.segments;
	landing_bytes = transfer_landing(&loop, &trial->request);
	CHECK((landing_bytes > 0) == (trial->request.op == LOOP_READ && !trial->checked));
	CHECK(landing_bytes + BLOCK <= LANDING_BYTES);
	if (trial->tight && landing_bytes > TIGHT_BYTES)
		landing_bytes = TIGHT_BYTES - trial->request.offset % BLOCK;
	*slot = (struct slot){ .request = &trial->request, .iov = iov, .staging = staging,
			       .staged = needs.copied_bytes > 0, .landing_bytes = landing_bytes,
			       .landing = landing.own + trial->request.offset % BLOCK };
	transfer_begin(slot);
	transfer_prepare(&loop, slot);
	if (!trial->tight)
		CHECK(slot->iov_count == needs.segments &&
		      slot->transfer_bytes == trial->request.length);
	for (;;) {
		CHECK(slot->transfer_bytes > 0);
		if (trial->request.op == LOOP_READ)
			check_landing(&loop, slot);
		if (transfer_advance(&loop, slot, move(trial, slot, file), 1))
			break;
		transfer_prepare(&loop, slot);
	}
	CHECK(slot->result == trial->request.length);
	CHECK(trial->tight || !slot->cut);
	if (trial->request.piece_count == 1 && landing_bytes && !slot->staged)
		CHECK(slot->cut == (landing_bytes < trial->request.length));
}

static void test_writes(struct tape *tape, uint8_t *file, uint8_t *wanted, uint8_t *staging)
{
	struct slot slot;

	for (int i = 0; i < CASES; i++) {
		struct trial trial = a_trial(LOOP_WRITE);

		memset(file, 0x55, FILE_BYTES);
		memset(wanted, 0x55, FILE_BYTES);
		expect(tape, &trial, wanted);
		run(tape, &trial, file, staging, &slot);
		CHECK(!memcmp(file, wanted, FILE_BYTES));
		if (!slot.resubmissions && !trial.tight)
			CHECK((int64_t)slot.staged_bytes == copied_bytes(&trial));
	}
}

static void test_reads(struct tape *tape, uint8_t *file, uint8_t *staging)
{
	uint8_t *wanted = malloc(FILE_BYTES);
	int64_t whole = 0;
	struct slot slot;

	CHECK(wanted);
	memset(landing.before, 0x55, LANDING_BYTES);
	memset(landing.after, 0x55, LANDING_BYTES);

	for (int i = 0; i < CASES; i++) {
		struct trial trial = a_trial(LOOP_READ);

		memset(file, 0x55, FILE_BYTES);
		expect(tape, &trial, file);
		memset(landing.own, 0, LANDING_BYTES);
		run(tape, &trial, file, staging, &slot);
		CHECK(!slot.mismatched_bytes);
		for (int k = 0; k < trial.request.piece_count && !trial.checked; k++) {
			const struct loop_piece *piece = &trial.pieces[k];

			if (trial.direct || trial.tight || slot.resubmissions)
				break; /* it may lie in parts */
			tape_read(tape, piece->file, piece->offset, piece->length, wanted);
			CHECK(memmem(landing.own, LANDING_BYTES, wanted, piece->length));
			whole++;
		}
		file[trial.request.offset + below(trial.request.length)] ^= 4;
		run(tape, &trial, file, staging, &slot);
		CHECK(slot.mismatched_bytes == trial.checked);
	}
	CHECK(whole > CASES / 10);
	memset(wanted, 0x55, FILE_BYTES);
	CHECK(!memcmp(landing.after - LANDING_BYTES - FILE_BYTES, wanted, FILE_BYTES));
	CHECK(!memcmp(landing.after, wanted, FILE_BYTES));
	free(wanted);
}

int main(void)
{
	int error = 0;
	struct tape *tape = tape_new(TAPE_BYTES, SPAN_BYTES, 5, &error);
	uint8_t *file = malloc(FILE_BYTES), *wanted = malloc(FILE_BYTES);
	uint8_t *staging = aligned_alloc(4096, FILE_BYTES);

	CHECK(tape && file && wanted && staging);
	landing.before = aligned_alloc(4096, 3 * LANDING_BYTES);
	CHECK(landing.before);
	landing.own = landing.before + LANDING_BYTES;
	landing.after = landing.own + LANDING_BYTES;
	test_writes(tape, file, wanted, staging);
	test_reads(tape, file, staging);
	free(file);
	free(wanted);
	free(staging);
	free(landing.before);
	tape_free(tape);
	return 0;
}
