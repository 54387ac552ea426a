/* SPDX-License-Identifier: MIT */
/*
 * A signal handler that writes, as often as a timer can fire, into whatever
 * the main loop was doing: a write of its own, or the library's part of it.
 * Prints how often the handler wrote.
 *
 * usage: signals FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#define WRITES 50000

static int handler_fd;
static volatile long handled;

static void on_alarm(int number)
{
	(void)number;
	handled += write(handler_fd, "h", 1);
}

int main(int argc, char **argv)
{
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	int fd;

	if (argc != 2 || chdir(argv[1]) != 0)
		return 1;
	handler_fd = open("handler", O_WRONLY | O_CREAT, 0600);
	fd = open("main", O_WRONLY | O_CREAT, 0600);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < WRITES; i++)
		if (pwrite(fd, "m", 1, i % 100) != 1)
			return 2;
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%ld\n", handled);
	return 0;
}
