/* SPDX-License-Identifier: MIT */
/* What a process counts beside its records: in the log's header, or before there is one. */
#ifndef IOTRACE_COUNTERS_H
#define IOTRACE_COUNTERS_H

#include "raw.h"
#include "record.h"

/* Add to a counter, named by its place in the header; `header` is NULL before there is a log. */
void counters_add(struct log_header *header, size_t field, uint64_t amount);

/* What such a counter has come to. */
uint64_t counters_value(struct log_header *header, size_t field);

/* Move what was counted before the log existed into it; safe to repeat. */
void counters_settle(struct log_header *header);

/* For a fork: a child begins at zero. */
void counters_renew(void);

#endif
