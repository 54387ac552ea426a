/* SPDX-License-Identifier: MIT */
/*
 * The same without libc, as Go and Rust programs do: the library is loaded, and yet sees
 * nothing.
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char block[200000];

static long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

int main(int argc, char **argv)
{
	long fd = call(SYS_open, (long)argv[argc - 1], O_CREAT | O_WRONLY, 0600);

	return call(SYS_write, fd, (long)block, sizeof(block)) != sizeof(block);
}
