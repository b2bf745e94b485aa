/*
 * Values from the environment.
 *
 *   bind = 0.0.0.0:${PORT}         PORT must be set
 *   bind = 0.0.0.0:${PORT:-8080}   8080 when PORT is not set or empty
 *   X-Template: $${PORT}           the text ${PORT}
 *
 * A `${` that no letter or underscore follows stays as it is, and so does a `$` before anything
 * else. The value of a variable is taken literally: no `;` in it begins a comment, no `${` in it is
 * replaced.
 */
#ifndef CONF_ENVIRONMENT_H
#define CONF_ENVIRONMENT_H

#include <stdbool.h>

#include "conf/value.h"

/* Does the text hold something to replace? */
bool environment_is_named(struct slice text);

/*
 * `text` with its variables replaced, without blanks around it; from the arena. NULL when one is
 * not set, or is written in a way that is none, and the error was added.
 */
const char *environment_expand(struct value *value, struct slice text);

#endif
