/* SPDX-License-Identifier: MIT */
/* Reads the file named first past the page cache, through a liburing that no symbol tells of. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>

#define BLOCK_BYTES (1 << 20)

int main(int argc, char **argv)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	void *buffer = NULL;
	int fd = open(argv[argc - 1], O_RDONLY | O_DIRECT);

	if (fd < 0 || posix_memalign(&buffer, 4096, BLOCK_BYTES) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, fd, buffer, BLOCK_BYTES, 0);
	if (io_uring_submit(&ring) != 1 || io_uring_wait_cqe(&ring, &cqe))
		return 2;
	return cqe->res == BLOCK_BYTES ? 0 : 3;
}
