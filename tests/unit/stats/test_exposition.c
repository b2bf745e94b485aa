/* The text that scrapers read, in both formats, held against what they ask for. */
#include "stats/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static char *text_of(const struct stats *stats, enum exposition_format format)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	exposition_counters(out, format, stats);
	exposition_family(out, format, "sluice_sessions", false, "Sessions.");
	const char *const labels[] = {"route", "a\"b\\c\nd", NULL};
	exposition_sample(out, "sluice_sessions", labels, 2.5);
	exposition_family(out, format, "sluice_reloads_total", true, "Reloads.");
	exposition_sample(out, "sluice_reloads_total", NULL, 3);
	exposition_end(out, format);
	assert_int_equal(fclose(out), 0);
	return text;
}

static struct stats *example(void)
{
	struct stats *stats = stats_new(2);
	unsigned api = stats_register(stats, STATS_ROUTE, "api");
	_Atomic uint64_t *first = stats_row(stats_block(stats, 0), STATS_ROUTE, api);
	_Atomic uint64_t *second = stats_row(stats_block(stats, 1), STATS_ROUTE, api);

	stats_add(&first[STATS_REQUESTS + 2 * STATS_VERDICTS + STATS_ADMIT], 3);
	stats_add(&second[STATS_REQUESTS + 2 * STATS_VERDICTS + STATS_ADMIT], 4);
	stats_add(&second[STATS_REQUESTS + 4 * STATS_VERDICTS + STATS_REFUSE], 5);
	stats_observe(&first[STATS_REQUEST_DURATION], 100000);
	stats_observe(&second[STATS_REQUEST_DURATION], 1500000000);
	stats_observe(&second[STATS_REQUEST_DURATION], 61000000000);
	return stats;
}

static void has(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	if (!at || (at != text && at[-1] != '\n'))
		fail_msg("no line: %s", line);
}

static void lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("there is: %s", part);
}

static void counters_and_histograms(void **state)
{
	struct stats *stats = example();
	char *text = text_of(stats, EXPOSITION_PROMETHEUS);

	(void)state;
	has(text, "# TYPE sluice_requests_total counter\n");
	has(text, "sluice_requests_total{route=\"api\",status=\"2xx\",verdict=\"admit\"} 7\n");
	has(text, "sluice_requests_total{route=\"api\",status=\"4xx\",verdict=\"refuse\"} 5\n");
	has(text, "sluice_client_connections_total 0\n");
	has(text, "# TYPE sluice_request_duration_seconds histogram\n");
	has(text, "sluice_request_duration_seconds_bucket{route=\"api\",le=\"0.0001\"} 1\n");
	has(text, "sluice_request_duration_seconds_bucket{route=\"api\",le=\"1.0\"} 1\n");
	has(text, "sluice_request_duration_seconds_bucket{route=\"api\",le=\"2.5\"} 2\n");
	has(text, "sluice_request_duration_seconds_bucket{route=\"api\",le=\"60.0\"} 2\n");
	has(text, "sluice_request_duration_seconds_bucket{route=\"api\",le=\"+Inf\"} 3\n");
	has(text, "sluice_request_duration_seconds_sum{route=\"api\"} 62.500100000\n");
	has(text, "sluice_request_duration_seconds_count{route=\"api\"} 3\n");
	has(text, "sluice_sessions{route=\"a\\\"b\\\\c\\nd\"} 2.5\n");
	has(text, "# TYPE sluice_reloads_total counter\n");
	has(text, "sluice_reloads_total 3\n");
	lacks(text, "route=\"-\"");
	lacks(text, "# EOF");
	free(text);
	stats_free(stats);
}

static void openmetrics_differs_where_it_must(void **state)
{
	struct stats *stats = example();
	char *text = text_of(stats, EXPOSITION_OPENMETRICS);
	size_t len = strlen(text);

	(void)state;
	has(text, "# TYPE sluice_requests counter\n");
	has(text, "sluice_requests_total{route=\"api\",status=\"2xx\",verdict=\"admit\"} 7\n");
	has(text, "# TYPE sluice_reloads counter\n");
	assert_string_equal(text + len - strlen("# EOF\n"), "# EOF\n");
	free(text);
	stats_free(stats);
}

UNIT_SUITE(test_exposition)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_and_histograms),
		cmocka_unit_test(openmetrics_differs_where_it_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
