/* Fairness and starvation in time: a server with so many places and one latency, clients that crowd
 * it, and tables of who waits how long.
 *
 * First come first served is the same queue with every request in one session without order, as
 * then nothing but the order of arrival is left. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

#define LATENCY_NS (10 * MS)

struct crowd {
	unsigned clients, each; /* who crowd, and what each of them has waiting */
	unsigned singles;       /* clients who come later with one request */
	unsigned places;
};

struct waits {
	double mean_ms, worst_ms, crowd_ms;
};

/* The job in flight that is complete first. */
static unsigned first_due(struct job **in_flight, unsigned count)
{
	unsigned first = 0;

	for (unsigned i = 1; i < count; i++) {
		if (in_flight[i]->due_ns < in_flight[first]->due_ns)
			first = i;
	}
	return first;
}

static void simulate(const struct crowd *crowd, bool in_turns, struct waits *waits)
{
	unsigned crowding = crowd->clients * crowd->each, jobs = crowding + crowd->singles;
	struct job *job = test_calloc(jobs, sizeof(*job)), *next;
	struct job **in_flight = test_calloc(crowd->places, sizeof(*in_flight));
	unsigned count = 0, entered = 0;
	struct world world;
	double sum = 0, crowd_sum = 0;

	memset(waits, 0, sizeof(*waits));
	world_open_with(&world, in_turns ? QUEUE_WRITES : QUEUE_NONE, NULL,
		&(struct run_queue_config){.max_in_flight = crowd->places});
	while (entered < jobs || count > 0) {
		uint64_t until = world.now_ns + MS;
		/* the crowd comes at once, a single each 7 ms from 100 ms on */
		for (; entered < jobs; entered++) {
			bool single = entered >= crowding;
			if (single &&
				world.now_ns <
					SEC + 100 * MS + (uint64_t)(entered - crowding) * 7 * MS)
				break;
			job_init(&job[entered],
				!in_turns ? 0
				: single  ? 1000 + entered
					  : entered % crowd->clients,
				entered, 'r');
			if (world_enter(&world, &job[entered]) == QUEUE_GO) {
				job[entered].due_ns = world.now_ns + LATENCY_NS;
				in_flight[count++] = &job[entered];
			}
		}
		while (count > 0) {
			unsigned first = first_due(in_flight, count);
			if (in_flight[first]->due_ns > until)
				break;
			next = in_flight[first];
			in_flight[first] = in_flight[--count];
			world.now_ns = next->due_ns;
			world_done(&world, next);
			while ((next = world_next(&world)) != NULL) {
				next->due_ns = world.now_ns + LATENCY_NS;
				in_flight[count++] = next;
				assert_true(count <= crowd->places);
			}
		}
		world.now_ns = until;
	}
	for (unsigned i = 0; i < jobs; i++) {
		double ms = (double)(job[i].ticket.started_ns - job[i].ticket.entered_ns) / MS;
		if (i < crowding) {
			crowd_sum += ms;
			continue;
		}
		sum += ms;
		waits->worst_ms = ms > waits->worst_ms ? ms : waits->worst_ms;
	}
	waits->mean_ms = sum / crowd->singles;
	waits->crowd_ms = crowd_sum / crowding;
	world_close(&world);
	test_free(in_flight);
	test_free(job);
}

