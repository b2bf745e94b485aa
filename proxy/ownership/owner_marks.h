/*
 * The order of what is forwarded, over connections that are cut.
 *
 * Forwarded requests carry a mark, which grows each time that the node has given up a request whose
 * fate is unknown. An owner refuses what has a lower mark than something it had before: that was
 * given up, and what came after it has gone. A session's first mark is the highest of its process,
 * so that it grows also over a time in which the session was forgotten.
 */
#ifndef OWNERSHIP_OWNER_MARKS_H
#define OWNERSHIP_OWNER_MARKS_H

#include "ownership/owner_use.h"

/* Of the node that forwards, when its request is written: its turn has come, and whatever was given
 * up before it had its own turn earlier. */
uint64_t owner_mark(const struct owner_use *use);
void owner_raise_mark(struct owners *owners, const struct owner_use *use);
/* Of the owner: false: it is too late for that one, or there is no memory for its mark. */
bool owner_take_mark(
	struct owners *owners, const struct owner_use *use, uint64_t instance, uint64_t mark);

#endif
