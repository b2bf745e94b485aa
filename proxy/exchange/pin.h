/*
 * A pin: a connection to a server that one session keeps to itself (upstream_affinity = session),
 * for servers whose login lives in the connection.
 *
 *   an exchange of the session is done --pin_park--> a descriptor, in no loop, with its session
 *   the next one, on any worker <--pin_take--------'                 |
 *                                    session over, server gone --> pin_close
 *
 * Such a session has one exchange in flight at a time (site.c), reads too, so a pin has one user.
 * As a parked one is in no worker's loop it moves between workers without asking the other; that
 * the server has closed it is seen when it is taken. It never comes from the pool and never goes
 * into it: no other session's request may be sent under its login.
 */
#ifndef EXCHANGE_PIN_H
#define EXCHANGE_PIN_H

#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct pin;
struct server_connection;
struct server_events;
struct site;

/* The exchange is over, still in its session, and its connection clean: it becomes the session's.
 * Closed instead when the session has one already, or its server is not of the current site any
 * more. */
void pin_park(struct exchange *exchange, struct server_connection *connection);

enum pin_result {
	PIN_TAKEN, /* exchange.server (with a place of it) and exchange.connection are set */
	PIN_NONE,  /* none, or of no use any more: closed. Open another */
	PIN_FULL,  /* its server, in `full` then (a mask of indexes), has no place; it is parked
		      again */
};

/* The connection that the exchange's session has, onto the exchange's worker. It is of no use when
 * the server closed it, sent something unasked, is left out (and is not the only one), is of
 * another upstream than the exchange's, or to an address that its server's name no longer has. */
enum pin_result pin_take(
	struct exchange *exchange, const struct server_events *events, uint64_t *full);

/* Frees and closes it: queue_callbacks.unpin. Any thread. */
void pin_close(void *ctx, void *pin);

/* Is its server one of the site's, and its address the server's? For queue_sweep_pins; ctx is the
 * site, NULL has none. */
bool pin_is_of_site(void *site, const void *pin);

#endif
