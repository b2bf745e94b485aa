/* See scenario.h. */
#include "tests/stress/explore/scenario.h"

#include <stdio.h>
#include <string.h>

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

uint64_t scenario_random(uint64_t *state, uint64_t below)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

static bool one_in(uint64_t *random, uint64_t n)
{
	return scenario_random(random, n) == 0;
}

static void make_ring(struct throttle_limit *l, unsigned features, uint64_t *random)
{
	l->kind = THROTTLE_RING;
	l->quota = 1 + scenario_random(random, 4);
	if ((features & FEATURE_LONG) && one_in(random, 3)) {
		l->quota = 32 + scenario_random(random, 3);
		l->slots = THROTTLE_EXACT;
	} else if (one_in(random, 2)) {
		l->slots = (uint32_t)(1 + scenario_random(random, 4));
		l->quota = l->slots + 1 + scenario_random(random, 4);
	}
}

static void make_limit(
	struct throttle_limit *l, const char *name, unsigned features, uint64_t *random)
{
	static const uint64_t windows[] = {20 * MS, SECOND, 10 * SECOND, 3600 * SECOND};

	memset(l, 0, sizeof(*l));
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->window_ns = windows[scenario_random(random, 4)];
	if (one_in(random, 4))
		l->window_ns += scenario_random(random, l->window_ns);
	make_ring(l, features, random);
	if (!(features & FEATURE_KINDS) || !one_in(random, 2))
		return;
	l->slots = 0;
	l->quota = 1 + scenario_random(random, 4);
	l->kind = one_in(random, 2) ? THROTTLE_GCRA : THROTTLE_CONCURRENCY;
	if (l->kind == THROTTLE_GCRA)
		l->burst = 1 + scenario_random(random, 4);
}

/* The next version of the same limit. */
static void change_limit(struct throttle_limit *to, const struct throttle_limit *from,
	unsigned features, uint64_t *random)
{
	make_limit(to, from->name, features, random);
	while (to->kind != from->kind &&
		(!(features & FEATURE_CHANGE) || to->kind == THROTTLE_CONCURRENCY ||
			from->kind == THROTTLE_CONCURRENCY))
		make_limit(to, from->name, features, random);
	if (one_in(random, 2))
		to->window_ns = from->window_ns;
}

static uint64_t random_advance(uint64_t *random, uint64_t window)
{
	switch (scenario_random(random, 10)) {
	case 0:
		return scenario_random(random, window / 8);
	case 1:
		return scenario_random(random, window / 2);
	case 2:
		return window;
	case 3:
		return scenario_random(random, 3 * window);
	case 4:
		return scenario_random(random, 50 * MS);
	default:
		return 0;
	}
}

static enum what random_what(unsigned features, uint64_t *random)
{
	uint64_t n = scenario_random(random, 20);

	if ((features & FEATURE_GROW) && one_in(random, 4))
		return one_in(random, 2) ? WHAT_GROW : WHAT_CROWD;
	if ((features & FEATURE_REFUND) && n < 4)
		return WHAT_REFUND;
	if ((features & FEATURE_REFUND) && n < 6)
		return WHAT_SETTLE;
	if ((features & FEATURE_DEBT) && n < 8)
		return WHAT_CHARGE;
	if ((features & FEATURE_KINDS) && n < 10)
		return WHAT_RELEASE;
	if ((features & FEATURE_RESET) && n < 11)
		return WHAT_RESET;
	return n < 12 ? WHAT_PEEK : WHAT_TAKE;
}

static void make_operation(
	struct operation *op, const struct scenario *s, unsigned features, uint64_t *random)
{
	const struct throttle_limit *l = s->version[0];

	op->what = random_what(features, random);
	op->limits = 1;
	if (features & FEATURE_PAIR)
		op->limits = 1 + (unsigned)scenario_random(random, 3);
	op->caller = (unsigned)scenario_random(random, s->callers);
	op->which = (unsigned)scenario_random(random, 4);
	for (unsigned i = 0; i < ORACLE_LIMITS; i++) {
		op->cost[i] = 1;
		if (one_in(random, 5) || l[i].quota > 30)
			op->cost[i] = (uint32_t)(1 + scenario_random(random, l[i].quota));
	}
	if (op->what == WHAT_CROWD)
		op->cost[0] = (uint32_t)(1 + scenario_random(random, 8));
	op->advance = random_advance(random, l->window_ns);
	op->behind = 0;
	if (one_in(random, 3))
		op->behind = scenario_random(random, one_in(random, 2) ? 40 * MS : 950 * MS);
	op->capacity = 0;
	if ((features & FEATURE_MORE) && one_in(random, 2))
		op->capacity = 1 + scenario_random(random, 4 * s->fillers);
}