static void singles_do_not_wait_for_a_crowd(void **state)
{
	const struct crowd crowds[] = {
		{1, 10000, 50, 1}, {1, 10000, 50, 8}, {20, 500, 50, 8}, {200, 50, 50, 32}};

	(void)state;
	printf("# wait for a place, 10 ms an exchange       in turns            "
	       "first come first served\n");
	printf("# crowd x each, singles, places    mean  worst  crowd      mean   worst   crowd "
	       "ms\n");
	for (unsigned i = 0; i < sizeof(crowds) / sizeof(*crowds); i++) {
		const struct crowd *crowd = &crowds[i];
		struct waits turns, arrival;

		simulate(crowd, true, &turns);
		simulate(crowd, false, &arrival);
		printf("# %5u x %5u, %5u, %5u    %6.1f %6.1f %6.0f    %6.0f  %6.0f  %6.0f\n",
			crowd->clients, crowd->each, crowd->singles, crowd->places, turns.mean_ms,
			turns.worst_ms, turns.crowd_ms, arrival.mean_ms, arrival.worst_ms,
			arrival.crowd_ms);
		/* the exchange in flight, one of the crowd, and the few singles that come faster
		 * than one place serves; what they gain the crowd hardly feels */
		if (crowd->places > 1)
			assert_true(turns.worst_ms <= 3 * LATENCY_NS / (double)MS);
		assert_true(turns.worst_ms * 4 < arrival.mean_ms);
		assert_true(turns.crowd_ms < arrival.crowd_ms * 1.1);
	}
}

/* 10,000 of one client are there; 50 clients come with one each, all at the same moment: how many
 * exchanges of the crowd go before each of them. */
static void fifty_against_ten_thousand(void **state)
{
	enum { CROWD = 10000, SINGLES = 50 };
	struct job *job = test_calloc(CROWD + SINGLES, sizeof(*job)), *next = &job[0];
	struct world world;
	unsigned position = 0, worst = 0, seen = 0;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, NULL, &(struct run_queue_config){.max_in_flight = 1});
	for (unsigned i = 0; i < CROWD + SINGLES; i++) {
		job_init(&job[i], i < CROWD ? 0 : i, i, 'w');
		assert_int_equal(world_enter(&world, &job[i]), i == 0 ? QUEUE_GO : QUEUE_WAIT);
	}
	while (next != NULL) {
		if (next->client == 0) {
			position++;
		} else {
			seen++;
			worst = position > worst ? position : worst;
		}
		world_done(&world, next);
		next = world_next(&world);
	}
	assert_int_equal(seen, SINGLES);
	printf("# 50 against 10000: at most %u of the crowd before each; first come first served "
	       "%u\n",
		worst, CROWD);
	/* the one in flight, and one after each quantum of newcomers */
	assert_true(worst <= 1 + SINGLES / 10);
	world_close(&world);
	test_free(job);
}

/* One strict session, high and normal both always waiting: what share the normal lane has. */
static void the_normal_lane_has_its_share(void **state)
{
	const unsigned bursts[] = {1, 2, 5, 10, 100};

	(void)state;
	printf("# high_burst   normal exchanges of 1111, longest run of high ones\n");
	for (unsigned i = 0; i < sizeof(bursts) / sizeof(*bursts); i++) {
		enum { JOBS = 2222 };
		struct job *job = test_calloc(JOBS, sizeof(*job)), *next = &job[0];
		unsigned normal = 0, run = 0, longest = 0;
		struct world world;

		world_open(&world, QUEUE_STRICT);
		world.policy.high_burst = bursts[i];
		for (unsigned n = 0; n < JOBS; n++) {
			job_init(&job[n], 1, n, n % 2 == 0 ? 'R' : 'r');
			world_enter(&world, &job[n]);
		}
		for (unsigned n = 0; n < JOBS; n++) {
			world_done(&world, next);
			next = world_next(&world);
			if (next == NULL)
				break;
			if (n >= JOBS / 2)
				continue;
			run = next->ticket.lane == QUEUE_LANE_HIGH ? run + 1 : 0;
			normal += run == 0;
			longest = run > longest ? run : longest;
		}
		printf("# %10u   %6u   %6u\n", bursts[i], normal, longest);
		assert_int_equal(longest, bursts[i]);
		assert_in_range(normal, 1111 / (bursts[i] + 1) - 1, 1111 / (bursts[i] + 1) + 1);
		world_close(&world);
		test_free(job);
	}
}

UNIT_SUITE(test_fairness)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fifty_against_ten_thousand),
		cmocka_unit_test(singles_do_not_wait_for_a_crowd),
		cmocka_unit_test(the_normal_lane_has_its_share),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
