/* The fields that say whom we speak for: composed once a connection, and right each time. */
#include "exchange/forwarding.h"

#include "fakes/flight.h"
#include "http/text_head.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

/* The lines for it. */
static const char *lines_for(struct forwarding *forwarding, const struct exchange *x)
{
	static char text[8192];
	struct field_sink sink = text_head_over(http_out_over(text, sizeof(text) - 1));

	forwarding_put(&sink, forwarding, x);
	assert_false(sink.out.overflow);
	*sink.out.at = '\0';
	return text;
}

static struct exchange *judged(struct stage *stage, const char *host, const char *more)
{
	char head[4096];

	snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, more);
	struct exchange *x = stage_ask(stage, head);
	assert_int_not_equal(x->state, EXCHANGE_HEAD);
	return x;
}

#define OF(host)                                                                                   \
	"X-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"        \
	"X-Forwarded-Host: " host "\r\nX-Forwarded-Port: 80\r\n"                                   \
	"Forwarded: for=192.0.2.1;host=" host ";proto=http\r\n"

static void they_are_composed_once(void **state)
{
	const struct stage_conf conf = {.node = "forwarded = on"};
	struct stage *stage = stage_begin(&conf);
	struct forwarding kept = {0};

	(void)state;
	assert_string_equal(lines_for(&kept, judged(stage, "h", "")), OF("h"));
	assert_non_null(kept.text);
	kept.text[kept.host_len] = 'Y'; /* it is these bytes that the next one gets */
	assert_string_equal(lines_for(&kept, judged(stage, "h", "A: b\r\n")) + 1, &OF("h")[1]);
	assert_int_equal(lines_for(&kept, stage->client.client.first)[0], 'Y');
	forwarding_clear(&kept);
	assert_null(kept.text);
	forwarding_clear(&kept);
	stage_end(stage);
}

/* Each of what they were composed from. */
static void they_are_composed_again(void **state)
{
	const struct stage_conf conf = {.node = "via = edge\nforwarded = on"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = judged(stage, "h", "");
	struct forwarding kept = {0};

	(void)state;
	lines_for(&kept, x);
	kept.text[kept.host_len] = 'Y';
	assert_string_equal(lines_for(&kept, judged(stage, "g", "")), OF("g") "Via: 1.1 edge\r\n");
	lines_for(&kept, x);
	kept.text[kept.host_len] = 'Y';
	x->request.minor = 0;
	assert_string_equal(lines_for(&kept, x), OF("h") "Via: 1.0 edge\r\n");
	x->request.minor = 1;
	lines_for(&kept, x);
	kept.text[kept.host_len] = 'Y';
	stage->daemon.site->serial++;
	assert_string_equal(lines_for(&kept, x), OF("h") "Via: 1.1 edge\r\n");
	stage->daemon.site->serial--;
	forwarding_clear(&kept);
	stage_end(stage);
}

/* Those of a request that hops before us have written to are its own. */
static void one_that_says_something_itself(void **state)
{
	static const char *const fields[] = {"Via: 1.1 a\r\n", "Forwarded: for=1.1.1.1\r\n",
		"X-Forwarded-For: 1.1.1.1\r\n", "X-Forwarded-Host: a\r\n",
		"X-Forwarded-Port: 1\r\n", "X-Forwarded-Proto: https\r\n"};
	const struct stage_conf conf = {
		.node = "via = edge\nforwarded = on", .listener = "trusted_proxies = 192.0.2.0/24"};
	struct stage *stage = stage_begin(&conf);
	struct forwarding kept = {0};
	char before[4096];

	(void)state;
	strcpy(before, lines_for(&kept, judged(stage, "h", "")));
	char *text = kept.text;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const char *got = lines_for(&kept, judged(stage, "h", fields[i]));
		assert_string_not_equal(got, before);
		assert_ptr_equal(kept.text, text);
		assert_string_equal(
			lines_for(&kept, judged(stage, "h", "Accept: 1.1.1.1\r\n")), before);
	}
	assert_has(lines_for(&kept, judged(stage, "h", fields[0])), "Via: 1.1 a, 1.1 edge\r\n");
	assert_has(lines_for(&kept, judged(stage, "h", fields[2])),
		"X-Forwarded-For: 1.1.1.1, 192.0.2.1\r\nX-Real-IP: 1.1.1.1\r\n");
	forwarding_clear(&kept);
	stage_end(stage);
}

