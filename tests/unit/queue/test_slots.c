/* Places that another thread allows (run_queue_set_slots): how many, until when, or none at all. */
#include <time.h>

#include "tests/unit/queue/jobs.h"
#include "tests/unit/suite.h"

static void count_lack(void *ctx)
{
	++*(unsigned *)ctx;
}

static struct fixture *open_slots(unsigned *lacks, uint32_t max_in_flight)
{
	*lacks = 0;
	return open_fixture(QUEUE_NONE, &(struct run_queue_config){.takes_slots = true,
						.max_in_flight = max_in_flight,
						.lacks = count_lack,
						.lacks_ctx = lacks});
}

static struct run_queue_use set(
	struct fixture *fixture, uint32_t count, uint64_t until_ns, bool refuses)
{
	const struct run_queue_slots slots = {count, until_ns, refuses};
	struct run_queue_use use;

	run_queue_set_slots(fixture->world.upstream, &slots, &use, fixture->world.now_ns);
	return use;
}

static void nothing_goes_before_slots_are_there(void **state)
{
	unsigned lacks;
	struct fixture *fixture = open_slots(&lacks, 0);
	struct job *job = enter(fixture, 1, 1, 'r', 1, QUEUE_WAIT);

	(void)state;
	enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	assert_int_equal(lacks, 1);
	struct run_queue_use use = set(fixture, 2, QUEUE_NEVER, false);
	assert_int_equal(use.sessions, 3);
	world_expect(&fixture->world, &job[0], QUEUE_GO);
	world_expect(&fixture->world, &job[1], QUEUE_GO);
	world_expect_none(&fixture->world);
	world_done(&fixture->world, &job[0]);
	world_expect(&fixture->world, &job[2], QUEUE_GO);
	use = set(fixture, 2, QUEUE_NEVER, false);
	assert_int_equal(use.in_flight, 2);
	assert_int_equal(use.peak, 2);
	assert_int_equal(use.limit, UINT32_MAX);
	world_done(&fixture->world, &job[1]);
	world_done(&fixture->world, &job[2]);
	run_queue_read_use(fixture->world.upstream, &use);
	assert_int_equal(use.peak, 2);
	run_queue_read_use(fixture->world.upstream, &use);
	assert_int_equal(use.peak, 0);
	close_fixture(fixture);
}

/* What is lacking is said again once it was read that nobody waits. */
static void a_lack_is_said_once(void **state)
{
	unsigned lacks;
	struct fixture *fixture = open_slots(&lacks, 0);
	struct run_queue_use use;
	struct job *job;

	(void)state;
	set(fixture, 1, QUEUE_NEVER, false);
	job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	assert_int_equal(lacks, 0);
	enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	run_queue_read_use(fixture->world.upstream, &use);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	assert_int_equal(lacks, 1);
	for (unsigned i = 0; i < 2; i++) {
		world_done(&fixture->world, &job[i]);
		world_expect(&fixture->world, &job[i + 1], QUEUE_GO);
	}
	run_queue_read_use(fixture->world.upstream, &use);
	enter(fixture, 4, 1, 'r', 1, QUEUE_WAIT);
	assert_int_equal(lacks, 2);
	world_done(&fixture->world, &job[2]);
	world_expect(&fixture->world, &job[3], QUEUE_GO);
	world_done(&fixture->world, &job[3]);
	close_fixture(fixture);
}

static void nothing_goes_when_their_time_is_over(void **state)
{
	unsigned lacks;
	struct fixture *fixture = open_slots(&lacks, 0);
	struct job *job;

	(void)state;
	set(fixture, 5, fixture->world.now_ns + 1000, false);
	job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	fixture->world.now_ns += 1000;
	enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	assert_int_equal(lacks, 1);
	set(fixture, 5, fixture->world.now_ns + 1, false);
	world_expect(&fixture->world, &job[1], QUEUE_GO);
	world_done(&fixture->world, &job[0]);
	world_done(&fixture->world, &job[1]);
	close_fixture(fixture);
}

