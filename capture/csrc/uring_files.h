/* SPDX-License-Identifier: MIT */
/*
 * Files registered with a ring, that its requests name by a slot. A slot keeps
 * its file open after the descriptor is closed, so what is kept here is the
 * number of the open file in the log and not its descriptor.
 */
#ifndef IOTRACE_URING_FILES_H
#define IOTRACE_URING_FILES_H

#include "uring_ring.h"

/* What a request says it is on. */
struct uring_file {
	enum file_kind kind;
	uint32_t number;        /* in the log; 0: none */
	bool appends;
	struct open_file *file; /* NULL: of a slot */
	int32_t fd;             /* -1: of a slot */
};

struct uring_file uring_file_of(struct ring *ring, int32_t fd, bool is_slot);

/* Fill in a descriptor of a slot's file, if one is open: through it the kernel tells the position. */
void uring_file_find(struct uring_file *file);

/* The table is replaced; `fds` NULL: all slots are empty. */
void uring_files_register(struct ring *ring, const int32_t *fds, uint32_t count);
void uring_files_update(struct ring *ring, uint32_t first, const int32_t *fds, uint32_t count);
void uring_files_unregister(struct ring *ring);

/* A slot is filled or emptied by a request. */
void uring_slot_put(struct ring *ring, uint32_t slot, struct uring_file file);
struct uring_file uring_slot_take(struct ring *ring, uint32_t slot);

/* io_uring_register(2), after it succeeded. */
void uring_registered(struct ring *ring, uint32_t opcode, const void *argument, uint32_t count);

#endif
