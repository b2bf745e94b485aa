/*
 * Kills a process that uses a table in a file, at random instants, again and again.
 *
 *   parent --fork--> child: opens the table; two threads take, refund, settle, apply other limits
 *      |               | each admission is noted in memory that outlives it (witness)
 *      '---SIGKILL---->x
 *      looks through the witness: no window over L; the table was found valid each time
 *
 * An admission is noted after it was made, and struck out before it is refunded: so a kill between
 * the two leaves the table knowing of more than the witness, never of less. Time is a counter in
 * the same memory, so that a run doesn't depend on how fast the machine is. A thread's own is up to
 * 100 us behind it: what it is admitted counts as of the time it is recorded at, see time_of.
 *
 *   throttle_crash [KILLS]     40; THROTTLE_SEED=n, TMPDIR
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/throttle/oracle.h"
#include "throttle/throttle.h"

#define MS      UINT64_C(1000000)
#define START   (UINT64_C(1700000000) * 1000 * MS)
#define NOTES   (1 << 18)
#define CALLERS 5
#define THREADS 2
#define LIVES   8 /* of one table, that begins small */

enum { EXACT, DIVIDED, LARGE, IN_FLIGHT, LIMITS };

struct note {
	_Atomic(uint32_t) is_valid;
	uint32_t limit, caller;
	uint64_t at, cost;
};

struct witness {
	_Atomic(uint64_t) now;
	_Atomic(uint32_t) count; /* notes begun */
	_Atomic(int) found;      /* what opening said, -1: not open yet */
	_Atomic(int) in_flight[CALLERS];
	_Atomic(uint64_t) newest[LARGE + 1][CALLERS]; /* of the notes of this table's lives */
	_Atomic(bool) is_over;                        /* more in flight than may be */
	_Atomic(uint64_t) takes, applied, grown;
	char text[256];
	struct note notes[NOTES];
};

static struct witness *witness;
static char folder[256];

/* The forms that the limits take in turn: L and W stay, what is stored of them doesn't. */
static void make_limits(struct throttle_limit limits[LIMITS], unsigned form)
{
	static const uint32_t slots[][2] = {{0, 0}, {THROTTLE_EXACT, 10}, {40, 50}};

	memset(limits, 0, LIMITS * sizeof(limits[0]));
	strcpy(limits[EXACT].name, "exact");
	limits[EXACT].quota = 5;
	limits[EXACT].window_ns = 40 * MS;
	strcpy(limits[DIVIDED].name, "divided");
	limits[DIVIDED].quota = 60;
	limits[DIVIDED].window_ns = 100 * MS;
	limits[DIVIDED].slots = slots[form % 3][0];
	strcpy(limits[LARGE].name, "large");
	limits[LARGE].quota = 3000;
	limits[LARGE].window_ns = 70 * MS;
	limits[LARGE].slots = slots[form % 3][1];
	strcpy(limits[IN_FLIGHT].name, "in flight");
	limits[IN_FLIGHT].kind = THROTTLE_CONCURRENCY;
	limits[IN_FLIGHT].quota = 3;
}

static struct throttle_key key_of(const struct throttle_table *table, uint32_t caller)
{
	struct throttle_seed seed = throttle_table_seed(table);

	return throttle_hash(&seed, &caller, sizeof(caller));
}

static struct note *note(uint32_t limit, uint32_t caller, uint64_t at, uint64_t cost)
{
	uint32_t i = atomic_fetch_add(&witness->count, 1);
	struct note *n;

	if (i >= NOTES) /* the parent will come soon */
		for (;;)
			pause();
	n = &witness->notes[i];
	n->limit = limit;
	n->caller = caller;
	n->at = at;
	n->cost = cost;
	atomic_store(&n->is_valid, 1);
	for (uint64_t newest = atomic_load(&witness->newest[limit][caller]); newest < at;)
		if (atomic_compare_exchange_weak(&witness->newest[limit][caller], &newest, at))
			break;
	return n;
}

/* The time it was recorded at: the later of the thread's own and the newest that was recorded
 * before. Of that, at_ns says only the beginning of its tick, or of its quantum, which changes with
 * the form: what was noted before the take began is known better. */
static uint64_t time_of(const struct throttle_outcome *o, uint64_t now, uint64_t noted_before)
{
	uint64_t at = now > o->at_ns ? now : o->at_ns;

	return at > noted_before ? at : noted_before;
}

