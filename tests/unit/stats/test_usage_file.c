/* The files of usage: which lines are rows, also of a file that something else has written into. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "stats/usage_file.h"
#include "tests/unit/suite.h"

#define HOUR_S 981172800 /* 2001-02-03T04 */
#define GOOD   "0123456789abcdef 1 2 good\n"

struct fixture {
	char folder[64], path[128];
	char seen[1024]; /* the rows, a line each */
	unsigned rows, most_rows, pieces, most_pieces;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->folder, "/tmp/test_usage_file.XXXXXX");
	f->most_rows = f->most_pieces = UINT32_MAX;
	*state = f;
	if (!mkdtemp(f->folder))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/2001020304", f->folder);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	remove(f->path);
	rmdir(f->folder);
	free(f);
	return 0;
}

static void write_file(const struct fixture *f, const char *text, size_t bytes)
{
	FILE *file = fopen(f->path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static bool take(void *ctx, const char *limit, uint64_t caller, uint64_t admitted, uint64_t refused)
{
	struct fixture *f = ctx;
	size_t used = strlen(f->seen);

	snprintf(f->seen + used, sizeof(f->seen) - used, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %s\n",
		caller, admitted, refused, limit);
	return ++f->rows < f->most_rows;
}

static bool goes_on(void *ctx)
{
	struct fixture *f = ctx;

	return ++f->pieces <= f->most_pieces;
}

static int read_all(struct fixture *f)
{
	const struct usage_reader reader = {.take = take, .goes_on = goes_on, .ctx = f};

	f->seen[0] = '\0';
	f->rows = f->pieces = 0;
	return usage_file_read(f->folder, HOUR_S, HOUR_S + USAGE_HOUR_S, &reader);
}

static void what_is_no_row_is_passed_over(void **state)
{
	static const char *const lines[] = {
		"-123456789abcdef 1 2 sign\n",
		"+123456789abcdef 1 2 sign\n",
		" 123456789abcdef 1 2 blank\n",
		"0x123456789abcde 1 2 prefix\n",
		"0123456789ABCDEF 1 2 upper\n",
		"0123456789abcde 1 2 short\n",
		"0123456789abcdef0 1 2 long\n",
		"0123456789abcdef -1 2 negative\n",
		"0123456789abcdef 1 -2 negative\n",
		"0123456789abcdef +1 2 sign\n",
		"0123456789abcdef  1 2 blanks\n",
		"0123456789abcdef 1 2  blanks\n",
		"0123456789abcdef 1 2\tlimit\n",
		"0123456789abcdef 18446744073709551617 2 overflow\n",
		"0123456789abcdef 9223372036854775808 2 overflow\n",
		"0123456789abcdef 1 99999999999999999999999 overflow\n",
		"0123456789abcdef 1 2 torn0123456789abcdef 1 2 limit\n",
		"0123456789abcdef 1 2 \n",
		"0123456789abcdef 1 2\n",
		"0123456789abcdef 1 \n",
		"\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char text[256];
		snprintf(text, sizeof(text), "%s%s%s", GOOD, lines[i], GOOD);
		write_file(f, text, strlen(text));
		assert_int_equal(read_all(f), 0);
		assert_string_equal(
			f->seen, "123456789abcdef 1 2 good\n123456789abcdef 1 2 good\n");
	}
}

static void rows_are_read_exactly(void **state)
{
	static const char text[] = "0000000000000000 0 0 a\n"
				   "ffffffffffffffff 9223372036854775807 12 b-c,\"\n"
				   "0123456789abcdef 1 2 torn";
	struct fixture *f = *state;

	write_file(f, text, strlen(text));
	assert_int_equal(read_all(f), 0);
	assert_string_equal(f->seen, "0 0 0 a\nffffffffffffffff 9223372036854775807 12 b-c,\"\n");
}

static void an_interval_ends_with_its_hour(void **state)
{
	const uint64_t hour_ms = HOUR_S * UINT64_C(1000);

	(void)state;
	assert_int_equal(usage_file_delay_ms(hour_ms, 10000), 10000);
	assert_int_equal(usage_file_delay_ms(hour_ms + 3590000, 10000), 10000);
	assert_int_equal(usage_file_delay_ms(hour_ms + 3590001, 10000), 9999);
	assert_int_equal(usage_file_delay_ms(hour_ms + 3599999, 10000), 1);
	assert_int_equal(usage_file_delay_ms(hour_ms, 3600000), 3600000);
	assert_int_equal(usage_file_delay_ms(hour_ms + 1, 3600000), 3599999);
}

/* A full disk or a crash may cut a write anywhere. */
static void a_row_cut_anywhere_is_none(void **state)
{
	struct fixture *f = *state;
	struct stats *stats = stats_new(1);
	struct usage_table table = {0};

	assert_non_null(stats);
	unsigned limit = stats_register(stats, STATS_LIMIT, "calls");
	assert_true(usage_table_add(&table, SIZE_MAX, limit, 10, 3, 4));
	for (size_t cut = 0; cut < strlen(GOOD); cut++) {
		write_file(f, GOOD, cut);
		assert_int_equal(usage_file_append(f->folder, HOUR_S, &table, 1, stats), 0);
		assert_int_equal(read_all(f), 0);
		assert_string_equal(f->seen, "a 3 4 calls\n");
	}
	usage_table_clear(&table);
	stats_free(stats);
}

/* Rows that lie across the ends of pieces, and more bytes without an end than memory may hold. */
static void a_long_file_is_read_in_pieces(void **state)
{
	struct fixture *f = *state;
	const size_t rows = 20000, bytes = rows * strlen(GOOD);
	char *text = malloc(bytes + 1);

	assert_non_null(text);
	for (size_t i = 0; i < rows; i++)
		memcpy(text + i * strlen(GOOD), GOOD, strlen(GOOD) + 1);
	write_file(f, text, bytes);
	free(text);
	assert_int_equal(read_all(f), 0);
	assert_int_equal(f->rows, rows);
	assert_in_range(f->pieces, bytes / 65536, bytes / 65536 + 10);

	/* a hole of 1 GiB, without memory for it; then an end and a row */
	assert_int_equal(truncate(f->path, 1 << 30), 0);
	FILE *file = fopen(f->path, "ae");
	assert_non_null(file);
	fputs("\n" GOOD, file);
	fclose(file);
	assert_int_equal(read_all(f), 0);
	assert_int_equal(f->rows, rows + 1);
}

static void it_can_be_stopped(void **state)
{
	struct fixture *f = *state;

	write_file(f, GOOD GOOD GOOD, 3 * strlen(GOOD));
	f->most_rows = 2;
	assert_int_equal(read_all(f), ECANCELED);
	assert_int_equal(f->rows, 2);
	f->most_rows = UINT32_MAX;
	f->most_pieces = 0;
	assert_int_equal(read_all(f), ECANCELED);
	assert_int_equal(f->rows, 0);
	/* also where nothing is a row */
	assert_int_equal(truncate(f->path, 0), 0);
	assert_int_equal(truncate(f->path, 1 << 30), 0);
	f->most_pieces = 3;
	assert_int_equal(read_all(f), ECANCELED);
	assert_int_equal(f->pieces, 4);
}

static void what_is_no_file_is_passed_over(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkfifo(f->path, 0600), 0); /* to open one would wait for a writer */
	assert_int_equal(read_all(f), 0);
	assert_int_equal(remove(f->path), 0);
	assert_int_equal(mkdir(f->path, 0700), 0);
	assert_int_equal(read_all(f), 0);
	assert_int_equal(f->rows, 0);
}

UNIT_SUITE(test_usage_file)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_no_row_is_passed_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(rows_are_read_exactly, set_up, tear_down),
		cmocka_unit_test(an_interval_ends_with_its_hour),
		cmocka_unit_test_setup_teardown(a_row_cut_anywhere_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_long_file_is_read_in_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_can_be_stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_file_is_passed_over, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
