/* SPDX-License-Identifier: MIT */
/* Whether the dynamic loader would bring this library into a program. */
#ifndef IOTRACE_PROGRAM_H
#define IOTRACE_PROGRAM_H

#include "roster.h"

#include <limits.h>

/*
 * Why not; WATCHABLE also for what cannot be executed at all. `shown`, of
 * PATH_MAX bytes, receives the path of the program, or of its interpreter.
 */
enum unwatched_reason program_reason(int at, const char *path, int flags, char *shown);

/* Whether execve would take a file. */
bool program_exists(const char *path);

#endif
