/* SPDX-License-Identifier: MIT */
/*
 * What of io_uring is fixed for good: the kernel's structures, and those of
 * liburing's `struct io_uring` that its inlined functions read. Not from the
 * system's headers: the job may use a newer liburing than was built with.
 */
#ifndef IOTRACE_URING_ABI_H
#define IOTRACE_URING_ABI_H

#include "raw.h"

struct sqe {
	uint8_t opcode;
	uint8_t flags;
	uint16_t priority;
	int32_t fd;
	uint64_t offset; /* or the second address */
	uint64_t address;
	uint32_t length;
	uint32_t op_flags;
	uint64_t user_data;
	uint16_t buffer;
	uint16_t personality;
	uint32_t file_index; /* or the descriptor to splice from */
	uint64_t more[2];
};

struct cqe {
	uint64_t user_data;
	int32_t result;
	uint32_t flags;
};

_Static_assert(sizeof(struct sqe) == 64 && sizeof(struct cqe) == 16, "the kernel's sizes");

enum {
	URING_READV = 1,
	URING_WRITEV = 2,
	URING_FSYNC = 3,
	URING_READ_FIXED = 4,
	URING_WRITE_FIXED = 5,
	URING_SYNC_FILE_RANGE = 8,
	URING_SENDMSG = 9,
	URING_FALLOCATE = 17,
	URING_OPENAT = 18,
	URING_CLOSE = 19,
	URING_FILES_UPDATE = 20,
	URING_READ = 22,
	URING_WRITE = 23,
	URING_FADVISE = 24,
	URING_OPENAT2 = 28,
	URING_SPLICE = 30,
	URING_RENAMEAT = 35,
	URING_UNLINKAT = 36,
	URING_MKDIRAT = 37,
	URING_LINKAT = 39,
	URING_MSG_RING = 40,
	URING_SENDMSG_ZC = 48,
	URING_FIXED_FD_INSTALL = 54,
	URING_FTRUNCATE = 55,
	URING_READV_FIXED = 60,
	URING_WRITEV_FIXED = 61,
	URING_NOP128 = 63,
	URING_CMD128 = 64,
	URING_LAST_KNOWN = URING_CMD128, /* Linux 6.19 */
};

#define URING_SQE_FIXED_FILE (1u << 0)
#define URING_SQE_LINK (1u << 2)
#define URING_SQE_HARDLINK (1u << 3)
#define URING_SQE_BUFFER_SELECT (1u << 5)
#define URING_SQE_SKIP_SUCCESS (1u << 6)

#define URING_CQE_MORE (1u << 1)   /* not the last of its request */
#define URING_CQE_FILLER (1u << 5) /* mixed rings: before a large one that would wrap */
#define URING_CQE_LARGE (1u << 15) /* mixed rings: takes two places */

#define URING_SETUP_SQPOLL (1u << 1)
#define URING_SETUP_SQE128 (1u << 10)
#define URING_SETUP_CQE32 (1u << 11)
#define URING_SETUP_NO_MMAP (1u << 14)
#define URING_SETUP_NO_SQARRAY (1u << 16)
#define URING_SETUP_CQE_MIXED (1u << 18)
#define URING_SETUP_SQE_MIXED (1u << 19)
#define URING_SETUP_SQ_REWIND (1u << 20)

#define URING_FEATURE_SINGLE_MMAP (1u << 0)
#define URING_FEATURE_EXT_ARG (1u << 8)

#define URING_ENTER_REGISTERED_RING (1u << 4)

#define URING_OFFSET_SQ_RING 0
#define URING_OFFSET_CQ_RING 0x8000000
#define URING_OFFSET_SQES 0x10000000

#define URING_REGISTER_FILES 2
#define URING_UNREGISTER_FILES 3
#define URING_REGISTER_FILES_UPDATE 6
#define URING_REGISTER_FILES2 13
#define URING_REGISTER_FILES_UPDATE2 14
#define URING_REGISTER_RING_FDS 20
#define URING_UNREGISTER_RING_FDS 21
#define URING_REGISTER_USE_REGISTERED_RING (1u << 31)

#define URING_SLOT_ALLOCATED UINT32_MAX /* file_index: the kernel picks a slot */
#define URING_FILES_SKIP (-2)           /* an update that leaves a slot as it is */
#define URING_SPLICE_FIXED_IN (1u << 31)
#define URING_FSYNC_DATA (1u << 0)
#define URING_MSG_SEND_FD 1 /* address of a message between rings */

/* liburing's own: the user data of timeouts that it submits for old kernels. */
#define LIBURING_TIMEOUT UINT64_MAX

struct uring_params {
	uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd;
	uint32_t reserved[3];
	struct {
		uint32_t head, tail, mask, entries, flags, dropped, array, reserved;
		uint64_t user_address; /* of the SQEs, where the job brings the memory */
	} sq;
	struct {
		uint32_t head, tail, mask, entries, overflow, cqes, flags, reserved;
		uint64_t user_address; /* of both rings */
	} cq;
};

_Static_assert(sizeof(struct uring_params) == 120, "the kernel's size");

struct uring_files_update { /* one entry of REGISTER_RING_FDS, too */
	uint32_t offset, reserved;
	uint64_t files;
};

struct uring_files_register { /* REGISTER_FILES2 */
	uint32_t count, flags;
	uint64_t reserved, files, tags;
};

struct uring_files_update2 {
	uint32_t offset, reserved;
	uint64_t files, tags;
	uint32_t count, reserved2;
};

/* Unchanged from liburing 2.0 to 2.13 but for what once was padding. */
struct io_uring {
	struct {
		uint32_t *head, *tail, *mask, *entries, *flags, *dropped, *array;
		struct sqe *sqes;
		uint32_t first, end; /* filled in by the job, not yet handed over */
		size_t ring_bytes;
		void *ring;
		uint32_t padding[4];
	} sq;
	struct {
		uint32_t *head, *tail, *mask, *entries, *flags, *overflow;
		struct cqe *cqes;
		size_t ring_bytes;
		void *ring;
		uint32_t padding[4];
	} cq;
	uint32_t flags;
	int32_t fd;
	uint32_t features;
};

_Static_assert(sizeof(void *) == 8 && offsetof(struct io_uring, cq) == 104 &&
		       offsetof(struct io_uring, flags) == 192,
	       "where liburing has them");

#endif
