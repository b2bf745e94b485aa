#include "fleet/debts.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 64 };

void debts_init(struct debts *debts)
{
	*debts = (struct debts){.most = DEBTS_MOST};
	pthread_mutex_init(&debts->lock, NULL);
}

void debts_end(struct debts *debts)
{
	while (debts->names) {
		struct debt_name *name = debts->names;
		debts->names = name->next;
		free(name);
	}
	free(debts->owed);
	free(debts->paying);
	pthread_mutex_destroy(&debts->lock);
}

/* The same text, as long as the debts; NULL without memory. */
static const char *name_of(struct debts *debts, const char *name)
{
	size_t bytes = strlen(name) + 1;

	for (const struct debt_name *known = debts->names; known; known = known->next) {
		if (strcmp(known->text, name) == 0)
			return known->text;
	}
	struct debt_name *added = malloc(sizeof(*added) + bytes);
	if (!added)
		return NULL;
	memcpy(added->text, name, bytes);
	added->next = debts->names;
	debts->names = added;
	return added->text;
}

/* ---- one debt -------------------------------------------------------------------------------- */

static uint64_t part_of(const struct debt *debt, uint64_t now_ns)
{
	uint64_t quarter_ns = debt->rule.window_us * 250;

	return quarter_ns > 0 ? now_ns / quarter_ns : 0;
}

/* Forgets what is older than its window. A time before the newest counts as of that. */
static void pass(struct debt *debt, uint64_t now_ns)
{
	uint64_t part = part_of(debt, now_ns);

	if (part > debt->part && part - debt->part >= DEBTS_PARTS)
		memset(debt->costs, 0, sizeof(debt->costs));
	for (; debt->part < part && part - debt->part < DEBTS_PARTS; debt->part++)
		debt->costs[(debt->part + 1) % DEBTS_PARTS] = 0;
	if (part > debt->part)
		debt->part = part;
}

static uint64_t sum(const struct debt *debt)
{
	uint64_t cost = 0;

	for (int i = 0; i < DEBTS_PARTS; i++)
		cost += debt->costs[i];
	return cost;
}

/* ---- the table ------------------------------------------------------------------------------- */

static size_t place_of(const struct debt *all, size_t size, const struct debt *of)
{
	size_t place = (of->caller.lo >> 8 ^ of->caller.hi) & (size - 1);

	while (all[place].limit &&
		(all[place].caller.hi != of->caller.hi || all[place].caller.lo != of->caller.lo ||
			strcmp(all[place].limit, of->limit) != 0))
		place = (place + 1) & (size - 1);
	return place;
}

/* All that still counts, into a table in which at most half of the places are taken. False without
 * memory. */
static bool make_room(struct debts *debts, uint64_t now_ns)
{
	size_t size = FIRST_SIZE, count = 0;

	for (size_t i = 0; i < debts->size; i++) {
		if (!debts->owed[i].limit)
			continue;
		pass(&debts->owed[i], now_ns);
		count += sum(&debts->owed[i]) > 0;
	}
	while (size < 4 * (count + 1))
		size *= 2;
	struct debt *all = calloc(size, sizeof(*all));
	if (!all)
		return false;
	for (size_t i = 0; i < debts->size; i++) {
		if (debts->owed[i].limit && sum(&debts->owed[i]) > 0)
			all[place_of(all, size, &debts->owed[i])] = debts->owed[i];
	}
	free(debts->owed);
	debts->owed = all;
	debts->size = size;
	debts->count = count;
	return true;
}

/* The debt of this caller, its own or a new one; NULL: there are `most`, or there is no memory. */
static struct debt *find(struct debts *debts, const struct debt *of, size_t most, uint64_t now_ns)
{
	if (2 * (debts->count + 1) > debts->size && !make_room(debts, now_ns))
		return NULL;
	struct debt *debt = &debts->owed[place_of(debts->owed, debts->size, of)];
	if (debt->limit)
		return debt;
	if (debts->count >= most) {
		if (!make_room(debts, now_ns) || debts->count >= most)
			return NULL;
		debt = &debts->owed[place_of(debts->owed, debts->size, of)];
	}
	const char *name = name_of(debts, of->limit);
	if (!name)
		return NULL;
	*debt = *of;
	debt->limit = name;
	debt->part = part_of(debt, now_ns);
	memset(debt->costs, 0, sizeof(debt->costs));
	debts->count++;
	return debt;
}

static bool add(struct debts *debts, const struct debt *of, uint64_t cost, uint64_t now_ns,
	struct debt_time *added)
{
	struct debt *debt = find(debts, of, debts->most, now_ns);

	if (!debt)
		return false;
	if (debt->rule.window_us != of->rule.window_us) { /* a reload has changed it: all is new */
		uint64_t owed = sum(debt);
		debt->rule = of->rule;
		debt->part = part_of(debt, now_ns);
		memset(debt->costs, 0, sizeof(debt->costs));
		debt->costs[debt->part % DEBTS_PARTS] = owed;
	}
	debt->rule = of->rule;
	debt->is_leased = of->is_leased;
	pass(debt, now_ns);
	debt->costs[debt->part % DEBTS_PARTS] += cost;
	if (added)
		*added = (struct debt_time){debts->round, now_ns};
	return true;
}

