/* SPDX-License-Identifier: MIT */
/*
 * The replay loop's inside. The core (loop.c) decides what may start; a
 * backend drives it: take a request, move its bytes, complete it. The posix
 * backend calls the core under its lock, the io_uring backend from one thread.
 */
#ifndef IOTRACE_LOOP_H
#define IOTRACE_LOOP_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "loop_api.h"

#define DIRECT_BLOCK_BYTES 4096  /* memory alignment asked of O_DIRECT buffers */
#define DIRECT_SECTOR_BYTES 512  /* enough where the file offset has no more */
#define IOV_CAPACITY_MAX 1024    /* the kernel's UIO_MAXIOV */
#define STOP_SEEN_WITHIN_NS INT64_C(100000000)
#define HEAD_START_NS INT64_C(1000000) /* all workers have seen the common start by then */
/* A wait for another worker is seen to end within the time it took, and within a millisecond. */
#define PATIENCE_LEAST_NS INT64_C(20000)
#define PATIENCE_MOST_NS INT64_C(1000000)
#define RETRIES_MAX 64           /* EAGAIN, EINTR in a row on one transfer */
#define SLOTS_MAX 16384          /* requests in flight; half the kernel's limit on ring entries */

/* A request in flight. */
struct slot {
	int64_t index;
	const struct loop_request *request;
	int64_t start_ns, end_ns, result;
	int fd;
	bool staged, vectored;
	bool cut; /* what it reads does not fit where it lands */
	uint8_t *staging;
	uint8_t *landing;      /* what it reads lands in so many bytes of its own, */
	int64_t landing_bytes; /* 0: it reads nothing */
	int64_t landing_at;    /* from here on */
	uint32_t landing_chunk;

	int64_t done;       /* bytes moved */
	int64_t piece;      /* the piece that `done` lies in, */
	int64_t piece_done; /* and how far */

	int64_t transfer_bytes; /* of the transfer under way, */
	uint8_t *buffer;        /* with iov when vectored */
	struct iovec *iov;
	int iov_count;
	int tries;

	uint64_t resubmissions, retries, staged_bytes, mismatched_bytes;
	struct slot *next; /* free, or returning */
};

struct stream {
	int64_t next, end; /* into job->stream_order */
	int64_t previous;  /* index of the request started last; -1: none */
	uint32_t in_flight;
};

struct handle {
	int fd;
	uint32_t users;  /* requests in flight through it */
	uint32_t demand; /* data requests of the whole job */
	bool direct;
	uint8_t mapping;   /* enum loop_mapping, of its reads */
	int map_error;
	int64_t map_bytes; /* as far as they reach */
	int64_t file_bytes; /* when last looked at */
	uint8_t *map;
};

/* The memory that reads land in, see landing.c. */
struct landing {
	uint8_t *base;
	int64_t chunk_bytes; /* a multiple of DIRECT_BLOCK_BYTES; 0: nothing is read */
	uint32_t chunk_count;
	uint32_t *users; /* requests in flight, of each chunk */
	uint32_t chunk;  /* the one that is being filled, */
	int64_t used;    /* and how far */
};

struct loop {
	const struct loop_job *job;
	const struct loop_options *options;
	struct tape *tape;
	struct loop_timing *timings;
	struct loop_report *report;

	struct stream *streams;
	uint32_t *active; /* streams with requests left */
	uint32_t active_count, turn;
	struct handle *handles;
	struct loop_progress *progress;
	bool shared;         /* progress is other workers' too */
	bool held;           /* when last looked, a request waited for one that may be another's */
	int64_t patience_ns; /* until the next look at what the others have done */
	uint32_t in_flight;
	struct slot *returning, *last_returning; /* done; their answers are on the way */
	bool stopping;

	struct slot *slots, *free_slots;
	uint32_t slot_count;
	struct iovec *iovs;
	uint32_t iov_capacity;
	uint8_t *staging;
	int64_t staging_size, staging_bytes; /* of all buffers, of one */
	uint8_t **free_staging;
	uint32_t staging_count, staging_free;
	struct landing landing;
	int64_t longest_transfer_bytes;      /* straight from tape */
	bool writes;
	bool maps;
	pthread_mutex_t map_lock; /* where the maps are, against those who let go of their pages */
	struct sigaction sigbus_before;
	int timer_slack_ns; /* of the caller, before the run */
};

static inline int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Whether the request moves bytes. */
static inline bool is_data(const struct loop_request *request)
{
	return request->op == LOOP_READ || request->op == LOOP_WRITE;
}

