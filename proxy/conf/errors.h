/*
 * The errors of a file, with their help: near misses.
 */
#ifndef CONF_ERRORS_H
#define CONF_ERRORS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "conf/conf.h"

/* Adds `name:line: text`, or `name: text` for line 0. With errors.lines the name is that of the
 * line's file. */
/* Control characters, those of C1 too, and bytes that are no UTF-8 become '?': a terminal would
 * obey them. */
void conf_disarm(char *text);

void conf_errors_add(struct conf_errors *errors, const char *name, unsigned line,
	const char *format, ...) __attribute__((format(printf, 4, 5)));
void conf_errors_add_va(struct conf_errors *errors, const char *name, unsigned line,
	const char *format, va_list args) __attribute__((format(printf, 4, 0)));

/* Is the list full? Then nothing more needs to be found out for a message. */
bool conf_errors_are_many(const struct conf_errors *errors);

/* By line; those of one line stay in the order they were found. */
void conf_errors_sort(struct conf_errors *errors);

/*
 * The best guess of what was meant by `word`: offer each candidate, then see `best`, NULL when none
 * was near. Near is at most two slips (a byte more, less, other, or two swapped), and fewer than
 * half of the word's bytes.
 */
struct near_miss {
	struct slice word;
	const char *best;
	unsigned slips;
};

void near_miss_offer(struct near_miss *near, const char *candidate);

#endif
