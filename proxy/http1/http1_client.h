/* A connection that speaks HTTP/1 as the client of its exchanges (exchange/client.h). */
#ifndef HTTP1_HTTP1_CLIENT_H
#define HTTP1_HTTP1_CLIENT_H

#include "exchange/client.h"
#include "http1/http1_source.h"

extern const struct client_calls http1_client_calls;

/* The operations of the same names (struct client_calls) for the source of a request's body. */
bool http1_body_is_whole(struct http1_source *source, struct exchange *exchange);
bool http1_body_is_short(const struct http1_source *source, const struct exchange *exchange);

/* To a client that speaks HTTP where TLS comes first. */
extern const char http1_plain_answer[];

#endif