/* clock.c */
int64_t clock_ns(void);
void sleep_until(int64_t when_ns);
/* Start with all workers; end, with what was not started told as cancelled. */
void loop_begin(struct loop *loop);
void loop_end(struct loop *loop);

/* setup.c */
int loop_setup(struct loop *loop, const struct loop_job *job, const struct loop_options *options,
	       struct tape *tape, struct loop_timing *timings, struct loop_report *report,
	       uint32_t slots_max);
void loop_teardown(struct loop *loop);

/* loop.c */
bool loop_is_stopping(const struct loop *loop);
/* Whether a request may start at `now`; if none, *wake is lowered to the time of the next. */
bool loop_ready(struct loop *loop, int64_t now, int64_t *wake);
/* The next request that may start, marked as started `now`; or NULL, as loop_ready. */
struct slot *loop_take(struct loop *loop, int64_t now, int64_t *wake);
void loop_complete(struct loop *loop, struct slot *slot);
bool loop_finished(const struct loop *loop);
/* The time to wake at by itself, so that a stop or another worker's progress is seen soon. */
int64_t loop_wake(struct loop *loop, int64_t wake);

/* round_trip.c */
/* Complete a request once the answer has made its round trip, if the run has such. */
void loop_finish(struct loop *loop, struct slot *slot);
/* Complete what has arrived by `now`. */
void loop_receive(struct loop *loop, int64_t now);
/* When the next arrives; INT64_MAX: nothing is on the way. */
int64_t loop_arrival(const struct loop *loop);
/* The round trip of a request that the calling thread waits for. */
void loop_travel(const struct loop *loop, struct slot *slot);

/* landing.c */
int landing_setup(struct loop *loop, int64_t longest);
void landing_teardown(struct loop *loop);
/* Give a request that reads its part, until it is complete. */
void landing_take(struct loop *loop, struct slot *slot);
void landing_give(struct loop *loop, const struct slot *slot);

/* pieces.c: what is moved in place and what is copied */
struct transfer_needs {
	int64_t segments, copied_bytes;
};

/* What the first transfer of a request needs, so as not to be cut. */
struct transfer_needs transfer_survey(const struct loop *loop, const struct loop_request *request);
/* Whether the request needs a staging buffer. */
bool transfer_is_staged(const struct loop *loop, const struct loop_request *request);

/* transfer.c: the bytes of one data request */
void transfer_begin(struct slot *slot);
/* RWF_* of its reads and writes. */
int transfer_flags(const struct loop *loop, const struct slot *slot);
/* Memory that the first transfer of a request lands in, so as not to be cut; 0: none. */
int64_t transfer_landing(const struct loop *loop, const struct loop_request *request);
/* Set up buffer or iov for the next transfer. */
void transfer_prepare(struct loop *loop, struct slot *slot);
/* Account for a transfer that ended at `now`; true when the request is over. */
bool transfer_advance(struct loop *loop, struct slot *slot, int64_t result, int64_t now);

/* mapping.c: reads of a mapped file */
void mapping_setup(struct loop *loop);
void mapping_teardown(struct loop *loop);
void mapping_open(struct loop *loop, struct handle *handle, int fd);
void mapping_close(struct loop *loop, struct handle *handle);
/* Take all mapped pages out of the page tables: the page cache keeps those that are in them. */
void mapping_let_go(struct loop *loop);
/* Carry out the next transfer of a read; bytes moved or -errno. */
int64_t mapping_read(struct loop *loop, const struct slot *slot);

/* ops.c: everything that is one system call, and the posix way to move data */
void perform(struct loop *loop, struct slot *slot);

/* names.c: no path leaves root_fd */
int name_mkdir(int root_fd, const char *path, uint32_t mode);
int name_remove(int root_fd, const char *path, int flags);
int name_rename(int root_fd, const char *from, const char *to);
int name_link(int root_fd, const char *from, const char *to);

/* tape.c */
int64_t tape_span(const struct tape *tape);
/* `tape_span` bytes may be read from here. */
const uint8_t *tape_source(const struct tape *tape, int32_t file, int64_t offset);
/* Map the pages that writes of up to `longest` bytes touch. */
void tape_prefault(const struct tape *tape, int64_t longest);
/* At least `bytes` of this process's own for what is read, kept from run to run; 0 or -errno. */
int tape_sink(struct tape *tape, int64_t bytes, uint8_t **sink);
/* Whether the payload lies in huge pages. */
bool tape_is_huge(const struct tape *tape);
/* The whole of the tape as mapped, for registration. */
struct iovec tape_source_extent(const struct tape *tape);

#endif
