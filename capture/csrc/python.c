/* SPDX-License-Identifier: MIT */
/*
 * Python hooks without a trace in the job's environment, arguments or path:
 * when the interpreter of this process is up, one pending call runs the file
 * that IOTRACE_HOOKS names. Nothing here links to libpython; the job's own
 * interpreter, 3.9 or newer, static or shared, supplies the functions.
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dlsym.h"
#include "python.h"

#define PY_FILE_INPUT 257 /* Py_file_input of every CPython so far */

/*
 * dlsym() of a missing name allocates, and an allocator that is still being
 * set up may open a file. The first opens of a process never ask.
 */
#define OPENS_BEFORE_SEARCH 64

struct object;

struct python_api {
	int (*is_initialized)(void);
	int (*add_pending_call)(int (*)(void *), void *);
	struct object *(*builtins)(void);
	struct object *(*new_dict)(void);
	int (*set_item)(struct object *, const char *, struct object *);
	struct object *(*decode_path)(const char *);
	struct object *(*run)(const char *, int, struct object *, struct object *, void *);
	struct object **exception;
	int (*exception_matches)(struct object *);
	void (*clear_exception)(void);
	void (*release)(struct object *);
};

enum boot_state { BOOT_WAITING, BOOT_BUSY, BOOT_OVER };

static atomic_int boot_state;
static atomic_uint opens_seen;
static struct python_api python;
static char hooks_path[PATH_MAX];

/* Of this library; reading the hooks is not the job's I/O. */
extern void iotrace_pause(int on);

/* Bound by the dynamic linker, without dlsym(), when the process starts as Python. */
extern int Py_IsInitialized(void) __attribute__((weak, visibility("default")));

/* `open` and `compile` are taken from the builtins; no module is imported. */
static const char boot_source[] =
	"with open(path, 'rb') as file:\n"
	"    source = file.read()\n"
	"exec(compile(source, path, 'exec', 0, True),\n"
	"     {'__name__': '_iotrace_hooks.boot', '__file__': path, '__builtins__': __builtins__})\n";

static int fill_boot_namespace(struct object *namespace)
{
	struct object *path;
	int ret;

	ret = python.set_item(namespace, "__builtins__", python.builtins());
	if (ret)
		return ret;
	path = python.decode_path(hooks_path);
	if (!path)
		return -1;
	ret = python.set_item(namespace, "path", path);
	python.release(path);
	return ret;
}

static int run_boot_source(void)
{
	struct object *namespace, *result = NULL;

	namespace = python.new_dict();
	if (!namespace)
		return -1;
	if (!fill_boot_namespace(namespace))
		result = python.run(boot_source, PY_FILE_INPUT, namespace, namespace, NULL);
	python.release(namespace);
	if (!result)
		return -1;
	python.release(result);
	return 0;
}

/* A pending call: on the main thread, with the GIL, no exception set. */
static int boot(void *unused)
{
	int ret;

	(void)unused;
	iotrace_pause(1);
	ret = run_boot_source();
	iotrace_pause(0);
	/*
	 * KeyboardInterrupt and SystemExit come from a signal handler of the
	 * job that ran meanwhile, and are the job's to see.
	 */
	if (ret && !python.exception_matches(*python.exception))
		return -1;
	python.clear_exception();
	return 0;
}

static int find_api(void)
{
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{ "Py_IsInitialized", &python.is_initialized },
		{ "Py_AddPendingCall", &python.add_pending_call },
		{ "PyEval_GetBuiltins", &python.builtins },
		{ "PyDict_New", &python.new_dict },
		{ "PyDict_SetItemString", &python.set_item },
		{ "PyUnicode_DecodeFSDefault", &python.decode_path },
		{ "PyRun_StringFlags", &python.run },
		{ "PyExc_Exception", &python.exception },
		{ "PyErr_ExceptionMatches", &python.exception_matches },
		{ "PyErr_Clear", &python.clear_exception },
		{ "Py_DecRef", &python.release },
	};
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *found = dlsym(RTLD_DEFAULT, functions[i].name);

		if (!found)
			return -ENOENT;
		memcpy(functions[i].slot, &found, sizeof(found));
	}
	return 0;
}

static int copy_hooks_path(void)
{
	const char *path = getenv("IOTRACE_HOOKS");

	if (!path || !*path || strlen(path) >= sizeof(hooks_path))
		return -ENOENT;
	strcpy(hooks_path, path);
	return 0;
}

/*
 * An interpreter may also arrive later, by dlopen(). Look for it ever more
 * rarely: at the 64th, 128th, 256th... open of a process that has none.
 */
static int is_python_up(void)
{
	unsigned int seen;

	if (Py_IsInitialized)
		return Py_IsInitialized();
	seen = atomic_fetch_add_explicit(&opens_seen, 1, memory_order_relaxed) + 1;
	if (seen < OPENS_BEFORE_SEARCH || (seen & (seen - 1)))
		return 0;
	return !find_api() && python.is_initialized();
}

static enum boot_state try_boot(void)
{
	if (!is_python_up())
		return BOOT_WAITING;
	if (copy_hooks_path() || find_api())
		return BOOT_OVER;
	return python.add_pending_call(boot, NULL) ? BOOT_WAITING : BOOT_OVER;
}

void python_boot(void)
{
	int expected = BOOT_WAITING, saved_errno = errno;

	if (atomic_load_explicit(&boot_state, memory_order_relaxed) != BOOT_WAITING)
		return;
	if (!atomic_compare_exchange_strong(&boot_state, &expected, BOOT_BUSY))
		return;
	atomic_store(&boot_state, try_boot());
	errno = saved_errno;
}
