/*
 * Those who wait for the store's answer about a session, in the order of their arrival: the first
 * learns of it by a message to its worker, and the next one when that has returned. So none of them
 * passes another, whatever workers they are of. For the table's own units alone.
 */
#ifndef OWNERSHIP_OWNER_LINE_H
#define OWNERSHIP_OWNER_LINE_H

#include "ownership/owner_use.h"

struct owner_wait {
	struct message message;
	struct owner_wait *next, **at;
	struct owners *owners;
	struct owner_session *session;
	struct worker *worker;
	struct owner_use *use; /* NULL: it waits no more, and its message is under way */
};

/* With the stripe's lock: at the end of the line of the use's session. False: no memory. */
bool owner_line_enter(struct owners *owners, struct owner_use *use);
/* With the stripe's lock: the first in line is sent session->sight, as far as there is one. */
void owner_line_deliver(struct owner_session *session);
/* Frees those who wait: all workers have ended. */
void owner_line_free(struct owner_session *session);

#endif
