/* SPDX-License-Identifier: MIT */
/* Descriptors handed to other processes, which move the position from then on too. */
#include "real.h"
#include "request.h"

#include <string.h>
#include <sys/socket.h>

static void passed(const struct cmsghdr *part)
{
	size_t bytes = part->cmsg_len - CMSG_LEN(0);
	struct open_file *file;
	int fd;

	for (size_t at = 0; at + sizeof(fd) <= bytes; at += sizeof(fd)) {
		memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
		file = descriptor_known(fd);
		if (file && file->kind == FILE_RECORDED)
			file->queried = 1;
	}
}

/* After the kernel took it, so that its parts can be looked at. */
static void sent(struct msghdr *message)
{
	if (likely(!message->msg_controllen))
		return;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part))
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
			passed(part);
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
