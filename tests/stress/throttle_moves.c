/*
 * Threads take and refund while the limits change all the time.
 *
 *   thread, thread, ...   take, refund; clocks that are behind; each admission noted with its time
 *   the main thread       exact <-> divided <-> divided otherwise, again and again
 *
 * L and W stay the same, so that over it all no window may hold more than L. Time is a counter that
 * the threads push on themselves; a thread that has slept is as far behind as it may be. What such
 * a thread is admitted is recorded at the newest time, of which a divided limit knows the quantum
 * only: the admission happened somewhere in that before the call came back, and is one too many if
 * it is wherever it was.
 *
 *   throttle_moves [CHANGES [THREADS]]     100, 3; THROTTLE_SEED=n. Half a million admissions end
 * it, too.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/throttle/oracle.h"
#include "throttle/throttle.h"

#define MS          UINT64_C(1000000)
#define START       (UINT64_C(1700000000) * 1000 * MS)
#define NOTES       (1 << 19)
#define CALLERS     3
#define SLOTS       40
#define WINDOW      (50 * MS) /* of the divided limit */
#define NONE        UINT32_MAX
#define THREADS_MAX 16

enum { EXACT, DIVIDED, LIMITS };

struct note {
	uint64_t at, last; /* it happened between these */
	uint32_t limit, caller;
	uint32_t before; /* the one before it of that limit and caller */
	_Atomic(bool) is_valid;
};

static struct {
	struct throttle_table *table;
	_Atomic(uint64_t) now;
	_Atomic(uint32_t) count;
	_Atomic(bool) stop;
	_Atomic(unsigned) begun, ended; /* changes */
	struct note notes[NOTES];
} shared;

static void make_limits(struct throttle_limit limits[LIMITS], unsigned form)
{
	static const uint32_t slots[] = {0, THROTTLE_EXACT, SLOTS};

	memset(limits, 0, LIMITS * sizeof(limits[0]));
	strcpy(limits[EXACT].name, "exact");
	limits[EXACT].quota = 5;
	limits[EXACT].window_ns = 40 * MS;
	strcpy(limits[DIVIDED].name, "divided");
	limits[DIVIDED].quota = 60;
	limits[DIVIDED].window_ns = WINDOW;
	limits[DIVIDED].slots = slots[form % 3];
}

/* How long after `at` an admission may have happened, of a thread that was behind that and began
 * after the change `form`. */
static uint64_t doubt(uint32_t limit, unsigned form)
{
	if (limit == EXACT || (form % 3 == 1 && form == atomic_load(&shared.begun)))
		return 0;
	return WINDOW / 19; /* the widest quantum: of the default precision */
}

/* False: no room for more. */
static bool note(uint32_t limit, uint32_t caller, uint64_t at, uint64_t last)
{
	uint32_t i = atomic_fetch_add(&shared.count, 1);

	if (i >= NOTES)
		return false;
	shared.notes[i].limit = limit;
	shared.notes[i].caller = caller;
	shared.notes[i].at = at;
	shared.notes[i].last = last;
	atomic_store(&shared.notes[i].is_valid, true);
	return true;
}

static void *work(void *argument)
{
	uint64_t random = (uint64_t)(uintptr_t)argument;

	while (!atomic_load(&shared.stop)) {
		uint32_t caller = (uint32_t)oracle_below(&random, CALLERS);
		uint32_t first = (uint32_t)oracle_below(&random, 2), count = 0;
		unsigned form = atomic_load(&shared.ended);
		uint64_t now = atomic_load(&shared.now) - oracle_below(&random, 100000);
		struct throttle_seed seed = throttle_table_seed(shared.table);
		struct throttle_key key = throttle_hash(&seed, &caller, sizeof(caller));
		struct throttle_charge charges[LIMITS];
		struct throttle_verdict verdict;
		struct throttle_receipt receipt;
		uint64_t after;

		for (uint32_t limit = first; limit <= 1 && count <= oracle_below(&random, 2);
			limit++)
			charges[count++] =
				(struct throttle_charge){.limit = limit, .caller = key, .cost = 1};
		throttle_take(shared.table, charges, count, now, &verdict, &receipt);
		after = atomic_load(&shared.now);
		if (verdict.admitted && oracle_below(&random, 6) == 0)
			throttle_refund_all(shared.table, &receipt, now);
		else if (verdict.admitted)
			for (uint32_t i = 0; i < count; i++) {
				uint64_t at = verdict.outcome[i].at_ns;
				uint64_t last = at + doubt(charges[i].limit, form);

				at = now > at ? now : at;
				last = last < after ? last : after;
				if (!note(charges[i].limit, caller, at, at > last ? at : last))
					atomic_store(&shared.stop, true);
			}
		atomic_fetch_add(&shared.now, oracle_below(&random, 20000));
		if (oracle_below(&random, 3000) == 0)
			atomic_fetch_add(&shared.now, oracle_below(&random, 150 * MS));
	}
	return NULL;
}

