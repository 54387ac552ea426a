/* SPDX-License-Identifier: MIT */
/* usage: clones HOW: 10,000 bytes by this process, 200,000 by one made in an unusual way. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREAD (CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static char stack[1 << 20] __attribute__((aligned(64)));
static volatile int done;
static int held = -1;

static int put(const char *name, int blocks)
{
	static char block[10000] = {1};
	int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	for (int i = 0; i < blocks; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			return 1;
	return close(fd);
}

static int child(void *unused)
{
	(void)unused;
	if (held >= 0)
		close(held); /* the next file has its number */
	put("child", 20);
	done = 1;
	return 0;
}

static int without_libc(long pid)
{
	int status = 1;

	if (pid == 0) {
		child(NULL);
		_exit(0);
	}
	waitpid((pid_t)pid, &status, 0);
	return status;
}

static int of_clone(int flags)
{
	int status = 1, pid = clone(child, stack + sizeof(stack), flags, NULL);

	if (pid < 0)
		return 1;
	if (!(flags & CLONE_THREAD)) {
		waitpid(pid, &status, 0);
		return status;
	}
	while (!done)
		usleep(1000);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t arguments[8] = {[4] = SIGCHLD};

	if (argc != 2 || put("parent", 1))
		return 2;
	if (strcmp(argv[1], "clone") == 0)
		return without_libc(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	if (strcmp(argv[1], "clone3") == 0)
		return without_libc(syscall(SYS_clone3, arguments, sizeof(arguments)));
	if (strcmp(argv[1], "clone()") == 0)
		return of_clone(SIGCHLD);
	if (strcmp(argv[1], "thread") == 0)
		return of_clone(THREAD);
	if (strcmp(argv[1], "memory") == 0) {
		held = open("parent", O_WRONLY | O_APPEND);
		return of_clone(CLONE_VM | SIGCHLD) || write(held, "x", 1) != 1;
	}
	if (strcmp(argv[1], "memory and files") == 0)
		return of_clone(CLONE_VM | CLONE_FILES | SIGCHLD);
	if (strcmp(argv[1], "vfork") == 0)
		return of_clone(CLONE_VM | CLONE_VFORK | SIGCHLD);
	if (strcmp(argv[1], "no child") == 0) {
		signal(SIGCHLD, SIG_IGN); /* nobody waits: its bytes are in no count */
		of_clone(CLONE_VM | SIGCHLD);
		return 0;
	}
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) || put("child", 20);
}
