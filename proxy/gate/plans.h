/* Plans by API key: the callers of all plans in one hash table, built at load. */
#ifndef GATE_PLANS_H
#define GATE_PLANS_H

#include "base/slice.h"
#include "conf/conf.h"

struct plan_table;

/* conf must outlive the table. A key on several lists has the first plan of them, in file order.
 * NULL when there is no memory. Immutable: any thread may look up. */
struct plan_table *plan_table_new(const struct conf *conf);
void plan_table_free(struct plan_table *table);

/* The caller's plan by its key, also one that the file has as its SHA-256. NULL: on no list. */
const struct conf_plan *plan_find(const struct plan_table *table, struct slice caller);

#endif
