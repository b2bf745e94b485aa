/*
 * The internal listener's side of a hop: who gets past the greeting, and what is taken from a node
 * that has. At random, too: SEED=7 CONNECTIONS=1 tests/unit/exchange/test_hop
 */
#include "exchange/hop.h"

#include "fakes/flight.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define A         "00112233445566778899aabbccddeeff"
#define FORWARDED "Sluice-Hop: 1 none 192.0.2.7 7 9 9\r\n"

/* conf_parse reads no files: it has the name of one as what is in it. */
static const struct slice secret = {"/of/the/fleet", 13};
static const struct stage_conf internal = {
	.more = "[fleet]\nstore = redis://127.0.0.1:5\nbind = 127.0.0.1:7946\n"
		"secret = file:/of/the/fleet\n"};

/* ---- a node that asks ------------------------------------------------------------------------ */

static const struct conf_listener *internal_of(const struct stage *stage)
{
	const struct conf *conf = stage->daemon.site->conf;

	for (size_t i = 0; i < conf->listener_count; i++) {
		if (conf->listeners[i].is_internal)
			return &conf->listeners[i];
	}
	fail_msg("no internal listener");
	return NULL;
}

static struct stage *begin(void)
{
	struct stage *stage = stage_begin(&internal);

	stage->listener.conf = internal_of(stage);
	return stage;
}

/* The connection ends, as http1's does. */
static void forget_connection(struct stage *stage)
{
	stage_forget(stage);
	hop_close(&stage->client.client);
}

static void end(struct stage *stage)
{
	forget_connection(stage);
	stage_end(stage);
}

