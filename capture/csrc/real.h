/* SPDX-License-Identifier: MIT */
/*
 * The functions this library stands in front of: `real.NAME` is the next
 * definition after ours. Before real_resolve() has run, a wrapper may be
 * called by another library's constructor or from inside an allocator that is
 * itself being set up. dlsym() may allocate, so system calls start out as raw
 * ones, and only the others ask the dynamic linker when they are first used.
 */
#ifndef IOTRACE_REAL_H
#define IOTRACE_REAL_H

#include "raw.h"

#include "real_stats.h"
#include "real_streams.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* X(return type, name, parameters, raw system call) */
#define FOR_EACH_SYSTEM_CALL(X)                                                                    \
	X(int, open, (const char *path, int flags, mode_t mode),                                   \
	  RAW(SYS_openat, AT_FDCWD, path, flags, mode))                                            \
	X(int, open64, (const char *path, int flags, mode_t mode),                                 \
	  RAW(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode))                              \
	X(int, __open, (const char *path, int flags, mode_t mode),                                 \
	  RAW(SYS_openat, AT_FDCWD, path, flags, mode))                                            \
	X(int, __open64, (const char *path, int flags, mode_t mode),                               \
	  RAW(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode))                              \
	X(int, __open_2, (const char *path, int flags),                                            \
	  RAW(SYS_openat, AT_FDCWD, path, flags, 0))                                               \
	X(int, __open64_2, (const char *path, int flags),                                          \
	  RAW(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, 0))                                 \
	X(int, openat, (int at, const char *path, int flags, mode_t mode),                         \
	  RAW(SYS_openat, at, path, flags, mode))                                                  \
	X(int, openat64, (int at, const char *path, int flags, mode_t mode),                       \
	  RAW(SYS_openat, at, path, flags | O_LARGEFILE, mode))                                    \
	X(int, __openat_2, (int at, const char *path, int flags),                                  \
	  RAW(SYS_openat, at, path, flags, 0))                                                     \
	X(int, __openat64_2, (int at, const char *path, int flags),                                \
	  RAW(SYS_openat, at, path, flags | O_LARGEFILE, 0))                                       \
	X(int, openat2, (int at, const char *path, const struct open_how *how, size_t bytes),      \
	  RAW(SYS_openat2, at, path, how, bytes))                                                  \
	X(int, creat, (const char *path, mode_t mode),                                             \
	  RAW(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode))                     \
	X(int, creat64, (const char *path, mode_t mode),                                           \
	  RAW(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC | O_LARGEFILE, mode))       \
	X(int, chroot, (const char *path), RAW(SYS_chroot, path))                                  \
	X(int, close, (int fd), RAW(SYS_close, fd))                                                \
	X(int, __close, (int fd), RAW(SYS_close, fd))                                              \
	X(int, close_range, (unsigned int first, unsigned int last, int flags),                    \
	  RAW(SYS_close_range, first, last, flags))                                                \
	X(int, dup, (int fd), RAW(SYS_dup, fd))                                                    \
	X(int, dup2, (int fd, int to), raw_dup2(fd, to))                                           \
	X(int, __dup2, (int fd, int to), raw_dup2(fd, to))                                         \
	X(int, dup3, (int fd, int to, int flags), RAW(SYS_dup3, fd, to, flags))                    \
	X(int, fcntl, (int fd, int command, void *value), RAW(SYS_fcntl, fd, command, value))      \
	X(int, fcntl64, (int fd, int command, void *value), RAW(SYS_fcntl, fd, command, value))    \
	X(int, __fcntl, (int fd, int command, void *value), RAW(SYS_fcntl, fd, command, value))    \
	X(ssize_t, read, (int fd, void *buffer, size_t bytes), RAW(SYS_read, fd, buffer, bytes))   \
	X(ssize_t, __read, (int fd, void *buffer, size_t bytes), RAW(SYS_read, fd, buffer, bytes)) \
	X(ssize_t, pread, (int fd, void *buffer, size_t bytes, off_t offset),                      \
	  RAW(SYS_pread64, fd, buffer, bytes, offset))                                             \
	X(ssize_t, pread64, (int fd, void *buffer, size_t bytes, off_t offset),                    \
	  RAW(SYS_pread64, fd, buffer, bytes, offset))                                             \
	X(ssize_t, __pread64, (int fd, void *buffer, size_t bytes, off_t offset),                  \
	  RAW(SYS_pread64, fd, buffer, bytes, offset))                                             \
	X(ssize_t, readv, (int fd, const struct iovec *parts, int count),                          \
	  RAW(SYS_readv, fd, parts, count))                                                        \
	X(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t offset),           \
	  RAW(SYS_preadv, fd, parts, count, offset))                                               \
	X(ssize_t, preadv64, (int fd, const struct iovec *parts, int count, off_t offset),         \
	  RAW(SYS_preadv, fd, parts, count, offset))                                               \
	X(ssize_t, preadv2, (int fd, const struct iovec *parts, int count, off_t offset, int flags), \
	  RAW(SYS_preadv2, fd, parts, count, offset, 0, flags))                                    \
	X(ssize_t, preadv64v2,                                                                     \
	  (int fd, const struct iovec *parts, int count, off_t offset, int flags),                 \
	  RAW(SYS_preadv2, fd, parts, count, offset, 0, flags))                                    \
	X(ssize_t, write, (int fd, const void *buffer, size_t bytes),                              \
	  RAW(SYS_write, fd, buffer, bytes))                                                       \
	X(ssize_t, __write, (int fd, const void *buffer, size_t bytes),                            \
	  RAW(SYS_write, fd, buffer, bytes))                                                       \
	X(ssize_t, pwrite, (int fd, const void *buffer, size_t bytes, off_t offset),               \
	  RAW(SYS_pwrite64, fd, buffer, bytes, offset))                                            \
	X(ssize_t, pwrite64, (int fd, const void *buffer, size_t bytes, off_t offset),             \
	  RAW(SYS_pwrite64, fd, buffer, bytes, offset))                                            \
	X(ssize_t, __pwrite64, (int fd, const void *buffer, size_t bytes, off_t offset),           \
	  RAW(SYS_pwrite64, fd, buffer, bytes, offset))                                            \
	X(ssize_t, writev, (int fd, const struct iovec *parts, int count),                         \
	  RAW(SYS_writev, fd, parts, count))                                                       \
	X(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t offset),          \
	  RAW(SYS_pwritev, fd, parts, count, offset))                                              \
	X(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off_t offset),        \
	  RAW(SYS_pwritev, fd, parts, count, offset))                                              \
	X(ssize_t, pwritev2, (int fd, const struct iovec *parts, int count, off_t offset, int flags), \
	  RAW(SYS_pwritev2, fd, parts, count, offset, 0, flags))                                   \
	X(ssize_t, pwritev64v2,                                                                    \
	  (int fd, const struct iovec *parts, int count, off_t offset, int flags),                 \
	  RAW(SYS_pwritev2, fd, parts, count, offset, 0, flags))                                   \
	X(ssize_t, copy_file_range,                                                                \
	  (int in, off_t *in_offset, int out, off_t *out_offset, size_t bytes, unsigned int flags), \
	  RAW(SYS_copy_file_range, in, in_offset, out, out_offset, bytes, flags))                  \
	X(ssize_t, sendfile, (int out, int in, off_t *offset, size_t bytes),                       \
	  RAW(SYS_sendfile, out, in, offset, bytes))                                               \
	X(ssize_t, sendfile64, (int out, int in, off_t *offset, size_t bytes),                     \
	  RAW(SYS_sendfile, out, in, offset, bytes))                                               \
	X(ssize_t, splice,                                                                         \
	  (int in, off_t *in_offset, int out, off_t *out_offset, size_t bytes, unsigned int flags), \
	  RAW(SYS_splice, in, in_offset, out, out_offset, bytes, flags))                           \
	X(off_t, lseek, (int fd, off_t offset, int whence), RAW(SYS_lseek, fd, offset, whence))    \
	X(off_t, __lseek, (int fd, off_t offset, int whence), RAW(SYS_lseek, fd, offset, whence))  \
	X(off_t, lseek64, (int fd, off_t offset, int whence), RAW(SYS_lseek, fd, offset, whence))  \
	X(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),                     \
	  RAW(SYS_sendmsg, fd, message, flags))                                                    \
	X(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned int count, int flags),        \
	  RAW(SYS_sendmmsg, fd, messages, count, flags))                                           \
	X(int, fsync, (int fd), RAW(SYS_fsync, fd))                                                \
	X(int, fdatasync, (int fd), RAW(SYS_fdatasync, fd))                                        \
	X(int, syncfs, (int fd), RAW(SYS_syncfs, fd))                                              \
	X(ssize_t, readahead, (int fd, off_t offset, size_t bytes),                                \
	  RAW(SYS_readahead, fd, offset, bytes))                                                   \
	X(int, sync_file_range, (int fd, off_t offset, off_t bytes, unsigned int flags),           \
	  RAW(SYS_sync_file_range, fd, offset, bytes, flags))                                      \
	X(int, msync, (void *address, size_t bytes, int flags),                                    \
	  RAW(SYS_msync, address, bytes, flags))                                                   \
	X(int, truncate, (const char *path, off_t bytes), RAW(SYS_truncate, path, bytes))          \
	X(int, truncate64, (const char *path, off_t bytes), RAW(SYS_truncate, path, bytes))        \
	X(int, ftruncate, (int fd, off_t bytes), RAW(SYS_ftruncate, fd, bytes))                    \
	X(int, ftruncate64, (int fd, off_t bytes), RAW(SYS_ftruncate, fd, bytes))                  \
	X(int, fallocate, (int fd, int mode, off_t offset, off_t bytes),                           \
	  RAW(SYS_fallocate, fd, mode, offset, bytes))                                             \
	X(int, fallocate64, (int fd, int mode, off_t offset, off_t bytes),                         \
	  RAW(SYS_fallocate, fd, mode, offset, bytes))                                             \
	X(void *, mmap, (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),       \
	  RAW(SYS_mmap, at, bytes, prot, flags, fd, offset))                                       \
	X(void *, mmap64, (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),     \
	  RAW(SYS_mmap, at, bytes, prot, flags, fd, offset))                                       \
	X(int, munmap, (void *address, size_t bytes), RAW(SYS_munmap, address, bytes))             \
	X(int, madvise, (void *address, size_t bytes, int advice),                                 \
	  RAW(SYS_madvise, address, bytes, advice))                                                \
	X(int, rename, (const char *from, const char *to),                                         \
	  RAW(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0))                                     \
	X(int, renameat, (int from_at, const char *from, int to_at, const char *to),               \
	  RAW(SYS_renameat2, from_at, from, to_at, to, 0))                                         \
	X(int, renameat2,                                                                          \
	  (int from_at, const char *from, int to_at, const char *to, unsigned int flags),          \
	  RAW(SYS_renameat2, from_at, from, to_at, to, flags))                                     \
	X(int, link, (const char *from, const char *to),                                           \
	  RAW(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0))                                        \
	X(int, linkat, (int from_at, const char *from, int to_at, const char *to, int flags),      \
	  RAW(SYS_linkat, from_at, from, to_at, to, flags))                                        \
	X(int, unlink, (const char *path), RAW(SYS_unlinkat, AT_FDCWD, path, 0))                   \
	X(int, unlinkat, (int at, const char *path, int flags),                                    \
	  RAW(SYS_unlinkat, at, path, flags))                                                      \
	X(int, mkdir, (const char *path, mode_t mode), RAW(SYS_mkdirat, AT_FDCWD, path, mode))     \
	X(int, mkdirat, (int at, const char *path, mode_t mode),                                   \
	  RAW(SYS_mkdirat, at, path, mode))                                                        \
	X(int, rmdir, (const char *path), RAW(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR))         \
	X(long, syscall, (long number, long a, long b, long c, long d, long e, long f),            \
	  raw_syscall(number, a, b, c, d, e, f))                                                   \
	X(int, execve, (const char *path, char *const argv[], char *const env[]),                  \
	  RAW(SYS_execve, path, argv, env))                                                        \
	X(int, execveat,                                                                           \
	  (int at, const char *path, char *const argv[], char *const env[], int flags),            \
	  RAW(SYS_execveat, at, path, argv, env, flags))

