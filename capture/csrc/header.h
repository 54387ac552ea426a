/* SPDX-License-Identifier: MIT */
/* What a raw log says of its process. */
#ifndef IOTRACE_HEADER_H
#define IOTRACE_HEADER_H

#include "raw.h"
#include "record.h"

/* Field 22 of /proc/self/stat, the start of the process in clock ticks; 0: unknown. */
uint64_t header_start_ticks(void);

/* Fill the zeroed first LOG_HEADER_BYTES of a log. */
void header_fill(struct log_header *header, const char *path);

#endif
