/* The table as a whole: restarts, files that can't be trusted, limits that change, floods. */
#include "fixture.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

#define TABLE_FILE "throttle.table"

static uint64_t used(struct throttle_table *t, uint32_t limit, uint64_t caller, uint64_t now)
{
	struct throttle_outcome o;

	throttle_explain(t, limit, key_of(t, caller), now, &o);
	return o.quota - o.remaining;
}

static void test_restart(void **state)
{
	struct throttle_limit limits[2] = {ring("a", 5, 60 * SECOND), ring("b", 500, 60 * SECOND)};
	struct throttle_charge charges[2] = {{.limit = 0, .cost = 1}, {.limit = 1, .cost = 3}};
	struct throttle_table *t = open_table(folder, 1, limits, 2);
	struct throttle_verdict v;

	(void)state;
	charges[0].caller = charges[1].caller = key_of(t, 7);
	for (int i = 0; i < 4; i++)
		throttle_take(t, charges, 2, START + i * SECOND, &v, NULL);
	throttle_table_close(t);
	t = open_table(folder, 1, limits, 2);
	assert_int_equal(used(t, 0, 7, START + 4 * SECOND), 4);
	assert_int_equal(used(t, 1, 7, START + 4 * SECOND), 12);
	throttle_table_close(t);
	/* The clock was set back an hour meanwhile: time continues from where it was. */
	{
		struct throttle_table_options options = {
			.folder = folder, .callers = 1, .now_ns = START - 3600 * SECOND};

		t = throttle_table_open(&options, limits, 2, NULL);
	}
	assert_int_equal(used(t, 0, 7, START - 3600 * SECOND), 4);
	assert_int_equal(used(t, 0, 7, START - 3600 * SECOND + 70 * SECOND), 0);
	throttle_table_close(t);
}

static void spoil(size_t at, const void *bytes, size_t count, off_t size)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "%s/" TABLE_FILE, folder);
	file = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(file >= 0);
	if (size > 0)
		assert_int_equal(ftruncate(file, size), 0);
	assert_int_equal(pwrite(file, bytes, count, (off_t)at), (ssize_t)count);
	close(file);
}

static void expect_found(enum throttle_found found)
{
	struct throttle_limit limit = ring("a", 5, 60 * SECOND);
	struct throttle_table_options options = {.folder = folder, .callers = 1, .now_ns = START};
	struct throttle_report report;
	struct throttle_table *t = throttle_table_open(&options, &limit, 1, &report);

	assert_non_null(t);
	printf("# %s\n", report.text);
	assert_int_equal(report.found, found);
	assert_true(take_one(t, 1, 1, START, NULL));
	throttle_table_close(t);
}

static off_t size_of(const char *name)
{
	struct stat status;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return stat(path, &status) == 0 ? status.st_size : -1;
}

/* An operator who returns to the other version finds its files whole. */
static void test_another_version(void **state)
{
	struct throttle_limit limit = ring("a", 5, 60 * SECOND);
	struct throttle_table_options options = {.folder = folder, .callers = 1, .now_ns = START};
	struct throttle_report report;
	char path[128];
	FILE *next;

	(void)state;
	expect_found(THROTTLE_FOUND_NONE);
	off_t size = size_of(TABLE_FILE);
	spoil(8, "\x02", 1, 0);
	snprintf(path, sizeof(path), "%s/throttle.next", folder);
	next = fopen(path, "w");
	assert_non_null(next);
	assert_true(fputs("what callers were being moved to", next) >= 0);
	assert_int_equal(fclose(next), 0);
	struct throttle_table *t = throttle_table_open(&options, &limit, 1, &report);
	assert_non_null(t);
	throttle_table_close(t);
	assert_int_equal(report.found, THROTTLE_FOUND_SET_ASIDE);
	assert_string_equal(report.text,
		"the file throttle.table was set aside, all counters begin again: "
		"it has another version: 2, expected 1");
	assert_int_equal(size_of("throttle.table.set-aside"), size);
	assert_int_equal(size_of("throttle.next.set-aside"), 32);
	expect_found(THROTTLE_FOUND_TABLE);
}

