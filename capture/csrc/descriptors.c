/* SPDX-License-Identifier: MIT */
#include "descriptors.h"

#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "path.h"
#include "scope.h"
#include "stack.h"

#define PAGE_ENTRIES 1024u
#define PAGES 1024u /* 1 Mi descriptors, the default kernel limit fs.nr_open */
#define BLOCK_FILES 256u
#define BLOCKS 4096u

typedef _Atomic(struct open_file *) entry;

struct open_file ignored_file = {.kind = FILE_IGNORED};
struct open_file other_file = {.kind = FILE_OTHER};
static struct open_file unknown_file = {.kind = FILE_UNKNOWN};
static struct open_file unseen_file = {.kind = FILE_UNSEEN};
static struct open_file paused_file = {.kind = FILE_OTHER}; /* of a hook's own, used while paused */

static struct {
	_Atomic(entry *) pages[PAGES];
	_Atomic(struct open_file *) blocks[BLOCKS];
	_Atomic uint32_t files_made;
	struct stack free_files;
	_Atomic uint32_t sharings;  /* events after which open files may be shared */
	_Atomic uint32_t last_fork; /* the last of them that shared all */
	_Atomic bool has_guests;    /* other processes may run in this memory meanwhile */
} table;

/* --- the pool of open files -------------------------------------------- */

static struct open_file *file_at(uint32_t index)
{
	return atomic_load(&table.blocks[index / BLOCK_FILES]) + index % BLOCK_FILES;
}

static uint32_t *next_free(uint32_t index)
{
	return &file_at(index)->next_free;
}

/* Publish zeroed memory in `*slot` unless another thread did; NULL: no memory. */
#define MEMORY_IN(slot, bytes)                                                \
	({                                                                    \
		__typeof__(atomic_load(slot)) current = atomic_load(slot);    \
		if (!current) {                                               \
			__typeof__(current) fresh = raw_memory(bytes);        \
			if (fresh &&                                          \
			    !atomic_compare_exchange_strong(slot, &current, fresh)) \
				RAW(SYS_munmap, fresh, bytes);                \
			else                                                  \
				current = fresh;                              \
		}                                                             \
		current;                                                      \
	})

static struct open_file *fresh_file(void)
{
	uint32_t index = atomic_fetch_add(&table.files_made, 1);
	struct open_file *block;

	if (index >= BLOCKS * BLOCK_FILES) {
		atomic_fetch_sub(&table.files_made, 1);
		return NULL;
	}
	block = MEMORY_IN(&table.blocks[index / BLOCK_FILES],
			  BLOCK_FILES * sizeof(struct open_file));
	if (!block)
		return NULL;
	block[index % BLOCK_FILES].index = index;
	return block + index % BLOCK_FILES;
}

struct open_file *open_file_new(uint32_t flags)
{
	uint32_t index = stack_pop(&table.free_files, next_free);
	struct open_file *file = index == STACK_EMPTY ? fresh_file() : file_at(index);

	if (!file)
		return NULL;
	file->kind = FILE_RECORDED;
	file->queried = 0;
	file->flags = flags;
	file->number = 0;
	file->folder_hash = file->name_hash = 0;
	file->user = NULL;
	file->has_users = 0;
	file->position = 0;
	file->foreseen = 0;
	file->epoch = atomic_load(&table.sharings);
	file->references = 1;
	return file;
}

/* Drop one reference; how many are left. */
static uint32_t release(struct open_file *file)
{
	uint32_t left;

	if (!file || file->kind != FILE_RECORDED)
		return 0;
	left = atomic_fetch_sub(&file->references, 1) - 1;
	if (!left)
		stack_push(&table.free_files, file->index, next_free);
	return left;
}

/* --- the table --------------------------------------------------------- */

static entry *entry_of(int fd)
{
	entry *page;

	if (fd < 0 || (unsigned int)fd >= PAGES * PAGE_ENTRIES)
		return NULL;
	page = atomic_load_explicit(&table.pages[(unsigned int)fd / PAGE_ENTRIES],
				    memory_order_acquire);
	return page ? page + (unsigned int)fd % PAGE_ENTRIES : NULL;
}

static entry *entry_made(int fd)
{
	entry *page;

	if (fd < 0 || (unsigned int)fd >= PAGES * PAGE_ENTRIES)
		return NULL;
	page = MEMORY_IN(&table.pages[(unsigned int)fd / PAGE_ENTRIES],
			 PAGE_ENTRIES * sizeof(entry));
	return page ? page + (unsigned int)fd % PAGE_ENTRIES : NULL;
}

struct open_file *descriptor_known(int fd)
{
	entry *at = entry_of(fd);

	return at ? atomic_load_explicit(at, memory_order_acquire) : NULL;
}

struct replaced descriptor_put(int fd, struct open_file *file)
{
	entry *at = file ? entry_made(fd) : entry_of(fd);
	struct replaced old = {NULL, 0};

