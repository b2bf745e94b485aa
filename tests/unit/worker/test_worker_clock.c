/* The clocks of a worker: the wall's is read once a turn, the throttles' at each call, and a step
 * of the wall's is noticed. What the system's clocks say is the test's. */
#include "worker/worker_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/exchange/fakes/lines.h"
#include "tests/unit/base/fake_clock.h"
#include "tests/unit/suite.h"
#include "throttle/throttle.h"
#include "worker/node.h"
#include "worker/worker.h"

static uint64_t boot_ns, wall_ns;
static unsigned boot_reads, wall_reads, walls_set;

uint64_t __real_clock_wall_ns(void);
uint64_t __wrap_clock_wall_ns(void);
void __real_throttle_set_wall(struct throttle_table *table, uint64_t now_ns, uint64_t wall);
void __wrap_throttle_set_wall(struct throttle_table *table, uint64_t now_ns, uint64_t wall);

static uint64_t fake_boot_ns(void)
{
	boot_reads++;
	return boot_ns;
}

uint64_t __wrap_clock_wall_ns(void)
{
	if (fake_clock_boot_ns == NULL)
		return __real_clock_wall_ns();
	wall_reads++;
	return wall_ns;
}

void __wrap_throttle_set_wall(struct throttle_table *table, uint64_t now_ns, uint64_t wall)
{
	if (fake_clock_boot_ns == NULL) {
		__real_throttle_set_wall(table, now_ns, wall);
		return;
	}
	assert_null(table);
	assert_true(now_ns > 0);
	assert_int_equal(wall, wall_ns);
	walls_set++;
}

struct world {
	struct node node;
	struct worker *worker;
};

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define WALL_S UINT64_C(784111777)

static void at(struct world *w, uint64_t ms)
{
	w->worker->loop.now_known = true;
	w->worker->loop.now_ns = (1 + ms) * CLOCK_NS_PER_MS;
	boot_ns = (5000 + ms) * CLOCK_NS_PER_MS;
	wall_ns = WALL_S * CLOCK_NS_PER_S + ms * CLOCK_NS_PER_MS;
}

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->worker = calloc(1, sizeof(*w->worker));
	assert_non_null(w->worker);
	w->worker->node = &w->node;
	lines_clear();
	fake_clock_boot_ns = fake_boot_ns;
	at(w, 0);
	clock_anchor_init(&w->node.anchor, boot_ns, wall_ns);
	boot_reads = wall_reads = walls_set = 0;
}

static void the_wall_is_read_once_a_turn(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	assert_false(worker_knows_wall(w.worker));
	assert_int_equal(worker_wall_ns(w.worker), WALL_S * CLOCK_NS_PER_S);
	assert_true(worker_knows_wall(w.worker));
	wall_ns += 1000;
	assert_int_equal(worker_wall_ns(w.worker), WALL_S * CLOCK_NS_PER_S);
	assert_int_equal(wall_reads, 1);
	at(&w, 20);
	assert_int_equal(worker_wall_ns(w.worker), wall_ns);
	assert_int_equal(wall_reads, 2);
	free(w.worker);
}

/* It is the wall's at the start, and goes by what CLOCK_BOOTTIME does. */
static void the_throttles_clock_is_read_each_time(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	uint64_t first = worker_throttle_ns(w.worker);
	assert_int_equal(wall_reads, 1); /* a step would be noticed before */
	boot_ns += 7;
	assert_int_equal(worker_throttle_ns(w.worker), first + 7);
	assert_int_equal(wall_reads, 1);
	assert_int_equal(boot_reads, 2);
	free(w.worker);
}

static void a_step_of_the_wall_is_noticed(void **state)
{
	static const int64_t steps_s[] = {3600, -3600};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct world w;
		begin(&w);
		uint64_t before = worker_throttle_ns(w.worker);
		at(&w, 10);
		wall_ns += (uint64_t)(steps_s[i] * (int64_t)CLOCK_NS_PER_S);
		assert_int_equal(
			worker_throttle_ns(w.worker), before + 10 * CLOCK_NS_PER_MS); /* no step */
		assert_int_equal(walls_set, 1);
		assert_non_null(strstr(
			lines.text, i == 0 ? "warn the system clock was set forward by 3600000 ms"
					   : "warn the system clock was set back by 3600000 ms"));
		at(&w, 20);
		wall_ns += (uint64_t)(steps_s[i] * (int64_t)CLOCK_NS_PER_S);
		worker_wall_ns(w.worker);
		assert_int_equal(walls_set, 1); /* once */
		free(w.worker);
	}
}

static void dates(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	assert_true(slice_equal(worker_date(w.worker), SLICE("Sun, 06 Nov 1994 08:49:37 GMT")));
	at(&w, 999);
	assert_true(slice_equal(worker_date(w.worker), SLICE("Sun, 06 Nov 1994 08:49:37 GMT")));
	at(&w, 1000);
	assert_true(slice_equal(worker_date(w.worker), SLICE("Sun, 06 Nov 1994 08:49:38 GMT")));
	at(&w, 86400000);
	assert_true(slice_equal(worker_date(w.worker), SLICE("Mon, 07 Nov 1994 08:49:37 GMT")));
	free(w.worker);
}

UNIT_SUITE(test_worker_clock)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_wall_is_read_once_a_turn),
		cmocka_unit_test(the_throttles_clock_is_read_each_time),
		cmocka_unit_test(a_step_of_the_wall_is_noticed),
		cmocka_unit_test(dates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
