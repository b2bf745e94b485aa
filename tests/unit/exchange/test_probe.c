/* /healthz and /readyz where clients connect. */
#include "exchange/entrance.h"

#include "fakes/flight.h"
#include "tests/unit/suite.h"

static const struct stage_conf healthy = {.listener = "health = on", .route = "path = /a/"};

/* The status that it gets, and whether a probe was seen in it. */
static unsigned status_of(struct stage *stage, const char *line, bool *is_probe)
{
	char head[256];

	snprintf(head, sizeof(head), "%s HTTP/1.1\r\nHost: h\r\n\r\n", line);
	lines_clear();
	struct exchange *x = stage_ask(stage, head);
	unsigned status = x->answer.status;
	*is_probe = strstr(lines.text, "outcome=\"probe\"") || strstr(lines.text, "draining");
	stage_client_got(stage);
	return status;
}

static void which_requests_are_probes(void **state)
{
	static const struct {
		const char *line;
		bool is_probe;
	} rows[] = {
		{"GET /healthz", true},
		{"HEAD /healthz", true},
		{"GET /readyz", true},
		{"HEAD /readyz", true},
		{"GET /healthz?verbose", true},
		{"GET /x/../%68ealthz", true},
		{"POST /healthz", false},
		{"OPTIONS /readyz", false},
		{"GET /healthz/", false},
		{"GET /healthzz", false},
		{"GET /health", false},
		{"GET /", false},
	};
	struct stage *stage = stage_begin(&healthy);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_probe;
		unsigned status = status_of(stage, rows[i].line, &is_probe);
		if (is_probe != rows[i].is_probe || status != (is_probe ? 200 : 404))
			fail_msg("%s gets %u", rows[i].line, status);
	}
	stage_end(stage);
}

/* To a load balancer it is not ready any more, and works all the same. */
static void in_a_drain_it_is_not_ready(void **state)
{
	struct stage *stage = stage_begin(&healthy);
	bool is_probe;

	(void)state;
	atomic_store(&stage->daemon.node.stopping, true);
	assert_int_equal(status_of(stage, "GET /readyz", &is_probe), 503);
	assert_has(lines.text, "outcome=\"draining\"");
	assert_int_equal(status_of(stage, "GET /healthz", &is_probe), 200);
	assert_has(lines.text, "outcome=\"probe\"");
	atomic_store(&stage->daemon.node.stopping, false);
	assert_int_equal(status_of(stage, "GET /readyz", &is_probe), 200);
	atomic_store(&stage->daemon.listening.deaf, 1);
	assert_int_equal(status_of(stage, "GET /readyz", &is_probe), 503);
	assert_has(lines.text, "outcome=\"not listening\"");
	atomic_store(&stage->daemon.listening.deaf, 0);
	stage_end(stage);
}

static void without_health_they_are_requests(void **state)
{
	const struct stage_conf conf = {0};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	struct exchange *x = flight_begin(stage, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_false(probe_answered(x));
	assert_int_equal(x->answer.status, 0);
	assert_has(stage_server_got(stage, 0), "GET /healthz ");
	stage_end(stage);
}

/* Before routes and limits. */
static void no_limit_counts_them(void **state)
{
	const struct stage_conf conf = {.listener = "health = on",
		.route = "limits = one",
		.more = "[limit one]\nkey = ip\nrate = 1 per 1h\n"};
	struct stage *stage = stage_begin(&conf);
	bool is_probe;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(status_of(stage, "GET /healthz", &is_probe), 200);
	assert_has(lines.text, " route=- ");
	assert_int_equal(stage->server_count, 0);
	stage_end(stage);
}

UNIT_SUITE(test_probe)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_requests_are_probes),
		cmocka_unit_test(in_a_drain_it_is_not_ready),
		cmocka_unit_test(without_health_they_are_requests),
		cmocka_unit_test(no_limit_counts_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
