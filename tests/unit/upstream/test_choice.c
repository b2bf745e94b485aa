/* An upstream of a site: its bounds, and which of its servers is asked next. */
#include "upstream/upstream.h"

#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define THREE                                                                                      \
	"[upstream v]\nserver = 127.0.0.1:3 weight=3\nserver = 127.0.0.1:4\nserver = "             \
	"127.0.0.1:5\n"

/* Of those that may serve now and are not in the mask `tried`. */
static struct server *pick(
	struct upstream *upstream, unsigned worker, uint64_t tried, uint64_t hash, uint64_t now_ms)
{
	uint64_t serving = upstream_serving(upstream, tried, now_ms);

	return upstream_pick(upstream, worker, serving, hash, now_ms);
}

static struct upstream *second_of(struct stage *stage)
{
	return stage->daemon.site->upstreams[1];
}

/* How many of so many requests each server gets, all of which stay there if `keep`. */
static void count_picks(struct upstream *upstream, unsigned requests, unsigned counts[3], bool keep)
{
	memset(counts, 0, 3 * sizeof(counts[0]));
	for (unsigned i = 0; i < requests; i++) {
		struct server *server = pick(upstream, 0, 0, 0, STAGE_START_MS);
		assert_non_null(server);
		counts[server->index]++;
		if (!keep)
			server_done(server);
	}
}

static void release(struct upstream *upstream, const unsigned counts[3])
{
	for (unsigned i = 0; i < 3; i++)
		for (unsigned n = 0; n < counts[i]; n++)
			server_done(&upstream->servers[i]);
}

static void by_turn_each_gets_its_weight(void **state)
{
	const struct stage_conf conf = {.more = THREE};
	struct stage *stage = stage_begin(&conf);
	struct upstream *upstream = second_of(stage);
	unsigned counts[3];

	(void)state;
	count_picks(upstream, 50, counts, false);
	assert_int_equal(counts[0], 30);
	assert_int_equal(counts[1], 10);
	assert_int_equal(counts[2], 10);
	assert_int_equal(server_weight(&upstream->servers[0]), 3);
	server_set_weight(&upstream->servers[0], 8);
	assert_int_equal(server_weight(&upstream->servers[0]), 8);
	count_picks(upstream, 50, counts, false);
	assert_in_range(counts[0], 39, 41);
	server_set_weight(&upstream->servers[0], 0); /* the file's */
	assert_int_equal(server_weight(&upstream->servers[0]), 3);
	stage_end(stage);
}

static void by_load_those_with_less_for_their_weight(void **state)
{
	const struct stage_conf conf = {.more = THREE "balance = least_in_flight\n"};
	struct stage *stage = stage_begin(&conf);
	struct upstream *upstream = second_of(stage);
	unsigned counts[3];

	(void)state;
	count_picks(upstream, 50, counts, true);
	assert_int_equal(counts[0], 30);
	assert_int_equal(counts[1], 10);
	assert_int_equal(counts[2], 10);
	/* Streams count as well. */
	release(upstream, counts);
	atomic_store(&upstream->servers[1].state->streams, 10);
	count_picks(upstream, 40, counts, true);
	assert_int_equal(counts[1], 0);
	atomic_store(&upstream->servers[1].state->streams, 0);
	release(upstream, counts);
	stage_end(stage);
}

/* Without a server only its own callers move, and each has the same one always. */
static void by_hash_each_caller_has_its_own(void **state)
{
	const struct stage_conf conf = {.more = THREE "balance = hash\nhash_key = ip\n"};
	struct stage *stage = stage_begin(&conf);
	struct random random = random_begin("callers");
	struct upstream *upstream = second_of(stage);
	unsigned counts[3] = {0};

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t hash = random_next(&random), now_ms = STAGE_START_MS + i;
		struct server *server = pick(upstream, 0, 0, hash, now_ms);
		counts[server->index]++;
		for (unsigned n = 0; n < 3; n++) {
			struct server *again = pick(upstream, 0, 1u << n, hash, now_ms + n);
			if (n != server->index)
				assert_ptr_equal(again, server);
			else
				assert_ptr_not_equal(again, server);
			server_done(again);
		}
		server_done(server);
	}
	assert_in_range(counts[0], 1600, 2000); /* three of five, with room for chance */
	assert_in_range(counts[1], 450, 750);
	stage_end(stage);
}

