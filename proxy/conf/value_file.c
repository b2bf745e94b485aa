/* Paths, log targets, files of keys and users: the contents of other files than the ini. See
 * value.h. */
#include "conf/same.h"
#include "conf/value.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_FILE_BYTES = 256 << 20, KEY_BYTES = 4096, BAD_LINES_AT_MOST = 10 };

bool value_check_path(struct value *value, struct slice path)
{
	if (scan_comment(path))
		return value_fail_plainly(value,
			"\"%.*s\" has a blank before '#'; expected a path without",
			SLICE_ARGS(path));
	if (scan_is_quoted(path))
		return value_fail_plainly(value,
			"\"%.*s\" begins with a quote; expected a path without", SLICE_ARGS(path));
	for (size_t i = 0; i < path.len; i++)
		if (path.at[i] == ';' &&
			(i + 1 == path.len || path.at[i + 1] == ' ' || path.at[i + 1] == '\t'))
			return value_fail_plainly(value,
				"\"%.*s\" has a ';' at its end or before a blank; expected a path "
				"without",
				SLICE_ARGS(path));
	return true;
}

const char *value_resolve_path(struct value *value, struct slice path)
{
	const char *folder = value->build->folder;

	if (path.at[0] == '/' || !folder || !*folder)
		return value_text(value, path);
	return arena_format(value->build->arena, "%s/%.*s", folder, SLICE_ARGS(path));
}

/* A file that will be written: its folder must be there, itself must not be one. */
static bool check_writable_place(struct value *value, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct slice folder = slash ? (struct slice){path, (size_t)(slash - path)} : SLICE(".");
	struct stat about = {0};

	if (!value->build->names_files)
		return true;
	if (folder.len == 0)
		folder = SLICE("/");
	if (stat(value_text(value, folder), &about) != 0 && errno != ENOENT && errno != ENOTDIR)
		return value_fail_plainly(value,
			"the folder %.*s can't be looked at: %s; expected one, for %s",
			SLICE_ARGS(folder), strerror(errno), path);
	if (!S_ISDIR(about.st_mode))
		return value_fail_plainly(value, "there is no folder %.*s; expected one, for %s",
			SLICE_ARGS(folder), path);
	if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
		return value_fail_plainly(value, "%s is a folder; expected a file", path);
	return true;
}

/* NULL when it is wrong and the error was added. */
static const char *read_path(struct value *value)
{
	const char *path = value_resolve_path(value, value->text);

	if (!value_check_path(value, value->text))
		return NULL;
	if (strlen(path) < PATH_MAX)
		return path;
	value_fail_plainly(
		value, "the path has %zu bytes; expected at most %d", strlen(path), PATH_MAX - 1);
	return NULL;
}

static bool parse_paths(struct value *value)
{
	const char *path = read_path(value);

	if (path)
		value_list_add(value, value->at, path);
	return path != NULL;
}

static bool parse_path(struct value *value)
{
	const char *path = read_path(value);

	if (!path)
		return false;
	*(const char **)value->at = path;
	return !(value->option->flags & OPTION_WRITTEN) || check_writable_place(value, path);
}

static bool parse_log_target(struct value *value)
{
	static const struct option_word sinks[] = {{"off", LOG_SINK_OFF},
		{"stdout", LOG_SINK_STDOUT}, {"stderr", LOG_SINK_STDERR},
		{"syslog", LOG_SINK_SYSLOG}, {NULL, 0}};
	struct log_target *target = value->at;
	struct slice text = value->text;
	unsigned sink;

	if (scan_word(sinks, text, &sink)) {
		*target = (struct log_target){.sink = sink};
		return true;
	}
	if (text.len <= 5 || memcmp(text.at, "file:", 5) != 0)
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(text));
	text.at += 5;
	text.len -= 5;
	*target = (struct log_target){LOG_SINK_FILE, value_resolve_path(value, text)};
	return value_check_path(value, text) && check_writable_place(value, target->path);
}

/* A file of keys on its way. */
struct key_file {
	struct value *value;
	const char *path;
	value_take_line *take;
	void *user;
	unsigned number;        /* of the line */
	unsigned bad;           /* lines so far */
	unsigned comments;      /* lines that seem to have one after the key */
	unsigned comment_first; /* the first of them */
};

