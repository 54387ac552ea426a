/* SPDX-License-Identifier: MIT */
/* Mappings of recorded files. */
#ifndef IOTRACE_MAPS_H
#define IOTRACE_MAPS_H

#include "request.h"

/* Record a call on memory once for each recorded file that is mapped there. */
int maps_used(struct record record, uint64_t start_ns, void *address, size_t bytes, int result);

#endif
