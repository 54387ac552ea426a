/* SPDX-License-Identifier: MIT */
#include "flight.h"

/* Requests in flight at a time; the ends of those beyond stay unknown. */
#define FLIGHTS 16384u
#define FLIGHT_BITS 14
/* Places an address may be at, from where its hash points on. */
#define WINDOW 128u

#define CLAIMED 1 /* an address while the rest of the entry is being written */

struct flight {
	_Atomic uintptr_t block; /* 0: free */
	const struct record *record;
	struct open_file *file; /* its offset is known only at the end: it appends */
	int fd;
	uint32_t generation;
	uint32_t turn; /* of one that appends: `appends_begun`; 0: it was not alone */
};

static struct flight flights[FLIGHTS];
static _Atomic uint32_t appends_begun, appends_in_flight;

static uint32_t place_of(uintptr_t block, uint32_t step)
{
	return (uint32_t)((block * 0x9e3779b97f4a7c15u >> (64 - FLIGHT_BITS)) + step) % FLIGHTS;
}

static void remember(const void *block, struct flight flight)
{
	for (uint32_t step = 0; step < WINDOW; step++) {
		struct flight *entry = &flights[place_of((uintptr_t)block, step)];
		uintptr_t here = 0;

		/* Left by the process that this one was forked from. */
		if (entry->generation != flight.generation)
			here = atomic_load(&entry->block);
		if (here == CLAIMED || !atomic_compare_exchange_strong(&entry->block, &here, CLAIMED))
			continue;
		entry->record = flight.record;
		entry->file = flight.file;
		entry->fd = flight.fd;
		entry->turn = flight.turn;
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
	if (file->kind != FILE_RECORDED || request_is_paused())
		return;
	record.api = (uint8_t)api;
	record.op = (uint16_t)op;
	record.file = request_file_number(file, fd);
	if (record.offset >= 0)
		record.offset_source = OFFSET_ARGUMENT;
	if (record.file)
		flight.record = log_append(&record, NULL, 0);
	else
		log_drop();
	if (flight.record && op == OP_WRITE &&
	    write_appends(file->flags & O_APPEND, record.flags)) {
		flight.file = file;
		flight.turn = atomic_fetch_add(&appends_begun, 1) + 1;
		if (atomic_fetch_add(&appends_in_flight, 1))
			flight.turn = 0;
	}
	flight.generation = log_generation();
	if (flight.record)
		remember(block, flight);
}

/* Where a write to the end of its file went, if no other was in flight that moved it too. */
static void place_appended(const struct flight *flight, int64_t result)
{
	struct record *record = (struct record *)flight->record;
	struct inode inode;

	record->offset = -1;
	record->offset_source = OFFSET_NONE;
	if (flight->turn != atomic_load(&appends_begun) ||
	    descriptor_known(flight->fd) != flight->file ||
	    inode_of_descriptor(flight->fd, &inode) != 0)
		return;
	record->offset = inode.bytes - result;
	record->offset_source = OFFSET_QUERIED;
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
	if (seen.file) {
		atomic_fetch_sub(&appends_in_flight, 1);
		if (result > 0)
			place_appended(&seen, result);
	}
	log_finish(seen.record, seen.generation, result, now_ns());
}

void flight_refused(const void *block, int error)
{
	flight_end(block, error, true);
}
