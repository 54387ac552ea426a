/* SPDX-License-Identifier: MIT */
/*
 * Every function of libc that writes to or reads from a stream, each on a file
 * of its own, with streams that keep a block, a line or nothing.
 *
 * usage: stdio FOLDER
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <err.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define CHECK(condition)                                                      \
	do {                                                                  \
		if (!(condition)) {                                           \
			dprintf(2, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                              \
		}                                                             \
	} while (0)

/* How often each is called: often enough to fill some blocks, and to see some lines or bytes. */
static const struct {
	const char *name;
	int mode, rounds;
} buffers[] = {{"block", _IOFBF, 3000}, {"line", _IOLBF, 40}, {"none", _IONBF, 40}};

static char name[256], line[1 << 14];
static wchar_t wide_line[1 << 12];

static FILE *opened(const char *call, int buffer, const char *mode)
{
	FILE *stream;

	snprintf(name, sizeof(name), "%s.%s", call, buffers[buffer].name);
	stream = fopen(name, mode);
	CHECK(stream && setvbuf(stream, NULL, buffers[buffer].mode, 0) == 0);
	return stream;
}

static int list_print(FILE *stream, const char *format, ...)
{
	va_list list;
	int result;

	va_start(list, format);
	result = stream == stdout ? vprintf(format, list) : vfprintf(stream, format, list);
	va_end(list);
	return result;
}

static int list_wide(FILE *stream, const wchar_t *format, ...)
{
	va_list list;
	int result;

	va_start(list, format);
	result = stream == stdout ? vwprintf(format, list) : vfwprintf(stream, format, list);
	va_end(list);
	return result;
}

static int list_scan(FILE *stream, const char *format, ...)
{
	va_list list;
	int result;

	va_start(list, format);
	result = stream == stdin ? vscanf(format, list) : vfscanf(stream, format, list);
	va_end(list);
	return result;
}

static int list_scan_wide(FILE *stream, const wchar_t *format, ...)
{
	va_list list;
	int result;

	va_start(list, format);
	result = stream == stdin ? vwscanf(format, list) : vfwscanf(stream, format, list);
	va_end(list);
	return result;
}

