/* What a worker keeps of its limits is what each limit says, whichever snapshot it is of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fleet/ladder.h"
#include "fleet/limit_facts.h"
#include "fleet/question.h"
#include "fleet/way.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define LIMITS 3

struct fixture {
	struct conf_limit limits[LIMITS];
	struct conf conf;
	struct site site;
	struct site_use use;
	struct site_part sites;
	struct worker worker;
	struct fleet_worker fleet;
};

static void fill_limit(struct conf_limit *limit, unsigned index, const char *name, uint64_t amount)
{
	*limit = (struct conf_limit){
		.name = (char *)(uintptr_t)name,
		.index = index,
		.amount = amount,
		.per_ns = 10 * UINT64_C(1000000000),
		.of_fleet = true,
		.fleet_way = CONF_FLEET_LEASE,
	};
}

static struct fixture *new_fixture(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	fill_limit(&f->limits[0], 0, "a", 10);
	fill_limit(&f->limits[1], 1, "b", 20);
	fill_limit(&f->limits[2], 2, "c", 30);
	f->conf.limits = f->limits;
	f->conf.limit_count = LIMITS - 1; /* c is of another snapshot */
	f->site.conf = &f->conf;
	f->use.site = &f->site;
	f->sites.use = &f->use;
	f->worker.memory[PART_SITE] = &f->sites;
	f->fleet.worker = &f->worker;
	limit_facts_take_site(&f->fleet.limits, &f->conf);
	return f;
}

static void free_fixture(struct fixture *f)
{
	questions_clear(&f->fleet);
	free(f);
}

static void is_described(struct fixture *f, const struct conf_limit *limit)
{
	const struct rule rule = rule_of(limit);
	const struct limit_facts *facts = limit_facts_of(&f->fleet, limit);

	assert_non_null(facts);
	assert_true(rule_is_same(&facts->rule, &rule));
	assert_string_equal(facts->name, limit->name);
	assert_ptr_equal(facts->way, way_for(limit));
	assert_int_equal(facts->down, ladder_down(&f->conf, limit));
}

static void each_limit_has_its_own(void **state)
{
	struct fixture *f = new_fixture();

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < LIMITS; i++)
			is_described(f, &f->limits[i]);
	}
	free_fixture(f);
}

static void it_is_worked_out_once(void **state)
{
	struct fixture *f = new_fixture();
	const struct limit_facts *facts = limit_facts_of(&f->fleet, &f->limits[1]);

	(void)state;
	assert_ptr_equal(limit_facts_of(&f->fleet, &f->limits[1]), facts);
	assert_ptr_equal(facts, &f->fleet.limits.all[1]);
	free_fixture(f);
}

/* The next snapshot's limits may lie where the last one's did. */
static void a_site_begins_anew(void **state)
{
	struct fixture *f = new_fixture();

	(void)state;
	for (unsigned i = 0; i < LIMITS; i++)
		is_described(f, &f->limits[i]);
	for (unsigned i = 0; i < LIMITS; i++) {
		f->limits[i].amount += 1000;
		f->limits[i].fleet_way = CONF_FLEET_EXACT;
	}
	f->conf.fleet.store_down = CONF_STORE_DOWN_ADMIT;
	limit_facts_take_site(&f->fleet.limits, &f->conf);
	for (unsigned i = 0; i < LIMITS; i++)
		is_described(f, &f->limits[i]);
	free_fixture(f);
}

/* One that is in no place of the snapshot in force is not mistaken for one that is. */
static void another_snapshots_limit_has_its_own(void **state)
{
	struct fixture *f = new_fixture();
	struct conf_limit older;

	(void)state;
	fill_limit(&older, 1, "older", 77);
	is_described(f, &f->limits[1]);
	is_described(f, &older);
	is_described(f, &f->limits[1]);
	older.index = 50;
	is_described(f, &older);
	older.amount = 78;
	is_described(f, &older);
	free_fixture(f);
}

static void a_name_is_that_of_the_site_in_force(void **state)
{
	struct fixture *f = new_fixture();
	unsigned sites = f->fleet.limits.sites;

	(void)state;
	assert_ptr_equal(limit_facts_named(&f->fleet, "b")->limit, &f->limits[1]);
	assert_null(limit_facts_named(&f->fleet, "c"));
	f->limits[0].of_fleet = false;
	assert_null(limit_facts_named(&f->fleet, "a"));
	f->conf.limit_count = LIMITS;
	limit_facts_take_site(&f->fleet.limits, &f->conf);
	assert_int_equal(f->fleet.limits.sites, sites + 1);
	assert_ptr_equal(limit_facts_named(&f->fleet, "c")->limit, &f->limits[2]);
	free_fixture(f);
}

UNIT_SUITE(test_limit_facts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_limit_has_its_own),
		cmocka_unit_test(it_is_worked_out_once),
		cmocka_unit_test(a_site_begins_anew),
		cmocka_unit_test(another_snapshots_limit_has_its_own),
		cmocka_unit_test(a_name_is_that_of_the_site_in_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
