/* SPDX-License-Identifier: MIT */
/*
 * Requests in flight that are known by an address of the job's: a control
 * block stands for one request at a time. Any thread submits, any other sees
 * the end; nothing waits.
 */
#ifndef IOTRACE_FLIGHT_H
#define IOTRACE_FLIGHT_H

#include "request.h"

/* Append the record of a request of `length` bytes on a file and remember it. */
void flight_begin(const void *block, enum record_api api, enum record_op op, int fd,
		  struct record record);

/* Its end was seen now; `forget`: it will not be asked about again. */
void flight_end(const void *block, int64_t result, bool forget);

/* It was never begun: the call that should have done so failed. */
void flight_refused(const void *block, int error);

/* What the records of such requests have; `end_ns` is 0. */
struct record flight_record(uint64_t start_ns);

#endif
