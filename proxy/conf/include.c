/*
 * include = PATTERN: other files read in place. A pattern is that of glob(7), relative to the file
 * that it is in; its files are read in the order of their names' bytes. Each begins outside of
 * any section, and paths in it are relative to its own folder.
 */
#include "conf/build.h"
#include "conf/same.h"
#include "conf/value.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* FILES: what a pattern such as `/` and a star, or files that include many each, may reach. */
enum { FILES_AT_MOST = 1000, DEPTH_AT_MOST = 16, FILE_BYTES = 16 << 20 };

/* A file that is being read, and the one that includes it. */
struct build_file {
	const struct build_file *includer;
	dev_t device;
	ino_t inode;
	const char *name;
};

/* The open file with this identity, `file` or one of its includers; NULL if none. */
static const struct build_file *find_open(const struct build_file *file, const struct stat *about)
{
	while (file && (file->device != about->st_dev || file->inode != about->st_ino))
		file = file->includer;
	return file;
}

static unsigned depth_of(const struct build_file *file)
{
	unsigned depth = 0;

	for (; file; file = file->includer)
		depth++;
	return depth;
}

static const char *folder_of(struct build *build, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return ".";
	return arena_text(
		build->arena, (struct slice){path, slash == path ? 1 : (size_t)(slash - path)});
}

/* The file's text, or NULL and the error was added. */
static char *read_text(struct value *value, const char *path, struct build_file *file, size_t *len)
{
	struct build *build = value->build;
	const struct build_file *open;
	const char *why = "";
	struct stat about;
	char *text;

	if (stat(path, &about) != 0) {
		value_fail_plainly(value, "%s can't be read: %s", path, strerror(errno));
		return NULL;
	}
	open = find_open(build->file, &about);
	*file = (struct build_file){build->file, about.st_dev, about.st_ino, path};
	if (open)
		value_fail_plainly(value, "%s includes itself, by way of this line", open->name);
	else if (depth_of(file) > DEPTH_AT_MOST)
		value_fail_plainly(value, "%s is the file at level %d; expected at most %d of them",
			path, DEPTH_AT_MOST + 1, DEPTH_AT_MOST);
	else if (++build->included > FILES_AT_MOST)
		value_fail_plainly(value, "%s is one file more than the %d that can be included",
			path, FILES_AT_MOST);
	else if (!(text = reader_file(path, FILE_BYTES, true, len, &why)))
		value_fail_plainly(value, "%s can't be read: %s", path, why);
	else
		return text;
	return NULL;
}

static bool include_one(struct value *value, const char *path)
{
	struct build *build = value->build;
	struct build before = *build;
	struct build_file file;
	struct finalizer *held;
	size_t len = 0;
	char *text = read_text(value, path, &file, &len);

	if (!text)
		return false;
	held = arena_on_free(build->arena, free, text);
	build->file = &file;
	build->folder = folder_of(build, path);
	build->current = NULL;
	build->outside = true;
	build_read_file(build, path, (struct slice){text, len});
	arena_free_now(held);
	build->file = before.file;
	build->folder = before.folder;
	build->current = before.current;
	build->outside = before.outside;
	return true;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool include_all(struct value *value, glob_t *found)
{
	struct conf_place here = lines_place(&value->build->lines, value->line);
	bool all = true;

	qsort(found->gl_pathv, found->gl_pathc, sizeof(*found->gl_pathv), compare_paths);
	for (size_t i = 0; i < found->gl_pathc && value->build->included <= FILES_AT_MOST; i++)
		all &= include_one(value, value_text(value, slice_of(found->gl_pathv[i])));
	/* The rest of this file. */
	lines_begin(&value->build->lines, value->build->arena, here.path, here.line + 1);
	return all;
}

static void free_found(void *found)
{
	globfree(found);
}

/* include = PATTERN */
static bool parse_include(struct value *value)
{
	const char *pattern;
	struct finalizer *held;
	glob_t *found;
	bool good = false;
	int result;

	if (!value_check_path(value, value->text))
		return false;
	pattern = value_resolve_path(value, value->text);
	value_list_add(value, value->at, pattern);
	if (!value->build->names_files || value->build->is_revision)
		return true;
	found = arena_alloc(value->build->arena, sizeof(*found));
	held = arena_on_free(value->build->arena, free_found, found);
	errno = 0;
	result = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, found);
	if (result == 0)
		good = include_all(value, found);
	else if (result != GLOB_NOMATCH)
		value_fail_plainly(value, "%s can't be searched: %s", pattern,
			errno ? strerror(errno) : "no memory");
	else if (strpbrk(pattern, "*?["))
		good = true; /* a folder for files to come */
	else
		value_fail_plainly(value, "there is no file %s", pattern);
	arena_free_now(held);
	value->build->incomplete |= !good;
	return good;
}

void build_open_main(struct build *build)
{
	struct build_file *file = arena_alloc(build->arena, sizeof(*file));
	struct stat about;

	if (build->names_files && stat(build->name, &about) == 0)
		*file = (struct build_file){NULL, about.st_dev, about.st_ino, build->name};
	build->file = file;
}

const struct option_type type_include = {
	"pattern", "a file's path, with * and ? for many", parse_include, same_texts, false};
