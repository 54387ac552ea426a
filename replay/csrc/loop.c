/* SPDX-License-Identifier: MIT */
/* The core: which request may start, and what its completion sets free. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

#define STAGING_BUDGET_BYTES (INT64_C(1) << 30) /* also the kernel's limit on a registered buffer */
#define SPARE_DESCRIPTORS 64

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

static bool is_data(const struct loop_request *request)
{
	return request->op == LOOP_READ || request->op == LOOP_WRITE;
}

/* --- set-up --- */

static uint64_t slots_wanted(const struct loop_job *job, const struct loop_options *options)
{
	uint64_t slots = (uint64_t)options->queue_depth * options->stream_count;

	return slots < (uint64_t)job->request_count ? slots : (uint64_t)job->request_count;
}

static void survey_handles(struct loop *loop)
{
	const struct loop_job *job = loop->job;

	for (int32_t i = 0; i < job->handle_count; i++)
		loop->handles[i].fd = -1;
	for (int64_t i = 0; i < job->request_count; i++) {
		const struct loop_request *request = &job->requests[i];

		if (request->handle < 0)
			continue;
		if (request->op == LOOP_OPEN)
			loop->handles[request->handle].direct = request->flags & O_DIRECT;
		if (is_data(request))
			loop->handles[request->handle].demand++;
	}
}

static bool survey_requests(struct loop *loop)
{
	const struct loop_job *job = loop->job;
	int64_t longest = 0, span = tape_span(loop->tape);
	bool staged = false;

	for (int64_t i = 0; i < job->request_count; i++) {
		const struct loop_request *request = &job->requests[i];

		if (!is_data(request))
			continue;
		staged |= transfer_is_staged(loop, request);
		loop->reads |= request->op == LOOP_READ;
		loop->writes |= request->op == LOOP_WRITE;
		if (request->length > longest)
			longest = request->length;
		if (request->gather && request->piece_count > (int32_t)loop->iov_capacity)
			loop->iov_capacity = request->piece_count;
	}
	loop->longest_transfer_bytes = longest < span ? longest : span;
	if (loop->iov_capacity > IOV_CAPACITY_MAX)
		loop->iov_capacity = IOV_CAPACITY_MAX;
	return staged;
}

static int setup_slots(struct loop *loop, uint32_t count)
{
	loop->slots = calloc(count + 1, sizeof(*loop->slots));
	loop->iovs = calloc((size_t)count * loop->iov_capacity + 1, sizeof(*loop->iovs));
	if (!loop->slots || !loop->iovs)
		return -ENOMEM;
	loop->slot_count = count;
	for (uint32_t i = 0; i < count; i++) {
		loop->slots[i].iov = loop->iovs + (size_t)i * loop->iov_capacity;
		loop->slots[i].next_free = loop->free_slots;
		loop->free_slots = &loop->slots[i];
	}
	return 0;
}

/* One buffer per slot, as far as the budget goes; requests then wait for a buffer. */
static int setup_staging(struct loop *loop)
{
	int64_t bytes = loop->options->staging_bytes;
	int64_t affordable;

	if (bytes < DIRECT_BLOCK_BYTES || bytes % DIRECT_BLOCK_BYTES)
		return -EINVAL;
	affordable = STAGING_BUDGET_BYTES / bytes;
	if (affordable < 1)
		affordable = 1;
	loop->staging_count = affordable < loop->slot_count ? affordable : loop->slot_count;
	loop->staging_size = bytes * loop->staging_count;
	loop->free_staging = calloc(loop->staging_count, sizeof(*loop->free_staging));
	if (!loop->free_staging)
		return -ENOMEM;
	loop->staging = mmap(NULL, loop->staging_size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (loop->staging == MAP_FAILED) {
		loop->staging = NULL;
		return -ENOMEM;
	}
	madvise(loop->staging, loop->staging_size, MADV_HUGEPAGE);
	memset(loop->staging, 0, loop->staging_size); /* pages now, not in the timed part */
	for (uint32_t i = 0; i < loop->staging_count; i++)
		loop->free_staging[loop->staging_free++] = loop->staging + i * bytes;
	return 0;
}

static int setup_streams(struct loop *loop)
{
	uint32_t count = loop->options->stream_count;

	loop->streams = calloc(count + 1, sizeof(*loop->streams));
	loop->active = calloc(count + 1, sizeof(*loop->active));
	if (!loop->streams || !loop->active)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		loop->streams[i].next = loop->job->stream_starts[i];
		loop->streams[i].end = loop->job->stream_starts[i + 1];
		loop->streams[i].previous = -1;
		if (loop->streams[i].next < loop->streams[i].end)
			loop->active[loop->active_count++] = i;
	}
	return 0;
}

