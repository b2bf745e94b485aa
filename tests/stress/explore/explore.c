/*
 * The schedule explorer: small scenarios (what threads and processes do with one table), each run
 * by many schedules (which of them continues at each atomic operation), and an oracle that knows
 * what may and must be admitted.
 *
 *   profile --seed--> scenario --seeds--> schedules --> run --> oracle: right, or what was wrong
 *                                                                 |
 *             printed: the smallest scenario and schedule <--shrink
 *
 *   explore [--profile NAME] [--seed N] [--scenarios N] [--trace 1|2]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stress/explore/engine.h"
#include "tests/stress/explore/scenario.h"

#define RUNS         12   /* schedules for each scenario */
#define SHRINK_TRIES 1500 /* schedules in which something must still be wrong */

#define PINNED 3

struct profile {
	const char *name;
	unsigned features;
	uint64_t pinned[PINNED]; /* seeds by which faults were found once; explored first */
};

static const struct profile profiles[] = {
	{"takes", FEATURE_PAIR | FEATURE_LONG | FEATURE_WEAK, {0}},
	{"refunds", FEATURE_PAIR | FEATURE_LONG | FEATURE_REFUND | FEATURE_DEBT | FEATURE_WEAK,
		{0}},
	{"kinds", FEATURE_KINDS | FEATURE_PAIR | FEATURE_REFUND | FEATURE_WEAK, {0}},
	{"resets", FEATURE_KINDS | FEATURE_RESET | FEATURE_WEAK, {0}},
	{"full", FEATURE_FULL | FEATURE_PAIR | FEATURE_REFUND | FEATURE_WEAK, {38320}},
	{"full-kinds", FEATURE_FULL | FEATURE_KINDS | FEATURE_WEAK, {0}},
	{"kills", FEATURE_KILL | FEATURE_PAIR | FEATURE_REFUND | FEATURE_KINDS, {0}},
	{"processes", FEATURE_TWO | FEATURE_KILL | FEATURE_KINDS | FEATURE_REFUND,
		{62, 156, 20143}},
	{"reloads", FEATURE_RELOAD | FEATURE_LONG | FEATURE_WEAK, {0}},
	{"reloads-refunds", FEATURE_RELOAD | FEATURE_REFUND | FEATURE_PAIR | FEATURE_WEAK,
		{104810}},
	{"reloads-full", FEATURE_RELOAD | FEATURE_FULL | FEATURE_WEAK, {0}},
	{"reloads-kills", FEATURE_RELOAD | FEATURE_KILL | FEATURE_REFUND, {500711}},
	{"reloads-kinds", FEATURE_RELOAD | FEATURE_KINDS | FEATURE_CHANGE | FEATURE_REFUND,
		{101593, 32416}},
	{"grows", FEATURE_GROW | FEATURE_FULL | FEATURE_PAIR | FEATURE_REFUND | FEATURE_WEAK, {0}},
	{"grows-kinds", FEATURE_GROW | FEATURE_FULL | FEATURE_KINDS | FEATURE_REFUND, {0}},
	{"grows-kills", FEATURE_GROW | FEATURE_FULL | FEATURE_KILL | FEATURE_KINDS | FEATURE_REFUND,
		{0}},
	{"grows-processes", FEATURE_GROW | FEATURE_FULL | FEATURE_TWO | FEATURE_KILL,
		{228, 1000871}},
	{"grows-reloads", FEATURE_GROW | FEATURE_FULL | FEATURE_RELOAD | FEATURE_WEAK, {0}},
	{"grows-reloads-kills",
		FEATURE_GROW | FEATURE_FULL | FEATURE_RELOAD | FEATURE_KILL | FEATURE_REFUND,
		{102504, 779644}},
	{"splits-reloads-kills",
		FEATURE_GROW | FEATURE_FULL | FEATURE_ROOM | FEATURE_RELOAD | FEATURE_KILL |
			FEATURE_REFUND,
		{16660}},
	{"old-full", FEATURE_OLD | FEATURE_FULL | FEATURE_LONG | FEATURE_WEAK, {0}},
	{"old-grows",
		FEATURE_OLD | FEATURE_GROW | FEATURE_FULL | FEATURE_LONG | FEATURE_REFUND |
			FEATURE_WEAK,
		{0}},
	{"old-reloads",
		FEATURE_OLD | FEATURE_MORE | FEATURE_RELOAD | FEATURE_FULL | FEATURE_LONG |
			FEATURE_WEAK,
		{0}},
	{"old-grows-reloads-kills",
		FEATURE_OLD | FEATURE_MORE | FEATURE_GROW | FEATURE_RELOAD | FEATURE_KILL |
			FEATURE_FULL | FEATURE_LONG | FEATURE_REFUND | FEATURE_KINDS,
		{0}},
};
#define PROFILES (sizeof(profiles) / sizeof(profiles[0]))

