/* SPDX-License-Identifier: MIT */
#include "flight.h"

#include "folder.h"

/* Requests in flight at a time; the ends of those beyond stay unknown. */
#define FLIGHTS 16384u
#define FLIGHT_BITS 14
/* Places an address may be at, from where its hash points on. */
#define WINDOW 128u

#define CLAIMED 1 /* an address while the rest of the entry is being written */

struct flight {
	_Atomic uintptr_t block; /* 0: free */
	const struct record *record;
	struct open_file *file; /* its offset is known only when it has ended: it appends */
	int fd;
	uint32_t generation;
};

static struct flight flights[FLIGHTS];

static uint32_t place_of(uintptr_t block, uint32_t step)
{
	return (uint32_t)((block * 0x9e3779b97f4a7c15u >> (64 - FLIGHT_BITS)) + step) % FLIGHTS;
}

static void remember(const void *block, struct flight flight)
{
	for (uint32_t step = 0; step < WINDOW; step++) {
		struct flight *entry = &flights[place_of((uintptr_t)block, step)];
		uintptr_t here = atomic_load(&entry->block);
		bool is_taken = here && here != (uintptr_t)block &&
				entry->generation == flight.generation;

		/* Left by a fork's parent, or by the block's last request, which nobody asked about. */
		if (is_taken || here == CLAIMED ||
		    !atomic_compare_exchange_strong(&entry->block, &here, CLAIMED))
			continue;
		entry->record = flight.record;
		entry->file = flight.file;
		entry->fd = flight.fd;
		entry->generation = flight.generation;
		atomic_store_explicit(&entry->block, (uintptr_t)block, memory_order_release);
		return;
	}
}

static struct flight *find(const void *block)
{
	uint32_t generation = log_settled_generation();

	for (uint32_t step = 0; step < WINDOW; step++) {
		struct flight *entry = &flights[place_of((uintptr_t)block, step)];

		if (atomic_load_explicit(&entry->block, memory_order_acquire) ==
			    (uintptr_t)block &&
		    entry->generation == generation)
			return entry;
	}
	return NULL;
}

struct record flight_record(uint64_t start_ns)
{
	return (struct record){.start_ns = start_ns, .offset = -1, .length = -1, .result = -1};
}

void flight_begin(const void *block, enum record_api api, enum record_op op, int fd,
		  struct record record)
{
	struct open_file *file = descriptor_file(fd);
	struct flight flight = {.fd = fd};

	if (file->kind == FILE_UNSEEN && !request_is_paused())
		LOG_COUNT(unknown_descriptors, 1);
	if (request_is_paused())
		return;
	record.api = (uint8_t)api;
	record.op = (uint16_t)op;
	if (record.offset >= 0)
		record.offset_source = OFFSET_ARGUMENT;
	if (file->kind == FILE_RECORDED) {
		record.file = request_file_number(file, fd);
		if (record.file)
			flight.record = log_append(&record, NULL, 0);
		else
			log_drop();
	} else if (op == OP_SYNC) {
		flight.record = folder_append_sync(file, fd, record);
	}
	if (op == OP_WRITE && write_appends(file->flags & O_APPEND, record.flags))
		flight.file = file;
	flight.generation = log_generation();
	if (flight.record)
		remember(block, flight);
}

void flight_end(const void *block, int64_t result, bool forget)
{
	struct flight *flight = find(block);
	struct flight seen;

	if (!flight)
		return;
	seen = *flight;
	if (forget)
		atomic_store(&flight->block, 0);
	if (seen.record->end_ns)
		return;
	if (seen.file && result > 0)
		request_place_appended((struct record *)seen.record, seen.file, seen.fd, result);
	log_finish(seen.record, seen.generation, result, now_ns());
}

void flight_refused(const void *block, int error)
{
	flight_end(block, error, true);
}
