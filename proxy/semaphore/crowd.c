/* See crowd.h. */
#include "semaphore/crowd.h"

#include <stdio.h>

/* Behind the last one that was seen, so many are looked for: all of these may be gone, too. */
enum { GAP = 8 };

struct crowd_names {
	char text[BROKER_BATCH_MOST][SLOTS_QUEUE_BYTES];
	const char *queues[BROKER_BATCH_MOST];
	size_t count;
};
_Static_assert(CROWD_MOST + GAP < BROKER_BATCH_MOST, "all of them are one batch");

static void name_member(const struct holder *holder, uint32_t number, char queue[SLOTS_QUEUE_BYTES])
{
	snprintf(queue, SLOTS_QUEUE_BYTES, "%.64s/holder-%u", holder->slots.name, number);
}

static void name_wait(const struct holder *holder, char queue[SLOTS_QUEUE_BYTES])
{
	snprintf(queue, SLOTS_QUEUE_BYTES, "%.64s/wait", holder->slots.name);
}

static enum broker_result look(
	struct crowd *crowd, struct holder *holder, bool counts, bool present[BROKER_BATCH_MOST])
{
	struct broker *broker = holder->slots.broker;
	struct crowd_names names;

	names.count = 1;
	name_wait(holder, names.text[0]);
	names.queues[0] = names.text[0];
	/* A member's number is its place in the batch. */
	for (; counts && names.count <= crowd->last + GAP; names.count++) {
		name_member(holder, (uint32_t)names.count, names.text[names.count]);
		names.queues[names.count] = names.text[names.count];
	}
	holder->messages += names.count;
	enum broker_result result =
		broker->calls->probe(broker, names.queues, names.count, present);
	if (result != BROKER_DONE)
		return result;
	crowd->hears = present[0] && !crowd->waits;
	if (!counts)
		return BROKER_DONE;
	uint32_t found = 0, last = 0;
	for (uint32_t i = 1; i < names.count; i++) {
		found += present[i];
		last = present[i] ? i : last;
	}
	crowd->last = last < CROWD_MOST ? last : CROWD_MOST;
	crowd->count = found;
	return BROKER_DONE;
}

enum broker_result crowd_look(struct crowd *crowd, struct holder *holder, bool counts)
{
	bool present[BROKER_BATCH_MOST];

	return look(crowd, holder, counts && crowd->number > 0, present);
}

enum broker_result crowd_join(struct crowd *crowd, struct holder *holder)
{
	struct broker *broker = holder->slots.broker;
	bool present[BROKER_BATCH_MOST];
	char queue[SLOTS_QUEUE_BYTES];

	*crowd = (struct crowd){.last = CROWD_MOST};
	enum broker_result result = look(crowd, holder, true, present);
	for (uint32_t i = 1; result == BROKER_DONE && i <= CROWD_MOST; i++) {
		if (present[i])
			continue;
		name_member(holder, i, queue);
		holder->messages++;
		switch (broker->calls->declare(broker, queue, BROKER_EXCLUSIVE)) {
		case BROKER_DONE:
			crowd->number = i;
			crowd->count++;
			crowd->last = i > crowd->last ? i : crowd->last;
			return BROKER_DONE;
		case BROKER_LOST:
			return BROKER_LOST;
		case BROKER_LOCKED:
			crowd->count++; /* it came since the look */
			crowd->last = i > crowd->last ? i : crowd->last;
			break;
		case BROKER_MISSING:
		case BROKER_REFUSED:
			crowd->count = 0;
			return BROKER_DONE;
		}
	}
	return result;
}

enum broker_result crowd_leave(struct crowd *crowd, struct holder *holder)
{
	struct broker *broker = holder->slots.broker;
	char queue[SLOTS_QUEUE_BYTES];

	if (crowd->number == 0)
		return BROKER_DONE;
	name_member(holder, crowd->number, queue);
	crowd->number = 0;
	holder->messages++;
	/* One that may not be deleted counts until the connection ends. */
	return broker->calls->remove(broker, queue) == BROKER_LOST ? BROKER_LOST : BROKER_DONE;
}

enum broker_result crowd_wait(struct crowd *crowd, struct holder *holder, bool waits)
{
	struct broker *broker = holder->slots.broker;
	char queue[SLOTS_QUEUE_BYTES];

	if (waits == crowd->waits)
		return BROKER_DONE;
	name_wait(holder, queue);
	holder->messages++;
	enum broker_result result = waits ? broker->calls->declare(broker, queue, BROKER_EXCLUSIVE)
					  : broker->calls->remove(broker, queue);
	/* As long as it is there, the others give slots back; only the end of the connection
	 * deletes what may not be deleted. */
	if (!waits && result == BROKER_REFUSED)
		return BROKER_LOST;
	crowd->waits = waits && result == BROKER_DONE;
	return result == BROKER_LOST ? BROKER_LOST : BROKER_DONE;
}
