/* SPDX-License-Identifier: MIT */
/* usage: pwrite_loop PATH CALLS BYTES; prints the mean time of a pwrite in ns. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The file stays this small, so that no call allocates memory once it is full. */
#define FILE_BYTES (4 << 20)

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int write_round(int fd, const char *buffer, size_t bytes, long calls)
{
	off_t offset = 0;

	for (long i = 0; i < calls; i++) {
		if (pwrite(fd, buffer, bytes, offset) != (ssize_t)bytes)
			return -1;
		offset = offset + 2 * (off_t)bytes > FILE_BYTES ? 0 : offset + (off_t)bytes;
	}
	return 0;
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	char *buffer = bytes ? calloc(1, bytes) : NULL;
	int fd = buffer ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	double start;
	long calls;

	if (fd < 0 || write_round(fd, buffer, bytes, FILE_BYTES / (long)bytes + 1) < 0)
		return 1;
	calls = strtol(argv[2], NULL, 10);
	start = now_ns();
	if (write_round(fd, buffer, bytes, calls) < 0)
		return 1;
	printf("%.1f\n", (now_ns() - start) / (double)calls);
	return 0;
}
