/*
 * The slots of a semaphore that one connection to the broker holds.
 *
 *   search, from 1 on:   A missing --> all slots are taken, as there are no more
 *                        B there   --> held, by whomever: the next one
 *                        else      --> declare B, exclusive: RESOURCE_LOCKED --> the next one
 *                                      then A once more: gone --> B is deleted, it never counts
 *
 * A slot is given back by deleting its B, and by the end of the connection, however that comes. One
 * whose A is gone was removed by an administrator: it is used no more, but held until what it was
 * used for has ended (holder_give), so that `sluice semaphore wait` knows.
 *
 * As slots are removed in descending order, a look at the highest one that is held is a look at all
 * of them; each look is also at another of them in turn, at both of its queues, in case that they
 * were lost in another way.
 */
#ifndef SEMAPHORE_HOLDER_H
#define SEMAPHORE_HOLDER_H

#include "semaphore/slots.h"

/* Of those that others took between the look and the declaration, a search bears so many. */
#define HOLDER_TRIES 4

struct holder {
	struct slots slots;
	struct slots_set held;    /* B is ours; removed ones, too */
	struct slots_set removed; /* and of these A is gone */
	uint32_t max;             /* slots that there are, as was seen last */
	uint32_t turn;            /* the one that was looked at in turn last */
	uint32_t glance;          /* and of those of others, by holder_glance */
	uint64_t messages;        /* sent to the broker so far */
};

/* Begins without a slot and counts those that there are, to `max`. BROKER_REFUSED, with the reason
 * in the broker's `why`, when a queue in the place of a slot is another connection's own. `name` is
 * borrowed. */
enum broker_result holder_begin(struct holder *holder, struct broker *broker, const char *name);

/* Slots that may be used: held, and not removed. */
static inline uint32_t holder_usable(const struct holder *holder)
{
	return holder->held.count - holder->removed.count;
}

/* Searches for `count` slots more. Less are found when all others are held: the caller comes again
 * later. BROKER_REFUSED: a B could not be declared, for another reason than that it is held; those
 * that were found until then count. */
enum broker_result holder_take(struct holder *holder, uint32_t count);

/* Looks at an eighth of the slots that this holder does not have (four at least), others each time:
 * `*is_free`: one of them has no holder, so that a search is worth its messages. BROKER_DONE, or as
 * the broker's `probe`; then `*is_free` is false. */
enum broker_result holder_glance(struct holder *holder, bool *is_free);

/* Looks which slots are removed, and whether there are as many as before: five messages, and when
 * something has changed, all slots are looked at. */
enum broker_result holder_check(struct holder *holder);

/* Gives back `count` slots, removed ones first, then those of the highest numbers. */
enum broker_result holder_give(struct holder *holder, uint32_t count);

#endif
