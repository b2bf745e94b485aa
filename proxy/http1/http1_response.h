/* The responses of HTTP/1: what an exchange asks its client to write (exchange/client.h), composed
 * into the flow of the client's sink. */
#ifndef HTTP1_HTTP1_RESPONSE_H
#define HTTP1_HTTP1_RESPONSE_H

#include "exchange/client.h"
#include "http1/http1_sink.h"

enum client_interim http1_interim(struct http1_sink *sink, struct exchange *exchange, bool is_own);
enum pump_result http1_head(struct http1_sink *sink, struct exchange *exchange);
bool http1_reply(struct http1_sink *sink, struct exchange *exchange);

/* The head of a 101. False: no memory. */
bool http1_switch(struct http1_sink *sink, struct exchange *exchange);

#endif
