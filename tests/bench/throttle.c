/*
 * What a verdict costs, beside two yardsticks of the same run: a mutex around a plain ring in a map
 * (throttle_plain.h), and one uncontended atomic addition.
 *
 *   round 1: every subject once, round 2: every subject once, ...  --> for each the median round
 *
 * All subjects meet the same weather that way. One thread's time is its own processor time. Two
 * threads are timed by the wall, and only rounds count in which both had a processor throughout:
 * how many did is printed. The clock isn't read in what is measured, but once in 16 decisions where
 * two threads need the same one.
 *
 *   throttle [--smoke]      smoke: everything once, for make check
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/bench/throttle_plain.h"

#define ROUNDS_MAX 101
#define SECOND     UINT64_C(1000000000)
#define START      (UINT64_C(1700000000) * SECOND)
#define LIMITS_MAX 4
#define AHEAD_MAX  16
#define TRIES      5    /* that a round of two threads has to find two processors free */
#define PACE       8000 /* two threads: the table's ns in one of the clock's */

enum subject_kind { LOOP, ADD, HASH, PLAIN, TAKE };

struct subject {
	const char *name;
	enum subject_kind kind;
	unsigned threads, limits;
	unsigned ahead;   /* how many decisions before its own a caller is asked for; 0 = not */
	uint64_t callers; /* a power of two, drawn at random */
	uint64_t step_ns; /* that a decision takes of the table's time */
	struct throttle_limit limit[LIMITS_MAX];

	struct throttle_table *table;
	struct plain_map plain;
	uint64_t now, begin, admitted, decided, draws;
	unsigned count;
	double ns[ROUNDS_MAX];
};

static uint64_t decisions = 20000;
static unsigned rounds = ROUNDS_MAX;

static double read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Keys are computed, so that no memory but the table's is gone through. */
static struct throttle_key key_of(const struct subject *s, uint64_t draw)
{
	uint64_t caller = s->callers > 1 ? mix(draw) & (s->callers - 1) : 0;

	return (struct throttle_key){.hi = caller, .lo = mix(caller * 0x9e3779b97f4a7c15u + 1)};
}

/* ---- one thread's decisions of one round ----------------------------------------------------- */

struct share {
	struct subject *subject;
	uint64_t draw, admitted;
	double wall_ns, cpu_ns;
};

/* The table's time of two threads that have nothing else in common. */
static uint64_t shared_time(const struct subject *s, uint64_t i, uint64_t now)
{
	uint64_t clock;

	if (s->threads == 1 || s->step_ns <= 1 || i % 16 != 0)
		return now + s->step_ns;
	clock = START + ((uint64_t)read_clock(CLOCK_MONOTONIC) - s->begin) * PACE;
	return clock > now ? clock : now;
}

/* What a thread decides with. Not to depend on where the stack happens to be: a store across two
 * lines takes longer. */
struct desk {
	_Alignas(64) struct throttle_charge charges[LIMITS_MAX];
	_Alignas(64) struct throttle_verdict verdict;
	_Alignas(64) struct throttle_receipt receipt;
};

/* Neither draws a caller nor needs another thread's time. */
static bool is_alone(const struct subject *s)
{
	return s->callers == 1 && (s->threads == 1 || s->step_ns <= 1);
}

/* One caller, one thread, or refusals: as little as can be beside the decision. Gives how many were
 * admitted. */
static uint64_t take_alone(const struct subject *s, struct desk *desk, uint64_t n)
{
	struct throttle_table *table = s->table;
	const uint64_t limits = s->limits, step = s->step_ns;
	uint64_t admitted = 0, now = s->now;

	for (uint64_t i = 0; i < n; i++) {
		now += step;
		throttle_take(table, desk->charges, limits, now, &desk->verdict, &desk->receipt);
		admitted += desk->verdict.admitted;
	}
	return admitted;
}

/* The same without the decision. */
static uint64_t loop_alone(const struct subject *s, struct desk *desk, uint64_t n)
{
	const uint64_t step = s->step_ns;
	uint64_t admitted = 0, now = s->now;

	for (uint64_t i = 0; i < n; i++) {
		now += step;
		/* The compiler is to believe that the verdict is made of the charges. */
		__asm__ volatile("" : : "r"(desk), "r"(now) : "memory");
		admitted += desk->verdict.admitted;
	}
	return admitted;
}

