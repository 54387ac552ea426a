/* SPDX-License-Identifier: MIT */
/*
 * A lock-free stack of indices into an array whose elements carry the link.
 * Elements are never unmapped, and a count of the changes beside the head
 * makes a head that was popped and pushed again look different.
 */
#ifndef IOTRACE_STACK_H
#define IOTRACE_STACK_H

#include <stdatomic.h>
#include <stdint.h>

#define STACK_EMPTY UINT32_MAX

struct stack {
	_Atomic uint64_t head; /* changes << 32 | index + 1; 0 in the low half: empty */
};

typedef uint32_t *stack_link(uint32_t index);

static inline uint64_t stack_next_head(uint64_t head, uint32_t low)
{
	return ((head >> 32) + 1) << 32 | low;
}

static inline void stack_push(struct stack *stack, uint32_t index, stack_link *link_of)
{
	uint64_t head = atomic_load(&stack->head);

	do
		__atomic_store_n(link_of(index), (uint32_t)head, __ATOMIC_RELAXED);
	while (!atomic_compare_exchange_weak(&stack->head, &head,
					     stack_next_head(head, index + 1)));
}

static inline uint32_t stack_pop(struct stack *stack, stack_link *link_of)
{
	uint64_t head = atomic_load(&stack->head);

	while ((uint32_t)head) {
		uint32_t index = (uint32_t)head - 1;
		uint32_t below = __atomic_load_n(link_of(index), __ATOMIC_RELAXED);

		if (atomic_compare_exchange_weak(&stack->head, &head,
						 stack_next_head(head, below)))
			return index;
	}
	return STACK_EMPTY;
}

#endif
