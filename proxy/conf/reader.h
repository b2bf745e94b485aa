/*
 * From bytes to lines that mean something.
 *
 *   bytes --next line--> checked, trimmed --inih--> key = value --> handler->setting
 *                  `--> [section name] --------------------------> handler->section
 *
 * inih splits keys from values and knows comments. It also cuts long lines, joins indented ones and
 * forgets empty sections without a word, so every line is looked at before inih sees it. A setting
 * whose line ends with a blank and `\` continues on the next line.
 */
#ifndef CONF_READER_H
#define CONF_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "conf/conf.h"

/* The contents, in the file's order. Texts stay until the call returns. */
struct reader_handler {
	/* `[kind name]`; name is empty in `[kind]`. */
	void (*section)(void *user, unsigned line, struct slice kind, struct slice name);
	void (*setting)(void *user, unsigned line, const char *key, const char *value);
	/* A line with an error that hides its meaning: a section, or a setting. */
	void (*unreadable)(void *user, unsigned line, bool section);
	void *user;
	/* Do errors in the current section not matter? NULL: they matter in all sections. */
	bool (*ignores)(void *user);
};

/* Reads `text`; lines that are neither section, setting, comment nor empty go to `errors`. A line's
 * number is one more than `last`, which counts up; a handler that reads another file counts there.
 */
void reader_run(struct slice text, const char *name, unsigned *last,
	const struct reader_handler *handler, struct conf_errors *errors);

/* `text` without the byte order mark of UTF-8. */
struct slice slice_after_bom(struct slice text);

/*
 * The whole of a file of at most `max` bytes. Returns malloc'd bytes, or NULL with what went wrong
 * in `why` (a static text or strerror's). With `regular`, nothing but a regular file will do, so
 * that no pipe or device holds us up.
 */
char *reader_file(const char *path, size_t max, bool regular, size_t *len, const char **why);

#endif
