/* See holder.h. */
#include "semaphore/holder.h"

#include <stdio.h>

/* Slots that are looked at in one round trip: an A and a B each. */
enum { SLOTS_AT_ONCE = BROKER_BATCH_MOST / 2 };

/* After RESOURCE_LOCKED: the holder that came first continues with the next slot, too. */
enum { LOCKED_PAUSE_MS = 5 };

struct names {
	char text[BROKER_BATCH_MOST][SLOTS_QUEUE_BYTES];
	const char *queues[BROKER_BATCH_MOST];
	size_t count;
};

static void add_name(
	const struct holder *holder, struct names *names, uint32_t number, enum slots_half half)
{
	char *text = names->text[names->count];

	slots_name_queue(&holder->slots, number, half, text);
	names->queues[names->count++] = text;
}

static enum broker_result probe(struct holder *holder, const struct names *names, bool *present)
{
	struct broker *broker = holder->slots.broker;

	holder->messages += names->count;
	return broker->calls->probe(broker, names->queues, names->count, present);
}

static enum broker_result count_slots(struct holder *holder)
{
	enum broker_result result = slots_count(&holder->slots, &holder->max);

	holder->messages += (holder->max / BROKER_BATCH_MOST + 1) * BROKER_BATCH_MOST;
	return result;
}

enum broker_result holder_begin(struct holder *holder, struct broker *broker, const char *name)
{
	char first[SLOTS_QUEUE_BYTES];

	*holder = (struct holder){.slots = {broker, name}};
	enum broker_result result = count_slots(holder);
	if (result != BROKER_DONE || holder->max == 0)
		return result;
	/* Only this tells another connection's own queue from a slot. */
	slots_name_queue(&holder->slots, 1, SLOTS_A, first);
	holder->messages++;
	result = broker->calls->look(broker, first);
	if (result == BROKER_MISSING)
		return BROKER_DONE;
	return result == BROKER_LOCKED ? BROKER_REFUSED : result;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static enum broker_result give_one(struct holder *holder, uint32_t number)
{
	struct broker *broker = holder->slots.broker;
	char queue[SLOTS_QUEUE_BYTES];

	slots_name_queue(&holder->slots, number, SLOTS_B, queue);
	slots_set_remove(&holder->held, number);
	slots_set_remove(&holder->removed, number);
	holder->messages++;
	enum broker_result result = broker->calls->remove(broker, queue);
	/* One that is gone, or another's by now, is not ours. One that may not be deleted (a
	 * permission was revoked) stays ours until the connection ends. */
	return result == BROKER_LOST || result == BROKER_REFUSED ? BROKER_LOST : BROKER_DONE;
}

enum broker_result holder_give(struct holder *holder, uint32_t count)
{
	enum broker_result result = BROKER_DONE;

	for (; count > 0 && holder->held.count > 0 && result == BROKER_DONE; count--) {
		const struct slots_set *from =
			holder->removed.count > 0 ? &holder->removed : &holder->held;
		result = give_one(holder, slots_set_below(from, SLOTS_SET_END));
	}
	return result;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* A search, over several batches. */
struct search {
	uint32_t wanted; /* still */
	unsigned tries;  /* that found it locked */
	bool is_over;    /* the end of the slots, or of the tries */
};

/* Those of a batch that were declared: they count if their A is still there. */
static enum broker_result confirm(
	struct holder *holder, struct search *search, const uint32_t *fresh, size_t count)
{
	enum broker_result result = BROKER_DONE;
	bool present[BROKER_BATCH_MOST];
	struct names names;

	names.count = 0;
	for (size_t i = 0; i < count; i++)
		add_name(holder, &names, fresh[i], SLOTS_A);
	if (count > 0)
		result = probe(holder, &names, present);
	for (size_t i = 0; i < count && result == BROKER_DONE; i++) {
		if (present[i]) {
			slots_set_add(&holder->held, fresh[i]);
			search->wanted--;
			continue;
		}
		result = give_one(holder, fresh[i]);
		search->is_over = true;
	}
	return result;
}

/* Declares the B of a slot of which none was seen. */
static enum broker_result declare(struct holder *holder, struct search *search, uint32_t number)
{
	struct broker *broker = holder->slots.broker;
	char queue[SLOTS_QUEUE_BYTES];

	slots_name_queue(&holder->slots, number, SLOTS_B, queue);
	holder->messages++;
	enum broker_result result = broker->calls->declare(broker, queue, BROKER_EXCLUSIVE);
	if (result == BROKER_LOCKED) {
		search->is_over = ++search->tries >= HOLDER_TRIES;
		if (!search->is_over)
			broker->calls->pause(broker, LOCKED_PAUSE_MS);
	}
	return result;
}

/* `present` has the A of each of `size` slots from `first` on, and behind them all the Bs. */
static enum broker_result take_batch(struct holder *holder, struct search *search, uint32_t first,
	uint32_t size, const bool present[BROKER_BATCH_MOST])
{
	enum broker_result result = BROKER_DONE;
	uint32_t fresh[SLOTS_AT_ONCE];
	size_t count = 0;

	for (uint32_t i = 0; i < size && !search->is_over && count < search->wanted; i++) {
		if (!present[i]) {
			holder->max = first + i - 1;
			search->is_over = true;
			break;
		}
		if (first + i > holder->max)
			holder->max = first + i;
		if (present[size + i])
			continue;
		result = declare(holder, search, first + i);
		if (result == BROKER_DONE)
			fresh[count++] = first + i;
		else if (result != BROKER_LOCKED)
			break;
	}
	if (result == BROKER_LOST)
		return result;
	enum broker_result confirmed = confirm(holder, search, fresh, count);
	return confirmed == BROKER_DONE && result == BROKER_REFUSED ? result : confirmed;
}

/* How many slots from `first` on are looked at: those that there are, and one that there may be. */
static uint32_t size_of_batch(const struct holder *holder, uint32_t first)
{
	uint32_t left = holder->max >= first ? holder->max - first + 2 : 1;

	return left < SLOTS_AT_ONCE ? left : SLOTS_AT_ONCE;
}

enum broker_result holder_take(struct holder *holder, uint32_t count)
{
	struct search search = {.wanted = count};
	enum broker_result result = BROKER_DONE;
	bool present[BROKER_BATCH_MOST];
	uint32_t first = 1, size;

