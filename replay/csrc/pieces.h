/* SPDX-License-Identifier: MIT */
/* The pieces of one data request, seen from where its transfer is. */
#ifndef IOTRACE_PIECES_H
#define IOTRACE_PIECES_H

#include "loop.h"

/* A place among the pieces of a request. */
struct cursor {
	const struct loop_piece *piece;
	int64_t skip; /* bytes into the piece */
	int64_t at;   /* bytes into the request */
};

/* Bytes that follow one another in memory: all of them copied, or all in one piece. */
struct run {
	bool copied;
	int64_t length;
};

static inline bool is_checked(const struct loop *loop, const struct loop_request *request)
{
	return request->op == LOOP_READ && loop->options->check_reads;
}

/* To the next byte of the request; only where there is one. */
static inline void cursor_settle(struct cursor *cursor)
{
	while (cursor->skip == cursor->piece->length) {
		cursor->piece++;
		cursor->skip = 0;
	}
}

static inline void cursor_move(struct cursor *cursor, int64_t length)
{
	cursor->skip += length;
	cursor->at += length;
}

/* The next bytes inside one piece, at most `limit`; the cursor moves past them. */
static inline struct loop_piece cursor_take(struct cursor *cursor, int64_t limit)
{
	cursor_settle(cursor);

	struct loop_piece part = {
		.offset = cursor->piece->offset + cursor->skip,
		.length = min64(cursor->piece->length - cursor->skip, limit),
		.file = cursor->piece->file,
	};

	cursor_move(cursor, part.length);
	return part;
}

/* What one call to the kernel moves at most. */
int64_t transfer_max(void);
/* The run that the next bytes of the request, at most `limit`, belong to, inside one piece. */
struct run next_run(const struct loop *loop, const struct loop_request *request,
		    struct cursor *cursor, int64_t limit);

#endif
