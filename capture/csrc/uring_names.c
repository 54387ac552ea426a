/* SPDX-License-Identifier: MIT */
#include "uring_names.h"

#include <string.h>
#include <sys/stat.h>

#include "close.h"
#include "memory.h"
#include "names.h"
#include "path.h"
#include "renames.h"
#include "scope.h"
#include "uring_files.h"

static bool read_path(char *to, uint64_t from)
{
	return memory_read_text(to, (const char *)from, PATH_MAX) >= 0;
}

/* --- opens ------------------------------------------------------------- */

static bool is_for_writing(uint32_t flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

static bool read_flags(const struct sqe *sqe, struct record *record)
{
	uint64_t how[2] = {sqe->op_flags, sqe->length}; /* struct open_how: flags, mode */

	if (sqe->opcode == URING_OPENAT2 &&
	    !memory_read(how, (const void *)sqe->offset, sizeof(how)))
		return false;
	record->flags = (uint32_t)how[0];
	record->length = (int64_t)how[1];
	return true;
}

/* A file that is there and is no storage is none of ours; one that is not will be made. */
static enum file_kind kind_of(const struct path *path, uint32_t flags, const struct inode *inode)
{
	if (!scope_wants(path->text, path->bytes, is_for_writing(flags)))
		return FILE_IGNORED;
	if (flags & O_PATH || path_is_kernel_file(path))
		return FILE_OTHER;
	if (inode->mode && !S_ISREG(inode->mode) && !S_ISBLK(inode->mode))
		return FILE_OTHER;
	return FILE_RECORDED;
}

/*
 * The open file is described before it is one: requests linked to the open
 * may use its slot, and one that never completes must be in the log, too.
 */
static __attribute__((noinline)) void decode_open(struct ring *ring, const struct sqe *sqe,
						  struct record record, struct pending *pending)
{
	struct uring_file file = {.kind = FILE_UNKNOWN};
	char name[PATH_MAX];
	struct inode inode;
	struct path path;

	record.op = OP_OPEN;
	pending->kind = PENDING_OPENS;
	pending->slot = sqe->file_index;
	if (request_is_paused() || !read_flags(sqe, &record) || !read_path(name, sqe->address))
		return;
	path_resolve(&path, sqe->fd, name);
	if (!path.bytes)
		return;
	inode_of(sqe->fd, name, record.flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0, &inode);
	inode.is_nameless = inode.mode && !inode.links; /* opened anew by a link of /proc */
	file.kind = kind_of(&path, record.flags, &inode);
	file.appends = record.flags & O_APPEND;
	if (file.kind == FILE_IGNORED)
		pending->file = &ignored_file;
	if (file.kind == FILE_OTHER)
		pending->file = &other_file;
	if (file.kind == FILE_RECORDED)
		pending->file = open_file_new(record.flags);
	if (file.kind == FILE_RECORDED && pending->file) {
		file.number = request_describe(pending->file, path.text, path.bytes, &inode);
		record.file = file.number;
		if (file.number)
			pending->record = log_append(&record, path.text, path.bytes);
		else
			log_drop();
	}
	if (pending->slot && pending->slot != URING_SLOT_ALLOCATED)
		uring_slot_put(ring, pending->slot - 1, file);
}

/* Complete the description of the file where it lies. */
static void describe(const struct open_file *file, const struct inode *inode)
{
	struct record *described = (struct record *)file->named;

	described->offset = (int64_t)inode->device;
	described->length = (int64_t)inode->number;
	described->result = (int64_t)inode->birth_ns;
	described->flags = inode->mode | (inode->links ? 0 : FILE_NAMELESS);
}

/*
 * Is the descriptor this file? The job may have seen the completion long ago,
 * closed the descriptor, and been given its number for something else.
 */
static bool is_open_as(int fd, const struct path *path, struct inode *inode)
{
	struct path now;
	struct inode named;

	if (inode_of_descriptor(fd, inode) != 0 || (!S_ISREG(inode->mode) && !S_ISBLK(inode->mode)))
		return false;
	path_of_descriptor(&now, fd);
	if (now.bytes == path->bytes && memcmp(now.text, path->text, now.bytes) == 0)
		return true;
	return inode_of(AT_FDCWD, path->text, 0, &named) == 0 && named.number == inode->number &&
	       named.device == inode->device;
}

/* The path that an open was recorded with, terminated. */
static void read_recorded(struct path *path, const struct record *opened)
{
	path->text = path->buffer;
	path->bytes = opened->text_bytes < PATH_MAX ? opened->text_bytes : PATH_MAX - 1;
	memcpy(path->buffer, opened + 1, path->bytes);
	path->buffer[path->bytes] = '\0';
}

static void opened_descriptor(struct pending *pending, int fd)
{
	struct open_file *file = pending->file;
	struct inode inode;
	struct path path;

	if (!file || file->kind != FILE_RECORDED || !pending->record) {
		descriptor_put(fd, file);
		return;
	}
	read_recorded(&path, pending->record);
	if (!is_open_as(fd, &path, &inode)) {
		descriptor_put(-1, file);
		return;
	}
	describe(file, &inode);
	if (descriptor_known(fd)) { /* it was used already */
		file->queried = 1;
		file->position = raw_position(fd);
	}
	descriptor_put(fd, file);
	if (is_for_writing(file->flags))
		renames_watch(file, fd);
}

static void opened_slot(struct ring *ring, struct pending *pending, int64_t result)
{
	struct open_file *file = pending->file;
	struct uring_file slot = {.kind = file ? file->kind : FILE_UNKNOWN};
	struct inode inode;
	struct path path;

	if (pending->record) {
		read_recorded(&path, pending->record);
		if (inode_of(AT_FDCWD, path.text, 0, &inode) == 0)
			describe(file, &inode);
		slot.number = request_known_number(file);
		slot.appends = file->flags & O_APPEND;
	}
	if (pending->slot == URING_SLOT_ALLOCATED)
		uring_slot_put(ring, (uint32_t)result, slot);
	if (file && file->kind == FILE_RECORDED)
		descriptor_put(-1, file); /* the slot keeps its number */
}

static void open_failed(struct ring *ring, struct pending *pending)
{
	struct record *record = (struct record *)pending->record;

	if (record)
		record->file = 0;
	if (pending->slot && pending->slot != URING_SLOT_ALLOCATED)
		uring_slot_take(ring, pending->slot - 1);
	if (pending->file && pending->file->kind == FILE_RECORDED)
		descriptor_put(-1, pending->file);
}

int64_t uring_opened(struct ring *ring, struct pending *pending, int64_t result)
{
	if (ring->generation != log_settled_generation())
		return result;
	if (result < 0) {
		open_failed(ring, pending);
		return result;
	}
	if (pending->slot)
		opened_slot(ring, pending, result);
	else
		opened_descriptor(pending, (int)result);
	return 0;
}

/* --- closes ------------------------------------------------------------ */

static void decode_close(struct ring *ring, const struct sqe *sqe, struct record record,
			 struct pending *pending)
{
	record.op = OP_CLOSE;
	pending->expected = 0;
	if (sqe->file_index) {
		record.file = uring_slot_take(ring, sqe->file_index - 1).number;
		record.length = 0;
	} else {
		struct closing closing = closing_begin(sqe->fd);

		record.file = closing.number;
		record.length = closing.left;
	}
	if (record.file && !request_is_paused())
		pending->record = log_append(&record, NULL, 0);
}

/* --- names ------------------------------------------------------------- */

/* What is looked up of a name goes into a record that has begun already. */
static void take_inode(struct naming *naming, struct record *record, int at, const char *path)
{
	naming_look_up(naming, at, path, AT_SYMLINK_NOFOLLOW);
	record->offset = naming->record.offset;
	record->length = naming->record.length;
	record->address = naming->record.address;
}

static __attribute__((noinline)) void decode_one(const struct sqe *sqe, enum record_op op,
						 struct record record, struct pending *pending)
{
	struct naming naming = naming_begin(op);
	char name[PATH_MAX];

	record.op = (uint16_t)op;
	pending->expected = 0;
	if (!naming.records || !read_path(name, sqe->address))
		return;
	if (op == OP_UNLINK)
		take_inode(&naming, &record, sqe->fd, name);
	pending->record = naming_append(&record, sqe->fd, name);
}

static __attribute__((noinline)) void decode_two(const struct sqe *sqe, enum record_op op,
						 struct record record, struct pending *pending)
{
	struct naming naming = naming_begin(op);
	char from[PATH_MAX], to[PATH_MAX];
	int to_at = (int)sqe->length;

	record.op = (uint16_t)op;
	pending->expected = 0;
	if (!naming.records || !read_path(from, sqe->address) || !read_path(to, sqe->offset))
		return;
	take_inode(&naming, &record, sqe->fd, from);
	pending->record = naming_append_two(&record, sqe->fd, from, to_at, to);
	if (op == OP_RENAME)
		pending->kind = PENDING_RENAMES;
}

void uring_renamed(struct pending *pending, int64_t result)
{
	if (result == 0 && pending->record)
		renames_seen(pending->record, pending->record->offset, pending->record->length);
}

void uring_decode_name(struct ring *ring, const struct sqe *sqe, struct record record,
		       struct pending *pending)
{
	switch (sqe->opcode) {
	case URING_OPENAT:
	case URING_OPENAT2:
		decode_open(ring, sqe, record, pending);
		break;
	case URING_CLOSE:
		decode_close(ring, sqe, record, pending);
		break;
	case URING_RENAMEAT:
		decode_two(sqe, OP_RENAME, record, pending);
		break;
	case URING_LINKAT:
		decode_two(sqe, OP_LINK, record, pending);
		break;
	case URING_UNLINKAT:
		decode_one(sqe, sqe->op_flags & AT_REMOVEDIR ? OP_RMDIR : OP_UNLINK, record,
			   pending);
		break;
	case URING_MKDIRAT:
		decode_one(sqe, OP_MKDIR, record, pending);
		break;
	}
}
