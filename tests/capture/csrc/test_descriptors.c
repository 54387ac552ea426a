/* SPDX-License-Identifier: MIT */
/* usage: test_descriptors FOLDER */
#include "descriptors.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "log.h"
#include "scope.h"

static void follows_duplicates(void)
{
	struct open_file *file = open_file_new(O_WRONLY);

	CHECK(file && file->kind == FILE_RECORDED);
	CHECK(descriptor_put(100, file).file == NULL);
	CHECK(descriptor_known(100) == file && descriptor_file(100) == file);
	CHECK(descriptor_copy(100, 5000).file == NULL);
	CHECK(descriptor_known(5000) == file && file->references == 2);
	CHECK(descriptor_next(0, UINT32_MAX) == 100);
	CHECK(descriptor_next(101, UINT32_MAX) == 5000 && descriptor_next(101, 4999) == -1);
	CHECK(descriptor_put(100, NULL).left == 1 && !descriptor_known(100));
	CHECK(descriptor_copy(100, 5000).file == file); /* unknown onto the last one */
	CHECK(!descriptor_known(5000) && file->references == 0);
	CHECK(descriptor_next(0, UINT32_MAX) == -1);
}

static void survives_odd_numbers(void)
{
	CHECK(!descriptor_known(-1) && !descriptor_known(1 << 30));
	CHECK(descriptor_put(1 << 30, open_file_new(0)).file == NULL);
	CHECK(!descriptor_known(1 << 30));
	CHECK(descriptor_file(-1)->kind == FILE_UNKNOWN);
	CHECK(descriptor_file(1 << 30)->kind == FILE_UNKNOWN);
	CHECK(descriptor_next(1 << 30, UINT32_MAX) == -1);
}

static void resolves_what_it_did_not_see(const char *folder)
{
	char name[4096];
	struct open_file *file;
	int fd, pipes[2], null;

	snprintf(name, sizeof(name), "%s/inherited", folder);
	fd = open(name, O_RDWR | O_CREAT | O_APPEND, 0600);
	CHECK(fd >= 0 && write(fd, "12345", 5) == 5 && pipe(pipes) == 0);
	null = open("/dev/null", O_RDWR);
	file = descriptor_file(fd);
	CHECK(file->kind == FILE_RECORDED && file->position == 5 && file->flags & O_APPEND);
	CHECK(open_file_is_queried(file, fd));
	CHECK(descriptor_file(pipes[0])->kind == FILE_OTHER);
	CHECK(descriptor_file(null)->kind == FILE_OTHER);
	descriptor_put(fd, NULL);
	CHECK(scope_start(NULL, NULL, "*/inherited", NULL) == 0);
	CHECK(descriptor_file(fd)->kind == FILE_IGNORED);
	descriptor_put(fd, NULL);
}

static void asks_for_shared_positions(void)
{
	struct open_file *before = open_file_new(O_WRONLY), *after;
	int cloexec = open("/dev/null", O_WRONLY | O_CLOEXEC);

	CHECK(!open_file_is_queried(before, cloexec));
	descriptors_shared(true); /* a spawn: this one does not survive it */
	CHECK(!open_file_is_queried(before, cloexec));
	descriptors_shared(true);
	CHECK(fcntl(cloexec, F_SETFD, 0) == 0);
	CHECK(open_file_is_queried(before, cloexec));
	before = open_file_new(O_WRONLY);
	CHECK(!open_file_is_queried(before, cloexec));
	descriptors_shared(false); /* a fork */
	after = open_file_new(O_WRONLY);
	CHECK(open_file_is_queried(before, cloexec) && !open_file_is_queried(after, cloexec));
	close(cloexec);
}

static void *churn(void *argument)
{
	int fd = 2000 + (int)(long)argument * 3;

	for (int i = 0; i < 20000; i++) {
		descriptor_put(fd, open_file_new(0));
		descriptor_copy(fd, fd + 1);
		descriptor_copy(fd, 3000); /* all threads fight for this one */
		CHECK(descriptor_known(fd) == descriptor_known(fd + 1));
		descriptor_put(fd, NULL);
		descriptor_put(fd + 1, NULL);
	}
	return NULL;
}

static void is_safe_for_threads(void)
{
	pthread_t threads[8];

	for (long i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, churn, (void *)i) == 0);
	for (long i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(descriptor_put(3000, NULL).left == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && log_start(argv[1], 1 << 20) == 0);
	follows_duplicates();
	survives_odd_numbers();
	resolves_what_it_did_not_see(argv[1]);
	asks_for_shared_positions();
	is_safe_for_threads();
	return 0;
}
