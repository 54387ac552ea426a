/* SPDX-License-Identifier: MIT */
#include "maps.h"

#include <sys/stat.h>

#include "real.h"
#include "uring_ring.h"

/* Mappings remembered at a time; those beyond are recorded, but not their unmapping. */
#define MAPS 4096u
/* Recorded mappings that one munmap is expected to hit. */
#define UNMAPPED_AT_ONCE 8

/*
 * Asking for each page of a mapping takes 100 ms per GiB that is cached: of a
 * large one this many parts are looked at, all alike and evenly apart.
 */
#define CACHE_PARTS 64
#define CACHE_PART_PAGES 64

#define CLAIMED 1 /* an address while the rest of the entry is being written */

struct map {
	_Atomic uintptr_t address; /* 0: free */
	_Atomic size_t bytes;
	_Atomic int64_t offset;
	_Atomic uint64_t number; /* as in struct open_file */
};

static struct map maps[MAPS];
static _Atomic uint32_t maps_end; /* entries from here on were never used */

static void remember(uintptr_t address, size_t bytes, off_t offset, uint64_t number)
{
	for (uint32_t i = 0; i < MAPS; i++) {
		uintptr_t free_address = 0;
		uint32_t end;

		if (atomic_load_explicit(&maps[i].address, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong(&maps[i].address, &free_address, CLAIMED))
			continue;
		maps[i].bytes = bytes;
		maps[i].offset = offset;
		maps[i].number = number;
		end = atomic_load(&maps_end);
		while (end < i + 1 && !atomic_compare_exchange_weak(&maps_end, &end, i + 1))
			;
		atomic_store(&maps[i].address, address);
		return;
	}
}

/* Pages from `address` on that are in the page cache; -1: the kernel does not tell. */
static int64_t cached_pages(uintptr_t address, size_t pages, size_t page_bytes)
{
	unsigned char found[CACHE_PART_PAGES];
	int64_t cached = 0;

	for (size_t done = 0; done < pages; done += CACHE_PART_PAGES) {
		size_t part = pages - done < CACHE_PART_PAGES ? pages - done : CACHE_PART_PAGES;

		if (RAW(SYS_mincore, address + done * page_bytes, part * page_bytes, found) != 0)
			return -1;
		for (size_t i = 0; i < part; i++)
			cached += found[i] & 1;
	}
	return cached;
}

/*
 * The kernel calls every page cached to who neither owns the file nor may write to it. That is
 * asked, as root is not always root: in a namespace of users it has no say over others' files.
 */
static bool tells_of_cache(int fd)
{
	struct stat status;

	return (RAW(SYS_fstat, fd, &status) == 0 && RAW(SYS_geteuid) == (long)status.st_uid) ||
	       RAW(SYS_faccessat2, fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

/*
 * How much of a file was in memory before the job touched it there: such a
 * page makes no fault later, and would pass for one that read-ahead brought.
 */
static void append_cached(struct request request, uintptr_t address, size_t bytes, off_t offset)
{
	static const char name[] = "mapped_cached_bytes";
	size_t page_bytes = (size_t)getpagesize();
	size_t pages = (bytes + page_bytes - 1) / page_bytes;
	size_t apart = pages / CACHE_PARTS;
	struct record record = {.offset = offset, .length = (int64_t)bytes, .op = OP_COUNTER};
	int64_t cached = 0;

	if (!tells_of_cache(request.fd))
		return;
	record.start_ns = now_ns();
	if (apart <= CACHE_PART_PAGES) {
		cached = cached_pages(address, pages, page_bytes);
	} else {
		for (size_t i = 0; i < CACHE_PARTS && cached >= 0; i++) {
			int64_t found = cached_pages(address + i * apart * page_bytes,
						     CACHE_PART_PAGES, page_bytes);

			cached = found < 0 ? found : cached + found;
		}
		cached = cached < 0 ? -1 : cached * (int64_t)apart / CACHE_PART_PAGES;
	}
	if (cached < 0)
		return;
	record.end_ns = now_ns();
	record.result = cached * (int64_t)page_bytes;
	record.file = request_file_number(request.file, request.fd);
	if (record.result > record.length)
		record.result = record.length;
	log_append(&record, name, sizeof(name) - 1);
}

static void *mapped(struct request request, size_t bytes, int prot, int flags, off_t offset,
		    void *result)
{
	bool failed = result == MAP_FAILED;
	struct record record = {.offset = offset,
				.length = (int64_t)bytes,
				.address = failed ? 0 : (uint64_t)result,
				.flags = (uint32_t)prot,
				.api = API_MMAP,
				.offset_source = OFFSET_ARGUMENT,
				.op = OP_MAP};

	request_done(request, record, failed ? -1 : 0);
	if (!failed && rings_exist())
		ring_mapped(request.fd, offset, result);
	if (failed || request.file->kind != FILE_RECORDED || request_is_paused())
		return result;
	remember((uintptr_t)result, bytes, offset, request.file->number);
	if (prot & PROT_READ && !(flags & MAP_POPULATE) && !log_is_borrowed())
		append_cached(request, (uintptr_t)result, bytes, offset);
	return result;
}

/* Allocators map memory too; only file mappings are looked at. */
#define MAP(name)                                                             \
	EXPORT void *name(void *at, size_t bytes, int prot, int flags, int fd, off_t offset) \
	{                                                                     \
		struct request request;                                       \
                                                                              \
		if (!capture_is_on || fd < 0 || flags & MAP_ANONYMOUS)        \
			return real.name(at, bytes, prot, flags, fd, offset); \
		request = request_begin(fd);                                  \
		return mapped(request, bytes, prot, flags, offset,                 \
			      real.name(at, bytes, prot, flags, fd, offset)); \
	}

MAP(mmap)
MAP(mmap64)

static uint64_t as_number(const struct map *map)
{
	return map->number >> 32 == log_generation() ? (uint32_t)map->number : 0;
}

static bool overlaps(const struct map *map, uintptr_t first, uintptr_t end)
{
	uintptr_t address = atomic_load_explicit(&map->address, memory_order_acquire);

	return address > CLAIMED && address < end && first < address + map->bytes;
}

/* What a call on [first, end) means for one mapping; false: it was made before a fork. */
static bool narrow(struct record *record, const struct map *map, uintptr_t first, uintptr_t end)
{
	uintptr_t address = map->address;
	uintptr_t low = first > address ? first : address;
	uintptr_t high = end < address + map->bytes ? end : address + map->bytes;

	record->file = (uint32_t)as_number(map);
	record->address = low;
	record->offset = map->offset + (int64_t)(low - address);
	record->length = (int64_t)(high - low);
	record->offset_source = OFFSET_ARGUMENT;
	record->api = API_MMAP;
	return record->file != 0;
}

static bool records_maps(void)
{
	return atomic_load_explicit(&maps_end, memory_order_relaxed) && capture_is_on &&
	       !request_is_paused() && !log_is_borrowed();
}

int maps_used(struct record record, uint64_t start_ns, void *address, size_t bytes, int result)
{
	uintptr_t first = (uintptr_t)address, end = first + bytes;

	if (!records_maps())
		return result;
	record.start_ns = start_ns;
	record.end_ns = now_ns();
	record.result = result < 0 ? -errno : result;
	for (uint32_t i = 0; i < atomic_load(&maps_end); i++)
		if (overlaps(&maps[i], first, end) && narrow(&record, &maps[i], first, end))
			log_append(&record, NULL, 0);
	return result;
}

/* Take what lies wholly in the range out; part of a mapping that goes leaves the entry. */
static int forget(uintptr_t first, uintptr_t end, struct record *records, int room)
{
	int count = 0;

	for (uint32_t i = 0; i < atomic_load(&maps_end) && count < room; i++) {
		uintptr_t address = maps[i].address;

		if (!overlaps(&maps[i], first, end))
			continue;
		records[count] = (struct record){.op = OP_UNMAP};
		count += narrow(&records[count], &maps[i], first, end);
		if (first <= address && address + maps[i].bytes <= end)
			atomic_compare_exchange_strong(&maps[i].address, &address, 0);
	}
	return count;
}

/*
 * Once the real call returns, the range may be another thread's: what is
 * mapped there is looked up first.
 */
EXPORT int munmap(void *address, size_t bytes)
{
	struct record records[UNMAPPED_AT_ONCE];
	uintptr_t first = (uintptr_t)address;
	uint64_t start_ns;
	int count, result;

	if (rings_exist() && capture_is_on && !log_is_borrowed())
		rings_unmapped(address, bytes);
	if (!records_maps())
		return real.munmap(address, bytes);
	count = forget(first, first + bytes, records, UNMAPPED_AT_ONCE);
	start_ns = now_ns();
	result = real.munmap(address, bytes);
	for (int i = 0; i < count; i++) {
		records[i].start_ns = start_ns;
		records[i].end_ns = now_ns();
		records[i].result = result < 0 ? -errno : 0;
		log_append(&records[i], NULL, 0);
	}
	return result;
}

static struct record advise_record(int advice)
{
	return (struct record){.flags = (uint32_t)advice, .op = OP_ADVISE};
}

EXPORT int madvise(void *address, size_t bytes, int advice)
{
	uint64_t start_ns;

	if (!atomic_load_explicit(&maps_end, memory_order_relaxed))
		return real.madvise(address, bytes, advice);
	start_ns = now_ns();
	return maps_used(advise_record(advice), start_ns, address, bytes,
			 real.madvise(address, bytes, advice));
}

EXPORT int posix_madvise(void *address, size_t bytes, int advice)
{
	uint64_t start_ns;
	int error;

	if (!atomic_load_explicit(&maps_end, memory_order_relaxed))
		return real.posix_madvise(address, bytes, advice);
	start_ns = now_ns();
	error = real.posix_madvise(address, bytes, advice);
	maps_used(advise_record(advice), start_ns, address, bytes, 0);
	return error;
}