static void which_may_be_asked(void **state)
{
	const struct stage_conf conf = {
		.more = "[upstream v]\nserver = 127.0.0.1:3 max_in_flight=2\n"
			"server = 127.0.0.1:4\nmax_fails = 1\n"};
	struct stage *stage = stage_begin(&conf);
	struct upstream *upstream = second_of(stage);
	struct server *a = &upstream->servers[0], *b = &upstream->servers[1];
	const uint64_t now_ms = STAGE_START_MS;

	(void)state;
	assert_null(pick(upstream, 0, 3, 0, now_ms));
	assert_ptr_equal(pick(upstream, 0, 1, 0, now_ms), b);
	assert_ptr_equal(pick(upstream, 0, 2, 0, now_ms), a);
	assert_true(server_take_place(a));
	assert_false(server_take_place(a)); /* it has two */
	assert_null(pick(upstream, 0, 2, 0, now_ms));
	assert_false(upstream_has_another(upstream, 2, now_ms));
	server_done(a);
	assert_true(upstream_has_another(upstream, 2, now_ms));
	assert_ptr_equal(pick(upstream, 0, 2, 0, now_ms), a);
	server_done(a);
	server_done(a);
	server_done(b);
	/* One that is left out is asked only when all are. */
	server_failed(b, "test", now_ms);
	assert_false(server_may_serve(b, now_ms));
	for (unsigned i = 0; i < 2; i++)
		assert_ptr_equal(pick(upstream, 0, 0, 0, now_ms), a);
	/* a is full: no reason to ask one that is left out */
	assert_null(pick(upstream, 0, 0, 0, now_ms));
	assert_int_equal(upstream_serving(upstream, 0, now_ms), 1);
	assert_ptr_equal(pick(upstream, 0, 1, 0, now_ms), b);
	assert_false(upstream_has_another(upstream, 1, now_ms));
	server_succeeded(b);
	assert_true(upstream_has_another(upstream, 1, now_ms));
	assert_false(upstream_has_another(upstream, 3, now_ms));
	server_done(a);
	server_done(a);
	server_done(b);
	struct server *alone = &stage->daemon.site->upstreams[0]->servers[0];
	for (unsigned i = 0; i < 10; i++)
		server_failed(alone, "test", now_ms);
	assert_true(server_may_serve(alone, now_ms)); /* there is no other */
	server_succeeded(alone);
	/* An operator's word holds whatever else. */
	for (enum server_mode mode = SERVER_DRAINING; mode <= SERVER_DISABLED; mode++) {
		server_set_mode(a, mode);
		assert_ptr_equal(pick(upstream, 0, 0, 0, now_ms), b);
		server_done(b);
		assert_null(pick(upstream, 0, 2, 0, now_ms));
		assert_true(server_take_place(a)); /* for sessions that are bound to it */
		server_done(a);
		assert_false(upstream_has_enabled(upstream, 1));
		assert_true(upstream_has_enabled(upstream, 3));
		assert_int_equal(server_mode(a), mode);
	}
	server_set_mode(a, SERVER_ENABLED);
	assert_true(upstream_has_enabled(upstream, 1));
	stage_end(stage);
}

static void what_modes_are_called(void **state)
{
	(void)state;
	assert_string_equal(server_mode_name(SERVER_ENABLED), "enabled");
	assert_string_equal(server_mode_name(SERVER_DRAINING), "draining");
	assert_string_equal(server_mode_name(SERVER_DISABLED), "disabled");
}

