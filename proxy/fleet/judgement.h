/* The judgement of a request from the answers of the node's table and the store, and by the
 * ladder's rungs if the store does not answer. Private to the fleet; on the worker's thread. */
#ifndef FLEET_JUDGEMENT_H
#define FLEET_JUDGEMENT_H

#include <stdbool.h>

#include "fleet/rung.h"
#include "gate/authority.h"

struct account;
struct answer_limit;

/* Retry-After of a request that could not be judged. */
#define JUDGEMENT_RETRY_MS 1000

/* `local`: of the node's table; `answers`: of the limits that the store was asked about, in their
 * order, NULL where it was asked about none. The account becomes the receipt's, or is freed. */
void judgement_fill(struct account *account, struct throttle_verdict *local,
	const struct answer_limit *answers, bool admitted, struct authority_judgement *judgement);

/* The store does not answer: judges by the rungs of its limits. Never PENDING. The account becomes
 * the receipt's, or is freed. */
enum authority_answer judgement_without_store(struct account *account,
	struct throttle_verdict *local, struct authority_judgement *judgement);

/* Gives everything back and frees the account. Returns AUTHORITY_UNAVAILABLE. */
enum authority_answer judgement_unavailable(
	struct account *account, struct authority_judgement *judgement);

/* Is a limit that the store would be asked about on this rung? */
bool account_has_rung(const struct account *account, enum rung rung);
/* Is one of them on a rung that admits nothing? */
bool account_is_closed(const struct account *account);

#endif
