/* The busiest callers against exact counts: the bound holds, the busy ones are there, a window
 * passes, and a reader beside the adder sees whole states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>

#include "../random.h"
#include "stats/busiest.h"
#include "tests/unit/suite.h"

enum { CALLERS = 20000, WORKERS = 3 };

/* As callers' hashes are: no pattern in it, never 0. */
static uint64_t hash_of(uint64_t number)
{
	struct random random = {number * 1000003};

	return random_next(&random) | 1;
}

struct oracle {
	uint64_t exact[CALLERS];
	uint64_t total;
};

/* A few callers often, many seldom: caller n about 1/n as often as the first. */
static size_t draw(struct random *random, size_t callers)
{
	size_t bound = 1 + random_below(random, callers);

	return random_below(random, bound);
}

static void add(struct busiest *busiest, struct oracle *oracle, size_t caller, uint64_t now_ns)
{
	uint8_t address[16] = {0};

	memcpy(address, &caller, sizeof(caller));
	busiest_add(busiest, hash_of(caller), address, now_ns);
	oracle->exact[caller]++;
	oracle->total++;
}

static const struct busiest_caller *find(const struct busiest_sum *sum, uint64_t caller)
{
	for (size_t i = 0; i < sum->count; i++) {
		if (sum->callers[i].caller == caller)
			return &sum->callers[i];
	}
	return NULL;
}

static void compare(const struct busiest_sum *sum, const struct oracle *oracle)
{
	assert_true(sum->error <= oracle->total / (BUSIEST_CALLERS / 2));
	for (size_t i = 0; i < CALLERS; i++) {
		const struct busiest_caller *found = find(sum, hash_of(i));
		uint64_t count = found ? found->count : 0;
		size_t number;
		if (count > oracle->exact[i] || oracle->exact[i] > count + sum->error)
			fail_msg("caller %zu: counted %ju, error %ju, exact %ju", i,
				(uintmax_t)count, (uintmax_t)sum->error,
				(uintmax_t)oracle->exact[i]);
		if (found) {
			memcpy(&number, found->address, sizeof(number));
			assert_int_equal(number, i);
		}
	}
	for (size_t i = 1; i < sum->count; i++)
		assert_true(sum->callers[i - 1].count >= sum->callers[i].count);
}

/* Any mix of callers, over several workers. */
static void against_exact_counts(void **state)
{
	struct random random = random_begin("busiest callers");
	static struct oracle oracle;
	const size_t callers[] = {1, 100, BUSIEST_CALLERS, BUSIEST_CALLERS + 1, 2000, CALLERS};

	(void)state;
	for (size_t round = 0; round < sizeof(callers) / sizeof(callers[0]); round++) {
		struct busiest *workers[WORKERS];
		struct busiest_sum sum = {0};
		bool even = random_below(&random, 3) == 0; /* nobody is busier than others */
		size_t count = 1 + random_below(&random, 60000);
		memset(&oracle, 0, sizeof(oracle));
		for (unsigned i = 0; i < WORKERS; i++)
			workers[i] = busiest_new();
		for (size_t i = 0; i < count; i++)
			add(workers[random_below(&random, WORKERS)], &oracle,
				even ? random_below(&random, callers[round])
				     : draw(&random, callers[round]),
				1 + i);
		for (unsigned i = 0; i < WORKERS; i++)
			assert_true(busiest_read(workers[i], count, &sum));
		busiest_sum_sort(&sum);
		compare(&sum, &oracle);
		if (callers[round] <= BUSIEST_CALLERS)
			assert_int_equal(sum.error, 0);
		busiest_sum_clear(&sum);
		for (unsigned i = 0; i < WORKERS; i++)
			busiest_free(workers[i]);
	}
}

static uint64_t count_at(const struct busiest *busiest, size_t caller, uint64_t now_ns)
{
	struct busiest_sum sum = {0};

	assert_true(busiest_read(busiest, now_ns, &sum));
	busiest_sum_sort(&sum);
	const struct busiest_caller *found = find(&sum, hash_of(caller));
	uint64_t count = found ? found->count : 0;
	busiest_sum_clear(&sum);
	return count;
}

/* Each counts for one to two windows; what nobody adds to is forgotten, too. */
static void windows_pass(void **state)
{
	const uint64_t w = BUSIEST_WINDOW_NS;
	struct busiest *busiest = busiest_new();
	struct oracle *oracle = calloc(1, sizeof(*oracle));

	(void)state;
	assert_int_equal(count_at(busiest, 1, 5), 0);
	add(busiest, oracle, 1, 100);
	add(busiest, oracle, 1, 100 + w - 1);
	assert_int_equal(count_at(busiest, 1, 100 + w - 1), 2);
	add(busiest, oracle, 2, 100 + w);
	assert_int_equal(count_at(busiest, 1, 100 + w), 2);
	assert_int_equal(count_at(busiest, 2, 100 + w), 1);
	add(busiest, oracle, 2, 100 + 2 * w);
	assert_int_equal(count_at(busiest, 1, 100 + 2 * w), 0);
	assert_int_equal(count_at(busiest, 2, 100 + 2 * w), 2);
	assert_int_equal(count_at(busiest, 2, 100 + 3 * w), 1);
	assert_int_equal(count_at(busiest, 2, 100 + 4 * w), 0);
	free(oracle);
	busiest_free(busiest);
}

struct race {
	struct busiest *busiest;
	atomic_bool over;
};

/* Caller n comes n times in a row, so a reader can tell a mixed-up count. */
static void *add_in_rows(void *arg)
{
	struct race *race = arg;
	uint64_t now_ns = 1;

	for (size_t turn = 0; turn < 200; turn++) {
		for (size_t caller = 1; caller <= 400; caller++) {
			uint8_t address[16] = {0};
			memcpy(address, &caller, sizeof(caller));
			for (size_t i = 0; i < caller; i++)
				busiest_add(race->busiest, hash_of(caller), address, now_ns);
		}
		now_ns += BUSIEST_WINDOW_NS / 2 + 1;
	}
	atomic_store(&race->over, true);
	return NULL;
}

static void read_beside_adding(void **state)
{
	struct race race = {.busiest = busiest_new()};
	pthread_t thread;
	uint64_t reads = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, add_in_rows, &race), 0);
	while (!atomic_load(&race.over) || reads == 0) {
		struct busiest_sum sum = {0};
		if (busiest_read(race.busiest, 1, &sum)) {
			busiest_sum_sort(&sum);
			for (size_t i = 0; i < sum.count; i++) {
				size_t caller;
				memcpy(&caller, sum.callers[i].address, sizeof(caller));
				assert_int_equal(sum.callers[i].caller, hash_of(caller));
				/* two turns a window, two windows */
				assert_true(sum.callers[i].count <= 4 * caller);
			}
			reads++;
		}
		busiest_sum_clear(&sum);
	}
	pthread_join(thread, NULL);
	busiest_free(race.busiest);
}

UNIT_SUITE(test_busiest)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(against_exact_counts),
		cmocka_unit_test(windows_pass),
		cmocka_unit_test(read_beside_adding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
