#include "fleet/debts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"

enum {
	BLOCK_DEBTS = 256,
	OVER_AT_ONCE = 2,   /* make room for one */
	AGAIN_AT_ONCE = 64, /* are owed again before others have the lock */
};

struct debt_block {
	struct debt_block *next;
	struct debt debts[BLOCK_DEBTS];
};

bool debts_init(struct debts *debts)
{
	*debts = (struct debts){.limits = NULL};
	pthread_mutex_init(&debts->lock, NULL);
	return getentropy(&debts->seed, sizeof(debts->seed)) == 0;
}

static void empty_table(struct debt_table *table)
{
	while (table->blocks) {
		struct debt_block *block = table->blocks;
		table->blocks = block->next;
		free(block);
	}
	hash_table_end(&table->hashed);
	*table = (struct debt_table){.blocks = NULL};
}

void debts_end(struct debts *debts)
{
	while (debts->limits) {
		struct debt_limit *limit = debts->limits;
		debts->limits = limit->next;
		for (int i = 0; i < 2; i++)
			empty_table(&limit->tables[i]);
		free(limit);
	}
	pthread_mutex_destroy(&debts->lock);
}

static struct debt_limit *find_limit(const struct debts *debts, const char *name)
{
	struct debt_limit *limit = debts->limits;

	while (limit && strcmp(limit->name, name) != 0)
		limit = limit->next;
	return limit;
}

/* It stays as long as the debts: there are no more than an operator has named. NULL without memory.
 */
static struct debt_limit *make_limit(struct debts *debts, const char *name)
{
	struct debt_limit *limit = find_limit(debts, name);
	size_t bytes = strlen(name) + 1;

	if (limit)
		return limit;
	limit = calloc(1, sizeof(*limit) + bytes);
	if (!limit)
		return NULL;
	memcpy(limit->name, name, bytes);
	limit->next = debts->limits;
	debts->limits = limit;
	return limit;
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

/* ---- the table of a limit -------------------------------------------------------------------- */

static void link_newest(struct debt_table *table, struct debt *debt)
{
	debt->older = table->newest;
	debt->newer = NULL;
	*(table->newest ? &table->newest->newer : &table->oldest) = debt;
	table->newest = debt;
}

static void link_oldest(struct debt_table *table, struct debt *debt)
{
	debt->newer = table->oldest;
	debt->older = NULL;
	*(table->oldest ? &table->oldest->older : &table->newest) = debt;
	table->oldest = debt;
}

static void unlink_debt(struct debt_table *table, struct debt *debt)
{
	*(debt->older ? &debt->older->newer : &table->oldest) = debt->newer;
	*(debt->newer ? &debt->newer->older : &table->newest) = debt->older;
}

static uint64_t hash_of(const struct debts *debts, struct throttle_key caller)
{
	return throttle_hash(&debts->seed, &caller, sizeof(caller)).lo;
}

static struct debt *find(
	const struct debts *debts, struct debt_table *table, struct throttle_key caller)
{
	struct hash_link *link = hash_table_first(&table->hashed, hash_of(debts, caller));

	for (; link; link = hash_table_next(&table->hashed, link)) {
		struct debt *debt = CONTAINER_OF(link, struct debt, link);
		if (debt->caller.lo == caller.lo && debt->caller.hi == caller.hi)
			return debt;
	}
	return NULL;
}

static void drop(struct debts *debts, struct debt_table *table, struct debt *debt)
{
	hash_table_remove(&table->hashed, &debt->link);
	unlink_debt(table, debt);
	debt->newer = table->unused;
	table->unused = debt;
	debts->count--;
}

/* Those that have ended, from the oldest on. */
static void drop_over(struct debts *debts, struct debt_table *table, uint64_t now_ns)
{
	for (int n = 0; n < OVER_AT_ONCE && table->oldest; n++) {
		debts->steps++;
		pass(table->oldest, now_ns);
		if (sum(table->oldest) > 0)
			return;
		drop(debts, table, table->oldest);
	}
}

static bool make_block(struct debt_table *table)
{
	struct debt_block *block = malloc(sizeof(*block));

	if (!block)
		return false;
	block->next = table->blocks;
	table->blocks = block;
	for (int i = 0; i < BLOCK_DEBTS; i++) {
		block->debts[i].newer = table->unused;
		table->unused = &block->debts[i];
	}
	return true;
}

/* A new debt, of nothing and in no order; NULL without memory. */
static struct debt *make(
	struct debts *debts, struct debt_limit *limit, const struct debt *of, uint64_t now_ns)
{
	struct debt_table *table = &limit->tables[debts->owed];
	struct debt *debt = table->unused;

