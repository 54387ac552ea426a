/* SPDX-License-Identifier: MIT */
/*
 * Calls every variant of every function that the preload library wraps, each
 * on a file of its own that is named after the variant, so that what one
 * variant moved can be compared with what the kernel saw.
 *
 * usage: variants FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

extern int __xstat(int version, const char *path, struct stat *status);
extern int __lxstat64(int version, const char *path, struct stat64 *status);
extern int __fxstat(int version, int fd, struct stat *status);
extern int __fxstatat(int version, int at, const char *path, struct stat *status, int flags);
extern int __open(const char *path, int flags, ...);
extern int __open64(const char *path, int flags, ...);
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int at, const char *path, int flags);
extern int __openat64_2(int at, const char *path, int flags);
extern int __close(int fd);
extern int __dup2(int fd, int to);
extern int __fcntl(int fd, int command, ...);
extern off_t __lseek(int fd, off_t offset, int whence);
extern ssize_t __read(int fd, void *buffer, size_t bytes);
extern ssize_t __write(int fd, const void *buffer, size_t bytes);
extern ssize_t __pread64(int fd, void *buffer, size_t bytes, off_t offset);
extern ssize_t __pwrite64(int fd, const void *buffer, size_t bytes, off_t offset);
extern ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
extern ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);
extern ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);

#define BYTES 10000
#define MODE 0644

static char data[BYTES];
static char back[BYTES];
static struct iovec parts[2] = {{data, 300}, {data + 300, 700}};
static struct iovec back_parts[2] = {{back, 300}, {back + 300, 700}};
static volatile int zero; /* keeps arguments from being constants */

#include "check.h"

static int made(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | zero, MODE);

	CHECK(fd >= 0);
	return fd;
}

