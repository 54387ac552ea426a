/* SPDX-License-Identifier: MIT */
/*
 * The loop without Python, for the sanitizers: a job of every op over both
 * backends, what no real kernel does on demand, and names that climb.
 * Usage: test_loop DIRECTORY. Exit status 0: all well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "loop.h"

#define TAPE_BYTES (2 << 20)
#define SPAN_BYTES (8 << 20)
#define BLOCK 4096
#define WRITES 24
#define STREAMS 2

typedef int run_function(const struct loop_job *, const struct loop_options *, struct tape *,
			 struct loop_timing *, struct loop_report *);

static const char *const PATHS[] = { "a", "b", "d", "c", "e", "../up" };

#define REQUESTS_MAX 256

struct script {
	struct loop_request requests[REQUESTS_MAX];
	struct loop_piece pieces[2 * REQUESTS_MAX];
	int64_t order[REQUESTS_MAX];
	int64_t starts[STREAMS + 1];
	struct loop_timing timings[REQUESTS_MAX];
	int64_t count, piece_count;
	uint32_t before[STREAMS], fences[STREAMS], global_fences;
};

static struct loop_request *add(struct script *script, int op, int stream, int file)
{
	struct loop_request *request = &script->requests[script->count++];

	*request = (struct loop_request){ .op = op, .stream = stream, .file = file,
					  .handle = file, .path = file, .target = -1 };
	return request;
}

static void add_data(struct script *script, int op, int file, int64_t offset, int64_t length,
		     bool gather)
{
	struct loop_request *request = add(script, op, file, file);
	int64_t first = length / 3;

	request->offset = offset;
	request->length = length;
	request->gather = gather;
	request->first_piece = script->piece_count;
	request->piece_count = 2;
	script->pieces[script->piece_count++] = (struct loop_piece){ offset, first, file, 0 };
	script->pieces[script->piece_count++] =
		(struct loop_piece){ offset + first, length - first, file, 0 };
}

static void fence(struct loop_request *request, int kind)
{
	request->fence = kind;
}

/* Count what the fences compare with, and sort the streams. */
static struct loop_job finish(struct script *script)
{
	int64_t at = 0;

	for (int64_t i = 0; i < script->count; i++) {
		struct loop_request *request = &script->requests[i];

		request->global_fences = script->global_fences;
		script->global_fences += request->fence == 2;
		if (request->file < 0)
			continue;
		request->file_before = script->before[request->file]++;
		request->file_fences = script->fences[request->file];
		script->fences[request->file] += request->fence != 0;
	}
	for (int stream = 0; stream < STREAMS; stream++) {
		script->starts[stream] = at;
		for (int64_t i = 0; i < script->count; i++)
			if (script->requests[i].stream == stream)
				script->order[at++] = i;
	}
	script->starts[STREAMS] = at;
	return (struct loop_job){
		.requests = script->requests,
		.request_count = script->count,
		.pieces = script->pieces,
		.piece_count = script->piece_count,
		.stream_order = script->order,
		.stream_starts = script->starts,
		.paths = PATHS,
		.path_count = sizeof(PATHS) / sizeof(PATHS[0]),
		.handle_count = STREAMS,
		.file_count = STREAMS,
	};
}

static void add_files(struct script *script, bool direct)
{
	for (int file = 0; file < STREAMS; file++) {
		struct loop_request *open = add(script, LOOP_OPEN, file, file);

		open->flags = O_RDWR | O_CREAT | O_TRUNC | (direct ? O_DIRECT : 0);
		open->mode = 0644;
		fence(open, 1);
		for (int i = 0; i < WRITES; i++)
			add_data(script, LOOP_WRITE, file, (int64_t)i * 3 * BLOCK,
				 direct ? 3 * BLOCK : 3 * BLOCK - i, i % 2);
		fence(add(script, LOOP_SYNC, file, file), 1);
		for (int i = 0; i < WRITES; i++)
			add_data(script, LOOP_READ, file, (int64_t)i * 3 * BLOCK,
				 direct ? 3 * BLOCK : 3 * BLOCK - i, i % 2);
	}
}

