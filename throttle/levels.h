/* The levels of a generation's limits: see generation.h for the whole. */
#ifndef THROTTLE_LEVELS_H
#define THROTTLE_LEVELS_H

#include "throttle/generation.h"

/* Of a new one: each limit begins with the levels that it had in `last`, or with the first; with
 * all above them where it doesn't grow. */
void levels_begin(struct generation *generation, const struct generation *last, bool grows);

/* Are the words of levels what was written? */
bool levels_can_be(const struct generation *generation);

/* Makes the memory of all levels in use usable: of a new generation, or where an opened file has
 * holes. 0 or errno. */
int levels_reserve(struct generation *generation, bool is_new);

/* Opens levels where callers need them, gives up those that most have left. One thread; others may
 * continue. 0 or errno: there was no room for all of it. `to_the_end`: whether they need them or
 * not.
 */
int levels_grow(struct generation *generation, bool to_the_end);

/* Gives back the memory of levels that were given up, unless another process has the table open.
 * The folder is locked, so that none opens it, and no thread is in a call that began before they
 * were. */
void levels_collect(struct generation *generation);

/* How many throttles there are of the i-th limit, from this level on. */
uint64_t levels_entries(const struct generation *generation, uint32_t i, unsigned from);

/* The bytes of its levels in use. */
uint64_t levels_reserved(const struct generation *generation, uint32_t i);

#endif
