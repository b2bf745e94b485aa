/*
 * Allow and deny lists of a route, by address and by key.
 *
 *   denied -> 403, before anything else
 *   allowed -> no limits apply
 *
 * Deny wins over allow, so that one bad host of an allowed network can be shut out.
 */
#ifndef GATE_ACCESS_H
#define GATE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "conf/terms.h"

enum access_verdict { ACCESS_LIMITED, ACCESS_ALLOWED, ACCESS_DENIED };

/* The lists of one route, compiled. */
struct access_list;

/* NULL with errno 0 when the route has no lists; NULL with ENOMEM when there is no memory. */
struct access_list *access_list_new(const struct conf_route *route);
void access_list_free(struct access_list *list);

/* `key` is the value of the first limit's key (identity_text), or none. */
enum access_verdict access_check(
	const struct access_list *list, const uint8_t address[16], struct slice key);

/* Does access_check look at keys at all? */
bool access_needs_key(const struct access_list *list);

/* ---- networks ------------------------------------------------------------------------------- */

/* A set of networks, built once, then only read: of access lists and matches. */

/* Networks sorted by prefix and address, one run a prefix length: an address is cut to each length
 * there is and searched in that run. */
struct network_set {
	struct conf_cidr *items;
	size_t count;
	struct network_run {
		uint8_t prefix;
		size_t begin, end;
	} runs[129];
	size_t run_count;
};

/* A copy of these in an empty set. False without memory. */
bool network_set_init(struct network_set *set, const struct conf_cidrs *networks);
void network_set_free(struct network_set *set);

bool network_set_has(const struct network_set *set, const uint8_t address[16]);

/* ---- plans ---------------------------------------------------------------------------------- */

/* Plans by API key: the callers of all plans in one hash table, built at load. */

struct plan_table;

/* conf must outlive the table. A key on several lists has the first plan of them, in file order.
 * NULL when there is no memory. Immutable: any thread may look up. */
struct plan_table *plan_table_new(const struct conf *conf);
void plan_table_free(struct plan_table *table);

/* The caller's plan by its key, also one that the file has as its SHA-256. NULL: on no list. */
const struct conf_plan *plan_find(const struct plan_table *table, struct slice caller);

#endif
