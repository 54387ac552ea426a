/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"

#define HEAD_BYTES 1024 /* program headers follow the first; the loader's name follows them */

/* What is no program may be a pipe that nobody writes to: execve would not wait for it. */
#define LOOK_ONLY (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

bool program_exists(const char *path)
{
	struct stat found;

	return RAW(SYS_newfstatat, AT_FDCWD, path, &found, 0) == 0 && S_ISREG(found.st_mode) &&
	       RAW(SYS_faccessat, AT_FDCWD, path, X_OK) == 0;
}

/*
 * A program that gains rights is started without LD_PRELOAD. One that would
 * give the rights its user has already is started as any other.
 */
static bool gains_rights(int fd, const struct stat *file)
{
	char capabilities[64];

	if (file->st_mode & S_ISUID && file->st_uid != (uid_t)RAW(SYS_getuid))
		return true;
	if ((file->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
	    file->st_gid != (gid_t)RAW(SYS_getgid))
		return true;
	return RAW(SYS_getuid) != 0 && RAW(SYS_fgetxattr, fd, "security.capability", capabilities,
					   sizeof(capabilities)) > 0;
}

/* `ld.so program` loads libraries like the program would, and names no loader itself. */
static bool is_loader(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld.so", 5) == 0;
}

/* The file says where its parts are, and may say anything: no sum that could wrap. */
static bool is_within(uint64_t offset, uint64_t length, size_t bytes)
{
	return offset <= bytes && length <= bytes - offset;
}

static enum unwatched_reason reason_of_binary(const char *head, size_t bytes, const char *path)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)head;

	if (bytes < sizeof(*elf) || elf->e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf->e_machine != OWN_MACHINE)
		return UNWATCHED_FOREIGN;
	for (size_t i = 0; i < elf->e_phnum; i++) {
		Elf64_Phdr header;

		if (!is_within(elf->e_phoff, (i + 1) * sizeof(header), bytes))
			return WATCHABLE; /* not known: no false alarm */
		memcpy(&header, head + elf->e_phoff + i * sizeof(header), sizeof(header));
		if (header.p_type != PT_INTERP)
			continue;
		if (is_within(header.p_offset, header.p_filesz, bytes) &&
		    memmem(head + header.p_offset, header.p_filesz, "musl", 4))
			return UNWATCHED_FOREIGN;
		return WATCHABLE;
	}
	return is_loader(path) ? WATCHABLE : UNWATCHED_STATIC;
}

/* The path after `#!`, up to a blank or the line's end; false: no script. */
static bool find_interpreter(const char *head, size_t bytes, char *interpreter)
{
	size_t from = 2, to;

	if (bytes < 2 || head[0] != '#' || head[1] != '!')
		return false;
	while (from < bytes && (head[from] == ' ' || head[from] == '\t'))
		from++;
	for (to = from; to < bytes && !strchr(" \t\n", head[to]); to++)
		;
	if (to - from >= PATH_MAX || to == from)
		return false;
	memcpy(interpreter, head + from, to - from);
	interpreter[to - from] = '\0';
	return true;
}

enum unwatched_reason program_reason(int at, const char *path, int flags, char *shown)
{
	/* A script's interpreter may be a script; the kernel follows five. */
	for (int depth = 0; depth < 5; depth++) {
		char head[HEAD_BYTES] __attribute__((aligned(8)));
		struct stat file;
		bool by_fd = flags & AT_EMPTY_PATH && !*path;
		int fd = by_fd ? at : (int)RAW(SYS_openat, at, path, LOOK_ONLY);
		long bytes = -1;
		bool gains = false;

		if (fd < 0)
			return WATCHABLE;
		if (RAW(SYS_fstat, fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_mode & 0111) {
			bytes = RAW(SYS_pread64, fd, head, sizeof(head), 0);
			log_count_own_read(bytes > 0 ? (uint64_t)bytes : 0);
			gains = gains_rights(fd, &file);
		}
		if (!by_fd)
			raw_close(fd);
		if (bytes < 4)
			return WATCHABLE;
		if (path != shown) {
			shown[0] = '\0';
			strncat(shown, path, PATH_MAX - 1);
		}
		if (memcmp(head, ELFMAG, SELFMAG) == 0)
			return gains ? UNWATCHED_PRIVILEGED
				     : reason_of_binary(head, (size_t)bytes, shown);
		if (!find_interpreter(head, (size_t)bytes, shown))
			return WATCHABLE; /* the caller's shell runs it */
		path = shown;
		at = AT_FDCWD;
		flags = 0;
	}
	return WATCHABLE;
}
