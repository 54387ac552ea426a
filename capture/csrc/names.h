/* SPDX-License-Identifier: MIT */
/* Calls that take a path and change what it names. */
#ifndef IOTRACE_NAMES_H
#define IOTRACE_NAMES_H

#include "request.h"

struct naming {
	struct record record;
	bool records;
};

/* Before the real call. */
struct naming naming_begin(enum record_op op);

/* Look up what the path names now, for a call after which it may name nothing. */
void naming_look_up(struct naming *naming, int at, const char *path, int flags);

/* After the real call, with the path, or with both. */
int naming_end(struct naming naming, int at, const char *path, int result);
int naming_end_two(struct naming naming, int from_at, const char *from, int to_at,
		   const char *to, int result);

/*
 * Append it as it is, for a call that ends later: with the path made absolute,
 * or with both. NULL: out of scope, or dropped.
 */
const struct record *naming_append(const struct record *record, int at, const char *path);
const struct record *naming_append_two(const struct record *record, int from_at,
				       const char *from, int to_at, const char *to);

#endif