/* A job may hold more files open than the soft limit allows. */
static void allow_descriptors(rlim_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= count + SPARE_DESCRIPTORS)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit); /* if refused, opens fail with EMFILE and say so */
}

int loop_setup(struct loop *loop, const struct loop_job *job, const struct loop_options *options,
	       struct tape *tape, struct loop_timing *timings, struct loop_report *report,
	       uint32_t slots_max)
{
	uint64_t slots = slots_wanted(job, options);
	int error;

	*loop = (struct loop){ .job = job, .options = options, .tape = tape, .timings = timings,
			       .report = report };
	*report = (struct loop_report){ .first_mismatch = -1, .first_error = -1 };
	*(tape_is_huge(tape) ? &report->features : &report->refused) |= LOOP_FEATURE_HUGE_PAGES;
	loop->timer_slack_ns = prctl(PR_GET_TIMERSLACK);
	prctl(PR_SET_TIMERSLACK, 1); /* instead of 50 us; helper threads inherit it */
	if (!options->queue_depth)
		return -EINVAL;
	memset(timings, 0, job->request_count * sizeof(*timings));
	loop->handles = calloc((size_t)job->handle_count + 1, sizeof(*loop->handles));
	loop->files = calloc((size_t)job->file_count + 1, sizeof(*loop->files));
	if (!loop->handles || !loop->files)
		return -ENOMEM;
	allow_descriptors(job->handle_count);
	survey_handles(loop);

	bool staged = survey_requests(loop);

	error = setup_streams(loop);
	if (!error)
		error = setup_slots(loop, slots < slots_max ? slots : slots_max);
	report->in_flight_wanted = slots;
	report->in_flight_limit = loop->slot_count;
	if (!error && staged) {
		error = setup_staging(loop);
		if (loop->staging_count < loop->slot_count)
			report->in_flight_limit = loop->staging_count;
	}
	if (!error)
		tape_prefault(tape, loop->longest_transfer_bytes, loop->reads);
	return error;
}

void loop_teardown(struct loop *loop)
{
	prctl(PR_SET_TIMERSLACK, loop->timer_slack_ns);
	for (int32_t i = 0; loop->handles && i < loop->job->handle_count; i++)
		if (loop->handles[i].fd >= 0)
			close(loop->handles[i].fd);
	if (loop->staging)
		munmap(loop->staging, loop->staging_size);
	free(loop->free_staging);
	free(loop->iovs);
	free(loop->slots);
	free(loop->active);
	free(loop->streams);
	free(loop->files);
	free(loop->handles);
}

/* --- the run --- */

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

