/* SPDX-License-Identifier: MIT */
/* The core: which request may start, and what its completion sets free. */
#define _GNU_SOURCE
#include <errno.h>

#include "loop.h"

bool loop_is_stopping(const struct loop *loop)
{
	return loop->stopping || (loop->options->stop && *loop->options->stop) ||
	       __atomic_load_n(&loop->progress->stop, __ATOMIC_RELAXED);
}

bool loop_finished(const struct loop *loop)
{
	return !loop->in_flight && (loop_is_stopping(loop) || !loop->active_count);
}

int64_t loop_wake(struct loop *loop, int64_t wake)
{
	int64_t soon;

	if (loop->held) {
		soon = clock_ns() + loop->patience_ns;
		loop->patience_ns *= 2;
		if (loop->patience_ns > PATIENCE_MOST_NS)
			loop->patience_ns = PATIENCE_MOST_NS;
	} else if (!(loop->options->stop || loop->shared) || wake == INT64_MAX) {
		return wake;
	} else {
		soon = clock_ns() + STOP_SEEN_WITHIN_NS;
	}
	return wake < soon ? wake : soon;
}

static bool fences_are_open(const struct loop *loop, int64_t index,
			    const struct loop_request *request)
{
	const struct loop_progress *progress = loop->progress;
	const struct loop_file_progress *file;

	if (__atomic_load_n(&progress->global_fences_done, __ATOMIC_ACQUIRE) <
	    request->global_fences)
		return false;
	if (request->fence == 2)
		return __atomic_load_n(&progress->done, __ATOMIC_ACQUIRE) == index;
	if (request->file < 0)
		return true;
	file = &progress->files[request->file];
	if (__atomic_load_n(&file->fences_done, __ATOMIC_ACQUIRE) < request->file_fences)
		return false;
	return !request->fence ||
	       __atomic_load_n(&file->done, __ATOMIC_ACQUIRE) == request->file_before;
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

/* Whether a stream that goes ahead of another has gone as far as it may. */
static bool is_far_ahead(const struct loop *loop, const struct stream *stream, int64_t index)
{
	int32_t leads = loop->job->stream_leads ? loop->job->stream_leads[stream - loop->streams] : -1;
	const struct stream *other = leads < 0 ? stream : &loop->streams[leads];

	return other->next < other->end && loop->job->stream_order[other->next] < index;
}

static bool may_start(struct loop *loop, const struct stream *stream, int64_t now,
		      int64_t *wake)
{
	int64_t index = loop->job->stream_order[stream->next];
	const struct loop_request *request = &loop->job->requests[index];
	int64_t when;

	if (stream->in_flight >= loop->options->queue_depth)
		return false;
	if (!fences_are_open(loop, index, request)) {
		loop->held = loop->shared;
		return false;
	}
	if (is_far_ahead(loop, stream, index))
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
static int64_t find_ready(struct loop *loop, int64_t now, int64_t *wake)
{
	loop->held = false;
	if (loop_is_stopping(loop) || !loop->free_slots)
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
	loop->patience_ns = PATIENCE_LEAST_NS;
	stream = &loop->streams[loop->active[place]];
	slot = loop->free_slots;
	loop->free_slots = slot->next;
	slot->index = loop->job->stream_order[stream->next++];
	slot->request = &loop->job->requests[slot->index];
	/* `now` may be from before another worker's last request, which this one waited for. */
	slot->start_ns = loop->shared ? clock_ns() : now;
	slot->resubmissions = slot->retries = slot->staged_bytes = slot->mismatched_bytes = 0;
	slot->cut = false;
	slot->staged = transfer_is_staged(loop, slot->request);
	if (slot->staged)
		slot->staging = loop->free_staging[--loop->staging_free];
	landing_take(loop, slot);
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

static void count_shared(struct loop_file_progress *file, bool fence)
{
	if (!file)
		return;
	__atomic_fetch_add(&file->done, 1, __ATOMIC_RELEASE);
	if (fence)
		__atomic_fetch_add(&file->fences_done, 1, __ATOMIC_RELEASE);
}

static void open_fences(struct loop *loop, const struct loop_request *request)
{
	struct loop_progress *progress = loop->progress;
	struct loop_file_progress *file = request->file < 0 ? NULL : &progress->files[request->file];
	bool fence = request->fence != 0, everything = request->fence == 2;

	if (loop->shared) {
		count_shared(file, fence);
		__atomic_fetch_add(&progress->done, 1, __ATOMIC_RELEASE);
		if (everything)
			__atomic_fetch_add(&progress->global_fences_done, 1, __ATOMIC_RELEASE);
		return;
	}
	progress->done++;
	progress->global_fences_done += everything;
	if (!file)
		return;
	file->done++;
	file->fences_done += fence;
}

static void note_lowest(int64_t *lowest, int64_t index)
{
	if (*lowest < 0 || index < *lowest)
		*lowest = index;
}

static bool has_failed(const struct slot *slot)
{
	const struct loop_request *request = slot->request;

	if (request->op == LOOP_MKDIR && slot->result == -EEXIST)
		return false; /* a folder that files were prepared in */
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
	report->cut_reads += slot->cut;
	report->staged_bytes += slot->staged_bytes;
	report->mismatched_bytes += slot->mismatched_bytes;
	if (slot->mismatched_bytes)
		note_lowest(&report->first_mismatch, slot->index);
	if (!has_failed(slot))
		return;
	note_lowest(&report->first_error, slot->index);
	if (loop->options->stop_on_error)
		__atomic_store_n(&loop->progress->stop, 1, __ATOMIC_RELAXED);
}

void loop_complete(struct loop *loop, struct slot *slot)
{
	account(loop, slot);
	release_handle(loop, slot);
	open_fences(loop, slot->request);
	if (slot->staged)
		loop->free_staging[loop->staging_free++] = slot->staging;
	landing_give(loop, slot);
	loop->streams[slot->request->stream].in_flight--;
	loop->in_flight--;
	slot->next = loop->free_slots;
	loop->free_slots = slot;
}

void loop_progress_add(struct loop_progress *progress, int64_t done, uint32_t global_fences_done,
		       const int64_t *numbers, const struct loop_file_progress *files,
		       int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		struct loop_file_progress *file = &progress->files[numbers[i]];

		__atomic_fetch_add(&file->done, files[i].done, __ATOMIC_RELEASE);
		__atomic_fetch_add(&file->fences_done, files[i].fences_done, __ATOMIC_RELEASE);
	}
	__atomic_fetch_add(&progress->done, done, __ATOMIC_RELEASE);
	__atomic_fetch_add(&progress->global_fences_done, global_fences_done, __ATOMIC_RELEASE);
}
