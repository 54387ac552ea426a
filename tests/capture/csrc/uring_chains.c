/* SPDX-License-Identifier: MIT */
/*
 * Links of which only the last says that it is done. Prints what the kernel did for each:
 * OP FILE OFFSET LENGTH RESULT, in the order of submission.
 *
 * usage: uring_chains FOLDER CASE
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>
#include <sys/wait.h>

#include "uring_expected.h"

#define SILENT_LINK (IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS)
#define LINKS 4
#define OUTSIDE 2000 /* far more than a table of what is in flight holds */

/* Each of another length, so that its place shows the order; one completion. */
static void at_position(struct io_uring *ring, int fd, bool reads)
{
	struct io_uring_cqe *cqe;
	long long offset = 0;

	for (int i = 0; i < LINKS; i++) {
		struct io_uring_sqe *sqe = next(ring);
		unsigned int length = 100 * ((unsigned int)i + 1);

		if (reads)
			io_uring_prep_read(sqe, fd, back, length, AT_POSITION);
		else
			io_uring_prep_write(sqe, fd, data, length, AT_POSITION);
		sqe->flags |= i < LINKS - 1 ? SILENT_LINK : 0;
		expect(sqe, reads ? "read" : "write", "position", offset, length);
		expected[expected_count - 1].result = (int)length;
		offset += length;
	}
	CHECK(io_uring_submit_and_wait(ring, 1) == LINKS);
	CHECK(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->res == 100 * LINKS);
	io_uring_cqe_seen(ring, cqe);
	CHECK(lseek(fd, 0, SEEK_CUR) == offset);
}

static void positions(struct io_uring *ring)
{
	int fd = made("position");

	at_position(ring, fd, false);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	at_position(ring, fd, true);
	CHECK(close(fd) == 0);
}

/* The only completion is of the second: the first did not ask for so much. */
static void short_read(struct io_uring *ring)
{
	const unsigned int lengths[] = {50, 300};
	struct io_uring_cqe *cqe;
	int fd = made("short");

	CHECK(pwrite(fd, data, 100, 0) == 100);
	for (int i = 0; i < 2; i++) {
		struct io_uring_sqe *sqe = next(ring);

		io_uring_prep_read(sqe, fd, back, lengths[i], 0);
		sqe->flags |= i ? 0 : SILENT_LINK;
		expect(sqe, "read", "short", 0, lengths[i]);
		io_uring_sqe_set_data64(sqe, 9);
		expected[expected_count - 1].result = i ? 100 : 50;
	}
	CHECK(io_uring_submit_and_wait(ring, 1) == 2);
	CHECK(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->res == 100);
	io_uring_cqe_seen(ring, cqe);
	CHECK(close(fd) == 0);
}

