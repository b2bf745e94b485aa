/*
 * Many threads on one throttle and on many: what each admitted is recorded with its time, and
 * looked through afterwards. Time is a counter that the threads push on themselves.
 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/unit/suite.h"

#define THREADS_MAX 16
#define RECORD_MAX  200000

struct worker {
	pthread_t thread;
	struct shared *shared;
	uint64_t seed, count, refused;
	uint64_t *at; /* when it was admitted, as recorded */
};

struct shared {
	struct throttle_table *table;
	const struct throttle_charge *charges;
	size_t charge_count;
	uint64_t steps, pace;
	unsigned refund_percent;
	_Atomic(uint64_t) now;
	_Atomic(bool) stop;
	_Atomic(uint64_t) taken; /* less what was refunded */
};

static void *work(void *argument)
{
	struct worker *w = argument;
	struct shared *s = w->shared;

	for (uint64_t i = 0; i < s->steps && !atomic_load(&s->stop); i++) {
		uint64_t now = atomic_fetch_add(&s->now, random_below(&w->seed, s->pace));
		struct throttle_verdict verdict;
		struct throttle_receipt receipt;

		/* Clocks of threads differ by some ms. */
		now -= random_below(&w->seed, 3 * MS);
		throttle_take(s->table, s->charges, s->charge_count, now, &verdict, &receipt);
		w->refused += !verdict.admitted;
		if (!verdict.admitted)
			continue;
		atomic_fetch_add(&s->taken, 1);
		if (random_below(&w->seed, 100) < s->refund_percent) {
			throttle_refund_all(s->table, &receipt, now);
			atomic_fetch_sub(&s->taken, 1);
		} else if (w->count < RECORD_MAX) {
			w->at[w->count++] = verdict.outcome[0].at_ns;
		}
	}
	return NULL;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Runs the threads and gives all recorded times, sorted. */
static uint64_t *run_threads(struct shared *s, unsigned threads, uint64_t seed, uint64_t *count)
{
	struct worker workers[THREADS_MAX];
	uint64_t *all = calloc(THREADS_MAX * (size_t)RECORD_MAX, sizeof(*all));

	assert_non_null(all);
	*count = 0;
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){.shared = s, .seed = seed + i};
		workers[i].at = calloc(RECORD_MAX, sizeof(uint64_t));
		assert_non_null(workers[i].at);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		memcpy(all + *count, workers[i].at, workers[i].count * sizeof(*all));
		*count += workers[i].count;
		free(workers[i].at);
	}
	qsort(all, *count, sizeof(*all), compare_times);
	return all;
}

/* No window, wherever it lies, with more than L. */
static void check_windows(const uint64_t *at, uint64_t count, const struct throttle_limit *limit)
{
	for (uint64_t i = limit->quota; i < count; i++)
		/* times are reported in ticks of at most 2 us here */
		assert_true(at[i] - at[i - limit->quota] + 4096 >= limit->window_ns);
}

static void one_caller(unsigned threads, uint64_t quota, uint32_t slots, uint64_t seed)
{
	struct throttle_limit limit = ring("one", quota, 50 * MS);
	struct throttle_charge charge = {.cost = 1};
	struct shared s = {.charges = &charge,
		.charge_count = 1,
		.steps = steps_or(60000) / threads,
		.pace = 2 * limit.window_ns / (quota * 8)};
	uint64_t count, *at, periods;

	limit.slots = slots;
	s.table = open_table(NULL, 1, &limit, 1);
	charge.caller = key_of(s.table, 1);
	atomic_init(&s.now, START);
	at = run_threads(&s, threads, seed, &count);
	check_windows(at, count, &limit);
	/* Eight times as much was asked for as allowed: all of it must have been used, but for the
	 * precision, and what the threads' clocks differ by. */
	periods = (atomic_load(&s.now) - START) /
		  (limit.window_ns + 7 * MS +
			  (quota > slots && slots > 0 ? limit.window_ns / slots : 0) +
			  (slots == 0 && quota > 20 ? limit.window_ns / 19 : 0));
	if (count < periods * quota)
		printf("# %u threads, quota %llu: %llu of %llu\n", threads,
			(unsigned long long)quota, (unsigned long long)count,
			(unsigned long long)(periods * quota));
	assert_true(count >= periods * quota);
	free(at);
	throttle_table_close(s.table);
}

static void test_one_caller(void **state)
{
	uint64_t seed = random_seed("threads");

	(void)state;
	for (unsigned threads = 2; threads <= THREADS_MAX; threads *= 2) {
		one_caller(threads, 1, 0, seed);
		one_caller(threads, 3, 0, seed);
		one_caller(threads, 20, 0, seed);
		one_caller(threads, 100, 0, seed);
		one_caller(threads, 100, THROTTLE_EXACT, seed);
		one_caller(threads, 1000, 4, seed);
	}
}

