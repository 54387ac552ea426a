/* SPDX-License-Identifier: MIT */
/*
 * io_uring without liburing, by libc's syscall() alone, and calls on files
 * made the same way. Prints OP FILE OFFSET LENGTH RESULT, in order.
 *
 * usage: uring_raw FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

#define ENTRIES 8

static char data[8192];

struct ring {
	int fd;
	struct io_uring_params params;
	char *queues;
	struct io_uring_sqe *sqes;
	size_t queues_bytes, sqes_bytes;
};

static unsigned int *word(struct ring *ring, unsigned int offset)
{
	return (unsigned int *)(ring->queues + offset);
}

static void open_ring(struct ring *ring)
{
	struct io_uring_params *params = &ring->params;
	size_t sq_bytes, cq_bytes;

	memset(ring, 0, sizeof(*ring));
	ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, params);
	CHECK(ring->fd >= 0 && params->features & IORING_FEAT_SINGLE_MMAP);
	sq_bytes = params->sq_off.array + params->sq_entries * sizeof(unsigned int);
	cq_bytes = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
	ring->queues_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
	ring->sqes_bytes = params->sq_entries * sizeof(*ring->sqes);
	ring->queues = mmap(NULL, ring->queues_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			    IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, ring->sqes_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			  IORING_OFF_SQES);
	CHECK(ring->queues != MAP_FAILED && ring->sqes != MAP_FAILED);
}

static void close_ring(struct ring *ring)
{
	CHECK(munmap(ring->sqes, ring->sqes_bytes) == 0);
	CHECK(munmap(ring->queues, ring->queues_bytes) == 0);
	CHECK(syscall(SYS_close, ring->fd) == 0);
}

/* Queue a write in the last place first: the array says in which order they go. */
static void queue_write(struct ring *ring, int fd, unsigned int bytes, unsigned long offset,
			unsigned char flags)
{
	unsigned int *tail = word(ring, ring->params.sq_off.tail);
	unsigned int at = *tail & (ENTRIES - 1), place = ENTRIES - 1 - at;

	ring->sqes[place] = (struct io_uring_sqe){.opcode = IORING_OP_WRITE,
						  .flags = flags,
						  .fd = fd,
						  .addr = (unsigned long)data,
						  .len = bytes,
						  .off = offset,
						  .user_data = bytes};
	word(ring, ring->params.sq_off.array)[at] = place;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

static void enter(struct ring *ring, unsigned int count, unsigned int awaited)
{
	long taken = syscall(SYS_io_uring_enter, ring->fd, count, awaited, IORING_ENTER_GETEVENTS,
			     NULL, 0);

	CHECK(taken == (long)count);
}

static void reap(struct ring *ring, const char *name, unsigned int count)
{
	unsigned int *head = word(ring, ring->params.cq_off.head);
	unsigned int *tail = word(ring, ring->params.cq_off.tail);
	struct io_uring_cqe *cqes = (void *)(ring->queues + ring->params.cq_off.cqes);

	for (unsigned int i = 0; i < count; i++) {
		struct io_uring_cqe *cqe = &cqes[*head & (ring->params.cq_entries - 1)];

		CHECK(__atomic_load_n(tail, __ATOMIC_ACQUIRE) != *head);
		CHECK(cqe->res == (int)cqe->user_data);
		printf("write %s %lld %lld %d\n", name, (long long)cqe->user_data * 10,
		       (long long)cqe->user_data, cqe->res);
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
}

static void by_ring(struct ring *ring, const char *name, unsigned int first)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	for (unsigned int i = 0; i < 5; i++)
		queue_write(ring, fd, first + i, (first + i) * 10ul, 0);
	enter(ring, 2, 2);
	reap(ring, name, 2);
	enter(ring, 3, 3);
	reap(ring, name, 3);
	CHECK(syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_FILES, &fd, 1) == 0);
	CHECK(close(fd) == 0);
	queue_write(ring, 0, first + 5, (first + 5) * 10ul, IOSQE_FIXED_FILE);
	enter(ring, 1, 1);
	reap(ring, name, 1);
}

static void by_calls(void)
{
	struct iovec parts[] = {{data, 100}, {data, 200}};
	int fd, copy;

	fd = (int)syscall(SYS_openat, AT_FDCWD, "calls", O_RDWR | O_CREAT | O_TRUNC, 0644);
	copy = (int)syscall(SYS_openat, AT_FDCWD, "copy", O_RDWR | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && copy >= 0);
	CHECK(syscall(SYS_write, fd, data, 10) == 10);
	CHECK(syscall(SYS_pwrite64, fd, data, 20, 1000L) == 20);
	CHECK(syscall(SYS_writev, fd, parts, 2) == 300);
	CHECK(syscall(SYS_pwritev2, fd, parts, 2, 5000L, 0, 0) == 300);
	CHECK(syscall(SYS_lseek, fd, 0, SEEK_SET) == 0);
	CHECK(syscall(SYS_read, fd, data, 30) == 30);
	CHECK(syscall(SYS_pread64, fd, data, 40, 7L) == 40);
	CHECK(syscall(SYS_copy_file_range, fd, NULL, copy, NULL, 50, 0) == 50);
	CHECK(syscall(SYS_fsync, fd) == 0);
	CHECK(syscall(SYS_ftruncate, fd, 123L) == 0);
	errno = 0;
	CHECK(syscall(SYS_write, -1, data, 10) == -1 && errno == EBADF);
	CHECK(syscall(SYS_renameat2, AT_FDCWD, "calls", AT_FDCWD, "called", 0) == 0);
	CHECK(syscall(SYS_close, fd) == 0 && syscall(SYS_close, copy) == 0);
	CHECK(syscall(SYS_unlinkat, AT_FDCWD, "called", 0) == 0);
	CHECK(syscall(SYS_getpid) == getpid());
}

int main(int argc, char **argv)
{
	struct ring ring;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	open_ring(&ring);
	by_ring(&ring, "ring", 100);
	close_ring(&ring);
	open_ring(&ring); /* at the same address, by the same descriptor */
	by_ring(&ring, "again", 200);
	close_ring(&ring);
	by_calls();
	fflush(stdout);
	syscall(SYS_exit_group, 0);
}
