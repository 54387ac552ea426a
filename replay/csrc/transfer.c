/* SPDX-License-Identifier: MIT */
/*
 * The bytes of one data request: where they come from or go to, how much one
 * system call may move, and what a short, failed or interrupted call means.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

/* What may follow the `moved` bytes of a request: a place among its pieces. */
struct cursor {
	const struct loop_piece *piece;
	int64_t skip;
};

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The kernel moves at most INT_MAX, rounded down to pages, in one call. */
static int64_t transfer_max(void)
{
	return INT_MAX & -sysconf(_SC_PAGESIZE);
}

static int64_t memory_alignment(const struct loop_request *request)
{
	return request->offset % DIRECT_BLOCK_BYTES ? DIRECT_SECTOR_BYTES : DIRECT_BLOCK_BYTES;
}

/* Whether O_DIRECT can use the pieces where they lie. Phases are whole pages. */
static bool pieces_are_aligned(const struct loop *loop, const struct loop_request *request)
{
	const struct loop_piece *piece = loop->job->pieces + request->first_piece;
	int64_t alignment = memory_alignment(request);

	for (int i = 0; i < request->piece_count; i++, piece++) {
		if (piece->file >= 0 && piece->offset % alignment)
			return false;
		if (i + 1 < request->piece_count && piece->length % alignment)
			return false;
	}
	return true;
}

bool transfer_is_staged(const struct loop *loop, const struct loop_request *request)
{
	bool direct = request->handle >= 0 && loop->handles[request->handle].direct;

	if (!is_data(request) || !request->length)
		return false;
	if (request->op == LOOP_READ && loop->options->check_reads)
		return true;
	if (request->piece_count > 1 && !request->gather)
		return true;
	/* A single read can be moved in the sink until it is aligned. */
	if (request->op == LOOP_READ && request->piece_count == 1)
		return false;
	return direct && !pieces_are_aligned(loop, request);
}

void transfer_begin(struct loop *loop, struct slot *slot)
{
	const struct loop_request *request = slot->request;

	slot->direct = request->handle >= 0 && loop->handles[request->handle].direct;
	slot->vectored = request->gather && request->piece_count > 1 &&
			 !(slot->staged && slot->direct && !pieces_are_aligned(loop, request));
	slot->staged_from = slot->staged_to = 0;
	slot->done = 0;
	slot->piece = request->first_piece;
	slot->piece_done = 0;
	slot->tries = 0;
}

static struct cursor cursor_at(const struct loop *loop, const struct slot *slot)
{
	return (struct cursor){ loop->job->pieces + slot->piece, slot->piece_done };
}

/* The next run of bytes inside one piece, at most `limit` long; the cursor moves past it. */
static struct loop_piece cursor_run(struct cursor *cursor, int64_t limit)
{
	while (cursor->skip == cursor->piece->length) {
		cursor->piece++;
		cursor->skip = 0;
	}
	struct loop_piece run = {
		.offset = cursor->piece->offset + cursor->skip,
		.length = min64(cursor->piece->length - cursor->skip, limit),
		.file = cursor->piece->file,
	};

	cursor->skip += run.length;
	return run;
}

/* Copy the pieces of the next `length` bytes into staging. */
static void stage_pieces(struct loop *loop, struct slot *slot, int64_t length)
{
	struct cursor cursor = cursor_at(loop, slot);

	for (int64_t at = 0; at < length;) {
		struct loop_piece run = cursor_run(&cursor, length - at);

		tape_read(loop->tape, run.file, run.offset, run.length, slot->staging + at);
		at += run.length;
	}
	slot->staged_bytes += length;
}

/* Hand what was read into staging to where the pieces would have it. */
static void scatter_pieces(struct loop *loop, struct slot *slot, int64_t length)
{
	struct cursor cursor = cursor_at(loop, slot);
	const uint8_t *data = slot->staging + (slot->done - slot->staged_from);

	for (int64_t at = 0; at < length;) {
		struct loop_piece run = cursor_run(&cursor, length - at);

		tape_store(loop->tape, run.file, run.offset, run.length, data + at);
		at += run.length;
	}
	slot->staged_bytes += length;
}

static void check_pieces(struct loop *loop, struct slot *slot, int64_t length)
{
	struct cursor cursor = cursor_at(loop, slot);
	const uint8_t *data = slot->staging + (slot->done - slot->staged_from);

	for (int64_t at = 0; at < length;) {
		struct loop_piece run = cursor_run(&cursor, length - at);

		slot->mismatched_bytes +=
			tape_compare(loop->tape, run.file, run.offset, run.length, data + at);
		at += run.length;
	}
}

