/* Sockets of a session that a fleet shares (session_scope = fleet) when that is this node's no
 * more: nothing of theirs reaches the server, and the client is to come again. */
#include "gatewayed.h"

#include "ownership/owner_use.h"
#include "ownership/parting.h"
#include "upstream/server_connection.h"
#include "tests/unit/suite.h"

#define LEASE_MS 10000
#define FENCE    7

static const struct stage_conf read_here = {.route = OPENED_ROUTE};
static const struct stage_conf hourly = {.more = "[limit l]\nkey = ip\nrate = 1 per 1h\n",
	.route = OPENED_ROUTE "message_limits = l\n"};

static struct owners *owners;
static struct owner_session *asked;

static bool ask_store(struct worker *worker, const struct owner_question *question)
{
	(void)worker;
	asked = question->session;
	return true;
}

static void name(struct owner_use *use, char out[OWNER_NAME_BYTES])
{
	(void)use;
	snprintf(out, OWNER_NAME_BYTES, "session");
}

/* The session is this node's from now on, for a lease. */
static void own(void)
{
	static const struct owner_store store = {ask_store};
	struct owner_use *use = &o.passage->owner;
	const struct session_key key = {{1, 2}};

	owners = owners_new(&store, NULL);
	assert_non_null(owners);
	owners_set_self(owners, "self", "127.0.0.1:7900", LEASE_MS, 10);
	o.stage->worker->node->shared[NODE_OWNERS] = owners;
	assert_int_equal(owner_begin(owners, o.stage->worker, use, key, 1000, name), OWNER_BEGUN);
	assert_int_equal(owner_look(owners, use, OWNER_BELIEVE), OWNER_PENDING);
	owner_cancel(use);
	owners_answer(owners, o.stage->worker, asked, OWNER_TAKE,
		&(struct owner_answer){.is_known = true, .is_held = true, .fence = FENCE});
	assert_int_equal(owner_look(owners, use, OWNER_BELIEVE), OWNER_HERE);
	owner_follow(use);
	if (o.socket->gateway)
		owner_share(owners, &gateway_of(o.socket->gateway)->owner, use);
}

static void lease_ends(void)
{
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	opened_turn(&o);
}

/* The store says so, and each of its uses learns of that. */
static void it_is_anothers(void)
{
	struct worker *worker = o.stage->worker;

	owners_answer(owners, worker, asked, OWNER_RENEW, &(struct owner_answer){.is_known = true});
	owners_look_at_uses(owners, worker);
	opened_turn(&o);
}

static void free_owners(void)
{
	partings_end(o.stage->worker);
	o.stage->worker->node->shared[NODE_OWNERS] = NULL;
	owners_free(owners);
}

/* Its server was cut off, without a close frame. */
static void assert_over(const char *to_server)
{
	assert_string_equal(opened_to_server(&o), to_server);
	assert_string_equal(opened_to_client(&o), "close(1012 session over) ");
	opened_client_closes(&o, 1012, "");
	assert_string_equal(opened_to_client(&o), "end");
	assert_false(opened_is_open(&o));
	free_owners();
	opened_end(&o);
}

static void as_long_as_the_lease_is_in_hand(void **state)
{
	(void)state;
	opened_begin(&o, &read_here);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	assert_string_equal(opened_to_server(&o), "text(one) ");
	lease_ends();
	opened_client(&o, FRAME_TEXT, "two");
	assert_over("end");
}

static void another_has_it(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	opened_client(&o, FRAME_TEXT, "waits for its limit");
	assert_string_equal(opened_to_server(&o), "text(one) ");
	assert_non_null(o.socket->client.first);
	it_is_anothers();
	assert_null(o.socket->client.first);
	assert_over("end");
}

/* What the server's system has not taken would leave when a cut way is mended, behind what the next
 * owner has sent. */
static void what_has_not_arrived_never_will(void **state)
{
	(void)state;
	opened_begin(&o, &read_here);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	it_is_anothers();
	assert_over("cut");
}

/* The store does not say that another has it, but one may. */
static void nor_when_the_lease_ends(void **state)
{
	(void)state;
	opened_begin(&o, &read_here);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	owners_look_at_uses(owners, o.stage->worker);
	opened_turn(&o);
	assert_over("cut");
}

