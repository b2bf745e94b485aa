/* What an ended exchange adds to which counter, and its line in the access log. */
#include "exchange/report.h"

#include "conf/conf.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define OK3 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"

static const struct stage_conf limited = {.route = "limits = shadow, one, wide",
	.more = "[limit one]\nkey = ip\nrate = 1 per 1h\n"
		"[limit shadow]\nkey = ip\nrate = 1 per 2h\nmode = shadow\n"
		"[limit wide]\nkey = ip\nrate = 9 per 1h\n"};

static uint64_t route_count(const struct stage *stage, unsigned slot)
{
	uint64_t slots[STATS_ROUTE_SLOTS];

	stats_sum(stage->daemon.node.stats, STATS_ROUTE, stage->daemon.site->rows.routes[0], slots);
	return slots[slot];
}

static unsigned requests(unsigned status_class, enum stats_verdict verdict)
{
	return STATS_REQUESTS + status_class * STATS_VERDICTS + verdict;
}

static uint64_t limit_count(const struct stage *stage, unsigned limit, unsigned verdict)
{
	uint64_t slots[STATS_LIMIT_SLOTS];

	stats_sum(stage->daemon.node.stats, STATS_LIMIT, stage->daemon.site->rows.limits[limit],
		slots);
	return slots[STATS_LIMIT_VERDICT + verdict];
}

static uint64_t upstream_count(const struct stage *stage, unsigned slot)
{
	uint64_t slots[STATS_UPSTREAM_SLOTS];

	stats_sum(stage->daemon.node.stats, STATS_UPSTREAM, stage->daemon.site->rows.upstreams[0],
		slots);
	return slots[slot];
}

static void one_that_is_served(void **state)
{
	struct stage *stage = stage_begin(&limited);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	stage_at(stage, 30);
	flight_answer(stage, x, OK3);
	assert_int_equal(route_count(stage, requests(2, STATS_ADMIT)), 1);
	assert_int_equal(route_count(stage, STATS_RECEIVED_BYTES), 2);
	assert_int_equal(route_count(stage, STATS_SENT_BYTES), 3);
	assert_int_equal(route_count(stage, STATS_REQUEST_DURATION + STATS_BOUNDS + 1), 30000000);
	assert_int_equal(route_count(stage, STATS_UPSTREAM_DURATION + STATS_BOUNDS + 1), 30000000);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(limit_count(stage, i, STATS_LIMIT_ADMITTED), 1);
	assert_int_equal(upstream_count(stage, STATS_UPSTREAM_REQUESTS), 1);
	assert_int_equal(upstream_count(stage, STATS_UPSTREAM_FAILURES), 0);
	stage_end(stage);
}

/* Limits are all or nothing: those that a refused one would have passed count nothing of it. */
static void one_that_is_refused(void **state)
{
	struct stage *stage = stage_begin(&limited);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, OK3);
	x = stage_ask(stage, GET);
	assert_int_equal(x->answer.status, 429);
	assert_int_equal(route_count(stage, requests(4, STATS_REFUSE)), 1);
	assert_int_equal(limit_count(stage, 0, STATS_LIMIT_REFUSED), 1);
	assert_int_equal(limit_count(stage, 0, STATS_LIMIT_ADMITTED), 1);
	assert_int_equal(limit_count(stage, 1, STATS_LIMIT_REFUSED), 0);
	assert_int_equal(limit_count(stage, 2, STATS_LIMIT_ADMITTED), 1);
	assert_has(lines.text, " limit=one verdict=refuse "); /* not the first that applied */
	assert_int_equal(limit_count(stage, 1, STATS_LIMIT_ADMITTED), 1);
	assert_int_equal(upstream_count(stage, STATS_UPSTREAM_REQUESTS), 1);
	assert_int_equal(route_count(stage, STATS_SENT_BYTES), 3 + x->answer.reply_bytes);
	stage_end(stage);
}

