/* SPDX-License-Identifier: MIT */
/*
 * POSIX aio. Threads of libc make the calls, by names of its own; what a job
 * asks for and when it learns of the end is all that can be seen.
 */
#include "flight.h"
#include "real.h"

#include <aio.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#define STATUS_UNKNOWN INT64_MIN

/*
 * Until it moved into libc (glibc 2.34), aio called read and write by their
 * names: those are recorded already.
 */
static bool is_seen_inside(void)
{
#ifdef __GLIBC__
	const char *version = gnu_get_libc_version();
	int minor = 0;

	if (version[0] != '2' || version[1] != '.')
		return false;
	for (version += 2; *version >= '0' && *version <= '9'; version++)
		minor = minor * 10 + (*version - '0');
	return minor < 34;
#else
	return false;
#endif
}

static bool records_aio(void)
{
	return capture_is_on && !is_seen_inside() && !log_is_borrowed();
}

static void begin_move(const struct aiocb *block, enum record_op op)
{
	struct record record = flight_record(now_ns());

	record.offset = block->aio_offset;
	record.length = (int64_t)block->aio_nbytes;
	record.address = (uint64_t)block->aio_buf;
	flight_begin(block, API_POSIX, op, block->aio_fildes, record);
}

static void begin_sync(const struct aiocb *block, int operation)
{
	struct record record = flight_record(now_ns());

	record.flags = operation == O_DSYNC;
	flight_begin(block, API_POSIX, OP_SYNC, block->aio_fildes, record);
}

/* After a call that returned `result`; errno is its own. */
static int begun(const struct aiocb *block, int result)
{
	if (result < 0)
		flight_refused(block, -errno);
	return result;
}

#define MOVE(name, block_type, op)                                            \
	EXPORT int name(struct block_type *block)                             \
	{                                                                     \
		if (!records_aio())                                           \
			return real.name(block);                              \
		begin_move((const struct aiocb *)block, op);                  \
		return begun((const struct aiocb *)block, real.name(block));  \
	}

_Static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64), "one layout");

MOVE(aio_read, aiocb, OP_READ)
MOVE(aio_read64, aiocb64, OP_READ)
MOVE(aio_write, aiocb, OP_WRITE)
MOVE(aio_write64, aiocb64, OP_WRITE)

#define SYNC(name, block_type)                                                \
	EXPORT int name(int operation, struct block_type *block)              \
	{                                                                     \
		if (!records_aio())                                           \
			return real.name(operation, block);                   \
		begin_sync((const struct aiocb *)block, operation);           \
		return begun((const struct aiocb *)block, real.name(operation, block)); \
	}

SYNC(aio_fsync, aiocb)
SYNC(aio_fsync64, aiocb64)

/* --- the end ----------------------------------------------------------- */

/* What aio_return() will say, which may be asked only once. */
static int64_t result_of(const struct aiocb *block, int error)
{
#ifdef __GLIBC__
	return error ? -error : block->__return_value;
#else
	return error ? -error : STATUS_UNKNOWN;
#endif
}

static void look_at(const struct aiocb *block)
{
	int saved_errno = errno, error = real.aio_error(block);

	if (error >= 0 && error != EINPROGRESS)
		flight_end(block, result_of(block, error), false);
	errno = saved_errno;
}

#define ERROR(name, block_type)                                               \
	EXPORT int name(const struct block_type *block)                       \
	{                                                                     \
		int error = real.name(block);                                 \
                                                                              \
		if (records_aio() && error >= 0 && error != EINPROGRESS)      \
			look_at((const struct aiocb *)block);                 \
		return error;                                                 \
	}

ERROR(aio_error, aiocb)
ERROR(aio_error64, aiocb64)

#define RETURN(name, block_type)                                              \
	EXPORT ssize_t name(struct block_type *block)                         \
	{                                                                     \
		ssize_t result = real.name(block);                            \
                                                                              \
		if (records_aio())                                            \
			flight_end(block, result < 0 ? -errno : result, true); \
		return result;                                                \
	}

RETURN(aio_return, aiocb)
RETURN(aio_return64, aiocb64)

static int looked_at(const struct aiocb *const blocks[], int count, int result)
{
	if (!records_aio())
		return result;
	for (int i = 0; i < count; i++)
		if (blocks[i])
			look_at(blocks[i]);
	return result;
}

#define SUSPEND(name, block_type)                                             \
	EXPORT int name(const struct block_type *const blocks[], int count,   \
			const struct timespec *timeout)                       \
	{                                                                     \
		return looked_at((const struct aiocb *const *)blocks, count,  \
				 real.name(blocks, count, timeout));          \
	}

SUSPEND(aio_suspend, aiocb)
SUSPEND(aio_suspend64, aiocb64)

/* --- lists ------------------------------------------------------------- */

static void begin_list(struct aiocb *const blocks[], int count)
{
	for (int i = 0; i < count; i++) {
		if (blocks[i] && blocks[i]->aio_lio_opcode == LIO_READ)
			begin_move(blocks[i], OP_READ);
		if (blocks[i] && blocks[i]->aio_lio_opcode == LIO_WRITE)
			begin_move(blocks[i], OP_WRITE);
	}
}

#define LIST(name, block_type)                                                \
	EXPORT int name(int mode, struct block_type *const blocks[], int count, \
			struct sigevent *event)                               \
	{                                                                     \
		int result;                                                   \
                                                                              \
		if (!records_aio())                                           \
			return real.name(mode, blocks, count, event);         \
		begin_list((struct aiocb *const *)blocks, count);             \
		result = real.name(mode, blocks, count, event);               \
		return looked_at((const struct aiocb *const *)blocks, count, result); \
	}

LIST(lio_listio, aiocb)
LIST(lio_listio64, aiocb64)
