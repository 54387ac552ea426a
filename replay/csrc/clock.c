/* SPDX-License-Identifier: MIT */
/* The clock of a run, from the start that all workers have in common to its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sleep_until(int64_t when_ns)
{
	struct timespec when = { when_ns / 1000000000, when_ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
		;
}

static int64_t timeval_ns(struct timeval time)
{
	return time.tv_sec * INT64_C(1000000000) + time.tv_usec * INT64_C(1000);
}

/* The kernel's io_uring workers are threads of this process: RUSAGE_SELF counts them. */
static void add_cpu_time(struct loop_report *report, int sign)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	report->cpu_user_ns += sign * timeval_ns(usage.ru_utime);
	report->cpu_system_ns += sign * timeval_ns(usage.ru_stime);
}

/*
 * Wait until all workers are set up; return when they start, or 0 when they are not to. They
 * sleep until woken: many that look again and again leave no time to set up the others.
 */
static int64_t common_start(const struct loop *loop)
{
	struct loop_progress *progress = loop->progress;
	struct timespec look = {
		.tv_nsec = progress->workers ? STOP_SEEN_WITHIN_NS : PATIENCE_LEAST_NS
	};
	int64_t start;

	if (__atomic_add_fetch(&progress->ready, 1, __ATOMIC_ACQ_REL) == progress->workers) {
		start = (clock_ns() + HEAD_START_NS) | 1; /* its lower half, waited on, is not 0 */
		__atomic_store_n(&progress->start_ns, start, __ATOMIC_RELEASE);
		syscall(SYS_futex, &progress->start_ns, FUTEX_WAKE, INT_MAX);
	}
	while (!(start = __atomic_load_n(&progress->start_ns, __ATOMIC_ACQUIRE)) &&
	       !loop_is_stopping(loop))
		syscall(SYS_futex, &progress->start_ns, FUTEX_WAIT, 0, &look);
	return start;
}

void loop_begin(struct loop *loop)
{
	int64_t start = loop->shared ? common_start(loop) : loop->options->start_ns;

	if (start > clock_ns())
		sleep_until(start);
	add_cpu_time(loop->report, -1);
	loop->report->start_ns = loop->shared && start ? start : clock_ns();
}

void loop_end(struct loop *loop)
{
	loop->report->end_ns = clock_ns();
	add_cpu_time(loop->report, 1);
	for (uint32_t i = 0; i < loop->options->stream_count; i++) {
		struct stream *stream = &loop->streams[i];

		for (int64_t k = stream->next; k < stream->end; k++)
			loop->timings[loop->job->stream_order[k]].result = -ECANCELED;
	}
}
