/* SPDX-License-Identifier: MIT */
#include "close.h"

#include <stdarg.h>

#include "real.h"
#include "renames.h"
#include "uring_ring.h"

struct closing closing_begin(int fd)
{
	struct open_file *file;
	struct closing closing;

	rings_look(); /* one of them may have opened it */
	file = descriptor_known(fd);
	closing.number = request_known_number(file);
	renames_find(file, fd);
	closing.left = descriptor_put(fd, NULL).left;
	closing.start_ns = now_ns();
	return closing;
}

void closing_end(struct closing closing, enum record_api api, int error)
{
	struct record record = {.start_ns = closing.start_ns,
				.end_ns = now_ns(),
				.offset = -1,
				.length = closing.left,
				.result = error,
				.file = closing.number,
				.api = (uint8_t)api,
				.op = OP_CLOSE};

	if (closing.number)
		log_append(&record, NULL, 0);
}

static int close_with(int fd, int (*close_it)(int))
{
	struct closing closing;
	int result;

	if (!capture_is_on || log_is_borrowed())
		return close_it(fd);
	closing = closing_begin(fd);
	result = close_it(fd);
	closing_end(closing, API_POSIX, result < 0 ? -errno : 0);
	return result;
}

EXPORT int close(int fd)
{
	return close_with(fd, real.close);
}

EXPORT int __close(int fd)
{
	return close_with(fd, real.__close);
}

/* Each known descriptor of the range is closed and recorded by itself, the rest at once. */
static void close_known(unsigned int first, unsigned int last)
{
	int fd;

	rings_look();
	while ((fd = descriptor_next(first, last)) >= 0) {
		close_with(fd, real.close);
		first = (unsigned int)fd + 1;
	}
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	/* With flags nothing is closed, or only in a table of descriptors of its own. */
	if (capture_is_on && !flags && first <= last && !log_is_borrowed())
		close_known(first, last);
	return real.close_range(first, last, flags);
}

EXPORT void closefrom(int first)
{
	if (capture_is_on && !log_is_borrowed())
		close_known(first < 0 ? 0 : (unsigned int)first, UINT32_MAX);
	real.closefrom(first);
}

/* --- duplicates -------------------------------------------------------- */

/* In a vfork child: the table stays its parent's, but the two now share this open file. */
static int duplicated_in_child(int fd, int to)
{
	struct open_file *file = descriptor_known(fd);

	if (to >= 0 && file && file->kind == FILE_RECORDED)
		file->queried = 1;
	return to;
}

static int duplicated(int fd, int to)
{
	if (to >= 0 && to != fd) {
		rings_look();
		descriptor_copy(fd, to);
	}
	return to;
}

EXPORT int dup(int fd)
{
	if (!capture_is_on)
		return real.dup(fd);
	if (log_is_borrowed())
		return duplicated_in_child(fd, real.dup(fd));
	return duplicated(fd, real.dup(fd));
}

/* What a ring has opened as `to` can be looked at for the last time. */
static uint64_t duplicate_onto_begin(void)
{
	if (!log_is_borrowed())
		rings_look();
	return now_ns();
}

/* What `to` referred to is closed in the same step, so its number is never free. */
static int duplicated_onto(int fd, int to, uint64_t start_ns, int result)
{
	struct open_file *old = descriptor_known(to);
	struct closing closing = {.start_ns = start_ns};

	if (result < 0 || result == fd)
		return result;
	if (log_is_borrowed())
		return duplicated_in_child(fd, result);
	closing.number = request_known_number(old);
	closing.left = descriptor_copy(fd, to).left;
	closing_end(closing, API_POSIX, 0);
	return result;
}

#define DUPLICATE(name, parameters, arguments)                                \
	EXPORT int name parameters                                            \
	{                                                                     \
		uint64_t start_ns;                                            \
                                                                              \
		if (!capture_is_on)                                           \
			return real.name arguments;                           \
		start_ns = duplicate_onto_begin();                            \
		return duplicated_onto(fd, to, start_ns, real.name arguments); \
	}

DUPLICATE(dup2, (int fd, int to), (fd, to))
DUPLICATE(__dup2, (int fd, int to), (fd, to))
DUPLICATE(dup3, (int fd, int to, int flags), (fd, to, flags))

static int controlled(int fd, int command, void *value, int result)
{
	struct open_file *file;

	if (result < 0 || !capture_is_on)
		return result;
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return log_is_borrowed() ? duplicated_in_child(fd, result)
					 : duplicated(fd, result);
	if (command != F_SETFL)
		return result;
	if (!log_is_borrowed())
		rings_look();
	file = descriptor_known(fd);
	if (file && file->kind == FILE_RECORDED) { /* of the open file, whoever sets it */
		if ((long)value & O_APPEND)
			atomic_fetch_or(&file->flags, O_APPEND);
		else
			atomic_fetch_and(&file->flags, ~(uint32_t)O_APPEND);
	}
	return result;
}

#define CONTROL(name)                                                         \
	EXPORT int name(int fd, int command, ...)                             \
	{                                                                     \
		va_list arguments;                                            \
		void *value;                                                  \
                                                                              \
		va_start(arguments, command);                                 \
		value = va_arg(arguments, void *);                            \
		va_end(arguments);                                            \
		return controlled(fd, command, value, real.name(fd, command, value)); \
	}

CONTROL(fcntl)
CONTROL(fcntl64)
CONTROL(__fcntl)
