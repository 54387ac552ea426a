/* SPDX-License-Identifier: MIT */
/*
 * Threads append records with and without text at once; then threads come and
 * go; then a forked child appends to a log of its own. The reader's test
 * looks at what the logs hold.
 *
 * usage: test_log FOLDER
 */
#include "log.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

#define THREADS 16
#define RECORDS 5000
#define SHORT_THREADS 200
#define TEXT_BYTES 300

static char text[LOG_TEXT_MAX + 100];

static void append(int64_t length, size_t text_bytes)
{
	struct record record = {.start_ns = 1, .end_ns = 2, .length = length, .op = OP_NOTE};

	errno = 77;
	CHECK(log_append(&record, text, text_bytes));
	CHECK(errno == 77);
}

static void *append_many(void *unused)
{
	for (size_t i = 0; i < RECORDS; i++)
		append((int64_t)i, i % TEXT_BYTES);
	return unused;
}

static void *append_one(void *unused)
{
	append(-1, 0);
	return unused;
}

static void run(void *(*body)(void *), int count)
{
	pthread_t threads[THREADS];

	CHECK(count <= THREADS);
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
	for (int i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	CHECK(argc == 2);
	memset(text, 't', sizeof(text));
	CHECK(log_start("relative", 1 << 20) < 0);
	CHECK(log_start(argv[1], 256 << 20) == 0);
	LOG_COUNT(ignored_opens, 3);
	CHECK(!log_exists());
	run(append_many, THREADS);
	CHECK(log_exists());
	LOG_COUNT(ignored_opens, 4);
	for (int i = 0; i < SHORT_THREADS; i++)
		run(append_one, 1);
	append(-2, sizeof(text)); /* cut */
	CHECK(log_file_number() == 1 && log_file_number() == 2);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(!log_is_borrowed() && !log_exists());
		append(-3, 10);
		CHECK(log_generation() == 2 && log_file_number() == 1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(log_generation() == 1 && log_file_number() == 3);
	return 0;
}
