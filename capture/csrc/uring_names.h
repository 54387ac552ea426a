/* SPDX-License-Identifier: MIT */
/* Requests of a ring that open and close files, or change names. */
#ifndef IOTRACE_URING_NAMES_H
#define IOTRACE_URING_NAMES_H

#include "uring_ring.h"

/* `record` holds what all requests have; nothing happens for one that is not of these. */
void uring_decode_name(struct ring *ring, const struct sqe *sqe, struct record record,
		       struct pending *pending);

/* One of them has completed; before its record is. An open returns what the record is to say. */
int64_t uring_opened(struct ring *ring, struct pending *pending, int64_t result);
void uring_renamed(struct pending *pending, int64_t result);

#endif
