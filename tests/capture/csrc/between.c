/* SPDX-License-Identifier: MIT */
/*
 * A library behind capture: what another thread does while a call is under way, done by the call.
 * A read of 1001 bytes closes its descriptor, one of 1003 bytes lets it be what the next one is, and
 * so does a pwrite of 1004; a seek to 1002 lets a thread of its own read there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *read_ten(void *fd)
{
	ssize_t (*volatile reads)(int, void *, size_t) = read; /* through capture */
	char data[10];

	return (void *)reads((int)(long)fd, data, sizeof(data));
}

ssize_t read(int fd, void *buffer, size_t bytes)
{
	ssize_t result = syscall(SYS_read, fd, buffer, bytes);

	if (bytes == 1001)
		close(fd);
	if (bytes == 1003)
		dup2(fd + 1, fd);
	return result;
}

ssize_t pwrite64(int fd, const void *buffer, size_t bytes, off_t offset)
{
	ssize_t result = syscall(SYS_pwrite64, fd, buffer, bytes, offset);

	if (bytes == 1004)
		dup2(fd + 1, fd);
	return result;
}

static off_t seek(int fd, off_t offset, int whence)
{
	off_t result = syscall(SYS_lseek, fd, offset, whence);
	pthread_t thread;

	if (offset == 1002 && !pthread_create(&thread, NULL, read_ten, (void *)(long)fd))
		pthread_join(thread, NULL);
	return result;
}

off_t lseek(int fd, off_t offset, int whence)
{
	return seek(fd, offset, whence);
}

off_t lseek64(int fd, off_t offset, int whence)
{
	return seek(fd, offset, whence);
}
