/* The line of an exchange at each stage of its life, as report_line writes it. What counts it is
 * in test_account. */
#include "exchange/report.h"

#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/suite.h"

#define OK3 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"

/* Its line now. */
static const char *line_of(struct exchange *x)
{
	lines_clear();
	report_line(x);
	const char *end = strchr(lines.text, '\n');
	assert_non_null(end);
	assert_int_equal(end[1], '\0'); /* one line */
	return lines.text;
}

static const char *json_of(struct stage *stage, struct exchange *x)
{
	stage->daemon.node.log = (struct log *)stage; /* there is one, which nobody looks into */
	const char *line = line_of(x);
	stage->daemon.node.log = NULL;
	assert_int_equal(line[0], '{');
	return line;
}

static void one_that_has_its_turn(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage_at(stage, 1234);
	assert_has(line_of(x), "\"GET / HTTP/1.1\" 0 0 \"-\" \"-\" id=0000");
	assert_has(line_of(x), " verdict=admit queue_ms=0.000 upstream=u upstream_status=0 "
			       "upstream_ms=1234.000 total_ms=1234.000\n");
	x->outcome = "a \"reason\"";
	assert_has(line_of(x), " outcome=\"a \\x22reason\\x22\"\n");
	stage_end(stage);
}

/* What it waited is counted until now as long as it waits. */
static void one_that_waits(void **state)
{
	const struct stage_conf conf = {.upstream = "max_in_flight = 1"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	flight_begin(stage, GET);
	stage->asks = &stage->other;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	stage_at(stage, 1007);
	assert_has(line_of(x), " queue_ms=1007.000 upstream=u ");
	assert_has(line_of(x), " upstream_ms=0.000 total_ms=1007.000");
	stage->worker->loop.now_ns += 56789;
	assert_has(line_of(x), " queue_ms=1007.056 ");
	stage_end(stage);
}

static void one_whose_client_is_gone(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	struct client *client = x->client;
	x->client = NULL;
	assert_has(line_of(x), "192.0.2.1 - - [");
	memset(x->facts.address, 0, sizeof(x->facts.address));
	assert_has(line_of(x), "- - - [");
	x->client = client;
	assert_has(line_of(x), "192.0.2.1 - - ["); /* its peer's */
	stage_end(stage);
}

/* A malformed request has no line that can be trusted. */
static void one_whose_head_was_not_kept(void **state)
{
	const struct stage_conf conf = {.node = "access_log_format = json"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = stage_request(stage, GET);

	(void)state;
	assert_has(line_of(x),
		"] \"-\" 0 0 \"-\" \"-\" id=- scheme=http route=- caller=- limit=- verdict=- ");
	assert_has(json_of(stage, x), "\"target\":\"\",");
	assert_has(json_of(stage, x), ",\"route\":\"\",\"caller\":\"-\",\"limit\":\"-\",");
	stage_end(stage);
}

static void which_limit_decided(void **state)
{
	const struct stage_conf conf = {.route = "limits = first, shadow, second",
		.more = "[limit first]\nkey = ip\nrate = 9 per 1h\n"
			"[limit shadow]\nkey = ip\nrate = 9 per 1h\nmode = shadow\n"
			"[limit second]\nkey = ip\nrate = 9 per 1h\n"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);
	struct gate_verdict *verdict = &x->gate->verdict;

	(void)state;
	assert_int_equal(verdict->limit_count, 3);
	const struct gate_limit saved[3] = {
		verdict->limits[0], verdict->limits[1], verdict->limits[2]};
	const char *const names[] = {verdict->limits[0].limit->name, verdict->limits[1].limit->name,
		verdict->limits[2].limit->name};
	char expected[64];
	snprintf(expected, sizeof(expected), " limit=%s verdict=admit ", names[0]);
	assert_has(line_of(x), expected);
	for (unsigned i = 0; i < 3; i++) { /* the shadow alone: as if it had refused */
		if (!verdict->limits[i].limit->shadow)
			continue;
		verdict->limits[i].violated = true;
		verdict->shadowed = true;
		assert_has(line_of(x), " limit=shadow verdict=shadow ");
		/* With one that refused it is that. */
		verdict->limits[2].violated = verdict->violated = true;
		verdict->outcome = GATE_REFUSE;
		assert_lacks(line_of(x), " limit=shadow ");
		assert_has(line_of(x), " verdict=refuse ");
		break;
	}
	memcpy(verdict->limits, saved, sizeof(saved));
	verdict->violated = verdict->shadowed = false;
	verdict->outcome = GATE_ADMIT;
	stage_end(stage);
}

static void the_words_of_a_verdict(void **state)
{
	static const struct {
		enum gate_outcome outcome;
		const char *word;
	} rows[] = {
		{GATE_ADMIT, "admit"},
		{GATE_DELAY, "delay"},
		{GATE_REFUSE, "refuse"},
		{GATE_DENY, "deny"},
		{GATE_AMBIGUOUS, "ambiguous"},
		{GATE_NO_KEY, "deny"},
		{GATE_UNKNOWN, "deny"},
		{GATE_UNAVAILABLE, "unavailable"},
	};
	const struct stage_conf conf = {.node = "access_log_format = json"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);
	char expected[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		x->gate->verdict.outcome = rows[i].outcome;
		snprintf(expected, sizeof(expected), " verdict=%s ", rows[i].word);
		assert_has(line_of(x), expected);
		snprintf(expected, sizeof(expected), ",\"verdict\":\"%s\",", rows[i].word);
		assert_has(json_of(stage, x), expected);
	}
	x->gate->verdict.outcome = GATE_ADMIT;
	stage_end(stage);
}

static void a_trace_is_named(void **state)
{
	static const char head[] =
		"GET / HTTP/1.1\r\nHost: h\r\n"
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n";
	const struct stage_conf conf = {.node = "access_log_format = json"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, head);

	(void)state;
	assert_has(line_of(x),
		" trace_id=0af7651916cd43dd8448eb211c80319c parent_id=b7ad6b7169203331");
	assert_has(json_of(stage, x), ",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"parent_"
				      "id\":\"b7ad6b7169203331\"");
	x->text.trace = TRACE_DROPPED;
	assert_lacks(line_of(x), "trace_id");
	assert_lacks(json_of(stage, x), "trace_id");
	stage_end(stage);
}

static void bytes_both_ways(void **state)
{
	const struct stage_conf conf = {.node = "access_log_format = json"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	x->down.content_bytes = 30;
	x->answer.reply_bytes = 4;
	assert_has(line_of(x), "HTTP/1.1\" 0 34 ");
	assert_has(json_of(stage, x), ",\"request_bytes\":2,\"response_bytes\":34,");
	x->answer.upstream_status = 503;
	assert_has(json_of(stage, x), ",\"upstream\":\"u\",\"upstream_status\":503,");
	x->outcome = "cut";
	assert_has(json_of(stage, x), ",\"outcome\":\"cut\"}");
	stage_end(stage);
}

/* A reverse: JSON is asked for where there is no log of ours to write it to. */
static void without_a_log_of_its_own_it_is_combined(void **state)
{
	const struct stage_conf conf = {.node = "access_log_format = json"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	assert_int_not_equal(line_of(x)[0], '{');
	stage_end(stage);
}

UNIT_SUITE(test_access)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_has_its_turn),
		cmocka_unit_test(one_that_waits),
		cmocka_unit_test(one_whose_client_is_gone),
		cmocka_unit_test(one_whose_head_was_not_kept),
		cmocka_unit_test(which_limit_decided),
		cmocka_unit_test(the_words_of_a_verdict),
		cmocka_unit_test(a_trace_is_named),
		cmocka_unit_test(bytes_both_ways),
		cmocka_unit_test(without_a_log_of_its_own_it_is_combined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
