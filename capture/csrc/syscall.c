/* SPDX-License-Identifier: MIT */
/*
 * libc's syscall(): how rings are used without liburing, and how languages
 * with a runtime of their own make calls that libc has no name for. Calls that
 * have a wrapper here go through it, all others are passed on untouched.
 */
#include "passing.h"
#include "process.h"
#include "real.h"
#include "request.h"
#include "uring_enter.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Not variadic as in unistd.h: with the arguments where the caller has put
 * them, the compiler passes a call on by a jump, so that one which returns
 * twice, or on another stack, finds no frame of ours. Arguments that were not
 * given are read as whatever is there, and mean nothing to the kernel either.
 */
EXPORT long captured_syscall(long number, long a, long b, long c, long d, long e,
			     long f) __asm__("syscall");

struct open_how;
int openat2(int at, const char *path, const struct open_how *how, size_t bytes);
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags);
int pidfd_getfd(int process, int fd, unsigned int flags);
int close_range(unsigned int first, unsigned int last, int flags);

#define PATH(value) ((const char *)(value))
#define PARTS(value) ((const struct iovec *)(value))
#define OFFSET(value) ((off_t *)(value))

/* Wrapped calls whose arguments are the system call's, one by one: X(call, arguments) */
#define FOR_EACH_CALL(X)                                                                           \
	X(read, (int)a, (void *)b, (size_t)c)                                                      \
	X(write, (int)a, (const void *)b, (size_t)c)                                               \
	X(pread64, (int)a, (void *)b, (size_t)c, d)                                                \
	X(pwrite64, (int)a, (const void *)b, (size_t)c, d)                                         \
	X(readv, (int)a, PARTS(b), (int)c)                                                         \
	X(writev, (int)a, PARTS(b), (int)c)                                                        \
	X(preadv, (int)a, PARTS(b), (int)c, d)                                                     \
	X(pwritev, (int)a, PARTS(b), (int)c, d)                                                    \
	X(preadv2, (int)a, PARTS(b), (int)c, d, (int)f)                                            \
	X(pwritev2, (int)a, PARTS(b), (int)c, d, (int)f)                                           \
	X(copy_file_range, (int)a, OFFSET(b), (int)c, OFFSET(d), (size_t)e, (unsigned int)f)       \
	X(splice, (int)a, OFFSET(b), (int)c, OFFSET(d), (size_t)e, (unsigned int)f)                \
	X(sendfile, (int)a, (int)b, OFFSET(c), (size_t)d)                                          \
	X(sendmsg, (int)a, (const struct msghdr *)b, (int)c)                                       \
	X(sendmmsg, (int)a, (struct mmsghdr *)b, (unsigned int)c, (int)d)                          \
	X(lseek, (int)a, b, (int)c)                                                                \
	X(openat, (int)a, PATH(b), (int)c, (mode_t)d)                                              \
	X(openat2, (int)a, PATH(b), (const struct open_how *)c, (size_t)d)                         \
	X(close, (int)a)                                                                           \
	X(close_range, (unsigned int)a, (unsigned int)b, (int)c)                                   \
	X(dup, (int)a)                                                                             \
	X(dup3, (int)a, (int)b, (int)c)                                                            \
	X(fcntl, (int)a, (int)b, c)                                                                \
	X(pidfd_getfd, (int)a, (int)b, (unsigned int)c)                                            \
	X(fsync, (int)a)                                                                           \
	X(fdatasync, (int)a)                                                                       \
	X(syncfs, (int)a)                                                                          \
	X(sync_file_range, (int)a, b, c, (unsigned int)d)                                          \
	X(ftruncate, (int)a, b)                                                                    \
	X(fstat, (int)a, (struct stat *)b)                                                         \
	X(statx, (int)a, PATH(b), (int)c, (unsigned int)d, (struct statx *)e)                      \
	X(getxattr, PATH(a), PATH(b), (void *)c, (size_t)d)                                        \
	X(lgetxattr, PATH(a), PATH(b), (void *)c, (size_t)d)                                       \
	X(fgetxattr, (int)a, PATH(b), (void *)c, (size_t)d)                                        \
	X(readahead, (int)a, b, (size_t)c)                                                         \
	X(truncate, PATH(a), b)                                                                    \
	X(fallocate, (int)a, (int)b, c, d)                                                         \
	X(munmap, (void *)a, (size_t)b)                                                            \
	X(madvise, (void *)a, (size_t)b, (int)c)                                                   \
	X(msync, (void *)a, (size_t)b, (int)c)                                                     \
	X(renameat2, (int)a, PATH(b), (int)c, PATH(d), (unsigned int)e)                            \
	X(linkat, (int)a, PATH(b), (int)c, PATH(d), (int)e)                                        \
	X(unlinkat, (int)a, PATH(b), (int)c)                                                       \
	X(mkdirat, (int)a, PATH(b), (mode_t)c)                                                     \
	X(execve, PATH(a), (char *const *)b, (char *const *)c)                                     \
	X(execveat, (int)a, PATH(b), (char *const *)c, (char *const *)d, (int)e)

