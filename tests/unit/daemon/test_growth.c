/* Growth of the throttles' table: asked for by workers, once, made by the main thread. What the
 * table says is the test's. */
#include "daemon/growth.h"

#include <errno.h>

#include "main_turn.h"
#include "throttle/throttle.h"
#include "tests/unit/suite.h"

static bool is_fake; /* in this suite, not in others of the program */
static struct {
	bool wants;
	int error;
	unsigned grown;
} table;

int __real_throttle_table_grow(struct throttle_table *of);
bool __real_throttle_table_wants_growth(const struct throttle_table *of);
int __wrap_throttle_table_grow(struct throttle_table *of);
bool __wrap_throttle_table_wants_growth(const struct throttle_table *of);

int __wrap_throttle_table_grow(struct throttle_table *of)
{
	if (!is_fake)
		return __real_throttle_table_grow(of);
	errno = table.error;
	if (table.error != 0)
		return -1;
	table.grown++;
	return 0;
}

bool __wrap_throttle_table_wants_growth(const struct throttle_table *of)
{
	return is_fake ? table.wants : __real_throttle_table_wants_growth(of);
}

static const struct stage_conf two = {.two_workers = true};

static struct stage *begin(void)
{
	struct stage *stage = stage_begin(&two);

	memset(&table, 0, sizeof(table));
	assert_true(growth_begin(&stage->daemon));
	return stage;
}

static void end(struct stage *stage)
{
	growth_end(&stage->daemon);
	assert_null(stage->daemon.growth.timer);
	growth_end(&stage->daemon);
	stage_end(stage);
}

static void it_grows_when_a_worker_says_so(void **state)
{
	struct stage *stage = begin();

	(void)state;
	growth_make(&stage->daemon);
	assert_int_equal(table.grown, 0);
	growth_look(stage->worker);
	growth_make(&stage->daemon);
	assert_int_equal(table.grown, 0);
	table.wants = true;
	for (unsigned i = 0; i < 3; i++)
		growth_look(stage->workers[i % 2]); /* all of them see it */
	uint64_t before = stage->daemon.reloads;
	growth_make(&stage->daemon);
	growth_make(&stage->daemon);
	assert_int_equal(table.grown, 1);
	assert_int_equal(stage->daemon.reloads, before + 1); /* the old room goes when all saw it */
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(stage->workers[i]->inbox.commands & WORKER_SEEN, WORKER_SEEN);
	growth_look(stage->worker);
	growth_make(&stage->daemon);
	assert_int_equal(table.grown, 2);
	assert_string_equal(lines.text, "");
	end(stage);
}

/* After a failure it waits a while, and the log has one line for a run of them. */
static void failures_wait(void **state)
{
	struct stage *stage = begin();
	struct daemon *daemon = &stage->daemon;

	(void)state;
	table.wants = true;
	table.error = ENOMEM;
	for (unsigned i = 0; i < 2; i++) {
		growth_look(stage->worker);
		growth_make(daemon);
		assert_true(daemon->growth.is_waiting);
		assert_int_equal(strstr(lines.text, "error limits: no memory") != NULL, i == 0);
		lines_clear();
		growth_look(stage->worker);
		table.error = 0;
		growth_make(daemon); /* not before the pause is over */
		assert_int_equal(table.grown, 0);
		table.error = ENOMEM;
		event_active(daemon->growth.timer, EV_TIMEOUT, 0);
		main_turn(stage);
		assert_false(daemon->growth.is_waiting);
		assert_int_equal(table.grown, 0);
	}
	table.error = 0;
	growth_look(stage->worker);
	growth_make(daemon);
	assert_int_equal(table.grown, 1);
	assert_has(lines.text, "there is memory for more callers again");
	lines_clear();
	growth_look(stage->worker);
	growth_make(daemon);
	assert_string_equal(lines.text, "");
	end(stage);
}

/* A reload, or another process, is at the table: that is no failure. */
static void one_that_is_busy_has_no_line(void **state)
{
	struct stage *stage = begin();

	(void)state;
	table.wants = true;
	table.error = EAGAIN;
	growth_look(stage->worker);
	growth_make(&stage->daemon);
	assert_true(stage->daemon.growth.is_waiting);
	assert_string_equal(lines.text, "");
	end(stage);
}

UNIT_SUITE(test_growth)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_grows_when_a_worker_says_so),
		cmocka_unit_test(failures_wait),
		cmocka_unit_test(one_that_is_busy_has_no_line),
	};

	is_fake = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
