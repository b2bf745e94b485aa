/*
 * The handshake of a WebSocket whose messages are to be read (RFC 6455 section 4): what of the
 * request a route allows, and whether the server has agreed to something that can be read. What
 * else the two have to check is theirs; with a gateway, sluice is the server.
 *
 * permessage-deflate (RFC 7692) is the only extension that is offered to servers; its messages are
 * passed on as they come. Where messages are dropped it is not offered, as what a dropped one has
 * told a peer's compressor would be missing.
 */
#ifndef WEBSOCKET_HANDSHAKE_H
#define WEBSOCKET_HANDSHAKE_H

#include <stdbool.h>

#include "conf/conf.h"
#include "http/message.h"

/* Changes the request's head, whose bytes lie at `bytes`: takes off extensions that cannot be read
 * and subprotocols that are not allowed. 0, or the status that it is refused with, and why. */
unsigned handshake_judge(const struct conf_websocket *conf, struct http_head *request, char *bytes,
	const char **why);

/* Has the server agreed to no extension but permessage-deflate, and that only if the request has
 * offered it? Says whether it has agreed to that. */
bool handshake_agreed(
	const struct http_head *response, const struct http_head *request, bool *deflates);

#define ACCEPT_BYTES 28

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key: Base64 of the SHA-1 of the key and the GUID of
 * RFC 6455 section 1.3. NUL-terminated. */
void accept_make(struct slice key, char accept[static ACCEPT_BYTES + 1]);

#endif