static void the_lower_of_two_bounds_holds(void **state)
{
	unsigned lacks;
	struct fixture *fixture = open_slots(&lacks, 1);
	struct job *job;

	(void)state;
	set(fixture, 5, QUEUE_NEVER, false);
	job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	assert_int_equal(lacks, 0); /* more of them would not help */
	assert_int_equal(set(fixture, 5, QUEUE_NEVER, false).limit, 1);
	world_done(&fixture->world, &job[0]);
	world_expect(&fixture->world, &job[1], QUEUE_GO);
	world_done(&fixture->world, &job[1]);
	close_fixture(fixture);
}

/* Many of one session, as only some are shed in one turn. */
static void all_are_refused(void **state)
{
	unsigned lacks;
	struct fixture *fixture = open_slots(&lacks, 0);
	struct job *job;

	(void)state;
	set(fixture, 1, QUEUE_NEVER, false);
	job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	for (unsigned i = 0; i < 150; i++)
		enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	set(fixture, 1, QUEUE_NEVER, true);
	for (unsigned i = 1; i <= 150; i++)
		world_expect(&fixture->world, &job[i], QUEUE_SHED);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	world_expect(&fixture->world, &job[151], QUEUE_SHED);
	world_done(&fixture->world, &job[0]);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	world_expect(&fixture->world, &job[152], QUEUE_SHED);
	set(fixture, 1, QUEUE_NEVER, false);
	enter(fixture, 4, 1, 'r', 1, QUEUE_GO);
	world_done(&fixture->world, &job[153]);
	close_fixture(fixture);
}

/* What is in flight when the slots become others keeps its own, and takes none of the new ones. */
static void an_era_keeps_what_is_in_flight(void **state)
{
	unsigned lacks;
	struct fixture *fixture = open_slots(&lacks, 0);
	struct run_queue *upstream = fixture->world.upstream;
	struct run_queue_era first, second;
	struct job *job;

	(void)state;
	set(fixture, 2, QUEUE_NEVER, false);
	job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	enter(fixture, 2, 1, 'r', 1, QUEUE_GO);
	run_queue_begin_era(upstream, &first);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	assert_int_equal(run_queue_era_in_flight(upstream, &first), 2);
	world_done(&fixture->world, &job[0]);
	world_expect_none(&fixture->world);
	assert_int_equal(run_queue_era_in_flight(upstream, &first), 1);
	assert_int_equal(set(fixture, 1, QUEUE_NEVER, false).in_flight, 0);
	world_expect(&fixture->world, &job[2], QUEUE_GO);
	run_queue_begin_era(upstream, &second);
	assert_int_equal(run_queue_era_in_flight(upstream, &second), 1);
	run_queue_end_era(upstream, &first); /* its slots are lost: one more of the second */
	assert_int_equal(run_queue_era_in_flight(upstream, &second), 2);
	world_done(&fixture->world, &job[1]);
	world_done(&fixture->world, &job[2]);
	assert_int_equal(run_queue_era_in_flight(upstream, &second), 0);
	run_queue_end_era(upstream, &second);
	close_fixture(fixture);
}

/* ---- at random ------------------------------------------------------------------------------- */

enum { ERAS = 4, NOW = ERAS, STEPS = 1500 };

/* The plain count: of which era each job in flight is. */
struct plain {
	struct fixture *fixture;
	struct run_queue_era eras[ERAS];
	unsigned order[ERAS], count; /* those that are over, the first one first */
	unsigned era_of[MAX_JOBS];   /* an index, or NOW */
	bool flies[MAX_JOBS];
	uint32_t slots;
	uint64_t random;
};

static unsigned below(struct plain *plain, unsigned bound)
{
	return (unsigned)((random_next(&plain->random) >> 33) % bound);
}

static uint32_t in_flight(const struct plain *plain, unsigned era)
{
	uint32_t count = 0;

	for (unsigned i = 0; i < plain->fixture->jobs; i++)
		count += plain->flies[i] && plain->era_of[i] == era;
	return count;
}

static void note_gone(struct plain *plain, unsigned job)
{
	assert_true(in_flight(plain, NOW) < plain->slots);
	plain->flies[job] = true;
	plain->era_of[job] = NOW;
}

static void begin_era(struct plain *plain)
{
	unsigned free_one = 0;

	if (plain->count == ERAS)
		return;
	for (unsigned i = 0; i < plain->count; i++)
		if (plain->order[i] == free_one)
			free_one++, i = (unsigned)-1;
	run_queue_begin_era(plain->fixture->world.upstream, &plain->eras[free_one]);
	plain->order[plain->count++] = free_one;
	plain->slots = 0;
	for (unsigned i = 0; i < plain->fixture->jobs; i++)
		if (plain->era_of[i] == NOW)
			plain->era_of[i] = free_one;
}

