/* SPDX-License-Identifier: MIT */
#ifndef IOTRACE_PYTHON_H
#define IOTRACE_PYTHON_H

/*
 * Run the file named by IOTRACE_HOOKS once in this process image, if the
 * process is a Python interpreter. Every open wrapper calls it: the
 * interpreter cannot import anything without an open. Keeps errno.
 */
void python_boot(void);

#endif
