/* SPDX-License-Identifier: MIT */
/*
 * Requests known by the address of their control block, begun and ended by
 * many threads at once; those left open by a parent end in no child.
 *
 * usage: test_flight FOLDER
 */
#include "flight.h"
#include "scope.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

#define THREADS 8
#define BLOCKS 500
#define ROUNDS 20

static char blocks[THREADS][BLOCKS];
static int fd;

static void begin(const void *block, int64_t length)
{
	struct record record = flight_record(1);

	record.offset = 0;
	record.length = length;
	flight_begin(block, API_LIBAIO, OP_WRITE, fd, record);
}

static void *work(void *argument)
{
	char *own = argument;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BLOCKS; i++)
			begin(own + i, i);
		for (int i = BLOCKS; i--;)
			flight_end(own + i, i, true);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	char left, path[4096];
	int status;
	pid_t child;

	CHECK(argc == 2 && log_start(argv[1], 256 << 20) == 0 && scope_start("", "", "", NULL) == 0);
	capture_is_on = true;
	CHECK(snprintf(path, sizeof(path), "%s/file", argv[1]) > 0);
	fd = open(path, O_RDWR | O_CREAT, 0644);
	CHECK(fd >= 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, blocks[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	flight_end(&left, 1, true); /* never begun */
	begin(&left, 700);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		flight_end(&left, 700, true); /* the parent's */
		begin(&left, 800);
		flight_end(&left, 800, true);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
