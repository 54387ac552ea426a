/* SPDX-License-Identifier: MIT */
/* What goes into streams. Headers rename some of these functions, so C knows them by other names. */
#include "flow.h"
#include "real.h"

#include <err.h>
#include <stdlib.h>

static struct flow write_begin(FILE *stream, size_t wanted)
{
	struct flow flow = {.stream = stream};

	if (!capture_is_on || wanted <= flow_room(stream))
		return flow;
	return flow_begin(stream);
}

static void write_end(struct flow flow, size_t wanted, size_t accepted)
{
	if (!flow.request.file)
		return;
	flow_wrote(flow, accepted);
	if (unlikely(accepted == UNKNOWN || (wanted != UNKNOWN && accepted < wanted)))
		flow_failed(flow, OP_WRITE, wanted);
}

static void wide_end(struct flow flow, bool failed)
{
	if (!flow.request.file)
		return;
	flow_wrote(flow, UNKNOWN);
	if (unlikely(failed))
		flow_failed(flow, OP_WRITE, UNKNOWN);
}

#define WRITE(type, name, parameters, arguments, stream, bytes_wanted, bytes_accepted) \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		size_t wanted = bytes_wanted;                                 \
		struct flow flow = write_begin(stream, wanted);               \
		type result = real.name arguments;                            \
                                                                              \
		write_end(flow, wanted, bytes_accepted);                      \
		return result;                                                \
	}

FOR_EACH_STREAM_WRITE(WRITE)

#define WRITE_WIDE(type, name, parameters, arguments, stream)                 \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		struct flow flow = flow_begin_unknown(stream, OP_WRITE);      \
		type result = real.name arguments;                            \
                                                                              \
		wide_end(flow, result == (type)-1);                           \
		return result;                                                \
	}

FOR_EACH_WIDE_WRITE(WRITE_WIDE)

/* --- with arguments of any number: through the wrapper that takes a list of them --- */

#define LISTED(type, name, parameters, last, call)                            \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		va_list list;                                                 \
		type result;                                                  \
                                                                              \
		va_start(list, last);                                         \
		result = stream_##call;                                       \
		va_end(list);                                                 \
		return result;                                                \
	}

LISTED(int, fprintf, (FILE * stream, const char *format, ...), format,
       vfprintf(stream, format, list))
LISTED(int, _IO_fprintf, (FILE * stream, const char *format, ...), format,
       vfprintf(stream, format, list))
LISTED(int, printf, (const char *format, ...), format, vprintf(format, list))
LISTED(int, _IO_printf, (const char *format, ...), format, vprintf(format, list))
LISTED(int, __fprintf_chk, (FILE * stream, int flag, const char *format, ...), format,
       __vfprintf_chk(stream, flag, format, list))
LISTED(int, __printf_chk, (int flag, const char *format, ...), format,
       __vprintf_chk(flag, format, list))
LISTED(int, fwprintf, (FILE * stream, const wchar_t *format, ...), format,
       vfwprintf(stream, format, list))
LISTED(int, wprintf, (const wchar_t *format, ...), format, vwprintf(format, list))
LISTED(int, __fwprintf_chk, (FILE * stream, int flag, const wchar_t *format, ...), format,
       __vfwprintf_chk(stream, flag, format, list))
LISTED(int, __wprintf_chk, (int flag, const wchar_t *format, ...), format,
       __vwprintf_chk(flag, format, list))

/* --- formatted straight to a descriptor, through a stream of libc's own --- */

static struct flow descriptor_begin(int fd)
{
	struct flow flow = {.position = -1};

	if (!capture_is_on || fd < 0)
		return flow;
	flow.request = request_begin(fd);
	return flow;
}

static int descriptor_end(struct flow flow, int result)
{
	if (flow_is_recorded(flow) && result > 0)
		flow_append_moved(flow, OP_WRITE, raw_position(flow.request.fd), result);
	else if (result > 0)
		flow_append(flow, OP_WRITE, -1, result);
	if (unlikely(result < 0))
		flow_failed(flow, OP_WRITE, UNKNOWN);
	return result;
}

EXPORT int stream_vdprintf(int fd, const char *format, va_list list) __asm__("vdprintf");
EXPORT int stream_vdprintf(int fd, const char *format, va_list list)
{
	struct flow flow = descriptor_begin(fd);

	return descriptor_end(flow, real.vdprintf(fd, format, list));
}

EXPORT int stream___vdprintf_chk(int fd, int flag, const char *format,
				 va_list list) __asm__("__vdprintf_chk");
EXPORT int stream___vdprintf_chk(int fd, int flag, const char *format, va_list list)
{
	struct flow flow = descriptor_begin(fd);

	return descriptor_end(flow, real.__vdprintf_chk(fd, flag, format, list));
}

LISTED(int, dprintf, (int fd, const char *format, ...), format, vdprintf(fd, format, list))
LISTED(int, __dprintf_chk, (int fd, int flag, const char *format, ...), format,
       __vdprintf_chk(fd, flag, format, list))

/* --- messages on standard error ---------------------------------------- */

#define MESSAGE(type, name, parameters, arguments)                            \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		struct flow flow = flow_begin_unknown(stderr, OP_WRITE);      \
                                                                              \
		real.name arguments;                                          \
		flow_wrote(flow, UNKNOWN);                                    \
	}

FOR_EACH_MESSAGE(MESSAGE)

#define WARN(name, call)                                                      \
	EXPORT void stream_##name(const char *format, ...) __asm__(#name);    \
	EXPORT void stream_##name(const char *format, ...)                    \
	{                                                                     \
		va_list list;                                                 \
                                                                              \
		va_start(list, format);                                       \
		stream_##call(format, list);                                  \
		va_end(list);                                                 \
	}

WARN(warn, vwarn)
WARN(warnx, vwarnx)

/* libc's own do the same two things. */
#define LAST_WORDS(name, call)                                                \
	EXPORT __attribute__((noreturn)) void name(int status, const char *format, ...) \
	{                                                                     \
		va_list list;                                                 \
                                                                              \
		va_start(list, format);                                       \
		stream_##call(format, list);                                  \
		exit(status);                                                 \
	}                                                                     \
                                                                              \
	EXPORT __attribute__((noreturn)) void v##name(int status, const char *format, \
						      va_list list)           \
	{                                                                     \
		stream_##call(format, list);                                  \
		exit(status);                                                 \
	}

LAST_WORDS(err, vwarn)
LAST_WORDS(errx, vwarnx)