/* Rings: all or none of some of them, sometimes given back. */
static void take_rings(struct throttle_table *table, const int *ids, uint64_t *random)
{
	uint32_t caller = (uint32_t)oracle_below(random, CALLERS), count = 0, limits[LIMITS];
	struct throttle_charge charges[LIMITS];
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	struct note *notes[LIMITS];
	uint64_t noted_before[LIMITS], at;
	uint64_t now = atomic_load(&witness->now) - oracle_below(random, 100000);

	for (uint32_t limit = EXACT; limit <= LARGE; limit++) {
		if (oracle_below(random, 3) == 0)
			continue;
		limits[count] = limit;
		noted_before[count] = atomic_load(&witness->newest[limit][caller]);
		charges[count].limit = (uint32_t)ids[limit];
		charges[count].caller = key_of(table, caller);
		charges[count++].cost = limit == LARGE ? 1 + oracle_below(random, 100) : 1;
	}
	atomic_fetch_add(&witness->takes, 1);
	throttle_take(table, charges, count, now, &verdict, &receipt);
	if (!verdict.admitted)
		return;
	for (uint32_t i = 0; i < count; i++) {
		at = time_of(&verdict.outcome[i], now, noted_before[i]);
		notes[i] = note(limits[i], caller, at, charges[i].cost);
	}
	if (oracle_below(random, 6) == 0) {
		for (uint32_t i = 0; i < count; i++)
			atomic_store(&notes[i]->is_valid, 0);
		throttle_refund_all(table, &receipt, now);
	}
}

static void take_flight(struct throttle_table *table, const int *ids, uint64_t *random)
{
	uint32_t caller = (uint32_t)oracle_below(random, CALLERS);
	struct throttle_charge charge = {
		.limit = (uint32_t)ids[IN_FLIGHT], .caller = key_of(table, caller), .cost = 1};
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	uint64_t now = atomic_load(&witness->now);

	throttle_take(table, &charge, 1, now, &verdict, &receipt);
	if (!verdict.admitted)
		return;
	if (atomic_fetch_add(&witness->in_flight[caller], 1) >= 3)
		atomic_store(&witness->is_over, true);
	for (uint64_t i = oracle_below(random, 4); i > 0; i--)
		take_rings(table, ids, random);
	atomic_fetch_sub(&witness->in_flight[caller], 1);
	throttle_release(table, &receipt, now);
}

/* One of many who are not looked at, so that the table grows. */
static void crowd(struct throttle_table *table, const int *ids, uint64_t *random)
{
	struct throttle_verdict verdict;
	struct throttle_charge charge = {
		.limit = (uint32_t)ids[oracle_below(random, IN_FLIGHT)],
		.caller = key_of(table, (uint32_t)(1000 + oracle_below(random, 6000))),
		.cost = 1,
	};

	throttle_take(table, &charge, 1, atomic_load(&witness->now), &verdict, NULL);
}

struct worker {
	struct throttle_table *table;
	uint64_t random;
};

static void *work(void *argument)
{
	static const char *const names[] = {"exact", "divided", "large", "in flight"};
	struct worker *w = argument;
	int ids[LIMITS];

	for (int i = 0; i < LIMITS; i++)
		ids[i] = throttle_table_find(w->table, names[i]);
	for (;;) {
		if (oracle_below(&w->random, 2) == 0)
			crowd(w->table, ids, &w->random);
		if (oracle_below(&w->random, 8) == 0)
			take_flight(w->table, ids, &w->random);
		else
			take_rings(w->table, ids, &w->random);
		atomic_fetch_add(&witness->now, oracle_below(&w->random, 2000));
		if (oracle_below(&w->random, 3000) == 0)
			atomic_fetch_add(&witness->now, oracle_below(&w->random, 150 * MS));
	}
	return NULL;
}

/* Never returns. */
static void child(uint64_t random)
{
	struct throttle_limit limits[LIMITS];
	struct throttle_table_options options = {.folder = folder,
		.callers = 8000,
		.now_ns = atomic_load(&witness->now),
		.grows = true};
	struct throttle_report report;
	struct worker workers[THREADS];
	pthread_t thread;
	unsigned form = (unsigned)oracle_below(&random, 3);

	make_limits(limits, form);
	workers[0].table = throttle_table_open(&options, limits, LIMITS, &report);
	memcpy(witness->text, report.text, sizeof(witness->text));
	atomic_store(&witness->found, (int)report.found);
	if (workers[0].table == NULL)
		_exit(1);
	for (int i = 0; i < THREADS; i++) {
		workers[i].table = workers[0].table;
		workers[i].random = oracle_random(&random);
		pthread_create(&thread, NULL, work, &workers[i]);
	}
	for (;;) {
		usleep((useconds_t)oracle_below(&random, 4000));
		if (throttle_table_wants_growth(workers[0].table) && oracle_below(&random, 4) > 0) {
			if (throttle_table_grow(workers[0].table) == 0)
				atomic_fetch_add(&witness->grown, 1);
			continue;
		}
		make_limits(limits, ++form);
		if (throttle_table_apply(workers[0].table, limits, LIMITS, 0,
			    atomic_load(&witness->now), &report) == 0)
			atomic_fetch_add(&witness->applied, 1);
	}
}

