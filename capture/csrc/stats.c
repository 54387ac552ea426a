/* SPDX-License-Identifier: MIT */
/* Look-ups: headers of older libcs define some as inline functions, so C knows them by other names. */
#include "path.h"
#include "real.h"
#include "request.h"
#include "scope.h"

#include <sys/stat.h>

static uint64_t look_up_begin(void)
{
	return capture_is_on && !request_is_paused() ? now_ns() : 0;
}

static struct record look_up_record(enum record_op op)
{
	return (struct record){.offset = -1, .length = -1, .api = API_POSIX, .op = (uint16_t)op};
}

static __attribute__((noinline)) void append(struct record record, int at, const char *name)
{
	struct path path;

	path_resolve(&path, at, name);
	if (path.bytes && scope_wants(path.text, path.bytes, false) && !path_is_kernel_file(&path) &&
	    !log_is_borrowed())
		log_append(&record, path.text, path.bytes);
}

/* The kernel of late takes no path for an empty one. */
static bool is_descriptor(int at, const char *path, int flags)
{
	return at >= 0 && flags & AT_EMPTY_PATH && (!path || !*path);
}

/*
 * Of storage only: programs look at folders and at what is not there all the
 * time. After the call, so that the path is one that the kernel could read.
 */
static void look_up_end(struct record record, uint64_t start_ns, int at, const char *path,
			int flags, mode_t mode)
{
	if (!start_ns || !(S_ISREG(mode) || S_ISBLK(mode)))
		return;
	if (is_descriptor(at, path, flags)) {
		request_done((struct request){descriptor_file(at), start_ns, at, 0}, record, 0);
		return;
	}
	record.start_ns = start_ns;
	record.end_ns = now_ns();
	append(record, at, path);
}

#define PATH_STAT(type, name, parameters, early, arguments, at, flags)        \
	EXPORT type look_up_##name parameters __asm__(#name);                 \
	EXPORT type look_up_##name parameters                                 \
	{                                                                     \
		uint64_t start_ns = look_up_begin();                          \
		type result = real.name arguments;                            \
                                                                              \
		if (result == 0)                                              \
			look_up_end(look_up_record(OP_STAT), start_ns, at, path, flags, \
				    status->st_mode);                         \
		return result;                                                \
	}

FOR_EACH_PATH_STAT(PATH_STAT)

#define DESCRIPTOR_STAT(type, name, parameters, early, arguments)             \
	EXPORT type look_up_##name parameters __asm__(#name);                 \
	EXPORT type look_up_##name parameters                                 \
	{                                                                     \
		struct request request = request_begin(fd);                   \
                                                                              \
		return request_done(request, look_up_record(OP_STAT), real.name arguments); \
	}

FOR_EACH_DESCRIPTOR_STAT(DESCRIPTOR_STAT)

EXPORT int look_up_statx(int at, const char *path, int flags, unsigned int mask,
			 struct statx *status) __asm__("statx");
EXPORT int look_up_statx(int at, const char *path, int flags, unsigned int mask,
			 struct statx *status)
{
	uint64_t start_ns = look_up_begin();
	int result = real.statx(at, path, flags, mask, status);

	if (result == 0 && status->stx_mask & STATX_TYPE)
		look_up_end(look_up_record(OP_STAT), start_ns, at, path, flags, status->stx_mode);
	return result;
}

/* Where there is no attribute there was a round trip all the same. */
#define PATH_GETXATTR(type, name, parameters, early)                          \
	EXPORT type look_up_##name parameters __asm__(#name);                 \
	EXPORT type look_up_##name(const char *path, const char *key, void *value, size_t bytes) \
	{                                                                     \
		uint64_t start_ns = look_up_begin();                          \
		type result = real.name(path, key, value, bytes);             \
		struct record record = look_up_record(OP_GETXATTR);           \
                                                                              \
		record.result = result < 0 ? -errno : result;                 \
		if (result >= 0 || errno == ENODATA)                          \
			look_up_end(record, start_ns, AT_FDCWD, path, 0, S_IFREG); \
		return result;                                                \
	}

FOR_EACH_PATH_GETXATTR(PATH_GETXATTR)

EXPORT ssize_t look_up_fgetxattr(int fd, const char *key, void *value,
				 size_t bytes) __asm__("fgetxattr");
EXPORT ssize_t look_up_fgetxattr(int fd, const char *key, void *value, size_t bytes)
{
	struct request request = request_begin(fd);

	return request_done(request, look_up_record(OP_GETXATTR),
			    (int)real.fgetxattr(fd, key, value, bytes));
}
