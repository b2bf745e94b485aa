/*
 * Upgrade: which protocols a connection may change to (RFC 9110 section 7.8).
 *
 * Behind a 101 nothing is looked at any more, so a protocol that carries requests of its own (h2c)
 * would pass every limit. Only the protocols of a list are asked for, and a 101 counts only for one
 * of those that were.
 */
#ifndef HTTP_UPGRADE_H
#define HTTP_UPGRADE_H

#include <stdbool.h>

#include "http/message.h"
#include "http/out.h"

struct conf_text_list;

/* Does the head's Upgrade name a protocol of the list? Compared without case. */
bool http_upgrade_allowed(const struct http_head *head, const struct conf_text_list *protocols);

/* Does the head's Upgrade name this one? */
bool http_upgrade_names(const struct http_head *head, struct slice wanted);

/* Is every protocol that the response's Upgrade names one that the request asked for and the list
 * holds, and is there one at all? */
bool http_upgrade_agreed(const struct http_head *response, const struct http_head *request,
	const struct conf_text_list *protocols);

/* Appends the head's protocols that the list holds, as the value of an Upgrade field. */
void http_upgrade_put_names(
	struct http_out *out, const struct http_head *head, const struct conf_text_list *protocols);

#endif