	while (result == BROKER_DONE && search.wanted > 0 && !search.is_over &&
		first <= SLOTS_MOST) {
		struct names names;
		names.count = 0;
		size = size_of_batch(holder, first);
		for (uint32_t i = 0; i < size; i++)
			add_name(holder, &names, first + i, SLOTS_A);
		for (uint32_t i = 0; i < size; i++)
			add_name(holder, &names, first + i, SLOTS_B);
		result = probe(holder, &names, present);
		if (result == BROKER_DONE)
			result = take_batch(holder, &search, first, size, present);
		first += size;
	}
	return result;
}

/* ---- looking --------------------------------------------------------------------------------- */

enum { GLANCE_LEAST = 4, GLANCE_PART = 8 };

enum broker_result holder_glance(struct holder *holder, bool *is_free)
{
	uint32_t most = holder->max / GLANCE_PART;
	bool present[BROKER_BATCH_MOST];
	struct names names;

	*is_free = false;
	names.count = 0;
	most = most < GLANCE_LEAST ? GLANCE_LEAST : most;
	most = most < BROKER_BATCH_MOST ? most : BROKER_BATCH_MOST;
	for (uint32_t i = 0; i < holder->max && names.count < most; i++) {
		holder->glance = holder->glance < holder->max ? holder->glance + 1 : 1;
		if (!slots_set_has(&holder->held, holder->glance))
			add_name(holder, &names, holder->glance, SLOTS_B);
	}
	if (names.count == 0)
		return BROKER_DONE;
	enum broker_result result = probe(holder, &names, present);
	for (size_t i = 0; i < names.count && result == BROKER_DONE; i++)
		*is_free |= !present[i];
	return result;
}

/* Each slot that is held: is its A there? */
static enum broker_result check_all(struct holder *holder)
{
	enum broker_result result = BROKER_DONE;
	uint32_t number = SLOTS_SET_END;
	bool present[BROKER_BATCH_MOST];

	do {
		uint32_t numbers[BROKER_BATCH_MOST];
		struct names names;
		names.count = 0;
		while (names.count < BROKER_BATCH_MOST &&
			(number = slots_set_below(&holder->held, number)) != 0) {
			numbers[names.count] = number;
			add_name(holder, &names, number, SLOTS_A);
		}
		if (names.count > 0)
			result = probe(holder, &names, present);
		for (size_t i = 0; i < names.count && result == BROKER_DONE; i++) {
			if (present[i])
				slots_set_remove(&holder->removed, numbers[i]);
			else
				slots_set_add(&holder->removed, numbers[i]);
		}
	} while (number != 0 && result == BROKER_DONE);
	return result == BROKER_DONE ? count_slots(holder) : result;
}

/* Is the B of the one in turn ours still? It may have been deleted by hand, or by a policy that
 * lets queues expire: then it is declared again, or it is another's by now. */
static enum broker_result check_turn(struct holder *holder)
{
	struct broker *broker = holder->slots.broker;
	char queue[SLOTS_QUEUE_BYTES];

	if (!slots_set_has(&holder->held, holder->turn))
		return BROKER_DONE;
	slots_name_queue(&holder->slots, holder->turn, SLOTS_B, queue);
	holder->messages++;
	enum broker_result result = broker->calls->declare(broker, queue, BROKER_EXCLUSIVE);
	/* It may be ours and not be declared any more, as a permission was revoked: whether it is
	 * there, the broker says without one. */
	if (result == BROKER_REFUSED) {
		holder->messages++;
		result = broker->calls->look(broker, queue);
		if (result == BROKER_REFUSED)
			return BROKER_DONE;
	}
	if (result == BROKER_DONE || result == BROKER_LOST)
		return result;
	slots_set_remove(&holder->held, holder->turn);
	slots_set_remove(&holder->removed, holder->turn);
	return BROKER_DONE;
}

enum broker_result holder_check(struct holder *holder)
{
	uint32_t highest = slots_set_below(&holder->held, SLOTS_SET_END);
	bool present[BROKER_BATCH_MOST];
	struct names names;

	holder->turn = slots_set_below(&holder->held, holder->turn);
	if (holder->turn == 0)
		holder->turn = highest;
	names.count = 0;
	add_name(holder, &names, holder->max + 1, SLOTS_A);
	if (holder->max > 0)
		add_name(holder, &names, holder->max, SLOTS_A);
	if (highest != 0) {
		add_name(holder, &names, highest, SLOTS_A);
		add_name(holder, &names, holder->turn, SLOTS_A);
	}
	enum broker_result result = probe(holder, &names, present);
	if (result == BROKER_DONE)
		result = check_turn(holder);
	if (result != BROKER_DONE)
		return result;
	bool is_same = !present[0] && holder->removed.count == 0;
	for (size_t i = 1; i < names.count; i++)
		is_same &= present[i];
	return is_same ? BROKER_DONE : check_all(holder);
}

/* ---- crowd ---------------------------------------------------------------------------------- */

/* See holder.h. */

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