static void end_era(struct plain *plain)
{
	if (plain->count == 0)
		return;
	unsigned at = below(plain, plain->count), era = plain->order[at];
	unsigned later = at + 1 < plain->count ? plain->order[at + 1] : NOW;
	run_queue_end_era(plain->fixture->world.upstream, &plain->eras[era]);
	for (unsigned i = 0; i < plain->fixture->jobs; i++)
		if (plain->era_of[i] == era)
			plain->era_of[i] = later;
	memmove(&plain->order[at], &plain->order[at + 1],
		(--plain->count - at) * sizeof(plain->order[0]));
}

static void complete_one(struct plain *plain)
{
	unsigned jobs = plain->fixture->jobs, from = jobs > 0 ? below(plain, jobs) : 0;

	for (unsigned i = 0; i < jobs; i++) {
		unsigned job = (from + i) % jobs;
		if (plain->flies[job]) {
			plain->flies[job] = false;
			world_done(&plain->fixture->world, &plain->fixture->job[job]);
			return;
		}
	}
}

static void step(struct plain *plain)
{
	struct fixture *fixture = plain->fixture;
	unsigned chance = below(plain, 100);

	if (chance < 35) {
		struct job *job = &fixture->job[fixture->jobs];
		job_init(job, 1 + below(plain, 9), fixture->jobs, 'r');
		if (world_enter(&fixture->world, job) == QUEUE_GO)
			note_gone(plain, fixture->jobs);
		fixture->jobs++;
	} else if (chance < 75) {
		complete_one(plain);
	} else if (chance < 90) {
		plain->slots = below(plain, 6);
		set(fixture, plain->slots, QUEUE_NEVER, false);
	} else if (chance < 95) {
		begin_era(plain);
	} else {
		end_era(plain);
	}
	for (struct job *job; (job = world_next(&fixture->world)) != NULL;)
		note_gone(plain, (unsigned)(job - fixture->job));
}

static void check_counts(struct plain *plain)
{
	struct run_queue *upstream = plain->fixture->world.upstream;
	struct run_queue_use use;

	run_queue_read_use(upstream, &use);
	assert_int_equal(use.in_flight, in_flight(plain, NOW));
	for (unsigned i = 0; i < plain->count; i++)
		assert_int_equal(run_queue_era_in_flight(upstream, &plain->eras[plain->order[i]]),
			in_flight(plain, plain->order[i]));
}

static void eras_are_counted_as_by_a_list(void **state)
{
	const char *given = getenv("QUEUE_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	struct plain *plain = test_calloc(1, sizeof(*plain));
	unsigned lacks;

	(void)state;
	print_message("# slots: QUEUE_SEED=%llu\n", (unsigned long long)seed);
	*plain = (struct plain){.fixture = open_slots(&lacks, 0), .random = seed | 1};
	for (unsigned i = 0; i < STEPS; i++) {
		step(plain);
		check_counts(plain);
	}
	while (plain->count > 0)
		end_era(plain);
	plain->slots = MAX_JOBS;
	set(plain->fixture, plain->slots, QUEUE_NEVER, false);
	for (unsigned i = 0; i < plain->fixture->jobs; i++) {
		complete_one(plain);
		for (struct job *job; (job = world_next(&plain->fixture->world)) != NULL;)
			note_gone(plain, (unsigned)(job - plain->fixture->job));
	}
	check_counts(plain);
	assert_int_equal(in_flight(plain, NOW), 0);
	close_fixture(plain->fixture);
	test_free(plain);
}

UNIT_SUITE(test_slots)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_goes_before_slots_are_there),
		cmocka_unit_test(a_lack_is_said_once),
		cmocka_unit_test(nothing_goes_when_their_time_is_over),
		cmocka_unit_test(the_lower_of_two_bounds_holds),
		cmocka_unit_test(all_are_refused),
		cmocka_unit_test(an_era_keeps_what_is_in_flight),
		cmocka_unit_test(eras_are_counted_as_by_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
