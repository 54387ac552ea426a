/* SPDX-License-Identifier: MIT */
/*
 * Every request on files through io_uring, by the shared liburing. Prints what
 * the kernel did for each: OP FILE OFFSET LENGTH RESULT, in the order of
 * submission.
 *
 * usage: uring FOLDER CASE
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>
#include <sys/mman.h>

#include "uring_expected.h"

/* --- every request there is for files ---------------------------------- */

static void plain(struct io_uring *ring)
{
	int fd = made("plain");
	struct iovec parts[] = {{data, 100}, {data + 200, BLOCK}}, into[] = {{back, 50}, {back + 60, 70}};
	struct io_uring_sqe *sqe;

	for (int i = 0; i < 4; i++) {
		sqe = next(ring);
		io_uring_prep_write(sqe, fd, data, BLOCK, (__u64)i * BLOCK);
		expect(sqe, "write", "plain", i * BLOCK, BLOCK);
	}
	submit(ring, 4);
	sqe = next(ring);
	io_uring_prep_writev(sqe, fd, parts, 2, 5 * BLOCK);
	expect(sqe, "write", "plain", 5 * BLOCK, BLOCK + 100);
	submit(ring, 1);
	sqe = next(ring);
	io_uring_prep_readv(sqe, fd, into, 2, 10);
	expect(sqe, "read", "plain", 10, 120);
	sqe = next(ring);
	io_uring_prep_read(sqe, fd, back, sizeof(back), BLOCK); /* ends short */
	expect(sqe, "read", "plain", BLOCK, sizeof(back));
	sqe = next(ring);
	io_uring_prep_fsync(sqe, fd, 0);
	expect(sqe, "sync", "plain", -1, -1);
	sqe = next(ring);
	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	sqe->flags |= IOSQE_IO_DRAIN;
	expect(sqe, "sync", "plain", -1, -1);
	sqe = next(ring);
	io_uring_prep_sync_file_range(sqe, fd, BLOCK, BLOCK, SYNC_FILE_RANGE_WRITE);
	expect(sqe, "sync", "plain", BLOCK, BLOCK);
	sqe = next(ring);
	io_uring_prep_fadvise(sqe, fd, 0, BLOCK, POSIX_FADV_WILLNEED);
	expect(sqe, "advise", "plain", 0, BLOCK);
	sqe = next(ring);
	io_uring_prep_fallocate(sqe, fd, FALLOC_FL_KEEP_SIZE, 0, 64 * BLOCK);
	expect(sqe, "allocate", "plain", 0, 64 * BLOCK);
	sqe = next(ring);
	io_uring_prep_read(sqe, 1000000, back, 1, 0); /* no such descriptor: nobody's request */
	io_uring_sqe_set_data64(sqe, 0);
	CHECK(io_uring_submit(ring) == 8);
	expected[0].result = BLOCK;
	reap(ring, 8);
	expected[0].result = BLOCK;
	CHECK(close(fd) == 0);
}

