/* Heads as they leave: of requests to servers, of responses to clients. */
#ifndef HTTP1_COMPOSE_H
#define HTTP1_COMPOSE_H

#include <stdbool.h>

struct exchange;
struct flow;

/* Each of them returns false if it does not fit in memory. */

/* The request's head as the server gets it. */
bool compose_request(struct exchange *exchange, struct flow *flow);

/* The response's head as the client gets it. */
bool compose_response(struct exchange *exchange, struct flow *flow, bool chunked, bool is_interim);

/* An answer of our own, with its content. */
bool compose_reply(struct exchange *exchange, struct flow *flow);

#endif
