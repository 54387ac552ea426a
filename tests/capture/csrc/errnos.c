/* SPDX-License-Identifier: MIT */
/*
 * Prints the result and errno of calls that fail and of calls that do not:
 * what it prints must not depend on who watches.
 *
 * usage: errnos FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#define UNTOUCHED 1234

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

#define SHOW(call)                                                            \
	do {                                                                  \
		long result_;                                                 \
		errno = UNTOUCHED;                                            \
		result_ = (long)(call);                                       \
		printf("%s = %ld, errno %d\n", #call, result_, errno);        \
	} while (0)

static volatile unsigned long nowhere = 16; /* no memory is there */
static const char *volatile no_path;
static volatile int minus_one = -1;

/* A program that names its loader far before its first byte: no sum of the two numbers tells. */
static void make_damaged(const char *path)
{
	const Elf64_Off before = 64 << 20; /* lower than a stack reaches */
	struct {
		Elf64_Ehdr elf;
		Elf64_Phdr loader;
	} program = {
		.elf = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_DYN,
			.e_machine = MACHINE,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1},
		.loader = {.p_type = PT_INTERP, .p_offset = -before, .p_filesz = before + 100},
	};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);

	if (fd < 0 || write(fd, &program, sizeof(program)) != sizeof(program) || close(fd) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	char buffer[64] = "text";
	struct iovec parts = {buffer, 4};
	int fd, copy;
	void *bad = (void *)nowhere;
	struct stat status;
	struct statx extended;
	FILE *stream;
	char *env[] = {NULL};

	if (argc != 2 || chdir(argv[1]) != 0)
		return 1;
	SHOW(fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0640));
	SHOW(copy = dup(fd));
	SHOW(write(fd, buffer, 4));
	SHOW(pwrite(fd, buffer, 4, 100));
	SHOW(pwrite(fd, buffer, 4, -5));
	SHOW(write(fd, bad, 4));
	SHOW(writev(fd, &parts, 1));
	SHOW(writev(fd, bad, 1));
	SHOW(writev(fd, &parts, minus_one));
	SHOW(preadv2(fd, &parts, 1, 0, 0x40000000));
	SHOW(read(fd, bad, 4));
	SHOW(pread(fd, buffer, 4, 0));
	SHOW(stat(bad, &status));
	SHOW(statx(fd, no_path, AT_EMPTY_PATH, STATX_BASIC_STATS, &extended)); /* since Linux 6.11 */
	SHOW(statx(fd, bad, AT_EMPTY_PATH, STATX_BASIC_STATS, &extended));
	SHOW(fstatat(fd, bad, &status, AT_EMPTY_PATH));
	SHOW(getxattr(bad, "user.none", buffer, 4));
	SHOW(lseek(fd, -1, SEEK_SET));
	SHOW(lseek(fd, 3, SEEK_SET));
	SHOW(ftruncate(fd, -1));
	SHOW(fallocate(fd, 0x1000, 0, 1));
	SHOW(posix_fallocate(fd, 0, -1));
	SHOW(posix_fadvise(fd, 0, 0, 99));
	SHOW(fsync(fd));
	SHOW(close(copy));
	SHOW(close(copy));
	SHOW(write(copy, buffer, 4));
	SHOW(write(-1, buffer, 4));
	SHOW(write(1 << 25, buffer, 4));
	SHOW(read(1 << 25, buffer, 4));
	SHOW(dup2(copy, 50));
	SHOW(dup2(fd, 50));
	SHOW(dup2(fd, -1));
	SHOW(dup3(fd, fd, 0));
	SHOW(fcntl(fd, F_GETFL));
	SHOW(fcntl(99, F_GETFL));
	SHOW(fsync(99));
	SHOW(sendmsg(fd, bad, 0));
	SHOW(sendmmsg(fd, bad, 1, 0));
	SHOW(open("missing/file", O_WRONLY | O_CREAT, 0600));
	SHOW(open("file", O_WRONLY | O_CREAT | O_EXCL, 0600));
	SHOW(open(bad, O_RDONLY));
	SHOW(open(bad, O_WRONLY | O_CREAT, 0600));
	SHOW(openat(fd, "x", O_WRONLY | O_CREAT, 0600));
	SHOW(rename("missing", "other"));
	SHOW(rename(bad, "other"));
	SHOW(rename("file", bad));
	SHOW(mkdir("file", 0700));
	SHOW(mkdir(bad, 0700));
	SHOW(unlink("missing"));
	SHOW(unlink(bad));
	SHOW(rmdir("file"));
	SHOW(remove("missing"));
	SHOW(truncate("missing", 1));
	SHOW(truncate(bad, 1));
	SHOW(mmap(NULL, 4096, PROT_READ, MAP_SHARED, 99, 0) == MAP_FAILED);
	SHOW(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	SHOW(munmap(bad, 10));
	SHOW(madvise((void *)4096, 4096, MADV_WILLNEED));
	SHOW(msync((void *)4096, 4096, MS_SYNC));
	SHOW(close_range(9, 3, 0));
	SHOW(fopen("missing/file", "w") == NULL);
	SHOW(fopen("file", "bad mode") == NULL);
	SHOW((stream = fopen("stream", "w+")) != NULL);
	SHOW(fwrite(buffer, 1, 4, stream));
	SHOW(fseek(stream, -100, SEEK_SET));
	SHOW(fflush(stream));
	SHOW(fread(buffer, 1, 4, stream));
	SHOW(fclose(stream));
	SHOW((stream = fopen("file", "r")) != NULL);
	SHOW(fwrite(buffer, 1, 4, stream));
	SHOW(fclose(stream));
	SHOW((stream = fmemopen(buffer, sizeof(buffer), "r")) != NULL);
	SHOW(fread(buffer, 1, 4, stream));
	SHOW(fclose(stream));
	SHOW(execve("/no/such/program", env, env));
	SHOW(execl("/no/such/program", "x", (char *)NULL));
	SHOW(execvp("no-such-program", argv));
	SHOW(execve(bad, env, env));
	SHOW(mkfifo("pipe", 0700));
	SHOW(execve("pipe", env, env));
	make_damaged("damaged");
	SHOW(execve("damaged", env, env));
	SHOW(posix_spawn(NULL, "/no/such/program", NULL, NULL, env, env));
	fprintf(stderr, "to stderr\n");
	fflush(stdout);
	return 42;
}
