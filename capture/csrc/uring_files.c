/* SPDX-License-Identifier: MIT */
#include "uring_files.h"

#include "memory.h"
#include "request.h"

/* A slot: log generation << 32 | APPENDS | number, or one of these. */
#define SLOT_UNKNOWN 0
#define SLOT_IGNORED 1
#define SLOT_OTHER 2
#define SLOT_APPENDS (1u << 31)

#define SLOTS_MAX (1u << 20) /* the kernel's limit is lower */
#define FDS_AT_ONCE 256u

static uint64_t slot_value(struct uring_file file)
{
	if (file.kind == FILE_IGNORED)
		return SLOT_IGNORED;
	if (file.kind == FILE_OTHER)
		return SLOT_OTHER;
	if (file.kind == FILE_UNKNOWN || !file.number)
		return SLOT_UNKNOWN;
	return (uint64_t)log_generation() << 32 | (file.appends ? SLOT_APPENDS : 0) | file.number;
}

static struct uring_file slot_file(uint64_t value)
{
	if (value == SLOT_IGNORED)
		return (struct uring_file){.kind = FILE_IGNORED};
	if (value == SLOT_OTHER)
		return (struct uring_file){.kind = FILE_OTHER};
	if (value >> 32 != log_generation()) /* or of a log that a fork has left behind */
		return (struct uring_file){.kind = FILE_UNKNOWN};
	return (struct uring_file){.kind = FILE_RECORDED,
				   .number = (uint32_t)value & ~SLOT_APPENDS,
				   .appends = value & SLOT_APPENDS,
				   .fd = -1};
}

static struct uring_file descriptor(int32_t fd)
{
	struct open_file *file = descriptor_file(fd);
	struct uring_file found = {.kind = file->kind, .file = file, .fd = fd};

	if (file->kind != FILE_RECORDED)
		return found;
	found.number = request_file_number(file, fd);
	found.appends = file->flags & O_APPEND;
	return found;
}

struct uring_file uring_file_of(struct ring *ring, int32_t fd, bool is_slot)
{
	if (!is_slot)
		return descriptor(fd);
	if (fd < 0 || (uint32_t)fd >= ring->files_count)
		return (struct uring_file){.kind = FILE_UNKNOWN};
	return slot_file(ring->files[fd]);
}

void uring_file_find(struct uring_file *file)
{
	if (file->file || file->kind != FILE_RECORDED)
		return;
	file->fd = descriptor_numbered((uint64_t)log_generation() << 32 | file->number);
	file->file = descriptor_known(file->fd);
}

static void put_fds(struct ring *ring, uint32_t first, const int32_t *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count && first + i < ring->files_count; i++) {
		if (fds[i] == URING_FILES_SKIP)
			continue;
		ring->files[first + i] = fds[i] < 0 ? SLOT_UNKNOWN : slot_value(descriptor(fds[i]));
	}
}

void uring_files_update(struct ring *ring, uint32_t first, const int32_t *fds, uint32_t count)
{
	int32_t copies[FDS_AT_ONCE];

	if (first >= ring->files_count)
		return;
	for (uint32_t at = 0; at < count; at += FDS_AT_ONCE) {
		uint32_t some = count - at < FDS_AT_ONCE ? count - at : FDS_AT_ONCE;

		if (!memory_read(copies, fds + at, some * sizeof(*fds)))
			return;
		put_fds(ring, first + at, copies, some);
	}
}

void uring_files_unregister(struct ring *ring)
{
	void *files = ring->files;

	ring->files_count = 0;
	ring->files = NULL;
	if (files)
		RAW(SYS_munmap, files, ring->files_bytes);
}

void uring_files_register(struct ring *ring, const int32_t *fds, uint32_t count)
{
	uring_files_unregister(ring);
	if (!count || count > SLOTS_MAX)
		return;
	ring->files_bytes = count * sizeof(*ring->files);
	ring->files = raw_memory(ring->files_bytes);
	if (!ring->files)
		return;
	ring->files_count = count;
	if (fds)
		uring_files_update(ring, 0, fds, count);
}

void uring_slot_put(struct ring *ring, uint32_t slot, struct uring_file file)
{
	if (slot < ring->files_count)
		ring->files[slot] = slot_value(file);
}

struct uring_file uring_slot_take(struct ring *ring, uint32_t slot)
{
	if (slot >= ring->files_count)
		return (struct uring_file){.kind = FILE_UNKNOWN};
	return slot_file(atomic_exchange(&ring->files[slot], SLOT_UNKNOWN));
}

static void register_ring(struct ring *ring, const void *argument)
{
	struct uring_files_update update;

	if (!memory_read(&update, argument, sizeof(update)))
		return;
	ring->registering_thread = &this_thread;
	ring->registered_index = update.offset;
}

void uring_registered(struct ring *ring, uint32_t opcode, const void *argument, uint32_t count)
{
	struct uring_files_register files;
	struct uring_files_update update;
	struct uring_files_update2 update2;

	switch (opcode & ~URING_REGISTER_USE_REGISTERED_RING) {
	case URING_REGISTER_FILES:
		uring_files_register(ring, argument, count);
		break;
	case URING_UNREGISTER_FILES:
		uring_files_unregister(ring);
		break;
	case URING_REGISTER_FILES2:
		if (memory_read(&files, argument, sizeof(files)))
			uring_files_register(ring, (const int32_t *)files.files, files.count);
		break;
	case URING_REGISTER_FILES_UPDATE:
		if (memory_read(&update, argument, sizeof(update)))
			uring_files_update(ring, update.offset, (const int32_t *)update.files,
					   count);
		break;
	case URING_REGISTER_FILES_UPDATE2:
		if (memory_read(&update2, argument, sizeof(update2)))
			uring_files_update(ring, update2.offset, (const int32_t *)update2.files,
					   update2.count);
		break;
	case URING_REGISTER_RING_FDS:
		register_ring(ring, argument);
		break;
	case URING_UNREGISTER_RING_FDS:
		ring->registering_thread = NULL;
		break;
	}
}
