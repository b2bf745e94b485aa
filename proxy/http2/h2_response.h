/*
 * The responses of HTTP/2: what an exchange asks its client to write (exchange/client.h), as header
 * blocks for the session.
 *
 *   exchange/outgoing.c --> http2/h2_fields.h --> session --> HPACK
 */
#ifndef HTTP2_H2_RESPONSE_H
#define HTTP2_H2_RESPONSE_H

#include "exchange/client.h"

enum client_interim h2_interim(struct client *client, struct exchange *exchange, bool is_own);
enum pump_result h2_head_out(struct client *client, struct exchange *exchange);
bool h2_reply(struct client *client, struct exchange *exchange);

#endif
