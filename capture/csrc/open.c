/* SPDX-License-Identifier: MIT */
#include "open.h"

#include <stdarg.h>
#include <sys/stat.h>

#include "path.h"
#include "python.h"
#include "real.h"
#include "renames.h"
#include "scope.h"
#include "uring_ring.h"

/* For a build without python.c. */
__attribute__((weak)) void python_boot(void)
{
}

struct opening opening_begin(int at, const char *path, int flags, mode_t mode)
{
	struct opening opening = {.path = path, .at = at, .flags = flags, .mode = mode,
				  .api = API_POSIX};

	if (!capture_is_on || log_is_borrowed())
		return opening;
	python_boot();
	rings_look();
	opening.start_ns = now_ns();
	return opening;
}

static bool is_for_writing(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

static struct record open_record(struct opening opening, uint64_t end_ns)
{
	return (struct record){.start_ns = opening.start_ns,
			       .end_ns = end_ns,
			       .offset = -1,
			       .length = opening.mode,
			       .flags = (uint32_t)opening.flags,
			       .api = opening.api,
			       .op = OP_OPEN};
}

static bool is_storage(const struct inode *inode)
{
	return S_ISREG(inode->mode) || S_ISBLK(inode->mode) || S_ISDIR(inode->mode);
}

/* Only those that meant to write: reads are tried in many places by design. */
static __attribute__((noinline)) void record_failure(struct opening opening, uint64_t end_ns)
{
	struct record record = open_record(opening, end_ns);
	int error = errno;
	struct inode found;
	struct path path;

	if (!is_for_writing(opening.flags) || error == EFAULT || request_is_paused())
		return;
	path_resolve(&path, opening.at, opening.path);
	if (!path.bytes || !scope_wants(path.text, path.bytes, true) || path_is_kernel_file(&path))
		return;
	if (inode_of(opening.at, opening.path, 0, &found) == 0 && !is_storage(&found))
		return; /* a terminal, say, that is not there */
	record.result = -error;
	log_append(&record, path.text, path.bytes);
}

static struct open_file *recorded(struct opening opening, uint64_t end_ns,
				  const struct path *path, const struct inode *inode)
{
	struct open_file *file = open_file_new((uint32_t)opening.flags);
	struct record record = open_record(opening, end_ns);

	if (!file)
		return NULL;
	record.file = request_describe(file, path->text, path->bytes, inode);
	if (record.file)
		log_append(&record, NULL, 0);
	else
		log_drop();
	return file;
}

static __attribute__((noinline)) struct open_file *file_for(struct opening opening,
							    uint64_t end_ns, int fd)
{
	struct open_file *file;
	struct inode inode;
	struct path path;

	if ((opening.flags & O_TMPFILE) == O_TMPFILE)
		path_of_descriptor(&path, fd);
	else
		path_resolve(&path, opening.at, opening.path);
	if (!path.bytes || path_is_kernel_file(&path)) /* /proc/./self/fd/3 leads out of /proc, too */
		path_of_descriptor(&path, fd);
	if (!scope_wants(path.text, path.bytes, is_for_writing(opening.flags))) {
		LOG_COUNT(ignored_opens, 1);
		return &ignored_file;
	}
	if (opening.flags & O_PATH || inode_of_descriptor(fd, &inode) != 0 ||
	    (!S_ISREG(inode.mode) && !S_ISBLK(inode.mode)) || path_is_kernel_file(&path))
		return &other_file;
	inode.is_nameless = !inode.links; /* O_TMPFILE */
	file = recorded(opening, end_ns, &path, &inode);
	if (file && is_for_writing(opening.flags))
		renames_watch(file, fd);
	return file;
}

int opening_end(struct opening opening, int fd)
{
	uint64_t end_ns;

	if (!opening.start_ns)
		return fd;
	end_ns = now_ns();
	if (fd < 0)
		record_failure(opening, end_ns);
	else /* opened while paused: resolved when it is used otherwise */
		descriptor_put(fd, request_is_paused() ? NULL : file_for(opening, end_ns, fd));
	return fd;
}

static bool takes_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

#define MODE_ARGUMENT(mode)                                                   \
	if (takes_mode(flags)) {                                              \
		va_list arguments;                                            \
                                                                              \
		va_start(arguments, flags);                                   \
		mode = va_arg(arguments, mode_t);                             \
		va_end(arguments);                                            \
	}

#define OPEN(name)                                                            \
	EXPORT int name(const char *path, int flags, ...)                     \
	{                                                                     \
		struct opening opening;                                       \
		mode_t mode = 0;                                              \
                                                                              \
		MODE_ARGUMENT(mode)                                           \
		opening = opening_begin(AT_FDCWD, path, flags, mode);         \
		return opening_end(opening, real.name(path, flags, mode));    \
	}

#define OPEN_AT(name)                                                         \
	EXPORT int name(int at, const char *path, int flags, ...)             \
	{                                                                     \
		struct opening opening;                                       \
		mode_t mode = 0;                                              \
                                                                              \
		MODE_ARGUMENT(mode)                                           \
		opening = opening_begin(at, path, flags, mode);               \
		return opening_end(opening, real.name(at, path, flags, mode)); \
	}

/* What _FORTIFY_SOURCE makes of them. */
#define OPEN_CHECKED(name)                                                    \
	EXPORT int name(const char *path, int flags)                          \
	{                                                                     \
		struct opening opening = opening_begin(AT_FDCWD, path, flags, 0); \
                                                                              \
		return opening_end(opening, real.name(path, flags));          \
	}

#define OPEN_AT_CHECKED(name)                                                 \
	EXPORT int name(int at, const char *path, int flags)                  \
	{                                                                     \
		struct opening opening = opening_begin(at, path, flags, 0);   \
                                                                              \
		return opening_end(opening, real.name(at, path, flags));      \
	}

#define CREATE(name)                                                          \
	EXPORT int name(const char *path, mode_t mode)                        \
	{                                                                     \
		struct opening opening = opening_begin(                       \
			AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);  \
                                                                              \
		return opening_end(opening, real.name(path, mode));           \
	}

OPEN(open)
OPEN(open64)
OPEN(__open)
OPEN(__open64)
OPEN_AT(openat)
OPEN_AT(openat64)
OPEN_CHECKED(__open_2)
OPEN_CHECKED(__open64_2)
OPEN_AT_CHECKED(__openat_2)
OPEN_AT_CHECKED(__openat64_2)
CREATE(creat)
CREATE(creat64)

/* The first field of struct open_how, all that is needed of it. */
static int flags_of(const struct open_how *how)
{
	uint64_t flags;

	__builtin_memcpy(&flags, how, sizeof(flags));
	return (int)flags;
}

/* A wrapper of libc since glibc 2.43. The kernel has read `how` if it did not fail on it. */
EXPORT int openat2(int at, const char *path, const struct open_how *how, size_t bytes)
{
	struct opening opening = opening_begin(at, path, O_RDONLY, 0);
	int fd = real.openat2(at, path, how, bytes);

	if (fd >= 0)
		opening.flags = flags_of(how);
	return opening_end(opening, fd);
}

/* The names are known only afterwards: the pattern is filled in by the call. */
#define MAKE_TEMPORARY(name, parameters, arguments, extra_flags)              \
	EXPORT int name parameters                                            \
	{                                                                     \
		struct opening opening = opening_begin(                       \
			AT_FDCWD, pattern, O_RDWR | O_CREAT | O_EXCL | (extra_flags), 0600); \
                                                                              \
		return opening_end(opening, real.name arguments);             \
	}

MAKE_TEMPORARY(mkstemp, (char *pattern), (pattern), 0)
MAKE_TEMPORARY(mkstemp64, (char *pattern), (pattern), 0)
MAKE_TEMPORARY(mkstemps, (char *pattern, int suffix), (pattern, suffix), 0)
MAKE_TEMPORARY(mkstemps64, (char *pattern, int suffix), (pattern, suffix), 0)
MAKE_TEMPORARY(mkostemp, (char *pattern, int flags), (pattern, flags), flags)
MAKE_TEMPORARY(mkostemp64, (char *pattern, int flags), (pattern, flags), flags)
MAKE_TEMPORARY(mkostemps, (char *pattern, int suffix, int flags), (pattern, suffix, flags), flags)
MAKE_TEMPORARY(mkostemps64, (char *pattern, int suffix, int flags), (pattern, suffix, flags),
	       flags)
