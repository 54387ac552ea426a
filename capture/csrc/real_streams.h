/* SPDX-License-Identifier: MIT */
/*
 * libc's functions on streams, a line each. A line makes both the pointer to
 * the real function (real.h) and the wrapper (stream_writes.c, stream_reads.c).
 */
#ifndef IOTRACE_REAL_STREAMS_H
#define IOTRACE_REAL_STREAMS_H

#include "raw.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* Macros of <stdio.h> in older libcs, or when optimising. */
#undef fread_unlocked
#undef fwrite_unlocked
#undef getc
#undef putc
#undef getc_unlocked
#undef putc_unlocked
#undef getchar
#undef putchar

/* For `wanted` and `accepted`: only the call itself knows, or has not told. */
#define UNKNOWN ((size_t)-1)

/* Of calls that return a negative number or their bytes; or that return EOF, or have taken `n`. */
#define NUMBER_OR_FAILED (result < 0 ? UNKNOWN : (size_t)result)
#define ALL_OR_FAILED(n) (result == EOF ? UNKNOWN : (size_t)(n))

/* X(return type, name, parameters, arguments, stream, bytes wanted, bytes accepted by `result`) */
#define FOR_EACH_STREAM_WRITE(X)                                                                   \
	X(size_t, fwrite, (const void *buffer, size_t bytes, size_t count, FILE *stream),          \
	  (buffer, bytes, count, stream), stream, bytes *count, result *bytes)                     \
	X(size_t, fwrite_unlocked, (const void *buffer, size_t bytes, size_t count, FILE *stream), \
	  (buffer, bytes, count, stream), stream, bytes *count, result *bytes)                     \
	X(size_t, _IO_fwrite, (const void *buffer, size_t bytes, size_t count, FILE *stream),      \
	  (buffer, bytes, count, stream), stream, bytes *count, result *bytes)                     \
	X(int, fputs, (const char *text, FILE *stream), (text, stream), stream, strlen(text),      \
	  ALL_OR_FAILED(wanted))                                                                   \
	X(int, fputs_unlocked, (const char *text, FILE *stream), (text, stream), stream,           \
	  strlen(text), ALL_OR_FAILED(wanted))                                                     \
	X(int, _IO_fputs, (const char *text, FILE *stream), (text, stream), stream, strlen(text),  \
	  ALL_OR_FAILED(wanted))                                                                   \
	X(int, puts, (const char *text), (text), stdout, strlen(text) + 1, ALL_OR_FAILED(wanted))  \
	X(int, _IO_puts, (const char *text), (text), stdout, strlen(text) + 1,                     \
	  ALL_OR_FAILED(wanted))                                                                   \
	X(int, fputc, (int byte, FILE *stream), (byte, stream), stream, 1, ALL_OR_FAILED(1))       \
	X(int, fputc_unlocked, (int byte, FILE *stream), (byte, stream), stream, 1,                \
	  ALL_OR_FAILED(1))                                                                        \
	X(int, putc, (int byte, FILE *stream), (byte, stream), stream, 1, ALL_OR_FAILED(1))        \
	X(int, putc_unlocked, (int byte, FILE *stream), (byte, stream), stream, 1,                 \
	  ALL_OR_FAILED(1))                                                                        \
	X(int, _IO_putc, (int byte, FILE *stream), (byte, stream), stream, 1, ALL_OR_FAILED(1))    \
	X(int, putchar, (int byte), (byte), stdout, 1, ALL_OR_FAILED(1))                           \
	X(int, putchar_unlocked, (int byte), (byte), stdout, 1, ALL_OR_FAILED(1))                  \
	/* what an inlined putc_unlocked() calls when the buffer is full */                        \
	X(int, __overflow, (FILE * stream, int byte), (stream, byte), stream, byte != EOF,         \
	  ALL_OR_FAILED(byte != EOF))                                                              \
	X(int, putw, (int word, FILE *stream), (word, stream), stream, sizeof(int),                \
	  ALL_OR_FAILED(sizeof(int)))                                                              \
	X(int, vfprintf, (FILE * stream, const char *format, va_list list),                        \
	  (stream, format, list), stream, UNKNOWN, NUMBER_OR_FAILED)                               \
	X(int, _IO_vfprintf, (FILE * stream, const char *format, va_list list),                    \
	  (stream, format, list), stream, UNKNOWN, NUMBER_OR_FAILED)                               \
	X(int, __vfprintf_chk, (FILE * stream, int flag, const char *format, va_list list),        \
	  (stream, flag, format, list), stream, UNKNOWN, NUMBER_OR_FAILED)                         \
	X(int, vprintf, (const char *format, va_list list), (format, list), stdout, UNKNOWN,       \
	  NUMBER_OR_FAILED)                                                                        \
	X(int, __vprintf_chk, (int flag, const char *format, va_list list), (flag, format, list),  \
	  stdout, UNKNOWN, NUMBER_OR_FAILED)

