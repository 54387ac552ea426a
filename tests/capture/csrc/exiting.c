/* SPDX-License-Identifier: MIT */
/*
 * A program that ends with a wide stream open, and with -DBEHIND a library behind capture: when the
 * stream is flushed then, another thread closes it and uses its memory, if it may.
 *
 * usage: exiting FILE
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "check.h"

#ifdef BEHIND
static int is_closing;

static void *close_it(void *stream)
{
	size_t bytes = malloc_usable_size(stream);
	int (*volatile closes)(FILE *) = fclose; /* through capture */
	void *memory;

	closes(stream);
	memory = malloc(bytes);
	if (memory)
		memset(memory, 'A', bytes);
	return memory;
}

static int flush(FILE *stream, const char *name)
{
	int (*next)(FILE *);
	struct timespec until;
	pthread_t thread;
	void *found;

	if (stream && fwide(stream, 0) > 0 && !is_closing) {
		is_closing = 1;
		CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
		until.tv_sec++; /* whoever may not close it waits for the end of the flush */
		CHECK(pthread_create(&thread, NULL, close_it, stream) == 0);
		pthread_timedjoin_np(thread, NULL, &until);
		return 0;
	}
	found = dlsym(RTLD_NEXT, name);
	memcpy(&next, &found, sizeof(found));
	return next(stream);
}

int fflush(FILE *stream)
{
	return flush(stream, "fflush");
}

int fflush_unlocked(FILE *stream)
{
	return flush(stream, "fflush_unlocked");
}
#else
int main(int argc, char **argv)
{
	FILE *stream;

	CHECK(argc == 2);
	stream = fopen(argv[1], "w");
	CHECK(stream && fputws(L"wide", stream) >= 0);
	return 0;
}
#endif
