/* The limits of an exchange: the callers to charge, the verdict of the node's table, the response
 * to a refusal.
 */
#ifndef EXCHANGE_TURN_LIMITS_H
#define EXCHANGE_TURN_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "exchange/entrance.h"
#include "exchange/exchange.h"
#include "gate/gate.h"

struct conf_key;
struct kept_request;

/* How all nodes call the session of the exchange that has this use. */
void turn_name_session(struct owner_use *use, char out[OWNER_NAME_BYTES]);

struct identity_input;

/* Fills in its request, against which keys and matches are evaluated. The route's name is empty if
 * it has no route yet. */
void turn_fill_identity(const struct exchange *exchange, struct identity_input *input);

/* Determines whom its limits charge, from its own request. Once for each exchange. */
void turn_identify(struct exchange *exchange, enum gate_kind kind);

/* The same for a WebSocket message, from the request that opened its connection. */
void turn_identify_message(struct exchange *message, const struct kept_request *handshake);

/* Has the node's table judge it, the first time or again when a delay is over. */
void turn_judge(struct exchange *exchange);

/* It has a verdict: where that delays it, it is in line (exchange/delay_line.h), else no more. */
void turn_line_up(struct exchange *exchange);

/* After the first verdict, which `ahead` was used for if it is_behind others: did more join its
 * line meanwhile, on other workers? Then `ahead` counts them, and the verdict must be found again.
 */
bool turn_was_passed(
	struct exchange *exchange, bool is_behind, uint64_t ahead[static GATE_LIMITS_MAX]);

/* The same for a message, whose verdict must be of the moment when it is passed on: it may wait
 * long behind others of its session, those that a limit delays among them, and what was charged
 * when it came would arrive in another window than it was charged in. This determines its caller,
 * and charges nothing; it is judged when its turn comes (gate->judged_late), or before that by
 * turn_judge_early. */
void turn_judge_late(struct exchange *message);

/*
 * On a route where something may be delayed (gate_judges_at_turn), a charge is of the time when the
 * request is sent. So one that has to wait after it was admitted is judged again when it continues:
 *
 *   admitted --.--> it goes on at once
 *              |--turn_give_back--> waits for its turn, a place or a server --turn_judge_again-->
 * ...
 *              `--turn_doubt------> its connection is made -------------------------^
 *
 * What waits behind one that is delayed holds nothing, so that the budget is there for that one. A
 * connection is made in less time than a window is long: what waits for that keeps its charge,
 * which then fits again. Nothing is done where a byte has left for a server: that counts once. */
void turn_give_back(struct exchange *exchange);
void turn_doubt(struct exchange *exchange);

/* Its charge is given back, as if it had never been admitted. */
void turn_refund(struct exchange *exchange);

/* Its charge is given back, and it is judged again by the present time; with it those that leave in
 * one request with it (tunnel.riders), as far as all are admitted: the others part from it, so that
 * they are not waited for, which a limit that was lowered may never admit at once. */
void turn_judge_again(struct exchange *exchange);

/* It may leave with another one now, before its turn: is it admitted? If not, it is judged again
 * when its turn comes. */
bool turn_judge_early(struct exchange *message);

/* Does its verdict refuse it? Then it has been answered: 400, 401, 403, 429 or 503. A refused
 * message whose route delays becomes a delayed one instead. */
bool turn_is_turned_away(struct exchange *exchange);

/* Is it admitted, but answered by sluice itself (Max-Forwards, RFC 9110 section 7.6.2)? Then it has
 * been answered. */
static inline bool turn_is_answered_here(struct exchange *exchange)
{
	return http_head_has(&exchange->request, HTTP_FIELD_MAX_FORWARDS) &&
	       max_forwards_reached(exchange);
}

/* The hash of another key of this request: for balance = hash. */
uint64_t exchange_hash_key(const struct exchange *exchange, const struct conf_key *key);

#endif