/*
 * Wide characters: what they become in bytes only the kernel's position tells.
 * X(return type, name, parameters, arguments, stream)
 */
#define FOR_EACH_WIDE_WRITE(X)                                                                     \
	X(wint_t, fputwc, (wchar_t wide, FILE *stream), (wide, stream), stream)                    \
	X(wint_t, fputwc_unlocked, (wchar_t wide, FILE *stream), (wide, stream), stream)           \
	X(wint_t, putwc, (wchar_t wide, FILE *stream), (wide, stream), stream)                     \
	X(wint_t, putwc_unlocked, (wchar_t wide, FILE *stream), (wide, stream), stream)            \
	X(wint_t, putwchar, (wchar_t wide), (wide), stdout)                                        \
	X(wint_t, putwchar_unlocked, (wchar_t wide), (wide), stdout)                               \
	X(wint_t, __woverflow, (FILE * stream, wint_t wide), (stream, wide), stream)               \
	X(int, fputws, (const wchar_t *text, FILE *stream), (text, stream), stream)                \
	X(int, fputws_unlocked, (const wchar_t *text, FILE *stream), (text, stream), stream)       \
	X(int, vfwprintf, (FILE * stream, const wchar_t *format, va_list list), (stream,           \
	  format, list), stream)                                                                   \
	X(int, __vfwprintf_chk, (FILE * stream, int flag, const wchar_t *format, va_list list),    \
	  (stream, flag, format, list), stream)                                                    \
	X(int, vwprintf, (const wchar_t *format, va_list list), (format, list), stdout)            \
	X(int, __vwprintf_chk, (int flag, const wchar_t *format, va_list list), (flag, format,     \
	  list), stdout)

