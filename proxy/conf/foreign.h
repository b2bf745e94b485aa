/*
 * Pointers for what is written in the way of another program: nginx's `10r/s`, `$PORT`, `include`.
 * Only messages use them; such lines stay errors.
 */
#ifndef CONF_FOREIGN_H
#define CONF_FOREIGN_H

#include <stdbool.h>

#include "base/slice.h"

struct arena;

/* The equivalent here of an unknown key, section or first word of a line; NULL when nothing is
 * known. */
const char *foreign_word(struct slice word);

/* Does it refer to a variable, as $NAME or ${NAME}? */
bool foreign_is_variable(struct slice text);

/* The rate that is meant by 10r/s, 100/s, 0.5 per 1s or 5/minute, as `5 per 1m`; else NULL. */
const char *foreign_rate(struct arena *arena, struct slice text);

/* The size that is meant by 10MB or 4kb, as `10M`; else NULL. */
const char *foreign_size(struct arena *arena, struct slice text);

/* The part of a key that is meant by X-Api-Key, $binary_remote_addr and the like; else NULL. */
const char *foreign_key_part(struct arena *arena, struct slice text);

#endif
