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
#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"

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

#endif
