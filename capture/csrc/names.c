/* SPDX-License-Identifier: MIT */
#include "names.h"

#include <string.h>
#include <sys/stat.h>

#include "path.h"
#include "real.h"
#include "renames.h"
#include "scope.h"
#include "uring_ring.h"

struct naming naming_begin(enum record_op op)
{
	struct naming naming = {
		.record = {.offset = -1, .length = -1, .api = API_POSIX, .op = (uint16_t)op},
		.records = capture_is_on && !request_is_paused() && !log_is_borrowed(),
	};

	if (naming.records) {
		rings_look();
		naming.record.start_ns = now_ns();
	}
	return naming;
}

void naming_look_up(struct naming *naming, int at, const char *path, int flags)
{
	struct inode inode;

	if (!naming->records)
		return;
	inode_of(at, path, flags, &inode);
	naming->record.offset = (int64_t)inode.device;
	naming->record.length = (int64_t)inode.number;
	naming->record.address = inode.links;
	naming->record.start_ns = now_ns();
}

/* A failure is recorded too, but not with a path that could not be read. */
static bool finish(struct naming *naming, int result)
{
	naming->record.end_ns = now_ns();
	naming->record.result = result < 0 ? -errno : 0;
	return naming->records && naming->record.result != -EFAULT;
}

__attribute__((noinline)) const struct record *naming_append(const struct record *record, int at,
							     const char *name)
{
	struct path path;

	path_resolve(&path, at, name);
	if (!path.bytes)
		LOG_COUNT(cut_texts, 1);
	if (!path.bytes || !scope_wants(path.text, path.bytes, true))
		return NULL;
	return log_append(record, path.text, path.bytes);
}

int naming_end(struct naming naming, int at, const char *path, int result)
{
	if (finish(&naming, result))
		naming_append(&naming.record, at, path);
	return result;
}

__attribute__((noinline)) const struct record *
naming_append_two(const struct record *record, int from_at, const char *from_name, int to_at,
		  const char *to_name)
{
	struct path path;
	char both[2 * PATH_MAX + 1];
	size_t used;
	bool wanted, nameless;

	path_resolve(&path, from_at, from_name);
	nameless = !path.bytes;
	wanted = scope_wants(path.text, path.bytes, true);
	used = path.bytes < PATH_MAX ? path.bytes : PATH_MAX;
	memcpy(both, path.text, used);
	both[used++] = '\0';
	path_resolve(&path, to_at, to_name);
	if (nameless || !path.bytes) {
		LOG_COUNT(cut_texts, 1);
		return NULL;
	}
	wanted |= scope_wants(path.text, path.bytes, true);
	if (path.bytes > PATH_MAX)
		path.bytes = PATH_MAX;
	memcpy(both + used, path.text, path.bytes);
	return wanted ? log_append(record, both, used + path.bytes) : NULL;
}

int naming_end_two(struct naming naming, int from_at, const char *from, int to_at,
		   const char *to, int result)
{
	const struct record *appended;

	if (!finish(&naming, result))
		return result;
	appended = naming_append_two(&naming.record, from_at, from, to_at, to);
	if (naming.record.op == OP_RENAME && result == 0)
		renames_seen(appended, naming.record.offset, naming.record.length);
	return result;
}

#define NAME_ONE(name, op, at, looks_up, parameters, arguments)               \
	EXPORT int name parameters                                            \
	{                                                                     \
		struct naming naming = naming_begin(op);                      \
                                                                              \
		if (looks_up)                                                 \
			naming_look_up(&naming, at, path, AT_SYMLINK_NOFOLLOW); \
		return naming_end(naming, at, path, real.name arguments);     \
	}

#define NAME_TWO(name, op, from_at, to_at, lookup_flags, parameters, arguments) \
	EXPORT int name parameters                                            \
	{                                                                     \
		struct naming naming = naming_begin(op);                      \
                                                                              \
		naming_look_up(&naming, from_at, from, lookup_flags);         \
		return naming_end_two(naming, from_at, from, to_at, to,       \
				      real.name arguments);                   \
	}

NAME_ONE(mkdir, OP_MKDIR, AT_FDCWD, false, (const char *path, mode_t mode), (path, mode))
NAME_ONE(mkdirat, OP_MKDIR, at, false, (int at, const char *path, mode_t mode), (at, path, mode))
NAME_ONE(rmdir, OP_RMDIR, AT_FDCWD, false, (const char *path), (path))
NAME_ONE(unlink, OP_UNLINK, AT_FDCWD, true, (const char *path), (path))
NAME_ONE(unlinkat, flags & AT_REMOVEDIR ? OP_RMDIR : OP_UNLINK, at, !(flags & AT_REMOVEDIR),
	 (int at, const char *path, int flags), (at, path, flags))

NAME_TWO(rename, OP_RENAME, AT_FDCWD, AT_FDCWD, AT_SYMLINK_NOFOLLOW,
	 (const char *from, const char *to), (from, to))
NAME_TWO(renameat, OP_RENAME, from_at, to_at, AT_SYMLINK_NOFOLLOW,
	 (int from_at, const char *from, int to_at, const char *to), (from_at, from, to_at, to))
NAME_TWO(renameat2, OP_RENAME, from_at, to_at, AT_SYMLINK_NOFOLLOW,
	 (int from_at, const char *from, int to_at, const char *to, unsigned int flags),
	 (from_at, from, to_at, to, flags))
NAME_TWO(link, OP_LINK, AT_FDCWD, AT_FDCWD, AT_SYMLINK_NOFOLLOW,
	 (const char *from, const char *to), (from, to))
NAME_TWO(linkat, OP_LINK, from_at, to_at,
	 (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) | (flags & AT_EMPTY_PATH),
	 (int from_at, const char *from, int to_at, const char *to, int flags),
	 (from_at, from, to_at, to, flags))

/* Either an unlink or an rmdir, whatever the path names. */
EXPORT int remove(const char *path)
{
	struct naming naming = naming_begin(OP_UNLINK);
	struct inode inode;

	if (naming.records && inode_of(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &inode) == 0 &&
	    S_ISDIR(inode.mode))
		naming.record.op = OP_RMDIR;
	else
		naming_look_up(&naming, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
	return naming_end(naming, AT_FDCWD, path, real.remove(path));
}

EXPORT char *mkdtemp(char *pattern)
{
	struct naming naming = naming_begin(OP_MKDIR);
	char *made = real.mkdtemp(pattern);

	naming_end(naming, AT_FDCWD, pattern, made ? 0 : -1);
	return made;
}

EXPORT int chroot(const char *path)
{
	int result = real.chroot(path);

	if (result == 0 && capture_is_on)
		path_find_root();
	return result;
}