static void test_untrusted_files(void **state)
{
	char garbage[8192];
	uint64_t seed = random_seed("garbage");

	(void)state;
	expect_found(THROTTLE_FOUND_NONE);
	expect_found(THROTTLE_FOUND_TABLE);
	spoil(0, "garbage!", 8, 0);
	expect_found(THROTTLE_FOUND_SET_ASIDE);
	spoil(0, "ELTTORHT", 8, 0); /* the other byte order, whichever this is */
	expect_found(THROTTLE_FOUND_SET_ASIDE);
	spoil(0, "", 0, 100);
	expect_found(THROTTLE_FOUND_SET_ASIDE);
	spoil(0, "", 0, 1 << 20);
	expect_found(THROTTLE_FOUND_SET_ASIDE);
	spoil(40, "seed", 4, 0);
	expect_found(THROTTLE_FOUND_SET_ASIDE);
	/* Garbage behind a good header can cost counters, never more. */
	for (int round = 0; round < 20; round++) {
		expect_found(round == 0 ? THROTTLE_FOUND_TABLE : THROTTLE_FOUND_TABLE);
		for (size_t i = 0; i < sizeof(garbage); i++)
			garbage[i] = (char)random_next(&seed);
		for (size_t at = 8192; at < 200000; at += sizeof(garbage))
			spoil(at, garbage, sizeof(garbage), 0);
		{
			struct throttle_limit limit = ring("a", 5, 60 * SECOND);
			struct throttle_table *t = open_table(folder, 1, &limit, 1);

			for (uint64_t caller = 0; caller < 10000; caller++)
				take_one(t, caller, 1, START + caller * MS, NULL);
			throttle_table_close(t);
		}
		remove_folder(NULL);
		assert_int_equal(mkdir(folder, 0700), 0);
		expect_found(THROTTLE_FOUND_NONE);
	}
}

/* Every kind of limit on garbage: verdicts may be wrong, but there are some. */
static void test_garbage(void **state)
{
	struct throttle_limit limits[7];
	uint64_t seed = random_seed("garbage of each kind"), bytes = 0;
	char garbage[4096], path[128];

	(void)state;
	limits[0] = ring("short", 5, 60 * SECOND);
	limits[1] = ring("long", 500, 60 * SECOND);
	limits[1].slots = THROTTLE_EXACT;
	limits[2] = ring("divided", 100000, 60 * SECOND);
	limits[3] = limits[4] = limits[5] = limits[6] = ring("other", 50, 60 * SECOND);
	limits[3].kind = THROTTLE_GCRA;
	limits[4].kind = THROTTLE_CALENDAR;
	limits[5].kind = THROTTLE_CONCURRENCY;
	limits[6].ban_count = 3;
	limits[6].ban_per_ns = limits[6].ban_for_ns = 60 * SECOND;
	for (size_t i = 0; i < 70; i++) {
		struct throttle_table *t = open_table(folder, 1, &limits[i % 7], 1);
		struct throttle_counters counters;

		throttle_table_counters(t, 0, &counters);
		bytes = counters.bytes;
		throttle_table_close(t);
		/* Behind the header and the counts. */
		for (size_t at = 8192; at < 8192 + bytes; at += sizeof(garbage)) {
			for (size_t b = 0; b < sizeof(garbage); b += 8) {
				uint64_t word = random_next(&seed) << random_below(&seed, 64);

				memcpy(&garbage[b], &word, 8);
			}
			spoil(at, garbage, sizeof(garbage), 0);
		}
		t = open_table(folder, 1, &limits[i % 7], 1);
		for (uint64_t caller = 0; caller < 4000; caller++) {
			struct throttle_charge charge = {.caller = key_of(t, caller), .cost = 1};
			uint64_t now = START + caller * 50 * MS;
			struct throttle_verdict v;
			struct throttle_receipt receipt;

			throttle_take(t, &charge, 1, now, &v, &receipt);
			throttle_take(t, &charge, 1, now, &v, NULL);
			throttle_refund_all(t, &receipt, now);
		}
		/* And changed to another kind, with what is to be made of it. */
		assert_int_equal(throttle_table_apply(t, &limits[(i + 1 + i / 7) % 7], 1, 0,
					 START + 300 * SECOND, NULL),
			0);
		throttle_table_close(t);
		snprintf(path, sizeof(path), "%s/" TABLE_FILE, folder);
		unlink(path);
	}
}

static void test_unusable_folder(void **state)
{
	struct throttle_limit limit = ring("a", 5, 60 * SECOND);
	struct throttle_table_options options = {
		.folder = "there/is/no/such/folder", .callers = 1, .now_ns = START};
	struct throttle_report report;
	struct throttle_table *t;

	(void)state;
	assert_null(throttle_table_open(&options, &limit, 1, &report));
	assert_int_equal(errno, ENOENT);
	options.memory_if_unwritable = true;
	t = throttle_table_open(&options, &limit, 1, &report);
	assert_non_null(t);
	assert_int_equal(report.found, THROTTLE_FOUND_UNUSABLE);
	throttle_table_close(t);
}

