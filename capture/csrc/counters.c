/* SPDX-License-Identifier: MIT */
#include "counters.h"

#include <stdatomic.h>
#include <string.h>

static struct log_header early; /* counters from before there is a header */

static _Atomic uint64_t *counter_at(struct log_header *header, size_t field)
{
	return (_Atomic uint64_t *)((char *)(header ? header : &early) + field);
}

void counters_add(struct log_header *header, size_t field, uint64_t amount)
{
	atomic_fetch_add_explicit(counter_at(header, field), amount, memory_order_relaxed);
}

uint64_t counters_value(struct log_header *header, size_t field)
{
	return atomic_load(counter_at(header, field));
}

static void settle_range(struct log_header *header, size_t first, size_t last)
{
	for (size_t field = first; field <= last; field += sizeof(uint64_t)) {
		uint64_t amount = atomic_exchange(counter_at(NULL, field), 0);

		if (amount)
			counters_add(header, field, amount);
	}
}

void counters_settle(struct log_header *header)
{
	settle_range(header, offsetof(struct log_header, dropped_records),
		     offsetof(struct log_header, ignored_bytes_written));
	settle_range(header, offsetof(struct log_header, unmatched_completions),
		     offsetof(struct log_header, own_bytes_written));
}

void counters_renew(void)
{
	memset(&early, 0, sizeof(early));
}
