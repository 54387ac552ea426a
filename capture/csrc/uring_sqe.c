/* SPDX-License-Identifier: MIT */
#include "uring_sqe.h"

#include "folder.h"
#include "memory.h"
#include "passing.h"
#include "request.h"
#include "uring_files.h"
#include "uring_names.h"

#define AT_POSITION UINT64_MAX

static struct record started(enum record_op op, uint64_t start_ns)
{
	return (struct record){.start_ns = start_ns,
			       .offset = -1,
			       .length = -1,
			       .result = -1,
			       .api = API_IO_URING,
			       .op = (uint16_t)op};
}

/*
 * Bytes that move to or from files that are not recorded are not counted: the
 * kernel's own counts of the process, which such are compared with, leave out
 * all that a ring moves.
 */
static const struct record *append(struct uring_file file, struct record *record)
{
	bool is_empty_slot = file.kind == FILE_UNKNOWN && !file.file; /* not seen to be filled */

	if ((is_empty_slot || file.kind == FILE_UNSEEN) && !request_is_paused())
		LOG_COUNT(unknown_descriptors, 1);
	if (file.kind != FILE_RECORDED || request_is_paused())
		return NULL;
	record->file = file.number;
	if (file.number)
		return log_append(record, NULL, 0);
	log_drop();
	return NULL;
}

static struct uring_file file_of(struct ring *ring, const struct sqe *sqe)
{
	return uring_file_of(ring, sqe->fd, sqe->flags & URING_SQE_FIXED_FILE);
}

static void set_offset(struct record *record, uint64_t offset)
{
	record->offset = offset == AT_POSITION ? -1 : (int64_t)offset;
	record->offset_source = offset == AT_POSITION ? OFFSET_NONE : OFFSET_ARGUMENT;
}

/* The ring moves the position of a file: from now on the kernel is asked where it is. */
static void will_be_asked(struct uring_file file)
{
	if (file.kind != FILE_RECORDED)
		return;
	if (file.file)
		file.file->queried = 1;
	else /* of a slot, whose descriptor, if it has one, may be any */
		descriptors_shared(false);
}

/* A read or write of `file` at this offset: does it move the position? */
static void at_position(struct uring_file file, uint64_t offset, struct pending *pending)
{
	if (offset == AT_POSITION && file.kind == FILE_RECORDED) {
		pending->kind = PENDING_AT_POSITION;
		uring_file_find(&file);
		if (!file.file)
			will_be_asked(file);
	}
	pending->file = file.file;
	pending->fd = file.fd;
}

/* --- data -------------------------------------------------------------- */

static void decode_data(struct ring *ring, const struct sqe *sqe, enum record_op op,
			bool is_vectored, struct record record, struct pending *pending)
{
	struct uring_file file = file_of(ring, sqe);

	record.op = (uint16_t)op;
	record.flags = sqe->op_flags;
	record.length = sqe->length;
	if (!(sqe->flags & URING_SQE_BUFFER_SELECT))
		record.address = sqe->address;
	if (is_vectored && file.kind == FILE_RECORDED)
		record.length = memory_parts_bytes((const struct iovec *)sqe->address,
						   sqe->length, &record.address);
	set_offset(&record, sqe->offset);
	if (op == OP_WRITE && write_appends(file.appends, sqe->op_flags)) {
		pending->kind = PENDING_APPENDS;
		uring_file_find(&file);
		pending->is_linked = file.number && ring->chain_appends_to == file.number;
		if (file.number) /* one to a file that is not recorded changes nothing */
			ring->chain_appends_to = file.number;
		if (sqe->offset == AT_POSITION)
			will_be_asked(file); /* the position moves to the end, too */
		pending->file = file.file;
		pending->fd = file.fd;
	} else {
		at_position(file, sqe->offset, pending);
	}
	pending->expected = record.length;
	if (is_vectored && file.kind != FILE_RECORDED)
		pending->expected = -1; /* the length is a number of parts, and no bytes */
	if (sqe->flags & URING_SQE_BUFFER_SELECT && !record.length)
		pending->expected = -1; /* as long as the buffer that the kernel will choose */
	pending->record = append(file, &record);
}

/* Is no other in flight that moves the position of this one's file? */
static bool is_last_mover(const struct ring *ring, const struct pending *pending)
{
	if (ring->in_flight == 1)
		return true;
	if (!open_file_is_queried(pending->file, pending->fd))
		return false; /* it is followed: that need not be compared each time */
	for (uint32_t i = 0; i < ring->pending_used; i++) {
		const struct pending *other = &ring->pending[i];

		if (other != pending && other->file == pending->file &&
		    (other->kind == PENDING_AT_POSITION || other->kind == PENDING_APPENDS))
			return false;
	}
	return true;
}

static void place_moved(struct ring *ring, const struct pending *pending, struct record *record,
			int64_t result)
{
	struct open_file *file = pending->file;
	off_t end = -1;

	if (!file || pending->is_crossed)
		return;
	if (is_last_mover(ring, pending))
		end = raw_position(pending->fd);
	if (descriptor_known(pending->fd) != file) { /* closed: another may share the position */
		file->queried = 1;
		return;
	}
	if (!open_file_is_queried(file, pending->fd)) {
		record->offset = atomic_fetch_add(&file->position, result);
		record->offset_source = OFFSET_TRACKED;
		if (end < 0 || end == record->offset + result)
			return;
		file->queried = 1; /* somebody else has moved it, too */
	}
	if (end >= 0) {
		record->offset = end - result;
		record->offset_source = OFFSET_QUERIED;
	}
}

/* --- between two files ------------------------------------------------- */

