/* SPDX-License-Identifier: MIT */
#include "path.h"

#include <string.h>

#include "inode.h"
#include "keeper.h"
#include "log.h"
#include "magic_links.h"

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

/* A name may really end like that: then it is that of the open file. */
static bool names(char *name, size_t bytes, const struct inode *open)
{
	struct inode named;

	if (bytes == PATH_MAX)
		return false;
	name[bytes] = '\0';
	return inode_of(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW, &named) == 0 &&
	       open->device == named.device && open->number == named.number;
}

static bool says_deleted(const char *text, size_t bytes)
{
	size_t suffix = sizeof(deleted) - 1;

	return bytes > suffix && memcmp(text + bytes - suffix, deleted, suffix) == 0;
}

void path_of_descriptor(struct path *path, int fd)
{
	struct inode open;

	path->text = path->buffer;
	path->bytes = read_link_of_descriptor(fd, path->buffer, sizeof(path->buffer));
	path->is_deleted = says_deleted(path->buffer, path->bytes) &&
			   !(inode_of_descriptor(fd, &open) == 0 &&
			     names(path->buffer, path->bytes, &open));
	if (path->is_deleted)
		path->bytes -= sizeof(deleted) - 1;
}

/* A folder that was removed leads up all the same: `../x` in it is a name. */
static size_t folder_of(int at, char *buffer, size_t room)
{
	size_t used;
	long bytes;

	if (at != AT_FDCWD) {
		used = read_link_of_descriptor(at, buffer, room);
	} else {
		bytes = RAW(SYS_getcwd, buffer, room);
		if (bytes > 1 && buffer[0] == '/')
			return put_root(buffer, (size_t)bytes - 1, room); /* the kernel counts the NUL */
		used = path_read_link("/proc/self/cwd", buffer, room);
	}
	if (says_deleted(buffer, used))
		used -= sizeof(deleted) - 1;
	return used && buffer[0] == '/' ? used : 0; /* "(unreachable)": outside of what it may see */
}

/* Put what a magic link leads to in its place; of a pipe, say, that is no path. */
static __attribute__((noinline)) void follow(struct path *path)
{
	char link[MAGIC_LINK_BYTES], target[PATH_MAX];
	size_t bytes = path->bytes, used, linked;
	const char *text = path_below_root(path->text, &bytes);
	struct inode open;

	linked = magic_link(text, bytes, link);
	used = linked ? path_read_link(link, target, sizeof(target)) : 0;
	if (!used || target[0] != '/')
		return;
	if (says_deleted(target, used) &&
	    !(inode_of(AT_FDCWD, link, 0, &open) == 0 && names(target, used, &open)))
		used -= sizeof(deleted) - 1;
	text += linked;
	bytes -= linked;
	if (bytes && used == 1)
		used = 0; /* the root folder itself */
	if (bytes > sizeof(target) - used) {
		bytes = sizeof(target) - used;
		LOG_COUNT(cut_texts, 1);
	}
	memcpy(target + used, text, bytes);
	memcpy(path->buffer, target, used + bytes);
	path->text = path->buffer;
	path->bytes = used + bytes;
}

/* Absolute; the text is the argument itself if that was. */
static void join(struct path *path, int at, const char *argument)
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

void path_resolve(struct path *path, int at, const char *argument)
{
	join(path, at, argument);
	if (unlikely(starts_with(path, "/proc/") || starts_with(path, "/dev/")))
		follow(path);
}

bool path_is_kernel_file(const struct path *path)
{
	return starts_with(path, "/proc/") || starts_with(path, "/sys/") ||
	       starts_with(path, "/memfd:");
}
