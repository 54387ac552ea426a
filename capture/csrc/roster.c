/* SPDX-License-Identifier: MIT */
/* Everything here may run between vfork and exec: no libc state, no allocation. */
#include "roster.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#include "keeper.h"
#include "log.h"
#include "program.h"

static bool is_on;
static struct roster_header *list; /* the entries behind it; NULL: the launcher keeps them */
static uint32_t room;

static uint64_t clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void map_list(const char *path)
{
	int fd = raw_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	struct roster_header header;
	size_t bytes;

	if (fd < 0)
		return;
	if (RAW(SYS_pread64, fd, &header, sizeof(header), 0) == sizeof(header)) {
		log_count_own_read(sizeof(header));
		bytes = sizeof(header) + header.room * sizeof(struct roster_entry);
		if (header.magic == ROSTER_MAGIC && header.room &&
		    RAW(SYS_lseek, fd, 0, SEEK_END) >= (long)bytes)
			list = raw_map(bytes, MAP_SHARED, fd, 0);
		room = header.room;
	}
	raw_close(fd);
}

void roster_start(const char *folder)
{
	static const char prefix[] = "/processes-", suffix[] = ".roster";
	char path[PATH_MAX];
	struct utsname host;

	if (RAW(SYS_uname, &host) != 0 ||
	    strlen(folder) + sizeof(prefix) + sizeof(suffix) + strlen(host.nodename) > PATH_MAX)
		return;
	stpcpy(stpcpy(stpcpy(stpcpy(path, folder), prefix), host.nodename), suffix);
	map_list(path);
	is_on = true;
}

static bool store(const struct roster_entry *entry)
{
	struct roster_entry *slot;
	uint32_t place;

	if (!list || __atomic_load_n(&list->taken, __ATOMIC_RELAXED) >= room)
		return false;
	place = __atomic_fetch_add(&list->taken, 1, __ATOMIC_RELAXED);
	if (place >= room)
		return false;
	slot = (struct roster_entry *)(list + 1) + place;
	memcpy(&slot->pid, &entry->pid, sizeof(*slot) - offsetof(struct roster_entry, pid));
	__atomic_store_n(&slot->kind, entry->kind, __ATOMIC_RELEASE);
	return true;
}

static void enter(struct roster_entry *entry, const char *text)
{
	size_t bytes = strlen(text);

	if (!is_on)
		return;
	if (bytes > sizeof(entry->text))
		text += bytes - sizeof(entry->text);
	memcpy(entry->text, text, bytes < sizeof(entry->text) ? bytes : sizeof(entry->text));
	entry->pid = (uint32_t)RAW(SYS_getpid);
	entry->parent_pid = log_parent_pid();
	entry->boottime_ns = clock_now(CLOCK_BOOTTIME);
	entry->monotonic_ns = clock_now(CLOCK_MONOTONIC);
	if (!store(entry))
		keeper_keep(entry, sizeof(*entry));
}

void roster_begin(void)
{
	struct roster_entry entry = {.kind = ROSTER_BEGIN};
	char name[16] = "";

	RAW(SYS_prctl, PR_GET_NAME, name);
	enter(&entry, name);
}

void roster_end(struct roster_entry entry)
{
	entry.kind = ROSTER_END;
	enter(&entry, "");
}

void roster_exec(const char *path)
{
	struct roster_entry entry = {.kind = ROSTER_EXEC};

	if (!path || RAW(SYS_faccessat, AT_FDCWD, path, F_OK) == -EFAULT)
		path = ""; /* the kernel will refuse it */
	enter(&entry, path);
}

void roster_stayed(void)
{
	struct roster_entry entry = {.kind = ROSTER_STAYED};

	enter(&entry, "");
}

void roster_unlogged(int error)
{
	struct roster_entry entry = {.kind = ROSTER_UNLOGGED, .reason = (uint32_t)error};

	enter(&entry, "");
}

static void check(int at, const char *path, int flags, char *shown)
{
	struct roster_entry entry = {.kind = ROSTER_UNWATCHED};

	entry.reason = program_reason(at, path, flags, shown);
	if (entry.reason != WATCHABLE)
		enter(&entry, shown);
}

void roster_check(int at, const char *path, int flags)
{
	char shown[PATH_MAX];

	if (path && is_on)
		check(at, path, flags, shown);
}

void roster_check_name(const char *file)
{
	const char *at = getenv("PATH");
	char path[PATH_MAX];

	if (!is_on)
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
