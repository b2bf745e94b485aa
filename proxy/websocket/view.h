/* The state of a socket that an operator sees. */
#ifndef WEBSOCKET_VIEW_H
#define WEBSOCKET_VIEW_H

#include <stdint.h>

#include "channels/meta.h"
#include "websocket/state.h"

#define VIEW_NAME_BYTES 256
#define VIEW_ID_BYTES   36 /* of a Connection-Id */

struct socket_view {
	uint64_t id;
	char type[VIEW_NAME_BYTES], route[VIEW_NAME_BYTES];
	uint64_t caller;     /* as identity_short writes it */
	uint64_t session[2]; /* both 0: none */
	uint8_t address[16];
	const char *state; /* a constant: open, draining, closing */
	uint64_t age_ms, idle_ms;
	struct socket_traffic received, sent;
	uint64_t queued, queued_bytes;
	uint64_t refused, delayed;          /* of the messages received */
	char connection[VIEW_ID_BYTES + 1]; /* of a gateway's: its Connection-Id; "": none */
	struct meta meta;                   /* the same: copies, as many as there is memory for */
};

/* socket_view_clear is due. On the thread of the socket's worker. */
void socket_view(const struct websocket *socket, struct socket_view *view);

/* Frees what it holds. Any thread. */
void socket_view_clear(struct socket_view *view);

/* The type that its route names, or the route. */
const char *socket_type(const struct websocket *socket);
/* Without a message either way; since when it is open. */
uint64_t socket_idle_ms(const struct websocket *socket);
uint64_t socket_age_ms(const struct websocket *socket);
/* Whose it is: the caller as throttles know it, and the session's key (both 0: none). */
uint64_t socket_caller(const struct websocket *socket);
void socket_session(const struct websocket *socket, uint64_t key[static 2]);
/* The caller's, 16 bytes. */
const uint8_t *socket_address(const struct websocket *socket);

#endif