/* One end is a pipe: no more than one is recorded. */
static void decode_splice(struct ring *ring, const struct sqe *sqe, uint64_t start_ns,
			  struct pending *pending)
{
	struct record reads = started(OP_READ, start_ns), writes = started(OP_WRITE, start_ns);
	struct uring_file from = uring_file_of(ring, (int32_t)sqe->file_index,
					       sqe->op_flags & URING_SPLICE_FIXED_IN);
	struct uring_file to = file_of(ring, sqe);

	reads.length = writes.length = sqe->length;
	set_offset(&reads, sqe->address);
	set_offset(&writes, sqe->offset);
	pending->expected = sqe->length;
	pending->record = append(from, &reads);
	if (from.kind == FILE_RECORDED) {
		at_position(from, sqe->address, pending);
	} else {
		pending->record = append(to, &writes);
		at_position(to, sqe->offset, pending);
	}
}

/* --- sizes and durability ---------------------------------------------- */

static void decode_sync(struct ring *ring, const struct sqe *sqe, struct record record,
			struct pending *pending)
{
	struct uring_file file = file_of(ring, sqe);

	record.op = OP_SYNC;
	record.flags = sqe->op_flags & URING_FSYNC_DATA ? SYNC_DATA : SYNC_FILE;
	if (sqe->opcode == URING_SYNC_FILE_RANGE)
		record.flags = SYNC_RANGE;
	if (record.flags == SYNC_RANGE || sqe->length) {
		set_offset(&record, sqe->offset);
		record.length = sqe->length;
	}
	pending->expected = 0;
	if (file.file && file.kind != FILE_RECORDED && sqe->opcode == URING_FSYNC)
		pending->record = folder_append_sync(file.file, file.fd, record);
	if (!pending->record)
		pending->record = append(file, &record);
}

static void decode_extent(struct ring *ring, const struct sqe *sqe, enum record_op op,
			  uint64_t length, uint32_t flags, struct record record,
			  struct pending *pending)
{
	record.op = (uint16_t)op;
	record.length = (int64_t)length;
	record.flags = flags;
	if (op != OP_TRUNCATE)
		set_offset(&record, sqe->offset);
	pending->expected = 0;
	pending->record = append(file_of(ring, sqe), &record);
}

/* --- all --------------------------------------------------------------- */

void sqe_decode(struct ring *ring, const struct sqe *sqe, uint64_t start_ns,
		struct pending *pending)
{
	struct record record = started(OP_NONE, start_ns);

	switch (sqe->opcode) {
	case URING_READ:
	case URING_READ_FIXED:
		decode_data(ring, sqe, OP_READ, false, record, pending);
		break;
	case URING_WRITE:
	case URING_WRITE_FIXED:
		decode_data(ring, sqe, OP_WRITE, false, record, pending);
		break;
	case URING_READV:
	case URING_READV_FIXED:
		decode_data(ring, sqe, OP_READ, true, record, pending);
		break;
	case URING_WRITEV:
	case URING_WRITEV_FIXED:
		decode_data(ring, sqe, OP_WRITE, true, record, pending);
		break;
	case URING_FSYNC:
	case URING_SYNC_FILE_RANGE:
		decode_sync(ring, sqe, record, pending);
		break;
	case URING_FALLOCATE:
		decode_extent(ring, sqe, OP_ALLOCATE, sqe->address, sqe->length, record, pending);
		break;
	case URING_FTRUNCATE:
		decode_extent(ring, sqe, OP_TRUNCATE, sqe->offset, 0, record, pending);
		break;
	case URING_FADVISE:
		decode_extent(ring, sqe, OP_ADVISE, sqe->address ? sqe->address : sqe->length,
			      sqe->op_flags, record, pending);
		break;
	case URING_SPLICE:
		decode_splice(ring, sqe, start_ns, pending);
		break;
	case URING_FILES_UPDATE:
		uring_files_update(ring, (uint32_t)sqe->offset, (const int32_t *)sqe->address,
				   sqe->length);
		break;
	case URING_SENDMSG:
	case URING_SENDMSG_ZC:
		passing_foreseen((const struct msghdr *)sqe->address);
		break;
	case URING_MSG_RING:
		if (sqe->address == URING_MSG_SEND_FD) /* hands over a slot */
			descriptors_shared(false);
		break;
	case URING_FIXED_FD_INSTALL: /* a slot becomes a descriptor */
		descriptors_shared(false);
		break;
	default:
		uring_decode_name(ring, sqe, record, pending);
		if (sqe->opcode > URING_LAST_KNOWN)
			LOG_COUNT(unknown_submissions, 1);
	}
}

void sqe_complete(struct ring *ring, struct pending *pending, int64_t result, uint64_t end_ns)
{
	struct record *record = (struct record *)pending->record;

	if (pending->kind == PENDING_OPENS)
		result = uring_opened(ring, pending, result);
	else if (pending->kind == PENDING_RENAMES)
		uring_renamed(pending, result);
	else if (record && result > 0 && pending->kind == PENDING_APPENDS)
		request_place_appended(record, pending->file, pending->fd, result);
	else if (record && result >= 0 && pending->kind == PENDING_AT_POSITION)
		place_moved(ring, pending, record, result);
	if (record && record->op == OP_READ && !record->length && result > 0)
		record->length = result; /* of a buffer that the kernel chose */
	if (record && record->offset_source == OFFSET_END) {
		end_ns = now_ns(); /* the file may have grown until now */
		if (pending->is_linked)
			record->offset_source = OFFSET_LINKED_END;
	}
	log_finish(pending->record, ring->generation, result, end_ns);
}
