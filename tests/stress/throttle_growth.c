/*
 * Growth under attack: a process takes with threads from a table that grows, and changes its other
 * limits and its capacity in between, so that both tables split their buckets while callers move;
 * it is killed at any time, and the next one opens what it has left. The limits that are judged
 * never change, and all is in one window: no caller is ever admitted more often than its limit.
 *
 *   throttle_growth [LIVES] [SEED]
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

#include "throttle/throttle.h"

#define SECOND   UINT64_C(1000000000)
#define START    (UINT64_C(1700000000) * SECOND)
#define WINDOW   (100 * 86400 * SECOND) /* longer than all of this */
#define CALLERS  20000
#define FIRST    500 /* of them, at the beginning of a table; a tenth of a step more with each */
#define THREADS  2
#define JUDGED   3
#define LIMITS   (JUDGED + 2)
#define LIVES    8     /* of each table */
#define LIFE     40000 /* takes, at most, until it is killed */
#define CHANGE   3000  /* the same of what it takes in the middle of a change */
#define END_SECS 60
#define ENDED    (UINT64_MAX / 2) /* the turn of a thread that has */

static const uint32_t quotas[JUDGED] = {3, 4, 40};

/* What the processes and their judge share. */
struct shared {
	_Atomic(uint64_t) clock, steps;
	_Atomic(unsigned) admitted[JUDGED][CALLERS];
	_Atomic(uint64_t) openings, growths, changes, overflows;
	_Atomic(bool) is_ending, is_changing;
	_Atomic(int) error; /* of an opening */
};

static struct shared *shared;
static struct throttle_seed seed_of_keys;
static char folder[] = "/dev/shm/throttle-growth-XXXXXX";

struct worker {
	struct throttle_table *table;
	uint32_t limit[JUDGED];
	uint64_t random;
	_Atomic(uint64_t) turn;
};

static uint64_t random_below(uint64_t *state, uint64_t n)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % n;
}

/* The judged ones first; `variant` says what the others are. */
static size_t make_limits(struct throttle_limit limits[LIMITS], unsigned variant)
{
	memset(limits, 0, LIMITS * sizeof(limits[0]));
	for (unsigned i = 0; i < JUDGED; i++) {
		snprintf(limits[i].name, sizeof(limits[i].name), "judged%u", i);
		limits[i].quota = quotas[i];
		limits[i].window_ns = WINDOW;
	}
	limits[1].ban_count = 5;
	limits[1].ban_per_ns = limits[1].ban_for_ns = SECOND;
	limits[2].slots = 8;
	for (unsigned i = JUDGED; i < LIMITS; i++) {
		snprintf(limits[i].name, sizeof(limits[i].name), "other%u", i);
		limits[i].quota = 5 + (variant & 1);
		limits[i].window_ns = SECOND << (variant >> 1 & 1);
	}
	return LIMITS - (variant >> 2 & 1);
}

static void take_some(struct worker *w)
{
	struct throttle_charge charges[JUDGED];
	struct throttle_verdict verdict;
	uint64_t known = FIRST + atomic_fetch_add(&shared->steps, 1) / 10;
	uint64_t caller = random_below(&w->random, known < CALLERS ? known : CALLERS);
	unsigned which[JUDGED];
	size_t count = 0;

	for (unsigned i = 0; i < JUDGED; i++)
		if (random_below(&w->random, 2) == 0) {
			which[count] = i;
			charges[count++] = (struct throttle_charge){.limit = w->limit[i],
				.caller = throttle_hash(&seed_of_keys, &caller, sizeof(caller)),
				.cost = 1};
		}
	throttle_take(w->table, charges, count,
		atomic_fetch_add(&shared->clock, random_below(&w->random, 20000)), &verdict, NULL);
	for (size_t i = 0; i < count; i++) {
		atomic_fetch_add(&shared->overflows, verdict.outcome[i].overflow);
		if (verdict.admitted)
			atomic_fetch_add(&shared->admitted[which[i]][caller], 1);
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;

	while (!atomic_load(&shared->is_ending)) {
		atomic_fetch_add(&w->turn, 1);
		take_some(w);
	}
	atomic_store(&w->turn, ENDED);
	return NULL;
}

/* Until all threads have left the calls that they were in. */
static void wait_for_turns(struct worker workers[THREADS])
{
	for (unsigned i = 0; i < THREADS; i++) {
		uint64_t was = atomic_load(&workers[i].turn);

		while (was < ENDED && atomic_load(&workers[i].turn) < was + 2)
			usleep(50);
	}
}

static struct throttle_table *open_table(unsigned variant)
{
	struct throttle_limit limits[LIMITS];
	size_t count = make_limits(limits, variant);
	const struct throttle_table_options options = {
		.folder = folder,
		.callers = CALLERS,
		.now_ns = atomic_load(&shared->clock),
		.grows = true,
		.seed = &seed_of_keys,
	};
	struct throttle_report report;
	struct throttle_table *table = throttle_table_open(&options, limits, count, &report);

	if (table == NULL || report.found == THROTTLE_FOUND_SET_ASIDE) {
		printf("# %s\n", report.text);
		atomic_store(&shared->error, table == NULL ? errno : EBADMSG);
		_exit(1);
	}
	atomic_fetch_add(&shared->openings, 1);
	return table;
}

static void change_limits(struct throttle_table *table, uint64_t *random)
{
	struct throttle_limit limits[LIMITS];
	size_t count = make_limits(limits, (unsigned)random_below(random, 8));
	uint64_t more = random_below(random, 4) == 0 ? CALLERS + random_below(random, CALLERS) : 0;

	atomic_store(&shared->is_changing, true);
	if (throttle_table_apply(table, limits, count, more, atomic_load(&shared->clock), NULL) ==
		0)
		atomic_fetch_add(&shared->changes, 1);
	atomic_store(&shared->is_changing, false);
}

/* Until it is killed. */
static _Noreturn void live(uint64_t random)
{
	struct throttle_table *table = open_table((unsigned)random_below(&random, 8));
	struct worker workers[THREADS] = {0};
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		char name[THROTTLE_NAME_BYTES];

		workers[i].table = table;
		workers[i].random = random_below(&random, UINT64_MAX);
		for (unsigned n = 0; n < JUDGED; n++) {
			snprintf(name, sizeof(name), "judged%u", n);
			workers[i].limit[n] = (uint32_t)throttle_table_find(table, name);
		}
		if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
			_exit(1);
	}
	while (!atomic_load(&shared->is_ending)) {
		usleep((useconds_t)random_below(&random, 300));
		if (throttle_table_wants_growth(table) && throttle_table_grow(table) == 0)
			atomic_fetch_add(&shared->growths, 1);
		if (random_below(&random, 3) == 0)
			change_limits(table, &random);
		if (random_below(&random, 2) == 0) {
			wait_for_turns(workers);
			throttle_table_collect(table);
		}
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	throttle_table_close(table);
	_exit(0);
}

/* 0, or what it has died of. */
static int wait_for(pid_t pid)
{
	time_t end = time(NULL) + END_SECS;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (time(NULL) > end) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			printf("# it did not end\n");
			return 1;
		}
		usleep(1000);
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		printf("# it died of signal %d\n", WTERMSIG(status));
	return WIFSIGNALED(status) ? WTERMSIG(status) % SIGKILL : WEXITSTATUS(status);
}