static void fixed(struct io_uring *ring)
{
	int fds[] = {made("fixed.a"), -1, made("fixed.b")}, late = made("fixed.c");
	struct iovec buffers[] = {{data, sizeof(data)}, {back, sizeof(back)}};
	struct io_uring_sqe *sqe;

	CHECK(io_uring_register_files(ring, fds, 3) == 0);
	CHECK(io_uring_register_buffers(ring, buffers, 2) == 0);
	CHECK(close(fds[0]) == 0 && close(fds[2]) == 0); /* the ring keeps them open */
	CHECK(made("fixed.decoy") == fds[0]);
	CHECK(io_uring_register_files_update(ring, 1, &late, 1) == 1);
	sqe = next(ring);
	io_uring_prep_write_fixed(sqe, 0, data + 1, 1000, 7, 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	expect(sqe, "write", "fixed.a", 7, 1000);
	sqe = next(ring);
	io_uring_prep_write_fixed(sqe, late, data, 2000, 0, 0);
	expect(sqe, "write", "fixed.c", 0, 2000);
	sqe = next(ring);
	io_uring_prep_write(sqe, 2, data, 3000, 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	expect(sqe, "write", "fixed.b", 0, 3000);
	submit(ring, 3);
	sqe = next(ring);
	io_uring_prep_read_fixed(sqe, 1, back, 500, 100, 1);
	sqe->flags |= IOSQE_FIXED_FILE;
	expect(sqe, "read", "fixed.c", 100, 500);
	submit(ring, 1);
	CHECK(io_uring_unregister_files(ring) == 0);
	CHECK(close(late) == 0 && close(fds[0]) == 0);
}

static void linked(struct io_uring *ring)
{
	int fd = made("linked");
	struct io_uring_sqe *sqe;

	for (int i = 0; i < 3; i++) { /* the second fails, the third never runs */
		sqe = next(ring);
		if (i == 1)
			io_uring_prep_read(sqe, fd, (void *)8, 100, 0);
		else
			io_uring_prep_write(sqe, fd, data, 100, (__u64)i * 100);
		sqe->flags |= i < 2 ? IOSQE_IO_LINK : 0;
		expect(sqe, i == 1 ? "read" : "write", "linked", i == 1 ? 0 : i * 100, 100);
	}
	submit(ring, 3);
	for (int i = 0; i < 3; i++) { /* only the last says that it is done */
		sqe = next(ring);
		io_uring_prep_write(sqe, fd, data, 200, (__u64)i * 200);
		sqe->flags |= i < 2 ? IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS : 0;
		expect(sqe, "write", "linked", i * 200, 200);
		expected[expected_count - 1].result = 200;
	}
	CHECK(io_uring_submit(ring) == 3);
	reap(ring, 1);
	CHECK(close(fd) == 0);
}

/* A chain of which only the last, or the one that fails, says anything; all with one user data. */
static void silent_chain(struct io_uring *ring, int fd, int bad)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;

	for (int i = 0; i < 4; i++) {
		sqe = next(ring);
		io_uring_prep_write(sqe, fd, i == bad ? (void *)8 : data, 300, (__u64)i * 300);
		sqe->flags |= i < 3 ? IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS : 0;
		expect(sqe, "write", "silent", i * 300, 300);
		io_uring_sqe_set_data64(sqe, 78);
		expected[expected_count - 1].result = i < bad ? 300 : i > bad ? -ECANCELED : -EFAULT;
	}
	CHECK(io_uring_submit_and_wait(ring, 1) == 4);
	CHECK(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->res == (bad < 4 ? -EFAULT : 300));
	io_uring_cqe_seen(ring, cqe);
}

static void silent(struct io_uring *ring)
{
	int fd = made("silent");

	silent_chain(ring, fd, 4);
	silent_chain(ring, fd, 0);
	CHECK(close(fd) == 0);
}

/* Many requests with one user data; a write and a sync among them. */
static void same_user_data(struct io_uring *ring)
{
	int fd = made("same");
	unsigned int first = expected_count;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;

	for (int i = 0; i < 8; i++) {
		sqe = next(ring);
		if (i % 4 == 3) {
			io_uring_prep_fsync(sqe, fd, 0);
			expect(sqe, "sync", "same", -1, -1);
		} else {
			io_uring_prep_write(sqe, fd, data, 100 * (unsigned int)(i + 1), 0);
			expect(sqe, "write", "same", 0, 100 * (i + 1));
			expected[expected_count - 1].result = 100 * (i + 1);
		}
		io_uring_sqe_set_data64(sqe, 77);
	}
	CHECK(io_uring_submit_and_wait(ring, 8) == 8);
	for (int i = 0; i < 8; i++) {
		CHECK(io_uring_peek_cqe(ring, &cqe) == 0);
		io_uring_cqe_seen(ring, cqe);
	}
	CHECK(first + 8 == expected_count);
	CHECK(close(fd) == 0);
}

static void at_position(struct io_uring *ring)
{
	int fd = made("position"), end = open("append", O_WRONLY | O_CREAT | O_APPEND, 0644);
	struct io_uring_sqe *sqe;

	CHECK(end >= 0 && write(fd, data, 10) == 10 && write(end, data, 30) == 30);
	sqe = next(ring);
	io_uring_prep_write(sqe, fd, data, 20, AT_POSITION);
	expect(sqe, "write", "position", 10, 20);
	submit(ring, 1);
	CHECK(write(fd, data, 5) == 5);
	sqe = next(ring);
	io_uring_prep_write(sqe, end, data, 40, 0);
	expect(sqe, "write", "append", 30, 40);
	submit(ring, 1);
	sqe = next(ring);
	io_uring_prep_writev2(sqe, fd, &(struct iovec){data, 7}, 1, 0, RWF_APPEND);
	expect(sqe, "write", "position", 35, 7);
	submit(ring, 1);
	CHECK(write(fd, data, 3) == 3); /* over it: the position stayed */
	sqe = next(ring);
	io_uring_prep_writev2(sqe, fd, &(struct iovec){data, 8}, 1, AT_POSITION, RWF_APPEND);
	expect(sqe, "write", "position", 42, 8);
	submit(ring, 1);
	CHECK(write(fd, data, 2) == 2);
	CHECK(close(fd) == 0 && close(end) == 0);
}

/* --- opening, closing, naming ------------------------------------------ */

static int result_of_last(void)
{
	return expected[expected_count - 1].result;
}

static void names(struct io_uring *ring)
{
	struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600};
	struct io_uring_sqe *sqe;
	int fd, second;

	sqe = next(ring);
	io_uring_prep_mkdirat(sqe, AT_FDCWD, "folder", 0755);
	expect(sqe, "mkdir", "-", -1, -1);
	submit(ring, 1);
	sqe = next(ring);
	io_uring_prep_openat(sqe, AT_FDCWD, "folder/opened", O_RDWR | O_CREAT, 0644);
	expect(sqe, "open", "opened", -1, -1);
	submit(ring, 1);
	fd = result_of_last();
	CHECK(fd >= 0 && pwrite(fd, data, 123, 5) == 123);
	sqe = next(ring);
	io_uring_prep_openat2(sqe, AT_FDCWD, "opened2", &how);
	expect(sqe, "open", "opened2", -1, -1);
	submit(ring, 1);
	second = result_of_last();
	sqe = next(ring);
	io_uring_prep_write(sqe, second, data, 11, 0);
	expect(sqe, "write", "opened2", 0, 11);
	submit(ring, 1);
	sqe = next(ring);
	io_uring_prep_close(sqe, second);
	expect(sqe, "close", "opened2", -1, -1);
	sqe = next(ring);
	io_uring_prep_close(sqe, fd);
	expect(sqe, "close", "opened", -1, -1);
	submit(ring, 2);
	CHECK(made("reused") == fd);
	CHECK(write(fd, data, 9) == 9);
	sqe = next(ring);
	io_uring_prep_renameat(sqe, AT_FDCWD, "folder/opened", AT_FDCWD, "renamed", 0);
	expect(sqe, "rename", "-", -1, -1);
	submit(ring, 1);
	sqe = next(ring);
	io_uring_prep_unlinkat(sqe, AT_FDCWD, "renamed", 0);
	expect(sqe, "unlink", "-", -1, -1);
	submit(ring, 1);
	sqe = next(ring);
	io_uring_prep_openat(sqe, AT_FDCWD, "missing/x", O_WRONLY | O_CREAT, 0644);
	expect(sqe, "open", "-", -1, -1);
	submit(ring, 1);
	CHECK(result_of_last() == -ENOENT);
	sqe = next(ring); /* a pointer that only the kernel may find bad */
	io_uring_prep_openat(sqe, AT_FDCWD, (char *)8, O_WRONLY, 0);
	io_uring_sqe_set_data64(sqe, 0);
	CHECK(io_uring_submit(ring) == 1);
	reap(ring, 1);
	expected[0].result = 0;
	for (unsigned int i = 0; i < expected_count; i++)
		if (expected[i].result > 0 && !strcmp(expected[i].op, "open"))
			expected[i].result = 0; /* the trace has no descriptors */
}

