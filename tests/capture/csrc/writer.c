/* SPDX-License-Identifier: MIT */
/* Writes 200,000 bytes to the file named last. */
#include <fcntl.h>
#include <unistd.h>

static char block[200000];

int main(int argc, char **argv)
{
	int fd = open(argv[argc - 1], O_CREAT | O_WRONLY, 0600);

	return write(fd, block, sizeof(block)) != sizeof(block);
}
