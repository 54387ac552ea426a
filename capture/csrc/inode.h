/* SPDX-License-Identifier: MIT */
/* What a name or a descriptor refers to. */
#ifndef IOTRACE_INODE_H
#define IOTRACE_INODE_H

#include "raw.h"

struct inode {
	uint64_t device; /* st_dev */
	uint64_t number; /* st_ino */
	uint64_t birth_ns; /* since the epoch; 0: the file system does not say */
	int64_t bytes;
	uint32_t mode;
	uint32_t links;
	bool is_nameless; /* for whoever describes an open file: it has no name (any more) */
};

/* As fstatat(2): `at` and `flags` likewise. 0 or -errno, then *inode is zero. */
int inode_of(int at, const char *path, int flags, struct inode *inode);
int inode_of_descriptor(int fd, struct inode *inode);

#endif