/* X(return type, name, parameters, arguments, stream, can do without the kernel, bytes taken) */
#define FOR_EACH_STREAM_READ(X)                                                                    \
	X(size_t, fread, (void *buffer, size_t bytes, size_t count, FILE *stream), (buffer,        \
	  bytes, count, stream), stream, bytes *count <= ahead, result *bytes)                     \
	X(size_t, fread_unlocked, (void *buffer, size_t bytes, size_t count, FILE *stream),        \
	  (buffer, bytes, count, stream), stream, bytes *count <= ahead, result *bytes)            \
	X(size_t, _IO_fread, (void *buffer, size_t bytes, size_t count, FILE *stream), (buffer,    \
	  bytes, count, stream), stream, bytes *count <= ahead, result *bytes)                     \
	X(size_t, __fread_chk, (void *buffer, size_t room, size_t bytes, size_t count,             \
	  FILE *stream), (buffer, room, bytes, count, stream), stream, bytes *count <= ahead,      \
	  result *bytes)                                                                           \
	X(size_t, __fread_unlocked_chk, (void *buffer, size_t room, size_t bytes, size_t count,    \
	  FILE *stream), (buffer, room, bytes, count, stream), stream, bytes *count <= ahead,      \
	  result *bytes)                                                                           \
	X(size_t, _IO_sgetn, (FILE * stream, void *buffer, size_t bytes), (stream, buffer,         \
	  bytes), stream, bytes <= ahead, result)                                                  \
	X(int, fgetc, (FILE * stream), (stream), stream, ahead, result != EOF)                     \
	X(int, fgetc_unlocked, (FILE * stream), (stream), stream, ahead, result != EOF)            \
	X(int, getc, (FILE * stream), (stream), stream, ahead, result != EOF)                      \
	X(int, getc_unlocked, (FILE * stream), (stream), stream, ahead, result != EOF)             \
	X(int, _IO_getc, (FILE * stream), (stream), stream, ahead, result != EOF)                  \
	X(int, getchar, (void), (), stdin, ahead, result != EOF)                                   \
	X(int, getchar_unlocked, (void), (), stdin, ahead, result != EOF)                          \
	/* what an inlined getc_unlocked() calls when the buffer is empty */                       \
	X(int, __uflow, (FILE * stream), (stream), stream, ahead, result != EOF)                   \
	X(int, __underflow, (FILE * stream), (stream), stream, ahead, 0)                           \
	X(int, _IO_peekc_locked, (FILE * stream), (stream), stream, ahead, 0)                      \
	X(char *, fgets, (char *line, int room, FILE *stream), (line, room, stream), stream,       \
	  LINE_IS_AHEAD(room), LINE_BYTES)                                                         \
	X(char *, fgets_unlocked, (char *line, int room, FILE *stream), (line, room, stream),      \
	  stream, LINE_IS_AHEAD(room), LINE_BYTES)                                                 \
	X(char *, _IO_fgets, (char *line, int room, FILE *stream), (line, room, stream), stream,   \
	  LINE_IS_AHEAD(room), LINE_BYTES)                                                         \
	X(char *, __fgets_chk, (char *line, size_t size, int room, FILE *stream), (line, size,     \
	  room, stream), stream, LINE_IS_AHEAD(room), LINE_BYTES)                                  \
	X(char *, __fgets_unlocked_chk, (char *line, size_t size, int room, FILE *stream),         \
	  (line, size, room, stream), stream, LINE_IS_AHEAD(room), LINE_BYTES)                     \
	X(ssize_t, getline, (char **line, size_t *size, FILE *stream), (line, size, stream),       \
	  stream, ENDS_AHEAD('\n'), result < 0 ? 0 : (size_t)result)                               \
	X(ssize_t, getdelim, (char **line, size_t *size, int end, FILE *stream), (line, size,      \
	  end, stream), stream, ENDS_AHEAD(end), result < 0 ? 0 : (size_t)result)                  \
	X(ssize_t, __getdelim, (char **line, size_t *size, int end, FILE *stream), (line, size,    \
	  end, stream), stream, ENDS_AHEAD(end), result < 0 ? 0 : (size_t)result)

/*
 * What these take only the kernel's position tells.
 * X(return type, name, parameters, arguments, stream)
 */
