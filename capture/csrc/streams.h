/* SPDX-License-Identifier: MIT */
#ifndef IOTRACE_STREAMS_H
#define IOTRACE_STREAMS_H

#include "raw.h"

/*
 * Record ahead what exit() is about to flush: libc does that when no code of
 * ours runs any more.
 */
void streams_end(void);

#endif
