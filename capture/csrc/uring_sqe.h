/* SPDX-License-Identifier: MIT */
/* One request of a ring: recorded when it is submitted, completed where it lies. */
#ifndef IOTRACE_URING_SQE_H
#define IOTRACE_URING_SQE_H

#include "uring_ring.h"

/* Append the record of a request, if it is one on files; fills in *pending but for its places. */
void sqe_decode(struct ring *ring, const struct sqe *sqe, uint64_t start_ns,
		struct pending *pending);

/* Its completion was seen. */
void sqe_complete(struct ring *ring, struct pending *pending, int64_t result, uint64_t end_ns);

#endif