/* False when it can't be a key. */
static bool take_key_line(struct key_file *file, struct slice line)
{
	line = slice_trim(line);
	if (line.len > 0 && line.at[line.len - 1] == '\r')
		line = slice_trim((struct slice){line.at, line.len - 1});
	if (line.len == 0 || line.at[0] == '#')
		return true;
	if (line.len > KEY_BYTES)
		return value_fail_plainly(file->value,
			"%s:%u: the line has %zu bytes; expected at most %d", file->path,
			file->number, line.len, KEY_BYTES);
	for (size_t i = 0; i < line.len; i++) {
		unsigned char c = (unsigned char)line.at[i];

		if (c < 0x20 || c == 0x7f)
			return value_fail_plainly(file->value,
				"%s:%u: byte 0x%02x in the line; expected text", file->path,
				file->number, c);
	}
	if (scan_comment(line) && file->comments++ == 0)
		file->comment_first = file->number;
	return file->take(file->value, file->path, file->number, line, file->user);
}

bool value_read_lines(struct value *value, struct slice path, value_take_line *take, void *user)
{
	struct key_file file = {.value = value, .take = take, .user = user};
	const char *why = "";
	struct finalizer *held;
	struct slice rest;
	size_t len = 0;
	char *bytes;

	if (!value_check_path(value, path))
		return false;
	if (!value->build->names_files)
		return true;
	file.path = value_resolve_path(value, path);
	bytes = reader_file(file.path, KEY_FILE_BYTES, true, &len, &why);
	if (!bytes)
		return value_fail_plainly(value,
			"%s can't be read: %s; expected a file, one entry a line", file.path, why);
	held = arena_on_free(value->build->arena, free, bytes);
	rest = slice_after_bom((struct slice){bytes, len});
	while (rest.len > 0 && file.bad < BAD_LINES_AT_MOST) {
		const char *end = memchr(rest.at, '\n', rest.len);
		struct slice line = {rest.at, end ? (size_t)(end - rest.at) : rest.len};

		file.number++;
		file.bad += !take_key_line(&file, line);
		line.len += end ? 1 : 0;
		rest.at += line.len;
		rest.len -= line.len;
	}
	arena_free_now(held);
	if (file.comments)
		value_warn(value,
			"%s:%u: a '#' after a blank is part of the entry; a comment is a line of "
			"its "
			"own (%u such line%s)",
			file.path, file.comment_first, file.comments,
			file.comments == 1 ? "" : "s");
	return file.bad == 0;
}

static bool take_caller(
	struct value *value, const char *path, unsigned number, struct slice line, void *callers)
{
	struct conf_cidr network;

	if (memchr(line.at, '/', line.len) && scan_cidr(line, &network))
		return value_fail_plainly(value,
			"%s:%u: \"%.*s\" is a network; expected a caller's key, as the key of "
			"[plans] "
			"has it (a route's allow and deny take networks)",
			path, number, SLICE_ARGS(line));
	value_list_add(value, callers, value_text(value, line));
	return true;
}

/* callers = file:PATH */
static bool parse_callers(struct value *value)
{
	struct conf_plan *plan = value->instance->object;
	struct slice path = value->text;

	if (path.len <= 5 || memcmp(path.at, "file:", 5) != 0)
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(path));
	path.at += 5;
	path.len -= 5;
	plan->callers_path = value_resolve_path(value, path);
	return value_read_lines(value, path, take_caller, &plan->callers);
}

/* token = file:PATH: read when it is needed, not here */
static bool parse_secret_file(struct value *value)
{
	struct slice path = value->text;

	if (path.len <= 5 || memcmp(path.at, "file:", 5) != 0)
		return value_fail(value, "a secret belongs in a file of its own");
	path.at += 5;
	path.len -= 5;
	if (!value_check_path(value, path))
		return false;
	*(const char **)value->at = value_resolve_path(value, path);
	return true;
}

static bool parse_user(struct value *value)
{
	const char *name = value_text(value, value->text);

	if (!scan_is_token(value->text))
		return value_fail(value, "invalid value \"%s\"", name);
	if (value->build->names_files && !getpwnam(name))
		return value_fail(value, "there is no user \"%s\"", name);
	*(const char **)value->at = name;
	return true;
}

const struct option_type type_user = {
	"name", "the name of a user of this system", parse_user, same_text, false};
const struct option_type type_path = {"path", "a path", parse_path, same_text, false};
const struct option_type type_paths = {"path", "a path", parse_paths, same_texts, 0};
const struct option_type type_log_target = {"log", "off, stdout, stderr, syslog or file:PATH",
	parse_log_target, same_log_target, false};
const struct option_type type_secret_file = {
	"file", "file:PATH", parse_secret_file, same_text, false};
const struct option_type type_callers = {"file", "file:PATH", parse_callers, same_callers, false};
