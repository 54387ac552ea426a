/*
 * The whole C surface of the replay loop. Plain declarations only: the C
 * compiler includes this file (after stdint.h) and cffi's cdef() reads it.
 * Every function returns 0 or a count, or -errno.
 */

/*
 * Ops the loop knows. Data ops are READ and WRITE. SYNC, TRUNCATE and EVICT
 * act on a handle or, when it is -1, on a path. TRUNCATE's size is `length`.
 * SYNC's kinds: 0 fsync, 1 fdatasync, 2 sync_file_range, 3 msync (as
 * fdatasync), 4 and 5 the file system (of the handle, or of the root), 6 fsync
 * and 7 fdatasync of the folder at the path (-1: the root).
 * A CLOSE waits for the requests in flight on its handle.
 */
enum loop_op {
	LOOP_OPEN = 1,
	LOOP_CLOSE = 2,
	LOOP_READ = 3,
	LOOP_WRITE = 4,
	LOOP_SYNC = 5,
	LOOP_ALLOCATE = 6,
	LOOP_TRUNCATE = 7,
	LOOP_RENAME = 8,
	LOOP_UNLINK = 9,
	LOOP_MKDIR = 10,
	LOOP_RMDIR = 11,
	LOOP_LINK = 12,
	LOOP_EVICT = 13 /* ours: sync the file, drop its pages; never timed as payload */
};

/* How a READ moves its bytes: by a read, or by a copy from the mapped file, with this advice. */
enum loop_mapping {
	LOOP_MAPPING_NONE = 0,
	LOOP_MAPPING_PLAIN = 1,
	LOOP_MAPPING_SEQUENTIAL = 2,
	LOOP_MAPPING_RANDOM = 3,
	LOOP_MAPPING_WILLNEED = 4
};

/*
 * One request. Its data are its pieces, packed: pieces[first_piece ..
 * first_piece + piece_count) have `length` bytes in total.
 *
 * Ordering. Requests of one stream start in order; at most queue_depth of
 * them are in flight. `fence` = 1: starts only when all earlier requests
 * (by index) on the same file are complete, and later ones on that file wait
 * for it. `fence` = 2: the same over all files. The counts that make this a
 * comparison of two numbers are computed by the caller:
 *   file_before      requests on `file` with a lower index
 *   file_fences      fences (1 or 2) on `file` with a lower index
 *   global_fences    fences of kind 2 with a lower index
 * A request with file == -1 has fence 0 or 2.
 */
struct loop_request {
	int64_t offset;
	int64_t length;
	int64_t due_ns;      /* earliest start after the run's start; 0: at once */
	int64_t think_ns;    /* pause after the previous request of the stream; 0: none */
	int64_t first_piece;
	int64_t source_row;  /* row of the trace it came from; -1: none (the loop ignores it) */
	int32_t piece_count;
	int32_t file;        /* -1: none */
	int32_t handle;      /* index of the open that data goes through; -1: none */
	int32_t path;        /* index into the path table; -1: none */
	int32_t target;      /* rename, link: index of the new path; -1: none */
	int32_t stream;
	uint32_t flags;      /* OPEN: open flags; SYNC: kind; ALLOCATE: mode */
	uint32_t mode;       /* OPEN, MKDIR */
	uint32_t file_before;
	uint32_t file_fences;
	uint32_t global_fences;
	int32_t step;        /* ordinal of the checkpoint; -1: none (ignored by the loop) */
	uint8_t op;
	uint8_t fence;
	uint8_t gather;      /* 0: copy small pieces into a staging buffer; 1: none */
	uint8_t may_be_short; /* a read that ends past the end of the file is whole */
	uint8_t phase;        /* 0 other, 1 save, 2 load (ignored by the loop) */
	uint8_t mapping;      /* enum loop_mapping; of a handle, that of any of its reads */
	uint8_t reserved[2];
};

/*
 * Where bytes come from: `length` bytes of recorded file `file` from `offset`; file -1: zeros;
 * file -2: bytes beside those a read wants, never compared.
 */
struct loop_piece {
	int64_t offset;
	int64_t length;
	int32_t file;
	int32_t reserved;
};

struct loop_timing {
	int64_t start_ns; /* CLOCK_MONOTONIC */
	int64_t end_ns;
	int64_t result;   /* bytes moved, 0, or -errno */
};

/*
 * How far a job is. Workers, processes that each run some of the streams of one job, share it in
 * memory they have in common, and so wait for each other's requests as for their own. Their
 * stream_order then names the requests of their own streams only; other streams are empty.
 */
struct loop_file_progress {
	uint32_t done, fences_done;
};

struct loop_progress {
	int64_t start_ns;    /* CLOCK_MONOTONIC, the common start; 0: not all workers are set up */
	int64_t done;        /* requests complete */
	uint32_t workers;    /* that start together, the rest is zero before; 1: it waits for
			      * none, and is only watched; 0: start_ns is set from outside */
	uint32_t ready;      /* of them, set up */
	uint32_t global_fences_done;
	uint32_t stop;       /* 1: start nothing more */
	struct loop_file_progress files[];
};

/* Add what workers elsewhere have done, atomically: file numbers[i] gets files[i]. */
void loop_progress_add(struct loop_progress *progress, int64_t done, uint32_t global_fences_done,
		       const int64_t *numbers, const struct loop_file_progress *files,
		       int64_t count);

