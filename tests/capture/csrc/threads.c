/* SPDX-License-Identifier: MIT */
/*
 * THREADS threads, all alive at once, write to two files that they share: by
 * pwrite each to its own place, and by write wherever the position is. Then
 * as many threads that live one after the other write once each.
 *
 * usage: threads FOLDER THREADS
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define ROUNDS 40
#define BYTES 512

static int placed, moved, single;
static pthread_barrier_t barrier;

static void *write_together(void *argument)
{
	long number = (long)argument;
	char data[BYTES];

	memset(data, (int)number, sizeof(data));
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < ROUNDS; i++) {
		off_t offset = (number * ROUNDS + i) * BYTES;

		CHECK(pwrite(placed, data, BYTES, offset) == BYTES);
		CHECK(write(moved, data, BYTES) == BYTES);
	}
	return NULL;
}

static void *write_once(void *argument)
{
	CHECK(write(single, argument, 1) == 1);
	return NULL;
}

int main(int argc, char **argv)
{
	long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	pthread_t *threads = calloc((size_t)count, sizeof(*threads));
	pthread_attr_t small;

	CHECK(count && threads && chdir(argv[1]) == 0);
	placed = open("placed", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	moved = open("moved", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	single = open("single", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(placed >= 0 && moved >= 0 && single >= 0);
	CHECK(pthread_barrier_init(&barrier, NULL, (unsigned int)count) == 0);
	CHECK(pthread_attr_init(&small) == 0);
	CHECK(pthread_attr_setstacksize(&small, 65536) == 0);
	for (long i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], &small, write_together, (void *)i) == 0);
	for (long i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (long i = 0; i < count; i++) {
		CHECK(pthread_create(&threads[0], &small, write_once, "x") == 0);
		CHECK(pthread_join(threads[0], NULL) == 0);
	}
	free(threads);
	return 0;
}
