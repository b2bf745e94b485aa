/* Can everything that was let in end? Exchanges on connections of several clients wait for each
 * other in two ways: by the queue (order, lanes, places) and by their connection, which sends
 * answers in the order of the requests.
 *
 *   schedule(seed): connections, sessions, lanes, ordering, bounds; then steps at random:
 *     enter | deliver a message | complete, if all before it on its connection are | leave |
 *     delayed: give the place back, and want one again
 *
 * An owner keeps the rule of exchange/exchange.c: behind one of another session or lane it does not
 * enter the queue yet, behind one of the same it enters unready. When no more comes, deliveries and
 * completions alone must end all. The control takes a place at once instead, and must get stuck.
 *
 * A failure prints the seed; QUEUE_SEED=n QUEUE_SCHEDULES=1 repeats it. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

#define CONNECTIONS 4
#define TICKETS     40

enum phase { HELD, QUEUED, ASIDE, IN_FLIGHT, DELAYED, OVER };

struct exchange {
	struct job job; /* first */
	unsigned connection;
	enum phase phase;
	bool is_delayed; /* by its limit, once, when its turn comes */
};

struct schedule {
	struct world world;
	struct exchange exchange[TICKETS];
	unsigned entered, connections, sessions, delay_chance, leave_chance;
	bool places_early; /* the control */
	uint64_t seed, random;
};

static unsigned pick(struct schedule *schedule, unsigned below)
{
	return (unsigned)((random_next(&schedule->random) >> 33) % below);
}

/* How those before it on its connection stand: 0 all over, 1 all in the queue, in the same session
 * and lane, 2 not. */
static unsigned before(const struct schedule *schedule, const struct exchange *exchange)
{
	unsigned found = 0;

	for (const struct exchange *other = schedule->exchange; other != exchange; other++) {
		if (other->connection != exchange->connection || other->phase == OVER)
			continue;
		if (other->phase == HELD || other->job.client != exchange->job.client ||
			other->job.ticket.lane != exchange->job.ticket.lane)
			return 2;
		found = 1;
	}
	return found;
}

static void go(struct schedule *schedule, struct exchange *exchange)
{
	if (!exchange->is_delayed) {
		exchange->phase = IN_FLIGHT;
		return;
	}
	exchange->is_delayed = false;
	exchange->phase = DELAYED;
	bool (*yield)(struct queue *, struct ticket *, uint64_t) =
		pick(schedule, 2) == 0 ? queue_yield : queue_yield_place;
	assert_true(yield(schedule->world.queue, &exchange->job.ticket, schedule->world.now_ns));
}

static void enter_queue(struct schedule *schedule, struct exchange *exchange)
{
	struct ticket *ticket = &exchange->job.ticket;

	ticket->unready = !schedule->places_early && before(schedule, exchange) == 1;
	enum queue_verdict verdict = world_enter(&schedule->world, &exchange->job);
	if (verdict == QUEUE_GO)
		go(schedule, exchange);
	else if (verdict == QUEUE_WAIT)
		exchange->phase = ticket->unready ? ASIDE : QUEUED;
	else
		exchange->phase = OVER;
}

static void arrive_at_queue(struct schedule *schedule)
{
	static const char kinds[] = "rwRW";
	struct exchange *exchange = &schedule->exchange[schedule->entered];

	job_init(&exchange->job, pick(schedule, schedule->sessions), schedule->entered,
		kinds[pick(schedule, 4)]);
	exchange->connection = pick(schedule, schedule->connections);
	exchange->is_delayed = pick(schedule, 100) < schedule->delay_chance;
	schedule->entered++;
	if (before(schedule, exchange) == 2)
		exchange->phase = HELD;
	else
		enter_queue(schedule, exchange);
}

static void wants_place(struct schedule *schedule, struct exchange *exchange)
{
	struct ticket *ticket = &exchange->job.ticket;

	exchange->phase = QUEUED;
	if (queue_ready(schedule->world.queue, ticket, schedule->world.now_ns) == QUEUE_GO)
		go(schedule, exchange);
}

/* Whatever can be done to this one now. False: it waits. */
static bool move(struct schedule *schedule, struct exchange *exchange)
{
	unsigned others = before(schedule, exchange);

	switch (exchange->phase) {
	case HELD:
		if (others == 2 || (others == 1 && !schedule->places_early))
			return false;
		enter_queue(schedule, exchange);
		return true;
	case ASIDE:
		if (others != 0)
			return false;
		wants_place(schedule, exchange);
		return true;
	case DELAYED:
		wants_place(schedule, exchange);
		return true;
	case IN_FLIGHT:
		if (others != 0)
			return false; /* the server has answered, but nobody may read it */
		queue_done(schedule->world.queue, &exchange->job.ticket, schedule->world.now_ns);
		exchange->phase = OVER;
		return true;
	case QUEUED:
	case OVER:
		break;
	}
	return false;
}