/* A request with these Sluice-Hop lines, and its answer, which is forgotten with the next. */
static const char *ask(struct stage *stage, const char *fields)
{
	char request[2000];

	snprintf(
		request, sizeof(request), "GET /.sluice/hop HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
	stage_ask(stage, request);
	const char *got = stage_client_got(stage);
	if (stage->client.client.first)
		exchange_end(stage->client.client.first);
	stage_turn(stage);
	return got;
}

static const char *ask_word(struct stage *stage, const char *word, struct slice value)
{
	char line[HOP_PROOF_BYTES + 100];

	snprintf(line, sizeof(line), "Sluice-Hop: %s %.*s\r\n", word, SLICE_ARGS(value));
	return ask(stage, line);
}

static enum hop_state state_of(const struct stage *stage)
{
	return stage->client.client.hop ? stage->client.client.hop->state : HOP_NEW;
}

/* Says hello, and composes what proves that this one has `with`. */
static struct slice challenged(struct stage *stage, struct slice with, char proof[HOP_PROOF_BYTES])
{
	const char *got = ask_word(stage, "hello", SLICE(A));
	char ours[HOP_NONCE_BYTES] = "";

	assert_has(got, "HTTP/1.1 200 ");
	assert_has(got, "\r\nSluice-Hop: challenge ");
	assert_lacks(got, "Connection: close");
	const char *value = strstr(got, "challenge ") + strlen("challenge ");
	assert_int_equal(strcspn(value, "\r"), HOP_NONCE_BYTES - 1); /* nothing is proven to it */
	memcpy(ours, value, HOP_NONCE_BYTES - 1);
	return (struct slice){proof, hop_prove(with, HOP_ASKER, A, ours, proof)};
}

static void prove(struct stage *stage)
{
	char proof[HOP_PROOF_BYTES];
	const char *got = ask_word(stage, "proof", challenged(stage, secret, proof));

	assert_has(got, "HTTP/1.1 200 ");
	const char *value = strstr(got, "\r\nSluice-Hop: welcome ");
	assert_non_null(value);
	assert_lacks(got, "Connection: close");
	value += strlen("\r\nSluice-Hop: welcome ");
	assert_true(hop_is_proof(secret, HOP_OWNER, A, stage->client.client.hop->ours,
		(struct slice){value, strcspn(value, "\r")})); /* it has it itself */
	assert_int_equal(state_of(stage), HOP_PROVEN);
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static void who_has_the_secret_is_welcome(void **state)
{
	struct stage *stage = begin();

	(void)state;
	prove(stage);
	assert_string_equal(lines.text, ""); /* neither log has it */
	end(stage);
}

/* The other node sends a request behind the greeting, which would be lost with the connection. */
static void a_greeting_is_not_the_last_answer_of_a_drain(void **state)
{
	struct stage *stage = begin();

	(void)state;
	stage->worker->draining = stage->client.is_last = true;
	prove(stage);
	end(stage);
}

/* A reload: what has proven it by the old one is a stranger, and what it has sent goes nowhere. */
static void with_another_secret_it_is_welcome_no_more(void **state)
{
	struct stage *stage = begin();
	struct conf_secret *known =
		(struct conf_secret *)(uintptr_t)&stage->daemon.site->conf->fleet.secret;
	const struct conf_secret before = *known;

	(void)state;
	prove(stage);
	stage->daemon.site->serial++;
	assert_has(ask(stage, FORWARDED), "\r\nSluice-Hop: unknown\r\n"); /* the same secret */
	*known = (struct conf_secret){.at = "of others", .len = 9};
	stage->daemon.site->serial++;
	const char *got = ask(stage, FORWARDED);
	assert_has(got, "HTTP/1.1 421 ");
	assert_has(got, "\r\nSluice-Hop: closing\r\n");
	assert_has(stage->client.trace, "finish ");
	*known = before;
	end(stage);
}

static void assert_turned_away(struct stage *stage, const char *got)
{
	assert_has(got, "HTTP/1.1 403 ");
	assert_lacks(got, "Sluice-Hop");
	assert_has(stage->client.trace, "finish "); /* the connection ends */
	assert_int_not_equal(state_of(stage), HOP_PROVEN);
	assert_int_equal(stage->server_count, 0);
	forget_connection(stage);
}

static void who_has_not_is_turned_away(void **state)
{
	static const char *const first[] = {
		"",
		"Sluice-Hop: \r\n",
		"Sluice-Hop: hello\r\n",
		"Sluice-Hop: hello 0011\r\n",
		"Sluice-Hop: hello " A "0\r\n",
		"Sluice-Hop: hello  " A "\r\n",
		"Sluice-Hop: proof\r\n",
		"Sluice-Hop: proof a.b.c\r\n",
		"Sluice-Hop: welcome\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 9\r\n",
	};
	struct stage *stage = begin();
	char proof[HOP_PROOF_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		assert_turned_away(stage, ask(stage, first[i]));
	struct slice wrong = challenged(stage, SLICE("of another"), proof);
	assert_turned_away(stage, ask_word(stage, "proof", wrong));
	challenged(stage, secret, proof);
	assert_turned_away(stage, ask_word(stage, "hello", SLICE(A))); /* once only */
	/* What another connection has proven: ours is another nonce. */
	struct slice good = challenged(stage, secret, proof);
	forget_connection(stage);
	char other[HOP_PROOF_BYTES];
	challenged(stage, secret, other);
	assert_turned_away(stage, ask_word(stage, "proof", good));
	end(stage);
}

/* Their lines are those of one in ten seconds, with the number of the others. */
static void many_of_them_do_not_fill_the_log(void **state)
{
	struct stage *stage = begin();
	static const char line[] =
		"warn listener fleet: 192.0.2.1 does not have the fleet's secret";

	(void)state;
	lines.has_no_access = true;
	assert_turned_away(stage, ask(stage, "Sluice-Hop: proof x\r\n"));
	ask(stage, "Sluice-Hop: proof x\r\n");
	for (unsigned i = 0; i < 500; i++) {
		stage_at(stage, 10 * i);
		forget_connection(stage); /* and its line */
		ask(stage, "Sluice-Hop: proof x\r\n");
		assert_lacks(lines.text, "secret");
	}
	assert_true(stage->daemon.node.failures.is_reported); /* the rest is counted if none come */
	stage_at(stage, LOG_PACE_MS);
	ask(stage, "Sluice-Hop: proof x\r\n");
	assert_has(lines.text, line);
	assert_has(lines.text, "secret; 501 more since the last line\n");
	end(stage);
}

/* Whatever it says, in whatever order: only the proof of this connection opens it. */
static void random_connections(void **state)
{
	struct random random = random_begin("hop");
	const char *given = getenv("CONNECTIONS");
	unsigned count = given ? (unsigned)atoi(given) : 200, welcome = 0;
	struct stage *stage = begin();

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		bool is_over = false, is_due = false; /* is_due: the next may be its proof */
		char proof[HOP_PROOF_BYTES] = "";
		struct slice good = {proof, 0};
		for (unsigned step = 0; step < 4 && !is_over; step++) {
			switch (random_below(&random, 4)) {
			case 0:
				if (state_of(stage) == HOP_NEW) {
					good = challenged(stage, secret, proof);
					is_due = true;
				}
				break;
			case 1:
				if (!is_due)
					break;
				bool is_whole = random_below(&random, 2) == 0;
				if (!is_whole)
					proof[random_below(&random, good.len)] ^= 1;
				assert_has(ask_word(stage, "proof", good),
					is_whole ? "HTTP/1.1 200 " : "HTTP/1.1 403 ");
				assert_int_equal(state_of(stage) == HOP_PROVEN, is_whole);
				welcome += is_whole;
				is_over = true;
				break;
			case 2:
				assert_turned_away(
					stage, ask(stage, "Sluice-Hop: 1 l 192.0.2.7 7 9 9\r\n"));
				is_over = true;
				break;
			default:
				assert_turned_away(stage, ask(stage, "Sluice-Hop: welcome\r\n"));
				is_over = true;
				break;
			}
		}
		forget_connection(stage);
	}
	assert_true(given || welcome > 0);
	end(stage);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void its_client_is_that_of_the_other_node(void **state)
{
	struct stage *stage = begin();

	(void)state;
	prove(stage);
	struct exchange *x =
		stage_ask(stage, "GET /a HTTP/1.1\r\nHost: h\r\n"
				 "Sluice-Hop: 1 l 192.0.2.7 1234567890123456789 22 333\r\n\r\n");
	const struct hop *hop = stage->client.client.hop;
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_true(hop->instance == 1234567890123456789 && hop->mark == 22 && hop->fence == 333);
	assert_string_equal(client_listener(&stage->client.client)->name, "l");
	const char *got = stage_server_got(stage, 0);
	assert_has(got, "\r\nX-Real-IP: 192.0.2.7\r\n");
	assert_lacks(got, "Sluice-Hop");
	exchange_end(x);
	stage_turn(stage);
	assert_null(hop->listener); /* of a site that may go */
	end(stage);
}

/* Each request has its own: the next one on the connection may not have waited. */
static void its_wait_at_the_other_node_is_known(void **state)
{
	struct stage *stage = begin();

	(void)state;
	prove(stage);
	for (unsigned i = 0; i < 4; i++) {
		struct exchange *x =
			stage_ask(stage, i % 2 == 0 ? "GET /a HTTP/1.1\r\nHost: h\r\n"
						      "Sluice-Hop: 1 l 192.0.2.7 7 9 9 1234\r\n\r\n"
						    : "GET /a HTTP/1.1\r\nHost: h\r\n"
						      "Sluice-Hop: 1 l 192.0.2.7 7 9 9\r\n\r\n");
		assert_int_equal(x->state, EXCHANGE_FORWARDING);
		assert_int_equal(stage->client.client.hop->waited_ms, i % 2 == 0 ? 1234 : 0);
		flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		stage_forget(stage);
	}
	end(stage);
}

static void what_it_does_not_understand_is_nowhere_sent(void **state)
{
	static const char *const fields[] = {
		"",
		"Sluice-Hop: \r\n",
		"Sluice-Hop: 1\r\n",
		"Sluice-Hop: 1 l\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 \r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 9 9 9\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 9 -9\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 -9\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 12345678901234567890\r\n",
		"Sluice-Hop: 1 l 192.0.2 7 9 9\r\n",
		"Sluice-Hop: 1 l  7 9 9\r\n",
		"Sluice-Hop: 1 none 192.0.2.7 7 9 9\r\n",
		"Sluice-Hop: 1 [fleet] 192.0.2.7 7 9 9\r\n", /* no loop */
		"Sluice-Hop: 2 l 192.0.2.7 7 9 9\r\n",
		"Sluice-Hop: hello " A "\r\n",
		"Sluice-Hop: 1 l 192.0.2.7 7 9 9\r\nSluice-Hop: 1 l 192.0.2.7 7 9 9\r\n",
	};
	struct stage *stage = begin();

	(void)state;
	prove(stage);
	lines.has_no_access = true;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const char *got = ask(stage, fields[i]);
		if (!strstr(got, "HTTP/1.1 421 ") || !strstr(got, "\r\nSluice-Hop: unknown\r\n"))
			fail_msg("%s -> %s", fields[i], got);
	}
	assert_int_equal(stage->server_count, 0);
	/* One line for all of them. */
	const char *first =
		strstr(lines.text, "a node forwarded a request that this node does not understand");
	assert_non_null(first);
	assert_null(strstr(first + 1, "a node forwarded"));
	end(stage);
}

UNIT_SUITE(test_hop)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_the_secret_is_welcome),
		cmocka_unit_test(a_greeting_is_not_the_last_answer_of_a_drain),
		cmocka_unit_test(with_another_secret_it_is_welcome_no_more),
		cmocka_unit_test(who_has_not_is_turned_away),
		cmocka_unit_test(many_of_them_do_not_fill_the_log),
		cmocka_unit_test(random_connections),
		cmocka_unit_test(its_client_is_that_of_the_other_node),
		cmocka_unit_test(its_wait_at_the_other_node_is_known),
		cmocka_unit_test(what_it_does_not_understand_is_nowhere_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