/* Fill the staging window that the next transfer lies in. */
static void prepare_staging(struct loop *loop, struct slot *slot)
{
	if (slot->done < slot->staged_to)
		return;
	slot->staged_from = slot->done;
	slot->staged_to = slot->done + min64(slot->request->length - slot->done,
					     min64(loop->options->staging_bytes, transfer_max()));
	if (slot->request->op == LOOP_WRITE)
		stage_pieces(loop, slot, slot->staged_to - slot->staged_from);
}

static uint8_t *place_of(const struct loop *loop, const struct slot *slot,
			 const struct loop_piece *run)
{
	if (slot->request->op == LOOP_WRITE)
		return (uint8_t *)tape_source(loop->tape, run->file, run->offset);
	return tape_sink(loop->tape, run->file, run->offset);
}

static void prepare_vector(struct loop *loop, struct slot *slot)
{
	struct cursor cursor = cursor_at(loop, slot);
	int64_t window = slot->staged ? slot->staged_to - slot->done : transfer_max();
	int64_t left = min64(slot->request->length - slot->done, window);
	uint8_t *staged = slot->staging + (slot->done - slot->staged_from);

	slot->transfer_bytes = 0;
	slot->iov_count = 0;
	while (left > 0 && slot->iov_count < (int)loop->iov_capacity) {
		struct loop_piece run = cursor_run(&cursor, min64(left, tape_span(loop->tape)));
		struct iovec *iov = &slot->iov[slot->iov_count++];

		iov->iov_base = slot->staged ? staged + slot->transfer_bytes
					     : place_of(loop, slot, &run);
		iov->iov_len = run.length;
		slot->transfer_bytes += run.length;
		left -= run.length;
	}
}

/* Straight from the tape, or into the sink; an O_DIRECT read at an aligned place near by. */
static void prepare_in_place(struct loop *loop, struct slot *slot)
{
	const struct loop_request *request = slot->request;
	int64_t limit = min64(transfer_max(), tape_span(loop->tape));
	struct cursor cursor = cursor_at(loop, slot);
	struct loop_piece run = { .file = -1 };

	if (request->length > slot->done)
		run = cursor_run(&cursor, limit);
	slot->transfer_bytes = run.length;
	slot->buffer = place_of(loop, slot, &run);
	if (slot->direct && request->op == LOOP_READ)
		slot->buffer += ((request->offset + slot->done) % DIRECT_BLOCK_BYTES) -
				(int64_t)((uintptr_t)slot->buffer % DIRECT_BLOCK_BYTES);
}

void transfer_prepare(struct loop *loop, struct slot *slot)
{
	if (slot->staged)
		prepare_staging(loop, slot);
	if (slot->vectored) {
		prepare_vector(loop, slot);
		return;
	}
	if (!slot->staged) {
		prepare_in_place(loop, slot);
		return;
	}
	slot->buffer = slot->staging + (slot->done - slot->staged_from);
	slot->transfer_bytes = slot->staged_to - slot->done;
}

static void move_on(struct loop *loop, struct slot *slot, int64_t moved)
{
	const struct loop_piece *pieces = loop->job->pieces;

	slot->done += moved;
	slot->piece_done += moved;
	while (slot->done < slot->request->length &&
	       slot->piece_done >= pieces[slot->piece].length)
		slot->piece_done -= pieces[slot->piece++].length;
}

/* Give the kernel a moment: 1 us, doubled at each try, at most 1 ms. */
static void back_off(int tries)
{
	struct timespec pause = { .tv_nsec = 1000L << (tries < 10 ? tries : 10) };

	nanosleep(&pause, NULL);
}

static bool give_up(struct slot *slot, int64_t result, int64_t now)
{
	slot->result = result;
	slot->end_ns = now;
	return true;
}

bool transfer_advance(struct loop *loop, struct slot *slot, int64_t result, int64_t now)
{
	const struct loop_request *request = slot->request;
	bool read = request->op == LOOP_READ;

	if ((result == -EAGAIN || result == -EINTR) && slot->tries < RETRIES_MAX) {
		back_off(slot->tries++);
		slot->retries++;
		return false;
	}
	if (result < 0)
		return give_up(slot, result, now);
	slot->tries = 0;
	if (read && slot->staged && request->piece_count > 1 && !request->gather)
		scatter_pieces(loop, slot, result);

	bool whole = slot->done + result == request->length;
	bool shorter = result < slot->transfer_bytes;
	bool over = whole || !result || (read && shorter && request->may_be_short);

	if (over) /* the copying above counts, the checking below does not */
		give_up(slot, slot->done + result, read && slot->staged ? clock_ns() : now);
	if (read && loop->options->check_reads)
		check_pieces(loop, slot, result);
	move_on(loop, slot, result);
	slot->resubmissions += shorter && !over;
	return over;
}
