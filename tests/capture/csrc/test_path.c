/* SPDX-License-Identifier: MIT */
/* usage: test_path FOLDER */
#include "path.h"

#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "inode.h"

static bool is(const struct path *path, const char *expected)
{
	return path->bytes == strlen(expected) && memcmp(path->text, expected, path->bytes) == 0;
}

/* No links of processes, or of nobody. */
static const char *const plain[] = {
	"/proc/self/fd", "/proc/self/fd/", "/proc/self", "/proc/self/task", "/proc/self/task/1",
	"/proc/meminfo", "/proc/", "/dev/", "/dev/fd", "/dev/fd/", "/dev/null", "/dev/shm/x",
	"/dev/fd/99999", "/proc/self/fd/99999", "/proc/none/cwd/x", "/data/proc/self/fd/0",
};

int main(int argc, char **argv)
{
	char folder[PATH_MAX], expected[PATH_MAX + 64], overlong[PATH_MAX + 10], link[64];
	struct path path;
	struct inode inode, same;
	struct stat status;
	int fd, pipes[2];

	CHECK(argc == 2 && realpath(argv[1], folder) && chdir(folder) == 0);
	path_resolve(&path, AT_FDCWD, "/a//b/../c");
	CHECK(is(&path, "/a//b/../c"));
	path_resolve(&path, AT_FDCWD, "x");
	snprintf(expected, sizeof(expected), "%s/x", folder);
	CHECK(is(&path, expected));
	path_resolve(&path, AT_FDCWD, "");
	CHECK(is(&path, folder));
	fd = open(folder, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && chdir("/") == 0);
	path_resolve(&path, fd, "y/z");
	snprintf(expected, sizeof(expected), "%s/y/z", folder);
	CHECK(is(&path, expected));
	path_resolve(&path, AT_FDCWD, "top");
	CHECK(is(&path, "/top"));
	memset(overlong, 'o', sizeof(overlong) - 1);
	overlong[sizeof(overlong) - 1] = '\0';
	path_resolve(&path, fd, overlong);
	CHECK(path.bytes == PATH_MAX);

	snprintf(expected, sizeof(expected), "%s/gone", folder);
	fd = open(expected, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && write(fd, "1234", 4) == 4 && fstat(fd, &status) == 0);
	CHECK(inode_of_descriptor(fd, &inode) == 0);
	CHECK(inode.device == status.st_dev && inode.number == status.st_ino);
	CHECK(inode.bytes == 4 && S_ISREG(inode.mode) && inode.links == 1);
	CHECK(inode_of(AT_FDCWD, expected, 0, &same) == 0);
	CHECK(memcmp(&inode, &same, sizeof(inode)) == 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	path_resolve(&path, AT_FDCWD, link);
	CHECK(is(&path, expected));
	snprintf(link, sizeof(link), "/dev/fd/%d", fd);
	path_resolve(&path, AT_FDCWD, link);
	CHECK(is(&path, expected));
	snprintf(link, sizeof(link), "/proc/%d/task/%d/fd/%d", getpid(), getpid(), fd);
	path_resolve(&path, AT_FDCWD, link);
	CHECK(is(&path, expected));
	CHECK(unlink(expected) == 0);
	path_resolve(&path, AT_FDCWD, link);
	CHECK(is(&path, expected));
	path_of_descriptor(&path, fd);
	CHECK(is(&path, expected)); /* without " (deleted)" */
	CHECK(inode_of(AT_FDCWD, expected, 0, &same) == -ENOENT && same.number == 0);
	path_of_descriptor(&path, -1);
	CHECK(path.bytes == 0);
	CHECK(close(fd) == 0);

	path_resolve(&path, AT_FDCWD, "/proc/self/io");
	CHECK(path_is_kernel_file(&path));
	path_resolve(&path, AT_FDCWD, "/process");
	CHECK(!path_is_kernel_file(&path));

	CHECK(chdir(folder) == 0);
	path_resolve(&path, AT_FDCWD, "/proc/thread-self/cwd/y//z");
	snprintf(expected, sizeof(expected), "%s/y//z", folder);
	CHECK(is(&path, expected));
	path_resolve(&path, AT_FDCWD, "/proc/self/root/top");
	CHECK(is(&path, "/top"));
	path_resolve(&path, AT_FDCWD, "/proc/self/root");
	CHECK(is(&path, "/"));
	path_resolve(&path, AT_FDCWD, "/proc/self/cwd/../fd/3");
	snprintf(expected, sizeof(expected), "%s/../fd/3", folder);
	CHECK(is(&path, expected));
	memcpy(overlong, "/proc/self/root/", 16);
	path_resolve(&path, AT_FDCWD, overlong);
	CHECK(path.bytes == PATH_MAX + 10 - 1 - 15);
	memcpy(overlong, "/proc/self/cwd/o", 16);
	path_resolve(&path, AT_FDCWD, overlong);
	CHECK(path.bytes == PATH_MAX);
	CHECK(pipe(pipes) == 0 && dup2(pipes[0], 0) == 0);
	path_resolve(&path, AT_FDCWD, "/dev/stdin");
	CHECK(is(&path, "/dev/stdin"));
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
		path_resolve(&path, AT_FDCWD, plain[i]);
		CHECK(is(&path, plain[i]));
	}
	return 0;
}
