#include "gate/ratelimit_fields.h"

#include "conf_of.h"
#include "http/text_head.h"
#include "../http/head.h"
#include "tests/unit/suite.h"

static const char ini[] =
	"[limit burst]\nkey = ip\nrate = 100 per 10s\n"
	"[limit daily]\nkey = ip\nrate = 10000 per day\n"
	"[limit tried]\nkey = ip\nrate = 1 per 1s\nmode = shadow\n"
	"[limit flow]\nkey = ip\nrate = 10MB per 500ms\n"
	"[limit open]\nkey = ip\nconcurrency = 5\n"
	"[limit paced]\nkey = ip\nrate = 4 per 1s\nalgorithm = gcra\nburst = 6\n"
	"[limit slow]\nkey = ip\nrate = 1 per 366d\nalgorithm = gcra\nburst = 1G\n"
	"[limit even]\nkey = ip\nrate = 4 per 8s\nalgorithm = gcra\n"
	"[route r]\nupstream = u\nlimits = burst\n";

enum { BURST, DAILY, TRIED, FLOW, OPEN, PACED, SLOW, EVEN };

struct fixture {
	const struct conf *conf;
	struct ratelimit_texts *texts;
	struct gate_verdict verdict;
};

static struct fixture begin(void)
{
	struct fixture f = {.conf = conf_of(ini)};

	f.texts = ratelimit_texts_new(f.conf);
	assert_non_null(f.texts);
	return f;
}

static void end(struct fixture *f)
{
	ratelimit_texts_free(f->texts);
	conf_release(f->conf);
}

static void add(
	struct fixture *f, unsigned limit, uint64_t remaining, uint64_t reset_ms, bool violated)
{
	const struct conf_limit *conf = &f->conf->limits[limit];

	f->verdict.limits[f->verdict.limit_count++] = (struct gate_limit){.limit = conf,
		.quota = conf->amount,
		.remaining = remaining,
		.reset_ms = reset_ms,
		.violated = violated};
}

static const char *lines(struct fixture *f, enum conf_ratelimit_headers dialect)
{
	static char text[2048];
	struct field_sink sink = text_head_over(http_out_over(text, sizeof(text) - 1));

	ratelimit_put(&sink, f->texts, dialect, &f->verdict, UINT64_C(1795312632001));
	assert_false(sink.out.overflow);
	*sink.out.at = '\0';
	return text;
}

static void draft_11(void **state)
{
	struct fixture f = begin();

	(void)state;
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_11), "");
	add(&f, TRIED, 0, 1000, true);
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_11), "");
	add(&f, BURST, 42, 6001, false);
	add(&f, DAILY, 0, 3600000, true);
	add(&f, FLOW, 7, 100, false);
	add(&f, OPEN, 4, 0, false);
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_11),
		"RateLimit-Policy: \"burst\";q=100;w=10, \"daily\";q=10000;w=86400, "
		"\"flow\";q=10000000;qu=\"content-bytes\";w=1, "
		"\"open\";q=5;qu=\"concurrent-requests\"\r\n"
		"RateLimit: \"burst\";r=42;t=7, \"daily\";r=0;t=3600, \"flow\";r=7;t=1, "
		"\"open\";r=4\r\n");
	assert_string_equal(lines(&f, CONF_RATELIMIT_OFF), "");
	end(&f);
}

static void draft_7(void **state)
{
	struct fixture f = begin();

	(void)state;
	add(&f, OPEN, 0, 0, true);
	add(&f, TRIED, 0, 1000, true);
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_7), "");
	add(&f, DAILY, 50, 1, false);
	add(&f, BURST, 42, 6001, false);
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_7),
		"RateLimit-Policy: 10000;w=86400, 100;w=10\r\n"
		"RateLimit: limit=100, remaining=42, reset=7\r\n");
	/* What they have no words for refuses: nothing is left for now. */
	f.verdict.outcome = GATE_REFUSE;
	f.verdict.retry_after_ms = 12001;
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_7),
		"RateLimit-Policy: 10000;w=86400, 100;w=10\r\n"
		"RateLimit: limit=100, remaining=0, reset=13\r\n");
	assert_string_equal(lines(&f, CONF_RATELIMIT_X),
		"X-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 13\r\n");
	/* The limit that refused is reported, though more of it is left than of others: the cost
	 * did not fit. */
	f.verdict.limits[2].violated = true;
	f.verdict.limits[2].reset_ms = UINT64_MAX;
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_7),
		"RateLimit-Policy: 10000;w=86400, 100;w=10\r\n"
		"RateLimit: limit=10000, remaining=0, reset=86400\r\n");
	end(&f);
}