struct loop_options {
	uint32_t queue_depth;       /* per stream, >= 1 */
	uint32_t stream_count;
	int64_t staging_bytes;      /* per staged request, a multiple of 4096; 0: what is needed */
	int64_t landing_bytes;      /* most memory that reads land in, and for staging; 0: no bound */
	int64_t start_ns;           /* CLOCK_MONOTONIC: nothing starts earlier; 0: at once */
	int64_t round_trip_ns;      /* every request but EVICT is held so much longer; 0: none is */
	int32_t root_fd;            /* directory; no path leaves it */
	uint8_t check_reads;        /* compare what was read with the tape */
	uint8_t registered_buffers; /* try to; said in loop_report */
	uint8_t registered_files;
	uint8_t submission_thread;  /* the kernel's own takes entries off the ring; said likewise */
	uint8_t uncached;           /* RWF_DONTCACHE on what is not direct */
	uint8_t stop_on_error;
	const volatile uint8_t *stop; /* set to 1 from outside: start nothing more; or NULL */
	struct loop_progress *progress; /* shared with other workers; NULL: there are none */
};

struct loop_report {
	uint64_t features;          /* bits LOOP_FEATURE_* in use */
	uint64_t refused;           /* features tried and refused */
	uint64_t in_flight_wanted;  /* queue depth by streams, or all requests */
	uint64_t in_flight_limit;   /* what threads, ring entries and staging memory allowed */
	uint64_t submissions;       /* io_uring_enter calls that submitted, or woke the thread that does */
	uint64_t resubmissions;     /* continuations of short transfers */
	uint64_t retries;           /* EAGAIN, EINTR */
	uint64_t cut_reads;         /* done in several calls: landing_bytes did not go so far */
	uint64_t staged_bytes;      /* copied into or out of staging buffers */
	uint64_t mismatched_bytes;  /* check_reads: bytes that differ */
	int64_t first_mismatch;     /* lowest index of such a request, or -1 */
	int64_t start_ns, end_ns;   /* of the whole run */
	int64_t cpu_user_ns, cpu_system_ns; /* of the process, kernel workers included */
	int64_t first_error;        /* lowest index of a failed or short request, or -1 */
};

#define LOOP_FEATURE_SINGLE_ISSUER 1
#define LOOP_FEATURE_DEFER_TASKRUN 2
#define LOOP_FEATURE_COOP_TASKRUN 4
#define LOOP_FEATURE_NO_SQARRAY 8
#define LOOP_FEATURE_REGISTERED_BUFFERS 16
#define LOOP_FEATURE_REGISTERED_FILES 32
#define LOOP_FEATURE_REGISTERED_RING 64
#define LOOP_FEATURE_HUGE_PAGES 128 /* of the payload */
#define LOOP_FEATURE_SUBMISSION_THREAD 256

struct loop_job {
	const struct loop_request *requests;
	int64_t request_count;
	const struct loop_piece *pieces;
	int64_t piece_count;
	const int64_t *stream_order;  /* request indices grouped by stream, in order */
	const int64_t *stream_starts; /* stream_count + 1 offsets into stream_order */
	/*
	 * Per stream, another of the same worker that it goes ahead of, or -1; NULL: none does.
	 * It starts a request once that one has started all of its own with a lower index.
	 */
	const int32_t *stream_leads;
	const char *const *paths;     /* relative to root_fd */
	int32_t path_count;
	int32_t handle_count;
	int32_t file_count;
};

/* The source of payload, see tape.c. One per process of the replay. */
struct tape;
struct tape *tape_new(int64_t bytes, int64_t span_bytes, uint64_t seed, int *error);
void tape_free(struct tape *tape);
/* Period of the tape: `bytes` rounded down to a prime number of pages. */
int64_t tape_bytes(const struct tape *tape);
/* Copy `length` payload bytes of recorded file `file` at `offset` to `out`. */
void tape_read(const struct tape *tape, int32_t file, int64_t offset, int64_t length, uint8_t *out);
/* Number of bytes at `data` that differ from the tape. */
int64_t tape_compare(const struct tape *tape, int32_t file, int64_t offset, int64_t length, const uint8_t *data);

int loop_run_uring(const struct loop_job *job, const struct loop_options *options,
		   struct tape *tape, struct loop_timing *timings, struct loop_report *report);
int loop_run_posix(const struct loop_job *job, const struct loop_options *options,
		   struct tape *tape, struct loop_timing *timings, struct loop_report *report);

/* Fill [offset, offset+length) of the open file fd with payload of (file, payload_offset). */
int loop_fill_file(struct tape *tape, int fd, int64_t offset, int64_t length, int32_t file, int64_t payload_offset);
/* Compare the same range with the tape; *mismatched gets the count. */
int loop_check_file(struct tape *tape, int fd, int64_t offset, int64_t length, int32_t file,
		    int64_t payload_offset, int64_t *mismatched);
/* Open `path` under root_fd as the loop does (openat2, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS). */
int loop_open_beneath(int root_fd, const char *path, uint32_t flags, uint32_t mode);
/* Resident bytes of an open file in the page cache, by mincore; or -errno. */
int64_t loop_resident_bytes(int fd);
/* 0 if io_uring can be set up here, else -errno. */
int loop_probe_uring(void);
const char *loop_liburing_version(void);
