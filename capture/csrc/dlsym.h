/* SPDX-License-Identifier: MIT */
/*
 * The functions of libdl under their oldest version. What is built where they
 * live in libc (glibc 2.34 and later) must also load where they still live in
 * libdl.
 */
#ifndef IOTRACE_DLSYM_H
#define IOTRACE_DLSYM_H

#include <dlfcn.h>

#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
__asm__(".symver dladdr, dladdr@GLIBC_2.17");
__asm__(".symver dlopen, dlopen@GLIBC_2.17");
__asm__(".symver dlclose, dlclose@GLIBC_2.17");
#endif

#endif
