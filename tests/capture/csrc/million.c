/* SPDX-License-Identifier: MIT */
/*
 * THREADS threads write CALLS blocks of 4 KiB in all, each to a part of the
 * file of its own, round and round. Prints the time and the CPU time of all
 * calls over their number, in ns.
 *
 * usage: million FILE THREADS CALLS
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define PART_BLOCKS 256 /* the file stays small, so that no call allocates memory once it is full */
#define MAX_THREADS 64

static int file;
static long calls;
static char data[BLOCK];
static pthread_barrier_t filled;

static void write_part(long part, long count)
{
	for (long i = 0; i < count; i++)
		if (pwrite(file, data, BLOCK, (part * PART_BLOCKS + i % PART_BLOCKS) * BLOCK) != BLOCK)
			exit(1);
}

static void *run(void *argument)
{
	long part = (long)argument;

	write_part(part, PART_BLOCKS);
	pthread_barrier_wait(&filled);
	write_part(part, calls);
	return NULL;
}

static double clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	long threads = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
	pthread_t started[MAX_THREADS];
	double start, start_cpu;

	if (threads < 1 || threads > MAX_THREADS)
		return 2;
	calls = strtol(argv[3], NULL, 10) / threads;
	file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || pthread_barrier_init(&filled, NULL, (unsigned int)threads + 1))
		return 1;
	for (long i = 0; i < threads; i++)
		if (pthread_create(&started[i], NULL, run, (void *)i))
			return 1;
	pthread_barrier_wait(&filled);
	start = clock_ns(CLOCK_MONOTONIC);
	start_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	printf("%.1f %.1f\n", (clock_ns(CLOCK_MONOTONIC) - start) / (double)(calls * threads),
	       (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / (double)(calls * threads));
	return 0;
}