/* Those that newer architectures no longer have. */
#define FOR_EACH_OLD_CALL(X)                                                                       \
	X(open, PATH(a), (int)b, (mode_t)c)                                                        \
	X(stat, PATH(a), (struct stat *)b)                                                         \
	X(lstat, PATH(a), (struct stat *)b)                                                        \
	X(creat, PATH(a), (mode_t)b)                                                               \
	X(dup2, (int)a, (int)b)                                                                    \
	X(rename, PATH(a), PATH(b))                                                                \
	X(link, PATH(a), PATH(b))                                                                  \
	X(unlink, PATH(a))                                                                         \
	X(mkdir, PATH(a), (mode_t)b)                                                               \
	X(rmdir, PATH(a))

/* This one returns its error. */
static long advised(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

static __attribute__((noinline)) long set_up_ring(long entries, long params)
{
	long fd = real.syscall(SYS_io_uring_setup, entries, params, 0, 0, 0, 0);
	int saved_errno = errno;

	uring_was_set_up((int)fd, (const void *)params);
	errno = saved_errno;
	return fd;
}

static __attribute__((noinline)) long enter_ring(long fd, long count, long awaited, long flags,
						 long argument, long bytes)
{
	struct ring_call call = uring_enter_begin((int)fd, (uint32_t)count, (uint32_t)flags);
	long result = real.syscall(SYS_io_uring_enter, fd, count, awaited, flags, argument, bytes);

	uring_call_end(call, result < 0 ? -errno : 0);
	return result;
}

static __attribute__((noinline)) long register_with_ring(long fd, long opcode, long argument,
							 long count)
{
	long result = real.syscall(SYS_io_uring_register, fd, opcode, argument, count, 0, 0);

	uring_was_registered((int)fd, (uint32_t)opcode, (const void *)argument, (uint32_t)count,
			     (int)result);
	return result;
}

long captured_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (unlikely(!capture_is_on || real_is_behind(__builtin_return_address(0))))
		return real.syscall(number, a, b, c, d, e, f);
	switch (number) {
#define CALL(name, ...)                                                       \
	case SYS_##name:                                                      \
		return (long)name(__VA_ARGS__);
		FOR_EACH_CALL(CALL)
#ifdef SYS_open
		FOR_EACH_OLD_CALL(CALL)
#endif
#ifdef SYS_renameat
		CALL(renameat, (int)a, PATH(b), (int)c, PATH(d))
#endif
#undef CALL
	case SYS_mmap:
		return (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
	case SYS_newfstatat:
		return fstatat((int)a, PATH(b), (struct stat *)c, (int)d);
	case SYS_fadvise64:
		return advised(posix_fadvise((int)a, b, c, (int)d));
	case SYS_io_uring_setup:
		return set_up_ring(a, b);
	case SYS_io_uring_enter:
		return enter_ring(a, b, c, d, e, f);
	case SYS_io_uring_register:
		return register_with_ring(a, b, c, d);
	case SYS_exit_group:
		process_ends();
	}
	return real.syscall(number, a, b, c, d, e, f);
}
