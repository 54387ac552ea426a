/* SPDX-License-Identifier: MIT */
/*
 * A file opened anew through a link of /proc or /dev by each way to open:
 * twenty writes and twenty reads of 50,000 bytes each.
 *
 * usage: links FILE LINK open|fopen|uring; the file is descriptor 0, PID in LINK is /proc/PID
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define BYTES 50000

static char data[20 * BYTES], link_path[256];

static int opened_by_ring(void)
{
	struct io_uring ring;
	struct io_uring_cqe *done;
	int fd;

	CHECK(io_uring_queue_init(4, &ring, 0) == 0);
	io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, link_path, O_RDWR, 0);
	CHECK(io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &done) == 0);
	fd = done->res;
	io_uring_cqe_seen(&ring, done);
	io_uring_queue_exit(&ring);
	return fd;
}

static int opened(const char *how)
{
	FILE *stream;

	if (strcmp(how, "uring") == 0)
		return opened_by_ring();
	if (strcmp(how, "open") == 0)
		return open(link_path, O_RDWR);
	stream = fopen(link_path, "r+");
	CHECK(stream);
	return fileno(stream);
}

int main(int argc, char **argv)
{
	int first, again;

	CHECK(argc == 4);
	first = open(argv[1], O_RDWR | O_CREAT, 0644);
	CHECK(first >= 0 && write(first, data, sizeof(data)) == sizeof(data));
	CHECK(dup2(first, 0) == 0 && dup2(first, 1) == 1 && close(first) == 0);
	if (strncmp(argv[2], "PID", 3) == 0)
		snprintf(link_path, sizeof(link_path), "/proc/%d%s", getpid(), argv[2] + 3);
	else
		snprintf(link_path, sizeof(link_path), "%s", argv[2]);
	again = opened(argv[3]);
	CHECK(again >= 0);
	for (off_t at = 0; at < (off_t)sizeof(data); at += BYTES)
		CHECK(pwrite(again, data + at, BYTES, at) == BYTES);
	for (off_t at = 0; at < (off_t)sizeof(data); at += BYTES)
		CHECK(pread(again, data + at, BYTES, at) == BYTES);
	return 0;
}
