/* An exchange's limits and its place in its client's order (exchange/turn.c). */
#ifndef EXCHANGE_TURN_H
#define EXCHANGE_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/authority.h"

struct conf_key;
struct exchange;

/* Its request is read and has a route: has its limits judged, and takes its place in its client's
 * order; before the verdict, if that may come later. */
void turn_begin(struct exchange *exchange);

/* The same for a message of the connection that `handshake` has opened, which says whose it is. */
void turn_begin_message(struct exchange *message, const struct exchange *handshake);

/* A reply to the question of an exchange (struct questions). */
void turn_answered(
	void *exchange, enum authority_answer answer, const struct authority_judgement *judgement);

/* All before it on its connection are answered: go on with what waited for that. */
void exchange_next(struct exchange *exchange);

/* Its turn has come: through the gate when it was delayed, then on. */
void exchange_admit(struct exchange *exchange);

/* Waits for its turn, or again, until queue_timeout is over. */
void exchange_await_turn(struct exchange *exchange);

/* QUEUED, for a connection or a descriptor: find_server_again is called after so long, if the time
 * is not over. */
void exchange_look_again(struct exchange *exchange, uint64_t after_ms);

/* The hash of another key of this request: for balance = hash. */
uint64_t exchange_hash_key(const struct exchange *exchange, const struct conf_key *key);

#endif
