/* SPDX-License-Identifier: MIT */
/*
 * The bytes of one data request: how much one system call may move and from where to where, and
 * what a short, failed or interrupted call means.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "loop.h"
#include "pieces.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* Linux 6.14, glibc 2.41 */
#endif

/* Of a run at most: up to its place in a page, and a page between it and the one before. */
#define LANDING_SPARE_BYTES (2 * DIRECT_BLOCK_BYTES)

/* Where the run that landed last ends: recorded file and offset, and place in the file read. */
struct landed {
	int32_t file;
	int64_t offset, at;
};

#define NOT_LANDED INT32_MIN

static struct cursor cursor_at(const struct loop *loop, const struct slot *slot)
{
	return (struct cursor){ loop->job->pieces + slot->piece, slot->piece_done, slot->done };
}

void transfer_begin(struct slot *slot)
{
	slot->done = 0;
	slot->piece = slot->request->first_piece;
	slot->piece_done = 0;
	slot->tries = 0;
}

/* Copy the next `length` bytes of payload to `out`. */
static void copy_pieces(struct loop *loop, struct cursor *cursor, int64_t length, uint8_t *out)
{
	while (length > 0) {
		struct loop_piece part = cursor_take(cursor, length);

		tape_read(loop->tape, part.file, part.offset, part.length, out);
		out += part.length;
		length -= part.length;
	}
}

/* Hand what was read into staging to where the pieces would have it. */
static void scatter_pieces(struct slot *slot, struct cursor *cursor, int64_t length,
			   const uint8_t *data)
{
	while (length > 0) {
		int64_t part = cursor_take(cursor, min64(length, slot->landing_bytes)).length;

		if (part > slot->landing_bytes - slot->landing_at)
			slot->landing_at = 0;
		memcpy(slot->landing + slot->landing_at, data, part);
		slot->landing_at += part;
		data += part;
		length -= part;
	}
}

static int64_t compare_pieces(struct loop *loop, struct cursor *cursor, int64_t length,
			      const uint8_t *data)
{
	int64_t different = 0;

	while (length > 0) {
		struct loop_piece part = cursor_take(cursor, length);

		different += tape_compare(loop->tape, part.file, part.offset, part.length, data);
		data += part.length;
		length -= part.length;
	}
	return different;
}

int64_t transfer_landing(const struct loop *loop, const struct loop_request *request)
{
	int64_t runs = min64(request->piece_count, IOV_CAPACITY_MAX);

	if (request->op != LOOP_READ || is_checked(loop, request))
		return 0;
	/* One piece lands as it lies in the file. */
	return min64(request->length, transfer_max()) + (runs > 1 ? runs * LANDING_SPARE_BYTES : 0);
}

/* Where in its memory the next transfer of a request lands: one piece, as it lies in the file. */
static int64_t first_landing(const struct slot *slot)
{
	bool whole = slot->request->piece_count == 1 && slot->request->length <= slot->landing_bytes;

	return whole ? slot->done : 0;
}

/* Whether two parts of a request lay in a row when recorded, and do so in the file. */
static bool follows(const struct landed *last, const struct loop_piece *part, int64_t at)
{
	return last->file == part->file && last->offset == part->offset && last->at == at;
}

/*
 * Choose where a run to be read lands: at its place in a page, which suits O_DIRECT, and not
 * joined to the run before unless it was so when recorded. Cuts it to the room there is.
 */
static uint8_t *land(struct slot *slot, struct cursor *cursor, struct run *run,
		     struct landed *last)
{
	int64_t at = slot->request->offset + cursor->at, place = slot->landing_at;
	struct cursor ahead = *cursor;
	struct loop_piece part = cursor_take(&ahead, run->length);

	if (!follows(last, &part, at)) {
		if (last->file != NOT_LANDED)
			place += DIRECT_BLOCK_BYTES;
		place += (at - (int64_t)(uintptr_t)(slot->landing + place)) &
			 (DIRECT_BLOCK_BYTES - 1);
	}
	if (run->length > slot->landing_bytes - place) {
		slot->cut = true;
		run->length = slot->landing_bytes - place;
	}
	if (run->length <= 0)
		return NULL;
	cursor_move(cursor, run->length);
	slot->landing_at = place + run->length;
	*last = (struct landed){ part.file, part.offset + run->length, at + run->length };
	return slot->landing + place;
}

