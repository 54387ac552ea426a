/* SPDX-License-Identifier: MIT */
/*
 * What the shared liburing exports. Most of liburing is inlined into the job
 * and cannot be seen; all that hands requests to the kernel or waits for
 * completions ends in one of these. They return -errno and leave errno alone.
 */
#include "late.h"
#include "request.h"
#include "uring_enter.h"
#include "uring_files.h"

#include <signal.h>

struct __kernel_timespec;
struct io_uring_reg_wait;

/* --- set up and end ---------------------------------------------------- */

static int adopted(const struct io_uring *uring, int result)
{
	if (result >= 0 && capture_is_on && !log_is_borrowed())
		ring_adopt(uring);
	return result;
}

#define SET_UP(name, parameters, arguments)                                   \
	LATE(int, name, parameters)                                           \
	EXPORT int name parameters                                            \
	{                                                                     \
		int saved_errno = errno, result;                              \
                                                                              \
		if (!LATE_FOUND(name))                                        \
			return -ENOSYS;                                       \
		result = adopted(uring, real_##name arguments);               \
		errno = saved_errno;                                          \
		return result;                                                \
	}

SET_UP(io_uring_queue_init, (unsigned int entries, struct io_uring *uring, unsigned int flags),
       (entries, uring, flags))
SET_UP(io_uring_queue_init_params,
       (unsigned int entries, struct io_uring *uring, struct uring_params *params),
       (entries, uring, params))
SET_UP(io_uring_queue_init_mem,
       (unsigned int entries, struct io_uring *uring, struct uring_params *params, void *buffer,
	size_t bytes),
       (entries, uring, params, buffer, bytes))
SET_UP(io_uring_queue_mmap, (int fd, struct uring_params *params, struct io_uring *uring),
       (fd, params, uring))

LATE(void, io_uring_queue_exit, (struct io_uring * uring))
EXPORT void io_uring_queue_exit(struct io_uring *uring)
{
	if (!LATE_FOUND(io_uring_queue_exit))
		return;
	if (capture_is_on && !log_is_borrowed())
		ring_exit(uring);
	real_io_uring_queue_exit(uring);
}

LATE(int, io_uring_resize_rings, (struct io_uring * uring, struct uring_params *params))
EXPORT int io_uring_resize_rings(struct io_uring *uring, struct uring_params *params)
{
	struct ring *ring = NULL;
	int result;

	if (!LATE_FOUND(io_uring_resize_rings))
		return -ENOSYS;
	if (capture_is_on)
		ring = ring_of(uring);
	if (ring)
		ring_reap(ring);
	result = real_io_uring_resize_rings(uring, params);
	if (ring && result >= 0)
		ring_moved(ring, uring);
	return result;
}

/* --- submit and wait --------------------------------------------------- */

static struct ring_call call_begin(const struct io_uring *uring, bool submits)
{
	struct ring_call call = {NULL, 0};

	if (!capture_is_on)
		return call;
	call.ring = ring_of(uring);
	if (!call.ring)
		return call;
	ring_reap(call.ring);
	call.end = uring->sq.end;
	if (submits)
		ring_submit(call.ring, call.end);
	return call;
}

static int call_end(struct ring_call call, bool submits, int result)
{
	if (call.ring && submits)
		uring_call_end(call, result < 0 ? result : 0);
	else if (call.ring)
		ring_reap(call.ring);
	return result;
}

/* Without this feature a timeout is a request, which liburing submits with all others. */
static bool submits_timeouts(const struct io_uring *uring)
{
	return !(uring->features & URING_FEATURE_EXT_ARG);
}

#define CALL(type, missing, name, submits, parameters, arguments)             \
	LATE(type, name, parameters)                                          \
	EXPORT type name parameters                                           \
	{                                                                     \
		struct ring_call call;                                        \
                                                                              \
		if (!LATE_FOUND(name))                                        \
			return (type)(missing);                               \
		call = call_begin(uring, submits);                            \
		return (type)call_end(call, submits, (int)real_##name arguments); \
	}

CALL(int, -ENOSYS, io_uring_submit, true, (struct io_uring * uring), (uring))
CALL(int, -ENOSYS, io_uring_submit_and_wait, true, (struct io_uring * uring, unsigned int count),
     (uring, count))
CALL(int, -ENOSYS, io_uring_submit_and_get_events, true, (struct io_uring * uring), (uring))
CALL(int, -ENOSYS, io_uring_submit_and_wait_timeout, true,
     (struct io_uring * uring, struct cqe **cqe, unsigned int count,
      struct __kernel_timespec *timeout, sigset_t *signals),
     (uring, cqe, count, timeout, signals))
CALL(int, -ENOSYS, io_uring_submit_and_wait_min_timeout, true,
     (struct io_uring * uring, struct cqe **cqe, unsigned int count,
      struct __kernel_timespec *timeout, unsigned int least_us, sigset_t *signals),
     (uring, cqe, count, timeout, least_us, signals))
CALL(int, -ENOSYS, io_uring_submit_and_wait_reg, true,
     (struct io_uring * uring, struct cqe **cqe, unsigned int count, int index),
     (uring, cqe, count, index))

CALL(int, -ENOSYS, __io_uring_get_cqe, count != 0,
     (struct io_uring * uring, struct cqe **cqe, unsigned int count, unsigned int awaited,
      sigset_t *signals),
     (uring, cqe, count, awaited, signals))
CALL(int, -ENOSYS, io_uring_wait_cqes, submits_timeouts(uring),
     (struct io_uring * uring, struct cqe **cqe, unsigned int count,
      struct __kernel_timespec *timeout, sigset_t *signals),
     (uring, cqe, count, timeout, signals))
CALL(int, -ENOSYS, io_uring_wait_cqes_min_timeout, false,
     (struct io_uring * uring, struct cqe **cqe, unsigned int count,
      struct __kernel_timespec *timeout, unsigned int least_us, sigset_t *signals),
     (uring, cqe, count, timeout, least_us, signals))
CALL(int, -ENOSYS, io_uring_wait_cqe_timeout, submits_timeouts(uring),
     (struct io_uring * uring, struct cqe **cqe, struct __kernel_timespec *timeout),
     (uring, cqe, timeout))
CALL(int, -ENOSYS, io_uring_get_events, false, (struct io_uring * uring), (uring))
CALL(int, -ENOSYS, __io_uring_sqring_wait, false, (struct io_uring * uring), (uring))
CALL(unsigned int, 0, io_uring_peek_batch_cqe, false,
     (struct io_uring * uring, struct cqe **cqes, unsigned int count), (uring, cqes, count))
/* Functions only in liburing-ffi, for languages without its inlined ones. */
CALL(int, -ENOSYS, io_uring_wait_cqe, false, (struct io_uring * uring, struct cqe **cqe),
     (uring, cqe))
CALL(int, -ENOSYS, io_uring_wait_cqe_nr, false,
     (struct io_uring * uring, struct cqe **cqe, unsigned int count), (uring, cqe, count))
CALL(int, -ENOSYS, io_uring_peek_cqe, false, (struct io_uring * uring, struct cqe **cqe),
     (uring, cqe))

/* --- registered files -------------------------------------------------- */

static struct ring *registering(const struct io_uring *uring, int result)
{
	return result >= 0 && capture_is_on ? ring_of(uring) : NULL;
}

#define REGISTER(name, parameters, arguments, ...)                            \
	LATE(int, name, parameters)                                           \
	EXPORT int name parameters                                            \
	{                                                                     \
		struct ring *ring;                                            \
		int result;                                                   \
                                                                              \
		if (!LATE_FOUND(name))                                        \
			return -ENOSYS;                                       \
		result = real_##name arguments;                               \
		ring = registering(uring, result);                            \
		if (ring)                                                     \
			__VA_ARGS__;                                          \
		return result;                                                \
	}

REGISTER(io_uring_register_files,
	 (struct io_uring * uring, const int *files, unsigned int count), (uring, files, count),
	 uring_files_register(ring, files, count))
REGISTER(io_uring_register_files_tags,
	 (struct io_uring * uring, const int *files, const uint64_t *tags, unsigned int count),
	 (uring, files, tags, count), uring_files_register(ring, files, count))
REGISTER(io_uring_register_files_sparse, (struct io_uring * uring, unsigned int count),
	 (uring, count), uring_files_register(ring, NULL, count))
REGISTER(io_uring_register_files_update,
	 (struct io_uring * uring, unsigned int first, const int *files, unsigned int count),
	 (uring, first, files, count), uring_files_update(ring, first, files, (uint32_t)result))
REGISTER(io_uring_register_files_update_tag,
	 (struct io_uring * uring, unsigned int first, const int *files, const uint64_t *tags,
	  unsigned int count),
	 (uring, first, files, tags, count),
	 uring_files_update(ring, first, files, (uint32_t)result))
REGISTER(io_uring_unregister_files, (struct io_uring * uring), (uring),
	 uring_files_unregister(ring))

/* --- the system calls, by liburing ------------------------------------- */

LATE(int, io_uring_setup, (unsigned int entries, struct uring_params *params))
EXPORT int io_uring_setup(unsigned int entries, struct uring_params *params)
{
	int fd;

	if (!LATE_FOUND(io_uring_setup))
		return -ENOSYS;
	fd = real_io_uring_setup(entries, params);
	uring_was_set_up(fd, params);
	return fd;
}

#define ENTER(name, parameters, arguments)                                    \
	LATE(int, name, parameters)                                           \
	EXPORT int name parameters                                            \
	{                                                                     \
		struct ring_call call;                                        \
		int result;                                                   \
                                                                              \
		if (!LATE_FOUND(name))                                        \
			return -ENOSYS;                                       \
		call = uring_enter_begin(fd, count, flags);                   \
		result = real_##name arguments;                               \
		uring_call_end(call, result < 0 ? result : 0);                \
		return result;                                                \
	}

ENTER(io_uring_enter,
      (unsigned int fd, unsigned int count, unsigned int awaited, unsigned int flags,
       sigset_t *signals),
      (fd, count, awaited, flags, signals))
ENTER(io_uring_enter2,
      (unsigned int fd, unsigned int count, unsigned int awaited, unsigned int flags,
       void *argument, size_t bytes),
      (fd, count, awaited, flags, argument, bytes))

LATE(int, io_uring_register,
     (unsigned int fd, unsigned int opcode, const void *argument, unsigned int count))
EXPORT int io_uring_register(unsigned int fd, unsigned int opcode, const void *argument,
			     unsigned int count)
{
	int result;

	if (!LATE_FOUND(io_uring_register))
		return -ENOSYS;
	result = real_io_uring_register(fd, opcode, argument, count);
	uring_was_registered((int)fd, opcode, argument, count, result);
	return result;
}
