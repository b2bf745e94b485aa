/* The server's half of a WebSocket handshake (RFC 6455 section 4.2.2). */
#ifndef WEBSOCKET_ACCEPT_H
#define WEBSOCKET_ACCEPT_H

#include "base/slice.h"

#define ACCEPT_BYTES 28

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key: Base64 of the SHA-1 of the key and the GUID of
 * RFC 6455 section 1.3. NUL-terminated. */
void accept_make(struct slice key, char accept[static ACCEPT_BYTES + 1]);

#endif