/* The yardstick as plainly. */
static uint64_t take_plain_alone(struct subject *s, uint64_t n)
{
	const struct throttle_key key = key_of(s, 0);
	const uint64_t step = s->step_ns, window = s->limit[0].window_ns;
	uint64_t admitted = 0, now = s->now;

	for (uint64_t i = 0; i < n; i++) {
		now += step;
		admitted += plain_take(&s->plain, key, now, window);
	}
	return admitted;
}

/* Many callers or threads. Who is asked for ahead has its key computed then, once. */
static uint64_t take_among(const struct share *share, struct desk *desk, uint64_t n)
{
	const struct subject *s = share->subject;
	struct throttle_key keys[AHEAD_MAX];
	uint64_t admitted = 0, now = s->now;

	for (uint64_t i = 0; i < s->ahead; i++)
		keys[i] = key_of(s, share->draw + i);
	for (uint64_t i = 0; i < n; i++) {
		struct throttle_key *key = &keys[(i + s->ahead) % AHEAD_MAX];

		now = shared_time(s, i, now);
		if (s->callers > 1)
			*key = key_of(s, share->draw + i + s->ahead);
		if (s->ahead > 0)
			throttle_prefetch(s->table, 0, *key);
		if (s->callers > 1)
			desk->charges[0].caller = keys[i % AHEAD_MAX];
		throttle_take(
			s->table, desk->charges, s->limits, now, &desk->verdict, &desk->receipt);
		admitted += desk->verdict.admitted;
	}
	return admitted;
}

static uint64_t take_plain(const struct share *share, uint64_t n)
{
	struct subject *s = share->subject;
	uint64_t admitted = 0, now = s->now;

	for (uint64_t i = 0; i < n; i++) {
		now = shared_time(s, i, now);
		admitted += plain_take(
			&s->plain, key_of(s, share->draw + i), now, s->limit[0].window_ns);
	}
	return admitted;
}

static uint64_t add(uint64_t n)
{
	static _Atomic(uint64_t) counter;

	for (uint64_t i = 0; i < n; i++)
		atomic_fetch_add(&counter, i);
	return 0;
}

static uint64_t hash(const struct subject *s, uint64_t n)
{
	char key[32] = "key-0123456789abcdef";
	struct throttle_seed seed = throttle_table_seed(s->table);
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		memcpy(key + 4, &i, sizeof(i));
		sum += throttle_hash(&seed, key, 20).lo;
	}
	return sum == 1; /* so that the sum is needed */
}

static void decide(struct share *share, uint64_t n)
{
	struct subject *s = share->subject;
	struct desk desk = {0};

	for (uint32_t i = 0; i < LIMITS_MAX; i++)
		desk.charges[i] =
			(struct throttle_charge){.limit = i, .caller = key_of(s, 0), .cost = 1};
	switch (s->kind) {
	case LOOP:
		share->admitted = loop_alone(s, &desk, n);
		break;
	case ADD:
		share->admitted = add(n);
		break;
	case HASH:
		share->admitted = hash(s, n);
		break;
	case PLAIN:
		share->admitted = is_alone(s) ? take_plain_alone(s, n) : take_plain(share, n);
		break;
	case TAKE:
		share->admitted =
			is_alone(s) ? take_alone(s, &desk, n) : take_among(share, &desk, n);
	}
	share->draw += n;
}

static void decide_timed(struct share *share)
{
	double wall = read_clock(CLOCK_MONOTONIC), cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);

	decide(share, decisions);
	share->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
	share->wall_ns = read_clock(CLOCK_MONOTONIC) - wall;
}

/* ---- the second thread: there for the whole run, decides when told --------------------------- */

static struct {
	_Alignas(64) _Atomic(uint64_t) told;
	_Alignas(64) _Atomic(uint64_t) done;
	_Alignas(64) struct share share;
} second;

#define TOLD_TO_END UINT64_MAX

