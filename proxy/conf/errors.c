/* See errors.h. */
#include "conf/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Errors listed at most, for a file of garbage. */
enum { ERRORS_AT_MOST = 1000, NEAR_WORD_BYTES = 40, NEAR_SLIPS = 2 };

void conf_disarm(char *text)
{
	for (unsigned char *at = (unsigned char *)text; *at;) {
		unsigned bytes = at[0] >= 0xf0   ? 4
				 : at[0] >= 0xe0 ? 3
				 : at[0] >= 0xc2 ? 2
						 : 1,
			 n = 1;

		while (n < bytes && (at[n] & 0xc0) == 0x80)
			n++;
		bool is_control = (at[0] < ' ' && at[0] != '\t') || at[0] == 0x7f ||
				  (at[0] == 0xc2 && at[1] < 0xa0);
		if (is_control || n < bytes || (at[0] >= 0x80 && at[0] < 0xc2))
			memset(at, '?', n);
		at += n;
	}
}

void conf_errors_add_va(struct conf_errors *errors, const char *name, unsigned line,
	const char *format, va_list args)
{
	char *what = NULL, *text = NULL;
	struct conf_place place = {name, line};
	struct conf_error *items;
	int len = -1;

	if (errors->count > ERRORS_AT_MOST)
		return;
	if (errors->count == ERRORS_AT_MOST) {
		line = 0; /* which comes first */
		format = "there are more errors than can be listed; fix some";
	}
	if (errors->lines && line)
		place = lines_place(errors->lines, line);
	if (vasprintf(&what, format, args) >= 0) {
		len = line ? asprintf(&text, "%s:%u: %s", place.path, place.line, what)
			   : asprintf(&text, "%s: %s", name, what);
		free(what);
	}
	if (len >= 0)
		conf_disarm(text);
	items = len >= 0 ? realloc(errors->items, (errors->count + 1) * sizeof(*items)) : NULL;
	if (!items) {
		if (len >= 0)
			free(text);
		errors->incomplete = true;
		return;
	}
	items[errors->count] = (struct conf_error){.text = text, .line = line};
	errors->items = items;
	errors->count++;
}

void conf_errors_add(
	struct conf_errors *errors, const char *name, unsigned line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	conf_errors_add_va(errors, name, line, format, args);
	va_end(args);
}

bool conf_errors_are_many(const struct conf_errors *errors)
{
	return errors->count > ERRORS_AT_MOST;
}

void conf_errors_sort(struct conf_errors *errors)
{
	/* Nearly sorted already, as most are found line by line: insertion. */
	for (size_t i = 1; i < errors->count; i++) {
		struct conf_error error = errors->items[i];
		size_t at = i;

		for (; at > 0 && errors->items[at - 1].line > error.line; at--)
			errors->items[at] = errors->items[at - 1];
		errors->items[at] = error;
	}
}

void conf_errors_free(struct conf_errors *errors)
{
	for (size_t i = 0; i < errors->count; i++)
		free(errors->items[i].text);
	free(errors->items);
	*errors = (struct conf_errors){0};
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/*
 * The optimal string alignment distance: Damerau, "A technique for computer detection and
 * correction of spelling errors", CACM 7(3), 1964. Three rows of the matrix are kept.
 */
static unsigned slips_between(struct slice a, struct slice b)
{
	unsigned rows[3][NEAR_WORD_BYTES + 1];
	unsigned *before = rows[0], *above = rows[1], *row = rows[2];

	for (unsigned j = 0; j <= b.len; j++)
		above[j] = j;
	for (unsigned i = 1; i <= a.len; i++) {
		unsigned *oldest = before;

		row[0] = i;
		for (unsigned j = 1; j <= b.len; j++) {
			unsigned char x = lower(a.at[i - 1]), y = lower(b.at[j - 1]);

			row[j] =
				least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == lower(b.at[j - 2]) && lower(a.at[i - 2]) == y)
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = oldest;
	}
	return above[b.len];
}

void near_miss_offer(struct near_miss *near, const char *candidate)
{
	struct slice offered = slice_of(candidate);
	unsigned slips;

	if (near->word.len > NEAR_WORD_BYTES || offered.len > NEAR_WORD_BYTES)
		return;
	slips = slips_between(near->word, offered);
	if (slips > NEAR_SLIPS || slips * 2 >= near->word.len)
		return;
	if (!near->best || slips < near->slips) {
		near->best = candidate;
		near->slips = slips;
	}
}
