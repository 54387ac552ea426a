/* SPDX-License-Identifier: MIT */
/*
 * Rings that come, go and are shared, by the shared liburing. Prints what the
 * kernel did for each request, as uring.c does; `many` prints what one costs.
 *
 * usage: uring_rings FOLDER CASE [COUNT]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "uring_expected.h"

static void write_one(struct io_uring *ring, int fd, const char *name, long long offset)
{
	struct io_uring_sqe *sqe = next(ring);

	io_uring_prep_write(sqe, fd, data, 100, (__u64)offset);
	expect(sqe, "write", name, offset, 100);
}

/* One struct, many rings: descriptors and addresses come again. */
static void again(void)
{
	int fd = made("again");
	struct io_uring ring;

	for (int i = 0; i < 20; i++) {
		start(&ring, i % 2 ? IORING_SETUP_CQE32 | IORING_SETUP_SQE128 : 0);
		write_one(&ring, fd, "again", 2 * i * 100);
		write_one(&ring, fd, "again", (2 * i + 1) * 100);
		if (i % 3)
			submit(&ring, 2);
		else /* nobody asks: the completions are found when the ring goes */
			CHECK(io_uring_submit_and_wait(&ring, 2) == 2);
		expected[2 * i].result = expected[2 * i + 1].result = 100;
		io_uring_queue_exit(&ring);
	}
	CHECK(close(fd) == 0);
}

static struct io_uring shared;

static void *reap_elsewhere(void *unused)
{
	reap(&shared, DEPTH);
	return unused;
}