void loop_begin(struct loop *loop)
{
	if (loop->options->start_ns > clock_ns())
		sleep_until(loop->options->start_ns);
	add_cpu_time(loop->report, -1);
	loop->report->start_ns = clock_ns();
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

bool loop_finished(const struct loop *loop)
{
	return !loop->in_flight && (loop->stopping || !loop->active_count);
}

static bool fences_are_open(const struct loop *loop, int64_t index,
			    const struct loop_request *request)
{
	const struct file_progress *file;

	if (loop->global_fences_done < request->global_fences)
		return false;
	if (request->fence == 2)
		return loop->done == index;
	if (request->file < 0)
		return true;
	file = &loop->files[request->file];
	if (file->fences_done < request->file_fences)
		return false;
	return !request->fence || file->done == request->file_before;
}

/* The earliest start; INT64_MAX while the request before it, to be thought about, is in flight. */
static int64_t earliest_start(const struct loop *loop, const struct stream *stream,
			      const struct loop_request *request)
{
	int64_t when = request->due_ns ? loop->report->start_ns + request->due_ns : 0;
	int64_t thought;

	if (!request->think_ns)
		return when;
	if (stream->in_flight)
		return INT64_MAX;
	thought = stream->previous < 0 ? loop->report->start_ns
				       : loop->timings[stream->previous].end_ns;
	thought += request->think_ns;
	return thought > when ? thought : when;
}

static bool may_start(const struct loop *loop, const struct stream *stream, int64_t now,
		      int64_t *wake)
{
	int64_t index = loop->job->stream_order[stream->next];
	const struct loop_request *request = &loop->job->requests[index];
	int64_t when;

	if (stream->in_flight >= loop->options->queue_depth)
		return false;
	if (!fences_are_open(loop, index, request))
		return false;
	if (request->op == LOOP_CLOSE && loop->handles[request->handle].users)
		return false;
	if (loop->staging_count && !loop->staging_free && transfer_is_staged(loop, request))
		return false;
	when = earliest_start(loop, stream, request);
	if (when <= now)
		return true;
	if (when < *wake)
		*wake = when;
	return false;
}

/* Streams take turns. Returns a place in `active`, or -1. */
static int64_t find_ready(const struct loop *loop, int64_t now, int64_t *wake)
{
	if (loop->stopping || !loop->free_slots)
		return -1;
	for (uint32_t i = 0; i < loop->active_count; i++) {
		uint32_t place = (loop->turn + i) % loop->active_count;

		if (may_start(loop, &loop->streams[loop->active[place]], now, wake))
			return place;
	}
	return -1;
}

bool loop_ready(struct loop *loop, int64_t now, int64_t *wake)
{
	return find_ready(loop, now, wake) >= 0;
}

static void hold_handle(struct loop *loop, struct slot *slot)
{
	const struct loop_request *request = slot->request;
	struct handle *handle;

	slot->fd = -1;
	if (request->handle < 0)
		return;
	handle = &loop->handles[request->handle];
	slot->fd = handle->fd;
	if (request->op == LOOP_CLOSE)
		handle->fd = -1;
	else
		handle->users++;
}

struct slot *loop_take(struct loop *loop, int64_t now, int64_t *wake)
{
	int64_t place = find_ready(loop, now, wake);
	struct slot *slot;
	struct stream *stream;

	if (place < 0)
		return NULL;
	stream = &loop->streams[loop->active[place]];
	slot = loop->free_slots;
	loop->free_slots = slot->next_free;
	slot->index = loop->job->stream_order[stream->next++];
	slot->request = &loop->job->requests[slot->index];
	slot->start_ns = now;
	slot->resubmissions = slot->retries = slot->staged_bytes = slot->mismatched_bytes = 0;
	slot->staged = transfer_is_staged(loop, slot->request);
	if (slot->staged)
		slot->staging = loop->free_staging[--loop->staging_free];
	hold_handle(loop, slot);
	stream->previous = slot->index;
	stream->in_flight++;
	loop->in_flight++;
	loop->turn = place + 1;
	if (stream->next == stream->end) {
		loop->active[place] = loop->active[--loop->active_count];
		loop->turn = place;
	}
	return slot;
}

static void release_handle(struct loop *loop, const struct slot *slot)
{
	const struct loop_request *request = slot->request;

	if (request->handle < 0 || request->op == LOOP_CLOSE)
		return;
	loop->handles[request->handle].users--;
	if (request->op == LOOP_OPEN)
		loop->handles[request->handle].fd = slot->fd < 0 ? -1 : slot->fd;
}

static void open_fences(struct loop *loop, const struct loop_request *request)
{
	loop->done++;
	loop->global_fences_done += request->fence == 2;
	if (request->file < 0)
		return;
	loop->files[request->file].done++;
	loop->files[request->file].fences_done += request->fence != 0;
}

static void note_lowest(int64_t *lowest, int64_t index)
{
	if (*lowest < 0 || index < *lowest)
		*lowest = index;
}

static bool has_failed(const struct slot *slot)
{
	const struct loop_request *request = slot->request;

	if (slot->result < 0)
		return true;
	return is_data(request) && slot->result < request->length &&
	       !(request->op == LOOP_READ && request->may_be_short);
}

static void account(struct loop *loop, const struct slot *slot)
{
	struct loop_report *report = loop->report;

	loop->timings[slot->index] =
		(struct loop_timing){ slot->start_ns, slot->end_ns, slot->result };
	report->resubmissions += slot->resubmissions;
	report->retries += slot->retries;
	report->staged_bytes += slot->staged_bytes;
	report->mismatched_bytes += slot->mismatched_bytes;
	if (slot->mismatched_bytes)
		note_lowest(&report->first_mismatch, slot->index);
	if (!has_failed(slot))
		return;
	note_lowest(&report->first_error, slot->index);
	if (loop->options->stop_on_error)
		loop->stopping = true;
}

void loop_complete(struct loop *loop, struct slot *slot)
{
	account(loop, slot);
	release_handle(loop, slot);
	open_fences(loop, slot->request);
	if (slot->staged)
		loop->free_staging[loop->staging_free++] = slot->staging;
	loop->streams[slot->request->stream].in_flight--;
	loop->in_flight--;
	slot->next_free = loop->free_slots;
	loop->free_slots = slot;
}