/* Refunds, when threads race for them: what is left is what was not given back. */
static void refunds(struct throttle_limit *limits, size_t count, uint64_t seed)
{
	struct throttle_charge charges[THROTTLE_MAX_CHARGES];
	struct shared s = {.charges = charges,
		.charge_count = count,
		.steps = steps_or(40000) / 4,
		.pace = 1,
		.refund_percent = 90};
	uint64_t recorded;
	uint64_t *at;

	s.table = open_table(NULL, 1, limits, count);
	for (size_t i = 0; i < count; i++)
		charges[i] = (struct throttle_charge){
			.limit = (uint32_t)i, .caller = key_of(s.table, i), .cost = 1};
	atomic_init(&s.now, START + 5 * SECOND);
	at = run_threads(&s, 4, seed, &recorded);
	for (size_t i = 0; i < count; i++) {
		struct throttle_outcome o;

		throttle_explain(s.table, (uint32_t)i, charges[i].caller, atomic_load(&s.now), &o);
		if (o.quota - o.remaining != atomic_load(&s.taken))
			printf("# limit %zu: used %llu, taken %llu\n", i,
				(unsigned long long)(o.quota - o.remaining),
				(unsigned long long)atomic_load(&s.taken));
		assert_true(o.quota - o.remaining == atomic_load(&s.taken));
	}
	free(at);
	throttle_table_close(s.table);
}

static void test_all_or_nothing(void **state)
{
	uint64_t seed = random_seed("all or nothing");
	struct throttle_limit limits[4] = {
		ring("a", 20, 100 * SECOND),
		ring("b", 500, 100 * SECOND),
		ring("c", 5, 100 * SECOND),
		ring("d", 30, 100 * SECOND),
	};

	(void)state;
	limits[3].slots = THROTTLE_EXACT;
	for (int round = 0; round < 5; round++) {
		for (size_t i = 0; i < 4; i++)
			refunds(&limits[i], 1, seed + round);
		refunds(limits, 4, seed + round);
		refunds(limits, 2, seed + round);
	}
}

static _Atomic(bool) is_asleep;

static void sleep_here(int signal_number)
{
	(void)signal_number;
	atomic_store(&is_asleep, true);
	while (atomic_load(&is_asleep))
		usleep(200);
}

/* A thread that is stopped anywhere in a take stops nobody else. */
static void test_suspended_thread(void **state)
{
	uint64_t seed = random_seed("suspended"), rounds = steps_or(60000) / 200;
	struct throttle_limit limits[2] = {ring("a", 3, 50 * MS), ring("b", 100, 50 * MS)};
	struct sigaction action = {.sa_handler = sleep_here};
	struct throttle_charge charges[2];
	struct worker victim = {0};
	struct shared s = {.charges = charges,
		.charge_count = 2,
		.steps = UINT64_MAX,
		.pace = 50000,
		.refund_percent = 30};

	(void)state;
	s.table = open_table(NULL, 1, limits, 2);
	for (uint32_t i = 0; i < 2; i++)
		charges[i] = (struct throttle_charge){
			.limit = i, .caller = key_of(s.table, 1), .cost = 1};
	atomic_init(&s.now, START);
	sigaction(SIGUSR1, &action, NULL);
	victim = (struct worker){.shared = &s, .seed = seed};
	victim.at = calloc(RECORD_MAX, sizeof(uint64_t));
	pthread_create(&victim.thread, NULL, work, &victim);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t window[4096], count = 0;

		pthread_kill(victim.thread, SIGUSR1);
		while (!atomic_load(&is_asleep))
			;
		for (int i = 0; i < 60; i++) {
			struct throttle_verdict verdict;
			uint64_t now = atomic_fetch_add(&s.now, 5 * MS);

			throttle_take(s.table, charges, 2, now, &verdict, NULL);
			if (verdict.admitted)
				window[count++] = verdict.outcome[0].at_ns;
		}
		check_windows(window, count, &limits[0]);
		/* 300 ms are six windows of 3; the sleeper may hold one. */
		assert_true(count >= 5 * 2);
		atomic_store(&is_asleep, false);
		usleep((unsigned)random_below(&seed, 50));
	}
	atomic_store(&s.stop, true);
	pthread_join(victim.thread, NULL);
	free(victim.at);
	throttle_table_close(s.table);
}

UNIT_SUITE(threads_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_caller),
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_suspended_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