/* The request names a group of buffers, and leaves its length to the one that the kernel takes. */
static void chosen_buffer(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = next(ring);
	int fd = made("chosen");

	CHECK(pwrite(fd, data, 100, 0) == 100);
	io_uring_prep_provide_buffers(sqe, back, BLOCK, 1, 3, 0);
	io_uring_sqe_set_data64(sqe, 1000);
	CHECK(io_uring_submit_and_wait(ring, 1) == 1);
	io_uring_cq_advance(ring, 1);
	sqe = next(ring);
	io_uring_prep_read(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = 3;
	expect(sqe, "read", "chosen", 0, 100);
	submit(ring, 1);
	CHECK(expected[0].result == 100 && close(fd) == 0);
}

/* One after the other at the position of a registered file, then with its descriptor closed. */
static void slots(struct io_uring *ring, bool closes)
{
	int fd = made("slot");

	CHECK(io_uring_register_files(ring, &fd, 1) == 0);
	if (closes)
		CHECK(close(fd) == 0);
	for (int i = 0; i < 3; i++) {
		struct io_uring_sqe *sqe = next(ring);

		io_uring_prep_write(sqe, 0, data, 100, AT_POSITION);
		sqe->flags |= IOSQE_FIXED_FILE;
		expect(sqe, "write", "slot", closes ? -1 : 100 * i, 100);
		submit(ring, 1);
	}
	if (closes)
		return;
	CHECK(lseek(fd, 0, SEEK_CUR) == 300 && write(fd, data, 7) == 7 && close(fd) == 0);
}

/* Links that append, each of another length; `chains` of them at once, `between` after the first. */
static void appends(struct io_uring *ring, int chains, unsigned int flags, int between)
{
	int fd = open("append", O_WRONLY | O_CREAT | O_APPEND, 0644);
	unsigned int told = flags & IOSQE_CQE_SKIP_SUCCESS ? 1 : LINKS;
	struct iovec part = {data, 10};
	long long offset = 50;

	CHECK(fd >= 0 && write(fd, data, 50) == 50);
	for (int i = 0; i < chains * LINKS; i++) {
		struct io_uring_sqe *sqe = next(ring);
		unsigned int length = 100 * ((unsigned int)i + 1);

		if (i == 1) { /* something else may be between them */
			if (between < 0)
				io_uring_prep_nop(sqe);
			else
				io_uring_prep_writev2(sqe, between, &part, 1, 0, RWF_APPEND);
			sqe->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
			sqe = next(ring);
		}
		io_uring_prep_write(sqe, fd, data, length, 0);
		sqe->flags |= i % LINKS < LINKS - 1 ? flags : 0;
		expect(sqe, "write", "append", offset, length);
		expected[expected_count - 1].result = (int)length;
		offset += length;
	}
	CHECK(io_uring_submit_and_wait(ring, told * (unsigned int)chains) > 0);
	io_uring_cq_advance(ring, told * (unsigned int)chains);
	CHECK(lseek(fd, 0, SEEK_END) == offset && close(fd) == 0);
}

/* One of them goes to a file that is out of scope. */
static void appends_elsewhere(struct io_uring *ring)
{
	int fd = open("elsewhere", O_WRONLY | O_CREAT, 0644);

	CHECK(fd >= 0);
	appends(ring, 1, IOSQE_IO_LINK, fd);
	CHECK(lseek(fd, 0, SEEK_END) == 10 && close(fd) == 0);
}

/* Through a pipe, at the position of a file that a child shares; a read of another is in flight. */
static void splices(struct io_uring *ring)
{
	int fd = made("shared"), pipes[2], idle[2];
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	pid_t child;

	CHECK(write(fd, data, 50) == 50 && pipe(pipes) == 0 && pipe(idle) == 0);
	child = fork();
	if (!child)
		_exit(0);
	CHECK(waitpid(child, NULL, 0) == child && write(pipes[1], data, 200) == 200);
	sqe = next(ring);
	io_uring_prep_read(sqe, idle[0], back, 1, 0); /* nothing will come */
	io_uring_sqe_set_data64(sqe, 1000);
	CHECK(io_uring_submit(ring) == 1);
	for (int i = 0; i < 2; i++) {
		sqe = next(ring);
		if (i)
			io_uring_prep_splice(sqe, pipes[0], -1, fd, -1, 200, 0);
		else
			io_uring_prep_write(sqe, fd, data, 30, AT_POSITION);
		expect(sqe, "write", "shared", i ? 80 : 50, i ? 200 : 30);
		CHECK(io_uring_submit_and_wait(ring, 1) == 1);
		CHECK(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->user_data == (__u64)i);
		expected[i].result = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
	CHECK(lseek(fd, 0, SEEK_CUR) == 280 && close(fd) == 0 && write(idle[1], "x", 1) == 1);
	CHECK(io_uring_wait_cqe(ring, &cqe) == 0);
	io_uring_cqe_seen(ring, cqe);
}

/* Of what is not recorded no completion is needed to know how the three that are have ended. */
static void outside(struct io_uring *ring, bool is_silent)
{
	struct iovec part = {data, 100};
	struct io_uring_cqe *cqe;
	int fd = made("kept"), pipes[2];

	CHECK(pipe(pipes) == 0);
	for (int i = 0; i < OUTSIDE; i++) {
		struct io_uring_sqe *sqe = next(ring);

		io_uring_prep_writev(sqe, pipes[1], &part, 1, 0);
		sqe->flags |= is_silent ? IOSQE_CQE_SKIP_SUCCESS : 0;
		io_uring_sqe_set_data64(sqe, 1000);
		CHECK(io_uring_submit(ring) == 1);
		if (!is_silent) {
			CHECK(io_uring_wait_cqe(ring, &cqe) == 0 && cqe->res == 100);
			io_uring_cqe_seen(ring, cqe);
		}
		CHECK(read(pipes[0], back, 100) == 100);
	}
	for (int i = 0; i < 3; i++) {
		struct io_uring_sqe *sqe = next(ring);

		io_uring_prep_write(sqe, fd, data, 100, 100 * (__u64)i);
		expect(sqe, "write", "kept", 100 * i, 100);
		submit(ring, 1);
	}
	CHECK(close(fd) == 0);
}

int main(int argc, char **argv)
{
	const char *name = argc >= 3 ? argv[2] : "";
	struct io_uring ring;

	CHECK(argc >= 3 && chdir(argv[1]) == 0);
	memset(data, 'x', sizeof(data));
	start(&ring, 0);
	if (!strcmp(name, "positions"))
		positions(&ring);
	else if (!strcmp(name, "short"))
		short_read(&ring);
	else if (!strcmp(name, "chosen"))
		chosen_buffer(&ring);
	else if (!strcmp(name, "appends"))
		appends(&ring, 1, IOSQE_IO_LINK, -1);
	else if (!strcmp(name, "silent appends"))
		appends(&ring, 1, SILENT_LINK, -1);
	else if (!strcmp(name, "appends elsewhere"))
		appends_elsewhere(&ring);
	else if (!strcmp(name, "two chains"))
		appends(&ring, 2, IOSQE_IO_LINK, -1);
	else if (!strcmp(name, "splices"))
		splices(&ring);
	else if (!strcmp(name, "outside"))
		outside(&ring, false);
	else if (!strcmp(name, "silent outside"))
		outside(&ring, true);
	else if (!strcmp(name, "slot"))
		slots(&ring, false);
	else if (!strcmp(name, "closed slot"))
		slots(&ring, true);
	else
		CHECK(!"known");
	io_uring_queue_exit(&ring);
	print();
	return 0;
}
