/* SPDX-License-Identifier: MIT */
/*
 * io_uring: one ring, one thread. Data, syncs and allocations go through the
 * ring; names, opens and the like are one short system call each, made at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "loop.h"
#include "ring.h"

#define BATCH_MAX 32 /* entries queued before a submission that does not wait */
#define BATCH_COPIED_BYTES (64 * 1024) /* copying more delays those queued already: submit them */
#define REGISTRATION_PAYS 16 /* data requests through one open; two extra system calls */

struct uring_run {
	struct loop loop;
	struct ring ring;
	int *places; /* of handles among the registered files; -1: none */
};

static int register_handles(struct uring_run *run)
{
	const struct loop *loop = &run->loop;
	uint32_t wanted = 0;

	run->places = malloc(((size_t)loop->job->handle_count + 1) * sizeof(*run->places));
	if (!run->places)
		return -ENOMEM;
	for (int32_t i = 0; i < loop->job->handle_count; i++) {
		run->places[i] = -1;
		wanted += loop->handles[i].demand >= REGISTRATION_PAYS;
	}
	if (loop->options->registered_files && wanted)
		ring_register_files(&run->ring, wanted);
	return 0;
}

static void register_memory(struct uring_run *run)
{
	struct loop *loop = &run->loop;
	struct iovec buffers[RING_BUFFERS_MAX];
	int64_t reach = tape_bytes(loop->tape) + loop->longest_transfer_bytes;
	int count = 0;

	if (!loop->options->registered_buffers)
		return;
	if (loop->longest_transfer_bytes) {
		buffers[count] = tape_source_extent(loop->tape);
		if ((int64_t)buffers[count].iov_len > reach)
			buffers[count].iov_len = reach;
		count++;
	}
	if (loop->landing.chunk_bytes)
		buffers[count++] = (struct iovec){
			loop->landing.base, loop->landing.chunk_bytes * loop->landing.chunk_count
		};
	if (loop->staging)
		buffers[count++] = (struct iovec){ loop->staging, loop->staging_size };
	if (count)
		ring_register_buffers(&run->ring, buffers, count);
}

static void prepare_data(struct uring_run *run, struct io_uring_sqe *sqe, const struct slot *slot,
			 int fd)
{
	bool read = slot->request->op == LOOP_READ;
	uint64_t offset = slot->request->offset + slot->done;
	uint32_t bytes = slot->transfer_bytes;
	int buffer;

	if (slot->vectored) {
		if (read)
			io_uring_prep_readv(sqe, fd, slot->iov, slot->iov_count, offset);
		else
			io_uring_prep_writev(sqe, fd, slot->iov, slot->iov_count, offset);
		return;
	}
	buffer = ring_buffer_of(&run->ring, slot->buffer, bytes);
	if (buffer < 0 && read)
		io_uring_prep_read(sqe, fd, slot->buffer, bytes, offset);
	else if (buffer < 0)
		io_uring_prep_write(sqe, fd, slot->buffer, bytes, offset);
	else if (read)
		io_uring_prep_read_fixed(sqe, fd, slot->buffer, bytes, offset, buffer);
	else
		io_uring_prep_write_fixed(sqe, fd, slot->buffer, bytes, offset, buffer);
}

static void prepare_other(struct io_uring_sqe *sqe, const struct slot *slot, int fd)
{
	const struct loop_request *request = slot->request;

	if (request->op == LOOP_ALLOCATE) {
		io_uring_prep_fallocate(sqe, fd, request->flags, request->offset, request->length);
		return;
	}
	io_uring_prep_fsync(sqe, fd, request->flags == 0 ? 0 : IORING_FSYNC_DATASYNC);
}

/* Whether the ring carries it; what is left is short, or rare. */
static bool goes_through_ring(const struct slot *slot)
{
	const struct loop_request *request = slot->request;

	if (slot->fd < 0 || request->mapping)
		return false;
	if (request->op == LOOP_SYNC)
		return request->flags == 0 || request->flags == 1 || request->flags == 3;
	return is_data(request) || request->op == LOOP_ALLOCATE;
}

static void queue(struct uring_run *run, struct slot *slot)
{
	int place = run->places[slot->request->handle];
	int fd = place < 0 ? slot->fd : place;
	struct io_uring_sqe *sqe;

	if (is_data(slot->request))
		transfer_prepare(&run->loop, slot);
	sqe = ring_entry(&run->ring);
	if (is_data(slot->request)) {
		prepare_data(run, sqe, slot, fd);
		sqe->rw_flags = transfer_flags(&run->loop, slot);
	} else {
		prepare_other(sqe, slot, fd);
	}
	if (place >= 0)
		sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = (uintptr_t)slot;
}

