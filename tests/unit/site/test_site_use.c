/* A worker's holds on sites: the current one, those of exchanges that began before, and one that
 * was posted and not taken yet. */
#include "site/site_use.h"

#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/suite.h"

#define OK1 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"

static const struct stage_conf plain = {0};

/* Another site, by the same configuration. The test's hold on it. */
static struct site *another(struct stage *stage)
{
	struct daemon *daemon = &stage->daemon;
	struct site *site = site_new(conf_hold(daemon->site->conf), daemon->site->serial + 1,
		daemon->states, daemon->node.throttles, daemon->roster, daemon->node.stats, NULL);

	assert_non_null(site);
	site_commit(site);
	return site;
}

static unsigned holders(const struct site *site)
{
	return atomic_load(&((struct site *)(uintptr_t)site)->holders);
}

static void each_use_is_one_hold(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct site *site = stage->daemon.site;
	const unsigned before = holders(site);

	(void)state;
	struct site_use *use = site_use_new(stage->worker, site);
	assert_int_equal(holders(site), before + 1);
	assert_int_equal(use->count, 1);
	assert_ptr_equal(site_use_hold(use), use);
	assert_int_equal(holders(site), before + 1); /* no atomics for these */
	assert_int_equal(use->count, 2);
	site_use_release(use);
	assert_int_equal(holders(site), before + 1);
	site_use_release(use);
	assert_int_equal(holders(site), before);
	site_use_free_unused(site_use_new(stage->worker, site));
	assert_int_equal(holders(site), before);
	site_use_free_unused(NULL);
	stage_end(stage);
}

static void exchanges_end_by_what_they_began_with(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct site *old = stage->daemon.site, *new = another(stage);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	site_use_post(stage->worker, site_use_new(stage->worker, new));
	assert_ptr_equal(
		site_part(stage->worker)->use->site, old); /* not before its thread takes it */
	stage_turn(stage);
	assert_ptr_equal(site_part(stage->worker)->use->site, new);
	assert_ptr_equal(x->use->site, old);
	assert_int_equal(holders(old), 2); /* the test's, and the exchange's */
	flight_answer(stage, x, OK1);
	assert_int_equal(holders(old), 1);
	stage->daemon.site = new;
	site_release(old);
	stage_end(stage);
}

/* Of two that were posted in one turn the worker takes the last. */
static void one_that_was_not_taken_is_freed(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct site *first = another(stage), *second = another(stage);

	(void)state;
	site_use_post(stage->worker, site_use_new(stage->worker, first));
	assert_int_equal(holders(first), 2);
	site_use_post(stage->worker, site_use_new(stage->worker, second));
	assert_int_equal(holders(first), 1);
	stage_turn(stage);
	assert_ptr_equal(site_part(stage->worker)->use->site, second);
	/* And one that is posted when the worker ends. */
	site_use_post(stage->worker, site_use_new(stage->worker, first));
	assert_int_equal(holders(first), 2);
	site_release(stage->daemon.site);
	stage->daemon.site = second;
	site_release(first);
	stage_end(stage); /* no site holds its upstreams any more, or the states' end fails */
}

static unsigned opened(struct stage *stage)
{
	flight_answer(stage, flight_begin(stage, GET), OK1);
	return flight_idle(stage);
}

/* Servers that the current site has, too, keep their connections. */
static void idle_connections_outlive_a_site(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct site *old = stage->daemon.site, *new = another(stage);

	(void)state;
	assert_int_equal(opened(stage), 1);
	site_use_post(stage->worker, site_use_new(stage->worker, new));
	stage_turn(stage);
	stage->daemon.site = new;
	site_release(old);
	assert_int_equal(flight_idle(stage), 1);
	stage_end(stage);
}

static void those_of_servers_that_are_gone_are_closed(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct conf_errors errors;
	static const char text[] = "[sluice]\nworkers = 1\n[listener l]\nbind = 127.0.0.1:1\n"
				   "[upstream u]\nserver = 127.0.0.1:9\n[route r]\nupstream = u\n";

	(void)state;
	assert_int_equal(opened(stage), 1);
	struct server_state *gone = server_state_hold(flight_server(stage));
	struct daemon *daemon = &stage->daemon;
	struct conf *conf = conf_parse(text, strlen(text), "t", NULL, &errors);
	conf_errors_free(&errors);
	struct site *old = daemon->site;
	struct site *new = site_new(conf, 2, daemon->states, daemon->node.throttles, daemon->roster,
		daemon->node.stats, NULL);
	site_commit(new);
	site_use_post(stage->worker, site_use_new(stage->worker, new));
	assert_int_equal(gone->connections, 1);
	stage_turn(stage);
	assert_int_equal(gone->connections, 0);
	assert_int_equal(pool_count(gone, stage->worker), 0);
	daemon->site = new;
	site_release(old);
	server_state_release(gone);
	stage->listener.conf = &new->conf->listeners[0];
	stage_end(stage);
}

UNIT_SUITE(test_site_use)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_use_is_one_hold),
		cmocka_unit_test(exchanges_end_by_what_they_began_with),
		cmocka_unit_test(one_that_was_not_taken_is_freed),
		cmocka_unit_test(idle_connections_outlive_a_site),
		cmocka_unit_test(those_of_servers_that_are_gone_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
