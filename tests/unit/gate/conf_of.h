/* Snapshots for tests, from ini text after a listener and an upstream `u`. */
#ifndef TESTS_GATE_CONF_OF_H
#define TESTS_GATE_CONF_OF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conf/conf.h"

/* `folder`: where the files are that the text names; may be NULL. NULL with errors, which the
 * caller frees in either case. */
static inline const struct conf *conf_try(
	const char *folder, const char *ini, struct conf_errors *errors)
{
	char *text = NULL;

	assert_true(asprintf(&text,
			    "[listener l]\nbind = 127.0.0.1:1\n"
			    "[upstream u]\nserver = 127.0.0.1:2\n%s",
			    ini) > 0);
	const struct conf *conf = conf_parse(text, strlen(text), "test.ini", folder, errors);
	free(text);
	return conf;
}

/* Fails the test on an error. */
static inline const struct conf *conf_in(const char *folder, const char *ini)
{
	struct conf_errors errors;
	const struct conf *conf = conf_try(folder, ini, &errors);

	if (!conf)
		fail_msg("%s", errors.items[0].text);
	conf_errors_free(&errors);
	return conf;
}

static inline const struct conf *conf_of(const char *ini)
{
	return conf_in(NULL, ini);
}

#endif
