/* No descriptor is free: a worker's own idle connections to servers are closed for it, and then
 * those of the other workers. */
#include "site/spare.h"

#include "stats/stats.h"
#include "tests/unit/upstream/linked.h"
#include "tests/unit/suite.h"

static const struct stage_conf alone = {0};
static const struct stage_conf two = {.two_workers = true};

static struct linked l;
static struct spare_question question;

static void begin(const struct stage_conf *conf)
{
	linked_begin(&l, conf);
	question = (struct spare_question){0};
}

/* So many of the first worker's. */
static void keep_idle(unsigned count)
{
	struct server_connection *all[16];

	for (unsigned i = 0; i < count; i++)
		all[i] = linked_get(&l);
	for (unsigned i = 0; i < count; i++)
		server_connection_keep(all[i]);
	assert_int_equal(linked_idle(&l, 0), count);
}

static bool asks(void)
{
	return spare_ask(l.stage->workers[1], &question);
}

static void its_own_are_closed_and_counted(void **state)
{
	(void)state;
	begin(&alone);
	assert_false(spare_own(l.stage->worker));
	assert_int_equal(stage_count(l.stage, STATS_SPARED), 0);
	keep_idle(2);
	assert_true(spare_own(l.stage->worker));
	assert_true(spare_own(l.stage->worker));
	assert_false(spare_own(l.stage->worker));
	assert_int_equal(linked_open(&l), 0);
	assert_int_equal(stage_count(l.stage, STATS_SPARED), 2);
	assert_has(lines.text, "closing idle connections to servers, 1 so far\n");
	assert_lacks(lines.text, "2 so far");
	linked_end(&l);
}

/* The other server keeps its only one. */
static void the_server_with_most_loses_them(void **state)
{
	const struct stage_conf conf = {.upstream = "server = 127.0.0.1:3"};
	const struct server *servers;

	(void)state;
	begin(&conf);
	servers = l.server;
	keep_idle(3);
	l.server = &l.stage->daemon.site->upstreams[0]->servers[1];
	keep_idle(1);
	assert_true(spare_own(l.stage->worker));
	assert_true(spare_own(l.stage->worker));
	assert_int_equal(pool_count(servers[0].state, l.stage->worker), 1);
	assert_int_equal(pool_count(servers[1].state, l.stage->worker), 1);
	linked_end(&l);
}

static void nobody_else_can_be_asked(void **state)
{
	(void)state;
	begin(&alone);
	assert_false(spare_ask(l.stage->worker, &question));
	assert_int_equal(question.number, 0);
	linked_end(&l);
}

static void another_worker_gives_some(void **state)
{
	(void)state;
	begin(&two);
	keep_idle(10);
	assert_true(asks());
	assert_int_equal(question.number, 1);
	assert_true(asks()); /* no answer so far: the same question */
	assert_int_equal(question.number, 1);
	assert_int_equal(linked_idle(&l, 0), 10);
	stage_turn(l.stage);
	assert_int_equal(linked_idle(&l, 0), 2);
	assert_true(asks());
	assert_int_equal(question.number, 2);
	assert_int_equal(question.vain, 0);
	stage_turn(l.stage);
	assert_int_equal(linked_idle(&l, 0), 0);
	assert_int_equal(stage_count(l.stage, STATS_SPARED), 10);
	linked_end(&l);
}

static void three_answers_in_vain_end_it(void **state)
{
	(void)state;
	begin(&two);
	keep_idle(1);
	assert_true(asks()); /* one is closed for it, which another may have taken */
	stage_turn(l.stage);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(asks());
		assert_int_equal(question.vain, i);
		stage_turn(l.stage);
	}
	assert_false(asks());
	assert_int_equal(question.number, 0);
	assert_int_equal(question.vain, 0);
	assert_true(asks()); /* from the beginning */
	linked_end(&l);
}

static void a_worker_that_ends_has_answered(void **state)
{
	(void)state;
	begin(&two);
	assert_true(asks());
	spare_end(l.stage->worker);
	assert_true(asks());
	assert_int_equal(question.number, 2);
	assert_true(asks());
	assert_int_equal(question.number, 3);
	assert_false(asks());
	linked_end(&l);
}

UNIT_SUITE(test_spare)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_own_are_closed_and_counted),
		cmocka_unit_test(the_server_with_most_loses_them),
		cmocka_unit_test(nobody_else_can_be_asked),
		cmocka_unit_test(another_worker_gives_some),
		cmocka_unit_test(three_answers_in_vain_end_it),
		cmocka_unit_test(a_worker_that_ends_has_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
