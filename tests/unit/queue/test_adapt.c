/* max_in_flight = auto against a simulated server with a knee: latency is flat up to so many in
 * flight and grows in proportion beyond. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

#include "queue/adapt.h"

struct server {
	unsigned knee;
	uint64_t latency_ns;
	unsigned noise_percent;
	uint64_t random;
};

/* Offers as many as the bound lets in, but no more than `demand`, for so many seconds. Time is
 * moved on by what a server of that throughput needs for one. */
static double run_server(struct adapt *adapt, struct server *server, unsigned demand,
	uint64_t *now_ns, unsigned seconds)
{
	uint64_t end = *now_ns + seconds * SEC;
	double sum = 0;
	unsigned n = 0;

	while (*now_ns < end) {
		uint32_t limit = adapt_limit(adapt);
		uint32_t in_flight = limit < demand ? limit : demand;
		double over = in_flight > server->knee ? (double)in_flight / server->knee : 1;
		double noise = (double)(random_next(&server->random) >> 40) / (1 << 24) * 2 - 1;
		double latency = (double)server->latency_ns * over *
				 (1 + noise * server->noise_percent / 100);
		*now_ns += (uint64_t)(latency / in_flight);
		adapt_sample(adapt, (uint64_t)latency, false, in_flight, *now_ns);
		sum += limit;
		n++;
	}
	return sum / n;
}

static void the_knee_is_found_from_both_sides(void **state)
{
	const unsigned knees[] = {8, 32, 200};
	const unsigned starts[] = {4, 1000};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned n = 0; n < 2; n++) {
			struct server server = {.knee = knees[i],
				.latency_ns = 20 * MS,
				.noise_percent = 30,
				.random = 7};
			struct adapt adapt;
			uint64_t now = SEC;
			double mean;

			adapt_init(&adapt, starts[n], 4, 1000);
			run_server(&adapt, &server, 10000, &now, 200);
			mean = run_server(&adapt, &server, 10000, &now, 120);
			printf("# knee %u from %u: limit %.0f\n", knees[i], starts[n], mean);
			assert_true(mean >= knees[i]);
			assert_true(mean <= knees[i] * 2.5);
		}
	}
}

static void it_follows_a_server_that_changes(void **state)
{
	struct server server = {
		.knee = 100, .latency_ns = 10 * MS, .noise_percent = 20, .random = 3};
	struct adapt adapt;
	uint64_t now = SEC;
	double before, after;

	(void)state;
	adapt_init(&adapt, 10, 4, 1000);
	run_server(&adapt, &server, 10000, &now, 100);
	before = run_server(&adapt, &server, 10000, &now, 60);
	server.knee = 20;
	server.latency_ns = 30 * MS; /* slower as well, which is no overload */
	run_server(&adapt, &server, 10000, &now, 200);
	after = run_server(&adapt, &server, 10000, &now, 60);
	printf("# knee 100, then 20 and thrice as slow: limit %.0f, then %.0f\n", before, after);
	assert_in_range((unsigned)before, 100, 250);
	assert_in_range((unsigned)after, 20, 50);
}

static void what_is_not_used_is_not_raised(void **state)
{
	struct server server = {.knee = 500, .latency_ns = 10 * MS, .random = 5};
	struct adapt adapt;
	uint64_t now = SEC;

	(void)state;
	adapt_init(&adapt, 50, 4, 1000);
	run_server(&adapt, &server, 10, &now, 300);
	assert_true(adapt_limit(&adapt) <= 50);
	assert_true(adapt_limit(&adapt) >= 10);
}

static void failures_back_off_within_the_bounds(void **state)
{
	struct adapt adapt;
	uint64_t now = SEC;

	(void)state;
	adapt_init(&adapt, 100, 7, 1000);
	for (unsigned i = 0; i < 20000; i++) {
		now += MS;
		adapt_sample(&adapt, MS, i % 4 == 0, adapt_limit(&adapt), now);
	}
	assert_int_equal(adapt_limit(&adapt), 7);
	/* min above max, start outside: clamped */
	adapt_init(&adapt, 5000, 20, 10);
	assert_int_equal(adapt_limit(&adapt), 20);
}

static void the_run_queue_applies_it(void **state)
{
	struct world world;
	struct run_queue_counts counts;
	struct job job[4], *next;

	(void)state;
	world_open_with(&world, QUEUE_NONE, NULL,
		&(struct run_queue_config){.adaptive = true,
			.max_in_flight = 8,
			.adaptive_min = 2,
			.adaptive_max = 3});
	run_queue_count(world.upstream, &counts);
	assert_int_equal(counts.max_in_flight, 3);
	for (unsigned i = 0; i < 4; i++) {
		job_init(&job[i], i, i, 'r');
		assert_int_equal(world_enter(&world, &job[i]), i < 3 ? QUEUE_GO : QUEUE_WAIT);
	}
	/* failures bring it down to 2 */
	next = &job[0];
	for (unsigned i = 0; i < 2000; i++) {
		world.now_ns += MS;
		next->ticket.failed = true;
		world_done(&world, next);
		if (world.mail == NULL)
			break;
		struct job *again = next;
		next = world_next(&world);
		job_init(again, again->client, i, 'r');
		world_enter(&world, again);
	}
	run_queue_count(world.upstream, &counts);
	assert_int_equal(counts.max_in_flight, 2);
	assert_int_equal(counts.in_flight, 2);
	queue_close_all(world.queue, SESSION_ABORTED, world.now_ns);
	while ((next = world_next(&world)) != NULL)
		queue_done(world.queue, &next->ticket, world.now_ns);
	world_close(&world);
}

/* Short ones that say nothing would show a latency that no request can have, and long ones one that
 * all have. */
static void what_shows_nothing_is_not_learnt(void **state)
{
	struct world world;
	struct run_queue_counts counts;
	struct job job;

	(void)state;
	world_open_with(&world, QUEUE_NONE, NULL,
		&(struct run_queue_config){.adaptive = true,
			.max_in_flight = 40,
			.adaptive_min = 2,
			.adaptive_max = 100});
	for (unsigned i = 0; i < 5000; i++) {
		job_init(&job, i, i, 'r');
		assert_int_equal(world_enter(&world, &job), QUEUE_GO);
		world.now_ns += i % 2 ? MS : 500 * MS;
		world_done(&world, &job);
	}
	run_queue_count(world.upstream, &counts);
	assert_int_equal(counts.max_in_flight, 40);
	world_close(&world);
}

UNIT_SUITE(test_adapt)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_knee_is_found_from_both_sides),
		cmocka_unit_test(it_follows_a_server_that_changes),
		cmocka_unit_test(what_is_not_used_is_not_raised),
		cmocka_unit_test(failures_back_off_within_the_bounds),
		cmocka_unit_test(the_run_queue_applies_it),
		cmocka_unit_test(what_shows_nothing_is_not_learnt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