#define FOR_EACH_STREAM_SCAN(X)                                                                    \
	X(int, getw, (FILE * stream), (stream), stream)                                            \
	X(char *, gets, (char *line), (line), stdin)                                               \
	X(char *, _IO_gets, (char *line), (line), stdin)                                           \
	X(char *, __gets_chk, (char *line, size_t size), (line, size), stdin)                      \
	X(int, vfscanf, (FILE * stream, const char *format, va_list list), (stream, format,        \
	  list), stream)                                                                           \
	X(int, __vfscanf, (FILE * stream, const char *format, va_list list), (stream, format,      \
	  list), stream)                                                                           \
	X(int, __isoc99_vfscanf, (FILE * stream, const char *format, va_list list), (stream,       \
	  format, list), stream)                                                                   \
	X(int, __isoc23_vfscanf, (FILE * stream, const char *format, va_list list), (stream,       \
	  format, list), stream)                                                                   \
	X(int, vscanf, (const char *format, va_list list), (format, list), stdin)                  \
	X(int, __isoc99_vscanf, (const char *format, va_list list), (format, list), stdin)         \
	X(int, __isoc23_vscanf, (const char *format, va_list list), (format, list), stdin)         \
	X(wint_t, fgetwc, (FILE * stream), (stream), stream)                                       \
	X(wint_t, fgetwc_unlocked, (FILE * stream), (stream), stream)                              \
	X(wint_t, getwc, (FILE * stream), (stream), stream)                                        \
	X(wint_t, getwc_unlocked, (FILE * stream), (stream), stream)                               \
	X(wint_t, getwchar, (void), (), stdin)                                                     \
	X(wint_t, getwchar_unlocked, (void), (), stdin)                                            \
	X(wint_t, __wuflow, (FILE * stream), (stream), stream)                                     \
	X(wint_t, __wunderflow, (FILE * stream), (stream), stream)                                 \
	X(wchar_t *, fgetws, (wchar_t * line, int room, FILE *stream), (line, room, stream),       \
	  stream)                                                                                  \
	X(wchar_t *, fgetws_unlocked, (wchar_t * line, int room, FILE *stream), (line, room,       \
	  stream), stream)                                                                         \
	X(wchar_t *, __fgetws_chk, (wchar_t * line, size_t size, int room, FILE *stream), (line,   \
	  size, room, stream), stream)                                                             \
	X(wchar_t *, __fgetws_unlocked_chk, (wchar_t * line, size_t size, int room,                \
	  FILE *stream), (line, size, room, stream), stream)                                       \
	X(int, vfwscanf, (FILE * stream, const wchar_t *format, va_list list), (stream, format,    \
	  list), stream)                                                                           \
	X(int, __isoc99_vfwscanf, (FILE * stream, const wchar_t *format, va_list list), (stream,   \
	  format, list), stream)                                                                   \
	X(int, __isoc23_vfwscanf, (FILE * stream, const wchar_t *format, va_list list), (stream,   \
	  format, list), stream)                                                                   \
	X(int, vwscanf, (const wchar_t *format, va_list list), (format, list), stdin)              \
	X(int, __isoc99_vwscanf, (const wchar_t *format, va_list list), (format, list), stdin)     \
	X(int, __isoc23_vwscanf, (const wchar_t *format, va_list list), (format, list), stdin)

/* Calls that may write what is pending, and nothing else: X(type, name, parameters, arguments) */
#define FOR_EACH_STREAM_SETTING(X)                                                                 \
	X(int, setvbuf, (FILE * stream, char *buffer, int mode, size_t bytes),                     \
	  (stream, buffer, mode, bytes))                                                           \
	X(int, _IO_setvbuf, (FILE * stream, char *buffer, int mode, size_t bytes),                 \
	  (stream, buffer, mode, bytes))

#define FOR_EACH_VOID_STREAM_SETTING(X)                                                            \
	X(void, setbuf, (FILE * stream, char *buffer), (stream, buffer))                           \
	X(void, setbuffer, (FILE * stream, char *buffer, size_t bytes), (stream, buffer, bytes))   \
	X(void, _IO_setbuffer, (FILE * stream, char *buffer, size_t bytes),                        \
	  (stream, buffer, bytes))                                                                 \
	X(void, setlinebuf, (FILE * stream), (stream))

/* Messages on stderr, which has no buffer. */
#define FOR_EACH_MESSAGE(X)                                                                        \
	X(void, perror, (const char *text), (text))                                                \
	X(void, psignal, (int number, const char *text), (number, text))                           \
	X(void, vwarn, (const char *format, va_list list), (format, list))                         \
	X(void, vwarnx, (const char *format, va_list list), (format, list))

#define FOR_EACH_STREAM_FUNCTION(X)                                                                \
	FOR_EACH_STREAM_WRITE(X)                                                                   \
	FOR_EACH_WIDE_WRITE(X)                                                                     \
	FOR_EACH_STREAM_READ(X)                                                                    \
	FOR_EACH_STREAM_SCAN(X)                                                                    \
	FOR_EACH_STREAM_SETTING(X)                                                                 \
	FOR_EACH_VOID_STREAM_SETTING(X)                                                            \
	FOR_EACH_MESSAGE(X)                                                                        \
	X(int, vdprintf, (int fd, const char *format, va_list list), (fd, format, list))           \
	X(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list list),               \
	  (fd, flag, format, list))

#endif
