/* Every state of an exchange, a client's connection and a server's: fine with the deadline that its
 * state asks for, and a fault without it, with one of another state, and with two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/wait_check.h"
#include "exchange/exchange.h"
#include "tunnel/passage.h"
#include "http1/downstream.h"
#include "upstream/server_inside.h"
#include "tests/unit/suite.h"

/* A client's connection with one exchange or two on it, and a connection to a server. */
struct world {
	struct downstream client;
	struct server_connection server;
	struct exchange before, exchange;
	char unsent[4];
};

static void run_until(struct deadline *deadline, uint64_t at_ms)
{
	deadline->at_ms = deadline->armed_ms = at_ms;
}

static void set(struct wait *wait, enum wait_reason reason)
{
	wait->reason = reason;
	run_until(&wait->deadline, reason == WAIT_NONE ? DEADLINE_NEVER : 1000);
}

static struct world *begin(enum exchange_state state)
{
	static struct world world;
	struct world *w = &world;

	memset(w, 0, sizeof(*w));
	set(&w->client.wait, WAIT_NONE);
	set(&w->server.wait, WAIT_NONE);
	run_until(&w->exchange.turn.deadline, DEADLINE_NEVER);
	w->client.state = DOWNSTREAM_OPEN;
	w->client.client.first = w->client.last = &w->exchange;
	w->exchange.client = w->before.client = &w->client.client;
	w->exchange.state = state;
	w->exchange.request_progress = REQUEST_READ;
	w->before.next = &w->exchange;
	w->before.state = EXCHANGE_FORWARDING;
	return w;
}

static void with_connection(struct world *w)
{
	w->exchange.connection = &w->server;
	w->server.exchange = &w->exchange;
	w->server.state = w->exchange.state == EXCHANGE_CONNECTING ? SERVER_CONNECTION_CONNECTING
								   : SERVER_CONNECTION_BUSY;
}

static void is_being_read(struct world *w, enum downstream_input input)
{
	w->client.input = input;
	w->client.reading = &w->exchange;
	w->exchange.request_progress = REQUEST_READING;
}

static void is_behind(struct world *w)
{
	w->client.client.first = &w->before;
}