/* Until it has taken so often; in the middle of a change, where that is wanted; or died. */
static void let_it_live(pid_t pid, uint64_t *random)
{
	bool is_changing = random_below(random, 2) == 0;
	uint64_t steps = atomic_load(&shared->steps) + random_below(random, LIFE);
	siginfo_t info = {0};

	while (info.si_pid == 0 && (atomic_load(&shared->steps) < steps ||
					   (is_changing && !atomic_load(&shared->is_changing)))) {
		usleep(100);
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
	}
	steps = atomic_load(&shared->steps) + random_below(random, CHANGE);
	while (info.si_pid == 0 && atomic_load(&shared->is_changing) &&
		atomic_load(&shared->steps) < steps) {
		usleep(50);
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
	}
}

static int live_and_die(uint64_t *random, bool is_last)
{
	uint64_t seed = random_below(random, UINT64_MAX);
	pid_t pid;

	atomic_store(&shared->is_changing, false);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		live(seed);
	if (pid < 0)
		return errno;
	let_it_live(pid, random);
	if (is_last)
		atomic_store(&shared->is_ending, true);
	else
		kill(pid, SIGKILL);
	return wait_for(pid);
}

static unsigned judge(void)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < JUDGED; i++)
		for (unsigned caller = 0; caller < CALLERS; caller++) {
			unsigned n = atomic_load(&shared->admitted[i][caller]);

			if (n > quotas[i] && wrong++ < 5)
				printf("# caller %u: %u in a window, the limit is %u\n", caller, n,
					quotas[i]);
		}
	return wrong;
}

static bool attack(unsigned lives, uint64_t *random)
{
	char command[64];
	int died = 0;

	memset(shared, 0, sizeof(*shared));
	atomic_store(&shared->clock, START);
	memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
	if (mkdtemp(folder) == NULL)
		return false;
	for (unsigned life = 1; life <= lives && died == 0; life++)
		died = live_and_die(random, life == lives);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) == 0 && died == 0 && judge() == 0 &&
	       atomic_load(&shared->error) == 0;
}

int main(int count, char **arguments)
{
	unsigned lives = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 0) : LIVES;
	uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 0) : (uint64_t)time(NULL);
	uint64_t random = seed;
	bool is_right = true;

	printf("1..1\n# throttle_growth %u %llu\n", lives, (unsigned long long)seed);
	seed_of_keys = (struct throttle_seed){seed, 2};
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	for (; lives > 0 && is_right; lives -= lives < LIVES ? lives : LIVES) {
		is_right = attack(lives < LIVES ? lives : LIVES, &random);
		printf("# %llu takes, %llu openings, %llu growths, %llu changes, %llu overflowed\n",
			(unsigned long long)atomic_load(&shared->steps),
			(unsigned long long)atomic_load(&shared->openings),
			(unsigned long long)atomic_load(&shared->growths),
			(unsigned long long)atomic_load(&shared->changes),
			(unsigned long long)atomic_load(&shared->overflows));
	}
	printf("%sok 1 - growth, changes and kills forgive nobody\n", is_right ? "" : "not ");
	return is_right ? 0 : 1;
}