/* A close in order would end with these bytes. */
static void nor_when_its_client_has_left(void **state)
{
	(void)state;
	opened_begin(&o, &read_here);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_false(opened_is_open(&o));
	assert_non_null(ownership_part(o.stage->worker)->partings);
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	owners_look_at_uses(owners, o.stage->worker);
	assert_null(ownership_part(o.stage->worker)->partings);
	assert_string_equal(opened_to_server(&o), "cut");
	free_owners();
	opened_end(&o);
}

static void what_has_arrived_stays_when_the_lease_ends(void **state)
{
	(void)state;
	opened_begin(&o, &read_here);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	assert_string_equal(opened_to_server(&o), "text(one) ");
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	owners_look_at_uses(owners, o.stage->worker);
	assert_true(opened_is_open(&o));
	assert_string_equal(opened_to_client(&o), "");
	opened_client(&o, FRAME_TEXT, "two");
	assert_over("end");
}

/* 1001, which it would have got, says that all it has sent was passed on. */
static void another_has_it_in_a_drain(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	own();
	opened_client(&o, FRAME_TEXT, "one");
	opened_client(&o, FRAME_TEXT, "waits for its limit");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	assert_string_equal(opened_to_server(&o), "text(one) ");
	it_is_anothers();
	assert_string_equal(opened_to_server(&o), "end");
	assert_has(opened_to_client(&o), "close(1012 ");
	opened_client_closes(&o, 1012, "");
	free_owners();
	opened_end(&o);
}

static void the_client_leaves_behind_the_lease(void **state)
{
	(void)state;
	opened_begin(&o, &read_here);
	own();
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_string_equal(opened_to_server(&o), "end");
	assert_false(opened_is_open(&o));
	free_owners();
	opened_end(&o);
}

static void assert_gateway_over(void)
{
	assert_string_equal(opened_to_client(&o), "close(1012 session over) ");
	opened_client_closes(&o, 1012, "");
	assert_string_equal(opened_to_client(&o), "end");
	assert_string_equal(server_got(), "");
	assert_false(gateway_is_left());
	free_owners();
	end();
}

static void a_gateway_sends_nothing_behind_the_lease(void **state)
{
	(void)state;
	begin();
	own();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	answer("");
	lease_ends();
	say("two");
	assert_gateway_over();
}

static void a_gateway_of_anothers(void **state)
{
	(void)state;
	begin();
	own();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	say("waits for its turn");
	it_is_anothers();
	assert_gateway_over();
}

static void a_gateway_whose_message_has_not_arrived(void **state)
{
	(void)state;
	begin();
	own();
	say("one");
	struct exchange *x = gateway_of(o.socket->gateway)->client.first;
	assert_true(x && x->connection && server_has_untaken(x->connection));
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	owners_look_at_uses(owners, o.stage->worker);
	opened_turn(&o);
	char text[STAGE_ROOM];
	assert_int_equal(memory_peer_receive(o.stage->servers[o.stage->server_count - 1].wire, text,
				 sizeof(text)),
		-2);
	assert_gateway_over();
}

/* Neither does the server hear that it has gone. */
static void a_gateway_whose_client_leaves_behind_the_lease(void **state)
{
	(void)state;
	begin();
	own();
	o.stage->worker->loop.now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_string_equal(server_got(), "");
	assert_false(opened_is_open(&o));
	assert_false(gateway_is_left());
	free_owners();
	end();
}

UNIT_SUITE(test_session_over)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_long_as_the_lease_is_in_hand),
		cmocka_unit_test(another_has_it),
		cmocka_unit_test(what_has_not_arrived_never_will),
		cmocka_unit_test(nor_when_the_lease_ends),
		cmocka_unit_test(nor_when_its_client_has_left),
		cmocka_unit_test(what_has_arrived_stays_when_the_lease_ends),
		cmocka_unit_test(another_has_it_in_a_drain),
		cmocka_unit_test(the_client_leaves_behind_the_lease),
		cmocka_unit_test(a_gateway_sends_nothing_behind_the_lease),
		cmocka_unit_test(a_gateway_of_anothers),
		cmocka_unit_test(a_gateway_whose_message_has_not_arrived),
		cmocka_unit_test(a_gateway_whose_client_leaves_behind_the_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
