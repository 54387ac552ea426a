/* SPDX-License-Identifier: MIT */
/* Requests in flight on a ring, and the completions that end them. */
#ifndef IOTRACE_URING_REAP_H
#define IOTRACE_URING_REAP_H

#include "uring_ring.h"

/*
 * After a fork, what is in flight is the parent's. Only for who makes calls on the ring: it may
 * go at any time for others.
 */
void ring_settle(struct ring *ring);

/* Put a request where completions are looked up; without room its completion will be counted. */
void ring_announce(struct ring *ring, const struct pending *pending);

/*
 * Look for completions without a call on the ring, in any thread: those that the job has found in
 * its memory by itself, and those that a fork or an end leaves behind.
 */
void ring_look(struct ring *ring);

/* Nobody looks at it from now on, until it is cleared. */
void ring_keep_others_off(struct ring *ring);

/* The kernel took none of the requests of these orders: they end with `error`. */
void ring_refused(struct ring *ring, uint32_t first, uint32_t end, int error);

#endif