static void x_ratelimit(void **state)
{
	struct fixture f = begin();

	(void)state;
	assert_string_equal(lines(&f, CONF_RATELIMIT_X), "");
	add(&f, BURST, 42, 1000, false);
	add(&f, DAILY, 42, 1001, false);
	assert_string_equal(lines(&f, CONF_RATELIMIT_X),
		"X-RateLimit-Limit: 10000\r\nX-RateLimit-Remaining: 42\r\n"
		"X-RateLimit-Reset: 2\r\n");
	/* Rounded up from the instant, so that nobody comes back too early. */
	assert_string_equal(lines(&f, CONF_RATELIMIT_X_UNIX),
		"X-RateLimit-Limit: 10000\r\nX-RateLimit-Remaining: 42\r\n"
		"X-RateLimit-Reset: 1795312634\r\n");
	end(&f);
}

/* Bodies that are known are taken off limits in bytes, and of these only. */
static void bytes_that_are_known(void **state)
{
	struct fixture f = begin();

	(void)state;
	add(&f, BURST, 42, 7000, false);
	add(&f, FLOW, 10000000, 0, false);
	ratelimit_foresee_bytes(&f.verdict, 0);
	assert_int_equal(f.verdict.limits[1].remaining, 10000000);
	assert_int_equal(f.verdict.limits[1].reset_ms, 0);
	ratelimit_foresee_bytes(&f.verdict, 1000);
	assert_int_equal(f.verdict.limits[0].remaining, 42);
	assert_int_equal(f.verdict.limits[1].remaining, 9999000);
	assert_int_equal(f.verdict.limits[1].reset_ms, 500);
	ratelimit_foresee_bytes(&f.verdict, UINT64_MAX);
	assert_int_equal(f.verdict.limits[1].remaining, 0);
	end(&f);
}

/* A slot later than the window, and a ban: t is within w, but of a limit that refused it is the
 * exact wait, as in Retry-After. So are single values. */
static void above_the_window_only_when_refused(void **state)
{
	struct fixture f = begin();

	(void)state;
	add(&f, BURST, 42, 10527, false);
	add(&f, PACED, 3, 2001, false);
	add(&f, DAILY, 0, UINT64_MAX, true);
	assert_non_null(strstr(lines(&f, CONF_RATELIMIT_DRAFT_11),
		"RateLimit: \"burst\";r=42;t=10, \"paced\";r=3;t=2, \"daily\";r=0;t=86400\r\n"));
	f.verdict.limit_count = 1;
	assert_non_null(strstr(lines(&f, CONF_RATELIMIT_DRAFT_7), "remaining=42, reset=10\r\n"));
	assert_non_null(strstr(lines(&f, CONF_RATELIMIT_X), "Reset: 10\r\n"));
	assert_non_null(strstr(lines(&f, CONF_RATELIMIT_X_UNIX), "Reset: 1795312643\r\n"));
	f.verdict.limits[0].violated = true;
	assert_non_null(strstr(lines(&f, CONF_RATELIMIT_DRAFT_11), "\"burst\";r=0;t=11\r\n"));
	assert_non_null(strstr(lines(&f, CONF_RATELIMIT_X), "Reset: 11\r\n"));
	end(&f);
}

/* Remaining is counted from the burst, so that is the quota, in the time that fills it again. */
static void gcra(void **state)
{
	struct fixture f = begin();

	(void)state;
	add(&f, PACED, 5, 300, false);
	add(&f, SLOW, 5, 300, false);
	add(&f, EVEN, 3, 2000, false);
	assert_string_equal(lines(&f, CONF_RATELIMIT_DRAFT_11),
		"RateLimit-Policy: \"paced\";q=6;w=2, "
		"\"slow\";q=1000000000;w=999999999999999, \"even\";q=4;w=8\r\n"
		"RateLimit: \"paced\";r=5;t=1, \"slow\";r=5;t=1, \"even\";r=3;t=2\r\n");
	end(&f);
}

static void violated_names(void **state)
{
	struct fixture f = begin();
	struct slice names[GATE_LIMITS_MAX];

	(void)state;
	add(&f, TRIED, 0, 1000, true);
	add(&f, BURST, 0, 1000, true);
	add(&f, DAILY, 5, 1000, false);
	add(&f, OPEN, 0, 1000, true);
	assert_int_equal(ratelimit_violated(&f.verdict, names), 2);
	assert_true(slice_equal(names[0], SLICE("burst")));
	assert_true(slice_equal(names[1], SLICE("open")));
	end(&f);
}