/* Open into a slot, write there and close it, all in one submission. */
static void direct_descriptor(struct io_uring *ring)
{
	struct io_uring_sqe *sqe;

	CHECK(io_uring_register_files_sparse(ring, 4) == 0);
	sqe = next(ring);
	io_uring_prep_openat_direct(sqe, AT_FDCWD, "direct", O_WRONLY | O_CREAT, 0644, 2);
	sqe->flags |= IOSQE_IO_LINK;
	expect(sqe, "open", "direct", -1, -1);
	sqe = next(ring);
	io_uring_prep_write(sqe, 2, data, 321, 0);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
	expect(sqe, "write", "direct", 0, 321);
	sqe = next(ring);
	io_uring_prep_close_direct(sqe, 2);
	expect(sqe, "close", "direct", -1, -1);
	submit(ring, 3);
}

static void all(unsigned int flags)
{
	void (*const cases[])(struct io_uring *) = {plain, fixed, linked, same_user_data,
						    at_position};
	struct io_uring ring;

	start(&ring, flags);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cases[i](&ring);
	io_uring_queue_exit(&ring);
}

static void only(void (*one)(struct io_uring *))
{
	struct io_uring ring;

	start(&ring, 0);
	one(&ring);
	io_uring_queue_exit(&ring);
}

int main(int argc, char **argv)
{
	const char *name = argc >= 3 ? argv[2] : "";

	CHECK(argc >= 3 && chdir(argv[1]) == 0);
	memset(data, 'x', sizeof(data));
	if (!strcmp(name, "all"))
		all(0);
	else if (!strcmp(name, "polled"))
		all(IORING_SETUP_SQPOLL);
	else if (!strcmp(name, "names"))
		only(names);
	else if (!strcmp(name, "direct"))
		only(direct_descriptor);
	else if (!strcmp(name, "silent"))
		only(silent);
	else
		CHECK(!"known");
	print();
	return 0;
}
