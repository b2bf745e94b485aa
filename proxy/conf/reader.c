/* See reader.h. */
#include "conf/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/errors.h"
#include "conf/foreign.h"

/*
 * CONTROL_LINES_AT_MOST: these lines are enough to see that a file is of another kind.
 * INIH_LINE_BYTES: the longest line of inih in the distribution with the shortest (Debian 12). inih
 * gets only the key of a longer line, so that all versions read all lines alike.
 */
enum { CONTROL_LINES_AT_MOST = 10, INIH_LINE_BYTES = 199, LINE_BYTES = 64 << 10 };

struct reader {
	struct slice rest; /* what was not read yet */
	unsigned *last;    /* line that was read, over all files */
	unsigned line;     /* of the line inih holds, the first one where several are joined */
	unsigned number;   /* the same, in this file */
	const char *name;
	struct slice value; /* of the line inih holds, when it was too long for inih */
	char *long_value;   /* room for a copy of it with its NUL; LINE_BYTES */
	char *joined;       /* room for a setting of several lines; LINE_BYTES */
	bool is_indented;   /* the line that is read began with a blank */
	const struct reader_handler *handler;
	struct conf_errors *errors;
	unsigned control_lines; /* with bytes that no line may hold, so far */
	unsigned control_first; /* the first of those that were not told of */
	unsigned control_last;  /* in this file */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_comment(struct slice line)
{
	return line.len > 0 && (line.at[0] == ';' || line.at[0] == '#');
}

/* The next line, trimmed, which is counted. */
static struct slice next_line(struct reader *reader)
{
	struct slice *rest = &reader->rest;
	const char *end = memchr(rest->at, '\n', rest->len);
	struct slice line = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
	size_t taken = line.len + (end ? 1 : 0);

	rest->at += taken;
	rest->len -= taken;
	++*reader->last;
	reader->number++;
	if (line.len > 0 && line.at[line.len - 1] == '\r')
		line.len--;
	reader->is_indented = line.len > 0 && is_blank(line.at[0]);
	return slice_trim(line);
}

/* Without a comment at its end. */
static struct slice before_comment(struct slice text)
{
	for (size_t i = 1; i < text.len; i++)
		if (is_blank(text.at[i - 1]) && (text.at[i] == ';' || text.at[i] == '#'))
			return slice_trim((struct slice){text.at, i});
	return text;
}

static bool is_ignored(const struct reader *reader)
{
	return reader->handler->ignores && reader->handler->ignores(reader->handler->user);
}

/* An error in the current line. */
__attribute__((format(printf, 2, 3))) static void fail(
	const struct reader *reader, const char *format, ...)
{
	char text[2048];
	va_list args;

	if (is_ignored(reader))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	conf_errors_add(reader->errors, reader->name, reader->line, "%s", text);
}

/* `[kind name]`, with nothing after it but a comment. Which it is, is clear without the end. */
static void read_section(struct reader *reader, struct slice line)
{
	const char *close = memchr(line.at, ']', line.len);
	struct slice inside, after = SLICE_NONE, kind, name;

	if (close) {
		inside = slice_trim((struct slice){line.at + 1, (size_t)(close - line.at - 1)});
		after = slice_trim(
			(struct slice){close + 1, (size_t)(line.at + line.len - close - 1)});
	} else {
		line = before_comment(line);
		inside = slice_trim((struct slice){line.at + 1, line.len - 1});
	}
	kind = inside;
	for (kind.len = 0; kind.len < inside.len && !is_blank(inside.at[kind.len]);)
		kind.len++;
	name = slice_trim((struct slice){inside.at + kind.len, inside.len - kind.len});
	if (!close && inside.len == 0)
		reader->handler->unreadable(reader->handler->user, reader->line, true);
	else
		reader->handler->section(reader->handler->user, reader->line, kind, name);
	if (!close)
		fail(reader, "\"%.*s\" has no \"]\"; expected [section] or [section name]",
			SLICE_ARGS(line));
	if (after.len > 0 && after.at[0] != ';' && after.at[0] != '#')
		fail(reader, "\"%.*s\" after \"]\"; expected the end of the line",
			SLICE_ARGS(after));
}

/* The first byte that no line may hold, or NULL. */
static const char *find_control(struct slice line)
{
	for (size_t i = 0; i < line.len; i++) {
		unsigned char c = (unsigned char)line.at[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return line.at + i;
		/* U+0080 to U+009F, which terminals obey as well */
		if (c == 0xc2 && i + 1 < line.len && (unsigned char)line.at[i + 1] < 0xa0)
			return line.at + i + 1;
	}
	return NULL;
}

static void control_found(struct reader *reader, struct slice line, const char *control)
{
	if (is_ignored(reader))
		return;
	if (++reader->control_lines <= CONTROL_LINES_AT_MOST) {
		fail(reader, "byte 0x%02x in column %zu; expected text", (unsigned char)*control,
			(size_t)(control - line.at) + 1);
		return;
	}
	if (reader->control_lines == CONTROL_LINES_AT_MOST + 1)
		reader->control_first = reader->line;
	reader->control_last = reader->number;
}

static void tell_further_controls(const struct reader *reader)
{
	unsigned more = reader->control_lines - CONTROL_LINES_AT_MOST;

	if (reader->control_lines > CONTROL_LINES_AT_MOST)
		conf_errors_add(reader->errors, reader->name, reader->control_first,
			"%u more %s control characters, up to line %u; expected a text file", more,
			more == 1 ? "line holds" : "lines hold", reader->control_last);
}

/* Is it a line that inih can be given as it stands? Says so when not. */
static bool check_line(struct reader *reader, struct slice line)
{
	const char *control = find_control(line);
	const char *sign;

	if (control) {
		control_found(reader, line, control);
		return false;
	}
	if (line.len >= LINE_BYTES) {
		fail(reader,
			"the line has %s%zu bytes; expected at most %d (lists may be split over "
			"several lines of the same key)",
			line.at == reader->joined ? "more than " : "",
			line.at == reader->joined ? line.len - 1 : line.len, LINE_BYTES - 1);
		return false;
	}
	sign = memchr(line.at, '=', line.len);
	if (!sign || sign == line.at || memchr(line.at, ':', (size_t)(sign - line.at)) ||
		memchr(line.at, ';', (size_t)(sign - line.at))) {
		struct slice word = {line.at, 0};
		const char *pointer;

		while (word.len < line.len && !is_blank(line.at[word.len]))
			word.len++;
		pointer = foreign_word(word);
		if (!pointer && reader->is_indented)
			pointer = "a setting continues on the next line if its line ends with a "
				  "blank and \\";
		fail(reader, "invalid setting \"%.*s\"; expected key = value%s%s", SLICE_ARGS(line),
			pointer ? "; " : "", pointer ? pointer : "");
		return false;
	}
	return true;
}

/* A `;` behind a blank begins a comment, as for inih. */
static struct slice before_semicolon(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] == ';' && (i == 0 || is_blank(text.at[i - 1])))
			return slice_trim((struct slice){text.at, i});
	return slice_trim(text);
}

