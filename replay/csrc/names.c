/* SPDX-License-Identifier: MIT */
/*
 * Names below a root directory. A trace comes from a stranger: no absolute
 * path, no `..` and no symbolic link may lead out of the root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

/*
 * Flags that a trace may ask for. openat2 refuses those it does not know. Left
 * out are O_APPEND, because every request names its offset, and O_NONBLOCK,
 * which files ignore but io_uring takes as a wish to fail rather than to wait.
 */
#define OPEN_FLAGS                                                            \
	(O_ACCMODE | O_CREAT | O_DIRECT | O_DIRECTORY | O_DSYNC | O_EXCL |    \
	 O_NOATIME | O_NOCTTY | O_NOFOLLOW | O_PATH | O_SYNC | O_TMPFILE | O_TRUNC)
#define PERMISSIONS 07777

static bool is_climb(const char *name, size_t bytes)
{
	return bytes == 2 && name[0] == '.' && name[1] == '.';
}

/*
 * Open by walking, a component at a time: for kernels before 5.6 and for
 * containers whose seccomp filter does not know openat2.
 */
static int open_walking(int root_fd, const char *path, int flags, mode_t mode)
{
	int fd = root_fd;

	if (*path == '/')
		return -EXDEV;
	for (;;) {
		size_t bytes = strcspn(path, "/");
		const char *rest = path + bytes + strspn(path + bytes, "/");
		bool last = !*rest && !path[bytes];
		char name[NAME_MAX + 1];
		int next = -ENAMETOOLONG, error = 0;

		if (is_climb(path, bytes)) {
			next = -EXDEV;
		} else if (bytes <= NAME_MAX) {
			memcpy(name, path, bytes);
			name[bytes] = '\0';
			next = last ? openat(fd, name, flags | O_NOFOLLOW, mode)
				    : openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			error = errno;
			if (next < 0)
				next = -error;
		}
		if (fd != root_fd)
			close(fd);
		if (next < 0 || last)
			return next;
		if (!*rest)
			rest = "."; /* a trailing slash names the directory itself */
		fd = next;
		path = rest;
	}
}

int loop_open_beneath(int root_fd, const char *path, uint32_t flags, uint32_t mode)
{
	struct open_how how = {
		.flags = (flags & OPEN_FLAGS) | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	int fd = -1;

	if (how.flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		how.mode = mode & PERMISSIONS;
	/* EAGAIN: a rename elsewhere raced with the walk. */
	for (int tries = 0; tries < RETRIES_MAX; tries++) {
		fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	if (fd >= 0)
		return fd;
	if (errno != ENOSYS && errno != EPERM)
		return -errno;
	return open_walking(root_fd, path, how.flags, how.mode);
}

/* A name's directory, opened, and its last component. */
struct place {
	int parent_fd;
	char leaf[NAME_MAX + 1];
};

static int place_find(int root_fd, const char *path, struct place *place)
{
	size_t end = strlen(path), start;
	char parent[PATH_MAX];

	if (*path == '/')
		return -EXDEV;
	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	if (start == end)
		return -ENOENT;
	if (end - start > NAME_MAX || start >= PATH_MAX)
		return -ENAMETOOLONG;
	if (is_climb(path + start, end - start))
		return -EXDEV;
	memcpy(place->leaf, path + start, end - start);
	place->leaf[end - start] = '\0';
	if (!start) {
		place->parent_fd = root_fd;
		return 0;
	}
	memcpy(parent, path, start);
	parent[start] = '\0';
	place->parent_fd = loop_open_beneath(root_fd, parent, O_PATH | O_DIRECTORY, 0);
	return place->parent_fd < 0 ? place->parent_fd : 0;
}

static void place_close(int root_fd, struct place *place)
{
	if (place->parent_fd != root_fd)
		close(place->parent_fd);
}

int name_mkdir(int root_fd, const char *path, uint32_t mode)
{
	struct place place;
	int error = place_find(root_fd, path, &place);

	if (error)
		return error;
	error = mkdirat(place.parent_fd, place.leaf, mode & PERMISSIONS) ? -errno : 0;
	place_close(root_fd, &place);
	return error;
}

int name_remove(int root_fd, const char *path, int flags)
{
	struct place place;
	int error = place_find(root_fd, path, &place);

	if (error)
		return error;
	error = unlinkat(place.parent_fd, place.leaf, flags) ? -errno : 0;
	place_close(root_fd, &place);
	return error;
}

/* renameat and linkat, without link's flags, take the same arguments. */
static int name_pair(int root_fd, const char *from, const char *to,
		     int (*act)(int, const char *, int, const char *))
{
	struct place source, target;
	int error = place_find(root_fd, from, &source);

	if (error)
		return error;
	error = place_find(root_fd, to, &target);
	if (!error) {
		error = act(source.parent_fd, source.leaf, target.parent_fd, target.leaf) ? -errno : 0;
		place_close(root_fd, &target);
	}
	place_close(root_fd, &source);
	return error;
}

/* No AT_SYMLINK_FOLLOW: a link to a symbolic link stays one. */
static int link_at(int from_fd, const char *from, int to_fd, const char *to)
{
	return linkat(from_fd, from, to_fd, to, 0);
}

int name_rename(int root_fd, const char *from, const char *to)
{
	return name_pair(root_fd, from, to, renameat);
}

int name_link(int root_fd, const char *from, const char *to)
{
	return name_pair(root_fd, from, to, link_at);
}