static int compare_notes(const void *a, const void *b)
{
	uint64_t x = ((const struct note *)a)->last, y = ((const struct note *)b)->last;

	return (x > y) - (x < y);
}

/* How many there were surely in the window that ends with it. */
static uint64_t sum_until(const struct note *n, uint64_t window)
{
	uint64_t end = n->last, sum = 1;

	for (uint32_t i = n->before; i != NONE; i = shared.notes[i].before) {
		if (shared.notes[i].last + window <= end)
			break;
		sum += shared.notes[i].at + window > end;
	}
	return sum;
}

/* How many admissions were over the limit. */
static unsigned look_through(void)
{
	uint32_t newest[LIMITS][CALLERS], count = atomic_load(&shared.count);
	struct throttle_limit limits[LIMITS];
	unsigned over = 0;

	make_limits(limits, 0);
	memset(newest, 0xff, sizeof(newest));
	count = count < NOTES ? count : NOTES;
	qsort(shared.notes, count, sizeof(shared.notes[0]), compare_notes);
	for (uint32_t i = 0; i < count; i++) {
		struct note *n = &shared.notes[i];
		const struct throttle_limit *l = &limits[n->limit];
		uint64_t sum;

		if (!n->is_valid)
			continue;
		n->before = newest[n->limit][n->caller];
		newest[n->limit][n->caller] = i;
		sum = sum_until(n, l->window_ns);
		if (sum > l->quota && over++ == 0)
			printf("# %s: %llu in a window, the limit is %llu; at +%llu ns\n", l->name,
				(unsigned long long)sum, (unsigned long long)l->quota,
				(unsigned long long)(n->at - START));
	}
	printf("# %lu admissions\n", (unsigned long)count);
	return over;
}

int main(int argc, char **argv)
{
	unsigned changes = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 3, done = 0, over;
	struct throttle_table_options options = {.callers = 100, .now_ns = START};
	uint64_t random = oracle_seed("THROTTLE_SEED");
	struct throttle_limit limits[LIMITS];
	struct throttle_report report;
	pthread_t ids[THREADS_MAX];

	threads = threads < THREADS_MAX ? threads : THREADS_MAX;
	printf("1..1\n# THROTTLE_SEED=%llu\n", (unsigned long long)random);
	atomic_store(&shared.now, START);
	make_limits(limits, 0);
	shared.table = throttle_table_open(&options, limits, LIMITS, &report);
	if (shared.table == NULL) {
		printf("not ok 1 - %s\n", report.text);
		return 1;
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)oracle_random(&random));
	while (done < changes && !atomic_load(&shared.stop)) {
		make_limits(limits, ++done);
		atomic_store(&shared.begun, done);
		if (throttle_table_apply(shared.table, limits, LIMITS, 0, atomic_load(&shared.now),
			    &report) != 0)
			abort();
		atomic_store(&shared.ended, done);
		usleep(500);
	}
	atomic_store(&shared.stop, true);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	over = look_through();
	throttle_table_close(shared.table);
	printf("%s 1 - no window over its limit across %u changes\n", over == 0 ? "ok" : "not ok",
		done);
	return over == 0 ? 0 : 1;
}
