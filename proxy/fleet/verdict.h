/* A verdict over a request's limits, of which the store judges some and the node's table others.
 * Private to the fleet. */
#ifndef FLEET_VERDICT_H
#define FLEET_VERDICT_H

#include "fleet/question.h"

/* What becomes of the request, by both; `answers`: of the limits at the store in their order, NULL:
 * the store has said nothing, and they count as unused. Sets the account's slots. */
void verdict_fill(struct account *account, const struct throttle_verdict *local,
	const struct answer_limit *answers, struct throttle_verdict *verdict);

/* How many of the account's limits the store judges. */
unsigned account_shared(const struct account *account);

#endif