static void add_names(struct script *script)
{
	static const struct {
		int op, path, target;
	} STEPS[] = {
		{ LOOP_MKDIR, 2, -1 }, { LOOP_RENAME, 0, 3 }, { LOOP_LINK, 3, 4 },
		{ LOOP_UNLINK, 4, -1 }, { LOOP_RMDIR, 2, -1 }, { LOOP_EVICT, 3, -1 },
		{ LOOP_RENAME, 3, 0 },
	};

	for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
		struct loop_request *request = add(script, STEPS[i].op, 0, -1);

		request->path = STEPS[i].path;
		request->target = STEPS[i].target;
		request->mode = 0755;
		fence(request, 2);
	}
	for (int file = 0; file < STREAMS; file++) {
		struct loop_request *request = add(script, LOOP_TRUNCATE, file, file);

		request->length = WRITES * 3 * BLOCK;
		request->think_ns = 1000000;
		fence(request, 1);
		fence(add(script, LOOP_CLOSE, file, file), 1);
	}
}

static void check_results(const struct script *script, const struct loop_report *report,
			  int64_t round_trip_ns)
{
	for (int64_t i = 0; i < script->count; i++) {
		const struct loop_request *request = &script->requests[i];
		bool data = request->op == LOOP_READ || request->op == LOOP_WRITE;

		CHECK(script->timings[i].result == (data ? request->length : 0));
		CHECK(script->timings[i].start_ns >= report->start_ns);
		CHECK(script->timings[i].end_ns >=
		      script->timings[i].start_ns + (request->op == LOOP_EVICT ? 0 : round_trip_ns));
		CHECK(script->timings[i].end_ns <= report->end_ns);
	}
	CHECK(report->first_error == -1);
	CHECK(!report->mismatched_bytes);
}

static void map_reads(struct script *script)
{
	for (int64_t i = 0; i < script->count; i++)
		if (script->requests[i].op == LOOP_READ)
			script->requests[i].mapping = LOOP_MAPPING_PLAIN + i % 4;
}

static void test_every_op(run_function *run, int root_fd, struct tape *tape, bool direct,
			  bool mapped, uint32_t depth)
{
	struct script *script = calloc(1, sizeof(*script));
	struct loop_options options = { .queue_depth = depth, .stream_count = STREAMS,
					.staging_bytes = 2 * BLOCK, .root_fd = root_fd,
					.check_reads = 1, .registered_buffers = 1,
					.registered_files = 1,
					.round_trip_ns = depth > 1 ? 300000 : 0 };
	struct loop_report report;
	struct loop_job job;
	int64_t mismatched = -1;

	CHECK(script);
	add_files(script, direct);
	add_names(script);
	if (mapped)
		map_reads(script);
	job = finish(script);
	CHECK(!run(&job, &options, tape, script->timings, &report));
	check_results(script, &report, options.round_trip_ns);
	for (int file = 0; file < STREAMS && direct; file++) {
		int fd = loop_open_beneath(root_fd, PATHS[file], O_RDONLY, 0);

		CHECK(fd >= 0);
		CHECK(!loop_check_file(tape, fd, 0, WRITES * 3 * BLOCK, file, 0, &mismatched));
		CHECK(!mismatched);
		close(fd);
	}
	free(script);
}

static void test_errors(run_function *run, int root_fd, struct tape *tape)
{
	struct script *script = calloc(1, sizeof(*script));
	struct loop_options options = { .queue_depth = 4, .stream_count = STREAMS,
					.staging_bytes = BLOCK, .root_fd = root_fd,
					.stop_on_error = 1 };
	struct loop_report report;
	struct loop_job job;

	CHECK(script);
	add_data(script, LOOP_WRITE, 0, 0, BLOCK, false); /* through a handle that is not open */
	fence(add(script, LOOP_SYNC, 0, 0), 1);
	job = finish(script);
	CHECK(!run(&job, &options, tape, script->timings, &report));
	CHECK(script->timings[0].result == -EBADF && script->timings[1].result == -ECANCELED);
	CHECK(report.first_error == 0);

	script->order[0] = 1; /* the fence before what it waits for */
	script->order[1] = 0;
	options.stop_on_error = 0;
	CHECK(run(&job, &options, tape, script->timings, &report) == -EDEADLK);
	options.staging_bytes = 1;
	CHECK(run(&job, &options, tape, script->timings, &report) == -EINVAL);
	options.queue_depth = 0;
	CHECK(run(&job, &options, tape, script->timings, &report) == -EINVAL);
	free(script);
}

