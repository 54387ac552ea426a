/* SPDX-License-Identifier: MIT */
#ifndef IOTRACE_EXEC_H
#define IOTRACE_EXEC_H

#include "raw.h"

/* Remember what a new program must be given to be captured; call once, at start. */
void exec_start(void);

#endif
