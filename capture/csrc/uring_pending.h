/* SPDX-License-Identifier: MIT */
/*
 * The table of a ring's requests in flight, found by their user data. It belongs to the thread
 * that looks for completions.
 */
#ifndef IOTRACE_URING_PENDING_H
#define IOTRACE_URING_PENDING_H

#include "uring_ring.h"

/* Requests with the same user data, or in a full table, among which one is looked for. */
#define PENDING_CANDIDATES 64

/* The one with this index + 1; NULL for 0. */
static inline struct pending *pending_at(struct ring *ring, uint32_t index)
{
	return index ? ring->pending + index - 1 : NULL;
}

/* The first with this user data, or with the same hash of it; `next` leads on. 0: none. */
uint32_t pending_first(struct ring *ring, uint64_t user_data);

/* It says nothing of its end if it goes well. */
static inline bool pending_is_silent(const struct pending *pending)
{
	return pending->sqe_flags & URING_SQE_SKIP_SUCCESS;
}

/* Put one in; without room its end stays unknown, and its completion will be counted. */
void pending_add(struct ring *ring, const struct pending *announced);

void pending_remove(struct ring *ring, uint32_t index);

/* For a fork: all of them are the parent's. */
void pending_forget_all(struct ring *ring);

#endif
