/* SPDX-License-Identifier: MIT */
#include "path.h"

#include <string.h>

#include "inode.h"
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

/* A name may really end like that. */
static bool names(struct path *path, int fd)
{
	struct inode open, named;

	if (path->bytes == sizeof(path->buffer))
		return false;
	path->buffer[path->bytes] = '\0';
	return inode_of_descriptor(fd, &open) == 0 &&
	       inode_of(AT_FDCWD, path->buffer, AT_SYMLINK_NOFOLLOW, &named) == 0 &&
	       open.device == named.device && open.number == named.number;
}

void path_of_descriptor(struct path *path, int fd)
{
	size_t suffix = sizeof(deleted) - 1;

	path->text = path->buffer;
	path->bytes = read_link_of_descriptor(fd, path->buffer, sizeof(path->buffer));
	path->is_deleted = path->bytes > suffix &&
			   memcmp(path->buffer + path->bytes - suffix, deleted, suffix) == 0 &&
			   !names(path, fd);
	if (path->is_deleted)
		path->bytes -= suffix;
}

/* A folder that was removed leads up all the same: `../x` in it is a name. */
static size_t folder_of(int at, char *buffer, size_t room)
{
	size_t suffix = sizeof(deleted) - 1, used;
	long bytes;

	if (at != AT_FDCWD) {
		used = read_link_of_descriptor(at, buffer, room);
	} else {
		bytes = RAW(SYS_getcwd, buffer, room);
		if (bytes > 1 && buffer[0] == '/')
			return (size_t)bytes - 1; /* the kernel counts the NUL */
		bytes = RAW(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", buffer, room);
		used = bytes > 0 ? (size_t)bytes : 0;
	}
	if (used > suffix && memcmp(buffer + used - suffix, deleted, suffix) == 0)
		used -= suffix;
	return used && buffer[0] == '/' ? used : 0; /* "(unreachable)": outside of what it may see */
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
	path->bytes = 0;
	if (!folder)
		return;
	if (length && path->buffer[folder - 1] != '/' && folder < sizeof(path->buffer))
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