/* A `\` behind a blank at the end of a line, and of no comment: the setting continues on the next
 * line. */
static bool continues(struct slice line)
{
	return line.len > 1 && line.at[line.len - 1] == '\\' && is_blank(line.at[line.len - 2]) &&
	       before_semicolon(line).len == line.len;
}

/* `[kind` or `[kind]`, which no address in brackets is. */
static bool begins_section(struct slice text)
{
	size_t len = 1;

	while (text.len > 0 && is_blank(text.at[0])) {
		text.at++;
		text.len--;
	}
	while (len < text.len && text.at[len] >= 'a' && text.at[len] <= 'z')
		len++;
	return len > 1 && len < text.len && text.at[0] == '[' &&
	       (is_blank(text.at[len]) || text.at[len] == ']');
}

/* A setting of several lines as one, with a blank for each line's end. Lines that are comments are
 * left out. A setting that is too long is cut at LINE_BYTES, which check_line refuses. */
static struct slice join_lines(struct reader *reader, struct slice line)
{
	struct slice joined = {reader->joined, 0};
	bool goes_on = true;

	while (goes_on) {
		if (!is_comment(line)) {
			goes_on = continues(line);
			line = goes_on ? slice_trim((struct slice){line.at, line.len - 1})
				       : before_semicolon(line);
			if (joined.len > 0 && joined.len < LINE_BYTES)
				reader->joined[joined.len++] = ' ';
			if (line.len > LINE_BYTES - joined.len)
				line.len = LINE_BYTES - joined.len;
			memcpy(reader->joined + joined.len, line.at, line.len);
			joined.len += line.len;
		}
		if (goes_on && (reader->rest.len == 0 || begins_section(reader->rest))) {
			fail(reader,
				"nothing follows the last \\; expected the rest of the setting");
			goes_on = false;
		}
		if (goes_on)
			line = next_line(reader);
	}
	reader->is_indented = false;
	return joined.len < LINE_BYTES ? slice_trim(joined) : joined;
}

/* A line that is too long for inih: gives it `key = .`, and take_setting the value that belongs
 * there. Returns the length. */
