/* An exchange's limits and its place in its client's order (exchange/turn.c). */
#ifndef EXCHANGE_TURN_H
#define EXCHANGE_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct conf_key;
struct exchange;

/* Asks the limits, the first time and again when a delay is over. False: refused, and answered. */
bool turn_ask(struct exchange *exchange);

/* Takes its place in its client's order. */
void turn_enter(struct exchange *exchange);

/* All before it on its connection are answered: go on with what waited for that. */
void exchange_next(struct exchange *exchange);

/* Its turn has come: through the gate when it was delayed, then on. */
void exchange_admit(struct exchange *exchange);

/* Waits for its turn, or again, until queue_timeout is over. */
void exchange_await_turn(struct exchange *exchange);

/* QUEUED, for a connection: find_server_again is called after so long, if the time is not over. */
void exchange_look_again(struct exchange *exchange, uint64_t after_ms);

/* The hash of another key of this request: for balance = hash. */
uint64_t exchange_hash_key(const struct exchange *exchange, const struct conf_key *key);

#endif