static void two_threads(void)
{
	pthread_t thread;
	int fd = made("threads");

	start(&shared, 0);
	expected_count = 0;
	CHECK(pthread_create(&thread, NULL, reap_elsewhere, NULL) == 0);
	for (int i = 0; i < DEPTH; i += 8) {
		for (int j = i; j < i + 8; j++)
			write_one(&shared, fd, "threads", j * 100);
		CHECK(io_uring_submit(&shared) == 8);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	io_uring_queue_exit(&shared);
	CHECK(close(fd) == 0);
}

/* The child inherits a ring and makes one of its own. */
static void forked(void)
{
	struct io_uring ring, own;
	int fd = made("forked"), status;
	pid_t child;

	start(&ring, 0);
	write_one(&ring, fd, "forked", 0);
	submit(&ring, 1);
	write_one(&ring, fd, "forked", 100);
	CHECK(io_uring_submit(&ring) == 1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		start(&own, 0);
		expected_count = 0;
		write_one(&own, fd, "forked", 5000);
		submit(&own, 1);
		CHECK(expected[0].result == 100);
		io_uring_queue_exit(&own);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	reap(&ring, 1);
	write_one(&ring, fd, "forked", 200);
	submit(&ring, 1);
	io_uring_queue_exit(&ring);
	CHECK(close(fd) == 0);
	expected[expected_count++] = (struct expected){"write", "forked", 5000, 100, 100};
}

/* The child has no share in the memory of its parent's ring, and knows of it. */
static void unshared(void)
{
	int fd = made("unshared"), status;
	struct io_uring ring;
	pid_t child;

	start(&ring, 0);
	CHECK(io_uring_ring_dontfork(&ring) == 0);
	write_one(&ring, fd, "unshared", 0);
	submit(&ring, 1);
	write_one(&ring, fd, "unshared", 100);
	CHECK(io_uring_submit(&ring) == 1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(pwrite(fd, data, 1, 0) == 1 && close(fd) == 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	reap(&ring, 1);
	io_uring_queue_exit(&ring);
}

/* Other languages look for functions in the library itself, and find those that nobody watches. */
static void by_pointer(void)
{
	void (*queue_exit)(struct io_uring *);
	int fd = made("pointer");
	struct io_uring ring;
	void *found;

	start(&ring, 0);
	write_one(&ring, fd, "pointer", 0);
	CHECK(io_uring_submit(&ring) == 1);
	found = dlsym(dlopen("liburing.so.2", RTLD_NOW), "io_uring_queue_exit");
	CHECK(found && found != dlsym(RTLD_DEFAULT, "io_uring_queue_exit"));
	memcpy(&queue_exit, &found, sizeof(found));
	queue_exit(&ring); /* whatever has become of the request */
}

#define CROWD 4
#define CROWD_RINGS 200

static _Atomic int rings_left = CROWD * CROWD_RINGS;

/* Rings that go while a read waits for a writer that never comes. */
static void *come_and_go(void *unused)
{
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int pipes[2];

	CHECK(pipe(pipes) == 0);
	for (int i = 0; i < CROWD_RINGS; i++, rings_left--) {
		CHECK(io_uring_queue_init(4, &ring, 0) == 0);
		sqe = next(&ring);
		io_uring_prep_read(sqe, pipes[0], back, 1, 0);
		CHECK(io_uring_submit(&ring) == 1);
		io_uring_queue_exit(&ring);
	}
	return unused;
}

static void *open_and_close(void *unused)
{
	while (rings_left)
		CHECK(close(made("crowd")) == 0);
	return unused;
}

static void crowd(void)
{
	pthread_t threads[2 * CROWD];

	for (int i = 0; i < 2 * CROWD; i++)
		CHECK(pthread_create(&threads[i], NULL, i % 2 ? open_and_close : come_and_go,
				     NULL) == 0);
	for (int i = 0; i < 2 * CROWD; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Killed while reads wait for a writer that never comes, and a write is done. */
static void killed(void)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	int fd = made("killed"), pipes[2];
	struct io_uring_sqe *sqe;

	CHECK(pipe(pipes) == 0);
	start(&ring, 0);
	write_one(&ring, fd, "killed", 0);
	submit(&ring, 1);
	sqe = next(&ring); /* waits; what is linked to it waits too */
	io_uring_prep_read(sqe, pipes[0], back, 1, 0);
	sqe->flags |= IOSQE_IO_LINK;
	write_one(&ring, fd, "killed", 100);
	printf("submitted\n");
	fflush(stdout);
	io_uring_submit_and_wait(&ring, 1);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/*
 * Time per request of COUNT small reads, DEPTH / 2 at a time. They are done
 * when they are submitted: threads of the kernel would make the time vary.
 */
static void many(int count)
{
	int fd = made("many");
	double start_s;
	struct io_uring ring;

	CHECK(write(fd, data, sizeof(data)) == sizeof(data));
	start(&ring, 0);
	start_s = seconds();
	for (int i = 0; i < count; i += DEPTH / 2) {
		struct io_uring_cqe *cqe;
		unsigned int head, seen = 0;

		for (int j = i; j < i + DEPTH / 2; j++) {
			struct io_uring_sqe *sqe = next(&ring);

			io_uring_prep_read(sqe, fd, back, 512, (__u64)(j % 128) * 512);
			io_uring_sqe_set_data64(sqe, (__u64)j);
		}
		CHECK(io_uring_submit_and_wait(&ring, DEPTH / 2) == DEPTH / 2);
		io_uring_for_each_cqe(&ring, head, cqe) {
			CHECK(cqe->res == 512);
			seen++;
		}
		CHECK(seen == DEPTH / 2);
		io_uring_cq_advance(&ring, seen);
	}
	printf("%.1f\n", (seconds() - start_s) / count * 1e9);
	io_uring_queue_exit(&ring);
	CHECK(close(fd) == 0);
}

int main(int argc, char **argv)
{
	const char *name = argc >= 3 ? argv[2] : "";

	CHECK(argc >= 3 && chdir(argv[1]) == 0);
	memset(data, 'x', sizeof(data));
	if (!strcmp(name, "many")) {
		many(atoi(argv[3]));
		return 0;
	}
	if (!strcmp(name, "again"))
		again();
	else if (!strcmp(name, "threads"))
		two_threads();
	else if (!strcmp(name, "forked"))
		forked();
	else if (!strcmp(name, "killed"))
		killed();
	else if (!strcmp(name, "unshared"))
		unshared();
	else if (!strcmp(name, "pointer"))
		by_pointer();
	else if (!strcmp(name, "crowd"))
		crowd();
	else
		CHECK(!"known");
	print();
	return 0;
}
