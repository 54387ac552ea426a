/* SPDX-License-Identifier: MIT */
#include "scope.h"

#include <string.h>

#include "check.h"

static bool matches(const char *pattern, const char *text)
{
	return scope_matches(pattern, strlen(pattern), text, strlen(text));
}

static void matches_as_fnmatch(void)
{
	CHECK(matches("", ""));
	CHECK(!matches("", "a"));
	CHECK(matches("*", "") && matches("*", "/a/b") && matches("**", "x"));
	CHECK(matches("/a/*.pt", "/a/b/c.pt"));
	CHECK(!matches("/a/*.pt", "/a/b.ptx"));
	CHECK(matches("*a*b*c", "xxaxxbxxbc"));
	CHECK(!matches("*a*b*c", "xxaxxcxxb"));
	CHECK(matches("?", "a") && matches("?", "/") && !matches("?", ""));
	CHECK(matches("[abc]x", "bx") && !matches("[abc]x", "dx"));
	CHECK(matches("[a-f0-9]", "7") && !matches("[a-f0-9]", "g"));
	CHECK(matches("[!a-f]", "g") && !matches("[!a-f]", "a"));
	CHECK(matches("[]]", "]") && matches("[!]]", "x") && matches("[^]", "^"));
	CHECK(matches("[-a]", "-") && matches("[a-]", "-"));
	CHECK(matches("a[b", "a[b") && matches("[", "[") && !matches("[", "x"));
	CHECK(matches("[!", "[!"));
	CHECK(matches("*.\xff", "a.\xff") && matches("[\x80-\xff]", "\xc3"));
}

static bool wants(const char *path, bool writes)
{
	return scope_wants(path, strlen(path), writes);
}

static void decides_by_use_and_path(void)
{
	CHECK(scope_start("/usr/*\n/lib/*\n\n", NULL, "*.log\n/secret/*", NULL) == 0);
	CHECK(wants("/data/x.pt", false) && wants("/data/x.pt", true));
	CHECK(!wants("/usr/lib/x.py", false) && wants("/usr/lib/x.pyc", true));
	CHECK(!wants("/data/x.log", true) && !wants("/secret/x", false));
	CHECK(scope_start("/usr/*", "/usr/data/*\n/data/*", "", NULL) == 0);
	CHECK(!wants("/tmp/x", true) && wants("/data/x", true));
	CHECK(!wants("/usr/data/x", false) && wants("/usr/data/x", true));
	CHECK(scope_start(NULL, NULL, NULL, NULL) == 0);
	CHECK(wants("/usr/x", false));
}

int main(void)
{
	matches_as_fnmatch();
	decides_by_use_and_path();
	return 0;
}
