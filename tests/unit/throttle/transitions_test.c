/*
 * No trailing window holds more than the limit, whatever becomes of the throttles in it: callers
 * that share an overflow and leave it, a table that grows, other rates, precisions, kinds and
 * capacities, a restart from a file. Against plain lists of what was admitted, for each pair of
 * forms that a limit can change between, and each way in which it can.
 */
#include "fixture.h"

#include <unistd.h>

#include "tests/unit/suite.h"

#define WATCHED 48
#define FILLERS 6000 /* more than a table of the smallest capacity has places for */
#define MORE    20000
#define AGE     (60 * SECOND) /* more than four windows and 8 s */
#define LIST    4096

static const struct throttle_limit forms[] = {
	{.name = "l", .quota = 20, .window_ns = 5 * SECOND},
	{.name = "l", .quota = 40, .window_ns = 5 * SECOND, .slots = THROTTLE_EXACT},
	{.name = "l", .quota = 300, .window_ns = 8 * SECOND, .slots = 300},
	{.name = "l", .quota = 400, .window_ns = 3 * SECOND},
	{.name = "l", .quota = 1 << 30, .window_ns = 5 * SECOND, .slots = 40}, /* has a stamp */
	{.name = "l", .quota = 40, .window_ns = 5 * SECOND, .kind = THROTTLE_GCRA, .burst = 40},
	{.name = "l", .quota = 60, .kind = THROTTLE_CALENDAR, .period = THROTTLE_HOUR},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

enum passage { CHANGED, WIDENED, GROWN, RESTARTED, PASSAGES };

struct admitted {
	uint64_t at, cost;
};

/* What one caller has used, by plain lists. */
struct account {
	unsigned count;
	struct admitted list[LIST];
	uint64_t drained; /* of a paced one */
};

struct world {
	struct throttle_table *table;
	struct throttle_limit limit;
	const char *folder;
	uint64_t now, callers, seed;
	bool grows;
	struct account accounts[WATCHED];
};

/* ---- the oracle ---- */

static uint64_t sum_since(const struct account *a, uint64_t after)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->count; i++)
		sum += a->list[i].at > after ? a->list[i].cost : 0;
	return sum;
}

static uint64_t hour_of(uint64_t now)
{
	return now / (3600 * SECOND);
}

static uint64_t increment_of(const struct throttle_limit *l)
{
	return l->window_ns / l->quota;
}

/* In use at `now`, as far as this caller's own charges tell. */
static uint64_t used_of(const struct world *w, const struct account *a)
{
	const struct throttle_limit *l = &w->limit;

	if (l->kind == THROTTLE_CALENDAR)
		return sum_since(a, hour_of(w->now) * 3600 * SECOND - 1);
	if (l->kind == THROTTLE_GCRA)
		return a->drained > w->now ? (a->drained - w->now) / increment_of(l) : 0;
	return sum_since(a, w->now - l->window_ns);
}

static void note(struct world *w, struct account *a, uint64_t cost)
{
	const struct throttle_limit *l = &w->limit;

	if (l->kind == THROTTLE_GCRA)
		a->drained = (a->drained > w->now ? a->drained : w->now) + cost * increment_of(l);
	assert_true(a->count < LIST);
	a->list[a->count++] = (struct admitted){w->now, cost};
}

/* The newest of the list, as far back as the last limit's window: what throttle_table_apply keeps
 * of a ring for a ring. */
static void keep_newest(struct world *w, struct account *a, uint64_t most)
{
	uint64_t left = most;

	for (unsigned i = a->count; i-- > 0;) {
		uint64_t cost = a->list[i].at + w->limit.window_ns > w->now ? a->list[i].cost : 0;

		a->list[i].cost = cost < left ? cost : left;
		left -= a->list[i].cost;
	}
}

/* As if all of the list had been paced. */
static void drain(struct account *a, uint64_t increment)
{
	a->drained = 0;
	for (unsigned i = 0; i < a->count; i++) {
		const struct admitted *one = &a->list[i];

		a->drained = (a->drained > one->at ? a->drained : one->at) + one->cost * increment;
	}
}

static void change_account(struct world *w, struct account *a, const struct throttle_limit *next)
{
	uint64_t most = next->kind == THROTTLE_GCRA ? next->burst : next->quota;
	uint64_t used = used_of(w, a);

	if (w->limit.kind == THROTTLE_RING && next->kind == THROTTLE_RING) {
		keep_newest(w, a, most);
		return;
	}
	if (w->limit.kind == next->kind)
		return;
	if (w->limit.kind == THROTTLE_RING && next->kind == THROTTLE_GCRA) {
		keep_newest(w, a, most);
		drain(a, increment_of(next));
		return;
	}
	used = used < most ? used : most;
	a->count = 1;
	a->list[0] = (struct admitted){w->now, used};
	a->drained = w->now + (next->kind == THROTTLE_GCRA ? used * increment_of(next) : 0);
}

/* ---- what happens ---- */

static void open_world(struct world *w, bool is_young)
{
	const struct throttle_seed seed = {w->seed, 2};
	struct throttle_table_options options = {.folder = w->folder,
		.callers = w->callers,
		.now_ns = w->now,
		.grows = w->grows,
		.seed = is_young ? &seed : NULL};
	struct throttle_report report;

	w->table = throttle_table_open(&options, &w->limit, 1, &report);
	assert_non_null(w->table);
	assert_int_equal(report.found, is_young ? THROTTLE_FOUND_NONE : THROTTLE_FOUND_TABLE);
}

static void grow(struct world *w)
{
	if (!w->grows)
		return;
	assert_int_equal(throttle_table_grow(w->table), 0);
	throttle_table_collect(w->table);
}

