/* SPDX-License-Identifier: MIT */
/*
 * Parent and child write in turns to a file that was opened before the fork,
 * and each to one of its own. With RAW the child is made by the system call,
 * behind the back of libc.
 *
 * usage: forks FOLDER fork|raw
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
	do {                                                                  \
		if (!(condition)) {                                           \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                             \
		}                                                             \
	} while (0)

#define TURNS 5

static char data[1000];

static void take_turns(const char *own, int shared, int wait_for, int tell, size_t bytes)
{
	int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	char token;

	CHECK(fd >= 0);
	for (int turn = 0; turn < TURNS; turn++) {
		CHECK(read(wait_for, &token, 1) == 1);
		CHECK(write(shared, data, bytes) == (ssize_t)bytes);
		CHECK(write(fd, data, bytes) == (ssize_t)bytes);
		CHECK(write(tell, "x", 1) == 1);
	}
	CHECK(close(fd) == 0);
}

static pid_t make_child(const char *how)
{
	if (strcmp(how, "raw") == 0)
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	return fork();
}

int main(int argc, char **argv)
{
	int to_child[2], to_parent[2], shared, status;
	pid_t child;

	CHECK(argc == 3 && chdir(argv[1]) == 0);
	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
	shared = open("shared", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(shared >= 0 && write(shared, data, 100) == 100);
	CHECK(write(to_parent[1], "x", 1) == 1);
	child = make_child(argv[2]);
	CHECK(child >= 0);
	if (!child) {
		take_turns("of_child", shared, to_child[0], to_parent[1], 30);
		_exit(0);
	}
	take_turns("of_parent", shared, to_parent[0], to_child[1], 7);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
