/* SPDX-License-Identifier: MIT */
/* What a program asked of its rings, noted for the test: OP FILE OFFSET LENGTH RESULT. */
#ifndef URING_EXPECTED_H
#define URING_EXPECTED_H

#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define BLOCK 4096
#define DEPTH 64
#define AT_POSITION (__u64)-1

static char data[16 * BLOCK] __attribute__((aligned(BLOCK)));
static char back[16 * BLOCK] __attribute__((aligned(BLOCK)));

struct expected {
	const char *op, *file;
	long long offset, length;
	int result;
};

static struct expected expected[DEPTH];
static unsigned int expected_count;

/* Note what the next request is, and give it its number as user data. */
static inline void expect(struct io_uring_sqe *sqe, const char *op, const char *file, long long offset,
		   long long length)
{
	CHECK(expected_count < DEPTH);
	expected[expected_count] = (struct expected){op, file, offset, length, 0};
	io_uring_sqe_set_data64(sqe, expected_count++);
}

static inline struct io_uring_sqe *next(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	CHECK(sqe);
	return sqe;
}

static inline void reap(struct io_uring *ring, unsigned int count)
{
	struct io_uring_cqe *cqe;

	for (unsigned int i = 0; i < count; i++) {
		CHECK(io_uring_wait_cqe(ring, &cqe) == 0);
		CHECK(cqe->user_data < expected_count);
		expected[cqe->user_data].result = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
}

static inline void submit(struct io_uring *ring, unsigned int count)
{
	CHECK(io_uring_submit(ring) == (int)count);
	reap(ring, count);
}

static inline void print(void)
{
	for (unsigned int i = 0; i < expected_count; i++)
		printf("%s %s %lld %lld %d\n", expected[i].op, expected[i].file,
		       expected[i].offset, expected[i].length, expected[i].result);
}

static inline int made(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0644);

	CHECK(fd >= 0);
	return fd;
}

static inline void start(struct io_uring *ring, unsigned int flags)
{
	CHECK(io_uring_queue_init(DEPTH, ring, flags) == 0);
}

#endif
