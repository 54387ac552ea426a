/* SPDX-License-Identifier: MIT */
#ifndef IOTRACE_PROCESS_H
#define IOTRACE_PROCESS_H

#include "raw.h"

/* Record the kernel's own counters, as far as there is a log; before an exit or an exec. */
void process_ends(void);

/* For the Python hooks; the same clock and the same log. */
EXPORT uint64_t iotrace_now(void);
EXPORT int iotrace_note(uint64_t start_ns, uint64_t end_ns, const char *json, size_t bytes);
EXPORT void iotrace_pause(int on);

#endif