/* What each caller was admitted of each limit, over all kills, as far back as matters. */
static struct oracle_log logs[LIMITS][CALLERS];

static int compare_notes(const void *a, const void *b)
{
	uint64_t x = ((const struct note *)a)->at, y = ((const struct note *)b)->at;

	return (x > y) - (x < y);
}

static int look_through(void)
{
	struct throttle_limit limits[LIMITS];
	uint32_t count = atomic_load(&witness->count);

	make_limits(limits, 0);
	count = count < NOTES ? count : NOTES;
	qsort(witness->notes, count, sizeof(witness->notes[0]), compare_notes);
	for (uint32_t i = 0; i < count; i++) {
		const struct note *n = &witness->notes[i];
		struct oracle_log *log = &logs[n->limit][n->caller];
		const struct throttle_limit *l = &limits[n->limit];
		uint64_t sum;

		if (!n->is_valid)
			continue;
		oracle_forget(log, n->at - 2 * l->window_ns);
		oracle_add(log, n->at, n->cost);
		sum = oracle_sum(log, n->at, l->window_ns);
		if (sum > l->quota) {
			printf("# %s: %llu in a window, the limit is %llu; at +%llu ns\n", l->name,
				(unsigned long long)sum, (unsigned long long)l->quota,
				(unsigned long long)(n->at - START));
			return -1;
		}
	}
	memset(witness->notes, 0, count * sizeof(witness->notes[0]));
	atomic_store(&witness->count, 0);
	return atomic_load(&witness->is_over) ? -1 : 0;
}

/* One life and death. */
static int one_kill(uint64_t *random, uint64_t *set_aside)
{
	struct timespec wait = {.tv_nsec = (long)oracle_below(random, 24 * MS)};
	bool in_opening = oracle_below(random, 8) == 0;
	uint64_t seed = oracle_random(random);
	pid_t pid;
	int status;

	atomic_store(&witness->found, -1);
	for (int i = 0; i < CALLERS; i++)
		atomic_store(&witness->in_flight[i], 0);
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		child(seed);
	if (in_opening)
		wait.tv_nsec /= 8;
	while (!in_opening && atomic_load(&witness->found) < 0)
		usleep(50);
	nanosleep(&wait, NULL);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) ||
		WTERMSIG(status) != SIGKILL) {
		printf("# the process ended by itself: status %x, %s\n", status, witness->text);
		return -1;
	}
	if (atomic_load(&witness->found) == THROTTLE_FOUND_SET_ASIDE) {
		printf("# set aside: %s\n", witness->text);
		++*set_aside;
	}
	return look_through();
}

/* Another table, which has yet to grow. */
static void begin_again(void)
{
	static const char *const names[] = {"throttle.table", "throttle.next"};
	char path[300];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	memset(logs, 0, sizeof(logs));
	memset(witness->newest, 0, sizeof(witness->newest));
}

int main(int argc, char **argv)
{
	uint64_t seed = oracle_seed("THROTTLE_SEED"), random = seed, set_aside = 0;
	uint64_t kills = argc > 1 ? strtoull(argv[1], NULL, 0) : 40, i;
	const char *parent = getenv("TMPDIR");
	char command[300];
	int result = 0;

	snprintf(folder, sizeof(folder), "%s/throttle-crash-XXXXXX", parent ? parent : "/tmp");
	if (mkdtemp(folder) == NULL)
		return 99;
	witness = mmap(
		NULL, sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (witness == MAP_FAILED)
		return 99;
	atomic_store(&witness->now, START);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..1\n# THROTTLE_SEED=%llu\n", (unsigned long long)seed);
	for (i = 0; i < kills && result == 0; i++) {
		if (i % LIVES == 0)
			begin_again();
		result = one_kill(&random, &set_aside);
	}
	if (set_aside > 0)
		result = -1;
	printf("# %llu kills, %llu takes, %llu changes of limits, %llu times grown\n",
		(unsigned long long)i, (unsigned long long)witness->takes,
		(unsigned long long)witness->applied, (unsigned long long)witness->grown);
	printf("%s 1 - no window over its limit across kills\n", result == 0 ? "ok" : "not ok");
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (result == 0 && system(command) != 0)
		result = -1;
	return result == 0 ? 0 : 1;
}
