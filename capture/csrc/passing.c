/* SPDX-License-Identifier: MIT */
/* Descriptors of one process that get into another: both move the position from then on. */
#include "passing.h"

#include "memory.h"
#include "real.h"
#include "request.h"

#include <string.h>
#include <sys/socket.h>

#define PARTS_MAX_BYTES 2048 /* 253 descriptors are the most that the kernel takes */

static void passed(const struct cmsghdr *part, const char *end)
{
	size_t bytes = part->cmsg_len - CMSG_LEN(0), room = (size_t)(end - (char *)CMSG_DATA(part));
	struct open_file *file;
	int fd;

	if (bytes > room) /* of one that the kernel has yet to look at */
		bytes = room;
	for (size_t at = 0; at + sizeof(fd) <= bytes; at += sizeof(fd)) {
		memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
		file = descriptor_known(fd);
		if (file && file->kind == FILE_RECORDED)
			file->queried = 1;
	}
}

/* Its parts must be memory: of one that the kernel has taken, or a copy. */
static void sent(struct msghdr *message)
{
	const char *end = (char *)message->msg_control + message->msg_controllen;

	if (likely(!message->msg_controllen))
		return;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part))
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
			passed(part, end);
}

void passing_foreseen(const struct msghdr *message)
{
	_Alignas(struct cmsghdr) char parts[PARTS_MAX_BYTES];
	struct msghdr copy;

	if (!memory_read(&copy, message, sizeof(copy)) || !copy.msg_controllen)
		return;
	if (copy.msg_controllen > sizeof(parts))
		copy.msg_controllen = sizeof(parts);
	if (!memory_read(parts, copy.msg_control, copy.msg_controllen))
		return;
	copy.msg_control = parts;
	sent(&copy);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t result = real.sendmsg(fd, message, flags);

	if (capture_is_on && result >= 0)
		sent((struct msghdr *)message);
	return result;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	int result = real.sendmmsg(fd, messages, count, flags);

	for (int i = 0; capture_is_on && i < result; i++)
		sent(&messages[i].msg_hdr);
	return result;
}

/* What the call has returned: an open file of another process, which goes on with it. */
static void taken(int fd)
{
	uint64_t now = now_ns();
	struct record record = {.start_ns = now, .end_ns = now, .offset = -1, .length = -1,
				.op = OP_TAKEN};
	struct open_file *file;

	if (fd < 0 || !capture_is_on || log_is_borrowed() || request_is_paused())
		return;
	file = descriptor_file(fd);
	if (file->kind != FILE_RECORDED)
		return;
	record.file = request_file_number(file, fd);
	if (record.file)
		log_append(&record, NULL, 0);
	else
		log_drop();
}

/* The system call: the wrapper of the libc is new, and who looks for it finds ours. */
EXPORT int pidfd_getfd(int process, int fd, unsigned int flags)
{
	int result = (int)real.syscall(SYS_pidfd_getfd, process, fd, flags, 0, 0, 0);

	taken(result);
	return result;
}
