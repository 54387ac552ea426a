/* SPDX-License-Identifier: MIT */
/*
 * stdio in the ways that matter: buffered and large writes, reads, seeks, a
 * stream over a duplicated descriptor, calls that are not wrapped, and a
 * stream that only exit() flushes.
 *
 * usage: streams FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define BYTES 100000

static char data[BYTES], back[BYTES];

static void write_whole(void)
{
	FILE *stream = fopen("write.small", "w");

	CHECK(stream && fwrite(data, 1, 10, stream) == 10); /* leaves at fclose */
	CHECK(fclose(stream) == 0);

	stream = fopen64("write.large", "we");
	CHECK(stream && fwrite(data, 1000, 3, stream) == 3);
	CHECK(fwrite(data, 1, BYTES, stream) == BYTES);
	CHECK(fflush(stream) == 0);
	CHECK(fwrite_unlocked(data, 1, 9000, stream) == 9000);
	CHECK(fflush_unlocked(stream) == 0);
	CHECK(fclose(stream) == 0);

	stream = fopen("write.append", "a");
	CHECK(stream && fputs("first", stream) >= 0 && fclose(stream) == 0);
	stream = fopen("write.append", "a");
	CHECK(stream && fputs("second", stream) >= 0 && fflush(stream) == 0);
	CHECK(fputs("third", stream) >= 0 && fclose(stream) == 0);
}

static void write_at(void)
{
	FILE *stream = fopen("write.seek", "w+");

	CHECK(stream && fwrite(data, 1, 100, stream) == 100);
	CHECK(fseek(stream, 5000, SEEK_SET) == 0); /* writes the 100 first */
	CHECK(fwrite(data, 1, 200, stream) == 200);
	CHECK(fseeko(stream, 20000, SEEK_SET) == 0);
	CHECK(fwrite(data, 1, 300, stream) == 300);
	CHECK(fseeko64(stream, 50, SEEK_SET) == 0);
	CHECK(fwrite(data, 1, 400, stream) == 400);
	rewind(stream);
	CHECK(fwrite(data, 1, 30, stream) == 30);
	CHECK(fclose(stream) == 0);
}

static void read_parts(void)
{
	FILE *stream = fopen("write.large", "r");
	fpos_t position;

	CHECK(stream && fread(back, 1, 10, stream) == 10);
	CHECK(fgetpos(stream, &position) == 0);
	CHECK(fread(back, 1, 50000, stream) == 50000);
	CHECK(fseek(stream, 70000, SEEK_SET) == 0);
	CHECK(fread_unlocked(back, 1, 100, stream) == 100);
	CHECK(fsetpos(stream, &position) == 0);
	CHECK(fread(back, 1, 20, stream) == 20);
	CHECK(fclose(stream) == 0);
}

/* As numpy's tofile and fromfile do it. */
static void duplicated(void)
{
	int fd = open("duplicated", O_RDWR | O_CREAT | O_TRUNC, 0644);
	FILE *stream;

	CHECK(fd >= 0 && write(fd, data, 128) == 128);
	stream = fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 0), "r+");
	CHECK(stream && fseeko(stream, 128, SEEK_SET) == 0);
	CHECK(fwrite(data, 1, 40000, stream) == 40000);
	CHECK(fclose(stream) == 0);
	CHECK(write(fd, data, 16) == 16);
	CHECK(close(fd) == 0);
}

static void unwrapped(void)
{
	FILE *stream = fopen("unwrapped", "w");
	char line[32];

	CHECK(stream);
	for (int i = 0; i < 3000; i++)
		CHECK(fprintf(stream, "line %d\n", i) > 0);
	CHECK(fputc('x', stream) == 'x');
	CHECK(fclose(stream) == 0);
	stream = fopen("unwrapped", "r");
	CHECK(stream);
	for (int i = 0; i < 3000; i++)
		CHECK(fgets(line, sizeof(line), stream));
	CHECK(fclose(stream) == 0);
}

static void reopened(void)
{
	FILE *stream = fopen("reopen.first", "w");

	CHECK(stream && fwrite(data, 1, 11, stream) == 11);
	stream = freopen("reopen.second", "w", stream);
	CHECK(stream && fwrite(data, 1, 22, stream) == 22);
	stream = freopen64("reopen.third", "w", stream);
	CHECK(stream && fwrite(data, 1, 33, stream) == 33);
	CHECK(fclose(stream) == 0);
}

static void in_memory(void)
{
	FILE *stream = fmemopen(back, sizeof(back), "w"); /* has no descriptor */

	CHECK(stream && fwrite(data, 1, 100, stream) == 100);
	CHECK(fflush(stream) == 0 && fclose(stream) == 0);
}

int main(int argc, char **argv)
{
	FILE *left_open;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	write_whole();
	write_at();
	read_parts();
	duplicated();
	unwrapped();
	reopened();
	in_memory();
	left_open = fopen("left.open", "w");
	CHECK(left_open && fwrite(data, 1, 777, left_open) == 777);
	return 0;
}
