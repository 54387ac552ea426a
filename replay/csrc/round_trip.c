/* SPDX-License-Identifier: MIT */
/* Answers that take longer than they do here, as if they came from far away. */
#define _GNU_SOURCE
#include "loop.h"

static int64_t round_trip_ns(const struct loop *loop, const struct slot *slot)
{
	return slot->request->op == LOOP_EVICT ? 0 : loop->options->round_trip_ns;
}

/* All trips take the same time: what was done first arrives first. */
void loop_finish(struct loop *loop, struct slot *slot)
{
	if (!round_trip_ns(loop, slot)) {
		loop_complete(loop, slot);
		return;
	}
	slot->end_ns += round_trip_ns(loop, slot);
	slot->next = NULL;
	if (loop->returning)
		loop->last_returning->next = slot;
	else
		loop->returning = slot;
	loop->last_returning = slot;
}

void loop_receive(struct loop *loop, int64_t now)
{
	while (loop_arrival(loop) <= now) {
		struct slot *slot = loop->returning;

		loop->returning = slot->next;
		slot->end_ns = now;
		loop_complete(loop, slot);
	}
}

int64_t loop_arrival(const struct loop *loop)
{
	return loop->returning ? loop->returning->end_ns : INT64_MAX;
}

void loop_travel(const struct loop *loop, struct slot *slot)
{
	if (!round_trip_ns(loop, slot))
		return;
	sleep_until(slot->end_ns + round_trip_ns(loop, slot));
	slot->end_ns = clock_ns();
}
