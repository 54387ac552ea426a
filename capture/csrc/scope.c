/* SPDX-License-Identifier: MIT */
#include "scope.h"

#include <string.h>

#include "path.h"

#define STANDARD_BYTES_MAX 256

/* Newline-separated patterns; empty when `bytes` is 0. */
struct patterns {
	const char *text;
	size_t bytes;
};

static struct {
	struct patterns system, include, exclude;
	char standard[STANDARD_BYTES_MAX]; /* " DEVICE:INODE" of each, in hexadecimal, and a space */
} scope;

/*
 * Match one byte against the class at `*at` (just after the bracket) and move
 * `*at` past it. An unclosed bracket stands for itself.
 */
static bool class_matches(const char **at, const char *end, unsigned char byte)
{
	const char *first = *at;
	const char *close;
	bool negated = first < end && *first == '!';
	bool found = false;

	first += negated;
	close = first < end ? memchr(first + 1, ']', (size_t)(end - first - 1)) : NULL;
	if (!close)
		return byte == '[';
	*at = close + 1;
	while (first < close) {
		unsigned char low = (unsigned char)*first;
		unsigned char high = low;

		if (close - first > 2 && first[1] == '-') {
			high = (unsigned char)first[2];
			first += 2;
		}
		first++;
		found |= low <= byte && byte <= high;
	}
	return found != negated;
}

/* Match the single byte `byte` and move `*at` past the element that did. */
static bool element_matches(const char **at, const char *end, unsigned char byte)
{
	char element = *(*at)++;

	if (element == '?')
		return true;
	if (element == '[')
		return class_matches(at, end, byte);
	return (unsigned char)element == byte;
}

bool scope_matches(const char *pattern, size_t pattern_bytes, const char *text, size_t bytes)
{
	const char *pattern_end = pattern + pattern_bytes, *text_end = text + bytes;
	const char *after_star = NULL, *star_text = NULL;

	while (text < text_end) {
		if (pattern < pattern_end && *pattern == '*') {
			after_star = ++pattern;
			star_text = text;
			continue;
		}
		if (pattern < pattern_end &&
		    element_matches(&pattern, pattern_end, (unsigned char)*text)) {
			text++;
			continue;
		}
		if (!after_star)
			return false;
		pattern = after_star; /* let the last star take one byte more */
		text = ++star_text;
	}
	while (pattern < pattern_end && *pattern == '*')
		pattern++;
	return pattern == pattern_end;
}

static bool any_matches(struct patterns patterns, const char *path, size_t bytes)
{
	const char *at = patterns.text, *end = patterns.text + patterns.bytes;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;

		if (stop > at && scope_matches(at, (size_t)(stop - at), path, bytes))
			return true;
		at = stop + 1;
	}
	return false;
}

bool scope_wants(const char *path, size_t bytes, bool writes)
{
	if (any_matches(scope.exclude, path, bytes))
		return false;
	if (scope.include.bytes && !any_matches(scope.include, path, bytes))
		return false;
	if (writes)
		return true;
	path = path_below_root(path, &bytes); /* a folder of programs, wherever the root is */
	return !any_matches(scope.system, path, bytes);
}

/* The environment may change later, so the patterns are copied. */
static int copy(struct patterns *patterns, const char *text)
{
	char *memory;

	*patterns = (struct patterns){"", 0};
	if (!text || !*text)
		return 0;
	memory = raw_memory(strlen(text));
	if (!memory)
		return -ENOMEM;
	*patterns = (struct patterns){memory, strlen(text)};
	memcpy(memory, text, patterns->bytes);
	return 0;
}

static char *append_hexadecimal(char *at, uint64_t number)
{
	int digits = 1;

	while (digits < 16 && number >> 4 * digits)
		digits++;
	while (digits--)
		*at++ = "0123456789abcdef"[number >> 4 * digits & 15];
	return at;
}

bool scope_leaves_to_job(uint64_t device, uint64_t inode, const char *path, size_t bytes)
{
	char wanted[40], *at = wanted;

	if (likely(!scope.standard[0]) ||
	    (scope.include.bytes && any_matches(scope.include, path, bytes)))
		return false;
	*at++ = ' ';
	at = append_hexadecimal(at, device);
	*at++ = ':';
	at = append_hexadecimal(at, inode);
	strcpy(at, " ");
	return strstr(scope.standard, wanted);
}

int scope_start(const char *system, const char *include, const char *exclude,
		const char *standard)
{
	if (standard && strlen(standard) < sizeof(scope.standard) - 2) {
		scope.standard[0] = ' ';
		strcpy(stpcpy(scope.standard + 1, standard), " ");
	}
	if (copy(&scope.system, system) || copy(&scope.include, include))
		return -ENOMEM;
	return copy(&scope.exclude, exclude);
}