static bool is_sound(const struct world *w)
{
	return wait_check_exchange(&w->exchange) == NULL;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

enum party { OWN, SERVER, CLIENT, BEFORE };

/* What must run in which state. One line for each way in which a state may wait. */
static const struct way {
	enum exchange_state state;
	enum party party;
	enum wait_reason reason;
} ways[] = {
	{EXCHANGE_HEAD, CLIENT, WAIT_HEAD},
	{EXCHANGE_HEAD, CLIENT, WAIT_TAKE},
	{EXCHANGE_HELD, CLIENT, WAIT_BODY},
	{EXCHANGE_HELD, CLIENT, WAIT_TAKE},
	{EXCHANGE_HELD, BEFORE, WAIT_NONE},
	{EXCHANGE_SEEKING, OWN, WAIT_NONE},
	{EXCHANGE_ASKING, OWN, WAIT_NONE},
	{EXCHANGE_DELAYED, OWN, WAIT_NONE},
	{EXCHANGE_QUEUED, OWN, WAIT_NONE},
	{EXCHANGE_CONNECTING, SERVER, WAIT_CONNECT},
	{EXCHANGE_FORWARDING, SERVER, WAIT_SEND},
	{EXCHANGE_FORWARDING, SERVER, WAIT_RESPONSE},
	{EXCHANGE_FORWARDING, CLIENT, WAIT_BODY},
	{EXCHANGE_FORWARDING, CLIENT, WAIT_TAKE},
	{EXCHANGE_RELAYING, SERVER, WAIT_MORE},
	{EXCHANGE_RELAYING, CLIENT, WAIT_TAKE},
	{EXCHANGE_DRAINING, SERVER, WAIT_DRAIN},
	{EXCHANGE_REPLYING, CLIENT, WAIT_BODY},
	{EXCHANGE_REPLYING, CLIENT, WAIT_TAKE},
	{EXCHANGE_REPLYING, BEFORE, WAIT_NONE},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool has_connection(enum exchange_state state)
{
	return state == EXCHANGE_CONNECTING || state == EXCHANGE_FORWARDING ||
	       state == EXCHANGE_RELAYING || state == EXCHANGE_DRAINING;
}

/* The state as this way has it, without its deadline. */
static struct world *without(const struct way *way)
{
	struct world *w = begin(way->state);

	if (has_connection(way->state))
		with_connection(w);
	if (way->party == CLIENT && way->reason == WAIT_HEAD)
		is_being_read(w, INPUT_HEAD);
	if (way->party == CLIENT && way->reason == WAIT_BODY)
		is_being_read(w, INPUT_BODY);
	if (way->state == EXCHANGE_DRAINING)
		w->exchange.client = NULL;
	return w;
}

static void give(struct world *w, const struct way *way)
{
	switch (way->party) {
	case OWN:
		w->exchange.turn.has_deadline = true;
		run_until(&w->exchange.turn.deadline, 1000);
		break;
	case SERVER:
		set(&w->server.wait, way->reason);
		break;
	case CLIENT:
		set(&w->client.wait, way->reason);
		break;
	case BEFORE:
		is_behind(w);
		break;
	}
}

/* ---- messages of WebSockets ------------------------------------------------------------------ */

static void a_message_has_its_own_or_its_sockets(void **state)
{
	(void)state;
	for (int s = EXCHANGE_HEAD; s <= EXCHANGE_ENDED; s++) {
		bool has_own = s == EXCHANGE_SEEKING || s == EXCHANGE_ASKING ||
			       s == EXCHANGE_DELAYED || s == EXCHANGE_QUEUED;
		struct world *w = begin(EXCHANGE_HEAD);
		struct passage passage = {.server.open = true};
		struct exchange message = {.state = (enum exchange_state)s};

		set(&passage.wait, WAIT_NONE);
		run_until(&message.turn.deadline, DEADLINE_NEVER);
		assert_non_null(wait_check_message(&message, &passage));
		set(&passage.wait, WAIT_TUNNEL);
		assert_int_equal(
			wait_check_message(&message, &passage) == NULL, s == EXCHANGE_FORWARDING);
		message.turn.has_deadline = true;
		run_until(&message.turn.deadline, 1000);
		assert_int_equal(wait_check_message(&message, &passage) == NULL, has_own);
		message.connection = &w->server;
		assert_non_null(wait_check_message(&message, &passage));
		message.connection = NULL;
		passage.server.open = false;
		assert_non_null(wait_check_message(&message, &passage));
	}
}

static void a_passage_has_its_own(void **state)
{
	struct passage passage = {0};

	(void)state;
	set(&passage.wait, WAIT_NONE);
	assert_non_null(wait_check_passage(&passage));
	set(&passage.wait, WAIT_MORE);
	assert_non_null(wait_check_passage(&passage));
	set(&passage.wait, WAIT_TUNNEL);
	assert_null(wait_check_passage(&passage));
	passage.has_ended = true;
	assert_non_null(wait_check_passage(&passage));
}

static void every_state_has_a_way(void **state)
{
	(void)state;
	for (int s = EXCHANGE_HEAD; s < EXCHANGE_ENDED; s++) {
		bool found = false;
		for (size_t i = 0; i < WAYS; i++)
			found |= (int)ways[i].state == s;
		assert_int_equal(found, s != EXCHANGE_TUNNEL); /* a passage by then */
	}
	assert_false(is_sound(begin(EXCHANGE_ENDED)));
}

static void a_missing_deadline_is_seen(void **state)
{
	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		struct world *w = without(&ways[i]);
		assert_false(is_sound(w));
		give(w, &ways[i]);
		assert_true(is_sound(w));
	}
}

/* It is set, and its timer is not: it would never pass. */
static void an_unarmed_deadline_is_seen(void **state)
{
	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		struct world *w = without(&ways[i]);
		give(w, &ways[i]);
		w->server.wait.deadline.armed_ms = w->client.wait.deadline.armed_ms =
			w->exchange.turn.deadline.armed_ms = DEADLINE_NEVER;
		assert_int_equal(is_sound(w), ways[i].party == BEFORE);
	}
}

static bool is_a_way(enum exchange_state state, enum party party, enum wait_reason reason)
{
	for (size_t i = 0; i < WAYS; i++) {
		if (ways[i].state == state && ways[i].party == party && ways[i].reason == reason)
			return true;
	}
	return false;
}

/* A server's deadline that another state had set, be there the right one as well or not. */
static void a_deadline_of_another_state_is_seen(void **state)
{
	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		for (int reason = WAIT_IDLE; reason <= WAIT_REUSE; reason++) {
			struct world *w = without(&ways[i]);
			give(w, &ways[i]);
			if (!w->exchange.connection || reason == WAIT_CLIENT ||
				is_a_way(ways[i].state, SERVER, (enum wait_reason)reason))
				continue;
			set(&w->server.wait, (enum wait_reason)reason);
			assert_false(is_sound(w));
		}
		struct world *w = without(&ways[i]);
		give(w, &ways[i]);
		if (ways[i].party == OWN)
			continue;
		give(w, &(struct way){ways[i].state, OWN, WAIT_NONE});
		assert_false(is_sound(w));
	}
}

static void two_deadlines_are_seen(void **state)
{
	struct world *w = begin(EXCHANGE_FORWARDING);

	(void)state;
	with_connection(w);
	is_being_read(w, INPUT_BODY);
	set(&w->client.wait, WAIT_BODY);
	assert_true(is_sound(w));
	set(&w->server.wait, WAIT_SEND);
	assert_false(is_sound(w));
}

