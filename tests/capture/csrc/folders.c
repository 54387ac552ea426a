/* SPDX-License-Identifier: MIT */
/*
 * Syncs of folders by every call there is, and of what is no folder beside them. Prints what was
 * asked: KIND API RESULT, in order.
 *
 * usage: folders FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static void did(const char *kind, const char *api, int result)
{
	printf("%s %s %d\n", kind, api, result);
}

static void by_ring(int fd, unsigned int flags)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;

	CHECK(io_uring_queue_init(4, &ring, 0) == 0);
	io_uring_prep_fsync(io_uring_get_sqe(&ring), fd, flags);
	CHECK(io_uring_submit_and_wait(&ring, 1) == 1);
	CHECK(io_uring_wait_cqe(&ring, &cqe) == 0);
	did(flags ? "7" : "6", "io_uring", cqe->res);
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
}

static void by_aio(int fd)
{
	struct aiocb block = {.aio_fildes = fd};
	const struct aiocb *list[] = {&block};

	CHECK(aio_fsync(O_SYNC, &block) == 0);
	while (aio_error(&block) == EINPROGRESS)
		CHECK(aio_suspend(list, 1, NULL) == 0);
	CHECK(aio_error(&block) == 0);
	did("6", "posix", (int)aio_return(&block));
}

int main(int argc, char **argv)
{
	int plain, marked, copy, bare, pipes[2], gone;

	CHECK(argc == 2 && chdir(argv[1]) == 0 && mkdir("inner", 0700) == 0);
	plain = open("inner", O_RDONLY);
	marked = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(plain >= 0 && marked >= 0);
	did("6", "posix", fsync(plain));
	did("7", "posix", fdatasync(plain));
	did("6", "posix", fsync(marked));
	copy = dup(plain);
	CHECK(copy >= 0 && close(plain) == 0);
	did("6", "posix", fsync(copy));
	did("6", "posix", (int)syscall(SYS_fsync, openat(marked, "inner", O_RDONLY)));
	by_ring(copy, 0);
	by_ring(copy, IORING_FSYNC_DATASYNC);
	by_aio(copy);
	did("4", "posix", syncfs(copy));
	CHECK(rename("inner", "moved") == 0);
	did("6", "posix", fsync(copy)); /* it is called moved now */

	bare = open("moved", O_PATH);
	CHECK(bare >= 0 && fsync(bare) < 0 && errno == EBADF);
	did("6", "posix", -EBADF);
	CHECK(pipe(pipes) == 0 && fsync(pipes[0]) < 0 && errno == EINVAL); /* no folder */
	CHECK(fsync(12345) < 0 && errno == EBADF);
	gone = open("moved", O_RDONLY);
	CHECK(gone >= 0 && rmdir("moved") == 0 && fsync(gone) == 0); /* no name is left to keep */
	return 0;
}
