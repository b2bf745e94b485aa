/*
 * Look-alikes: fields that a server may take for another one.
 *
 * Servers that make variables of field names (CGI, WSGI, PHP, Rack) read X_Api_Key and X-Api-Key as
 * HTTP_X_API_KEY. Of the names that sluice sets, removes or reads a client could so slip in a
 * second one. They are dropped.
 */
#ifndef SITE_LOOKALIKES_H
#define SITE_LOOKALIKES_H

#include "conf/conf.h"
#include "http/message.h"

/* The names that a configuration makes matter, besides those that are known anyway. */
struct lookalikes;

/* NULL without memory. */
struct lookalikes *lookalikes_new(const struct conf *conf);
void lookalikes_free(struct lookalikes *lookalikes);

/* Marks such fields of a request's head as not to be passed on. */
void lookalikes_drop(const struct lookalikes *lookalikes, struct http_head *head);

/* Must lookalikes_drop look at heads without an underscore in any name? Only when one that matters
 * has an underscore itself. */
bool lookalikes_need_all(const struct lookalikes *lookalikes);

#endif