/* The file stops growing inside the third write, in the middle of its two pieces. */
static void test_short_writes(run_function *run, int root_fd, struct tape *tape)
{
	struct script *script = calloc(1, sizeof(*script));
	struct loop_options options = { .queue_depth = 1, .stream_count = STREAMS,
					.staging_bytes = 16 * BLOCK, .root_fd = root_fd };
	struct rlimit before, limit;
	struct loop_report report;
	struct loop_job job;

	CHECK(script);
	add(script, LOOP_OPEN, 0, 0)->flags = O_RDWR | O_CREAT | O_TRUNC;
	script->requests[0].mode = 0644;
	fence(&script->requests[0], 1);
	for (int i = 0; i < 3; i++)
		add_data(script, LOOP_WRITE, 0, i * 10000, 10000, i % 2);
	fence(add(script, LOOP_CLOSE, 0, 0), 1);
	job = finish(script);
	CHECK(!getrlimit(RLIMIT_FSIZE, &before));
	limit = (struct rlimit){ 25001, before.rlim_max };
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	CHECK(!run(&job, &options, tape, script->timings, &report));
	CHECK(!setrlimit(RLIMIT_FSIZE, &before));
	CHECK(script->timings[2].result == 10000 && script->timings[3].result == -EFBIG);
	CHECK(report.resubmissions == 1 && report.first_error == 3);
	free(script);
}

/* EAGAIN and EINTR are tried again, a bounded number of times. */
static void test_retries(struct tape *tape)
{
	struct loop_request request = { .op = LOOP_READ, .handle = -1, .file = -1, .length = 100,
					.piece_count = 1 };
	struct loop_piece piece = { 0, 100, 0, 0 };
	struct loop_job job = { .requests = &request, .request_count = 1, .pieces = &piece,
				.piece_count = 1 };
	struct loop_options options = { .queue_depth = 1 };
	static uint8_t landing[4 * BLOCK];
	struct loop loop = { .job = &job, .options = &options, .tape = tape, .iov_capacity = 1 };
	struct iovec iov;
	struct slot slot = { .request = &request, .iov = &iov, .landing = landing,
			     .landing_bytes = sizeof(landing) };
	int tries = 0;

	transfer_begin(&slot);
	transfer_prepare(&loop, &slot);
	CHECK(!transfer_advance(&loop, &slot, -EINTR, 1));
	CHECK(!transfer_advance(&loop, &slot, 40, 1));
	transfer_prepare(&loop, &slot);
	CHECK(slot.transfer_bytes == 60 && slot.resubmissions == 1 && slot.retries == 1);
	while (!transfer_advance(&loop, &slot, -EAGAIN, 2))
		CHECK(++tries <= RETRIES_MAX);
	CHECK(tries == RETRIES_MAX && slot.result == -EAGAIN && slot.end_ns == 2);

	transfer_begin(&slot);
	transfer_prepare(&loop, &slot);
	CHECK(!transfer_advance(&loop, &slot, 40, 3));
	transfer_prepare(&loop, &slot);
	CHECK(transfer_advance(&loop, &slot, 0, 4)); /* the end of the file */
	CHECK(slot.result == 40);
}

static int64_t landing_room(struct tape *tape, int64_t longest, uint32_t slots, int64_t most,
			    uint32_t workers)
{
	struct loop_options options = { .landing_bytes = most };
	struct loop_progress progress = { .workers = workers };
	struct loop loop = { .options = &options, .tape = tape, .slot_count = slots,
			     .shared = workers > 1, .progress = &progress };

	CHECK(!landing_setup(&loop, longest));
	CHECK(loop.landing.chunk_count == slots);
	landing_teardown(&loop);
	return loop.landing.chunk_bytes;
}

