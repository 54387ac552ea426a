/* SPDX-License-Identifier: MIT */
/*
 * Links of /proc that lead to what a process has open, its folders and its
 * program: /proc/self/fd/3, /dev/stdin. They name no file of their own.
 */
#ifndef IOTRACE_MAGIC_LINKS_H
#define IOTRACE_MAGIC_LINKS_H

#include <stddef.h>

#define MAGIC_LINK_BYTES 128

/*
 * Bytes of the magic link that an absolute path begins with, 0 if it begins
 * with none; `link` gets its name below /proc, terminated.
 */
size_t magic_link(const char *text, size_t bytes, char link[MAGIC_LINK_BYTES]);

#endif
