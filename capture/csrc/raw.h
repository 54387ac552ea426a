/* SPDX-License-Identifier: MIT */
/*
 * System calls without libc: they cannot be interposed, never touch errno
 * and work before and after libc does. Each returns the result or -errno.
 */
#ifndef IOTRACE_RAW_H
#define IOTRACE_RAW_H

/* The fortified inline bodies would clash with the functions defined here. */
#undef _FORTIFY_SOURCE
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

_Static_assert(sizeof(off_t) == 8, "only 64-bit systems: off_t and off64_t are one type");

static inline long raw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "add the system call instruction of this architecture"
#endif
}

#define RAW(...) RAW_PADDED(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_PADDED(number, a, b, c, d, e, f, ...)                             \
	raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Turn a raw result into what libc would have returned. */
static inline long libc_result(long result)
{
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

static inline int raw_open(const char *path, int flags, int mode)
{
	return (int)RAW(SYS_openat, AT_FDCWD, path, flags, mode);
}

static inline void raw_close(int fd)
{
	RAW(SYS_close, fd);
}

static inline off_t raw_position(int fd)
{
	return RAW(SYS_lseek, fd, 0, SEEK_CUR);
}

static inline void *raw_map(size_t bytes, int flags, int fd, off_t offset)
{
	long address = RAW(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);

	return address < 0 && address >= -4095 ? NULL : (void *)address;
}

/* Zeroed memory that is never given back. */
static inline void *raw_memory(size_t bytes)
{
	return raw_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now); /* vDSO: no system call, no errno */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
