/*
 * The changes of a reload: two snapshots, compared section by section and row by row of the table
 * of options.
 */
#ifndef CONF_COMPARE_H
#define CONF_COMPARE_H

#include "conf/conf.h"
#include "conf/options.h"

enum conf_change_kind { CONF_CHANGE_ADDED, CONF_CHANGE_REMOVED, CONF_CHANGE_SET };

struct conf_change {
	enum conf_change_kind kind;
	const char *title;           /* `[upstream legacy]` */
	const struct option *option; /* CHANGE_SET; else NULL */
	unsigned line; /* of the new file: of the setting, or of its section when it has none */
};

/* Which rows: those that take effect without a start, or those that need one. */
enum conf_compare { CONF_COMPARE_LIVE, CONF_COMPARE_START };

/* Calls `report` for each difference, with a change that is good for that call only. Sections that
 * one of the two has not are reported as a whole, with CONF_COMPARE_LIVE. */
void conf_compare(const struct conf *before, const struct conf *now, enum conf_compare which,
	void (*report)(const void *user, const struct conf_change *change), const void *user);

#endif
