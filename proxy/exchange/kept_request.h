/* The part of a handshake's request that is kept for its messages, which are charged to its caller
 * and take their places in its session: its head, and what was found in it. */
#ifndef EXCHANGE_KEPT_REQUEST_H
#define EXCHANGE_KEPT_REQUEST_H

#include "exchange/exchange.h"

/* A head without its room for more fields than it has. */
struct kept_head {
	_Alignas(struct http_head) char start[offsetof(struct http_head, inline_fields)];
};

struct kept_request {
	struct exchange_facts facts;
	struct tls_identity tls; /* facts.tls, if there is one */
	struct throttle_key caller, session;
	struct slice request_id, query;
	struct kept_head head;
	char texts[]; /* the head's fields, and all that is named above */
};

/* The caller frees it. NULL without memory. */
struct kept_request *kept_request_new(const struct exchange *exchange);

/* Its head, which borrows from it. */
void kept_request_head(const struct kept_request *kept, struct http_head *head);

#endif
