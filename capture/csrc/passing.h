/* SPDX-License-Identifier: MIT */
#ifndef IOTRACE_PASSING_H
#define IOTRACE_PASSING_H

#include "raw.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

struct msghdr;

/* A ring will send this message, which may be no memory of the job's. */
void passing_foreseen(const struct msghdr *message);

#endif
