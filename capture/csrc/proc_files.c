/* SPDX-License-Identifier: MIT */
#include "proc_files.h"

#include <string.h>

#include "keeper.h"
#include "log.h"

long proc_read(const char *path, char *buffer, size_t bytes, uint64_t *own)
{
	int fd = raw_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t total = 0;
	long got;

	if (own)
		*own = 0;
	if (keeper_may_help(fd))
		return keeper_text(KEEPER_PROC_FILE, path, buffer, bytes);
	if (fd < 0)
		return fd;
	while (total < bytes && (got = RAW(SYS_read, fd, buffer + total, bytes - total)) > 0)
		total += (size_t)got;
	raw_close(fd);
	log_count_own_read(total);
	if (own)
		*own = total;
	return (long)total;
}

int64_t proc_number(const char *text, const char *label)
{
	const char *at = strstr(text, label);
	int64_t number = 0;

	if (!at)
		return 0;
	for (at += strlen(label); *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (*at - '0');
	return number;
}
