/* SPDX-License-Identifier: MIT */
/* libaio: the kernel's own asynchronous interface, for files open with O_DIRECT. */
#include "flight.h"
#include "late.h"
#include "memory.h"

#include <signal.h>

#define BLOCKS_AT_ONCE 64

enum { AIO_READ = 0, AIO_WRITE = 1, AIO_SYNC = 2, AIO_DATA_SYNC = 3, AIO_READV = 7, AIO_WRITEV = 8 };

/* struct iocb of the kernel, little endian. */
struct control_block {
	uint64_t data;
	uint32_t key, flags; /* RWF_* */
	uint16_t opcode;
	int16_t priority;
	int32_t fd;
	uint64_t address, length;
	int64_t offset;
	uint64_t reserved;
	uint32_t more[2];
};

struct event {
	uint64_t data, block;
	int64_t result, result2;
};

_Static_assert(sizeof(struct control_block) == 64 && sizeof(struct event) == 32,
	       "the kernel's sizes");

static void begin(const void *block, const struct control_block *copy, uint64_t start_ns)
{
	struct record record = flight_record(start_ns);
	bool reads = copy->opcode == AIO_READ || copy->opcode == AIO_READV;

	switch (copy->opcode) {
	case AIO_READ:
	case AIO_WRITE:
		record.length = (int64_t)copy->length;
		record.address = copy->address;
		break;
	case AIO_READV:
	case AIO_WRITEV:
		record.length = memory_parts_bytes((const struct iovec *)copy->address,
						   (uint32_t)copy->length, &record.address);
		break;
	case AIO_SYNC:
	case AIO_DATA_SYNC:
		record.flags = copy->opcode == AIO_DATA_SYNC;
		flight_begin(block, API_LIBAIO, OP_SYNC, copy->fd, record);
		return;
	default: /* waits for a descriptor, moves nothing */
		return;
	}
	record.flags = copy->flags;
	record.offset = copy->offset;
	flight_begin(block, API_LIBAIO, reads ? OP_READ : OP_WRITE, copy->fd, record);
}

/* A job may use the fields as soon as the kernel has them: they are copied before. */
static void begin_all(long count, struct control_block **blocks)
{
	struct control_block *addresses[BLOCKS_AT_ONCE], copy;
	uint64_t start_ns = now_ns();

	for (long at = 0; at < count; at += BLOCKS_AT_ONCE) {
		long some = count - at < BLOCKS_AT_ONCE ? count - at : BLOCKS_AT_ONCE;

		if (!memory_read(addresses, blocks + at, (size_t)some * sizeof(*blocks)))
			return;
		for (long i = 0; i < some; i++) {
			if (!memory_read(&copy, addresses[i], sizeof(copy)))
				return;
			begin(addresses[i], &copy, start_ns);
		}
	}
}

LATE(int, io_submit, (void *context, long count, struct control_block **blocks))
EXPORT int io_submit(void *context, long count, struct control_block **blocks)
{
	int taken;

	if (!LATE_FOUND(io_submit))
		return -ENOSYS;
	if (!capture_is_on)
		return real_io_submit(context, count, blocks);
	begin_all(count, blocks);
	taken = real_io_submit(context, count, blocks);
	/* The rest the job will hand over again: a new try is a new request. */
	for (long i = taken < 0 ? 0 : taken; i < count; i++) {
		struct control_block *block;

		if (!memory_read(&block, blocks + i, sizeof(block)))
			break;
		flight_refused(block, taken < 0 ? taken : -EAGAIN);
	}
	return taken;
}

static int ended(const struct event *events, int count)
{
	for (int i = 0; capture_is_on && i < count; i++)
		flight_end((const void *)events[i].block, events[i].result, true);
	return count;
}

#define GET_EVENTS(name, parameters, arguments)                               \
	LATE(int, name, parameters)                                           \
	EXPORT int name parameters                                            \
	{                                                                     \
		if (!LATE_FOUND(name))                                        \
			return -ENOSYS;                                       \
		return ended(events, real_##name arguments);                  \
	}

GET_EVENTS(io_getevents,
	   (void *context, long least, long count, struct event *events, struct timespec *timeout),
	   (context, least, count, events, timeout))
GET_EVENTS(io_pgetevents,
	   (void *context, long least, long count, struct event *events, struct timespec *timeout,
	    sigset_t *signals),
	   (context, least, count, events, timeout, signals))
