/* SPDX-License-Identifier: MIT */
/*
 * Both older asynchronous interfaces. Prints OP FILE OFFSET LENGTH RESULT, in
 * the order of submission.
 *
 * usage: aio FOLDER libaio|posix
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

#define BLOCK 4096
#define COUNT 100

static char data[BLOCK] __attribute__((aligned(BLOCK)));
static int results[COUNT];

static int made(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	return fd;
}

static void get_events(io_context_t context, long count, const struct iocb *blocks)
{
	struct io_event events[COUNT];

	CHECK(io_getevents(context, count, count, events, NULL) == count);
	for (long i = 0; i < count; i++)
		results[events[i].obj - blocks] = (int)events[i].res;
}

static struct iocb blocks[COUNT];
static io_context_t shared;

static void *get_elsewhere(void *unused)
{
	get_events(shared, COUNT, blocks);
	return unused;
}

static void submit_all(struct iocb **all, long count)
{
	for (long done = 0; done < count;) {
		int taken = io_submit(shared, count - done, all + done);

		CHECK(taken > 0);
		done += taken;
	}
}

static void libaio(void)
{
	struct iovec parts[] = {{data, 100}, {data, 200}};
	struct iocb *all[COUNT], bad;
	pthread_t thread;
	int fd = made("kernel");

	CHECK(io_setup(COUNT, &shared) == 0);
	for (int i = 0; i < COUNT; i++) {
		io_prep_pwrite(&blocks[i], fd, data, BLOCK, (long long)i * BLOCK);
		all[i] = &blocks[i];
	}
	CHECK(pthread_create(&thread, NULL, get_elsewhere, NULL) == 0);
	submit_all(all, COUNT);
	CHECK(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < COUNT; i++)
		printf("write kernel %d %d %d\n", i * BLOCK, BLOCK, results[i]);
	io_prep_pread(&blocks[0], fd, data, 1000, 500);
	submit_all(all, 1);
	get_events(shared, 1, blocks);
	io_prep_preadv(&blocks[1], fd, parts, 2, 70);
	io_prep_fsync(&blocks[2], fd);
	submit_all(all + 1, 2);
	get_events(shared, 2, blocks);
	printf("read kernel 500 1000 %d\nread kernel 70 300 %d\nsync kernel -1 -1 %d\n",
	       results[0], results[1], results[2]);
	io_prep_pwrite(&blocks[0], fd, data, 30, 10);
	blocks[0].aio_rw_flags = RWF_APPEND;
	submit_all(all, 1);
	get_events(shared, 1, blocks);
	printf("write kernel %d 30 %d\n", COUNT * BLOCK, results[0]);
	for (int i = 0; i < 2; i++) {
		io_prep_pwrite(&blocks[i], fd, data, 40, 10);
		blocks[i].aio_rw_flags = RWF_APPEND;
		all[i] = &blocks[i];
	}
	submit_all(all, 2);
	get_events(shared, 2, blocks);
	for (int i = 0; i < 2; i++) /* the size when both are there */
		printf("write kernel %d 40 %d\n", COUNT * BLOCK + 70, results[i]);
	io_prep_pwrite(&bad, 1000000, data, 1, 0);
	all[0] = &bad;
	CHECK(io_submit(shared, 1, all) == -EBADF);
	all[0] = (struct iocb *)8;
	CHECK(io_submit(shared, 1, all) == -EFAULT);
	CHECK(io_destroy(shared) == 0 && close(fd) == 0);
}

static int wait_for(struct aiocb *block)
{
	const struct aiocb *list[] = {block};
	int error;

	while ((error = aio_error(block)) == EINPROGRESS)
		CHECK(aio_suspend(list, 1, NULL) == 0 || errno == EINTR);
	errno = 55;
	results[0] = (int)aio_return(block);
	return error ? -error : results[0];
}

static void posix(void)
{
	struct aiocb writes[4] = {{.aio_fildes = 0}}, read_back = {.aio_fildes = 0}, sync_it, *list[4];
	int fd = made("posix"), closed;

	for (int i = 0; i < 4; i++) {
		writes[i].aio_fildes = fd;
		writes[i].aio_buf = data;
		writes[i].aio_nbytes = 100 + (size_t)i;
		writes[i].aio_offset = i * 1000;
		writes[i].aio_lio_opcode = LIO_WRITE;
		list[i] = &writes[i];
	}
	CHECK(aio_write(&writes[0]) == 0);
	printf("write posix 0 100 %d\n", wait_for(&writes[0]));
	CHECK(lio_listio(LIO_WAIT, list + 1, 3, NULL) == 0);
	for (int i = 1; i < 4; i++)
		printf("write posix %d %d %d\n", i * 1000, 100 + i, wait_for(&writes[i]));
	CHECK(aio_write(&writes[1]) == 0);
	while (aio_error(&writes[1]) == EINPROGRESS)
		;
	printf("write posix 1000 101 101\n");
	writes[1].aio_offset = 7000; /* nobody has asked what it returned */
	CHECK(aio_write(&writes[1]) == 0);
	printf("write posix 7000 101 %d\n", wait_for(&writes[1]));
	read_back = writes[0];
	read_back.aio_offset = 3000;
	read_back.aio_nbytes = 500; /* ends short */
	CHECK(aio_read(&read_back) == 0);
	printf("read posix 3000 500 %d\n", wait_for(&read_back));
	sync_it = writes[0];
	CHECK(aio_fsync(O_DSYNC, &sync_it) == 0);
	printf("sync posix -1 -1 %d\n", wait_for(&sync_it));
	closed = open("posix", O_RDONLY);
	CHECK(closed >= 0);
	writes[0].aio_fildes = closed;
	CHECK(aio_write(&writes[0]) == 0);
	printf("write posix 0 100 %d\n", wait_for(&writes[0]));
	CHECK(close(closed) == 0 && close(fd) == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3 && chdir(argv[1]) == 0);
	if (!strcmp(argv[2], "libaio"))
		libaio();
	else
		posix();
	return 0;
}
