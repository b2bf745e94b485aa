/* Heads as they leave: of requests to servers, of responses to clients. */
#ifndef HTTP1_COMPOSE_H
#define HTTP1_COMPOSE_H

#include <stdbool.h>

#include "http/changes.h"

struct exchange;
struct flow;

/* The request's head as the server gets it. False: does not fit in memory. */
bool compose_request(struct exchange *exchange, struct flow *flow);

/* The changes that the listener and, if there is one, the route make in responses. With a client
 * only. */
struct http_changes exchange_response_changes(const struct exchange *exchange);

/* The response's head as the client gets it; interim responses too. */
bool compose_response(struct exchange *exchange, struct flow *flow, bool chunked, bool interim);

#endif
