/*
 * Do two sections have the same value of an option, however it was written? One function for each
 * way in which values with pointers are stored; the types of options (conf/options.h) name theirs.
 * Sections that a value refers to are compared by their names, files by what they held.
 */
#ifndef CONF_SAME_H
#define CONF_SAME_H

#include "conf/options.h"

#define SAME(name) bool name(const struct option *option, const void *a, const void *b)

SAME(same_text);
SAME(same_texts);
SAME(same_key);
SAME(same_fields);
SAME(same_networks);
SAME(same_admin_binds);
SAME(same_binds);
SAME(same_log_target);
SAME(same_reference);
SAME(same_references);
/* of [upstream]: */
SAME(same_servers);
/* of [match], and what names them: */
SAME(same_tests);
SAME(same_when);
/* of [limit]: */
SAME(same_rate);
SAME(same_concurrency);
/* of [plan]: */
SAME(same_callers);
/* of [route]: */
SAME(same_path_match);
SAME(same_cost);
SAME(same_access);
SAME(same_message_exceed);

/* of [fleet]: */
SAME(same_store);

/* of [semaphore]: */
SAME(same_broker);

/* Has an option the same value in two sections? */
bool option_same(const struct option *option, const void *a, const void *b);

/* Have two sections of this kind the same values of all options? */
bool section_same(const struct option_section *section, const void *a, const void *b);

#endif
