/* What is kept of a handshake's request for the messages behind it, which are charged to its caller
 * and take their places in its session: its head, and what was found in it. */
#ifndef EXCHANGE_KEPT_REQUEST_H
#define EXCHANGE_KEPT_REQUEST_H

#include "exchange/exchange.h"

struct kept_request {
	struct exchange_facts facts;
	struct throttle_key caller, session;
	struct slice request_id, query;
	struct http_head head;
	char texts[]; /* all that is named above */
};

/* The caller frees it. NULL without memory. */
struct kept_request *kept_request_new(const struct exchange *exchange);

#endif
