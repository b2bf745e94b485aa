/*
 * Small configurations for tests: a text around the piece that matters, and its errors.
 */
#ifndef TESTS_UNIT_CONF_TEXT_H
#define TESTS_UNIT_CONF_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conf/conf.h"

/* What every configuration needs, in nine lines, so that what is added begins in the tenth.
 * Its route is out of the way of others. */
#define TEXT_BASE                                                                                  \
	"[listener l]\n"                                                                           \
	"bind = 127.0.0.1:1\n"                                                                     \
	"[upstream u]\n"                                                                           \
	"server = 127.0.0.1:2\n"                                                                   \
	"[limit base]\n"                                                                           \
	"rate = 1 per 1s\n"                                                                        \
	"[route base]\n"                                                                           \
	"upstream = u\n"                                                                           \
	"path = =/base\n"

static inline void print_errors(const struct conf_errors *errors)
{
	for (size_t i = 0; i < errors->count; i++)
		fprintf(stderr, "# %s\n", errors->items[i].text);
}

/* Must be good. */
static inline const struct conf *parse_good(const char *text)
{
	struct conf_errors errors;
	const struct conf *conf = conf_parse(text, strlen(text), "t", NULL, &errors);

	print_errors(&errors);
	assert_int_equal(errors.count, 0);
	conf_errors_free(&errors);
	assert_non_null(conf);
	return conf;
}

/* Must have exactly this one error, at `line`, holding `what`. */
static inline void parse_bad(const char *text, unsigned line, const char *what)
{
	struct conf_errors errors;
	const struct conf *conf = conf_parse(text, strlen(text), "t", NULL, &errors);

	assert_null(conf);
	if (errors.count != 1 || errors.items[0].line != line ||
		!strstr(errors.items[0].text, what))
		fprintf(stderr, "# wanted \"%s\" in line %u, got:\n", what, line),
			print_errors(&errors);
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.items[0].line, line);
	assert_non_null(strstr(errors.items[0].text, what));
	conf_errors_free(&errors);
}

/* The same of a text that `format` prints. */
static inline __attribute__((format(printf, 3, 4))) void bad_text(
	unsigned line, const char *what, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	assert_true(vasprintf(&text, format, arguments) > 0);
	va_end(arguments);
	parse_bad(text, line, what);
	free(text);
}

/* TEXT_BASE, a section, and one setting in its second line: line 11. */
static inline char *text_with(const char *section, const char *setting)
{
	char *text = NULL;

	assert_true(asprintf(&text, TEXT_BASE "[%s]\n%s\n", section, setting) > 0);
	return text;
}

static inline const struct conf *good(const char *section, const char *setting)
{
	char *text = text_with(section, setting);
	const struct conf *conf = parse_good(text);

	free(text);
	return conf;
}

static inline void bad(const char *section, const char *setting, const char *what)
{
	bad_text(11, what, TEXT_BASE "[%s]\n%s\n", section, setting);
}

#endif
