/* SPDX-License-Identifier: MIT */
/*
 * The payload: random bytes in shared memory, mapped over and over in a row, so
 * that any request's bytes are a pointer into the mapping. Byte o of file k
 * is tape[(phase(k) + o) mod period]; the period is a prime number of pages,
 * so that neither files nor power-of-two strides fall on the same bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PHASE_MULTIPLIER 40503 /* prime, near 65521 / golden ratio: neighbours land far apart */
#define HUGE_PAGE_BYTES (2 << 20)
#define COMPARE_BLOCK_BYTES 4096

struct tape {
	uint8_t *data;
	uint8_t *zeros;
	uint8_t *sink; /* what is read lands here; made by the first run that reads */
	int64_t sink_bytes;
	int64_t bytes;   /* the period */
	int64_t pages;
	int64_t page_bytes;
	int64_t span;    /* contiguous bytes from any position */
	int64_t mapped;  /* bytes of the data mapping */
	bool huge;       /* data lie in huge pages */
};

static bool is_prime(int64_t n)
{
	if (n < 2)
		return false;
	for (int64_t d = 2; d * d <= n; d++)
		if (n % d == 0)
			return false;
	return true;
}

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

/* xoshiro256+: incompressible, and faster than memory. */
static void fill_random(uint64_t *words, int64_t count, uint64_t seed)
{
	uint64_t s[4];

	for (int i = 0; i < 4; i++)
		s[i] = splitmix64(&seed);
	for (int64_t i = 0; i < count; i++) {
		uint64_t t = s[1] << 17;

		words[i] = s[0] + s[3];
		s[2] ^= s[0];
		s[3] ^= s[1];
		s[1] ^= s[2];
		s[0] ^= s[3];
		s[2] ^= t;
		s[3] = rotate_left(s[3], 45);
	}
}

/* Addresses without memory yet, aligned so that huge pages can back them. */
static uint8_t *reserve(int64_t bytes, int *error)
{
	uint8_t *base = mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED) {
		*error = -errno;
		return NULL;
	}
	int64_t head = -(uintptr_t)base & (HUGE_PAGE_BYTES - 1);

	if (head)
		munmap(base, head);
	base += head;
	if (head < HUGE_PAGE_BYTES)
		munmap(base + bytes, HUGE_PAGE_BYTES - head);
	return base;
}

/*
 * Map `bytes` of memory over and over in a row, `mapped` bytes in all. It has no file: a limit on
 * the size of files, which batch systems set, would hold for a memfd too.
 */