static struct oracle oracle;

/* What all runs of a profile come to. */
struct sums {
	uint64_t scenarios, schedules, points, preemptions;
};

static void make_schedules(const struct scenario *s, struct schedule schedules[SCENARIO_LIVES],
	const uint64_t length[SCENARIO_LIVES], bool is_weak, unsigned changes, uint64_t *random)
{
	uint64_t seed = scenario_random(random, UINT64_MAX);

	for (unsigned i = 0; i < s->lives; i++) {
		struct schedule *to = &schedules[i];
		uint64_t points = length[i] + 1;
		unsigned threads = s->life[i].processes + s->life[i].programs;

		*to = (struct schedule){.seed = seed, .is_weak = is_weak};
		to->policy = (enum policy)scenario_random(random, 3);
		if (changes < ENGINE_CHANGES && to->policy == POLICY_WALK)
			to->policy = POLICY_BOUNDED;
		to->one_in = 1u << (1 + scenario_random(random, 6));
		to->changes = (unsigned)scenario_random(random, changes + 1);
		for (unsigned c = 0; c < to->changes; c++)
			to->change[c] = 1 + scenario_random(random, points);
		to->stopped = 1 + (unsigned)scenario_random(random, threads);
		to->stopped_at = 1 + scenario_random(random, points / threads + 1);
		if (s->life[i].is_killed)
			to->kill_at = 1 + scenario_random(random, points);
		to->killed = 1 + 2 * i + (unsigned)scenario_random(random, s->life[i].processes);
	}
}

/* Without a switch before a thread has ended: how long it is. */
static bool run_straight(
	const struct scenario *s, struct schedule schedules[], uint64_t length[SCENARIO_LIVES])
{
	for (unsigned i = 0; i < SCENARIO_LIVES; i++)
		schedules[i] = (struct schedule){.seed = s->seed};
	return scenario_run(s, schedules, &oracle, length);
}

static unsigned count_operations(const struct scenario *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->lives; i++)
		for (unsigned p = 0; p < s->life[i].programs; p++)
			n += s->life[i].program[p].count;
	return n;
}

static void drop_operation(struct scenario *s, unsigned which)
{
	for (unsigned i = 0; i < s->lives; i++)
		for (unsigned p = 0; p < s->life[i].programs; p++) {
			struct program *program = &s->life[i].program[p];

			if (which >= program->count) {
				which -= program->count;
				continue;
			}
			program->count--;
			memmove(&program->operations[which], &program->operations[which + 1],
				(program->count - which) * sizeof(program->operations[0]));
			return;
		}
}

/* Is something wrong in one of many schedules with at most so many changes each? Then in this. */
static bool search(const struct scenario *s, unsigned changes, unsigned tries, bool is_weak,
	struct schedule schedules[SCENARIO_LIVES])
{
	uint64_t length[SCENARIO_LIVES] = {0}, random = s->seed;

	if (!run_straight(s, schedules, length))
		return true;
	for (unsigned n = 0; n < tries; n++) {
		uint64_t unused[SCENARIO_LIVES];

		make_schedules(s, schedules, length, is_weak && n % 2 == 1, changes, &random);
		if (!scenario_run(s, schedules, &oracle, unused))
			return true;
	}
	return false;
}

/* Fewer operations, then fewer switches. */
static void shrink(
	struct scenario *s, struct schedule schedules[SCENARIO_LIVES], unsigned tries, bool is_weak)
{
	struct schedule found[SCENARIO_LIVES];

