/* What the servers in service take at once, by a random history against a plain oracle; and that
 * the run queue knows it after each change. */
#include "upstream/capacity.h"

#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/exchange/fakes/lines.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"
#include "upstream/upstream.h"

#define SERVERS 4
#define STEPS   20000

static const struct stage_conf bounded = {
	.more = "[upstream v]\nserver = 127.0.0.1:3 max_in_flight=2\n"
		"server = 127.0.0.1:4 max_in_flight=3 max_connections=9\n"
		"server = 127.0.0.1:5 max_in_flight=9 max_connections=4\n"
		"server = 127.0.0.1:6 max_connections=5\n"
		"max_fails = 1\nfail_timeout = 100ms\nfail_timeout_max = 400ms\n"};
static const uint32_t bounds[SERVERS] = {2, 3, 4, 5};

struct model {
	bool enabled[SERVERS], unhealthy[SERVERS];
	uint64_t out_until_ms[SERVERS];
	uint32_t in_flight[SERVERS];
};

static bool is_out(const struct model *model, unsigned i, uint64_t now_ms)
{
	return model->unhealthy[i] || model->out_until_ms[i] > now_ms;
}

static uint32_t expected(const struct model *model, uint64_t now_ms)
{
	unsigned enabled = 0, in = 0;
	uint32_t sum = 0;

	for (unsigned i = 0; i < SERVERS; i++) {
		enabled += model->enabled[i];
		in += model->enabled[i] && !is_out(model, i, now_ms);
	}
	if (enabled == 0)
		return UINT32_MAX;
	for (unsigned i = 0; i < SERVERS; i++) {
		bool serves = model->enabled[i] && (in == 0 || !is_out(model, i, now_ms));
		sum += serves ? bounds[i] : model->in_flight[i];
	}
	return sum;
}

static void change_one(struct random *random, struct server *server, struct model *model,
	unsigned i, uint64_t now_ms)
{
	switch (random_below(random, 6)) {
	case 0:
		model->enabled[i] = random_below(random, 3) > 0;
		server_set_mode(server, model->enabled[i] ? SERVER_ENABLED : SERVER_DRAINING);
		break;
	case 1:
		model->unhealthy[i] = random_below(random, 2);
		server_set_unhealthy(server->state, model->unhealthy[i]);
		break;
	case 2:
		server_failed(server, "test", now_ms);
		model->out_until_ms[i] = server->state->out_until_ms;
		break;
	case 3:
		server_succeeded(server);
		model->out_until_ms[i] = 0;
		break;
	case 4:
		model->in_flight[i] += server_take_place(server);
		break;
	default:
		if (model->in_flight[i] == 0)
			break;
		model->in_flight[i]--;
		server_done(server);
		break;
	}
}

static void it_follows_the_servers_in_service(void **state)
{
	struct stage *stage = stage_begin(&bounded);
	struct random random = random_begin("changes");
	struct upstream *upstream = stage->daemon.site->upstreams[1];
	struct model model = {0};
	struct run_queue_counts counts;
	uint64_t now_ms = STAGE_START_MS;

	(void)state;
	for (unsigned i = 0; i < SERVERS; i++)
		model.enabled[i] = true;
	for (unsigned step = 0; step < STEPS; step++) {
		lines_clear();
		uint64_t until_ns = UINT64_MAX;
		unsigned i = (unsigned)random_below(&random, SERVERS);
		now_ms += random_below(&random, 30);
		change_one(&random, &upstream->servers[i], &model, i, now_ms);
		uint32_t want = expected(&model, now_ms);
		assert_int_equal(
			capacity_read(upstream->state, now_ms * CLOCK_NS_PER_MS, &until_ns), want);
		/* Until then it does not change by itself. */
		if (until_ns != UINT64_MAX)
			assert_true(until_ns > now_ms * CLOCK_NS_PER_MS);
		for (uint64_t ms = now_ms; ms < now_ms + 500 && ms * CLOCK_NS_PER_MS < until_ns;
			ms += 7)
			assert_int_equal(expected(&model, ms), want);
		/* The run queue asks by the clock of the system. */
		run_queue_refresh(upstream->state->run_queue, now_ms * CLOCK_NS_PER_MS);
		run_queue_count(upstream->state->run_queue, &counts);
		assert_int_equal(counts.max_in_flight, want == UINT32_MAX ? 0 : want);
	}
	for (unsigned i = 0; i < SERVERS; i++)
		for (; model.in_flight[i] > 0; model.in_flight[i]--)
			server_done(&upstream->servers[i]);
	stage_end(stage);
}

/* Each change is known to the run queue when the call returns. */
static void the_run_queue_learns_of_each_change(void **state)
{
	struct stage *stage = stage_begin(&bounded);
	struct upstream *upstream = stage->daemon.site->upstreams[1];
	struct server *first = &upstream->servers[0], *second = &upstream->servers[1];
	struct run_queue_counts counts;

#define ASSERT_CAPACITY(n)                                                                         \
	run_queue_count(upstream->state->run_queue, &counts);                                      \
	assert_int_equal(counts.max_in_flight, n)
	(void)state;
	ASSERT_CAPACITY(14);
	server_set_mode(first, SERVER_DISABLED);
	ASSERT_CAPACITY(12);
	assert_true(server_take_place(first)); /* of a session that is bound to it */
	ASSERT_CAPACITY(13);
	server_done(first);
	ASSERT_CAPACITY(12);
	server_set_unhealthy(second->state, true);
	ASSERT_CAPACITY(9);
	server_set_unhealthy(second->state, false);
	ASSERT_CAPACITY(12);
	server_failed(second, "test", clock_monotonic_ms() + 60000);
	ASSERT_CAPACITY(9);
	server_succeeded(second);
	ASSERT_CAPACITY(12);
	server_set_mode(first, SERVER_ENABLED);
	ASSERT_CAPACITY(14);
	stage_end(stage);
}

UNIT_SUITE(test_capacity)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_follows_the_servers_in_service),
		cmocka_unit_test(the_run_queue_learns_of_each_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
