/* An exchange's response, relayed from its server (exchange/respond.c). */
#ifndef EXCHANGE_RESPOND_H
#define EXCHANGE_RESPOND_H

#include <stdbool.h>

struct exchange;

/* The server's head is parsed into x->response: interim, upgrade, or the real one. */
void respond_to_head(struct exchange *exchange);

/* Passes the interim response on that came too early for it and is still in x->response; false: it
 * is too early still. Then the next head may be read. */
bool respond_held_interim(struct exchange *exchange);

/* Passes a 100 on that came too early for it, when the exchange is the first on its connection. */
void respond_continue(struct exchange *exchange);

/* All of the body was read: gives its server and the connection up; its place in the queue stays.
 */
void respond_release_server(struct exchange *exchange);

/* More of the body is to come: the server's time runs. */
void respond_await_more(struct exchange *exchange);

/* Moves the body down. */
void respond_run(struct exchange *exchange);

/* The time of WAIT_CLIENT has passed: has the client taken little of the response meanwhile? */
void respond_client_is_slow(struct exchange *exchange);

/* The client has left (its connection is closing): finish alone or cut. */
void exchange_client_gone(struct exchange *exchange);

#endif