	if (!at) {
		release(file);
		return old;
	}
	old.file = atomic_exchange(at, file);
	old.left = release(old.file);
	return old;
}

struct replaced descriptor_copy(int fd, int to)
{
	struct open_file *file = descriptor_known(fd);

	if (file && file->kind == FILE_RECORDED)
		atomic_fetch_add(&file->references, 1);
	return descriptor_put(to, file);
}

int descriptor_next(unsigned int first, unsigned int last)
{
	unsigned int end = PAGES * PAGE_ENTRIES;

	if (last < end)
		end = last + 1;
	while (first < end) {
		if (!atomic_load(&table.pages[first / PAGE_ENTRIES]))
			first = (first / PAGE_ENTRIES + 1) * PAGE_ENTRIES;
		else if (descriptor_known((int)first))
			return (int)first;
		else
			first++;
	}
	return -1;
}

int descriptor_numbered(uint64_t number)
{
	for (int fd = -1; (fd = descriptor_next((unsigned int)fd + 1, UINT_MAX)) >= 0;) {
		struct open_file *file = descriptor_known(fd);

		if (file && atomic_load_explicit(&file->number, memory_order_acquire) == number)
			return fd;
	}
	return -1;
}

/* --- descriptors that were not seen to be opened ----------------------- */

static struct open_file *classify(int fd)
{
	struct inode inode;
	struct path path;
	struct open_file *file;
	long flags;

	if (inode_of_descriptor(fd, &inode) != 0)
		return &unknown_file; /* closed: the call itself will fail */
	if (!S_ISREG(inode.mode) && !S_ISBLK(inode.mode))
		return &other_file;
	flags = RAW(SYS_fcntl, fd, F_GETFL);
	path_of_descriptor(&path, fd);
	if (flags < 0 || !path.bytes) {
		LOG_COUNT(unknown_descriptors, 1);
		return &unknown_file;
	}
	if (path_is_kernel_file(&path) || flags & O_PATH)
		return &other_file;
	if (!scope_wants(path.text, path.bytes, (flags & O_ACCMODE) != O_RDONLY) ||
	    scope_leaves_to_job(inode.device, inode.number, path.text, path.bytes))
		return &ignored_file;
	file = open_file_new((uint32_t)flags);
	if (!file) {
		LOG_COUNT(unknown_descriptors, 1);
		return &unknown_file;
	}
	file->queried = 1; /* whoever opened it may still hold it */
	file->position = raw_position(fd);
	return file;
}

/* Instead of a file that no entry can hold. */
static struct open_file *unseen(struct open_file *file)
{
	if (file->kind != FILE_RECORDED)
		return file;
	release(file);
	return &unseen_file;
}

static __attribute__((noinline)) struct open_file *resolve(int fd)
{
	struct open_file *file, *expected = NULL;
	entry *at;

	file = classify(fd);
	if (log_is_borrowed()) /* the descriptors of a vfork child are not its parent's */
		return unseen(file);
	at = entry_made(fd);
	if (!at || file == &unknown_file)
		return unseen(file);
	if (atomic_compare_exchange_strong(at, &expected, file))
		return file;
	release(file);
	return expected;
}

struct open_file *descriptor_file(int fd)
{
	struct open_file *file = descriptor_known(fd);

	if (unlikely(table.has_guests) && log_is_borrowed())
		return resolve(fd);
	if (likely(file != NULL))
		return file;
	return this_thread.paused > 0 ? &paused_file : resolve(fd);
}

void descriptors_have_guests(void)
{
	table.has_guests = true;
}

/* --- sharing ----------------------------------------------------------- */

void descriptors_shared(bool survive_exec_only)
{
	uint32_t event = atomic_fetch_add(&table.sharings, 1) + 1;

	if (!survive_exec_only)
		atomic_store(&table.last_fork, event);
}

static __attribute__((noinline)) void settle_sharing(struct open_file *file, int fd)
{
	uint32_t epoch = atomic_load(&file->epoch), now = atomic_load(&table.sharings);
	long flags;

	if ((int32_t)(atomic_load(&table.last_fork) - epoch) > 0) {
		file->queried = 1;
	} else if (!file->queried) {
		flags = RAW(SYS_fcntl, fd, F_GETFD);
		if (!(flags & FD_CLOEXEC) || file->references > 1)
			file->queried = 1;
	}
	atomic_store(&file->epoch, now);
}

bool open_file_is_queried(struct open_file *file, int fd)
{
	uint32_t now = atomic_load_explicit(&table.sharings, memory_order_relaxed);

	if (unlikely(atomic_load_explicit(&file->epoch, memory_order_relaxed) != now))
		settle_sharing(file, fd);
	return file->queried ||
	       atomic_load_explicit(&file->flags, memory_order_relaxed) & O_APPEND;
}
