/*
 * The table's file with one word that is not what was written: whatever it is, opening it and
 * taking from it must end, without a crash, and nobody is forgiven but whose word it was.
 *
 *   process 1: takes --killed--> one word changed --> process 2: opens, looks, takes, refunds,
 *                                                     changes limits, long after takes again
 *
 * The whole may be set aside only for a word of its header.
 *
 *   damage [--seed N] [--files N]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stress/explore/engine.h"
#include "throttle/throttle.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (UINT64_C(1700000000) * SECOND)

#define CALLERS      4
#define HEADER_BYTES 8192 /* the header with its limits, and the counters behind them */

enum { SHORT, LONG, DIVIDED, PACED, IN_FLIGHT, DAILY, LIMITS };

static const struct throttle_limit limits[LIMITS] = {
	[SHORT] = {.name = "short", .quota = 5, .window_ns = 60 * SECOND},
	[LONG] = {.name = "long", .quota = 40, .slots = THROTTLE_EXACT, .window_ns = 600 * SECOND},
	[DIVIDED] = {.name = "divided", .quota = 30, .slots = 4, .window_ns = 60 * SECOND},
	[PACED] = {.name = "paced",
		.kind = THROTTLE_GCRA,
		.quota = 6,
		.burst = 6,
		.window_ns = 60 * SECOND},
	[IN_FLIGHT] = {.name = "in flight", .kind = THROTTLE_CONCURRENCY, .quota = 4},
	[DAILY] = {.name = "daily", .kind = THROTTLE_CALENDAR, .quota = 50, .period = THROTTLE_DAY},
};

static struct {
	uint64_t seed, random, now;
	struct throttle_table *table;
	enum throttle_found found;
	uint64_t used[LIMITS][CALLERS]; /* before the damage */
	uint64_t offset, was, is;       /* of the word */
	char wrong[200];
} run;

