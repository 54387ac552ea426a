/* SPDX-License-Identifier: MIT */
/*
 * Start, fork and end of the process. Nothing at the end is needed for a
 * complete log: the counters read there only let a reader check it.
 */
#include "process.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "keeper.h"
#include "path.h"
#include "proc_files.h"
#include "real.h"
#include "request.h"
#include "roster.h"
#include "scope.h"
#include "streams.h"
#include "uring_ring.h"

#define DEFAULT_LIMIT_BYTES (4ull << 30)

/* Lines of /proc/self/io that are worth a counter. */
#define FOR_EACH_COUNTER(X) X(rchar) X(wchar) X(syscr) X(syscw) X(read_bytes) X(write_bytes)

struct counters {
#define FIELD(name) int64_t name;
	FOR_EACH_COUNTER(FIELD)
#undef FIELD
};

/*
 * What the process had done before this library saw it: an earlier image, the
 * loader. A forked child starts at zero.
 */
static struct counters at_start;

/*
 * False: it is not known. `own`: bytes of this look, which the kernel adds to its count only after
 * it, as the library does to its own.
 */
static bool read_counters(struct counters *counters, uint64_t *own)
{
	char text[512] = "\n"; /* each label is looked for with the newline before it */

	if (proc_read("/proc/self/io", text + 1, sizeof(text) - 2, own) <= 0)
		return false;
#define READ(name) counters->name = proc_number(text, "\n" #name ": ");
	FOR_EACH_COUNTER(READ)
#undef READ
	return true;
}

static void append_counter(const char *name, int64_t value)
{
	uint64_t now = now_ns();
	struct record record = {.start_ns = now, .end_ns = now, .offset = -1, .length = -1,
				.result = value, .op = OP_COUNTER};

	log_append(&record, name, strlen(name));
}

/*
 * The kernel's count of a parent includes its children: the list tells what
 * to take off, also for the many that have no log.
 */
static void leave_roster(struct counters counters, struct counters base)
{
	struct roster_entry entry = {.bytes_read = counters.rchar,
				     .bytes_written = counters.wchar,
				     .base_read = base.rchar,
				     .base_written = base.wchar};

	if (!log_exists()) {
		entry.explained_read = LOG_COUNTED(other_bytes_read) +
				       LOG_COUNTED(ignored_bytes_read) +
				       LOG_COUNTED(own_bytes_read);
		entry.explained_written = LOG_COUNTED(other_bytes_written) +
					  LOG_COUNTED(ignored_bytes_written);
		entry.dropped_records = LOG_COUNTED(dropped_records);
	}
	roster_end(entry);
}

void process_ends(void)
{
	struct counters counters, base = {0};
	uint64_t own_bytes;
	bool known;

	if (!capture_is_on || log_is_borrowed())
		return;
	rings_look();
	known = read_counters(&counters, &own_bytes);
	if (log_generation() == 1)
		base = at_start;
	if (!known) { /* no /proc, no descriptor left: the list still tells what was dropped */
		if (!log_exists())
			leave_roster(base, base);
		return;
	}
	counters.rchar += (int64_t)own_bytes;
	leave_roster(counters, base);
	if (!log_exists())
		return;
#define APPEND(name) append_counter(#name, counters.name - base.name);
	FOR_EACH_COUNTER(APPEND)
#undef APPEND
}

static void before_fork(void)
{
	if (capture_is_on && !log_is_borrowed())
		descriptors_shared(false);
}

static void after_fork_in_child(void)
{
	/* Already renewed, unless the kernel is too old to mark forks itself. */
	if (capture_is_on && log_is_borrowed())
		log_renew();
	if (capture_is_on)
		roster_begin();
}

static uint64_t limit_bytes(void)
{
	const char *text = getenv("IOTRACE_LOG_LIMIT_BYTES");
	uint64_t limit = text ? strtoull(text, NULL, 10) : 0;

	return limit ? limit : DEFAULT_LIMIT_BYTES;
}

static __attribute__((constructor)) void start(void)
{
	const char *folder = getenv("IOTRACE_LOG_DIR");
	int saved_errno = errno;

	real_resolve();
	if (folder && *folder && log_start(folder, limit_bytes()) == 0 &&
	    scope_start(getenv("IOTRACE_SYSTEM"), getenv("IOTRACE_INCLUDE"),
			getenv("IOTRACE_EXCLUDE"), getenv("IOTRACE_STANDARD")) == 0) {
		keeper_start(getenv("IOTRACE_KEEPER"));
		read_counters(&at_start, NULL); /* before anything else of our own is read */
		if (RAW(SYS_faccessat, AT_FDCWD, folder, F_OK) == -ENOENT)
			path_find_root(); /* behind a root folder of its own */
		roster_start(folder);
		log_tell_refusal(roster_unlogged);
		roster_begin();
		exec_start();
		pthread_atfork(before_fork, NULL, after_fork_in_child);
		capture_is_on = true;
	}
	errno = saved_errno;
}

static __attribute__((destructor)) void end(void)
{
	if (capture_is_on && !log_is_borrowed())
		streams_end();
	process_ends();
}

/* --- clone() ----------------------------------------------------------- */

struct start {
	int (*function)(void *);
	void *argument;
};

/* libc ends such a child by a bare system call, as soon as its function returns. */
static int run_child(void *argument)
{
	struct start start = *(struct start *)argument;
	int status;

	after_fork_in_child();
	status = start.function(start.argument);
	process_ends();
	return status;
}

/* A child with memory of its own is recorded, one in ours is not; others are threads. */
EXPORT int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
	struct start start = {function, argument};
	pid_t *parent_tid, *child_tid;
	va_list list;
	void *tls;

	va_start(list, argument);
	parent_tid = va_arg(list, pid_t *);
	tls = va_arg(list, void *);
	child_tid = va_arg(list, pid_t *);
	va_end(list);
	if (capture_is_on && (flags & (CLONE_VM | CLONE_THREAD | CLONE_VFORK)) == CLONE_VM)
		descriptors_have_guests();
	if (!capture_is_on || !function || flags & CLONE_VM)
		return real.clone(function, stack, flags, argument, parent_tid, tls, child_tid);
	before_fork();
	return real.clone(run_child, stack, flags, &start, parent_tid, tls, child_tid);
}

#define EXIT(name)                                                            \
	EXPORT __attribute__((noreturn)) void name(int status)                \
	{                                                                     \
		process_ends();                                               \
		real.name(status);                                            \
		__builtin_unreachable();                                      \
	}

EXIT(_exit)
EXIT(_Exit)

/* --- for the hooks ----------------------------------------------------- */

EXPORT int iotrace_note(uint64_t start_ns, uint64_t end_ns, const char *json, size_t bytes)
{
	struct record record = {.start_ns = start_ns, .end_ns = end_ns, .offset = -1,
				.length = -1, .op = OP_NOTE};

	if (!capture_is_on || log_is_borrowed())
		return -ENODEV;
	rings_look();
	return log_append(&record, json, bytes) ? 0 : -ENOSPC;
}

EXPORT void iotrace_pause(int on)
{
	this_thread.paused += on ? 1 : -1;
}