bool debts_add(struct debts *debts, const struct debt *of, uint64_t cost, uint64_t now_ns,
	struct debt_time *added)
{
	pthread_mutex_lock(&debts->lock);
	bool has_added = add(debts, of, cost, now_ns, added);
	pthread_mutex_unlock(&debts->lock);
	return has_added;
}

/* If the clock of the worker that added it was behind, it is in a later part: what is taken of an
 * earlier one then stays there. */
static void take_back(struct debt *debt, uint64_t cost, uint64_t added_ns)
{
	uint64_t part = part_of(debt, added_ns);

	if (part > debt->part || debt->part - part >= DEBTS_PARTS)
		return;
	uint64_t *at = &debt->costs[part % DEBTS_PARTS];
	*at -= cost < *at ? cost : *at;
}

void debts_take_back(struct debts *debts, const struct debt *of, uint64_t cost, uint64_t now_ns,
	const struct debt_time *added)
{
	pthread_mutex_lock(&debts->lock);
	struct debt *debt = debts->size > 0 && added->round == debts->round
				    ? &debts->owed[place_of(debts->owed, debts->size, of)]
				    : NULL;
	if (debt && debt->limit) {
		pass(debt, now_ns);
		take_back(debt, cost, added->at_ns);
	}
	pthread_mutex_unlock(&debts->lock);
}

/* ---- paying ---------------------------------------------------------------------------------- */

void debts_pay_begin(struct debts *debts)
{
	pthread_mutex_lock(&debts->lock);
	debts->paying = debts->owed;
	debts->paying_size = debts->size;
	debts->paying_count = debts->count;
	debts->owed = NULL;
	debts->size = debts->count = 0;
	debts->round++;
	pthread_mutex_unlock(&debts->lock);
	debts->next = debts->paid = 0;
}

bool debts_pay_some(struct debts *debts, uint64_t now_ns, size_t most,
	bool (*pay)(void *whose, const struct debt *debt, uint64_t cost), void *whose)
{
	for (size_t i = 0; i < most && debts->next < debts->paying_size; i++) {
		struct debt *debt = &debts->paying[debts->next++];
		debt->is_paid = false;
		if (!debt->limit)
			continue;
		pass(debt, now_ns);
		uint64_t cost = sum(debt);
		debt->is_paid = cost > 0 && pay(whose, debt, cost);
		debts->paid += debt->is_paid;
	}
	return debts->next < debts->paying_size;
}

size_t debts_pay(struct debts *debts, uint64_t now_ns,
	bool (*pay)(void *whose, const struct debt *debt, uint64_t cost), void *whose)
{
	debts_pay_begin(debts);
	debts_pay_some(debts, now_ns, SIZE_MAX, pay, whose);
	return debts->paid;
}

/* Of an unpaid one each part is owed again as of when it was. Without memory it is lost. */
static void owe_again(struct debts *debts, const struct debt *debt, uint64_t now_ns)
{
	uint64_t quarter_ns = debt->rule.window_us * 250;
	struct debt *again = find(debts, debt, SIZE_MAX, now_ns);

	if (!again)
		return;
	pass(again, now_ns);
	if (again->rule.window_us != debt->rule.window_us) { /* as add: a reload has changed it */
		again->costs[again->part % DEBTS_PARTS] += sum(debt);
		return;
	}
	for (uint64_t age = 0; age < DEBTS_PARTS; age++) {
		uint64_t part = debt->part >= age ? debt->part - age : 0;
		uint64_t behind = again->part >= part ? again->part - part : 0;
		if (quarter_ns > 0 && behind < DEBTS_PARTS)
			again->costs[(again->part - behind) % DEBTS_PARTS] +=
				debt->costs[part % DEBTS_PARTS];
		if (part == 0)
			break;
	}
}

bool debts_is_clear(struct debts *debts)
{
	pthread_mutex_lock(&debts->lock);
	bool is_clear = debts->count == 0 && !debts->paying;
	pthread_mutex_unlock(&debts->lock);
	return is_clear;
}

/* All of it, which nobody has added to since: it can be taken back again. */
static void owe_all_again(struct debts *debts)
{
	debts->round--;
	free(debts->owed);
	debts->owed = debts->paying;
	debts->size = debts->paying_size;
	debts->count = debts->paying_count;
	debts->paying = NULL;
}

void debts_paid(struct debts *debts, bool has_them, uint64_t now_ns)
{
	bool has_all = has_them && debts->paid == debts->paying_count;

	pthread_mutex_lock(&debts->lock);
	if (!has_them && debts->count == 0)
		owe_all_again(debts);
	for (size_t i = 0; debts->paying && !has_all && i < debts->paying_size; i++) {
		struct debt *debt = &debts->paying[i];
		if (!debt->limit || (has_them && i < debts->next && debt->is_paid))
			continue;
		pass(debt, now_ns);
		if (sum(debt) > 0) /* else it is over */
			owe_again(debts, debt, now_ns);
	}
	free(debts->paying);
	debts->paying = NULL;
	debts->paying_size = debts->paying_count = 0;
	pthread_mutex_unlock(&debts->lock);
}
