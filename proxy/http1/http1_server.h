/* A connection to a server that speaks HTTP/1 (upstream/server.h). */
#ifndef HTTP1_HTTP1_SERVER_H
#define HTTP1_HTTP1_SERVER_H

#include "upstream/server.h"

extern const struct server_calls http1_server_calls;

#endif