static void merging(void **state)
{
	static const struct {
		enum conf_ratelimit_headers dialect;
		const char *fields;
		enum ratelimit_merge expected;
	} cases[] = {
		{CONF_RATELIMIT_DRAFT_11, "RateLimit: \"x\";r=1\n", RATELIMIT_BOTH},
		{CONF_RATELIMIT_OFF, "RateLimit: limit=1, remaining=1, reset=1\n", RATELIMIT_BOTH},
		{CONF_RATELIMIT_DRAFT_7, "", RATELIMIT_BOTH},
		{CONF_RATELIMIT_DRAFT_7, "X-RateLimit-Remaining: 1\n", RATELIMIT_BOTH},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: limit=9, remaining=41, reset=1\n",
			RATELIMIT_THEIRS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: limit=9, remaining=42, reset=1\n",
			RATELIMIT_THEIRS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: limit=9, remaining=43, reset=1\n",
			RATELIMIT_OURS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: lots\n", RATELIMIT_OURS},
		/* Either form is read: what is tighter is never dropped. */
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: \"a\";r=41;t=9\n", RATELIMIT_THEIRS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: \"a\";r=43;t=9\n", RATELIMIT_OURS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: \"a\"; r=43, \"b\";t=1;r=2\n",
			RATELIMIT_THEIRS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: \"a,b;r=1\";r=43\n", RATELIMIT_OURS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: \"a\";r=43\nRateLimit: \"b\";r=2\n",
			RATELIMIT_THEIRS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit: \"a\";r=43\nRateLimit-Policy: 2;w=1\n",
			RATELIMIT_OURS},
		{CONF_RATELIMIT_DRAFT_7, "RateLimit-Policy: 2;w=1\n", RATELIMIT_BOTH},
		{CONF_RATELIMIT_DRAFT_11, "RateLimit: \"a,b\";r=1, \"c\";r=2\n", RATELIMIT_BOTH},
		{CONF_RATELIMIT_DRAFT_11, "RateLimit: limit=9, remaining=41, reset=1\n",
			RATELIMIT_THEIRS},
		{CONF_RATELIMIT_DRAFT_11, "RateLimit: limit=9, remaining=43, reset=1\n",
			RATELIMIT_OURS},
		{CONF_RATELIMIT_DRAFT_11, "RateLimit: \"no end;r=1\n", RATELIMIT_OURS},
		{CONF_RATELIMIT_DRAFT_11, "RateLimit:\n", RATELIMIT_BOTH},
		{CONF_RATELIMIT_X, "X-RateLimit-Remaining: 1\n", RATELIMIT_THEIRS},
		{CONF_RATELIMIT_X, "x-ratelimit-remaining: 43\n", RATELIMIT_OURS},
		{CONF_RATELIMIT_X, "X-RateLimit-Remaining: -1\n", RATELIMIT_OURS},
		{CONF_RATELIMIT_X, "RateLimit: limit=9, remaining=0, reset=1\n", RATELIMIT_BOTH},
	};
	struct fixture f = begin();
	struct http_head head;

	(void)state;
	add(&f, BURST, 42, 1000, false);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		head_of(&head, cases[i].fields);
		if (ratelimit_merge(cases[i].dialect, &f.verdict, &head) != cases[i].expected)
			fail_msg("%u %s", (unsigned)cases[i].dialect, cases[i].fields);
	}
	assert_int_equal(ratelimit_merge(CONF_RATELIMIT_X, &f.verdict, NULL), RATELIMIT_BOTH);
	f.verdict.limit_count = 0;
	head_of(&head, "X-RateLimit-Remaining: 43\n");
	assert_int_equal(ratelimit_merge(CONF_RATELIMIT_X, &f.verdict, &head), RATELIMIT_THEIRS);
	end(&f);
}

static void replaced_fields(void **state)
{
	(void)state;
	assert_true(ratelimit_is_replaced(
		CONF_RATELIMIT_X, HTTP_FIELD_OTHER, SLICE("X-RATELIMIT-Reset")));
	assert_false(ratelimit_is_replaced(
		CONF_RATELIMIT_X, HTTP_FIELD_OTHER, SLICE("X-RateLimit-Used")));
	assert_false(
		ratelimit_is_replaced(CONF_RATELIMIT_X, HTTP_FIELD_RATELIMIT, SLICE("RateLimit")));
	assert_true(ratelimit_is_replaced(
		CONF_RATELIMIT_DRAFT_7, HTTP_FIELD_RATELIMIT, SLICE("RateLimit")));
	assert_true(ratelimit_is_replaced(
		CONF_RATELIMIT_DRAFT_11, HTTP_FIELD_RATELIMIT, SLICE("RateLimit")));
	assert_false(ratelimit_is_replaced(
		CONF_RATELIMIT_DRAFT_11, HTTP_FIELD_OTHER, SLICE("X-RateLimit-Reset")));
}

UNIT_SUITE(test_ratelimit_fields)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draft_11),
		cmocka_unit_test(draft_7),
		cmocka_unit_test(x_ratelimit),
		cmocka_unit_test(bytes_that_are_known),
		cmocka_unit_test(above_the_window_only_when_refused),
		cmocka_unit_test(gcra),
		cmocka_unit_test(violated_names),
		cmocka_unit_test(merging),
		cmocka_unit_test(replaced_fields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