/* From every kind to every other: what was admitted still counts. */
static void test_changes(void **state)
{
	struct throttle_limit shapes[8];
	size_t n = 0;

	(void)state;
	shapes[n++] = ring("x", 18, 60 * SECOND);
	shapes[n++] = ring("x", 1000, 60 * SECOND);
	shapes[n++] = ring("x", 12, 60 * SECOND);
	shapes[n] = ring("x", 700, 90 * SECOND);
	shapes[n++].slots = THROTTLE_EXACT;
	shapes[n] = ring("x", 700, 3600 * SECOND);
	shapes[n++].slots = 100;
	shapes[n] = ring("x", 50, 60 * SECOND);
	shapes[n++].burst = 40;
	shapes[n - 1].kind = THROTTLE_GCRA;
	shapes[n] = ring("x", 100, 0);
	shapes[n++].kind = THROTTLE_CALENDAR;
	shapes[n - 1].period = THROTTLE_DAY;
	for (size_t from = 0; from < n; from++)
		for (size_t to = 0; to < n; to++) {
			struct throttle_table *t = open_table(folder, 100, &shapes[from], 1);
			uint64_t now = START + SECOND, before, after;

			for (uint64_t caller = 0; caller < 200; caller++)
				for (uint64_t i = 0; i < caller % 12; i++)
					take_one(t, caller, 1, now + i, NULL);
			before = used(t, 0, 11, now + MS);
			assert_int_equal(before, 11);
			assert_int_equal(throttle_table_apply(t, &shapes[to], 1, to % 2 ? 10000 : 0,
						 now + MS, NULL),
				0);
			throttle_table_collect(t);
			for (uint64_t caller = 0; caller < 200; caller++) {
				after = used(t, 0, caller, now + MS);
				/* Pacing counts what drains from the end of a quantum on. */
				if (after < caller % 12 || after > caller % 12 + 4)
					printf("# %zu to %zu: %llu, not %llu\n", from, to,
						(unsigned long long)after,
						(unsigned long long)caller % 12);
				assert_true(after >= caller % 12 && after <= caller % 12 + 4);
			}
			throttle_table_close(t);
			t = open_table(folder, 100, &shapes[to], 1);
			assert_true(used(t, 0, 11, now + MS) >= 11);
			throttle_table_close(t);
			remove_folder(NULL);
			assert_int_equal(mkdir(folder, 0700), 0);
		}
}

struct changing {
	struct throttle_table *table;
	_Atomic(uint64_t) now, admitted;
	_Atomic(bool) stop;
};

static void *take_all_along(void *argument)
{
	struct changing *c = argument;
	uint64_t seed = (uint64_t)(uintptr_t)&seed;

	while (!atomic_load(&c->stop)) {
		uint64_t now = atomic_fetch_add(&c->now, 10000);

		if (take_one(c->table, random_below(&seed, 50), 1, now, NULL))
			atomic_fetch_add(&c->admitted, 1);
	}
	return NULL;
}

/* Limits change while threads take: in a window that never ends nothing may be forgotten. */
static void test_change_under_way(void **state)
{
	struct throttle_limit shapes[4] = {ring("x", 400, 100000 * SECOND),
		ring("x", 4000, 100000 * SECOND), ring("x", 300, 100000 * SECOND),
		ring("x", 2000, 100000 * SECOND)};
	struct changing c = {0};
	pthread_t threads[2];
	uint64_t sum = 0;

	(void)state;
	shapes[2].slots = THROTTLE_EXACT;
	c.table = open_table(folder, 100, shapes, 1);
	atomic_init(&c.now, START);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, take_all_along, &c);
	for (int i = 1; i < 20; i++) {
		assert_int_equal(
			throttle_table_apply(c.table,
				&shapes[i == 19 ? 1
					: i % 2 ? 1
						: 3],
				1, i % 3 ? 0 : 1000 * (uint64_t)i, atomic_load(&c.now), NULL),
			0);
		usleep(3000);
	}
	atomic_store(&c.stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	throttle_table_collect(c.table);
	for (uint64_t caller = 0; caller < 50; caller++)
		sum += used(c.table, 0, caller, atomic_load(&c.now));
	printf("# admitted %llu, in use %llu\n", (unsigned long long)atomic_load(&c.admitted),
		(unsigned long long)sum);
	assert_true(sum >= atomic_load(&c.admitted));
	assert_true(sum <= atomic_load(&c.admitted) + 50);
	throttle_table_close(c.table);
}

