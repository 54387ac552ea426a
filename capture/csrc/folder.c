/* SPDX-License-Identifier: MIT */
#include "folder.h"

#include <sys/stat.h>

#include "path.h"
#include "scope.h"

/*
 * Folders are opened all the time and synced rarely: nothing is kept of their opens, and the kernel
 * is asked here. Its name for a folder is the one of now, and leads through no link.
 */
__attribute__((noinline)) const struct record *
folder_append_sync(const struct open_file *file, int fd, struct record record)
{
	struct inode inode;
	struct path path;

	if (file->kind == FILE_RECORDED || request_is_paused() || log_is_borrowed() ||
	    inode_of_descriptor(fd, &inode) != 0 || !S_ISDIR(inode.mode))
		return NULL;
	path_of_descriptor(&path, fd);
	if (!path.bytes || path.is_deleted || path_is_kernel_file(&path) ||
	    !scope_wants(path.text, path.bytes, true))
		return NULL;
	if (record.flags == SYNC_FILE || record.flags == SYNC_DATA)
		record.flags += SYNC_FOLDER;
	return log_append(&record, path.text, path.bytes);
}
