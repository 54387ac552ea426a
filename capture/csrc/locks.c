/* SPDX-License-Identifier: MIT */
/*
 * Whether this process has POSIX locks on some files: to close any descriptor of a file ends them, so
 * whoever opens it beside the job must know before. A lock lies on a descriptor, and /proc tells of
 * each which it has. /proc/locks would tell as well, but who reads it waits for a grace period of
 * the kernel, 15 ms on 2 cores, as often as it was not read for a while.
 */
#include "inode.h"
#include "proc_files.h"
#include "process.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 64 /* no step is asked about more: FILES_MAX of the hooks */
#define NO_ROUND_TRIP AT_STATX_DONT_SYNC

static bool is_among(const struct inode *inode, const struct inode *files, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (inode->number == files[i].number && inode->device == files[i].device)
			return true;
	return false;
}

/* `name`: of a descriptor below /proc/thread-self/fdinfo. */
static bool has_lock(const char *name)
{
	static const char folder[] = "/proc/thread-self/fdinfo/";
	char path[sizeof(folder) + NAME_MAX], text[4096];
	long bytes;

	memcpy(path, folder, sizeof(folder));
	memcpy(path + sizeof(folder) - 1, name, strlen(name) + 1);
	bytes = proc_read(path, text, sizeof(text) - 1, NULL);
	if (bytes == -ENOENT)
		return false; /* closed meanwhile */
	if (bytes < 0 || (size_t)bytes == sizeof(text) - 1)
		return true;
	text[bytes] = '\0';
	return strstr(text, "POSIX ") != NULL;
}

static int descriptor_named(const char *name)
{
	int fd = 0;

	for (; *name >= '0' && *name <= '9'; name++)
		fd = fd * 10 + (*name - '0');
	return *name ? -1 : fd;
}

static bool any_has_lock(int folder, const struct inode *files, size_t count)
{
	_Alignas(struct dirent) char entries[4096];
	struct inode inode;
	long bytes, at;

	while ((bytes = RAW(SYS_getdents64, folder, entries, sizeof(entries))) > 0) {
		for (at = 0; at < bytes; at += ((struct dirent *)(entries + at))->d_reclen) {
			const char *name = ((struct dirent *)(entries + at))->d_name;
			int fd = descriptor_named(name);
			int error = fd < 0 ? -EBADF :
					     inode_of(fd, "", AT_EMPTY_PATH | NO_ROUND_TRIP, &inode);

			if (error && error != -EBADF)
				return true;
			if (!error && is_among(&inode, files, count) && has_lock(name))
				return true;
		}
	}
	return bytes < 0;
}

EXPORT int iotrace_may_hold_locks(const char *const paths[], size_t count)
{
	struct inode files[FILES_MAX];
	bool found;
	int folder;

	if (count > FILES_MAX)
		return true;
	for (size_t i = 0; i < count; i++) /* zero, so nothing, for one that is not there */
		inode_of(AT_FDCWD, paths[i], NO_ROUND_TRIP, &files[i]);
	folder = raw_open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (folder < 0)
		return true;
	found = any_has_lock(folder, files, count);
	raw_close(folder);
	return found;
}
