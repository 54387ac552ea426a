/* SPDX-License-Identifier: MIT */
/* What comes out of streams. Headers rename some of these functions, so C knows them by other names. */
#include "flow.h"
#include "real.h"

/* Reading in lines makes libc write what standard output holds. */
static struct flow output_begin(FILE *stream)
{
	struct flow flow = {.stream = stdout};

	if (likely(!flow_flushes_output(stream)) || stream == stdout)
		return flow;
	return flow_begin(stdout);
}

/* How the table of reads says what it can. */
#define ENDS_AHEAD(byte) flow_is_ahead(from, byte)
#define LINE_IS_AHEAD(room) (((room) > 0 && (size_t)(room) <= ahead) || ENDS_AHEAD('\n'))
#define LINE_BYTES (result ? strlen(result) : 0)

#define READ(type, name, parameters, arguments, stream, needs_no_kernel, bytes_taken) \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		FILE *from = stream;                                          \
		size_t ahead = capture_is_on ? flow_bytes_ahead(from) : 0;    \
		struct flow flow, output;                                     \
		type result;                                                  \
                                                                              \
		(void)ahead;                                                  \
		if (!capture_is_on || (needs_no_kernel))                      \
			return real.name arguments;                           \
		output = output_begin(from);                                  \
		flow = flow_begin_read(from);                                 \
		result = real.name arguments;                                 \
		flow_read(flow, bytes_taken);                                 \
		flow_wrote(output, 0);                                        \
		return result;                                                \
	}

FOR_EACH_STREAM_READ(READ)

#define SCAN(type, name, parameters, arguments, stream)                       \
	EXPORT type stream_##name parameters __asm__(#name);                  \
	EXPORT type stream_##name parameters                                  \
	{                                                                     \
		FILE *from = stream;                                          \
		struct flow output = output_begin(from);                      \
		struct flow flow = flow_begin_unknown(from, OP_READ);         \
		type result = real.name arguments;                            \
                                                                              \
		flow_read(flow, UNKNOWN);                                     \
		flow_wrote(output, 0);                                        \
		return result;                                                \
	}

FOR_EACH_STREAM_SCAN(SCAN)

/* With arguments of any number: through the wrapper that takes a list of them. */
#define LISTED(name, parameters, call)                                        \
	EXPORT int stream_##name parameters __asm__(#name);                   \
	EXPORT int stream_##name parameters                                   \
	{                                                                     \
		va_list list;                                                 \
		int result;                                                   \
                                                                              \
		va_start(list, format);                                       \
		result = stream_##call;                                       \
		va_end(list);                                                 \
		return result;                                                \
	}

LISTED(fscanf, (FILE * stream, const char *format, ...), vfscanf(stream, format, list))
LISTED(scanf, (const char *format, ...), vscanf(format, list))
LISTED(fwscanf, (FILE * stream, const wchar_t *format, ...), vfwscanf(stream, format, list))
LISTED(wscanf, (const wchar_t *format, ...), vwscanf(format, list))
LISTED(__isoc99_fscanf, (FILE * stream, const char *format, ...),
       __isoc99_vfscanf(stream, format, list))
LISTED(__isoc99_scanf, (const char *format, ...), __isoc99_vscanf(format, list))
LISTED(__isoc99_fwscanf, (FILE * stream, const wchar_t *format, ...),
       __isoc99_vfwscanf(stream, format, list))
LISTED(__isoc99_wscanf, (const wchar_t *format, ...), __isoc99_vwscanf(format, list))
LISTED(__isoc23_fscanf, (FILE * stream, const char *format, ...),
       __isoc23_vfscanf(stream, format, list))
LISTED(__isoc23_scanf, (const char *format, ...), __isoc23_vscanf(format, list))
LISTED(__isoc23_fwscanf, (FILE * stream, const wchar_t *format, ...),
       __isoc23_vfwscanf(stream, format, list))
LISTED(__isoc23_wscanf, (const wchar_t *format, ...), __isoc23_vwscanf(format, list))
