/* SPDX-License-Identifier: MIT */
#ifndef IOTRACE_PROCESS_H
#define IOTRACE_PROCESS_H

#include "raw.h"

/* Record the kernel's own counters, as far as there is a log; before an exit or an exec. */
void process_ends(void);

/* For the Python hooks: the same log, whose clock they read by themselves. */
EXPORT int iotrace_note(uint64_t start_ns, uint64_t end_ns, const char *json, size_t bytes);
EXPORT void iotrace_pause(int on);

/* Could the close of a descriptor of one of these files end a lock of this process? */
EXPORT int iotrace_may_hold_locks(const char *const paths[], size_t count);

#endif
