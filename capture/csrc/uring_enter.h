/* SPDX-License-Identifier: MIT */
/* The three system calls of io_uring, however they are made. */
#ifndef IOTRACE_URING_ENTER_H
#define IOTRACE_URING_ENTER_H

#include "uring_ring.h"

/* A call on a ring between its begin and its end; `ring` NULL: nothing to do. */
struct ring_call {
	struct ring *ring;
	uint32_t end; /* of the requests handed over */
};

/* io_uring_setup(2) has returned `fd`. */
void uring_was_set_up(int fd, const void *params);

/* Around io_uring_enter(2); `error` is 0 or -errno. */
struct ring_call uring_enter_begin(int fd, uint32_t count, uint32_t flags);
void uring_call_end(struct ring_call call, int error);

/* io_uring_register(2) has returned `result`. */
void uring_was_registered(int fd, uint32_t opcode, const void *argument, uint32_t count,
			  int result);

#endif
