/*
 * The calls of the store's functions that a worker's turns make: what a round asks of one function
 * is one batch for each part of the store (cluster_map.h), and leaves at its end.
 *
 *   fleet_filling --> batch --> batches_send --> store --> answered
 *
 * Private to the fleet; all of it belongs to the worker's thread.
 */
#ifndef FLEET_BATCHES_H
#define FLEET_BATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/way.h"
#include "throttle/throttle.h"

struct answer;
struct fleet_batch;
struct fleet_worker;

/* The handling of answers. */
struct batches_calls {
	/* By enum fleet_function: of a batch that was answered; `bytes` is NULL: never will be. */
	void (*answered[FLEET_FUNCTIONS])(struct fleet_batch *batch, const char *bytes, size_t len);
	/* A part of the store has answered; before the other two. */
	void (*timed)(struct fleet_worker *fleet, unsigned part, bool is_late);
	/* What one of FLEET_JUDGE says of a part of the store, before it is answered. */
	void (*learn)(struct fleet_worker *fleet, unsigned part, const struct answer *answer);
};

/* `calls` outlives it. The worker's loop is there. */
void batches_init(struct fleet_worker *fleet, const struct batches_calls *calls);
void batches_end(struct fleet_worker *fleet);
/* Questions that were not sent are not answered. */
void batches_drop(struct fleet_worker *fleet);
/* Frees those that are spare. */
void batches_clear(struct fleet_worker *fleet);

/* Can the store be asked about a caller now, and is likely to answer in time? */
bool fleet_can_ask(const struct fleet_worker *fleet, struct throttle_key caller);

/* A batch for this function and callers of this one's part that is sent at the end of this round,
 * with room for so many limits; NULL: that part of the store is away, or without memory. */
struct fleet_batch *fleet_filling(struct fleet_worker *fleet, enum fleet_function function,
	struct throttle_key caller, unsigned limits);

/* All that is filled for this function leaves now, unless it is empty. False: there was none. */
bool batches_send(struct fleet_worker *fleet, enum fleet_function function);
/* A part's leaves now, empty or not, if the part is there: it says what it remembers. */
void batches_send_part(struct fleet_worker *fleet, enum fleet_function function, unsigned part);

/* How long the store may leave a call unanswered before it is left and looked for again. */
uint64_t fleet_silence_ms(const struct fleet_worker *fleet);

/* The store's clock, according to its last answer: microseconds since 1970. */
uint64_t fleet_store_us(const struct fleet_worker *fleet);

#endif
