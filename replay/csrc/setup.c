/* SPDX-License-Identifier: MIT */
/* Before and after a run: everything a run needs is there before its clock starts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop.h"

#define STAGING_BUDGET_BYTES (INT64_C(1) << 30) /* also the kernel's limit on a registered buffer */
#define CHECK_STAGING_BYTES (64 << 20) /* checked reads are cut here: checking is not measured */
#define SPARE_DESCRIPTORS 64

/* The requests of this worker are the first so many of stream_order. */
static int64_t own_count(const struct loop *loop)
{
	return loop->job->stream_starts[loop->options->stream_count];
}

static const struct loop_request *own_request(const struct loop *loop, int64_t place)
{
	return &loop->job->requests[loop->job->stream_order[place]];
}

static uint64_t slots_wanted(const struct loop *loop)
{
	uint64_t slots = (uint64_t)loop->options->queue_depth * loop->active_count;
	uint64_t requests = own_count(loop);

	return slots < requests ? slots : requests;
}

static void survey_map(struct loop *loop, const struct loop_request *request)
{
	struct handle *handle = &loop->handles[request->handle];

	loop->maps = true;
	handle->mapping = request->mapping;
	handle->map_bytes = max64(handle->map_bytes, request->offset + request->length);
}

static void survey_handles(struct loop *loop)
{
	const struct loop_job *job = loop->job;

	for (int32_t i = 0; i < job->handle_count; i++)
		loop->handles[i].fd = -1;
	for (int64_t i = 0; i < own_count(loop); i++) {
		const struct loop_request *request = own_request(loop, i);

		if (request->handle < 0)
			continue;
		if (request->op == LOOP_OPEN)
			loop->handles[request->handle].direct = request->flags & O_DIRECT;
		if (is_data(request))
			loop->handles[request->handle].demand++;
		if (request->op == LOOP_READ && request->mapping)
			survey_map(loop, request);
	}
}

/* Returns the most memory that what a request reads lands in. */
static int64_t survey_requests(struct loop *loop)
{
	int64_t longest = 0, landing = 0, staged = 0, segments = 1, span = tape_span(loop->tape);

	for (int64_t i = 0; i < own_count(loop); i++) {
		const struct loop_request *request = own_request(loop, i);

		if (!is_data(request))
			continue;
		struct transfer_needs needs = transfer_survey(loop, request);

		if (request->op == LOOP_READ && loop->options->check_reads &&
		    needs.copied_bytes > CHECK_STAGING_BYTES)
			needs.copied_bytes = CHECK_STAGING_BYTES;
		if (needs.copied_bytes > staged)
			staged = needs.copied_bytes;
		if (needs.segments > segments)
			segments = needs.segments;
		loop->writes |= request->op == LOOP_WRITE;
		if (request->op == LOOP_WRITE && request->length > longest)
			longest = request->length;
		if (transfer_landing(loop, request) > landing)
			landing = transfer_landing(loop, request);
	}
	loop->longest_transfer_bytes = longest < span ? longest : span;
	loop->iov_capacity = segments < IOV_CAPACITY_MAX ? segments : IOV_CAPACITY_MAX;
	staged = (staged + DIRECT_BLOCK_BYTES - 1) & -(int64_t)DIRECT_BLOCK_BYTES;
	loop->staging_bytes = staged && loop->options->staging_bytes ? loop->options->staging_bytes
								     : staged;
	return landing;
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
		loop->slots[i].next = loop->free_slots;
		loop->free_slots = &loop->slots[i];
	}
	return 0;
}

/* What is read lands in as much again, so that workers together do not ask for more than there is. */
static int64_t staging_budget(const struct loop *loop)
{
	int64_t most = loop->options->landing_bytes;

	return most ? min64(most, STAGING_BUDGET_BYTES) : STAGING_BUDGET_BYTES;
}

/* One buffer per slot, as far as the budget goes; requests then wait for a buffer. */
static int setup_staging(struct loop *loop)
{
	int64_t bytes = loop->staging_bytes;
	int64_t affordable;

	if (bytes < DIRECT_BLOCK_BYTES || bytes % DIRECT_BLOCK_BYTES)
		return -EINVAL;
	affordable = staging_budget(loop) / bytes;
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

static int setup_progress(struct loop *loop)
{
	size_t files_bytes = (size_t)loop->job->file_count * sizeof(struct loop_file_progress);

	loop->patience_ns = PATIENCE_LEAST_NS;
	loop->progress = loop->options->progress;
	loop->shared = loop->progress && loop->progress->workers != 1;
	if (!loop->progress)
		loop->progress = calloc(1, sizeof(*loop->progress) + files_bytes);
	return loop->progress ? 0 : -ENOMEM;
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
	uint64_t slots;
	int64_t landing;
	int error;

	*loop = (struct loop){ .job = job, .options = options, .tape = tape, .timings = timings,
			       .report = report };
	*report = (struct loop_report){ .first_mismatch = -1, .first_error = -1 };
	*(tape_is_huge(tape) ? &report->features : &report->refused) |= LOOP_FEATURE_HUGE_PAGES;
	loop->timer_slack_ns = prctl(PR_GET_TIMERSLACK);
	prctl(PR_SET_TIMERSLACK, 1); /* instead of 50 us; helper threads inherit it */
	if (!options->queue_depth)
		return -EINVAL;
	for (int64_t i = 0; i < own_count(loop); i++)
		timings[job->stream_order[i]] = (struct loop_timing){ 0 };
	loop->handles = calloc((size_t)job->handle_count + 1, sizeof(*loop->handles));
	error = setup_progress(loop);
	if (!loop->handles || error)
		return -ENOMEM;
	allow_descriptors(job->handle_count);
	survey_handles(loop);
	landing = survey_requests(loop);
	error = setup_streams(loop);
	slots = error ? 0 : slots_wanted(loop);
	if (!error)
		error = setup_slots(loop, slots < slots_max ? slots : slots_max);
	report->in_flight_wanted = slots;
	report->in_flight_limit = loop->slot_count;
	if (!error && loop->staging_bytes) {
		error = setup_staging(loop);
		if (loop->staging_count < loop->slot_count)
			report->in_flight_limit = loop->staging_count;
	}
	mapping_setup(loop);
	if (!error && landing)
		error = landing_setup(loop, landing);
	if (!error && loop->writes)
		tape_prefault(tape, loop->longest_transfer_bytes);
	return error;
}

void loop_teardown(struct loop *loop)
{
	prctl(PR_SET_TIMERSLACK, loop->timer_slack_ns);
	mapping_teardown(loop);
	for (int32_t i = 0; loop->handles && i < loop->job->handle_count; i++)
		if (loop->handles[i].fd >= 0)
			close(loop->handles[i].fd);
	if (loop->staging)
		munmap(loop->staging, loop->staging_size);
	free(loop->free_staging);
	landing_teardown(loop);
	free(loop->iovs);
	free(loop->slots);
	free(loop->active);
	free(loop->streams);
	if (!loop->options->progress)
		free(loop->progress);
	free(loop->handles);
}