/* Others that occupy the places. */
static void fill(struct world *w)
{
	for (uint64_t i = 0; i < FILLERS; i++)
		take_one(w->table, WATCHED + i, 1, w->now, NULL);
}

static void take(struct world *w, unsigned caller, uint64_t cost)
{
	struct account *a = &w->accounts[caller];
	uint64_t most = w->limit.kind == THROTTLE_GCRA ? w->limit.burst : w->limit.quota;

	if (!take_one(w->table, caller, cost, w->now, NULL))
		return;
	if (used_of(w, a) + cost > most) {
		printf("# caller %u: %llu in use, %llu admitted, the limit is %llu\n", caller,
			(unsigned long long)used_of(w, a), (unsigned long long)cost,
			(unsigned long long)most);
		fail_msg("more than the limit in a window");
	}
	note(w, a, cost);
}

/* The watched ones use what they get, by and by. */
static void use(struct world *w, unsigned takes)
{
	uint64_t most = w->limit.kind == THROTTLE_GCRA ? w->limit.burst : w->limit.quota;

	for (unsigned n = 0; n < takes; n++) {
		for (unsigned c = 0; c < WATCHED; c++)
			if (random_below(&w->seed, 3) > 0)
				take(w, c, 1 + random_below(&w->seed, most / 4));
		w->now += random_below(&w->seed, 100 * MS);
	}
}

static void pass(struct world *w, enum passage passage, const struct throttle_limit *next)
{
	if (passage == GROWN)
		grow(w);
	if (passage == WIDENED)
		w->callers = MORE;
	for (unsigned c = 0; c < WATCHED; c++)
		change_account(w, &w->accounts[c], next);
	w->limit = *next;
	if (passage != RESTARTED) {
		assert_int_equal(
			throttle_table_apply(w->table, next, 1, w->callers, w->now, NULL), 0);
		throttle_table_collect(w->table);
		return;
	}
	throttle_table_close(w->table);
	open_world(w, false);
}

static void remove_files(const char *folder)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/throttle.table", folder);
	unlink(path);
}

static void run_pair(
	struct world *w, size_t from, size_t to, enum passage passage, uint64_t age, uint64_t seed)
{
	memset(w->accounts, 0, sizeof(w->accounts));
	w->limit = forms[from];
	w->now = START;
	w->callers = 1;
	w->seed = seed;
	w->grows = passage == GROWN;
	w->callers = passage == GROWN ? MORE : 1;
	open_world(w, true);
	w->now += age;
	fill(w);
	use(w, 4);
	grow(w);
	use(w, 3);
	pass(w, passage, &forms[to]);
	use(w, 4);
	/* Who has a place now and had none before begins with what it used without one. */
	w->now += random_below(&w->seed, 6 * SECOND);
	use(w, 4);
	grow(w);
	fill(w);
	use(w, 4);
	pass(w, passage == RESTARTED ? RESTARTED : WIDENED, &forms[from]);
	use(w, 4);
	throttle_table_close(w->table);
	if (w->folder != NULL)
		remove_files(w->folder);
}

static void run_all(uint64_t age, uint64_t seed)
{
	static struct world w;
	char folder[] = "throttle-transitions-XXXXXX";

	assert_non_null(mkdtemp(folder));
	for (size_t from = 0; from < FORMS; from++)
		for (size_t to = 0; to < FORMS; to++)
			for (unsigned passage = 0; passage < PASSAGES; passage++) {
				if (getenv("THROTTLE_SEED") != NULL)
					printf("# %zu to %zu, passage %u\n", from, to, passage);
				w.folder = passage == RESTARTED ? folder : NULL;
				run_pair(&w, from, to, (enum passage)passage, age, seed);
			}
	rmdir(folder);
}

static void test_pairs(void **state)
{
	(void)state;
	run_all(0, random_seed("transitions"));
}

/* Times of long ago are not told from those of now by the bits that a throttle has for them. */
static void test_pairs_of_an_old_table(void **state)
{
	(void)state;
	run_all(AGE, random_seed("transitions of an old table"));
}

/* Of callers that share an overflow and leave it: what the first and the last of their charges come
 * to, for each ring that has a head of its own kind. */
static void leave_overflow(const struct throttle_limit *limit, bool grows)
{
	static struct world w;

	memset(w.accounts, 0, sizeof(w.accounts));
	w.limit = *limit;
	w.folder = NULL;
	w.now = START;
	w.seed = 1;
	w.grows = grows;
	w.callers = grows ? MORE : 1;
	open_world(&w, true);
	w.now += AGE;
	fill(&w);
	for (unsigned c = 0; c < WATCHED; c++)
		take(&w, c, limit->quota);
	w.now += SECOND / 10;
	w.callers = MORE;
	if (grows)
		grow(&w);
	else
		assert_int_equal(throttle_table_apply(w.table, limit, 1, MORE, w.now, NULL), 0);
	for (unsigned c = 0; c < WATCHED; c++)
		for (unsigned n = 0; n < 4; n++)
			take(&w, c, limit->quota / 4);
	throttle_table_close(w.table);
}

static void test_overflow_left_by_reload(void **state)
{
	(void)state;
	for (size_t form = 0; form < FORMS; form++)
		leave_overflow(&forms[form], false);
}

static void test_overflow_left_by_growth(void **state)
{
	(void)state;
	for (size_t form = 0; form < FORMS; form++)
		leave_overflow(&forms[form], true);
}

UNIT_SUITE(transitions_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overflow_left_by_reload),
		cmocka_unit_test(test_overflow_left_by_growth),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_pairs_of_an_old_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