static void long_ones_are_not_kept(void **state)
{
	const struct stage_conf conf = {.node = "forwarded = off"};
	struct stage *stage = stage_begin(&conf);
	struct forwarding kept = {0};
	char host[256];
	size_t longest = 0;

	(void)state;
	for (size_t len = 200; len < 255; len++) {
		memset(host, 'h', len);
		host[len] = '\0';
		const char *got = lines_for(&kept, judged(stage, host, ""));
		assert_has(got, host);
		longest = strlen(got);
		stage_forget(stage);
	}
	assert_non_null(kept.text); /* as long as any host is: it fits */
	assert_int_equal(kept.host_len, 254);
	assert_int_equal(kept.len, longest);
	/* Through a chain of our own Via it would not; here by a name that is too long for a host.
	 */
	struct exchange *x = judged(stage, "h", "");
	char *authority = malloc(2000);
	assert_non_null(authority);
	memset(authority, 'x', 2000);
	for (size_t i = 800; i < 1200; i++) {
		size_t len = i / 2;
		memset(authority, 'x', len);
		if (i % 2) /* one digit less of a port */
			memcpy(authority + len - 2, ":8", 2);
		x->facts.authority = (struct slice){authority, len};
		const size_t total = strlen(lines_for(&kept, x)) + len;
		assert_int_equal(kept.text != NULL, total <= 1024);
	}
	free(authority);
	forwarding_clear(&kept);
	stage_end(stage);
}

static void peers_without_an_address(void **state)
{
	const struct stage_conf confs[] = {{.node = "forwarded = on"},
		{.node = "forwarded = on", .listener = "trusted_proxies = 192.0.2.0/24"}};

	(void)state;
	for (unsigned trusted = 0; trusted < 2; trusted++) {
		struct stage *stage = stage_begin(&confs[trusted]);
		struct forwarding kept = {0};
		stage->client.peer.is_unix = true;
		stage->client.peer.trusted = trusted;
		memset(stage->client.peer.address, 0, 16);
		struct exchange *x = judged(stage, "h", "");
		const char *got = lines_for(&kept, x);
		assert_int_equal(strstr(got, "X-Forwarded-For:") != NULL, trusted);
		assert_lacks(got, "X-Real-IP");
		forwarding_clear(&kept);
		stage_end(stage);
	}
}

/* One that has no host tells none, unless a proxy before it does. */
static void requests_without_a_host(void **state)
{
	const struct stage_conf confs[] = {{.node = "forwarded = on"},
		{.node = "forwarded = on", .listener = "trusted_proxies = 192.0.2.0/24"}};

	(void)state;
	for (unsigned trusted = 0; trusted < 2; trusted++) {
		struct stage *stage = stage_begin(&confs[trusted]);
		struct forwarding kept = {0};
		struct exchange *x = stage_ask(stage, "GET / HTTP/1.0\r\n\r\n");
		assert_int_equal(
			strstr(lines_for(&kept, x), "X-Forwarded-Host: ") != NULL, trusted);
		assert_has(lines_for(&kept, x), "X-Forwarded-Port: 80\r\n");
		forwarding_clear(&kept);
		stage_end(stage);
	}
}

/* What was kept says the same as what would be composed. */
static void kept_ones_are_as_composed(void **state)
{
	static const char *const hosts[] = {"a", "b", "a:8", "", "ab"};
	static const char *const fields[] = {
		"", "", "", "Via: 1.1 a\r\n", "X-Forwarded-Port: 7\r\n"};
	const struct stage_conf conf = {
		.node = "via = edge\nforwarded = on", .listener = "trusted_proxies = 192.0.2.0/24"};
	struct random random = random_begin("requests");
	struct stage *stage = stage_begin(&conf);
	struct forwarding kept = {0};
	char with[4096];

	(void)state;
	for (unsigned i = 0; i < 500; i++) {
		struct forwarding none = {0};
		struct exchange *x = judged(
			stage, hosts[random_below(&random, 5)], fields[random_below(&random, 5)]);
		x->request.minor = (uint8_t)random_below(&random, 2);
		strcpy(with, lines_for(&kept, x));
		assert_string_equal(with, lines_for(&none, x));
		forwarding_clear(&none);
		stage_forget(stage);
	}
	forwarding_clear(&kept);
	stage_end(stage);
}

UNIT_SUITE(test_forwarding)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_composed_once),
		cmocka_unit_test(they_are_composed_again),
		cmocka_unit_test(one_that_says_something_itself),
		cmocka_unit_test(long_ones_are_not_kept),
		cmocka_unit_test(peers_without_an_address),
		cmocka_unit_test(requests_without_a_host),
		cmocka_unit_test(kept_ones_are_as_composed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
