/* SPDX-License-Identifier: MIT */
/* Durability points. */
#include "folder.h"
#include "maps.h"
#include "real.h"
#include "request.h"
#include "uring_ring.h"

static struct request sync_begin(int fd)
{
	struct request request;

	rings_look();
	request = request_begin(fd);
	if (request.file && !request.start_ns) /* it may be a folder */
		request.start_ns = now_ns();
	return request;
}

static struct record sync_record(enum sync_kind kind)
{
	return (struct record){.offset = -1, .length = -1, .flags = kind, .op = OP_SYNC};
}

static int sync_done(struct request request, enum sync_kind kind, int result)
{
	struct record record = sync_record(kind);

	if (!request.file || request.file->kind == FILE_RECORDED)
		return request_done(request, record, result);
	record.start_ns = request.start_ns;
	record.end_ns = now_ns();
	record.result = result < 0 ? -errno : result;
	record.api = API_POSIX;
	folder_append_sync(request.file, request.fd, record);
	return result;
}

#define SYNC(name, kind)                                                      \
	EXPORT int name(int fd)                                               \
	{                                                                     \
		struct request request = sync_begin(fd);                      \
                                                                              \
		return sync_done(request, kind, real.name(fd));               \
	}

SYNC(fsync, SYNC_FILE)
SYNC(fdatasync, SYNC_DATA)
SYNC(syncfs, SYNC_FILE_SYSTEM)

EXPORT int sync_file_range(int fd, off_t offset, off_t bytes, unsigned int flags)
{
	struct request request = sync_begin(fd);
	struct record record = sync_record(SYNC_RANGE);

	record.offset = offset;
	record.length = bytes;
	record.offset_source = OFFSET_ARGUMENT;
	return request_done(request, record, real.sync_file_range(fd, offset, bytes, flags));
}

EXPORT int msync(void *address, size_t bytes, int flags)
{
	uint64_t start_ns = now_ns();

	return maps_used(sync_record(SYNC_MAPPING), start_ns, address, bytes,
			 real.msync(address, bytes, flags));
}

EXPORT void sync(void)
{
	struct record record = sync_record(SYNC_ALL);

	rings_look();
	record.start_ns = now_ns();
	real.sync();
	record.end_ns = now_ns();
	record.api = API_POSIX;
	if (capture_is_on && !request_is_paused() && log_exists())
		log_append(&record, NULL, 0);
}
