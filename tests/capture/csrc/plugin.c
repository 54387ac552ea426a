/* SPDX-License-Identifier: MIT */
/* A plugin that writes a file; loaded with RTLD_DEEPBIND it finds libc before any preloaded library. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int plugin_write(const char *path, long bytes)
{
	char *data = calloc(1, (size_t)bytes);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	long written = data && fd >= 0 ? write(fd, data, (size_t)bytes) : -1;

	free(data);
	return written == bytes && close(fd) == 0 ? 0 : -1;
}
