/* SPDX-License-Identifier: MIT */
/*
 * Requests at once that name no place of their own: appends through each asynchronous interface,
 * and requests of a ring at the position. The file begins with a hole. Each append has a byte of
 * its own; nothing is printed.
 *
 * usage: shared_end FOLDER posix|libaio|ring|mixed|position|links|slot|handed|empty|message
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define COUNT 8
#define ROUNDS 4
#define HOLE_BYTES (1 << 20)
#define AT_POSITION ((__u64)-1)

static char data[COUNT][8192];
static int is_equal; /* in length */

static size_t bytes_of(int i)
{
	return is_equal ? 500 : 500 + 100 * (size_t)i;
}

static int opened(int flags)
{
	int fd = open("file", O_WRONLY | O_CREAT | flags, 0644);

	CHECK(fd >= 0);
	return fd;
}

static void by_posix(int fd)
{
	struct aiocb blocks[COUNT], *list[COUNT];

	memset(blocks, 0, sizeof(blocks));
	for (int i = 0; i < COUNT; i++) {
		blocks[i].aio_fildes = fd;
		blocks[i].aio_buf = data[i];
		blocks[i].aio_nbytes = bytes_of(i);
		blocks[i].aio_lio_opcode = LIO_WRITE;
		list[i] = &blocks[i];
	}
	CHECK(lio_listio(LIO_WAIT, list, COUNT, NULL) == 0);
	for (int i = 0; i < COUNT; i++)
		CHECK(aio_return(list[i]) == (ssize_t)bytes_of(i));
}

static void by_libaio(int fd)
{
	struct iocb blocks[COUNT], *list[COUNT];
	struct io_event events[COUNT];
	io_context_t context = 0;

	CHECK(io_setup(COUNT, &context) == 0);
	for (int i = 0; i < COUNT; i++) {
		io_prep_pwrite(&blocks[i], fd, data[i], bytes_of(i), 0);
		list[i] = &blocks[i];
	}
	CHECK(io_submit(context, COUNT, list) == COUNT);
	CHECK(io_getevents(context, COUNT, COUNT, events, NULL) == COUNT);
	CHECK(io_destroy(context) == 0);
}

static void by_ring(int fd, __u64 offset, unsigned int flags)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	CHECK(io_uring_queue_init(COUNT, &ring, 0) == 0);
	if (flags & IOSQE_FIXED_FILE)
		CHECK(io_uring_register_files(&ring, &fd, 1) == 0);
	for (int i = 0; i < COUNT; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		io_uring_prep_write(sqe, flags & IOSQE_FIXED_FILE ? 0 : fd, data[i],
				    (unsigned int)bytes_of(i), offset);
		sqe->flags |= i < COUNT - 1 ? flags : flags & ~(unsigned int)IOSQE_IO_LINK;
	}
	CHECK(io_uring_submit_and_wait(&ring, COUNT) == COUNT);
	for (int i = 0; i < COUNT; i++) {
		CHECK(io_uring_peek_cqe(&ring, &cqe) == 0 && cqe->res > 0);
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
}

/* Hands a descriptor to a child through a ring; both write at its position. */
static void hand_on(void)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, text = 'x';
	struct iovec part = {&text, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2], fd, status;
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(recvmsg(ends[1], &message, 0) == 1);
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
		CHECK(write(fd, data, 200) == 200);
		_exit(0);
	}
	fd = opened(O_TRUNC);
	CHECK(write(fd, data, 100) == 100);
	passed->cmsg_level = SOL_SOCKET;
	passed->cmsg_type = SCM_RIGHTS;
	passed->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(passed), &fd, sizeof(fd));
	CHECK(io_uring_queue_init(1, &ring, 0) == 0);
	io_uring_prep_sendmsg(io_uring_get_sqe(&ring), ends[0], &message, 0);
	CHECK(io_uring_submit_and_wait(&ring, 1) == 1);
	CHECK(io_uring_peek_cqe(&ring, &cqe) == 0 && cqe->res == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(write(fd, data, 300) == 300);
}

/* Requests of a ring after which the position is still that of one process. */
static void by_one(int is_message)
{
	int fd = opened(O_TRUNC | (is_message ? 0 : O_APPEND));
	struct io_uring_cqe *cqe;
	struct io_uring ring, other;

	CHECK(io_uring_queue_init(1, &ring, 0) == 0 && io_uring_queue_init(1, &other, 0) == 0);
	if (is_message)
		io_uring_prep_msg_ring(io_uring_get_sqe(&ring), other.ring_fd, 1, 2, 0);
	else
		io_uring_prep_write(io_uring_get_sqe(&ring), fd, data[0], 0, 0);
	CHECK(io_uring_submit_and_wait(&ring, 1) == 1);
	CHECK(io_uring_peek_cqe(&ring, &cqe) == 0 && cqe->res == 0);
	io_uring_cqe_seen(&ring, cqe);
	CHECK(write(fd, data, 100) == 100);
}

int main(int argc, char **argv)
{
	const char *name = argc >= 3 ? argv[2] : "";
	int at_position = !strcmp(name, "position") || !strcmp(name, "links") || !strcmp(name, "slot");
	int fd;

	CHECK(argc >= 3 && chdir(argv[1]) == 0);
	if (!strcmp(name, "handed")) {
		hand_on();
		return 0;
	}
	if (!strcmp(name, "empty") || !strcmp(name, "message")) {
		by_one(!strcmp(name, "message"));
		return 0;
	}
	is_equal = argc == 4;
	fd = opened(at_position ? 0 : O_APPEND);
	CHECK(ftruncate(fd, HOLE_BYTES) == 0);
	for (int i = 0; i < COUNT; i++)
		memset(data[i], 'a' + i, sizeof(data[i]));
	for (int round = 0; round < ROUNDS; round++) {
		if (!strcmp(name, "posix") || !strcmp(name, "mixed"))
			by_posix(fd);
		if (!strcmp(name, "libaio") || !strcmp(name, "mixed"))
			by_libaio(fd);
		if (!strcmp(name, "ring") || !strcmp(name, "mixed"))
			by_ring(fd, 0, 0);
		if (!strcmp(name, "position"))
			by_ring(fd, AT_POSITION, 0);
		if (!strcmp(name, "links"))
			by_ring(fd, AT_POSITION, IOSQE_IO_LINK);
		if (!strcmp(name, "slot"))
			by_ring(fd, AT_POSITION, IOSQE_FIXED_FILE);
		CHECK(write(fd, "z", 1) == 1); /* where the kernel has the position, or the end */
	}
	CHECK(close(fd) == 0);
	return 0;
}