#define WRITE(call, ...)                                                      \
	for (int b = 0; b < 3; b++) {                                         \
		FILE *stream = opened("write." #call, b, "w");                \
                                                                              \
		for (int i = 0; i < buffers[b].rounds; i++)                   \
			__VA_ARGS__;                                          \
		CHECK(fclose(stream) == 0);                                   \
	}

static void write_all(void)
{
	WRITE(fwrite, fwrite("0123456789\n", 1, 11, stream))
	WRITE(fwrite_unlocked, fwrite_unlocked("0123456789\n", 11, 1, stream))
	WRITE(fputs, fputs("some words\n", stream))
	WRITE(fputs_unlocked, fputs_unlocked("some words\n", stream))
	WRITE(fputc, fputc("ab\n"[i % 3], stream))
	WRITE(fputc_unlocked, fputc_unlocked("ab\n"[i % 3], stream))
	WRITE(putc, putc("ab\n"[i % 3], stream))
	WRITE(putc_unlocked, putc_unlocked("ab\n"[i % 3], stream))
	WRITE(putw, putw(i, stream))
	WRITE(fprintf, fprintf(stream, "number %d%c", i, i % 5 ? ' ' : '\n'))
	WRITE(vfprintf, list_print(stream, "number %d\n", i))
	WRITE(long, fprintf(stream, "%*d\n", 3000, i))
	WRITE(dprintf, dprintf(fileno(stream), "number %d\n", i))
	WRITE(fputwc, fputwc(L"\xe4\x20ac\n"[i % 3], stream))
	WRITE(fputwc_unlocked, fputwc_unlocked(L"\xe4\x20ac\n"[i % 3], stream))
	WRITE(putwc, putwc(L"\xe4\x20ac\n"[i % 3], stream))
	WRITE(fputws, fputws(L"some \x20ac words\n", stream))
	WRITE(fputws_unlocked, fputws_unlocked(L"some \x20ac words\n", stream))
	WRITE(fwprintf, fwprintf(stream, L"number \x20ac %d\n", i))
	WRITE(vfwprintf, list_wide(stream, L"number \x20ac %d\n", i))
	WRITE(flush, (fputs("x", stream), fflush(i % 2 ? stream : NULL)))
	WRITE(flush_wide, (fputws(L"\x20ac", stream), fflush(i % 2 ? stream : NULL)))
}

#define OUTPUT(call, ...)                                                     \
	for (int b = 0; b < 3; b++) {                                         \
		snprintf(name, sizeof(name), "output." #call ".%s", buffers[b].name); \
		CHECK(freopen(name, "w", stdout));                            \
		CHECK(setvbuf(stdout, NULL, buffers[b].mode, 0) == 0);        \
		for (int i = 0; i < buffers[b].rounds; i++)                   \
			__VA_ARGS__;                                          \
	}

static void output_all(void)
{
	OUTPUT(puts, puts("some words"))
	OUTPUT(putchar, putchar("ab\n"[i % 3]))
	OUTPUT(putchar_unlocked, putchar_unlocked("ab\n"[i % 3]))
	OUTPUT(printf, printf("number %d\n", i))
	OUTPUT(vprintf, list_print(stdout, "number %d\n", i))
	OUTPUT(putwchar, putwchar(L"\xe4\x20ac\n"[i % 3]))
	OUTPUT(wprintf, wprintf(L"number \x20ac %d\n", i))
	OUTPUT(vwprintf, list_wide(stdout, L"number \x20ac %d\n", i))
	/* as shells do: the descriptor changes under the stream */
	for (int i = 0; i < 3; i++) {
		int fd = open("output.dup2", O_WRONLY | O_CREAT | O_APPEND, 0644);

		CHECK(freopen("output.first", "w", stdout) && fd >= 0 && dup2(fd, 1) == 1);
		CHECK(close(fd) == 0 && printf("%s\n", "x") == 2 && fflush(stdout) == 0);
	}
}

static void messages(void)
{
	CHECK(freopen("message.perror", "w", stderr));
	perror("some words");
	CHECK(freopen("message.psignal", "w", stderr));
	psignal(SIGTERM, "some words");
	CHECK(freopen("message.warn", "w", stderr));
	warn("number %d", 1);
	CHECK(freopen("message.warnx", "w", stderr));
	warnx("number %d", 1);
	CHECK(freopen("message.fprintf", "w", stderr));
	fprintf(stderr, "number %d", 1);
}

static void make_input(void)
{
	FILE *stream = fopen("input", "w");

	CHECK(stream);
	for (int i = 0; i < 20000; i++)
		CHECK(fprintf(stream, "%d\n", i) > 0);
	CHECK(fclose(stream) == 0);
}

#define READ(call, ...)                                                       \
	for (int b = 0; b < 3; b++) {                                         \
		FILE *stream;                                                 \
                                                                              \
		snprintf(name, sizeof(name), "read." #call ".%s", buffers[b].name); \
		CHECK(link("input", name) == 0);                              \
		stream = opened("read." #call, b, "r");                       \
		for (int i = 0; i < buffers[b].rounds; i++)                   \
			__VA_ARGS__;                                          \
		CHECK(fclose(stream) == 0);                                   \
	}

static void read_all(void)
{
	char *grown = NULL;
	size_t size = 0;
	int number;

	READ(fread, CHECK(fread(line, 1, 13, stream) == 13))
	READ(fread_unlocked, CHECK(fread_unlocked(line, 1, 13, stream) == 13))
	READ(fgetc, CHECK(fgetc(stream) != EOF))
	READ(fgetc_unlocked, CHECK(fgetc_unlocked(stream) != EOF))
	READ(getc, CHECK(getc(stream) != EOF))
	READ(getc_unlocked, CHECK(getc_unlocked(stream) != EOF))
	READ(getw, (void)getw(stream))
	READ(fgets, CHECK(fgets(line, 100, stream)))
	READ(fgets_unlocked, CHECK(fgets_unlocked(line, 100, stream)))
	READ(fgets_short, CHECK(fgets(line, 3, stream)))
	READ(getline, CHECK(getline(&grown, &size, stream) > 0))
	READ(getdelim, CHECK(getdelim(&grown, &size, '7', stream) > 0))
	READ(fscanf, CHECK(fscanf(stream, "%d", &number) == 1))
	READ(vfscanf, CHECK(list_scan(stream, "%d", &number) == 1))
	READ(ungetc, (number = getc(stream), ungetc('x', stream), ungetc('y', stream)))
	READ(fgetwc, CHECK(fgetwc(stream) != WEOF))
	READ(getwc, CHECK(getwc(stream) != WEOF))
	READ(fgetws, CHECK(fgetws(wide_line, 100, stream)))
	READ(fwscanf, CHECK(fwscanf(stream, L"%d", &number) == 1))
	READ(vfwscanf, CHECK(list_scan_wide(stream, L"%d", &number) == 1))
	READ(to_the_end, while (b < 2 && fgets(line, 100, stream)))
	free(grown);
}

#define INPUT(call, ...)                                                      \
	for (int b = 0; b < 3; b++) {                                         \
		snprintf(name, sizeof(name), "read." #call ".%s", buffers[b].name); \
		CHECK(link("input", name) == 0);                              \
		CHECK(freopen(name, "r", stdin));                             \
		CHECK(setvbuf(stdin, NULL, buffers[b].mode, 0) == 0);         \
		for (int i = 0; i < buffers[b].rounds; i++)                   \
			__VA_ARGS__;                                          \
	}

static void input_all(void)
{
	int number;

	INPUT(getchar, CHECK(getchar() != EOF))
	INPUT(getchar_unlocked, CHECK(getchar_unlocked() != EOF))
	INPUT(scanf, CHECK(scanf("%d", &number) == 1))
	INPUT(vscanf, CHECK(list_scan(stdin, "%d", &number) == 1))
	INPUT(getwchar, CHECK(getwchar() != WEOF))
	INPUT(wscanf, CHECK(wscanf(L"%d", &number) == 1))
	INPUT(vwscanf, CHECK(list_scan_wide(stdin, L"%d", &number) == 1))
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && setlocale(LC_ALL, "C.UTF-8") && chdir(argv[1]) == 0);
	write_all();
	output_all();
	make_input();
	read_all();
	input_all();
	messages();
	return 0;
}
