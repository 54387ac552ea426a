/* SPDX-License-Identifier: MIT */
/*
 * dlsym() under its oldest version. What is built where it lives in libc
 * (glibc 2.34 and later) must also load where it still lives in libdl.
 */
#ifndef IOTRACE_DLSYM_H
#define IOTRACE_DLSYM_H

#include <dlfcn.h>

#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
#endif

#endif
