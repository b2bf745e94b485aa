/* A connection that speaks HTTP/1 as the client of its exchanges (relay/client.h). */
#ifndef RELAY_HTTP1_CLIENT_H
#define RELAY_HTTP1_CLIENT_H

#include "relay/client.h"

extern const struct client_calls http1_client_calls;

#endif
