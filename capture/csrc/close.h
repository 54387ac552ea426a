/* SPDX-License-Identifier: MIT */
/* Descriptors that go away, and the record of it. */
#ifndef IOTRACE_CLOSE_H
#define IOTRACE_CLOSE_H

#include "request.h"

/* A descriptor taken out of the table ahead of the call that closes it. */
struct closing {
	uint64_t start_ns;
	uint32_t number; /* 0: nothing to record */
	uint32_t left;   /* descriptors that still refer to the open file */
};

/*
 * Before the real call: once it returns, the number may already belong to
 * another thread's open.
 */
struct closing closing_begin(int fd);

/* After it; `error` is 0 or -errno. */
void closing_end(struct closing closing, enum record_api api, int error);

#endif
