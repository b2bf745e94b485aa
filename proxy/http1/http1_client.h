/* A connection that speaks HTTP/1 as the client of its exchanges (exchange/client.h). */
#ifndef HTTP1_HTTP1_CLIENT_H
#define HTTP1_HTTP1_CLIENT_H

#include "exchange/client.h"

extern const struct client_calls http1_client_calls;

/* To a client that speaks HTTP where TLS comes first. */
extern const char http1_plain_answer[];

#endif