static void one_that_only_a_shadow_would_have_refused(void **state)
{
	const struct stage_conf conf = {.route = "limits = shadow",
		.more = "[limit shadow]\nkey = ip\nrate = 1 per 2h\nmode = shadow\n"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		flight_answer(stage, flight_begin(stage, GET), OK3);
	assert_int_equal(limit_count(stage, 0, STATS_LIMIT_ADMITTED), 1);
	assert_int_equal(limit_count(stage, 0, STATS_LIMIT_SHADOW_REFUSED), 1);
	assert_int_equal(route_count(stage, requests(2, STATS_ADMIT)), 2);
	assert_has(lines.text, " verdict=shadow ");
	stage_end(stage);
}

static void one_that_waited_for_its_limit(void **state)
{
	const struct stage_conf conf = {.route = "limits = slow",
		.more = "[limit slow]\nkey = ip\nrate = 1 per 10s\non_exceed = delay 60s\n"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	flight_answer(stage, flight_begin(stage, GET), OK3);
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	client_close(&stage->client.client, "left");
	assert_int_equal(limit_count(stage, 0, STATS_LIMIT_DELAYED), 1);
	assert_int_equal(limit_count(stage, 0, STATS_LIMIT_ADMITTED), 1);
	assert_int_equal(route_count(stage, requests(0, STATS_DELAY)), 1);
	stage_end(stage);
}

static void one_without_a_limit_and_one_without_a_route(void **state)
{
	const struct stage_conf conf = {.route = "path = /a/"};
	struct stage *stage = stage_begin(&conf);
	uint64_t other[STATS_ROUTE_SLOTS];

	(void)state;
	flight_answer(stage, flight_begin(stage, "GET /a/ HTTP/1.1\r\nHost: h\r\n\r\n"), OK3);
	assert_int_equal(route_count(stage, requests(2, STATS_UNLIMITED)), 1);
	stage_ask(stage, GET);
	stats_sum(stage->daemon.node.stats, STATS_ROUTE, 0, other);
	assert_int_equal(other[requests(4, STATS_UNLIMITED)], 1);
	assert_has(lines.text, " 404 ");
	assert_has(lines.text, " route=- caller=- limit=- verdict=- ");
	stage_end(stage);
}

static void servers_that_fail(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	report_failure(x);
	assert_int_equal(upstream_count(stage, STATS_UPSTREAM_FAILURES), 1);
	flight_server_ends(stage, x);
	assert_int_equal(upstream_count(stage, STATS_UPSTREAM_FAILURES), 2);
	assert_int_equal(upstream_count(stage, STATS_UPSTREAM_REQUESTS), 0);
	stage_end(stage);
}

/* ---- the line -------------------------------------------------------------------------------- */

#define ASKED "GET /a?x=1 HTTP/1.1\r\nHost: h\r\nReferer: http://r/\r\nUser-Agent: \"me\"\r\n\r\n"

static void a_line_in_the_combined_format(void **state)
{
	struct stage *stage = stage_begin(&limited);
	struct exchange *x = flight_begin(stage, ASKED);

	(void)state;
	stage_at(stage, 30);
	flight_answer(stage, x, OK3);
	assert_has(lines.text, "192.0.2.1 - - [");
	assert_has(lines.text,
		"] \"GET /a?x=1 HTTP/1.1\" 200 3 \"http://r/\" \"\\x22me\\x22\" id=0000");
	assert_has(lines.text, " route=r caller=");
	assert_has(lines.text, " limit=shadow verdict=admit queue_ms=0.000 upstream=u "
			       "upstream_status=200 upstream_ms=30.000 total_ms=30.000\n");
	assert_lacks(lines.text, "outcome");
	stage_end(stage);
}

static void a_line_in_json(void **state)
{
	const struct stage_conf conf = {.node = "access_log_format = json"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, ASKED);

	(void)state;
	stage->daemon.node.log = (struct log *)stage; /* there is one, which nobody looks into */
	flight_answer(stage, x, OK3);
	stage->daemon.node.log = NULL;
	assert_has(lines.text, "\"client\":\"192.0.2.1\",\"method\":\"GET\","
			       "\"scheme\":\"http\",\"host\":\"h\",");
	assert_has(lines.text, "\"target\":\"/a?x=1\",\"status\":200,\"request_bytes\":0,"
			       "\"response_bytes\":3,\"referer\":\"http://r/\","
			       "\"user_agent\":\"\\\"me\\\"\",\"route\":\"r\",");
	assert_has(lines.text, "}\n");
	stage_end(stage);
}

static void a_key_in_the_target_is_a_secret(void **state)
{
	const struct stage_conf conf = {.route = "limits = keyed",
		.more = "[limit keyed]\nkey = query:token | ip\nrate = 9 per 1h\n"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	flight_answer(
		stage, flight_begin(stage, "GET /a?token=se&b=1 HTTP/1.1\r\nHost: h\r\n\r\n"), OK3);
	assert_has(lines.text, "\"GET /a?token=***&b=1 HTTP/1.1\"");
	assert_lacks(lines.text, "=se");
	stage_end(stage);
}

static void without_a_log_there_is_no_line(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	lines.has_no_access = true;
	flight_answer(stage, flight_begin(stage, GET), OK3);
	lines.has_no_access = false;
	assert_string_equal(lines.text, "");
	stage_end(stage);
}

/* Whatever clients send, the fields behind it are there. */
static void long_texts_are_cut(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);
	char *request = malloc(16000);

	(void)state;
	assert_non_null(request);
	size_t len = (size_t)sprintf(request, "GET /");
	memset(request + len, '"', 5000);
	len += 5000;
	len += (size_t)sprintf(request + len, " HTTP/1.1\r\nHost: h\r\nUser-Agent: ");
	memset(request + len, '"', 5000);
	strcpy(request + len + 5000, "\r\n\r\n");
	struct exchange *x = stage_ask(stage, request);
	free(request);
	if (x->state == EXCHANGE_FORWARDING)
		flight_answer(stage, x, OK3);
	assert_has(lines.text, "...\" id=");
	assert_has(lines.text, " total_ms=");
	assert_true(strlen(lines.text) < 8192);
	stage_end(stage);
}

UNIT_SUITE(test_account)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_served),
		cmocka_unit_test(one_that_is_refused),
		cmocka_unit_test(one_that_only_a_shadow_would_have_refused),
		cmocka_unit_test(one_that_waited_for_its_limit),
		cmocka_unit_test(one_without_a_limit_and_one_without_a_route),
		cmocka_unit_test(servers_that_fail),
		cmocka_unit_test(a_line_in_the_combined_format),
		cmocka_unit_test(a_line_in_json),
		cmocka_unit_test(a_key_in_the_target_is_a_secret),
		cmocka_unit_test(without_a_log_there_is_no_line),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