static int filled(const char *path)
{
	int fd = made(path);

	CHECK(write(fd, data, BYTES) == BYTES);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* X(name, body): the body has `path` and uses or closes `fd` */
#define WRITES(X)                                                             \
	X(write, CHECK(write(fd, data, 100) == 100))                          \
	X(__write, CHECK(__write(fd, data, 100) == 100))                      \
	X(pwrite, CHECK(pwrite(fd, data, 100, 5000) == 100))                  \
	X(pwrite64, CHECK(pwrite64(fd, data, 100, 5000) == 100))              \
	X(__pwrite64, CHECK(__pwrite64(fd, data, 100, 5000) == 100))          \
	X(writev, CHECK(writev(fd, parts, 2) == 1000))                        \
	X(pwritev, CHECK(pwritev(fd, parts, 2, 70) == 1000))                  \
	X(pwritev64, CHECK(pwritev64(fd, parts, 2, 70) == 1000))              \
	X(pwritev2, CHECK(pwritev2(fd, parts, 2, 70, 0) == 1000))             \
	X(pwritev2_here, CHECK(pwritev2(fd, parts, 2, -1, 0) == 1000))        \
	X(pwritev64v2, CHECK(pwritev64v2(fd, parts, 2, 70, 0) == 1000))       \
	X(zero_bytes, CHECK(write(fd, data, 0) == 0))                         \
	X(seek_set, CHECK(lseek(fd, 40, SEEK_SET) == 40);                     \
	  CHECK(write(fd, data, 10) == 10))                                   \
	X(seek_current, CHECK(write(fd, data, 10) == 10);                     \
	  CHECK(lseek64(fd, 7, SEEK_CUR) == 17); CHECK(write(fd, data, 10) == 10)) \
	X(seek_end, CHECK(write(fd, data, 10) == 10);                         \
	  CHECK(__lseek(fd, -3, SEEK_END) == 7); CHECK(write(fd, data, 10) == 10))

#define READS(X)                                                              \
	X(read, CHECK(read(fd, back, 100 + zero) == 100))                     \
	X(__read, CHECK(__read(fd, back, 100) == 100))                        \
	X(pread, CHECK(pread(fd, back, 100 + zero, 5000) == 100))             \
	X(pread64, CHECK(pread64(fd, back, 100 + zero, 5000) == 100))         \
	X(__pread64, CHECK(__pread64(fd, back, 100, 5000) == 100))            \
	X(readv, CHECK(readv(fd, back_parts, 2) == 1000))                     \
	X(preadv, CHECK(preadv(fd, back_parts, 2, 70) == 1000))               \
	X(preadv64, CHECK(preadv64(fd, back_parts, 2, 70) == 1000))           \
	X(preadv2, CHECK(preadv2(fd, back_parts, 2, 70, 0) == 1000))          \
	X(preadv2_here, CHECK(preadv2(fd, back_parts, 2, -1, 0) == 1000))     \
	X(preadv64v2, CHECK(preadv64v2(fd, back_parts, 2, 70, 0) == 1000))    \
	X(__read_chk, CHECK(__read_chk(fd, back, 100, BYTES) == 100))         \
	X(__pread_chk, CHECK(__pread_chk(fd, back, 100, 9, BYTES) == 100))    \
	X(__pread64_chk, CHECK(__pread64_chk(fd, back, 100, 9, BYTES) == 100)) \
	X(past_the_end, CHECK(pread(fd, back, 100, BYTES - 20) == 20);        \
	  CHECK(pread(fd, back, 100, BYTES) == 0))

/* These open by themselves. */
#define OPENS(X)                                                              \
	X(open, open(path, O_WRONLY | O_CREAT, MODE))                         \
	X(open64, open64(path, O_WRONLY | O_CREAT, MODE))                     \
	X(__open, __open(path, O_WRONLY | O_CREAT, MODE))                     \
	X(__open64, __open64(path, O_WRONLY | O_CREAT, MODE))                 \
	X(openat, openat(AT_FDCWD, path, O_WRONLY | O_CREAT, MODE))           \
	X(openat64, openat64(AT_FDCWD, path, O_WRONLY | O_CREAT, MODE))       \
	X(openat_folder, openat(folder_fd, path, O_WRONLY | O_CREAT, MODE))   \
	X(creat, creat(path, MODE))                                           \
	X(creat64, creat64(path, MODE))                                       \
	X(__open_2, __open_2(existing(path), O_WRONLY))                       \
	X(__open64_2, __open64_2(existing(path), O_WRONLY))                   \
	X(__openat_2, __openat_2(AT_FDCWD, existing(path), O_WRONLY))         \
	X(__openat64_2, __openat64_2(AT_FDCWD, existing(path), O_WRONLY))     \
	X(open_checked, open(existing(path), O_WRONLY | zero))                \
	X(openat_checked, openat(AT_FDCWD, existing(path), O_WRONLY | zero))  \
	X(mkstemp, mkstemp(pattern(path, "")))                                \
	X(mkstemp64, mkstemp64(pattern(path, "")))                            \
	X(mkostemp, mkostemp(pattern(path, ""), O_CLOEXEC))                   \
	X(mkostemp64, mkostemp64(pattern(path, ""), O_CLOEXEC))               \
	X(mkstemps, mkstemps(pattern(path, ".x"), 2))                         \
	X(mkstemps64, mkstemps64(pattern(path, ".x"), 2))                     \
	X(mkostemps, mkostemps(pattern(path, ".x"), 2, O_CLOEXEC))            \
	X(mkostemps64, mkostemps64(pattern(path, ".x"), 2, O_CLOEXEC))

/* Each ends with a write through a descriptor that came about in another way. */
#define DUPLICATES(X)                                                         \
	X(dup, dup(fd))                                                       \
	X(dup2, dup2(fd, 200))                                                \
	X(__dup2, __dup2(fd, 201))                                            \
	X(dup2_same, dup2(fd, fd))                                            \
	X(dup3, dup3(fd, 202, O_CLOEXEC))                                     \
	X(fcntl, fcntl(fd, F_DUPFD, 0))                                       \
	X(fcntl64, fcntl64(fd, F_DUPFD_CLOEXEC, 0))                           \
	X(__fcntl, __fcntl(fd, F_DUPFD, 1500))

static int folder_fd;

static const char *existing(const char *path)
{
	CHECK(close(made(path)) == 0);
	return path;
}

static char *pattern(const char *path, const char *suffix)
{
	static char text[4096];

	snprintf(text, sizeof(text), "%s-XXXXXX%s", path, suffix);
	return text;
}

#define WRITE_CASE(name, ...)                                                 \
	{                                                                     \
		int fd = made("write." #name);                                \
		__VA_ARGS__;                                                  \
		CHECK(close(fd) == 0);                                        \
	}
#define READ_CASE(name, ...)                                                  \
	{                                                                     \
		int fd = filled("read." #name);                               \
		__VA_ARGS__;                                                  \
		CHECK(memcmp(back, data, 1) >= -255);                         \
		CHECK(__close(fd) == 0);                                      \
	}
#define OPEN_CASE(name, ...)                                                  \
	{                                                                     \
		const char *path = "open." #name;                             \
		int fd = __VA_ARGS__;                                         \
		CHECK(fd >= 0);                                               \
		CHECK(write(fd, data, 123) == 123);                           \
		CHECK(close(fd) == 0);                                        \
	}
#define DUPLICATE_CASE(name, ...)                                             \
	{                                                                     \
		int fd = made("duplicate." #name);                            \
		int other;                                                    \
		CHECK(write(fd, data, 10) == 10);                             \
		other = __VA_ARGS__;                                          \
		CHECK(other >= 0);                                            \
		CHECK(write(other, data, 20) == 20);                          \
		CHECK(write(fd, data, 30) == 30);                             \
		if (other != fd)                                              \
			CHECK(close(fd) == 0);                                \
		CHECK(write(other, data, 40) == 40);                          \
		CHECK(close(other) == 0);                                     \
	}

static void append_mode(void)
{
	int fd = open("append.open", O_WRONLY | O_CREAT | O_APPEND, MODE);
	int set = made("append.setfl");

	CHECK(write(fd, data, 100) == 100);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(write(fd, data, 50) == 50);
	CHECK(pwrite(fd, data, 25, 0) == 25); /* Linux appends this one, too */
	CHECK(write(fd, data, 5) == 5);
	CHECK(close(fd) == 0);

	CHECK(write(set, data, 100) == 100);
	CHECK(lseek(set, 10, SEEK_SET) == 10);
	CHECK(fcntl(set, F_SETFL, O_APPEND) == 0);
	CHECK(write(set, data, 50) == 50);
	CHECK(fcntl(set, F_SETFL, 0) == 0);
	CHECK(lseek(set, 10, SEEK_SET) == 10);
	CHECK(write(set, data, 50) == 50);
	CHECK(close(set) == 0);
}

static void between_files(void)
{
	int from = filled("between.from"), to = made("between.to"), to_sent = made("between.sent");
	off_t in = 100, out = 200;
	int pipes[2];

	CHECK(copy_file_range(from, &in, to, &out, 500, 0) == 500);
	CHECK(in == 600 && out == 700);
	CHECK(copy_file_range(from, NULL, to, NULL, 300, 0) == 300);
	in = 1000;
	CHECK(sendfile(to_sent, from, &in, 400) == 400);
	CHECK(sendfile64(to_sent, from, NULL, 200) == 200);
	CHECK(pipe(pipes) == 0);
	CHECK(splice(from, NULL, pipes[1], NULL, 1000, 0) == 1000);
	out = 5000;
	CHECK(splice(pipes[0], NULL, to, &out, 1000, 0) == 1000);
	CHECK(close(from) == 0 && close(to) == 0 && close(to_sent) == 0);
	CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static void sizes(void)
{
	int fd = made("size.fd");

	CHECK(ftruncate(fd, 1000) == 0);
	CHECK(ftruncate64(fd, 2000) == 0);
	CHECK(fallocate(fd, 0, 0, 4096) == 0);
	CHECK(fallocate64(fd, FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0);
	CHECK(posix_fallocate(fd, 0, 8192) == 0);
	CHECK(posix_fallocate64(fd, 8192, 4096) == 0);
	CHECK(posix_fadvise(fd, 0, 4096, POSIX_FADV_SEQUENTIAL) == 0);
	CHECK(posix_fadvise64(fd, 0, 4096, POSIX_FADV_DONTNEED) == 0);
	CHECK(close(fd) == 0);
	CHECK(truncate("size.fd", 500) == 0);
	CHECK(truncate64("size.fd", 600) == 0);
}

static void syncs(void)
{
	int fd = filled("sync.fd");
	char *at;

	CHECK(fsync(fd) == 0);
	CHECK(fdatasync(fd) == 0);
	CHECK(sync_file_range(fd, 4096, 4096, SYNC_FILE_RANGE_WRITE) == 0);
	CHECK(syncfs(fd) == 0);
	at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	at[5000] = 1;
	CHECK(msync(at + 4096, 4096, MS_SYNC) == 0);
	CHECK(madvise(at, 4096, MADV_WILLNEED) == 0);
	CHECK(posix_madvise(at, 8192, POSIX_MADV_SEQUENTIAL) == 0);
	CHECK(close(fd) == 0);
	CHECK(munmap(at, 8192) == 0);
	fd = open("sync.fd", O_RDONLY);
	at = mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
	CHECK(at != MAP_FAILED);
	CHECK(munmap(at, 4096) == 0);
	CHECK(close(fd) == 0);
}

static void names(void)
{
	char folder[] = "name.temporary-XXXXXX";

	close(made("name.a"));
	CHECK(link("name.a", "name.b") == 0);
	CHECK(linkat(AT_FDCWD, "name.a", folder_fd, "name.c", 0) == 0);
	CHECK(rename("name.a", "name.d") == 0);
	CHECK(renameat(folder_fd, "name.b", AT_FDCWD, "name.e") == 0);
	CHECK(renameat2(AT_FDCWD, "name.c", AT_FDCWD, "name.f", RENAME_NOREPLACE) == 0);
	CHECK(unlink("name.d") == 0);
	CHECK(unlinkat(folder_fd, "name.e", 0) == 0);
	CHECK(remove("name.f") == 0);
	CHECK(mkdir("name.folder", 0755) == 0);
	CHECK(mkdirat(folder_fd, "name.folder2", 0755) == 0);
	CHECK(rmdir("name.folder") == 0);
	CHECK(unlinkat(AT_FDCWD, "name.folder2", AT_REMOVEDIR) == 0);
	CHECK(mkdtemp(folder) == folder);
	CHECK(remove(folder) == 0);
	CHECK(rename("name.missing", "name.too") == -1);
	CHECK(open("name.missing/x", O_WRONLY | O_CREAT, MODE) == -1);
}

/* 13 look-ups by path or descriptor of a file that is there, and some of what is not one. */
static void look_ups(void)
{
	struct stat status;
	struct stat64 status64;
	struct statx extended;
	char value[8];
	int fd = made("stat.file");

	CHECK(stat("stat.file", &status) == 0 && stat64("stat.file", &status64) == 0);
	CHECK(lstat("stat.file", &status) == 0 && lstat64("stat.file", &status64) == 0);
	CHECK(fstatat(folder_fd, "stat.file", &status, 0) == 0);
	CHECK(fstatat64(AT_FDCWD, "stat.file", &status64, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(statx(AT_FDCWD, "stat.file", 0, STATX_SIZE | STATX_TYPE, &extended) == 0);
	CHECK(__xstat(1, "stat.file", &status) == 0 && __lxstat64(1, "stat.file", &status64) == 0);
	CHECK(__fxstatat(1, AT_FDCWD, "stat.file", &status, 0) == 0);
	CHECK(fstat(fd, &status) == 0 && __fxstat(1, fd, &status) == 0);
	CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &extended) == 0);
	CHECK(stat(".", &status) == 0 && stat("stat.missing", &status) == -1);
	CHECK(getxattr("stat.file", "user.none", value, sizeof(value)) == -1);
	CHECK(lgetxattr("stat.file", "user.none", value, sizeof(value)) == -1);
	CHECK(fgetxattr(fd, "user.none", value, sizeof(value)) == -1);
	CHECK(readahead(fd, 0, 4096) == 0 && close(fd) == 0);
}

static void many_closed(void)
{
	int first = made("closed.first"), second = made("closed.second"), third;

	CHECK(write(first, data, 1) == 1 && write(second, data, 1) == 1);
	CHECK(close_range((unsigned int)first, (unsigned int)second, 0) == 0);
	third = made("closed.third"); /* takes the number of the first */
	CHECK(third == first);
	CHECK(write(third, data, 77) == 77);
	closefrom(third);
	CHECK(write(third, data, 1) == -1);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && chdir(argv[1]) == 0);
	folder_fd = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(folder_fd >= 0);
	for (int i = 0; i < BYTES; i++)
		data[i] = (char)(i * 7);
	WRITES(WRITE_CASE)
	READS(READ_CASE)
	OPENS(OPEN_CASE)
	DUPLICATES(DUPLICATE_CASE)
	append_mode();
	between_files();
	sizes();
	syncs();
	names();
	look_ups();
	many_closed();
	return 0;
}
