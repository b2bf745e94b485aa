/*
 * A request's body before its turn: a request takes a place at its upstream when its body is here
 * whole or what is kept of it (request_buffering) is full, so that a client that sends slowly holds
 * none.
 *
 *   begin: is it here whole, with its head? --yes--> as if there were no buffering
 *     | no
 *   READING: client --pump_collect--> spool   beside the waiting for those before it on its
 *     |                                       connection and for its session's order
 *   READY: whole, or as much as is kept
 *     |
 *   gather_resume: spool, then what is still to come --pump--> server
 *
 * A client that waits for a 100 gets it from here, and its server is not asked for one. A body of
 * unknown length that is here whole, and has no trailers, is sent with its length.
 */
#ifndef EXCHANGE_GATHER_H
#define EXCHANGE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

struct exchange;

enum gathering {
	GATHERING_NONE,
	GATHERING_READING,
	GATHERING_READY,
};

/* The exchange has passed its gate: begins to read its body unless that is not to be kept or is
 * here whole; its length is known then. True when the exchange has to wait for it.
 */
bool gather_begin(struct exchange *exchange);

/* The length of the request's body is known from now on: its server gets it, as many servers read
 * nothing of a body without (CGI, WSGI). */
void gather_know_length(struct exchange *exchange, uint64_t length);

/* Reads on. Ends the exchange, or answers, when its body can't be had. */
void gather_run(struct exchange *exchange);

/* Sets exchange.up to send what was read and then what is still to come. The bytes read stay until
 * the connection has consumed them. */
void gather_resume(struct exchange *exchange);

/* A short body that is here whole and may have to be sent twice becomes exchange.memory.body. */
void gather_keep(struct exchange *exchange);

#endif
