/* SPDX-License-Identifier: MIT */
#include "magic_links.h"

#include <stdbool.h>
#include <string.h>

struct text {
	const char *at;
	size_t bytes;
};

/* Take the first component off a path; empty if none is left. */
static struct text component(struct text *path)
{
	struct text first;

	while (path->bytes && *path->at == '/') {
		path->at++;
		path->bytes--;
	}
	first = (struct text){path->at, 0};
	while (path->bytes && *path->at != '/') {
		path->at++;
		path->bytes--;
		first.bytes++;
	}
	return first;
}

static bool is(struct text text, const char *word)
{
	return text.bytes == strlen(word) && memcmp(text.at, word, text.bytes) == 0;
}

/* /proc/PROCESS[/task/THREAD]/LINK: is the rest of a path, after /proc, one? */
static bool takes_proc_link(struct text *rest)
{
	struct text name;

	component(rest);
	name = component(rest);
	if (is(name, "task")) {
		component(rest);
		name = component(rest);
	}
	if (is(name, "fd") || is(name, "map_files"))
		return component(rest).bytes;
	return is(name, "cwd") || is(name, "root") || is(name, "exe");
}

/* What /dev has are links to links of /proc. */
static struct text descriptor_named(struct text *rest)
{
	static const char *const streams[] = {"stdin", "stdout", "stderr"};
	struct text name = component(rest);

	if (is(name, "fd"))
		return component(rest);
	for (size_t fd = 0; fd < 3; fd++)
		if (is(name, streams[fd]))
			return (struct text){"012" + fd, 1};
	return (struct text){"", 0};
}

size_t magic_link(const char *text, size_t bytes, char link[MAGIC_LINK_BYTES])
{
	static const char descriptors[] = "/proc/self/fd/";
	struct text rest = {text, bytes}, name, folder = component(&rest);
	size_t used = 0;

	if (is(folder, "proc")) {
		if (!takes_proc_link(&rest))
			return 0;
		name = (struct text){text, (size_t)(rest.at - text)};
	} else if (is(folder, "dev")) {
		name = descriptor_named(&rest);
		if (!name.bytes)
			return 0;
		used = sizeof(descriptors) - 1;
		memcpy(link, descriptors, used);
	} else {
		return 0;
	}
	if (name.bytes >= MAGIC_LINK_BYTES - used)
		return 0;
	memcpy(link + used, name.at, name.bytes);
	link[used + name.bytes] = '\0';
	return (size_t)(rest.at - text);
}
