/* SPDX-License-Identifier: MIT */
#include "path.h"

#include <string.h>

#include "inode.h"
#include "keeper.h"
#include "log.h"

static const char deleted[] = " (deleted)";

static struct {
	char text[PATH_MAX];
	size_t bytes; /* 0: the root folder is the launcher's */
} root;

void path_find_root(void)
{
	long bytes = keeper_text(KEEPER_PROC_LINK, "/proc/self/root", root.text, sizeof(root.text));

	root.bytes = bytes > 1 && root.text[0] == '/' ? (size_t)bytes : 0;
}

const char *path_below_root(const char *text, size_t *bytes)
{
	if (likely(!root.bytes) || *bytes <= root.bytes || text[root.bytes] != '/' ||
	    memcmp(text, root.text, root.bytes) != 0)
		return text;
	*bytes -= root.bytes;
	return text + root.bytes;
}

/* Put the root folder before an absolute path; returns the bytes of both. */
static size_t put_root(char *buffer, size_t bytes, size_t room)
{
	if (likely(!root.bytes) || !bytes || buffer[0] != '/')
		return bytes;
	if (bytes == 1)
		bytes = 0; /* the root folder itself */
	if (bytes > room - root.bytes)
		bytes = room - root.bytes;
	memmove(buffer + root.bytes, buffer, bytes);
	memcpy(buffer, root.text, root.bytes);
	return root.bytes + bytes;
}

/* The launcher sees what the process cannot, and sees it from outside. */
size_t path_read_link(const char *name, char *buffer, size_t room)
{
	long bytes = RAW(SYS_readlinkat, AT_FDCWD, name, buffer, room);

	if (bytes > 0)
		return put_root(buffer, (size_t)bytes, room);
	if (keeper_may_help(bytes))
		bytes = keeper_text(KEEPER_PROC_LINK, name, buffer, room);
	return bytes > 0 ? (size_t)bytes : 0;
}

static size_t read_link_of_descriptor(int fd, char *buffer, size_t room)
{
	char name[32] = "/proc/self/fd/", digits[12];
	size_t used = strlen(name);
	unsigned int rest = (unsigned int)fd;
	int count = 0;

	do
		digits[count++] = (char)('0' + rest % 10);
	while (rest /= 10);
	while (count)
		name[used++] = digits[--count];
	return path_read_link(name, buffer, room);
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
			return put_root(buffer, (size_t)bytes - 1, room); /* the kernel counts the NUL */
		used = path_read_link("/proc/self/cwd", buffer, room);
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
	if (argument[0] == '/' && likely(!root.bytes))
		return;
	path->text = path->buffer;
	if (argument[0] == '/') {
		memcpy(path->buffer, root.text, root.bytes);
		folder = root.bytes;
		argument++;
		length--;
	} else {
		folder = folder_of(at, path->buffer, sizeof(path->buffer));
	}
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
	size_t prefix_bytes = strlen(prefix), bytes = path->bytes;
	const char *text = path_below_root(path->text, &bytes);

	return bytes >= prefix_bytes && memcmp(text, prefix, prefix_bytes) == 0;
}

bool path_is_kernel_file(const struct path *path)
{
	return starts_with(path, "/proc/") || starts_with(path, "/sys/") ||
	       starts_with(path, "/memfd:");
}
