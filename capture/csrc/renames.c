/* SPDX-License-Identifier: MIT */
#include "renames.h"

#include <string.h>

#include "path.h"

struct name_hash {
	uint64_t folder, name;
};

static uint64_t hash(const char *text, size_t bytes)
{
	uint64_t value = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < bytes; i++)
		value = (value ^ (unsigned char)text[i]) * 1099511628211u;
	return value | 1; /* 0 is "not watched" */
}

/* Bytes of a path up to and with its last slash. */
static size_t folder_bytes(const char *text, size_t bytes)
{
	while (bytes && text[bytes - 1] != '/')
		bytes--;
	return bytes;
}

static struct name_hash hash_of(const struct path *path)
{
	size_t folder = folder_bytes(path->text, path->bytes);

	return (struct name_hash){hash(path->text, folder),
				  hash(path->text + folder, path->bytes - folder)};
}

__attribute__((noinline)) void renames_watch(struct open_file *file, int fd)
{
	struct name_hash now;
	struct path path;

	path_of_descriptor(&path, fd);
	now = hash_of(&path);
	file->folder_hash = now.folder;
	file->name_hash = now.name;
}

void renames_seen(const struct record *renamed, int64_t device, int64_t inode)
{
	int fd = -1;

	while ((fd = descriptor_next((unsigned int)fd + 1, UINT32_MAX)) >= 0) {
		struct open_file *file = descriptor_known(fd);

		if (!file || !file->name_hash || !request_known_number(file) ||
		    file->named->offset != device || file->named->length != inode)
			continue;
		renames_watch(file, fd);
		if (renamed)
			file->named = renamed;
		else
			file->name_hash = 0; /* what it is called now, the log cannot say */
	}
}

/* The last path in the text of a record: of two, the new name. */
static const char *last_path(const struct record *named, size_t *bytes)
{
	const char *text = (const char *)(named + 1);
	const char *nul = memchr(text, '\0', named->text_bytes);
	const char *last = nul ? nul + 1 : text;

	*bytes = (size_t)(text + named->text_bytes - last);
	return last;
}

static const struct record *append(const struct open_file *file, const struct path *to)
{
	const struct record *named = file->named;
	char both[2 * PATH_MAX + 1];
	size_t from_bytes, folder, skipped, name_bytes;
	const char *from = last_path(named, &from_bytes);
	uint64_t now = now_ns();
	struct record record = {.start_ns = now,
				.end_ns = now,
				.offset = named->offset,
				.length = named->length,
				.op = OP_RENAME};

	if (from_bytes > PATH_MAX)
		from_bytes = PATH_MAX;
	folder = folder_bytes(from, from_bytes);
	skipped = folder_bytes(to->text, to->bytes);
	name_bytes = to->bytes - skipped;
	/*
	 * The kernel tells where the links on the way lead; the job goes on by
	 * the name it knows. Unless that was itself a link, only its end is new.
	 */
	if (hash(from + folder, from_bytes - folder) != file->name_hash ||
	    folder + name_bytes > PATH_MAX) {
		folder = skipped = 0;
		name_bytes = to->bytes;
	}
	memcpy(both, from, from_bytes);
	both[from_bytes++] = '\0';
	memcpy(both + from_bytes, from, folder);
	from_bytes += folder;
	memcpy(both + from_bytes, to->text + skipped, name_bytes);
	return log_append(&record, both, from_bytes + name_bytes);
}

__attribute__((noinline)) void renames_find(struct open_file *file, int fd)
{
	const struct record *renamed;
	struct name_hash now;
	struct path path;

	if (!file || !request_known_number(file) || !file->name_hash)
		return;
	path_of_descriptor(&path, fd);
	now = hash_of(&path);
	if (path.is_deleted || now.folder != file->folder_hash || now.name == file->name_hash)
		return;
	renamed = append(file, &path);
	file->name_hash = renamed ? now.name : 0;
	if (renamed)
		file->named = renamed;
}
