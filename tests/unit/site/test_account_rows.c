/* Where what a snapshot names is counted: by name, over reloads. */
#include "site/site.h"

#include "../gate/conf_of.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define FIRST                                                                                      \
	"[limit a]\nrate = 1 per 1s\n[limit b]\nrate = 1 per 1s\n"                                 \
	"[upstream v]\nserver = 127.0.0.1:4\n"                                                     \
	"[route r]\nupstream = u\n[route s]\nupstream = v\npath = /s/\n"
/* The other way round, and one more. */
#define SECOND                                                                                     \
	"[limit b]\nrate = 1 per 1s\n[limit c]\nrate = 1 per 1s\n[limit a]\nrate = 1 per 1s\n"     \
	"[route s]\nupstream = u\npath = /s/\n"

static struct account_rows rows_of(const struct conf *conf, struct stats *stats)
{
	struct account_rows rows = {0};

	assert_true(account_rows_fill(&rows, conf, stats));
	return rows;
}

static void each_name_has_a_row(void **state)
{
	struct stats *stats = stats_new(1);
	const struct conf *conf = conf_of(FIRST);
	struct account_rows rows = rows_of(conf, stats);

	(void)state;
	assert_int_not_equal(rows.limits[0], rows.limits[1]);
	assert_int_not_equal(rows.routes[0], rows.routes[1]);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_not_equal(rows.limits[i], STATS_OTHER);
		assert_int_not_equal(rows.routes[i], STATS_OTHER);
	}
	assert_int_not_equal(rows.upstreams[0], STATS_OTHER);
	assert_int_not_equal(rows.upstreams[0], rows.upstreams[1]);
	account_rows_clear(&rows);
	assert_null(rows.limits);
	account_rows_clear(&rows);
	conf_release(conf);
	stats_free(stats);
}

/* What was counted before a reload continues. */
static void names_keep_their_rows(void **state)
{
	struct stats *stats = stats_new(1);
	const struct conf *first = conf_of(FIRST), *second = conf_of(SECOND);
	struct account_rows before = rows_of(first, stats), after = rows_of(second, stats);

	(void)state;
	for (size_t i = 0; i < second->limit_count; i++) {
		for (size_t j = 0; j < first->limit_count; j++)
			assert_int_equal(after.limits[i] == before.limits[j],
				strcmp(second->limits[i].name, first->limits[j].name) == 0);
	}
	for (size_t j = 0; j < first->route_count; j++)
		assert_int_equal(after.routes[0] == before.routes[j],
			strcmp(second->routes[0].name, first->routes[j].name) == 0);
	assert_int_equal(after.upstreams[0], before.upstreams[0]);
	account_rows_clear(&before);
	account_rows_clear(&after);
	conf_release(first);
	conf_release(second);
	stats_free(stats);
}

UNIT_SUITE(test_account_rows)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_name_has_a_row),
		cmocka_unit_test(names_keep_their_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