	if (!debt && !make_block(table))
		return NULL;
	debt = table->unused;
	if (!hash_table_add(&table->hashed, &debt->link, hash_of(debts, of->caller)))
		return NULL;
	table->unused = debt->newer;
	debt->caller = of->caller;
	debt->rule = of->rule;
	debt->limit = limit->name;
	debt->is_leased = of->is_leased;
	debt->sent = 0;
	debt->part = part_of(debt, now_ns);
	memset(debt->costs, 0, sizeof(debt->costs));
	debts->count++;
	return debt;
}

/* Twice as many while a part is being paid, which may come back. */
static bool is_full(const struct debts *debts, const struct debt_limit *limit, size_t most)
{
	size_t owed = limit->tables[debts->owed].hashed.count;
	size_t paying = limit->tables[!debts->owed].hashed.count;

	return owed >= most || owed + paying >= 2 * most;
}

static bool add(struct debts *debts, const struct debt *of, uint64_t cost, size_t most,
	uint64_t now_ns, struct debt_time *added)
{
	struct debt_limit *limit = make_limit(debts, of->limit);

	if (!limit)
		return false;
	struct debt_table *table = &limit->tables[debts->owed];
	struct debt *debt = find(debts, table, of->caller);
	if (debt) {
		unlink_debt(table, debt);
	} else {
		drop_over(debts, table, now_ns);
		debt = is_full(debts, limit, most) ? NULL : make(debts, limit, of, now_ns);
		if (!debt)
			return false;
	}
	link_newest(table, debt);
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

bool debts_add(struct debts *debts, const struct debt *of, uint64_t cost, size_t most,
	uint64_t now_ns, struct debt_time *added)
{
	pthread_mutex_lock(&debts->lock);
	bool has_added = add(debts, of, cost, most, now_ns, added);
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
	struct debt_limit *limit =
		added->round == debts->round ? find_limit(debts, of->limit) : NULL;
	struct debt *debt = limit ? find(debts, &limit->tables[debts->owed], of->caller) : NULL;
	if (debt) {
		pass(debt, now_ns);
		take_back(debt, cost, added->at_ns);
	}
	pthread_mutex_unlock(&debts->lock);
}

/* ---- paying ---------------------------------------------------------------------------------- */

/* Limits that others add are before these: what the paying thread has come to does not change. */
void debts_pay_begin(struct debts *debts)
{
	pthread_mutex_lock(&debts->lock);
	debts->owed = !debts->owed;
	debts->is_paying = debts->count > 0; /* else it is clear meanwhile */
	debts->paying_count = debts->count;
	debts->count = 0;
	debts->round++;
	debts->payment++;
	debts->next_limit = debts->limits;
	pthread_mutex_unlock(&debts->lock);
	debts->next = debts->next_limit ? debts->next_limit->tables[!debts->owed].oldest : NULL;
	debts->paid = 0;
}

static bool is_sent(const struct debts *debts, const struct debt *debt)
{
	return debt->sent == debts->payment;
}

/* The next one that is to be paid; NULL: there is none. */
static struct debt *take_next(struct debts *debts)
{
	struct debt *debt = debts->next;

	while (!debt && debts->next_limit) {
		debts->next_limit = debts->next_limit->next;
		if (debts->next_limit)
			debt = debts->next_limit->tables[!debts->owed].oldest;
	}
	debts->next = debt;
	return debt;
}

bool debts_pay_some(struct debts *debts, uint64_t now_ns, size_t most,
	bool (*pay)(void *whose, const struct debt *debt, uint64_t cost), void *whose)
{
	for (size_t i = 0; i < most; i++) {
		struct debt *debt = take_next(debts);
		if (!debt)
			return false;
		pass(debt, now_ns);
		uint64_t cost = sum(debt);
		if (cost > 0 && pay(whose, debt, cost)) {
			debt->sent = debts->payment;
			debts->paid++;
		}
		debts->next = debt->newer;
	}
	return take_next(debts) != NULL;
}

size_t debts_pay(struct debts *debts, uint64_t now_ns,
	bool (*pay)(void *whose, const struct debt *debt, uint64_t cost), void *whose)
{
	debts_pay_begin(debts);
	debts_pay_some(debts, now_ns, SIZE_MAX, pay, whose);
	return debts->paid;
}

/* Of an unpaid one each part is owed again as of when it was. Without memory it is lost. */
static void owe_again(
	struct debts *debts, struct debt_limit *limit, const struct debt *debt, uint64_t now_ns)
{
	struct debt_table *table = &limit->tables[debts->owed];
	uint64_t quarter_ns = debt->rule.window_us * 250;
	struct debt *again = find(debts, table, debt->caller);

	if (!again) { /* older than those that were added since */
		again = make(debts, limit, debt, now_ns);
		if (!again)
			return;
		link_oldest(table, again);
	}
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
	bool is_clear = debts->count == 0 && !debts->is_paying;
	pthread_mutex_unlock(&debts->lock);
	return is_clear;
}

/* All of it, which nobody has added to since: it can be taken back again. */
static bool owe_all_again(struct debts *debts)
{
	pthread_mutex_lock(&debts->lock);
	bool is_untouched = debts->count == 0;
	if (is_untouched) {
		debts->round--;
		debts->owed = !debts->owed;
		debts->count = debts->paying_count;
		debts->is_paying = false;
	}
	pthread_mutex_unlock(&debts->lock);
	return is_untouched;
}

/* The newest of a limit's first, so that they come to be in their order. The lock is given to
 * others after a few. */
static void owe_rest_again(
	struct debts *debts, struct debt_limit *limit, bool has_them, uint64_t now_ns)
{
	struct debt *debt = limit->tables[!debts->owed].newest;

	while (debt) {
		pthread_mutex_lock(&debts->lock);
		for (int n = 0; n < AGAIN_AT_ONCE && debt; n++, debt = debt->older) {
			pass(debt, now_ns);
			if (!(has_them && is_sent(debts, debt)) && sum(debt) > 0) /* else over */
				owe_again(debts, limit, debt, now_ns);
		}
		pthread_mutex_unlock(&debts->lock);
	}
}

static void forget_paid(struct debts *debts, struct debt_limit *limit)
{
	struct debt_table paid;

	pthread_mutex_lock(&debts->lock);
	paid = limit->tables[!debts->owed];
	limit->tables[!debts->owed] = (struct debt_table){.blocks = NULL};
	pthread_mutex_unlock(&debts->lock);
	empty_table(&paid);
}

void debts_paid(struct debts *debts, bool has_them, uint64_t now_ns)
{
	bool has_all = has_them && debts->paid == debts->paying_count;

	if (!debts->is_paying || (!has_them && owe_all_again(debts)))
		return;
	pthread_mutex_lock(&debts->lock);
	struct debt_limit *first = debts->limits;
	pthread_mutex_unlock(&debts->lock);
	for (struct debt_limit *limit = first; limit; limit = limit->next) {
		if (!has_all)
			owe_rest_again(debts, limit, has_them, now_ns);
		forget_paid(debts, limit);
	}
	pthread_mutex_lock(&debts->lock);
	debts->is_paying = false;
	debts->paying_count = 0;
	pthread_mutex_unlock(&debts->lock);
}
