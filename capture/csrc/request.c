/* SPDX-License-Identifier: MIT */
#include "request.h"

#include "path.h"

bool capture_is_on;

/* A file that the log had no room to describe: its requests are dropped, not left nameless. */
#define UNDESCRIBED UINT32_MAX

/* Is this about the log of this process, and not of one it was forked from? */
static bool is_current(uint64_t number)
{
	return number >> 32 == log_generation();
}

static uint32_t current_number(uint64_t number)
{
	return is_current(number) && (uint32_t)number != UNDESCRIBED ? (uint32_t)number : 0;
}

uint32_t request_describe(struct open_file *file, const char *path, size_t bytes,
			  const struct inode *inode)
{
	uint32_t number = log_file_number(); /* may start a new generation: first */
	uint64_t known = atomic_load(&file->number);
	uint64_t now = now_ns();
	struct record record = {.start_ns = now,
				.end_ns = now,
				.offset = (int64_t)inode->device,
				.length = (int64_t)inode->number,
				.result = (int64_t)inode->birth_ns,
				.address = (uint64_t)inode->bytes,
				.flags = inode->mode | (inode->is_nameless ? FILE_NAMELESS : 0),
				.file = number,
				.op = OP_FILE};
	const struct record *described = NULL;

	if (is_current(known))
		return current_number(known);
	if (number)
		described = log_append(&record, path, bytes);
	if (described) /* another thread may do so too: either will do */
		file->named = described;
	else
		number = UNDESCRIBED;
	if (atomic_compare_exchange_strong(&file->number, &known,
					   (uint64_t)log_generation() << 32 | number))
		return number == UNDESCRIBED ? 0 : number;
	return current_number(known);
}

static __attribute__((noinline)) uint32_t describe_late(struct open_file *file, int fd)
{
	struct inode inode;
	struct path path;

	inode_of_descriptor(fd, &inode);
	path_of_descriptor(&path, fd);
	inode.is_nameless = path.is_deleted;
	return request_describe(file, path.text, path.bytes, &inode);
}

uint32_t request_known_number(struct open_file *file)
{
	if (!file || file->kind != FILE_RECORDED || request_is_paused())
		return 0;
	return current_number(file->number);
}

uint32_t request_file_number(struct open_file *file, int fd)
{
	uint64_t number = atomic_load_explicit(&file->number, memory_order_acquire);

	return likely(is_current(number)) ? current_number(number) : describe_late(file, fd);
}

/* Bytes of a request that no record will show. */
static void count_unrecorded(const struct open_file *file, enum record_op op, ssize_t result)
{
	bool reads = op == OP_READ;

	if (result <= 0 || file->kind == FILE_UNKNOWN) /* which is counted when it is met */
		return;
	if (file->kind == FILE_UNSEEN) {
		LOG_COUNT(unknown_descriptors, 1);
		return;
	}
	if (file->kind == FILE_RECORDED && reads)
		LOG_COUNT(own_bytes_read, (uint64_t)result); /* paused by a hook of ours */
	else if (file->kind == FILE_OTHER)
		log_count(reads ? offsetof(struct log_header, other_bytes_read)
				: offsetof(struct log_header, other_bytes_written),
			  (uint64_t)result);
	else
		log_count(reads ? offsetof(struct log_header, ignored_bytes_read)
				: offsetof(struct log_header, ignored_bytes_written),
			  (uint64_t)result);
}

static bool is_recorded(const struct open_file *file)
{
	return likely(file->kind == FILE_RECORDED) && likely(!request_is_paused());
}

void request_moved(struct open_file *file, int fd, struct record *record)
{
	if (!is_recorded(file)) {
		count_unrecorded(file, record->op, record->result);
		return;
	}
	record->file = request_file_number(file, fd);
	if (likely(record->file))
		log_append(record, NULL, 0);
	else
		log_drop();
}

static struct record moved(struct request request, enum record_op op, const void *buffer,
			   size_t length, ssize_t result)
{
	return (struct record){.start_ns = request.start_ns,
			       .end_ns = now_ns(),
			       .offset = -1,
			       .length = (int64_t)length,
			       .result = result < 0 ? -errno : result,
			       .address = (uint64_t)buffer,
			       .flags = request.rw_flags,
			       .api = API_POSIX,
			       .op = (uint16_t)op};
}

/*
 * Where one went that has moved the position there; no offset if the descriptor is closed by now,
 * or another file's.
 */
static void place_asked(struct record *record, struct request request)
{
	struct open_file *file = request.file;
	off_t position = raw_position(request.fd);

	if (position < 0 || descriptor_known(request.fd) != file)
		return;
	atomic_store_explicit(&file->position, position, memory_order_relaxed);
	record->offset = record->result > 0 ? position - record->result : position;
	record->offset_source = OFFSET_QUERIED;
	if (atomic_load_explicit(&file->has_users, memory_order_relaxed)) {
		record->end_ns = now_ns(); /* a seek until now has moved the answer */
		if (record->offset < 0)
			record->offset = 0;
	}
}

ssize_t request_move(struct request request, enum record_op op, const void *buffer,
		     size_t length, ssize_t result)
{
	struct open_file *file = request.file;
	struct record record;
	bool is_queried;
	int64_t tracked = -1;

	if (unlikely(!file))
		return result;
	if (file->kind != FILE_RECORDED) {
		count_unrecorded(file, op, result);
		return result;
	}
	is_queried = open_file_is_queried(file, request.fd) || request.rw_flags & RW_APPEND;
	if (!is_queried) /* before the end is timed: who begins later finds the position moved */
		tracked = atomic_fetch_add_explicit(
			&file->position, result > 0 ? result : 0, memory_order_relaxed);
	record = moved(request, op, buffer, length, result);
	if (is_queried) {
		place_asked(&record, request);
	} else {
		record.offset = tracked;
		record.offset_source = OFFSET_TRACKED;
	}
	request_moved(file, request.fd, &record);
	return result;
}

void request_place_appended(struct record *record, struct open_file *file, int fd, int64_t result)
{
	struct inode inode;

	record->offset = -1;
	record->offset_source = OFFSET_NONE;
	if (!file || inode_of_descriptor(fd, &inode) != 0 || descriptor_known(fd) != file ||
	    inode.bytes < result)
		return;
	record->offset = inode.bytes - result;
	record->offset_source = OFFSET_END;
}

ssize_t request_at(struct request request, enum record_op op, const void *buffer,
		   size_t length, off_t offset, ssize_t result)
{
	struct open_file *file = request.file;
	struct record record;

	if (unlikely(!file))
		return result;
	if (file->kind != FILE_RECORDED) {
		count_unrecorded(file, op, result);
		return result;
	}
	record = moved(request, op, buffer, length, result);
	record.offset = offset;
	record.offset_source = OFFSET_ARGUMENT;
	if (unlikely(op == OP_WRITE && write_appends(file->flags & O_APPEND, request.rw_flags) &&
		     result > 0)) {
		request_place_appended(&record, file, request.fd, result);
		record.end_ns = now_ns();
	}
	request_moved(file, request.fd, &record);
	return result;
}

int request_done(struct request request, struct record record, int result)
{
	if (!request.file || !is_recorded(request.file))
		return result;
	record.start_ns = request.start_ns;
	record.end_ns = now_ns();
	record.result = result < 0 ? -errno : result;
	if (!record.api)
		record.api = API_POSIX;
	record.file = request_file_number(request.file, request.fd);
	if (record.file)
		log_append(&record, NULL, 0);
	else
		log_drop();
	return result;
}
