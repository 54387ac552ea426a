/* SPDX-License-Identifier: MIT */
#include "path.h"

#include <string.h>

#include "log.h"

static const char deleted[] = " (deleted)";

static size_t read_link_of_descriptor(int fd, char *buffer, size_t room)
{
	char name[32] = "/proc/self/fd/", digits[12];
	size_t used = strlen(name);
	unsigned int rest = (unsigned int)fd;
	int count = 0;
	long bytes;

	do
		digits[count++] = (char)('0' + rest % 10);
	while (rest /= 10);
	while (count)
		name[used++] = digits[--count];
	bytes = RAW(SYS_readlinkat, AT_FDCWD, name, buffer, room);
	return bytes > 0 ? (size_t)bytes : 0;
}

void path_of_descriptor(struct path *path, int fd)
{
	size_t suffix = sizeof(deleted) - 1;

	path->text = path->buffer;
	path->bytes = read_link_of_descriptor(fd, path->buffer, sizeof(path->buffer));
	path->is_deleted = path->bytes > suffix &&
			   memcmp(path->buffer + path->bytes - suffix, deleted, suffix) == 0;
	if (path->is_deleted)
		path->bytes -= suffix;
}

static size_t folder_of(int at, char *buffer, size_t room)
{
	long bytes;

	if (at != AT_FDCWD)
		return read_link_of_descriptor(at, buffer, room);
	bytes = RAW(SYS_getcwd, buffer, room);
	return bytes > 1 ? (size_t)bytes - 1 : 0; /* the kernel counts the NUL */
}

void path_resolve(struct path *path, int at, const char *argument)
{
	size_t length = strlen(argument), folder;

	path->text = argument;
	path->bytes = length;
	if (argument[0] == '/')
		return;
	path->text = path->buffer;
	folder = folder_of(at, path->buffer, sizeof(path->buffer));
	if (length && folder && path->buffer[folder - 1] != '/' && folder < sizeof(path->buffer))
		path->buffer[folder++] = '/';
	if (length > sizeof(path->buffer) - folder) {
		length = sizeof(path->buffer) - folder;
		LOG_COUNT(cut_texts, 1);
	}
	memcpy(path->buffer + folder, argument, length);
	path->bytes = folder + length;
}

static bool starts_with(const struct path *path, const char *prefix)
{
	size_t bytes = strlen(prefix);

	return path->bytes >= bytes && memcmp(path->text, prefix, bytes) == 0;
}

bool path_is_kernel_file(const struct path *path)
{
	return starts_with(path, "/proc/") || starts_with(path, "/sys/") ||
	       starts_with(path, "/memfd:");
}