/* Ten times as many callers as there is room for: nobody at its limit gets a fresh one. */
static void test_flood(void **state)
{
	struct throttle_limit limit = ring("f", 2, 100 * SECOND);
	uint64_t callers = steps_or(3840), admitted_again = 0, now = START;
	struct throttle_table *t = open_table(NULL, callers, &limit, 1);
	struct throttle_counters counters;
	struct timespec begin, end;

	(void)state;
	for (uint64_t caller = 0; caller < callers / 2; caller++)
		for (int i = 0; i < 2; i++)
			take_one(t, caller, 1, now, NULL);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (uint64_t caller = callers; caller < 11 * callers; caller++)
		take_one(t, caller, 1, now += 100, NULL);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	printf("# %.0f ns a verdict in a full table (wanted: below 2000)\n",
		(double)((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec) /
			(double)(10 * callers));
	for (uint64_t caller = 0; caller < callers / 2; caller++)
		admitted_again += take_one(t, caller, 1, now, NULL);
	throttle_table_counters(t, 0, &counters);
	printf("# %llu callers: %llu entries, %llu evicted, %llu overflowed, %llu bytes a caller\n",
		(unsigned long long)callers, (unsigned long long)counters.entries,
		(unsigned long long)counters.evicted, (unsigned long long)counters.overflowed,
		(unsigned long long)(counters.bytes / callers));
	assert_int_equal(admitted_again, 0);
	assert_true(counters.overflowed > 0);
	assert_int_equal(counters.evicted, 0);
	/* When the window has passed there is room again. */
	now += 103 * SECOND;
	assert_true(take_one(t, 99 * callers, 2, now, NULL));
	throttle_table_counters(t, 0, &counters);
	assert_int_equal(counters.evicted, 1);
	throttle_table_close(t);
}

/* 0: not known here. The sanitizers keep more of each page than there is in it. */
static uint64_t resident_bytes(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	return 0;
#else
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long long all, resident = 0;

	if (file == NULL || fscanf(file, "%llu %llu", &all, &resident) != 2)
		resident = 0;
	if (file != NULL)
		fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
#endif
}

/* A table with room for a million is no larger in memory than its callers make it. */
static void test_few_of_many(void **state)
{
	struct throttle_limit limit = ring("few", 20, 60 * SECOND);
	struct throttle_table *table = open_table(NULL, 1000000, &limit, 1);
	uint64_t before = resident_bytes();

	(void)state;
	for (uint64_t caller = 0; caller < 1000; caller++)
		assert_true(take_one(table, caller, 1, START, NULL));
	if (before > 0)
		assert_true(resident_bytes() - before < 16 << 20);
	else
		print_message("# resident memory is not known here\n");
	throttle_table_close(table);
}

#define CROWD 7000

static bool begin(struct throttle_table *t, uint64_t caller, struct throttle_receipt *receipt)
{
	struct throttle_charge charge = {.caller = key_of(t, caller), .cost = 1};
	struct throttle_verdict v;

	throttle_take(t, &charge, 1, START, &v, receipt);
	return v.admitted;
}

/* In flight in a full table: who shares an overflow is held to the limit also when room comes, and
 * when the table grows; and all of it is given back. */
static void test_full_in_flight(void **state)
{
	static struct throttle_receipt crowd[CROWD], held[3 * CROWD];
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 3};
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);
	size_t own = 0, shared = 0;

	(void)state;
	for (uint64_t caller = 0; caller < CROWD; caller++)
		if (begin(t, caller, &crowd[own]) && ++own == 3840)
			break;
	/* Newcomers, each as often as it may; then those before them end. */
	for (uint64_t caller = CROWD; caller < 2 * CROWD; caller++)
		for (int i = 0; i < 4; i++)
			shared += begin(t, caller, &held[shared]);
	assert_true(shared < 3 * CROWD);
	for (size_t i = 0; i < own; i++)
		throttle_release(t, &crowd[i], START);
	for (int growth = 0; growth < 2; growth++) {
		for (uint64_t caller = CROWD; caller < 2 * CROWD; caller += 37) {
			struct throttle_receipt more;
			unsigned had = 0;

			for (size_t i = 0; i < shared; i++)
				had += held[i].held[0].caller.lo == key_of(t, caller).lo;
			for (; begin(t, caller, &more); had++)
				held[shared++] = more;
			assert_true(had <= 3);
		}
		assert_int_equal(throttle_table_apply(t, &limit, 1, 20000, START, NULL), 0);
		throttle_table_collect(t);
	}
	for (size_t i = 0; i < shared; i++)
		throttle_release(t, &held[i], START);
	for (uint64_t caller = 0; caller < 2 * CROWD; caller++) {
		struct throttle_receipt all[4];
		unsigned n = 0;

		while (begin(t, caller, &all[n]))
			n++;
		assert_int_equal(n, 3);
		while (n-- > 0)
			throttle_release(t, &all[n], START);
	}
	throttle_table_close(t);
}

UNIT_SUITE(table_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_restart, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_another_version, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_untrusted_files, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_garbage, make_folder, remove_folder),
		cmocka_unit_test(test_unusable_folder),
		cmocka_unit_test_setup_teardown(test_changes, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_change_under_way, make_folder, remove_folder),
		cmocka_unit_test(test_few_of_many),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_full_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
