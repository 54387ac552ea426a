/* SPDX-License-Identifier: MIT */
/*
 * Threads that write to one stream, and then read from it, each call under libc's lock alone.
 *
 * usage: shared_stream FILE
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define THREADS 4
#define CALLS 20000
#define BUFFER_BYTES 256 /* small: most calls come to the kernel */

static FILE *stream;
static char data[300];

static void *write_some(void *unused)
{
	for (unsigned int i = 0; i < CALLS; i++) {
		size_t bytes = 1 + i * 7 % sizeof(data);

		CHECK(fwrite(data, 1, bytes, stream) == bytes);
	}
	return unused;
}

static void *read_some(void *unused)
{
	char back[sizeof(data)];
	unsigned int i = 0;

	while (fread(back, 1, 1 + i * 7 % sizeof(back), stream))
		i++;
	return unused;
}

static void by_all(void *(*work)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	stream = fopen(argv[1], "w+");
	CHECK(stream && setvbuf(stream, NULL, _IOFBF, BUFFER_BYTES) == 0);
	by_all(write_some);
	rewind(stream);
	by_all(read_some);
	CHECK(fclose(stream) == 0);
	return 0;
}
