/* The questions of the table of owners to the store; owners_answer (owners.h) takes the answers.
 * For the table's own units alone. */
#ifndef OWNERSHIP_OWNER_ASK_H
#define OWNERSHIP_OWNER_ASK_H

#include "ownership/owners.h"

/* With the stripe's lock, on the worker's thread; nothing else is asked about the session. Its
 * lease counts from `now_ns` (CLOCK_BOOTTIME). False: the store can't be asked now. */
bool owner_ask(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, uint64_t now_ns);
/* Has the process just begun, and its connection to the store is not there yet? */
bool owner_is_starting(struct owners *owners, const struct worker *worker, uint64_t now_ns);
/* With the stripe's lock, on the worker's thread: it is given up if it is unused and that is due at
 * once. */
void owner_yield(struct owners *owners, struct worker *worker, struct owner_session *session);

#endif
