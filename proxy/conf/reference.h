/*
 * The option table for people: the reference of keys, and a snapshot written out again.
 */
#ifndef CONF_REFERENCE_H
#define CONF_REFERENCE_H

#include <stdbool.h>
#include <stdio.h>

#include "conf/conf.h"

struct option;

/* All sections and keys, with type, default, bounds and help, as `sluice check --keys` prints. */
void reference_print_text(FILE *out);

/* The words of an option, or its type with its bounds: `duration, 10ms to 1d`. */
void reference_print_type(const struct option *option, FILE *out);

/*
 * The configuration in effect, as an ini that means the same: the file's values, and the default of
 * every key that it does not name. Keys with neither are comments.
 */
void reference_dump(const struct conf *conf, FILE *out);

/* One setting in effect. */
struct reference_setting {
	const char *kind, *name; /* of its section */
	const char *key;
	const char *text; /* as the file has it, or its default; what is secret reads *** */
	bool repeatable, is_default;
};

/* Calls `visit` for each setting in effect, section by section, in the file's order. */
void reference_each(const struct conf *conf,
	void (*visit)(void *ctx, const struct reference_setting *setting), void *ctx);

#endif
