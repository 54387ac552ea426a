/* SPDX-License-Identifier: MIT */
/*
 * Files that have no name, or get one late, and names in a folder that is gone.
 *
 * usage: nameless FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char data[5000];

int main(int argc, char **argv)
{
	char link[64];
	FILE *stream;
	int fd;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	fd = open(".", O_TMPFILE | O_RDWR, 0644);
	CHECK(fd >= 0 && write(fd, data, 5000) == 5000);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	CHECK(linkat(AT_FDCWD, link, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW) == 0);
	CHECK(close(fd) == 0);

	fd = open(".", O_TMPFILE | O_RDWR, 0644);
	CHECK(fd >= 0 && write(fd, data, 600) == 600 && close(fd) == 0);
	stream = tmpfile();
	CHECK(stream && fputs("temporary", stream) >= 0 && fclose(stream) == 0);
	fd = open("odd (deleted)", O_WRONLY | O_CREAT, 0644);
	CHECK(fd >= 0 && dup2(fd, 100) == 100 && write(100, data, 70) == 70 && close(fd) == 0);

	CHECK(mkdir("gone", 0755) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
	fd = open("../above", O_WRONLY | O_CREAT, 0644);
	CHECK(fd >= 0 && write(fd, data, 800) == 800 && close(fd) == 0);
	CHECK(rename("../above", "../renamed") == 0);
	return 0;
}
