/* SPDX-License-Identifier: MIT */
/*
 * New programs are captured too. A program started with an environment that
 * lacks this library is given it, and the IOTRACE_* variables, again; other
 * entries of its LD_PRELOAD stay, before ours. A job keeps a program out of
 * the capture with an empty IOTRACE_LOG_DIR in that program's environment.
 */
#include "exec.h"

#include <alloca.h>
#include <link.h>
#include <stdarg.h>
#include <string.h>

#include "process.h"
#include "real.h"
#include "request.h"
#include "roster.h"

#define PRELOAD "LD_PRELOAD="
#define OPT_OUT "IOTRACE_LOG_DIR="
#define OWN_PREFIX "IOTRACE_"
#define OWN_VARIABLES 16
/* The new list lives on the stack; a longer environment is passed on as it is. */
#define ENVIRONMENT_MAX 8192

static struct {
	const char *object; /* this library, as the loader was given it */
	const char *variables[OWN_VARIABLES]; /* NAME=VALUE */
	int count;
} own;

static const char *copied(const char *text)
{
	char *memory = raw_memory(strlen(text) + 1);

	return memory ? strcpy(memory, text) : NULL;
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int find_library(struct dl_phdr_info *object, size_t bytes, void *unused)
{
	uintptr_t here = (uintptr_t)&find_library;

	(void)bytes;
	(void)unused;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		uintptr_t first = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

		if (object->dlpi_phdr[i].p_type == PT_LOAD && here >= first &&
		    here < first + object->dlpi_phdr[i].p_memsz) {
			own.object = copied(object->dlpi_name);
			return 1;
		}
	}
	return 0;
}

void exec_start(void)
{
	dl_iterate_phdr(find_library, NULL);
	for (char **entry = environ; entry && *entry; entry++) {
		const char *variable;

		if (!has_prefix(*entry, OWN_PREFIX) || own.count == OWN_VARIABLES)
			continue;
		variable = copied(*entry);
		if (variable)
			own.variables[own.count++] = variable;
	}
}

static const char *find_variable(char *const environment[], const char *name, size_t bytes)
{
	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, bytes) == 0)
			return *environment;
	return NULL;
}

/* Is the library one of the entries, which spaces or colons separate? */
static bool is_listed(const char *preload)
{
	size_t bytes = strlen(own.object);
	const char *at = preload;

	while (at && (at = strstr(at, own.object))) {
		bool starts = at == preload || at[-1] == ' ' || at[-1] == ':';
		char after = at[bytes];

		if (starts && (!after || after == ' ' || after == ':'))
			return true;
		at += bytes;
	}
	return false;
}

/* What a program needs that its environment lacks; `missing` is 0: nothing. */
struct injection {
	const char *preload; /* the value it has, or NULL */
	size_t entries;
	size_t preload_bytes; /* of the entry to make; 0: it is listed */
	int missing;
};

static bool lacks(char *const environment[], const char *variable)
{
	size_t name_bytes = (size_t)(strchr(variable, '=') - variable) + 1;

	return !find_variable(environment, variable, name_bytes);
}

static bool is_kept_out(char *const environment[])
{
	const char *folder = find_variable(environment, OPT_OUT, strlen(OPT_OUT));

	return folder && !folder[strlen(OPT_OUT)];
}

static struct injection injection_for(char *const environment[])
{
	struct injection injection = {0};
	const char *entry;

	if (!capture_is_on || !own.object)
		return injection;
	if (is_kept_out(environment))
		return injection;
	while (environment && environment[injection.entries])
		injection.entries++;
	if (injection.entries > ENVIRONMENT_MAX)
		return injection;
	for (int i = 0; i < own.count; i++)
		injection.missing += lacks(environment, own.variables[i]);
	entry = find_variable(environment, PRELOAD, strlen(PRELOAD));
	injection.preload = entry ? entry + strlen(PRELOAD) : NULL;
	if (is_listed(injection.preload))
		return injection;
	injection.preload_bytes = strlen(PRELOAD) + strlen(own.object) + 2;
	if (injection.preload)
		injection.preload_bytes += strlen(injection.preload);
	injection.missing++;
	return injection;
}

static char *write_preload(char *text, struct injection injection)
{
	char *at = stpcpy(text, PRELOAD);

	if (injection.preload && *injection.preload) {
		at = stpcpy(at, injection.preload);
		*at++ = ':';
	}
	strcpy(at, own.object);
	return text;
}

