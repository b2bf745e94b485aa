/*
 * Asking: a request's limits one way after the other, the parts of the store that they belong to
 * one after the other, and the reply. Private to the fleet; on the worker's thread.
 *
 *   fleet_ask --> account --> ways --+-- decided here --> judgement
 *                                    `-- question, in a batch --> store --> fleet_answer --> reply
 */
#ifndef FLEET_FLEET_ASK_H
#define FLEET_FLEET_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "gate/authority.h"

struct fleet_worker;
struct question;

/* As in struct authority_calls. */
enum authority_answer fleet_ask(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement);
enum authority_answer fleet_expire(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement);
void fleet_cancel(struct authority *authority, const struct questions *questions, uint64_t number);

/* The limits of this question that are leased have been judged, or could not be (`answered`): the
 * rest of them is, and it is replied to. */
void fleet_go_on(struct fleet_worker *fleet, struct question *question, bool answered);

/* A call of a batch was answered (bytes), or failed (NULL): its questions are replied to. */
void fleet_answer(
	struct fleet_worker *fleet, struct question *first, const char *bytes, size_t len);

/* ---- admit ---------------------------------------------------------------------------------- */

/* The shorter path of most requests: all their limits are leased, and there is enough of each in
 * hand. Private to the fleet; on the worker's thread. */

/* As in struct authority_calls. It does what fleet_ask does, and leaves to that whatever is not so.
 */
bool fleet_admit(struct authority *authority, const struct authority_question *question,
	struct authority_judgement *judgement);

#endif
