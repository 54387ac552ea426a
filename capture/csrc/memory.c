/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include <string.h>

/* A page of any size in use is a multiple: a piece that crosses none can be read whole. */
#define PIECE_BYTES 4096u
#define PARTS_AT_ONCE 64u
#define PARTS_MAX 1024u /* UIO_MAXIOV: the kernel takes no more */

static long read_piece(void *to, const void *from, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)from, bytes};

	return RAW(SYS_process_vm_readv, RAW(SYS_getpid), &local, 1, &remote, 1, 0);
}

bool memory_read(void *to, const void *from, size_t bytes)
{
	return read_piece(to, from, bytes) == (long)bytes;
}

long memory_read_text(char *to, const char *from, size_t room)
{
	size_t used = 0;

	while (used < room) {
		size_t bytes = PIECE_BYTES - ((uintptr_t)from + used) % PIECE_BYTES;
		const char *nul;

		if (bytes > room - used)
			bytes = room - used;
		if (read_piece(to + used, from + used, bytes) != (long)bytes)
			return -EFAULT;
		nul = memchr(to + used, '\0', bytes);
		if (nul)
			return nul - to;
		used += bytes;
	}
	return -ENAMETOOLONG;
}

int64_t memory_parts_bytes(const struct iovec *parts, uint32_t count, uint64_t *first)
{
	struct iovec copies[PARTS_AT_ONCE];
	int64_t bytes = 0;

	if (count > PARTS_MAX)
		return -1;
	for (uint32_t at = 0; at < count; at += PARTS_AT_ONCE) {
		uint32_t some = count - at < PARTS_AT_ONCE ? count - at : PARTS_AT_ONCE;

		if (!memory_read(copies, parts + at, some * sizeof(*parts)))
			return -1;
		if (!at)
			*first = (uint64_t)copies[0].iov_base;
		for (uint32_t i = 0; i < some; i++)
			bytes += (int64_t)copies[i].iov_len;
	}
	return bytes;
}
