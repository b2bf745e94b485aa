/* The gate for WebSockets that are read: what a handshake, a message and a request of one caller
 * are charged. */
#include "config.h"

#include "gate/gate.h"

#include "gate_fixture.h"
#include "input_of.h"
#include "tests/unit/suite.h"

/* The only one that reads its WebSockets. */
static const struct conf_route *route_of(const struct fixture *f)
{
	const struct conf_route *route = f->conf->routes;

	while (route->websocket.mode == CONF_WEBSOCKET_TUNNEL)
		route++;
	return route;
}

static enum gate_outcome ask(struct fixture *f, enum gate_kind kind, const char *fields)
{
	const struct conf_route *route = route_of(f);
	struct gate_identity identity;
	struct http_head head;
	struct identity_input input = input_of(&head, route->name, fields);

	gate_identify_as(f->gate, route, kind, &input, &identity);
	gate_judge(f->gate, route, &identity, NULL, f->now_ns, 0, &f->verdict, &f->receipt);
	return f->verdict.outcome;
}

static void finish(struct fixture *f, struct gate_receipt *receipt, uint64_t bytes)
{
	const struct gate_end how = {.bytes = bytes};

	gate_finish(f->gate, route_of(f), receipt, &how, f->now_ns);
}

static void one_budget(void **state)
{
	struct fixture f = begin("[limit l]\nkey = header:K\nrate = 4 per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\nwebsocket = messages\n"
				 "message_limits = l\n");

	(void)state;
	assert_int_equal(ask(&f, GATE_HANDSHAKE, "K: a\n"), GATE_ADMIT);
	struct throttle_key session = f.verdict.session;
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 2);
	assert_memory_equal(&f.verdict.session, &session, sizeof(session));
	assert_int_equal(ask(&f, GATE_REQUEST, "K: a\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: a\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: a\n"), GATE_REFUSE);
	assert_int_equal(ask(&f, GATE_REQUEST, "K: a\n"), GATE_REFUSE);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: b\n"), GATE_ADMIT);
	end(&f);
}

static void limits_of_their_own(void **state)
{
	struct fixture f = begin("[limit l]\nrate = 1 per 10s\n[limit m]\nrate = 3 per 10s\n"
				 "[limit b]\nrate = 100B per 1s\n"
				 "[route r]\nupstream = u\nlimits = l\nwebsocket = messages\n"
				 "message_limits = m, b\ncost = 1\n");

	(void)state;
	assert_int_equal(ask(&f, GATE_REQUEST, ""), GATE_ADMIT);
	assert_int_equal(ask(&f, GATE_HANDSHAKE, ""), GATE_REFUSE);
	assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 2);
	finish(&f, &f.receipt, 60);
	assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_ADMIT);
	finish(&f, &f.receipt, 60);
	assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_REFUSE); /* 120 of 100 bytes */
	assert_false(f.verdict.limits[0].violated);
	assert_true(f.verdict.limits[1].violated);
	f.now_ns += 2 * S;
	assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_ADMIT);
	assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_REFUSE); /* the fourth in 10 s */
	assert_true(f.verdict.limits[0].violated);
	end(&f);
}

/* A message costs 1, whatever a request does; without message_limits it costs nothing. */
static void costs(void **state)
{
	struct fixture f = begin("[limit l]\nrate = 10 per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\nwebsocket = messages\n"
				 "message_limits = l\ncost = 4\n");

	(void)state;
	assert_int_equal(ask(&f, GATE_HANDSHAKE, ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 6);
	assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 5);
	end(&f);
	f = begin("[limit l]\nrate = 1 per 10s\n"
		  "[route r]\nupstream = u\nlimits = l\nwebsocket = messages\n");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask(&f, GATE_MESSAGE, ""), GATE_ADMIT);
		assert_int_equal(f.verdict.limit_count, 0);
	}
	end(&f);
}

static void sockets_of_a_caller(void **state)
{
	struct fixture f = begin("[limit l]\nkey = header:K\nrate = 100 per 10s\n"
				 "[limit s]\nkey = header:K\nconcurrency = 2\n"
				 "[route r]\nupstream = u\nlimits = l\nwebsocket = messages\n"
				 "max_sockets = s\n");
	struct gate_receipt first;

	(void)state;
	assert_int_equal(ask(&f, GATE_HANDSHAKE, "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 2);
	first = f.receipt;
	assert_int_equal(ask(&f, GATE_HANDSHAKE, "K: a\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, GATE_HANDSHAKE, "K: a\n"), GATE_REFUSE);
	assert_false(f.verdict.limits[0].violated);
	assert_true(f.verdict.limits[1].violated);
	assert_int_equal(f.verdict.limits[0].remaining, 98); /* a refused one takes nothing */
	assert_int_equal(ask(&f, GATE_REQUEST, "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 1);
	assert_int_equal(ask(&f, GATE_HANDSHAKE, "K: b\n"), GATE_ADMIT);
	finish(&f, &first, 0);
	assert_int_equal(ask(&f, GATE_HANDSHAKE, "K: a\n"), GATE_ADMIT);
	end(&f);
}

static void limits_of_plans(void **state)
{
	struct fixture f =
		begin("[limit l]\nrate = 9 per 10s\n[limit g]\nkey = header:K\nrate = 2 per 10s\n"
		      "[plans]\nkey = header:K\n[plan default]\nlimits = g\n"
		      "[route r]\nupstream = u\nwebsocket = messages\n"
		      "message_limits = l, plan\n[route t]\nupstream = u\npath = =/t\n");

	(void)state;
	assert_int_equal(ask(&f, GATE_REQUEST, "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 0);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 2);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: a\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: a\n"), GATE_REFUSE);
	assert_int_equal(ask(&f, GATE_MESSAGE, "K: b\n"), GATE_ADMIT);
	end(&f);
}

UNIT_SUITE(test_messages)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_budget),
		cmocka_unit_test(limits_of_their_own),
		cmocka_unit_test(costs),
		cmocka_unit_test(sockets_of_a_caller),
		cmocka_unit_test(limits_of_plans),
	};

#ifndef HAVE_WEBSOCKET
	(void)tests;
	printf("1..0 # SKIP sluice is built without WebSockets\n");
	return 0;
#else
	return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
