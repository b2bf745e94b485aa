/* Places that another thread allows (run_queue_set_slots): how many, until when, or none at all. */
#include "tests/unit/queue/jobs.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_goes_before_slots_are_there),
		cmocka_unit_test(a_lack_is_said_once),
		cmocka_unit_test(nothing_goes_when_their_time_is_over),
		cmocka_unit_test(the_lower_of_two_bounds_holds),
		cmocka_unit_test(all_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
