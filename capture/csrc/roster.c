/* SPDX-License-Identifier: MIT */
/* Everything here may run between vfork and exec: no libc state, no allocation. */
#include "roster.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "program.h"

static char list_path[PATH_MAX];
static struct roster_entry *list; /* the header first; NULL: entries are appended */

static uint64_t clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void map_list(void)
{
	const size_t bytes = ROSTER_ROOM * sizeof(*list);
	int fd = raw_open(list_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);

	if (fd < 0)
		return;
	if (RAW(SYS_lseek, fd, 0, SEEK_END) >= (long)bytes)
		list = raw_map(bytes, MAP_SHARED, fd, 0);
	raw_close(fd);
	if (list && (list->kind != 0 || list->reason != ROSTER_MAGIC)) {
		RAW(SYS_munmap, list, bytes);
		list = NULL;
	}
}

void roster_start(const char *folder)
{
	static const char prefix[] = "/processes-", suffix[] = ".roster";
	struct utsname host;

	if (RAW(SYS_uname, &host) != 0 ||
	    strlen(folder) + sizeof(prefix) + sizeof(suffix) + strlen(host.nodename) > PATH_MAX)
		return;
	stpcpy(stpcpy(stpcpy(stpcpy(list_path, folder), prefix), host.nodename), suffix);
	map_list();
}

static bool store(const struct roster_entry *entry)
{
	struct roster_entry *slot;
	uint32_t place;

	if (!list || __atomic_load_n(&list->pid, __ATOMIC_RELAXED) >= ROSTER_ROOM - 1)
		return false;
	place = __atomic_add_fetch(&list->pid, 1, __ATOMIC_RELAXED);
	if (place >= ROSTER_ROOM)
		return false;
	slot = &list[place];
	memcpy(&slot->pid, &entry->pid, sizeof(*slot) - offsetof(struct roster_entry, pid));
	if (entry->kind == ROSTER_END)
		slot->reason = 1;
	__atomic_store_n(&slot->kind, entry->kind, __ATOMIC_RELEASE);
	return true;
}

static void write_entry(const struct roster_entry *entry)
{
	int fd = raw_open(list_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0);
	struct rlimit limit;

	if (fd < 0)
		return;
	/* Going beyond the limit would raise SIGXFSZ in the job. */
	if (RAW(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY ||
	    (uint64_t)RAW(SYS_lseek, fd, 0, SEEK_END) + sizeof(*entry) <= limit.rlim_cur)
		RAW(SYS_write, fd, entry, sizeof(*entry));
	raw_close(fd);
}

static void append(struct roster_entry *entry, const char *text)
{
	size_t bytes = strlen(text);

	if (!list_path[0])
		return;
	if (bytes > sizeof(entry->text))
		text += bytes - sizeof(entry->text);
	memcpy(entry->text, text, bytes < sizeof(entry->text) ? bytes : sizeof(entry->text));
	entry->pid = (uint32_t)RAW(SYS_getpid);
	entry->parent_pid = (uint32_t)RAW(SYS_getppid);
	entry->boottime_ns = clock_now(CLOCK_BOOTTIME);
	entry->monotonic_ns = clock_now(CLOCK_MONOTONIC);
	if (!store(entry))
		write_entry(entry);
}

void roster_begin(void)
{
	struct roster_entry entry = {.kind = ROSTER_BEGIN};
	char name[16] = "";

	RAW(SYS_prctl, PR_GET_NAME, name);
	append(&entry, name);
}

void roster_end(struct roster_entry entry)
{
	entry.kind = ROSTER_END;
	append(&entry, "");
}

void roster_exec(const char *path)
{
	struct roster_entry entry = {.kind = ROSTER_EXEC};

	if (!path || RAW(SYS_faccessat, AT_FDCWD, path, F_OK) == -EFAULT)
		path = ""; /* the kernel will refuse it */
	append(&entry, path);
}

void roster_stayed(void)
{
	struct roster_entry entry = {.kind = ROSTER_STAYED};

	append(&entry, "");
}

static void check(int at, const char *path, int flags, char *shown)
{
	struct roster_entry entry = {.kind = ROSTER_UNWATCHED};

	entry.reason = program_reason(at, path, flags, shown);
	if (entry.reason != WATCHABLE)
		append(&entry, shown);
}

void roster_check(int at, const char *path, int flags)
{
	char shown[PATH_MAX];

	if (path && list_path[0])
		check(at, path, flags, shown);
}

void roster_check_name(const char *file)
{
	const char *at = getenv("PATH");
	char path[PATH_MAX];

	if (!list_path[0])
		return;
	if (!file || strchr(file, '/')) {
		roster_check(AT_FDCWD, file, 0);
		return;
	}
	if (!at)
		at = "/bin:/usr/bin";
	for (;;) {
		const char *end = strchrnul(at, ':');
		size_t bytes = (size_t)(end - at);

		if (bytes + strlen(file) + 2 <= sizeof(path)) {
			memcpy(path, at, bytes);
			path[bytes] = '/';
			strcpy(path + bytes + (bytes > 0), file);
			if (program_exists(path)) {
				check(AT_FDCWD, path, 0, path);
				return;
			}
		}
		if (!*end)
			return;
		at = end + 1;
	}
}