static uint64_t random_below(uint64_t below)
{
	uint64_t z = (run.random += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

static struct throttle_key key_of(uint64_t caller)
{
	return (struct throttle_key){.lo = (caller * UINT64_C(0x3779b97f4a7c1) + 1) << 12};
}

static bool open_table(void)
{
	struct throttle_table_options options = {
		.folder = "state", .callers = 1, .now_ns = run.now};
	struct throttle_report report;

	run.table = throttle_table_open(&options, limits, LIMITS, &report);
	run.found = report.found;
	return run.table != NULL;
}

static bool take(uint32_t limit, uint64_t caller, uint64_t cost, struct throttle_receipt *receipt)
{
	struct throttle_charge charge = {.limit = limit, .caller = key_of(caller), .cost = cost};
	struct throttle_verdict verdict;

	throttle_take(run.table, &charge, 1, run.now, &verdict, receipt);
	return verdict.admitted;
}

static uint64_t used_of(uint32_t limit, uint64_t caller)
{
	struct throttle_outcome outcome;

	throttle_explain(run.table, limit, key_of(caller), run.now, &outcome);
	return outcome.quota - outcome.remaining;
}

/* What the first process does. */
static void use(void *unused)
{
	(void)unused;
	if (!open_table())
		return;
	for (uint64_t i = 20 + random_below(40); i > 0; i--) {
		struct throttle_receipt receipt;

		run.now += random_below(SECOND);
		if (take((uint32_t)random_below(LIMITS), random_below(CALLERS), 1 + random_below(2),
			    &receipt) &&
			random_below(8) == 0)
			throttle_refund_all(run.table, &receipt, run.now);
	}
	for (uint32_t l = 0; l < LIMITS; l++)
		for (uint64_t c = 0; c < CALLERS; c++)
			run.used[l][c] = used_of(l, c);
}

/* Changes one word of the file. */
static void damage(void)
{
	size_t bytes;
	uint64_t *words = files_table(&bytes);
	uint64_t count = bytes / sizeof(*words), i = random_below(count);

	/* Most of the file is nobody's yet. */
	for (unsigned tries = 0; words[i] == 0 && tries < 1000 && random_below(32) > 0; tries++)
		i = random_below(count);
	run.offset = i * sizeof(*words);
	run.was = words[i];
	switch (random_below(6)) {
	case 0:
		words[i] = 0;
		break;
	case 1:
		words[i] = UINT64_MAX;
		break;
	case 2:
		words[i] ^= random_below(UINT64_MAX);
		break;
	case 3:
		words[i] = words[random_below(count)];
		break;
	case 4:
		words[i] = (words[i] & ~UINT64_C(0xffffffff)) | random_below(UINT64_C(1) << 32);
		break;
	default:
		words[i] ^= UINT64_C(1) << random_below(64);
	}
	run.is = words[i];
}

static void look_for_forgiven(void)
{
	unsigned forgiven = 0;

	for (uint32_t l = 0; l < LIMITS; l++)
		for (uint64_t c = 0; c < CALLERS; c++)
			/* What was in flight ended with its process. */
			forgiven += l != IN_FLIGHT && used_of(l, c) < run.used[l][c];
	if (run.found == THROTTLE_FOUND_SET_ASIDE) {
		if (run.offset >= HEADER_BYTES)
			snprintf(run.wrong, sizeof(run.wrong), "set aside");
	} else if (forgiven > 1) {
		snprintf(run.wrong, sizeof(run.wrong), "%u are forgiven", forgiven);
	}
}

/* What the second process does. */
static void use_again(void *unused)
{
	struct throttle_limit others[LIMITS];

	(void)unused;
	if (!open_table()) {
		snprintf(run.wrong, sizeof(run.wrong), "not opened");
		return;
	}
	look_for_forgiven();
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 60; i++) {
			struct throttle_receipt receipt;

			if (take((uint32_t)random_below(LIMITS), random_below(CALLERS + 2), 1,
				    &receipt) &&
				i % 4 == 0)
				throttle_refund_all(run.table, &receipt, run.now);
		}
		throttle_reset(run.table, SHORT, key_of(0), run.now);
		memcpy(others, limits, sizeof(others));
		others[DIVIDED].slots += round + 1;
		others[SHORT].quota += round + 1;
		if (throttle_table_apply(run.table, others, LIMITS, 0, run.now, NULL) != 0)
			snprintf(run.wrong, sizeof(run.wrong), "limits could not be changed");
		throttle_table_collect(run.table);
		run.now += 70 * SECOND;
	}
}

static void one_file(uint64_t seed)
{
	static const struct schedule straight;

	memset(&run, 0, sizeof(run));
	run.seed = run.random = seed;
	run.now = START;
	engine_reset(seed, false);
	files_reset();
	engine_schedule(&straight);
	engine_spawn(1, use, NULL);
	engine_run();
	files_kill(1);
	damage();
	engine_spawn(2, use_again, NULL);
	if (engine_run() == ENDED_HANGS)
		snprintf(run.wrong, sizeof(run.wrong), "hangs");
	files_kill(2);
}

static void say(void)
{
	printf("# seed %llu, word at %llu, %llx -> %llx: ", (unsigned long long)run.seed,
		(unsigned long long)run.offset, (unsigned long long)run.was,
		(unsigned long long)run.is);
}

static void crashed(int number)
{
	say();
	printf("signal %d\nnot ok 1 - damaged files\n", number);
	fflush(stdout);
	_exit(1);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, files = 2000, failed = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--files") == 0)
			files = strtoull(argv[i + 1], NULL, 0);
	}
	for (int *number = (int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, 0}; *number != 0;
		number++)
		signal(*number, crashed);
	printf("1..1\n");
	for (uint64_t i = 0; i < files && failed < 10; i++) {
		one_file(seed + i);
		if (run.wrong[0] == '\0')
			continue;
		say();
		printf("%s\n", run.wrong);
		failed++;
	}
	printf("%s 1 - %llu damaged files\n", failed == 0 ? "ok" : "not ok",
		(unsigned long long)files);
	return failed != 0;
}
