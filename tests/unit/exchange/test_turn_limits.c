/* What the limits of an exchange say of it, and the answer to one that they refuse. */
#include "exchange/turn_limits.h"

#include "conf/conf.h"
#include "fakes/stage.h"
#include "tests/unit/suite.h"

#define GET_OF(path, fields) "GET " path " HTTP/1.1\r\nHost: h\r\n" fields "\r\n"
#define GET                  GET_OF("/", "")

static unsigned answered(const char *request, const char *why)
{
	const struct stage_conf conf = {.route = "limits = one\ndeny = 203.0.113.0/24",
		.listener = "trusted_proxies = 192.0.2.0/24",
		.more = "[limit one]\nkey = header:X-Key | ip\nrate = 1 per 1h\n"};
	struct stage *stage = stage_begin(&conf);

	stage_ask(stage, GET_OF("/", "X-Key: used\r\n"));
	struct exchange *x = stage_other_asks(stage, request);
	unsigned status = x->answer.status;
	if (why)
		assert_string_equal(x->outcome, why);
	if (status != 429)
		assert_int_equal(x->answer.retry_after_ms, status ? UINT64_MAX : 0);
	stage_end(stage);
	return status;
}

static void what_the_gate_says_is_answered(void **state)
{
	(void)state;
	assert_int_equal(answered(GET_OF("/", "X-Key: new\r\n"), NULL), 0);
	assert_int_equal(answered(GET_OF("/", "X-Key: used\r\n"), "limit"), 429);
	assert_int_equal(answered(GET_OF("/", "X-Key: a\r\nX-Key: b\r\n"), "ambiguous key"), 400);
	assert_int_equal(answered(GET_OF("/", "X-Forwarded-For: 203.0.113.9\r\n"), "denied"), 403);
}

static void when_a_refused_one_may_come_back(void **state)
{
	const struct stage_conf conf = {
		.route = "limits = one", .more = "[limit one]\nkey = ip\nrate = 1 per 1h\n"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage_ask(stage, GET);
	struct exchange *x = stage_other_asks(stage, GET);
	assert_int_equal(x->answer.status, 429);
	assert_in_range(x->answer.retry_after_ms, 3590000, 3610000);
	stage_end(stage);
}

/* What happens on another worker behind the look at those ahead. */
static void (*meanwhile)(void);
static struct stage *meanwhile_stage;

bool __real_delay_ahead(struct delay_lines *of, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX]);
bool __wrap_delay_ahead(struct delay_lines *of, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX]);

bool __wrap_delay_ahead(struct delay_lines *of, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX])
{
	bool is_behind = __real_delay_ahead(of, identity, ahead);
	void (*happens)(void) = meanwhile;

	meanwhile = NULL;
	if (happens)
		happens();
	return is_behind;
}

static void another_joins(void)
{
	struct exchange *x = stage_other_asks(meanwhile_stage, GET);

	assert_int_equal(x->state, EXCHANGE_DELAYED);
}

/* Both would find nobody ahead; the delay has room for one. */
static void of_two_judged_at_once_one_is_behind(void **state)
{
	const struct stage_conf conf = {.route = "limits = l",
		.more = "[limit l]\nkey = ip\nrate = 1 per 10s\nalgorithm = gcra\n"
			"on_exceed = delay 15s\n"};
	struct stage *stage = meanwhile_stage = stage_begin(&conf);

	(void)state;
	struct exchange *first = stage_ask(stage, GET);
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	stage_forget(stage);
	meanwhile = another_joins;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->answer.status, 429);
	assert_in_range(x->answer.retry_after_ms, 19000, 21000);
	stage_end(stage);
}

static void the_hash_of_a_key(void **state)
{
	struct stage *stage =
		stage_begin(&(struct stage_conf){.upstream = "balance = hash\nhash_key = path"});
	const struct conf_key *key = stage->daemon.site->conf->upstreams[0].hash_key;
	struct exchange *a = stage_ask(stage, GET_OF("/a", "")),
			*b = stage_ask(stage, GET_OF("/b", "")),
			*again = stage_ask(stage, GET_OF("/a", ""));

	(void)state;
	assert_true(exchange_hash_key(a, key) == exchange_hash_key(again, key));
	assert_true(exchange_hash_key(a, key) != exchange_hash_key(b, key));
	stage_end(stage);
}

UNIT_SUITE(test_turn_limits)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_gate_says_is_answered),
		cmocka_unit_test(when_a_refused_one_may_come_back),
		cmocka_unit_test(of_two_judged_at_once_one_is_behind),
		cmocka_unit_test(the_hash_of_a_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
