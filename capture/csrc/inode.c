/* SPDX-License-Identifier: MIT */
#include "inode.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* For kernels before 4.11, and sandboxes that forbid statx. */
static int inode_of_old(int at, const char *path, int flags, struct inode *inode)
{
	struct stat found;
	long error = RAW(SYS_newfstatat, at, path, &found, flags);

	if (error)
		return (int)error;
	inode->device = found.st_dev;
	inode->number = found.st_ino;
	inode->bytes = found.st_size;
	inode->mode = found.st_mode;
	inode->links = (uint32_t)found.st_nlink;
	return 0;
}

int inode_of(int at, const char *path, int flags, struct inode *inode)
{
	struct statx found;
	long error = RAW(SYS_statx, at, path, flags, STATX_BASIC_STATS | STATX_BTIME, &found);

	memset(inode, 0, sizeof(*inode));
	if (error == -ENOSYS || error == -EPERM)
		return inode_of_old(at, path, flags, inode);
	if (error)
		return (int)error;
	inode->device = makedev(found.stx_dev_major, found.stx_dev_minor);
	inode->number = found.stx_ino;
	inode->bytes = (int64_t)found.stx_size;
	inode->mode = found.stx_mode;
	inode->links = found.stx_nlink;
	if (found.stx_mask & STATX_BTIME)
		inode->birth_ns = (uint64_t)found.stx_btime.tv_sec * 1000000000u +
				  found.stx_btime.tv_nsec;
	return 0;
}

int inode_of_descriptor(int fd, struct inode *inode)
{
	return inode_of(fd, "", AT_EMPTY_PATH, inode);
}