static void *second_thread(void *unused)
{
	uint64_t told = 0, last = 0;

	(void)unused;
	for (;;) {
		struct timespec nap = {.tv_nsec = 20000};

		/* Asleep between its rounds, but awake when one begins. */
		for (unsigned spins = 0; (told = atomic_load(&second.told)) == last; spins++)
			if (spins > 200000)
				nanosleep(&nap, NULL);
		if (told == TOLD_TO_END)
			return NULL;
		decide_timed(&second.share);
		atomic_store(&second.done, last = told);
	}
}

/* Both threads at once. False: one of them had to wait for a processor. */
static bool decide_together(struct subject *s, double *ns)
{
	struct share first = {.subject = s, .draw = s->draws};
	double wall = read_clock(CLOCK_MONOTONIC);

	second.share = (struct share){.subject = s, .draw = s->draws + decisions};
	atomic_fetch_add(&second.told, 1);
	decide_timed(&first);
	while (atomic_load(&second.done) != atomic_load(&second.told))
		;
	wall = read_clock(CLOCK_MONOTONIC) - wall;
	*ns = wall / (double)(2 * decisions);
	s->admitted += first.admitted + second.share.admitted;
	s->decided += 2 * decisions;
	s->draws += 2 * decisions;
	return rounds == 1 || (wall < 1.15 * first.cpu_ns && wall < 1.15 * second.share.cpu_ns);
}

