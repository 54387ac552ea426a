/* SPDX-License-Identifier: MIT */
/*
 * Appends records of 512 bytes until it is killed; says so after the first.
 *
 * usage: killed FILE
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char data[512];
	int fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

	if (fd < 0 || write(fd, data, sizeof(data)) != sizeof(data) || write(1, "x", 1) != 1)
		return 1;
	while (write(fd, data, sizeof(data)) == sizeof(data))
		;
	return 1;
}