static size_t put_aside(struct reader *reader, struct slice line, char *out)
{
	const char *sign = memchr(line.at, '=', line.len);
	struct slice key = slice_trim((struct slice){line.at, (size_t)(sign - line.at)});
	struct slice value = {sign + 1, line.len - (size_t)(sign + 1 - line.at)};

	if (key.len + 2 > INIH_LINE_BYTES) {
		fail(reader,
			"unknown key of %zu bytes; expected one that `sluice check --keys` lists",
			key.len);
		reader->handler->unreadable(reader->handler->user, reader->line, false);
		return 0;
	}
	reader->value = before_semicolon(value);
	memcpy(out, key.at, key.len);
	memcpy(out + key.len, "=.", 2);
	return key.len + 2;
}

/*
 * inih's fgets: one line into `out`, of `size` bytes. A line that is no setting is dealt with here,
 * and an empty line stands for it so that none is skipped.
 */
static char *give_line(char *out, int size, void *user)
{
	struct reader *reader = user;
	struct slice line;

	if (reader->rest.len == 0 || size <= INIH_LINE_BYTES)
		return NULL;
	line = next_line(reader);
	reader->line = *reader->last;
	out[0] = '\0';
	if (line.len == 0 || is_comment(line))
		return out;
	if (line.at[0] == '[' && !find_control(line)) {
		read_section(reader, line);
		return out;
	}
	if (continues(line))
		line = join_lines(reader, line);
	if (check_line(reader, line)) {
		size_t len = line.len;

		if (line.len <= INIH_LINE_BYTES)
			memcpy(out, line.at, line.len);
		else
			len = put_aside(reader, line, out);
		out[len] = '\0';
	} else {
		reader->handler->unreadable(reader->handler->user, reader->line, line.at[0] == '[');
	}
	return out;
}

#if INI_HANDLER_LINENO
static int take_setting(
	void *user, const char *section, const char *key, const char *value, int line)
#else
static int take_setting(void *user, const char *section, const char *key, const char *value)
#endif
{
	struct reader *reader = user;

#if INI_HANDLER_LINENO
	(void)line;
#endif
	(void)section; /* inih cuts long ones; read_section has the whole */
	if (key && value && reader->value.at) {
		memcpy(reader->long_value, reader->value.at, reader->value.len);
		reader->long_value[reader->value.len] = '\0';
		value = reader->long_value;
		reader->value = SLICE_NONE;
	}
	if (key && value)
		reader->handler->setting(reader->handler->user, reader->line, key, value);
	return 1;
}

struct slice slice_after_bom(struct slice text)
{
	if (text.len < 3 || memcmp(text.at, "\xef\xbb\xbf", 3) != 0)
		return text;
	return (struct slice){text.at + 3, text.len - 3};
}

void reader_run(struct slice text, const char *name, unsigned *last,
	const struct reader_handler *handler, struct conf_errors *errors)
{
	struct reader reader = {.rest = slice_after_bom(text),
		.last = last,
		.name = name,
		.handler = handler,
		.errors = errors};
	char long_value[LINE_BYTES], joined[LINE_BYTES];
	int result;

	if (text.len >= 2 &&
		(memcmp(text.at, "\xff\xfe", 2) == 0 || memcmp(text.at, "\xfe\xff", 2) == 0)) {
		++*last;
		conf_errors_add(errors, name, *last, "the text is in UTF-16; expected UTF-8");
		handler->unreadable(handler->user, *last, true);
		return;
	}
	reader.long_value = long_value;
	reader.joined = joined;
	result = ini_parse_stream(give_line, &reader, take_setting, &reader);
	tell_further_controls(&reader);
	if (result > 0 && errors->count == 0)
		conf_errors_add(
			errors, name, reader.line, "the line can't be read; expected key = value");
	else if (result < 0)
		conf_errors_add(errors, name, 0, "out of memory");
}

static char *read_all(int fd, size_t max, size_t *len, const char **why)
{
	size_t room = 8192, used = 0;
	char *bytes = malloc(room);

	while (bytes) {
		ssize_t got;

		if (used == room) {
			char *larger = realloc(bytes, room * 2);

			if (!larger)
				break;
			bytes = larger;
			room *= 2;
		}
		got = read(fd, bytes + used, room - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0) {
			*len = used;
			return bytes;
		}
		if (got < 0)
			break;
		used += (size_t)got;
		if (used > max) {
			*why = "the file is too large";
			free(bytes);
			return NULL;
		}
	}
	*why = strerror(errno);
	free(bytes);
	return NULL;
}

char *reader_file(const char *path, size_t max, bool regular, size_t *len, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0));
	struct stat about;
	char *bytes = NULL;

	if (fd < 0 || fstat(fd, &about) != 0)
		*why = strerror(errno);
	else if (S_ISDIR(about.st_mode))
		*why = "it is a folder; expected a file";
	else if (regular && !S_ISREG(about.st_mode))
		*why = "not a regular file";
	else
		bytes = read_all(fd, max, len, why);
	if (fd >= 0)
		close(fd);
	return bytes;
}