static char *const *injected(char *const environment[], struct injection injection,
			     const char **list, char *preload)
{
	size_t used = 0;

	for (size_t i = 0; i < injection.entries; i++)
		if (!injection.preload_bytes || !has_prefix(environment[i], PRELOAD))
			list[used++] = environment[i];
	for (int i = 0; i < own.count; i++)
		if (lacks(environment, own.variables[i]))
			list[used++] = own.variables[i];
	if (injection.preload_bytes)
		list[used++] = write_preload(preload, injection);
	list[used] = NULL;
	return (char *const *)list;
}

/* Memory of the caller's frame: malloc is not allowed between vfork and exec. */
#define INJECT(environment)                                                   \
	({                                                                    \
		struct injection injection = injection_for(environment);      \
		char *const *result = environment;                            \
		if (injection.missing)                                        \
			result = injected(environment, injection,             \
					  alloca((injection.entries + OWN_VARIABLES + 2) * \
						 sizeof(char *)),             \
					  alloca(injection.preload_bytes + 1)); \
		result;                                                       \
	})

/* Programs are looked at only by a process that is itself captured. */
#define CHECK(check)                                                          \
	do {                                                                  \
		if (capture_is_on)                                            \
			check;                                                \
	} while (0)

static void before_exec(const char *program, char *const environment[])
{
	if (!capture_is_on)
		return;
	if (!is_kept_out(environment))
		roster_exec(program);
	if (log_is_borrowed()) /* the new program shares open files with the parent */
		descriptors_shared(true);
	else
		process_ends();
}

static int after_exec(int result)
{
	if (capture_is_on)
		roster_stayed();
	return result;
}

EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	CHECK(roster_check(AT_FDCWD, path, 0));
	before_exec(path, env);
	return after_exec(real.execve(path, argv, INJECT(env)));
}

EXPORT int execv(const char *path, char *const argv[])
{
	CHECK(roster_check(AT_FDCWD, path, 0));
	before_exec(path, environ);
	return after_exec(real.execve(path, argv, INJECT(environ)));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	CHECK(roster_check_name(file));
	before_exec(file, env);
	return after_exec(real.execvpe(file, argv, INJECT(env)));
}

EXPORT int execvp(const char *file, char *const argv[])
{
	CHECK(roster_check_name(file));
	before_exec(file, environ);
	return after_exec(real.execvpe(file, argv, INJECT(environ)));
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	CHECK(roster_check(fd, "", AT_EMPTY_PATH));
	before_exec(NULL, env);
	return after_exec(real.fexecve(fd, argv, INJECT(env)));
}

EXPORT int execveat(int at, const char *path, char *const argv[], char *const env[], int flags)
{
	CHECK(roster_check(at, path, flags));
	before_exec(path, env);
	return after_exec(real.execveat(at, path, argv, INJECT(env), flags));
}

static size_t count_arguments(va_list arguments)
{
	size_t count = 0;

	while (va_arg(arguments, char *))
		count++;
	return count;
}

/* execl and its kind: the arguments as an array, and what follows them. */
#define EXEC_LIST(name, after, call, check)                                   \
	EXPORT int name(const char *path, const char *first, ...)             \
	{                                                                     \
		char *const *env = environ;                                   \
		va_list arguments;                                            \
		char **argv;                                                  \
		size_t count = 0;                                             \
                                                                              \
		__asm__("" : "+r"(first)); /* the headers say it is never NULL */ \
		va_start(arguments, first);                                   \
		if (first)                                                    \
			count = 1 + count_arguments(arguments);               \
		va_end(arguments);                                            \
		argv = alloca((count + 1) * sizeof(*argv));                   \
		argv[0] = (char *)first;                                      \
		va_start(arguments, first);                                   \
		for (size_t i = 1; i <= count; i++)                           \
			argv[i] = va_arg(arguments, char *);                  \
		after                                                         \
		va_end(arguments);                                            \
		CHECK(check);                                                 \
		before_exec(path, env);                                       \
		return after_exec(real.call(path, argv, INJECT(env)));        \
	}

EXEC_LIST(execl, , execve, roster_check(AT_FDCWD, path, 0))
EXEC_LIST(execlp, , execvpe, roster_check_name(path))
EXEC_LIST(execle, env = va_arg(arguments, char *const *);, execve,
	  roster_check(AT_FDCWD, path, 0))

#define SPAWN(name, check)                                                    \
	EXPORT int name(pid_t *pid, const char *path,                         \
			const posix_spawn_file_actions_t *actions,            \
			const posix_spawnattr_t *attributes, char *const argv[], \
			char *const env[])                                    \
	{                                                                     \
		CHECK(check);                                                 \
		if (capture_is_on)                                            \
			descriptors_shared(true);                             \
		return real.name(pid, path, actions, attributes, argv, INJECT(env)); \
	}

SPAWN(posix_spawn, roster_check(AT_FDCWD, path, 0))
SPAWN(posix_spawnp, roster_check_name(path))