/* Room for the longest read, and as much as the tape in all, as far as the bound goes. */
static void test_landing(struct tape *tape)
{
	int64_t tape_part = tape_bytes(tape) / 4 & -(int64_t)BLOCK;

	CHECK(landing_room(tape, 1 << 20, 4, 0, 1) == (1 << 20) + 2 * BLOCK);
	CHECK(landing_room(tape, 1 << 20, 4, 8 << 20, 1) == (1 << 20) + 2 * BLOCK);
	CHECK(landing_room(tape, 1 << 20, 4, 2 << 20, 1) == 512 << 10);
	CHECK(landing_room(tape, BLOCK, 4, 0, 1) == tape_part);
	CHECK(landing_room(tape, BLOCK, 4, 1 << 20, 1) == 256 << 10);
	CHECK(landing_room(tape, BLOCK, 1, 0, 4) == tape_part);
	CHECK(landing_room(tape, 1 << 20, 4, 1, 1) == 64 << 10);
}

static void test_names(int root_fd)
{
	CHECK(loop_open_beneath(root_fd, "../x", O_RDWR | O_CREAT, 0644) == -EXDEV);
	CHECK(loop_open_beneath(root_fd, "/etc/passwd", O_RDONLY, 0) == -EXDEV);
	CHECK(loop_open_beneath(root_fd, "", O_RDONLY, 0) == -ENOENT);
	CHECK(name_mkdir(root_fd, "..", 0755) == -EXDEV);
	CHECK(name_mkdir(root_fd, "../x", 0755) == -EXDEV);
	CHECK(name_mkdir(root_fd, "", 0755) == -ENOENT);
	CHECK(name_remove(root_fd, "/etc/passwd", 0) == -EXDEV);
	CHECK(name_rename(root_fd, "a", "../a") == -EXDEV);
	CHECK(name_link(root_fd, "../a", "a") == -EXDEV);
}

static void test_tape(struct tape *tape)
{
	uint8_t *data = malloc(SPAN_BYTES);
	int error;

	CHECK(data);
	CHECK(tape_bytes(tape) % BLOCK == 0 && tape_bytes(tape) <= TAPE_BYTES);
	tape_read(tape, 3, 12345, SPAN_BYTES, data);
	CHECK(!tape_compare(tape, 3, 12345, SPAN_BYTES, data));
	CHECK(!memcmp(data, data + tape_bytes(tape), 1000));
	data[SPAN_BYTES - 1] ^= 1;
	CHECK(tape_compare(tape, 3, 12345, SPAN_BYTES, data) == 1);
	tape_read(tape, -1, 7, BLOCK, data);
	CHECK(!data[0] && !memcmp(data, data + 1, BLOCK - 1));
	free(data);
	CHECK(!tape_new(0, SPAN_BYTES, 1, &error) && error == -EINVAL);
	CHECK(!tape_new(TAPE_BYTES, -1, 1, &error) && error == -EINVAL);
}

static void test_backend(run_function *run, int root_fd, struct tape *tape)
{
	for (int direct = 0; direct < 2; direct++) {
		test_every_op(run, root_fd, tape, direct, false, 1);
		test_every_op(run, root_fd, tape, direct, false, 8);
	}
	test_every_op(run, root_fd, tape, false, true, 1);
	test_every_op(run, root_fd, tape, false, true, 8);
	test_errors(run, root_fd, tape);
	test_short_writes(run, root_fd, tape);
}

int main(int argc, char **argv)
{
	int error = 0, root_fd;
	struct tape *tape = tape_new(TAPE_BYTES, SPAN_BYTES, 11, &error);

	CHECK(argc == 2 && tape && !error);
	root_fd = open(argv[1], O_RDONLY | O_DIRECTORY);
	CHECK(root_fd >= 0);
	signal(SIGXFSZ, SIG_IGN); /* as Python does */
	test_tape(tape);
	test_names(root_fd);
	test_retries(tape);
	test_landing(tape);
	test_backend(loop_run_posix, root_fd, tape);
	if (!loop_probe_uring())
		test_backend(loop_run_uring, root_fd, tape);
	else
		puts("io_uring skipped");
	tape_free(tape);
	close(root_fd);
	return 0;
}