/* Where the next bytes to be written lie. */
static uint8_t *source_of(const struct loop *loop, struct cursor *cursor, int64_t length)
{
	struct loop_piece part = cursor_take(cursor, length);

	return (uint8_t *)tape_source(loop->tape, part.file, part.offset);
}

static bool is_staging(const struct loop *loop, const struct slot *slot, const struct iovec *iov)
{
	const uint8_t *base = iov->iov_base;

	return slot->staged && base >= slot->staging && base < slot->staging + loop->staging_bytes;
}

/* Add a run to the transfer; false when there is no room for it. */
static bool add_run(struct loop *loop, struct slot *slot, struct cursor *cursor, struct run run,
		    int64_t *used, struct landed *landed)
{
	struct iovec *last = slot->iov_count ? &slot->iov[slot->iov_count - 1] : NULL;
	bool joins = run.copied && last && is_staging(loop, slot, last);
	uint8_t *place = slot->staging + *used;

	if (run.copied)
		run.length = min64(run.length, loop->staging_bytes - *used);
	if (!run.length || (!joins && slot->iov_count == (int)loop->iov_capacity))
		return false;
	if (!run.copied && slot->request->op == LOOP_READ) {
		place = land(slot, cursor, &run, landed);
		if (!place)
			return false;
	} else if (!run.copied) {
		place = source_of(loop, cursor, run.length);
	} else if (slot->request->op == LOOP_WRITE) {
		copy_pieces(loop, cursor, run.length, place);
		slot->staged_bytes += run.length;
	} else {
		cursor_move(cursor, run.length);
	}
	*used += run.copied ? run.length : 0;
	if (joins)
		last->iov_len += run.length;
	else
		slot->iov[slot->iov_count++] = (struct iovec){ place, run.length };
	slot->transfer_bytes += run.length;
	return true;
}

void transfer_prepare(struct loop *loop, struct slot *slot)
{
	const struct loop_request *request = slot->request;
	int64_t limit = min64(request->length - slot->done, transfer_max()), used = 0;
	struct cursor cursor = cursor_at(loop, slot);
	struct landed landed = { .file = NOT_LANDED };

	slot->landing_at = first_landing(slot);
	slot->transfer_bytes = 0;
	slot->iov_count = 0;
	while (slot->transfer_bytes < limit) {
		struct run run = next_run(loop, request, &cursor, limit - slot->transfer_bytes);

		if (!add_run(loop, slot, &cursor, run, &used, &landed))
			break;
	}
	slot->vectored = slot->iov_count > 1;
	slot->buffer = slot->iov_count ? slot->iov[0].iov_base
				       : (uint8_t *)tape_source(loop->tape, -1, 0);
}

/* Take the `length` bytes that were read out of staging. */
static void unstage(struct loop *loop, struct slot *slot, int64_t length)
{
	struct cursor cursor = cursor_at(loop, slot);
	bool checked = is_checked(loop, slot->request);

	for (int i = 0; length > 0; i++) {
		const struct iovec *iov = &slot->iov[i];
		int64_t part = min64(iov->iov_len, length);

		length -= part;
		if (!is_staging(loop, slot, iov)) {
			cursor_take(&cursor, part);
		} else if (checked) {
			slot->mismatched_bytes += compare_pieces(loop, &cursor, part, iov->iov_base);
		} else {
			scatter_pieces(slot, &cursor, part, iov->iov_base);
			slot->staged_bytes += part;
		}
	}
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

int transfer_flags(const struct loop *loop, const struct slot *slot)
{
	bool direct = loop->handles[slot->request->handle].direct;

	return loop->options->uncached && !direct ? RWF_DONTCACHE : 0;
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
	bool read = request->op == LOOP_READ, checked = is_checked(loop, request);

	if ((result == -EAGAIN || result == -EINTR) && slot->tries < RETRIES_MAX) {
		back_off(slot->tries++);
		slot->retries++;
		return false;
	}
	if (result < 0)
		return give_up(slot, result, now);
	slot->tries = 0;
	if (read && slot->staged && !checked)
		unstage(loop, slot, result);

	bool whole = slot->done + result == request->length;
	bool shorter = result < slot->transfer_bytes;
	bool over = whole || !result || (read && shorter && request->may_be_short);

	if (over) /* the copying above counts, the checking below does not */
		give_up(slot, slot->done + result, read && slot->staged && !checked ? clock_ns() : now);
	if (checked)
		unstage(loop, slot, result);
	move_on(loop, slot, result);
	slot->resubmissions += shorter && !over;
	return over;
}