static void make_life(struct life *life, const struct scenario *s, unsigned number,
	unsigned features, uint64_t *random)
{
	bool changes = (features & FEATURE_RELOAD) != 0;

	life->processes = (features & FEATURE_TWO) && one_in(random, 2) ? 2 : 1;
	if (life->processes > 1)
		changes = false;
	life->programs = 2 + (unsigned)scenario_random(random, SCENARIO_PROGRAMS - 1);
	life->is_killed = (features & FEATURE_KILL) && (number + 1 < s->lives || one_in(random, 2));
	life->changes_limits = (features & FEATURE_RELOAD) && number > 0 && one_in(random, 2);
	for (unsigned p = 0; p < life->programs; p++) {
		struct program *program = &life->program[p];

		program->process = p % life->processes;
		program->count = 1 + (unsigned)scenario_random(random, SCENARIO_OPERATIONS);
		for (unsigned i = 0; i < program->count; i++) {
			make_operation(&program->operations[i], s, features, random);
			if (changes && p == 0 && one_in(random, 2))
				program->operations[i].what = WHAT_APPLY;
		}
	}
}

void scenario_make(struct scenario *s, unsigned features, uint64_t seed)
{
	uint64_t random = seed;

	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->in_file = (features & (FEATURE_KILL | FEATURE_TWO)) != 0;
	s->is_full = (features & FEATURE_FULL) != 0;
	s->grows = (features & FEATURE_GROW) != 0;
	s->callers = 1 + (unsigned)scenario_random(&random, ORACLE_CALLERS);
	s->versions = features & FEATURE_RELOAD ? SCENARIO_VERSIONS : 1;
	s->fillers = features & FEATURE_ROOM ? 8 + (unsigned)scenario_random(&random, 8) : 15;
	s->lives = s->in_file ? 1 + (unsigned)scenario_random(&random, SCENARIO_LIVES) : 1;
	make_limit(&s->version[0][0], "a", features, &random);
	make_limit(&s->version[0][1], "b", features, &random);
	for (unsigned v = 1; v < s->versions; v++)
		for (unsigned i = 0; i < ORACLE_LIMITS; i++) {
			if (one_in(&random, 4))
				s->version[v][i] = s->version[v - 1][i];
			else
				change_limit(&s->version[v][i], &s->version[v - 1][i], features,
					&random);
		}
	if (features & FEATURE_OLD)
		s->age = 4 * (s->version[0][0].window_ns + 2 * SECOND) +
			 scenario_random(&random, 10 * SECOND);
	for (unsigned i = 0; i < s->lives; i++)
		make_life(&s->life[i], s, i, features, &random);
}

/* ---- for people ---- */

static void print_limit(const struct throttle_limit *l)
{
	static const char *const kinds[] = {"ring", "gcra", "calendar", "concurrency"};

	printf("  %s: %s %llu per %llu ns", l->name, kinds[l->kind], (unsigned long long)l->quota,
		(unsigned long long)l->window_ns);
	if (l->slots == THROTTLE_EXACT)
		printf(" exact");
	else if (l->kind == THROTTLE_RING)
		printf(" slots %u", l->slots);
	else if (l->kind == THROTTLE_GCRA)
		printf(" burst %llu", (unsigned long long)l->burst);
}

void scenario_print(const struct scenario *s)
{
	static const char *const names[] = {"take", "peek", "refund", "settle", "charge", "release",
		"reset", "apply", "grow", "crowd"};

	for (unsigned v = 0; v < s->versions; v++) {
		printf("# version %u:", v);
		print_limit(&s->version[v][0]);
		print_limit(&s->version[v][1]);
		printf("\n");
	}
	for (unsigned i = 0; i < s->lives; i++) {
		const struct life *life = &s->life[i];

		printf("# life %u: %u processes%s%s\n", i, life->processes,
			life->is_killed ? ", one is killed" : "",
			life->changes_limits ? ", with the next limits" : "");
		for (unsigned p = 0; p < life->programs; p++) {
			printf("#  process %u:", life->program[p].process);
			for (unsigned n = 0; n < life->program[p].count; n++) {
				const struct operation *op = &life->program[p].operations[n];

				printf(" +%llu %s", (unsigned long long)op->advance,
					names[op->what]);
				if (op->behind > 0)
					printf(" (-%llu)", (unsigned long long)op->behind);
				if (op->what <= WHAT_PEEK || op->what == WHAT_CROWD)
					printf(" %c%u:%u,%u", "?ab2"[op->limits], op -> caller,
						op -> cost[0], op -> cost[1]);
				printf(";");
			}
			printf("\n");
		}
	}
}
