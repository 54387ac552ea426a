/* SPDX-License-Identifier: MIT */
#include "logfile.h"

#include <string.h>
#include <sys/resource.h>

#include "header.h"
#include "keeper.h"
#include "log.h"

static const char *name_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* Give the file these bytes for good, so that a store can never meet a full disk. */
static int allocate(int fd, const char *path, off_t offset, size_t bytes)
{
	static const char zeros[4096];
	struct rlimit limit;
	long result;

	if (RAW(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && (uint64_t)offset + bytes > limit.rlim_cur)
		/* Going on would raise SIGXFSZ in the job. */
		return keeper_grow(name_of(path), offset, (int64_t)bytes) ? -EFBIG : 0;
	do
		result = RAW(SYS_fallocate, fd, 0, offset, bytes);
	while (result == -EINTR);
	if (result != -EOPNOTSUPP && result != -ENOSYS)
		return (int)result;
	for (size_t done = 0; done < bytes; done += sizeof(zeros)) {
		result = RAW(SYS_pwrite64, fd, zeros, sizeof(zeros), offset + (off_t)done);
		if (result != (long)sizeof(zeros))
			return result < 0 ? (int)result : -ENOSPC;
		LOG_COUNT(own_bytes_written, sizeof(zeros));
	}
	return 0;
}

static char *append_number(char *at, uint64_t number, unsigned int base, int digits)
{
	char text[20];
	int used = 0;

	while (number || used < digits) {
		text[used++] = "0123456789abcdef"[number % base];
		number /= base;
	}
	while (used)
		*at++ = text[--used];
	return at;
}

void logfile_name(char *path, const char *folder, uint32_t pid)
{
	uint32_t random;
	char *at = stpcpy(path, folder);

	if (RAW(SYS_getrandom, &random, sizeof(random), 1 /* GRND_NONBLOCK */) != sizeof(random))
		random = (uint32_t)now_ns();
	*at++ = '/';
	at = append_number(at, pid, 10, 1);
	*at++ = '-';
	at = append_number(at, header_start_ticks(), 10, 1);
	*at++ = '-';
	at = append_number(at, random, 16, 8);
	strcpy(at, ".raw");
}

static int open_log(const char *path, int flags, enum keeper_request otherwise)
{
	int fd = raw_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

	return keeper_may_help(fd) ? keeper_log(otherwise, name_of(path)) : fd;
}

int logfile_create(const char *path, struct log_header **header)
{
	int fd = open_log(path, O_CREAT | O_EXCL, KEEPER_NEW_LOG);
	int error;

	if (fd < 0)
		return fd;
	error = allocate(fd, path, 0, LOG_HEADER_BYTES);
	if (!error) {
		*header = raw_map(LOG_HEADER_BYTES, MAP_SHARED, fd, 0);
		if (!*header)
			error = -ENOMEM;
	}
	raw_close(fd);
	if (error)
		RAW(SYS_unlinkat, AT_FDCWD, path, 0);
	return error;
}

int logfile_grow(const char *path, off_t offset, size_t bytes)
{
	int fd = open_log(path, 0, KEEPER_LOG);
	int error;

	if (fd < 0)
		return fd;
	error = allocate(fd, path, offset, bytes);
	if (!error)
		return fd;
	raw_close(fd);
	return error;
}