/* Registration is ours, not the job's: it stays outside the timed open and close. */
static void perform_now(struct uring_run *run, struct slot *slot)
{
	const struct loop_request *request = slot->request;
	int *place = request->handle < 0 ? NULL : &run->places[request->handle];

	if (request->op == LOOP_CLOSE && *place >= 0) {
		ring_remove_file(&run->ring, *place);
		*place = -1;
	}
	perform(&run->loop, slot);
	if (request->op == LOOP_OPEN && slot->fd >= 0 &&
	    run->loop.handles[request->handle].demand >= REGISTRATION_PAYS)
		*place = ring_add_file(&run->ring, slot->fd);
	loop_finish(&run->loop, slot);
}

/* The request is over unless bytes are left to move. */
static void settle(struct uring_run *run, struct slot *slot, int64_t result, int64_t now)
{
	if (!is_data(slot->request)) {
		slot->result = result;
		slot->end_ns = now;
		loop_finish(&run->loop, slot);
	} else if (transfer_advance(&run->loop, slot, result, now)) {
		loop_finish(&run->loop, slot);
	} else {
		queue(run, slot);
	}
}

/* After a submission that failed for good: nothing that is queued will ever start. */
static void fail_queued(struct uring_run *run, int error)
{
	uint64_t user_data;

	while ((user_data = ring_withdraw(&run->ring))) {
		struct slot *slot = (struct slot *)(uintptr_t)user_data;

		slot->result = error;
		slot->end_ns = clock_ns();
		loop_complete(&run->loop, slot);
	}
	run->loop.stopping = true;
}

/* Submit what is queued before a call that may take long: it is not to wait for another's open. */
static int let_go(struct uring_run *run, struct slot *slot)
{
	int error;

	if (!run->ring.queued)
		return 0;
	error = ring_enter(&run->ring, false, INT64_MAX);
	slot->start_ns = clock_ns();
	return error;
}

/* Start all that may start. */
static int start_ready(struct uring_run *run, int64_t *wake)
{
	struct slot *slot;

	while ((slot = loop_take(&run->loop, clock_ns(), wake))) {
		if (!goes_through_ring(slot)) {
			int error = let_go(run, slot);

			perform_now(run, slot);
			if (error)
				return error;
			*wake = INT64_MAX; /* its completion may have set others free */
			continue;
		}
		if (is_data(slot->request))
			transfer_begin(slot);
		queue(run, slot);
		if (run->ring.queued < BATCH_MAX && slot->staged_bytes < BATCH_COPIED_BYTES)
			continue;
		int error = ring_enter(&run->ring, false, INT64_MAX);

		if (error)
			return error;
	}
	return 0;
}

static void reap(struct uring_run *run)
{
	int64_t now = clock_ns();
	uint64_t user_data;
	int32_t result;

	while (ring_reap(&run->ring, &user_data, &result))
		settle(run, (struct slot *)(uintptr_t)user_data, result, now);
}

static int step(struct uring_run *run)
{
	int64_t wake = INT64_MAX, arrival;
	int error;

	loop_receive(&run->loop, clock_ns());
	error = start_ready(run, &wake);
	if (error)
		return error;
	if (loop_finished(&run->loop))
		return 0;
	arrival = loop_arrival(&run->loop);
	if (arrival < wake)
		wake = arrival;
	if (run->loop.in_flight)
		error = ring_enter(&run->ring, true, loop_wake(&run->loop, wake));
	else if (wake == INT64_MAX && !run->loop.held)
		return -EDEADLK;
	else
		sleep_until(loop_wake(&run->loop, wake));
	reap(run);
	return error;
}

static int drive(struct uring_run *run)
{
	int error = 0;

	loop_begin(&run->loop);
	while (!error && !loop_finished(&run->loop))
		error = step(run);
	if (error)
		fail_queued(run, error);
	/* Buffers must outlive what the kernel still works on. */
	while (run->ring.in_kernel && !ring_enter(&run->ring, true, INT64_MAX)) {
		reap(run);
		fail_queued(run, error);
	}
	loop_end(&run->loop);
	return error;
}

int loop_run_uring(const struct loop_job *job, const struct loop_options *options,
		   struct tape *tape, struct loop_timing *timings, struct loop_report *report)
{
	struct uring_run run = { 0 };
	int error = loop_setup(&run.loop, job, options, tape, timings, report, SLOTS_MAX);

	if (!error)
		error = ring_open(&run.ring, run.loop.slot_count ? run.loop.slot_count : 1,
				  options->submission_thread);
	if (error) {
		loop_teardown(&run.loop);
		return error;
	}
	error = register_handles(&run);
	if (!error) {
		register_memory(&run);
		error = drive(&run);
	}
	report->features |= run.ring.features;
	report->refused |= run.ring.refused;
	report->submissions = run.ring.submissions;
	report->retries += run.ring.retries;
	ring_close(&run.ring);
	loop_teardown(&run.loop);
	free(run.places);
	return error;
}
