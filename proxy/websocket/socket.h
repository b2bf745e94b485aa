/* A socket's life. */
#ifndef WEBSOCKET_SOCKET_H
#define WEBSOCKET_SOCKET_H

#include "websocket/state.h"
#include "worker/worker.h"

/* Does all that can be done now. May end it. */
void socket_run(struct websocket *socket);

/* Of a handshake: see struct switched_calls (exchange/switched.h). */
unsigned socket_judge(struct exchange *exchange, const char **why);
bool socket_agree(struct exchange *exchange);

/* The handshake's exchange has become this passage. `gateway` is the client of the requests to a
 * server that speaks HTTP; NULL: it speaks WebSocket. False: no memory. */
bool socket_begin(const struct exchange *exchange, struct passage *passage,
	const struct socket_server *server, struct client *gateway);

/* The other operations of struct passage_calls (tunnel/passage.h). */
void socket_on_run(struct passage *passage);
void socket_on_timeout(struct passage *passage);
void socket_on_session_ends(struct passage *passage);
void socket_on_session_over(struct passage *passage);
void socket_on_end(struct passage *passage);
void socket_each_message(const struct worker *worker,
	void (*visit)(const struct exchange *message, const struct passage *passage));

/* ---- part ----------------------------------------------------------------------------------- */

/* The worker's events for its WebSockets. */

extern const struct worker_part websockets_part;

#endif