static bool deliver(struct schedule *schedule)
{
	struct job *job = world_next(&schedule->world);
	struct exchange *exchange = (struct exchange *)job;

	if (job == NULL)
		return false;
	assert_int_equal(job->verdict, QUEUE_GO);
	assert_int_equal(exchange->phase, QUEUED);
	go(schedule, exchange);
	return true;
}

/* A client leaves: all that it asked for on this connection is over. */
static void leave(struct schedule *schedule, unsigned connection)
{
	while (deliver(schedule))
		;
	for (unsigned i = 0; i < schedule->entered; i++) {
		struct exchange *exchange = &schedule->exchange[i];
		if (exchange->connection != connection || exchange->phase == OVER)
			continue;
		if (exchange->phase != HELD &&
			queue_done(schedule->world.queue, &exchange->job.ticket,
				schedule->world.now_ns) == QUEUE_UNDER_WAY)
			world_expect(&schedule->world, &exchange->job, QUEUE_GONE);
		exchange->phase = OVER;
		while (deliver(schedule))
			;
	}
}

static void step(struct schedule *schedule)
{
	unsigned dice = pick(schedule, 100);

	schedule->world.now_ns += MS;
	if (dice < 40)
		arrive_at_queue(schedule);
	else if (dice < 60)
		deliver(schedule);
	else if (dice < 60 + schedule->leave_chance)
		leave(schedule, pick(schedule, schedule->connections));
	else if (schedule->entered > 0)
		move(schedule, &schedule->exchange[pick(schedule, schedule->entered)]);
}

/* Returns how many are left that nothing moves. */
static unsigned run(struct schedule *schedule, uint64_t seed, bool places_early)
{
	struct queue_policy *policy = &schedule->world.policy;
	unsigned stuck = 0;
	bool moved = true;

	memset(schedule, 0, sizeof(*schedule));
	schedule->seed = seed;
	schedule->random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	schedule->places_early = places_early;
	schedule->connections = 1 + pick(schedule, CONNECTIONS);
	schedule->sessions = 1 + pick(schedule, 3);
	schedule->delay_chance = pick(schedule, 2) * pick(schedule, 80);
	schedule->leave_chance = pick(schedule, 2) * 5;
	world_open_with(&schedule->world, (enum queue_ordering)pick(schedule, 3), NULL,
		&(struct run_queue_config){.max_in_flight = pick(schedule, 4)});
	policy->session_in_flight = pick(schedule, 3);
	policy->high_burst = 1 + pick(schedule, 3);
	while (schedule->entered < TICKETS)
		step(schedule);
	while (moved) {
		moved = false;
		while (deliver(schedule))
			moved = true;
		for (unsigned i = 0; i < TICKETS; i++)
			moved |= move(schedule, &schedule->exchange[i]);
	}
	for (unsigned i = 0; i < TICKETS; i++)
		stuck += schedule->exchange[i].phase != OVER;
	return stuck;
}

static void end(struct schedule *schedule)
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		leave(schedule, i);
	world_close(&schedule->world);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);
	return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

static void no_circle_closes(void **state)
{
	uint64_t seed = number("QUEUE_SEED", 1), schedules = number("QUEUE_SCHEDULES", 20000);
	struct schedule *schedule = test_calloc(1, sizeof(*schedule));
	struct run_queue_counts counts;

	(void)state;
	for (uint64_t i = 0; i < schedules; i++) {
		unsigned stuck = run(schedule, seed + i, false);
		if (stuck > 0)
			printf("# QUEUE_SEED=%llu: %u are stuck\n", (unsigned long long)(seed + i),
				stuck);
		assert_int_equal(stuck, 0);
		run_queue_count(schedule->world.upstream, &counts);
		assert_int_equal(counts.in_flight, 0);
		end(schedule);
	}
	printf("# %llu schedules from seed %llu\n", (unsigned long long)schedules,
		(unsigned long long)seed);
	test_free(schedule);
}

static void the_control_gets_stuck(void **state)
{
	struct schedule *schedule = test_calloc(1, sizeof(*schedule));
	unsigned stuck = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		stuck += run(schedule, seed, true) > 0;
		end(schedule);
	}
	printf("# %u of 500 schedules\n", stuck);
	assert_true(stuck > 0);
	test_free(schedule);
}

UNIT_SUITE(test_circles)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_circle_closes),
		cmocka_unit_test(the_control_gets_stuck),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