	for (unsigned n = count_operations(s); n-- > 0;) {
		struct scenario smaller = *s;

		drop_operation(&smaller, n);
		if (search(&smaller, ENGINE_CHANGES, tries, is_weak, found)) {
			*s = smaller;
			memcpy(schedules, found, sizeof(found));
		}
	}
	for (unsigned changes = 0; changes < ENGINE_CHANGES; changes++)
		if (search(s, changes, tries, is_weak, found)) {
			memcpy(schedules, found, sizeof(found));
			return;
		}
}

static void show(const struct profile *profile, uint64_t seed, struct scenario *s,
	struct schedule schedules[SCENARIO_LIVES], unsigned tries, int trace)
{
	uint64_t length[SCENARIO_LIVES];

	printf("# profile %s, seed %llu: %s\n", profile->name, (unsigned long long)seed,
		oracle.wrong);
	if (tries > 0)
		shrink(s, schedules, tries, (profile->features & FEATURE_WEAK) != 0);
	printf("# the smallest found, %s memory:\n", schedules[0].is_weak ? "weak" : "strong");
	scenario_print(s);
	engine_trace(trace);
	scenario_run(s, schedules, &oracle, length);
	engine_trace(0);
	printf("# %s\n", oracle.wrong);
}

/* One scenario by RUNS schedules. */
static bool explore(
	const struct profile *profile, uint64_t seed, unsigned tries, int trace, struct sums *sums)
{
	uint64_t length[SCENARIO_LIVES] = {0}, unused[SCENARIO_LIVES], random = seed + 1;
	struct schedule schedules[SCENARIO_LIVES];
	struct scenario s;
	bool is_right;

	scenario_make(&s, profile->features, seed);
	is_right = run_straight(&s, schedules, length);
	sums->scenarios++;
	sums->schedules++;
	for (unsigned n = 0; is_right && n < RUNS; n++) {
		bool is_weak = (profile->features & FEATURE_WEAK) && n % 2 == 1;

		make_schedules(&s, schedules, length, is_weak, ENGINE_CHANGES, &random);
		is_right = scenario_run(&s, schedules, &oracle, unused);
		sums->schedules++;
		sums->points += engine_now();
		sums->preemptions += engine_preemptions();
	}
	if (!is_right)
		show(profile, seed, &s, schedules, tries, trace);
	return is_right;
}

struct options {
	const char *profile;
	uint64_t seed, scenarios, tries;
	int trace;
};

static struct options read_options(int argc, char **argv)
{
	const char *seed = getenv("THROTTLE_SEED");
	struct options o = {.seed = seed != NULL ? strtoull(seed, NULL, 0) : 1,
		.scenarios = 100,
		.tries = SHRINK_TRIES,
		.trace = 1};

	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t number = strtoull(argv[i + 1], NULL, 0);

		if (strcmp(argv[i], "--profile") == 0)
			o.profile = argv[i + 1];
		else if (strcmp(argv[i], "--seed") == 0)
			o.seed = number;
		else if (strcmp(argv[i], "--scenarios") == 0)
			o.scenarios = number;
		else if (strcmp(argv[i], "--shrink") == 0)
			o.tries = number;
		else if (strcmp(argv[i], "--trace") == 0)
			o.trace = (int)number;
		else
			exit(99);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = read_options(argc, argv);
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%zu\n", PROFILES);
	for (size_t p = 0; p < PROFILES; p++) {
		struct sums sums = {0};
		bool is_right = true;

		if (o.profile != NULL && strcmp(o.profile, profiles[p].name) != 0) {
			printf("ok %zu - %s # SKIP not asked for\n", p + 1, profiles[p].name);
			continue;
		}
		for (size_t n = 0; is_right && n < PINNED && profiles[p].pinned[n] != 0; n++)
			is_right = explore(&profiles[p], profiles[p].pinned[n], (unsigned)o.tries,
				o.trace, &sums);
		for (uint64_t n = 0; is_right && n < o.scenarios; n++)
			is_right = explore(
				&profiles[p], o.seed + n, (unsigned)o.tries, o.trace, &sums);
		printf("%s %zu - %s: %llu scenarios, %llu schedules, %llu points, %llu switches\n",
			is_right ? "ok" : "not ok", p + 1, profiles[p].name,
			(unsigned long long)sums.scenarios, (unsigned long long)sums.schedules,
			(unsigned long long)sums.points, (unsigned long long)sums.preemptions);
		failed |= !is_right;
	}
	return failed;
}
