/* SPDX-License-Identifier: MIT */
/*
 * Calls that look a file up and move nothing, a line each: round trips on a
 * network file system. On the 64-bit systems there are, the kernel's struct
 * stat is libc's.
 */
#ifndef IOTRACE_REAL_STATS_H
#define IOTRACE_REAL_STATS_H

#include "raw.h"

struct stat;
struct statx;

#define RAW_STAT(at, path, status, flags) RAW(SYS_newfstatat, at, path, status, flags)

/* X(return type, name, parameters, raw system call, arguments, folder, flags) */
#define FOR_EACH_PATH_STAT(X)                                                                      \
	X(int, stat, (const char *path, struct stat *status),                                      \
	  RAW_STAT(AT_FDCWD, path, status, 0), (path, status), AT_FDCWD, 0)                        \
	X(int, stat64, (const char *path, struct stat *status),                                    \
	  RAW_STAT(AT_FDCWD, path, status, 0), (path, status), AT_FDCWD, 0)                        \
	X(int, lstat, (const char *path, struct stat *status),                                     \
	  RAW_STAT(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW), (path, status), AT_FDCWD, 0)      \
	X(int, lstat64, (const char *path, struct stat *status),                                   \
	  RAW_STAT(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW), (path, status), AT_FDCWD, 0)      \
	X(int, fstatat, (int at, const char *path, struct stat *status, int flags),                \
	  RAW_STAT(at, path, status, flags), (at, path, status, flags), at, flags)                 \
	X(int, fstatat64, (int at, const char *path, struct stat *status, int flags),              \
	  RAW_STAT(at, path, status, flags), (at, path, status, flags), at, flags)                 \
	/* what they were called before glibc 2.33 */                                              \
	X(int, __xstat, (int version, const char *path, struct stat *status),                      \
	  RAW_STAT(AT_FDCWD, path, status, version * 0), (version, path, status), AT_FDCWD, 0)     \
	X(int, __xstat64, (int version, const char *path, struct stat *status),                    \
	  RAW_STAT(AT_FDCWD, path, status, version * 0), (version, path, status), AT_FDCWD, 0)     \
	X(int, __lxstat, (int version, const char *path, struct stat *status),                     \
	  RAW_STAT(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW + version * 0),                     \
	  (version, path, status), AT_FDCWD, 0)                                                    \
	X(int, __lxstat64, (int version, const char *path, struct stat *status),                   \
	  RAW_STAT(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW + version * 0),                     \
	  (version, path, status), AT_FDCWD, 0)                                                    \
	X(int, __fxstatat,                                                                         \
	  (int version, int at, const char *path, struct stat *status, int flags),                 \
	  RAW_STAT(at, path, status, flags + version * 0), (version, at, path, status, flags), at, \
	  flags)                                                                                   \
	X(int, __fxstatat64,                                                                       \
	  (int version, int at, const char *path, struct stat *status, int flags),                 \
	  RAW_STAT(at, path, status, flags + version * 0), (version, at, path, status, flags), at, \
	  flags)

#define FOR_EACH_DESCRIPTOR_STAT(X)                                                                \
	X(int, fstat, (int fd, struct stat *status), RAW_STAT(fd, "", status, AT_EMPTY_PATH),      \
	  (fd, status))                                                                            \
	X(int, fstat64, (int fd, struct stat *status), RAW_STAT(fd, "", status, AT_EMPTY_PATH),    \
	  (fd, status))                                                                            \
	X(int, __fxstat, (int version, int fd, struct stat *status),                               \
	  RAW_STAT(fd, "", status, AT_EMPTY_PATH + version * 0), (version, fd, status))            \
	X(int, __fxstat64, (int version, int fd, struct stat *status),                             \
	  RAW_STAT(fd, "", status, AT_EMPTY_PATH + version * 0), (version, fd, status))

/* X(return type, name, parameters, raw system call) */
#define FOR_EACH_PATH_GETXATTR(X)                                                                  \
	X(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t bytes),      \
	  RAW(SYS_getxattr, path, name, value, bytes))                                             \
	X(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t bytes),     \
	  RAW(SYS_lgetxattr, path, name, value, bytes))

#define FOR_EACH_STAT(X)                                                                           \
	FOR_EACH_PATH_STAT(X)                                                                      \
	FOR_EACH_DESCRIPTOR_STAT(X)                                                                \
	FOR_EACH_PATH_GETXATTR(X)                                                                  \
	X(int, statx,                                                                              \
	  (int at, const char *path, int flags, unsigned int mask, struct statx *status),          \
	  RAW(SYS_statx, at, path, flags, mask, status))                                           \
	X(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t bytes),               \
	  RAW(SYS_fgetxattr, fd, name, value, bytes))

#endif