static uint8_t *map_repeated(int64_t bytes, int64_t mapped, int *error)
{
	uint8_t *base = reserve(mapped, error);
	void *place = base;

	if (!base)
		return NULL;
	for (int64_t at = 0; at < mapped && place != MAP_FAILED; at += bytes) {
		int64_t part = mapped - at < bytes ? mapped - at : bytes;

		if (!at)
			place = mmap(base, part, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		else /* nothing is moved: the same pages are mapped once more */
			place = mremap(base, 0, part, MREMAP_MAYMOVE | MREMAP_FIXED, base + at);
	}
	if (place != MAP_FAILED)
		return base;
	*error = -errno;
	munmap(base, mapped);
	return NULL;
}

/*
 * Move the first copy into huge pages. Payload that is contiguous in memory
 * reaches the device in fewer segments: 1 MiB direct writes became twice as
 * fast on a virtual disk, at a third of the CPU time. Since 6.1.
 */
static bool collapse(uint8_t *base, int64_t bytes)
{
	return bytes >= HUGE_PAGE_BYTES &&
	       !madvise(base, bytes & -(int64_t)HUGE_PAGE_BYTES, MADV_COLLAPSE);
}

static int64_t round_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

struct tape *tape_new(int64_t bytes, int64_t span_bytes, uint64_t seed, int *error)
{
	int64_t page = sysconf(_SC_PAGESIZE), pages = bytes / page;
	struct tape *tape;

	*error = -EINVAL;
	while (pages >= 2 && !is_prime(pages))
		pages--;
	if (pages < 2 || span_bytes < page || span_bytes > (INT64_C(1) << 40))
		return NULL;
	*error = -ENOMEM;
	tape = calloc(1, sizeof(*tape));
	if (!tape)
		return NULL;
	tape->pages = pages;
	tape->page_bytes = page;
	tape->bytes = pages * page;
	tape->span = round_up(span_bytes, page);
	tape->mapped = tape->bytes + tape->span;
	tape->data = map_repeated(tape->bytes, tape->mapped, error);
	if (!tape->data)
		goto fail;
	/* Reading untouched anonymous memory maps the kernel's zero page: no memory. */
	tape->zeros = mmap(NULL, tape->span, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
	if (tape->zeros == MAP_FAILED) {
		*error = -errno;
		tape->zeros = NULL;
		goto fail;
	}
	/* Commit the pages first, so that a lack of memory is an error and not SIGBUS later. */
	if (madvise(tape->data, tape->bytes, MADV_POPULATE_WRITE) && errno != EINVAL) {
		*error = -errno;
		goto fail;
	}
	tape->huge = collapse(tape->data, tape->bytes);
	fill_random((uint64_t *)tape->data, tape->bytes / 8, seed);
	*error = 0;
	return tape;
fail:
	tape_free(tape);
	return NULL;
}

void tape_free(struct tape *tape)
{
	if (!tape)
		return;
	if (tape->data)
		munmap(tape->data, tape->mapped);
	if (tape->sink)
		munmap(tape->sink, tape->sink_bytes);
	if (tape->zeros)
		munmap(tape->zeros, tape->span);
	free(tape);
}

int64_t tape_bytes(const struct tape *tape)
{
	return tape->bytes;
}

int64_t tape_span(const struct tape *tape)
{
	return tape->span;
}

static int64_t position(const struct tape *tape, int32_t file, int64_t offset)
{
	int64_t phase = file < 0 ? 0 : (int64_t)file * PHASE_MULTIPLIER % tape->pages;

	return (phase * tape->page_bytes + offset % tape->bytes) % tape->bytes;
}

const uint8_t *tape_source(const struct tape *tape, int32_t file, int64_t offset)
{
	if (file < 0)
		return tape->zeros;
	return tape->data + position(tape, file, offset);
}

void tape_read(const struct tape *tape, int32_t file, int64_t offset, int64_t length, uint8_t *out)
{
	while (length > 0) {
		int64_t part = min64(length, tape->span);

		memcpy(out, tape_source(tape, file, offset), part);
		out += part;
		offset += part;
		length -= part;
	}
}

int64_t tape_compare(const struct tape *tape, int32_t file, int64_t offset, int64_t length,
		     const uint8_t *data)
{
	int64_t different = 0;

	if (file < -1)
		return 0;
	while (length > 0) {
		int64_t part = min64(length, COMPARE_BLOCK_BYTES);
		const uint8_t *expected = tape_source(tape, file, offset);

		if (memcmp(expected, data, part))
			for (int64_t i = 0; i < part; i++)
				different += expected[i] != data[i];
		data += part;
		offset += part;
		length -= part;
	}
	return different;
}

void tape_prefault(const struct tape *tape, int64_t longest)
{
	/* Kernels before 5.14 lack it; pages then fault at first use. */
	madvise(tape->data, min64(tape->bytes + longest, tape->mapped), MADV_POPULATE_READ);
}

static int grow_sink(struct tape *tape, int64_t bytes)
{
	int error = 0;

	if (tape->sink)
		munmap(tape->sink, tape->sink_bytes);
	tape->sink_bytes = 0;
	tape->sink = reserve(bytes, &error);
	if (!tape->sink)
		return error;
	tape->sink_bytes = bytes;
	if (mmap(tape->sink, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	madvise(tape->sink, bytes, MADV_HUGEPAGE);
	return 0;
}

int tape_sink(struct tape *tape, int64_t bytes, uint8_t **sink)
{
	int error = tape->sink_bytes < bytes ? grow_sink(tape, bytes) : 0;

	/* A worker forked since has pages of its own only once it has written to them. */
	if (!error && madvise(tape->sink, bytes, MADV_POPULATE_WRITE) && errno != EINVAL)
		error = -errno;
	if (!error)
		collapse(tape->sink, bytes);
	*sink = tape->sink;
	return error;
}

bool tape_is_huge(const struct tape *tape)
{
	return tape->huge;
}

struct iovec tape_source_extent(const struct tape *tape)
{
	return (struct iovec){ tape->data, tape->mapped };
}
