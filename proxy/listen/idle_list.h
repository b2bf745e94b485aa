/*
 * Things in the order in which they became idle, the one that has been idle longest first. Putting
 * and taking out is O(1). One thread's.
 *
 * One that is busy is idle again within a moment, and again: then it stays where it is, and only
 * its time is noted. So the order is exact to IDLE_LIST_STEP_MS, and what is near in it is compared
 * by its times; and a request touches no links, which are other connections' memory.
 */
#ifndef LISTEN_IDLE_LIST_H
#define LISTEN_IDLE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

/* Embedded in what is idle; zeroed: in no list. */
struct idle_link {
	struct idle_link *older, *newer;
	uint64_t since_ms;
	uint64_t placed_ms; /* when it came to this place in the list; 0: it is in none */
};

#define IDLE_LIST_STEP_MS 100

struct idle_list {
	struct idle_link *oldest, *newest;
};

static inline void idle_list_take_out(struct idle_list *list, struct idle_link *link)
{
	if (link->placed_ms == 0)
		return;
	LIST_REMOVE(list->oldest, list->newest, link, older, newer);
	link->older = link->newer = NULL;
	link->placed_ms = 0;
}

/* Idle since now (not 0), no matter whether it was in the list. */
static inline void idle_list_put(struct idle_list *list, struct idle_link *link, uint64_t now_ms)
{
	link->since_ms = now_ms;
	if (link->placed_ms != 0 && now_ms < link->placed_ms + IDLE_LIST_STEP_MS)
		return;
	idle_list_take_out(list, link);
	link->placed_ms = now_ms;
	LIST_APPEND(list->oldest, list->newest, link, older, newer);
}

#endif