/* X(return type, name, parameters, arguments); those of streams are in real_streams.h */
#define FOR_EACH_FUNCTION(X)                                                                       \
	X(int, clone,                                                                              \
	  (int (*function)(void *), void *stack, int flags, void *argument, pid_t *parent_tid,     \
	   void *tls, pid_t *child_tid),                                                           \
	  (function, stack, flags, argument, parent_tid, tls, child_tid))                          \
	X(ssize_t, __read_chk, (int fd, void *buffer, size_t bytes, size_t room),                  \
	  (fd, buffer, bytes, room))                                                               \
	X(ssize_t, __pread_chk, (int fd, void *buffer, size_t bytes, off_t offset, size_t room),   \
	  (fd, buffer, bytes, offset, room))                                                       \
	X(ssize_t, __pread64_chk, (int fd, void *buffer, size_t bytes, off_t offset, size_t room), \
	  (fd, buffer, bytes, offset, room))                                                       \
	X(int, posix_madvise, (void *address, size_t bytes, int advice),                           \
	  (address, bytes, advice))                                                                \
	X(int, posix_fadvise, (int fd, off_t offset, off_t bytes, int advice),                     \
	  (fd, offset, bytes, advice))                                                             \
	X(int, posix_fadvise64, (int fd, off_t offset, off_t bytes, int advice),                   \
	  (fd, offset, bytes, advice))                                                             \
	X(int, posix_fallocate, (int fd, off_t offset, off_t bytes), (fd, offset, bytes))          \
	X(int, posix_fallocate64, (int fd, off_t offset, off_t bytes), (fd, offset, bytes))        \
	X(void, sync, (void), ())                                                                  \
	X(void, closefrom, (int first), (first))                                                   \
	X(int, remove, (const char *path), (path))                                                 \
	X(int, mkstemp, (char *pattern), (pattern))                                                \
	X(int, mkstemp64, (char *pattern), (pattern))                                              \
	X(int, mkostemp, (char *pattern, int flags), (pattern, flags))                             \
	X(int, mkostemp64, (char *pattern, int flags), (pattern, flags))                           \
	X(int, mkstemps, (char *pattern, int suffix), (pattern, suffix))                           \
	X(int, mkstemps64, (char *pattern, int suffix), (pattern, suffix))                         \
	X(int, mkostemps, (char *pattern, int suffix, int flags), (pattern, suffix, flags))        \
	X(int, mkostemps64, (char *pattern, int suffix, int flags), (pattern, suffix, flags))      \
	X(char *, mkdtemp, (char *pattern), (pattern))                                             \
	X(FILE *, fopen, (const char *path, const char *mode), (path, mode))                       \
	X(FILE *, fopen64, (const char *path, const char *mode), (path, mode))                     \
	X(FILE *, fdopen, (int fd, const char *mode), (fd, mode))                                  \
	X(FILE *, freopen, (const char *path, const char *mode, FILE *stream),                     \
	  (path, mode, stream))                                                                    \
	X(FILE *, freopen64, (const char *path, const char *mode, FILE *stream),                   \
	  (path, mode, stream))                                                                    \
	X(int, fclose, (FILE * stream), (stream))                                                  \
	X(int, fflush, (FILE * stream), (stream))                                                  \
	X(int, fflush_unlocked, (FILE * stream), (stream))                                         \
	X(int, _IO_fflush, (FILE * stream), (stream))                                              \
	X(int, pclose, (FILE * stream), (stream))                                                  \
	X(int, _IO_fclose, (FILE * stream), (stream))                                              \
	X(int, endmntent, (FILE * stream), (stream))                                               \
	X(FILE *, _IO_fopen, (const char *path, const char *mode), (path, mode))                   \
	X(FILE *, _IO_fdopen, (int fd, const char *mode), (fd, mode))                              \
	X(int, fseek, (FILE * stream, long offset, int whence), (stream, offset, whence))          \
	X(int, fseeko, (FILE * stream, off_t offset, int whence), (stream, offset, whence))        \
	X(int, fseeko64, (FILE * stream, off_t offset, int whence), (stream, offset, whence))      \
	X(void, rewind, (FILE * stream), (stream))                                                 \
	X(int, fsetpos, (FILE * stream, const fpos_t *position), (stream, position))               \
	X(int, fsetpos64, (FILE * stream, const fpos64_t *position), (stream, position))           \
	X(int, aio_read, (struct aiocb * block), (block))                                          \
	X(int, aio_read64, (struct aiocb64 * block), (block))                                      \
	X(int, aio_write, (struct aiocb * block), (block))                                         \
	X(int, aio_write64, (struct aiocb64 * block), (block))                                     \
	X(int, aio_fsync, (int operation, struct aiocb *block), (operation, block))                \
	X(int, aio_fsync64, (int operation, struct aiocb64 *block), (operation, block))            \
	X(int, aio_error, (const struct aiocb *block), (block))                                    \
	X(int, aio_error64, (const struct aiocb64 *block), (block))                                \
	X(ssize_t, aio_return, (struct aiocb * block), (block))                                    \
	X(ssize_t, aio_return64, (struct aiocb64 * block), (block))                                \
	X(int, aio_suspend,                                                                        \
	  (const struct aiocb *const blocks[], int count, const struct timespec *timeout),         \
	  (blocks, count, timeout))                                                                \
	X(int, aio_suspend64,                                                                      \
	  (const struct aiocb64 *const blocks[], int count, const struct timespec *timeout),       \
	  (blocks, count, timeout))                                                                \
	X(int, lio_listio,                                                                         \
	  (int mode, struct aiocb *const blocks[], int count, struct sigevent *event),             \
	  (mode, blocks, count, event))                                                            \
	X(int, lio_listio64,                                                                       \
	  (int mode, struct aiocb64 *const blocks[], int count, struct sigevent *event),           \
	  (mode, blocks, count, event))                                                            \
	X(void, _exit, (int status), (status))                                                     \
	X(void, _Exit, (int status), (status))                                                     \
	X(int, execvpe, (const char *file, char *const argv[], char *const env[]),                 \
	  (file, argv, env))                                                                       \
	X(int, fexecve, (int fd, char *const argv[], char *const env[]), (fd, argv, env))          \
	X(int, posix_spawn,                                                                        \
	  (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,               \
	   const posix_spawnattr_t *attributes, char *const argv[], char *const env[]),            \
	  (pid, path, actions, attributes, argv, env))                                             \
	X(int, posix_spawnp,                                                                       \
	  (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,               \
	   const posix_spawnattr_t *attributes, char *const argv[], char *const env[]),            \
	  (pid, file, actions, attributes, argv, env))                                             \
	X(int, pthread_key_create, (pthread_key_t * key, void (*destroy)(void *)), (key, destroy)) \
	X(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))

struct open_how;
struct aiocb;
struct aiocb64;
struct sigevent;

/* dup2() onto itself only checks the descriptor; dup3() would refuse. */
static inline long raw_dup2(int fd, int to)
{
	if (fd != to)
		return RAW(SYS_dup3, fd, to, 0);
	return RAW(SYS_fcntl, fd, F_GETFD) < 0 ? -EBADF : fd;
}

#define POINTER(type, name, parameters, ...) type(*name) parameters;
struct real_functions {
	FOR_EACH_SYSTEM_CALL(POINTER)
	FOR_EACH_STAT(POINTER)
	FOR_EACH_FUNCTION(POINTER)
	FOR_EACH_STREAM_FUNCTION(POINTER)
};
#undef POINTER

extern struct real_functions real;

/*
 * Does this caller belong to a library that stands between us and libc? What
 * it asks of the system is how it does what one of our wrappers asked of it.
 */
bool real_is_behind(const void *caller);

/* Ask the dynamic linker for all of them; call once, before any thread. */
void real_resolve(void);

#endif
