/*
 * A table's file with one damaged word at a time: nothing crashes, nothing hangs, and no caller is
 * forgiven but the one whose word it was. `make check` walks over the words of some buckets, with
 * THROTTLE_STEPS=n over n words of each kind.
 */
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

#define CALLERS 300
#define KINDS   6

static char folder[] = "throttle-damage-XXXXXX";

static struct throttle_limit kind(unsigned i)
{
	struct throttle_limit limits[KINDS] = {ring("short", 5, 600 * SECOND),
		ring("long", 40, 600 * SECOND), ring("divided", 100, 600 * SECOND),
		ring("paced", 5, 600 * SECOND), ring("month", 5, 600 * SECOND),
		ring("flight", 5, 600 * SECOND)};

	limits[1].slots = THROTTLE_EXACT;
	limits[3].kind = THROTTLE_GCRA;
	limits[3].burst = 5;
	limits[4].kind = THROTTLE_CALENDAR;
	limits[4].period = THROTTLE_MONTH;
	limits[5].kind = THROTTLE_CONCURRENCY;
	return limits[i];
}

static void path_of(char *path, size_t bytes, const char *name)
{
	snprintf(path, bytes, "%s/%s", folder, name);
}

static void clear(void)
{
	static const char *const names[] = {"throttle.table", "throttle.next",
		"throttle.table.set-aside", "throttle.next.set-aside"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path_of(path, sizeof(path), names[i]);
		unlink(path);
	}
}

static uint64_t *map_file(size_t *bytes)
{
	char path[128];
	struct stat status;
	uint64_t *words;
	int file;

	path_of(path, sizeof(path), "throttle.table");
	file = open(path, O_RDWR);
	assert_true(file >= 0 && fstat(file, &status) == 0);
	*bytes = (size_t)status.st_size;
	words = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_true(words != MAP_FAILED);
	close(file);
	return words;
}

/* Opens it, and counts those who were at their limit and are admitted. */
static unsigned forgiven(const struct throttle_limit *limit, bool *is_set_aside)
{
	struct throttle_table_options options = {
		.folder = folder, .callers = 1, .now_ns = START + SECOND};
	struct throttle_report report;
	struct throttle_table *t = throttle_table_open(&options, limit, 1, &report);
	unsigned count = 0;

	assert_non_null(t);
	*is_set_aside = report.found == THROTTLE_FOUND_SET_ASIDE;
	for (uint64_t caller = 0; caller < CALLERS; caller++)
		count += take_one(t, caller, 1, START + SECOND, NULL);
	/* And callers who are new, and later ones: a verdict for each. */
	for (uint64_t caller = 0; caller < CALLERS; caller++) {
		take_one(t, 10000 + caller, 1, START + SECOND, NULL);
		take_one(t, caller, 1, START + 700 * SECOND, NULL);
	}
	throttle_table_close(t);
	return count;
}

static void one_word(const struct throttle_limit *limit, const uint64_t *good, uint64_t *words,
	size_t bytes, size_t at, uint64_t value)
{
	bool is_set_aside;
	unsigned count;

	memcpy(words, good, bytes);
	words[at] = value;
	count = forgiven(limit, &is_set_aside);
	/* A word is of one caller; two, where it makes an entry another caller's. */
	if (limit->kind != THROTTLE_CONCURRENCY && !is_set_aside && count > 2)
		printf("# %s: word %zu of %zu, %llx for %llx: %u forgiven\n", limit->name, at,
			bytes / 8, (unsigned long long)value, (unsigned long long)good[at], count);
	assert_true(limit->kind == THROTTLE_CONCURRENCY || is_set_aside || count <= 2);
}

static uint64_t damage(uint64_t *seed, uint64_t word)
{
	switch (random_below(seed, 4)) {
	case 0:
		return 0;
	case 1:
		return word ^ UINT64_C(1) << random_below(seed, 64);
	case 2:
		return ~word;
	default:
		return random_next(seed);
	}
}

static void test_one_word_at_a_time(void **state)
{
	uint64_t seed = random_seed("damage");

	(void)state;
	for (unsigned k = 0; k < KINDS; k++) {
		struct throttle_limit limit = kind(k);
		struct throttle_table *t;
		uint64_t *words, *good;
		size_t bytes;

		clear();
		t = open_table(folder, 1, &limit, 1);
		for (uint64_t caller = 0; caller < CALLERS; caller++)
			for (uint64_t n = 0; n < limit.quota; n++)
				take_one(t, caller, 1, START, NULL);
		throttle_table_close(t);
		words = map_file(&bytes);
		good = malloc(bytes);
		assert_non_null(good);
		memcpy(good, words, bytes);
		for (uint64_t n = steps_or(60); n > 0; n--) {
			size_t at = random_below(&seed, bytes / 8);

			if (random_below(&seed, 4) == 0)
				at = random_below(&seed, 128); /* the header */
			else
				while (good[at] == 0)
					at = (at + 1) % (bytes / 8);
			one_word(&limit, good, words, bytes, at, damage(&seed, good[at]));
			munmap(words, bytes);
			clear();
			t = open_table(folder, 1, &limit, 1);
			throttle_table_close(t);
			words = map_file(&bytes);
		}
		munmap(words, bytes);
		free(good);
	}
	clear();
}

UNIT_SUITE(damage_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_word_at_a_time),
	};
	int failed;

	if (mkdtemp(folder) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	clear();
	rmdir(folder);
	return failed;
}
