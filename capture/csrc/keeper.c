/* SPDX-License-Identifier: MIT */
#include "keeper.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

/* A launcher that is stopped must not stop the job: after one such wait nobody asks again. */
#define PATIENCE_SECONDS 5

struct question {
	char secret[KEEPER_SECRET_BYTES];
	uint32_t request;
	char body[KEEPER_BODY_MAX];
};

static struct {
	struct sockaddr_un address;
	_Atomic uint32_t address_bytes; /* 0: nobody is there */
	char secret[KEEPER_SECRET_BYTES];
} keeper;

void keeper_start(const char *address)
{
	const char *colon = address ? strchr(address, ':') : NULL;
	size_t bytes;

	if (!colon || strlen(colon + 1) != KEEPER_SECRET_BYTES)
		return;
	bytes = (size_t)(colon - address);
	if (bytes > KEEPER_NAME_BYTES)
		return;
	keeper.address.sun_family = AF_UNIX; /* no file: the name comes after a NUL */
	memcpy(keeper.address.sun_path + 1, address, bytes);
	memcpy(keeper.secret, colon + 1, KEEPER_SECRET_BYTES);
	keeper.address_bytes = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

/* Not EPERM: a sandbox that refuses opens so may end a process that makes a socket. */
bool keeper_may_help(long error)
{
	return error == -EACCES || error == -ENOENT || error == -EROFS;
}

static int connect_to_keeper(void)
{
	const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
	int fd = (int)RAW(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	long result;

	if (fd < 0)
		return fd;
	RAW(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	RAW(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	do
		result = RAW(SYS_connect, fd, &keeper.address, keeper.address_bytes);
	while (result == -EINTR);
	if (result == 0)
		return fd;
	raw_close(fd);
	return (int)result;
}

static int descriptor_in(struct msghdr *message)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(message);
	int fd = -ENOENT;

	if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	return fd;
}

/* Bytes of the answer's text, or -errno; `descriptor` may be NULL. */
static long exchange(int fd, const struct question *question, size_t body_bytes, char *buffer,
		     size_t bytes, int *descriptor)
{
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	int32_t outcome;
	struct iovec parts[] = {{&outcome, sizeof(outcome)}, {buffer, bytes}};
	struct msghdr message = {.msg_iov = parts,
				 .msg_iovlen = 2,
				 .msg_control = descriptor ? control : NULL,
				 .msg_controllen = descriptor ? sizeof(control) : 0};
	long got;

	do
		got = RAW(SYS_sendto, fd, question, offsetof(struct question, body) + body_bytes,
			  MSG_NOSIGNAL, NULL, 0);
	while (got == -EINTR);
	if (got < 0)
		return got;
	do
		got = RAW(SYS_recvmsg, fd, &message, MSG_CMSG_CLOEXEC);
	while (got == -EINTR);
	if (got < (long)sizeof(outcome))
		return got < 0 ? got : -ECONNRESET;
	if (descriptor)
		*descriptor = descriptor_in(&message);
	return outcome < 0 ? outcome : got - (long)sizeof(outcome);
}

static long ask(enum keeper_request request, const void *body, size_t body_bytes, char *buffer,
		size_t bytes, int *descriptor)
{
	struct question question = {.request = request};
	long result;
	int fd;

	if (!keeper.address_bytes || body_bytes > sizeof(question.body))
		return -ENOTCONN;
	memcpy(question.secret, keeper.secret, sizeof(question.secret));
	memcpy(question.body, body, body_bytes);
	fd = connect_to_keeper();
	if (fd < 0) {
		if (fd == -ECONNREFUSED || fd == -EAGAIN)
			keeper.address_bytes = 0;
		return fd;
	}
	result = exchange(fd, &question, body_bytes, buffer, bytes, descriptor);
	raw_close(fd);
	if (result == -EAGAIN)
		keeper.address_bytes = 0;
	return result;
}

int keeper_log(enum keeper_request request, const char *name)
{
	int fd = -ENOENT;
	long result = ask(request, name, strlen(name), NULL, 0, &fd);

	return result < 0 ? (int)result : fd;
}

int keeper_grow(const char *name, int64_t offset, int64_t bytes)
{
	char body[KEEPER_BODY_MAX];
	const int64_t part[] = {offset, bytes};
	size_t name_bytes = strlen(name);
	long result = -ENAMETOOLONG;

	if (sizeof(part) + name_bytes <= sizeof(body)) {
		memcpy(body, part, sizeof(part));
		memcpy(body + sizeof(part), name, name_bytes);
		result = ask(KEEPER_GROW, body, sizeof(part) + name_bytes, NULL, 0, NULL);
	}
	return result < 0 ? (int)result : 0;
}

long keeper_text(enum keeper_request request, const char *path, char *buffer, size_t bytes)
{
	return ask(request, path, strlen(path), buffer, bytes, NULL);
}

void keeper_keep(const void *entry, size_t bytes)
{
	ask(KEEPER_ENTRY, entry, bytes, NULL, 0, NULL);
}