/* What the servers take bounds what the upstream takes. */
static void the_bounds_of_an_upstream(void **state)
{
	static const struct {
		const char *lines;
		uint32_t max, least, most;
		bool adaptive;
	} rows[] = {
		{"server = 127.0.0.1:4", 0, 0, 0, false},
		{"server = 127.0.0.1:4 max_in_flight=3\nserver = 127.0.0.1:5 max_connections=4", 7,
			0, 0, false},
		{"server = 127.0.0.1:4 max_in_flight=3 max_connections=2", 2, 0, 0, false},
		{"server = 127.0.0.1:4 max_in_flight=3\nserver = 127.0.0.1:5", 0, 0, 0, false},
		{"server = 127.0.0.1:4 max_in_flight=3\nmax_in_flight = 2", 2, 0, 0, false},
		{"server = 127.0.0.1:4 max_in_flight=3\nmax_in_flight = 9", 3, 0, 0, false},
		{"server = 127.0.0.1:4\nmax_in_flight = auto\nmax_in_flight_floor = 4\n"
		 "max_in_flight_ceiling = 40",
			4, 4, 40, true},
		{"server = 127.0.0.1:4 max_in_flight=5\nmax_in_flight = auto\n"
		 "max_in_flight_floor = 9\nmax_in_flight_ceiling = 40",
			5, 5, 5, true},
		{"server = 127.0.0.1:4 max_in_flight=5\nserver = 127.0.0.1:5 max_in_flight=5\n"
		 "max_in_flight = 8",
			8, 0, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char more[512];
		const struct stage_conf conf = {.more = more};
		snprintf(more, sizeof(more), "[upstream v]\n%s\n", rows[i].lines);
		struct stage *stage = stage_begin(&conf);
		const struct run_queue_config *bounds = &second_of(stage)->bounds;
		struct run_queue_counts counts;
		run_queue_count(second_of(stage)->state->run_queue, &counts);
		assert_int_equal(counts.max_in_flight, rows[i].max);
		assert_int_equal(bounds->adaptive, rows[i].adaptive);
		assert_int_equal(bounds->adaptive_min, rows[i].least);
		assert_int_equal(bounds->adaptive_max, rows[i].most);
		assert_null(bounds->pace);
		stage_end(stage);
	}
}

/* A site that was never committed changes nothing for others. */
static void one_that_is_not_committed(void **state)
{
	const struct stage_conf conf = {
		.more = "[upstream v]\nserver = 127.0.0.1:4 max_connections=5\npace = 5 per 1s\n"};
	struct stage *stage = stage_begin(&conf);
	struct upstream *first = second_of(stage);
	struct conf_upstream description = *first->conf;
	struct conf_server server = description.servers[0];

	(void)state;
	assert_non_null(first->bounds.pace);
	assert_non_null(first->state->pace);
	server.max_connections = 9;
	description.servers = &server;
	description.pace.amount = 7;
	struct upstream *next = upstream_new(stage->daemon.states, &description);
	assert_non_null(next);
	assert_ptr_equal(next->state, first->state); /* what is known of it continues */
	assert_ptr_equal(next->servers[0].state, first->servers[0].state);
	assert_non_null(next->pace_change);
	assert_int_equal(first->servers[0].state->max_connections, 5);
	assert_ptr_equal(upstream_server_of(next, first->servers[0].state), &next->servers[0]);
	assert_null(upstream_server_of(next, flight_server(stage)));
	upstream_free(next);
	assert_int_equal(first->servers[0].state->max_connections, 5);
	next = upstream_new(stage->daemon.states, &description);
	upstream_commit(next);
	assert_null(next->pace_change);
	assert_int_equal(first->servers[0].state->max_connections, 9);
	upstream_commit(first);
	assert_int_equal(first->servers[0].state->max_connections, 5);
	upstream_free(next);
	upstream_free(NULL);
	stage_end(stage);
}

/* The same address twice is two servers, with a state each. */
static void servers_of_one_address(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);
	struct upstream *first = stage->daemon.site->upstreams[0];
	struct conf_server servers[2] = {first->conf->servers[0], first->conf->servers[0]};
	struct conf_upstream description = *first->conf;

	(void)state;
	description.servers = servers;
	description.server_count = 2;
	struct upstream *next = upstream_new(stage->daemon.states, &description);
	assert_non_null(next);
	assert_ptr_equal(next->servers[0].state, first->servers[0].state);
	assert_ptr_not_equal(next->servers[1].state, first->servers[0].state);
	assert_int_equal(next->servers[1].state->repeat, 1);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(next->servers[i].index, i);
		assert_ptr_equal(next->servers[i].upstream, next);
	}
	upstream_free(next);
	stage_end(stage);
}

UNIT_SUITE(test_choice)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_turn_each_gets_its_weight),
		cmocka_unit_test(by_load_those_with_less_for_their_weight),
		cmocka_unit_test(by_hash_each_caller_has_its_own),
		cmocka_unit_test(which_may_be_asked),
		cmocka_unit_test(what_modes_are_called),
		cmocka_unit_test(the_bounds_of_an_upstream),
		cmocka_unit_test(one_that_is_not_committed),
		cmocka_unit_test(servers_of_one_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
