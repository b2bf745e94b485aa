/*
 * The operations of a protocol on an exchange that switches to it, in place of a tunnel of bytes: a
 * room of its own implements this (websocket/), and its part of the worker sets
 * exchange_part(worker)->switched. No unit of the exchange's names the protocol's parts.
 *
 *   head --judge--> limits, queue, server ... 101 --agree--> composed --begin--> TUNNEL
 *                                                     run, timeout ... end (the exchange's)
 *
 * Where the server speaks HTTP (websocket = gateway), the request is made another one first, and
 * its answer is collected (exchange/collect.h):
 *
 *   limits, queue --open--> server ... 200 --collects--> all of it --answered--> collect_switch
 */
#ifndef EXCHANGE_SWITCHED_H
#define EXCHANGE_SWITCHED_H

#include <stdbool.h>

#include "base/slice.h"

struct exchange;
struct worker;

struct switched_calls {
	/* A request for the upgrade, on a route that reads what follows: may change its head. 0, or
	 * the status that it is refused with, and why for the log. */
	unsigned (*judge)(struct exchange *exchange, const char **why);
	/* The server's 101: can what follows be read? */
	bool (*agree)(struct exchange *exchange);
	/* The handshake of a `gateway` ends, which it was to open. */
	void (*leave)(struct exchange *handshake);
	/* A request of a gateway's route, be it for the upgrade or not: may take fields off its
	 * head. 0, or the status that it is refused with, and why for the log. */
	unsigned (*screen)(struct exchange *exchange, const char **why);
	/* Its turn has come, perhaps once more: makes it the request that asks the server whether
	 * it opens. False: no memory. */
	bool (*open)(struct exchange *exchange);
	/* The head of the answer to that, or to a message, is in `response`. Is the body read for
	 * the gateway? Else the client gets the answer. */
	bool (*collects)(struct exchange *exchange);
	/* All of it is in `down.spool`. Ends the exchange, at once or in one of the next turns,
	 * answers it, or switches. */
	void (*answered)(struct exchange *exchange);
	/* The head of a response is in `response`, on a route that holds some. Is it to be held?
	 * Then it is collected, or was refused. */
	bool (*holds)(struct exchange *exchange);
	/* All of such a response is in `down.spool`: to exchange/held.h. May end the exchange. */
	void (*held)(struct exchange *exchange);
	/* The exchange has ended, and `tunnel.hold` is of no use any more. */
	void (*let_go)(struct exchange *exchange);
	/* The value of Grip-Sig, by which a server that holds responses knows sluice; empty without
	 * a key. Valid until the worker's next call. */
	struct slice (*signature)(struct worker *worker);
};

#endif
