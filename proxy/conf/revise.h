/*
 * A snapshot with some settings changed: what an operator changes while sluice runs, without the
 * file.
 *
 *   snapshot: sections and settings as written --with the changes--> build, all checks --> snapshot
 *
 * The file is not read again, so that unrelated edits of it do not take effect. Files that its
 * values name (lists of callers and keys) are.
 */
#ifndef CONF_REVISE_H
#define CONF_REVISE_H

#include <stddef.h>

#include "conf/conf.h"

struct conf_revision {
	const char *kind, *name; /* of the section; name "" when it has none */
	const char *key;
	const char *text; /* as in a file; NULL: as if the file did not set it */
};

/*
 * Returns a snapshot held once, or NULL with all errors, as conf_load does; those about a changed
 * setting have line 0. A section that `base` does not have, and a key that is unknown or
 * repeatable, are errors. `base` need not outlive the result.
 */
struct conf *conf_revise(const struct conf *base, const struct conf_revision *revisions,
	size_t count, struct conf_errors *errors);

/* Does a section have settings that the file does not have, by conf_revise? */
bool conf_is_revised(const struct conf *conf, const char *kind, const char *name);

#endif