static void one_round(struct subject *s)
{
	struct share alone = {.subject = s, .draw = s->draws};
	bool is_done = false;

	if (s->threads == 1) {
		decide_timed(&alone);
		s->ns[s->count++] = alone.cpu_ns / (double)decisions;
		s->admitted += alone.admitted;
		s->decided += decisions;
		s->draws += decisions;
	}
	for (int tries = 0; s->threads > 1 && tries < TRIES && !is_done; tries++) {
		is_done = decide_together(s, &s->ns[s->count]);
		s->count += is_done;
		s->now += decisions * s->step_ns;
	}
	s->now += decisions * s->step_ns;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void prepare(struct subject *s)
{
	struct throttle_table_options options = {.callers = s->callers, .now_ns = START};
	struct throttle_charge charge = {.cost = 1};
	struct throttle_verdict verdict;

	for (unsigned i = 0; i < LIMITS_MAX; i++)
		snprintf(s->limit[i].name, sizeof(s->limit[i].name), "limit-%u", i);
	while (s->limits < LIMITS_MAX && s->limit[s->limits].quota > 0)
		s->limits++;
	s->table = throttle_table_open(&options, s->limit, s->limits, NULL);
	if (s->table == NULL) {
		perror("open");
		exit(1);
	}
	s->now = START;
	s->begin = (uint64_t)read_clock(CLOCK_MONOTONIC);
	plain_init(&s->plain, s->kind == PLAIN ? s->callers : 1);
	/* Every caller is there before anything is measured. */
	for (uint64_t caller = 0; caller < s->callers; caller++) {
		charge.caller = (struct throttle_key){
			.hi = caller, .lo = mix(caller * 0x9e3779b97f4a7c15u + 1)};
		if (s->kind == PLAIN)
			plain_take(&s->plain, charge.caller, s->now, s->limit[0].window_ns);
		else if (s->kind == TAKE)
			throttle_take(s->table, &charge, 1, s->now, &verdict, NULL);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(struct subject *s)
{
	qsort(s->ns, s->count, sizeof(s->ns[0]), compare);
	printf("%-50s ", s->name);
	if (s->count == 0) {
		printf("  not measured: two processors were never free at once\n");
		return;
	}
	printf("%7.1f ns  (best %6.1f", s->ns[s->count / 2], s->ns[0]);
	if (s->kind == PLAIN || s->kind == TAKE)
		printf(", %3.0f%% admitted", 100.0 * (double)s->admitted / (double)s->decided);
	if (s->count < rounds)
		printf(", %u rounds of %u", s->count, rounds);
	printf(")\n");
}

#define RING20(window_ms)                                                                          \
	{                                                                                          \
		.quota = 20, .window_ns = (window_ms)*SECOND / 1000                                \
	}
#define DIVIDED(l, seconds)                                                                        \
	{                                                                                          \
		.quota = (l), .window_ns = (seconds)*SECOND                                        \
	}
#define MILLION (1u << 20)

/* One limit unless it says otherwise. */
#define SUBJECT(a_name, a_kind, a_threads, a_number_of_callers, a_step_ns, ...)                    \
	{                                                                                          \
		.name = (a_name), .kind = (a_kind), .threads = (a_threads), .limits = 1,           \
		.callers = (a_number_of_callers), .step_ns = (a_step_ns), .limit = {               \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

static struct subject subjects[] = {
	SUBJECT("yardstick: the loop around each decision", LOOP, 1, 1, 1, RING20(1000)),
	SUBJECT("yardstick: an atomic addition, alone", ADD, 1, 1, 1, RING20(1000)),
	SUBJECT("yardstick: mutex, one caller", PLAIN, 1, 1, 100000, RING20(1)),
	SUBJECT("yardstick: mutex, one caller, refused", PLAIN, 1, 1, 1, RING20(1000000)),
	SUBJECT("yardstick: mutex, one caller, 2 threads", PLAIN, 2, 1, 100000, RING20(1)),
	SUBJECT("yardstick: mutex, refused, 2 threads", PLAIN, 2, 1, 1, RING20(1000000)),
	SUBJECT("yardstick: mutex, 1M callers", PLAIN, 1, MILLION, 100, RING20(1)),
	SUBJECT("hashing a key of 20 bytes", HASH, 1, 1, 1, RING20(1000)),
	SUBJECT("one caller, ring of 20", TAKE, 1, 1, 100000, RING20(1)),
	SUBJECT("one caller, ring of 20, refused", TAKE, 1, 1, 1, RING20(1000000)),
	SUBJECT("one caller, divided, 1M per 1s", TAKE, 1, 1, 2000, DIVIDED(1000000, 1)),
	SUBJECT("one caller, ring of 20, 2 threads", TAKE, 2, 1, 100000, RING20(1)),
	SUBJECT("one caller, ring of 20, refused, 2 threads", TAKE, 2, 1, 1, RING20(1000000)),
	SUBJECT("one caller, divided, 1M per 1s, 2 threads", TAKE, 2, 1, 4000, DIVIDED(1000000, 1)),
	SUBJECT("1M callers, ring of 20", TAKE, 1, MILLION, 100, RING20(1)),
	{.name = "1M callers, ring of 20, asked for ahead",
		.kind = TAKE,
		.threads = 1,
		.limits = 1,
		.ahead = 8,
		.callers = MILLION,
		.step_ns = 100,
		.limit = {RING20(1)}},
	SUBJECT("1M callers, divided, 1000 per 1s", TAKE, 1, MILLION, 100, DIVIDED(1000, 1)),
	SUBJECT("four limits at once: a ring of 20, three divided", TAKE, 1, 1, 100000, RING20(1),
		DIVIDED(100000, 1), DIVIDED(1000000, 10), DIVIDED(100000000, 100)),
	SUBJECT("four limits at once: rings of 20", TAKE, 1, 1, 100000, RING20(1), RING20(1),
		RING20(1), RING20(1)),
};

#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

int main(int argc, char **argv)
{
	struct throttle_limit thousand = DIVIDED(1000, 1);
	pthread_t thread;

	if (argc > 1 && strcmp(argv[1], "--smoke") == 0) {
		rounds = 1;
		decisions = 1000;
		for (size_t i = 0; i < SUBJECTS; i++)
			subjects[i].callers = subjects[i].callers > 1 ? 1u << 12 : 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pthread_create(&thread, NULL, second_thread, NULL) != 0)
		return 1;
	for (size_t i = 0; i < SUBJECTS; i++)
		prepare(&subjects[i]);
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < SUBJECTS; i++)
			one_round(&subjects[i]);
	atomic_store(&second.told, TOLD_TO_END);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < SUBJECTS; i++) {
		print(&subjects[i]);
		throttle_table_close(subjects[i].table);
		plain_free(&subjects[i].plain);
	}
	printf("%-50s %7zu bytes (quota 20), %zu (1000), %zu (1000000)\n", "memory for a caller",
		throttle_limit_bytes(&subjects[8].limit[0]), throttle_limit_bytes(&thousand),
		throttle_limit_bytes(&subjects[10].limit[0]));
	return 0;
}
