/* SPDX-License-Identifier: MIT */
/*
 * Completions that the job finds in a ring's memory, by functions of liburing that are inlined.
 *
 * usage: uring_found FOLDER written|opened NEXT_CALL
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <string.h>

#include "uring_expected.h"

/* For the hooks of a Python job. */
int iotrace_note(__u64 start_ns, __u64 end_ns, const char *json, size_t bytes) __attribute__((weak));

/*
 * The job finds the completions in the ring's memory, and asks nobody. What it does next that can
 * be seen comes after them, and 0.1 s before the file is closed.
 */
static void written(const char *next_call)
{
	int fd = made("found"), pipes[2];
	struct io_uring_sqe *sqe;
	struct io_uring ring;

	CHECK(pipe(pipes) == 0);
	start(&ring, 0);
	sqe = next(&ring); /* until this is done the write waits */
	io_uring_prep_read(sqe, pipes[0], back, 1, 0);
	sqe->flags |= IOSQE_IO_LINK;
	sqe = next(&ring);
	io_uring_prep_write(sqe, fd, data, 100, 0);
	expect(sqe, "write", "found", 0, 100);
	CHECK(io_uring_submit(&ring) == 2 && write(pipes[1], data, 1) == 1);
	while (io_uring_cq_ready(&ring) < 2)
		;
	expected[0].result = 100;
	usleep(100000);
	if (!strcmp(next_call, "sync"))
		CHECK(fdatasync(fd) == 0);
	if (!strcmp(next_call, "rename"))
		CHECK(rename("found", "renamed") == 0);
	if (!strcmp(next_call, "open"))
		CHECK(close(made("other")) == 0);
	if (!strcmp(next_call, "note"))
		CHECK(iotrace_note(1, 2, "{}", 2) == 0);
	if (strcmp(next_call, "close"))
		usleep(100000);
	CHECK(close(fd) == 0);
	usleep(100000);
}

/* By libc's own function, which nobody watches. */
static void close_unseen(int fd)
{
	void *found = dlsym(dlopen("libc.so.6", RTLD_NOW), "close");
	int (*close_it)(int);

	CHECK(found && found != dlsym(RTLD_DEFAULT, "close"));
	memcpy(&close_it, &found, sizeof(found));
	CHECK(close_it(fd) == 0);
}

/* The job finds in memory that a file was opened; what it does next ends the descriptor, or not. */
static void opened(const char *next_call)
{
	int other = made("other"), stale = made("stale"), pipes[2], fd = -1;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	unsigned int head;

	CHECK(pipe(pipes) == 0);
	start(&ring, 0);
	sqe = next(&ring); /* until this is done the open waits */
	io_uring_prep_read(sqe, pipes[0], back, 1, 0);
	sqe->flags |= IOSQE_IO_LINK;
	sqe = next(&ring);
	io_uring_prep_openat(sqe, AT_FDCWD, "opened", O_RDWR | O_CREAT, 0644);
	CHECK(io_uring_submit(&ring) == 2);
	if (!strcmp(next_call, "stale")) /* its number is the next */
		close_unseen(stale);
	CHECK(write(pipes[1], data, 1) == 1);
	while (io_uring_cq_ready(&ring) < 2)
		;
	io_uring_for_each_cqe(&ring, head, cqe)
		fd = cqe->res;
	if (!strcmp(next_call, "dup2"))
		CHECK(dup2(other, fd) == fd);
	else if (!strcmp(next_call, "close_range"))
		CHECK(close_range((unsigned int)fd, (unsigned int)fd, 0) == 0);
	else if (!strcmp(next_call, "dup"))
		CHECK(close(dup(fd)) == 0 && close(fd) == 0);
	else if (!strcmp(next_call, "append"))
		CHECK(ftruncate(fd, 1000) == 0 && fcntl(fd, F_SETFL, O_APPEND) == 0 &&
		      fdatasync(fd) == 0 && pwrite(fd, data, 100, 0) == 100 && close(fd) == 0);
	else
		CHECK(close(fd) == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4 && chdir(argv[1]) == 0);
	if (!strcmp(argv[2], "written"))
		written(argv[3]);
	else
		opened(argv[3]);
	print();
	return 0;
}