/* Behind others it may wait for them only while no server was asked. */
static void behind_others(void **state)
{
	struct world *w = begin(EXCHANGE_FORWARDING);

	(void)state;
	with_connection(w);
	set(&w->server.wait, WAIT_RESPONSE);
	assert_true(is_sound(w));
	is_behind(w);
	assert_false(is_sound(w));
	set(&w->server.wait, WAIT_NONE);
	assert_false(is_sound(w));
	w->exchange.state = EXCHANGE_QUEUED;
	w->exchange.connection = NULL;
	assert_false(is_sound(w));
	w->exchange.state = EXCHANGE_HELD;
	assert_true(is_sound(w));
}

/* That its client is slow is looked for by a timer that bounds nothing. */
static void a_look_at_the_client_is_no_bound(void **state)
{
	struct world *w = begin(EXCHANGE_RELAYING);

	(void)state;
	with_connection(w);
	set(&w->server.wait, WAIT_CLIENT);
	assert_false(is_sound(w));
	set(&w->client.wait, WAIT_TAKE);
	assert_true(is_sound(w));
}

static void a_connection_is_its_own(void **state)
{
	struct world *w = begin(EXCHANGE_FORWARDING);

	(void)state;
	assert_false(is_sound(w));
	with_connection(w);
	set(&w->server.wait, WAIT_RESPONSE);
	assert_true(is_sound(w));
	w->server.exchange = &w->before;
	assert_false(is_sound(w));
	w->server.exchange = &w->exchange;
	w->server.state = SERVER_CONNECTION_IDLE;
	assert_false(is_sound(w));
}

/* ---- clients and idle servers ---------------------------------------------------------------- */

static void has_unsent(struct world *w)
{
	w->client.out.body = (struct slice){w->unsent, sizeof(w->unsent)};
}

static bool client_is_sound(struct world *w, enum wait_reason reason)
{
	set(&w->client.wait, reason);
	return wait_check_client(&w->client) == NULL;
}

/* Which of all reasons are sound. */
static unsigned sound_reasons(struct world *w)
{
	unsigned found = 0;

	for (int reason = WAIT_NONE; reason <= WAIT_REUSE; reason++)
		found |= (unsigned)client_is_sound(w, (enum wait_reason)reason) << reason;
	return found;
}

static void clients(void **state)
{
	struct world *w = begin(EXCHANGE_HEAD);

	(void)state;
	w->client.client.first = NULL;
	assert_int_equal(sound_reasons(w), 1u << WAIT_IDLE);
	has_unsent(w);
	assert_int_equal(sound_reasons(w), 1u << WAIT_TAKE);
	is_being_read(w, INPUT_HEAD);
	assert_int_equal(sound_reasons(w), 1u << WAIT_TAKE);
	w->client.out.body.len = 0;
	assert_int_equal(sound_reasons(w), 1u << WAIT_HEAD);
	w = begin(EXCHANGE_FORWARDING);
	assert_int_equal(sound_reasons(w), 1u << WAIT_NONE | 1u << WAIT_HEAD | 1u << WAIT_BODY);
	w->client.input = INPUT_TUNNEL;
	assert_true(client_is_sound(w, WAIT_NONE));
	w = begin(EXCHANGE_HEAD);
	w->client.client.first = NULL;
	w->client.state = DOWNSTREAM_LINGERING;
	assert_int_equal(sound_reasons(w), 1u << WAIT_LINGER);
	w->client.state = DOWNSTREAM_CLOSED;
	assert_int_equal(sound_reasons(w), 0);
}

static void idle_servers(void **state)
{
	struct world *w = begin(EXCHANGE_HEAD);

	(void)state;
	w->server.state = SERVER_CONNECTION_IDLE;
	assert_non_null(wait_check_idle_server(&w->server));
	set(&w->server.wait, WAIT_REUSE);
	assert_null(wait_check_idle_server(&w->server));
	w->server.exchange = &w->exchange;
	assert_non_null(wait_check_idle_server(&w->server));
	w->server.exchange = NULL;
	w->server.state = SERVER_CONNECTION_BUSY;
	assert_non_null(wait_check_idle_server(&w->server));
}

UNIT_SUITE(test_wait_check)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_passage_has_its_own),
		cmocka_unit_test(every_state_has_a_way),
		cmocka_unit_test(a_message_has_its_own_or_its_sockets),
		cmocka_unit_test(a_missing_deadline_is_seen),
		cmocka_unit_test(an_unarmed_deadline_is_seen),
		cmocka_unit_test(a_deadline_of_another_state_is_seen),
		cmocka_unit_test(two_deadlines_are_seen),
		cmocka_unit_test(behind_others),
		cmocka_unit_test(a_look_at_the_client_is_no_bound),
		cmocka_unit_test(a_connection_is_its_own),
		cmocka_unit_test(clients),
		cmocka_unit_test(idle_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
