/* Requests of a session that one node of a fleet owns: where they continue, by what the store says.
 * */
#include "exchange/seek.h"

#include <errno.h>

#include "base/hop_proof.h"
#include "exchange/hop.h"
#include "exchange/judge.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "fakes/owned.h"
#include "http/problem.h"
#include "upstream/server.h"
#include "tests/unit/suite.h"

static const struct stage_conf refuses = {
	.route = ROUTE "session_elsewhere = refuse\n", .more = FLEET};

/* It is answered; the client got this status. */
static void assert_answered(struct stage *stage, unsigned status)
{
	char line[32];

	snprintf(line, sizeof(line), "HTTP/1.1 %u ", status);
	assert_has(stage_client_got(stage), line);
	assert_int_equal(stage->server_count, 0);
	stage_forget(stage);
}

/* ---- here ------------------------------------------------------------------------------------ */

static void one_that_nobody_owns_is_taken(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_SEEKING);
	assert_int_equal(asked.verb, OWNER_TAKE);
	assert_int_equal(stage->server_count, 0); /* not before the store has said so */
	held(stage, 5);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_string_equal(stage->servers[0].address, "127.0.0.1:2");
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	/* The next has no question of its own. */
	x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(asked.count, 1);
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	flight_answer(stage, x, DONE);
	end(stage);
}

/* Between its place and its leaving the lease has ended, as when this node stood still. */
static void nothing_is_sent_when_the_lease_is_over(void **state)
{
	struct stage *stage = begin(&forwards);

	(void)state;
	struct exchange *x = stage_ask(stage, GET);
	held(stage, 5);
	stage_server_got(stage, 0);
	flight_answer(stage, x, DONE);
	stage_client_got(stage);
	x = stage_request(stage, GET);
	exchange_begin(x, x->request.base);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_at(stage, LEASE_MS);
	server_send_all(stage->worker);
	assert_string_equal(stage_server_got(stage, 0), "");
	assert_has(stage_client_got(stage), "HTTP/1.1 503 ");
	end(stage);
}

/* ---- elsewhere ------------------------------------------------------------------------------- */

static void one_of_another_node_is_forwarded_to_it(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	elsewhere(stage);
	assert_int_equal(stage->server_count, 1);
	assert_string_equal(stage->servers[0].address, "127.0.0.1:7946");
	const char *got = stage_server_got(stage, 0);
	assert_has(got, "GET /.sluice/hop HTTP/1.1\r\n"); /* the greeting, */
	assert_lacks(got, "GET / ");                      /* and nothing before it is done */
	assert_int_equal(x->state, EXCHANGE_CONNECTING);
	end(stage);
}

/* The greeting of the other node, which has the secret. */
static void greet(struct stage *stage)
{
	const struct slice secret = {"of the fleet", 12};
	static struct conf_secret known;
	char theirs[HOP_NONCE_BYTES] = "", proof[HOP_PROOF_BYTES], head[HOP_PROOF_BYTES + 200];
	const char *hello = strstr(stage_server_got(stage, 0), "hello ");

	known = (struct conf_secret){.at = secret.at, .len = secret.len};
	stage->worker->fleet_secret = &known;
	assert_non_null(hello);
	memcpy(theirs, hello + strlen("hello "), HOP_NONCE_BYTES - 1);
	snprintf(head, sizeof(head),
		"HTTP/1.1 200 OK\r\nSluice-Hop: challenge %s\r\nContent-Length: 0\r\n\r\n", theirs);
	stage_server_sends(stage, 0, head);
	stage_server_got(stage, 0);
	int len = (int)hop_prove(secret, HOP_OWNER, theirs, theirs, proof);
	snprintf(head, sizeof(head),
		"HTTP/1.1 200 OK\r\nSluice-Hop: welcome %.*s\r\nContent-Length: 0\r\n\r\n", len,
		proof);
	assert_int_equal(
		memory_peer_send(stage->servers[0].wire, head, strlen(head)), strlen(head));
}

/* The session is another's before the request leaves: what stands still there would never answer.
 */
static void nothing_is_sent_to_one_that_is_the_owner_no_more(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	elsewhere(stage);
	greet(stage);
	stream_round(&stage->worker->streams);
	assert_int_equal(x->state, EXCHANGE_FORWARDING); /* at the end of the turn it is sent */
	owner_session_become(x->owner.use.session, OWNER_SIDE_NOBODY, NULL, 0);
	server_send_all(stage->worker);
	assert_string_equal(stage_server_got(stage, 0), "");
	assert_int_equal(x->state, EXCHANGE_SEEKING);
	stage_pass(stage, &x->turn.deadline);
	held(stage, 9);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_has(stage_server_got(stage, stage->server_count - 1), "\r\nSluice-Fence: 9\r\n");
	flight_answer(stage, x, DONE);
	end(stage);
}

/* Its client has left, and its answer is only waited for: behind it is the client's next request,
 * which this node or another one serves now. */
static void one_that_is_followed_ends_with_the_ownership(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, POST);

	(void)state;
	elsewhere(stage);
	greet(stage);
	stage_turn(stage);
	assert_has(stage_server_got(stage, 0), "POST / HTTP/1.1\r\n");
	stage->client.client.first = NULL;
	exchange_client_gone(x);
	assert_ptr_equal(exchange_part(stage->worker)->orphans, x);
	owner_session_become(x->owner.use.session, OWNER_SIDE_NOBODY, NULL, 0);
	owners_look_at_uses(node_owners(&stage->daemon.node), stage->worker);
	assert_null(exchange_part(stage->worker)->orphans);
	end(stage);
}

static void or_refused(void **state)
{
	struct stage *stage = begin(&refuses);

	(void)state;
	stage_ask(stage, GET);
	elsewhere(stage);
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 409 ");
	assert_has(got, "\r\nRetry-After: 5\r\n"); /* owner_idle */
	assert_int_equal(stage->server_count, 0);
	end(stage);
}

/* ---- unknown --------------------------------------------------------------------------------- */

static void without_a_store_it_is_answered(void **state)
{
	struct stage *stage = begin(&forwards);

	(void)state;
	asked.is_away = true;
	stage_ask(stage, GET);
	assert_answered(stage, 503);
	asked.is_away = false;
	stage_ask(stage, GET);
	answer(stage, (struct owner_answer){.is_known = false});
	assert_answered(stage, 503);
	end(stage);
}

static void it_waits_no_longer_than_for_its_turn(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 30000); /* queue_timeout */
	stage_pass(stage, &x->turn.deadline);
	assert_answered(stage, 503);
	held(stage, 5); /* whom it is of no use any more */
	end(stage);
}

static struct hop *from_node(struct stage *stage, uint64_t waited_ms)
{
	struct hop *hop = calloc(1, sizeof(*hop));

	assert_non_null(hop);
	hop->waited_ms = waited_ms;
	hop->fence = 5;
	hop->instance = 1;
	stage->client.client.hop = hop;
	return hop;
}

/* What it has waited at the node that forwards it, for its turn there, and here. */
static void a_wait_at_another_node_counts(void **state)
{
	static const uint64_t waited[] = {0, 12000, 30000, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(waited) / sizeof(waited[0]); i++) {
		uint64_t counts_ms = waited[i] < 30000 ? waited[i] : 30000;
		struct stage *stage = begin(&forwards);
		stage_ask(stage, GET);
		held(stage, 5);
		stage_at(stage, 11000); /* the lease is over: the store is asked */
		struct hop *hop = from_node(stage, waited[i]);
		struct exchange *x = stage_ask(stage, GET);
		assert_int_equal(x->state, EXCHANGE_SEEKING);
		assert_int_equal(
			x->turn.deadline.at_ms, STAGE_START_MS + 11000 + 30000 - counts_ms);
		assert_int_equal(x->owner.waited_ms, counts_ms);
		end(stage);
		free(hop);
	}
}

/* The other node was asked, which has waited, too, and is not the owner: all of that is one wait.
 */
static void it_waits_once_for_both_nodes(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	elsewhere(stage);
	assert_int_equal(x->state, EXCHANGE_CONNECTING);
	stage_at(stage, 20000);
	x->attempt.reach = REACH_SENT;
	seek_refused(x);
	assert_int_equal(x->state, EXCHANGE_SEEKING);
	assert_int_equal(asked.count, 2);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 30000);
	assert_int_equal(x->attempt.reach, REACH_NONE); /* it has gone nowhere */
	stage_pass(stage, &x->turn.deadline);
	assert_has(stage_client_got(stage), "HTTP/1.1 503 ");
	stage_forget(stage);
	held(stage, 5);
	end(stage);
}

/* The owner has refused it: what this node charges for it is given back when it does not get far.
 */
static void one_that_was_refused_has_gone_nowhere(void **state)
{
	static const struct stage_conf limited = {.route = ROUTE "limits = once\n",
		.more = FLEET "[limit once]\nkey = ip\nrate = 1 per 1h\n"};
	struct stage *stage = begin(&limited);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	elsewhere(stage);
	assert_int_equal(x->state, EXCHANGE_CONNECTING);
	x->attempt.reach = REACH_LEFT;
	seek_refused(x);
	stage->connect_error = ECONNREFUSED;
	held(stage, 5);
	assert_has(stage_client_got(stage), "HTTP/1.1 502 ");
	stage_forget(stage);
	stage->connect_error = 0;
	x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_server_got(stage, stage->server_count - 1);
	flight_answer(stage, x, DONE);
	end(stage);
}

/* And its limits are judged when its turn comes, not while it waits. */
static void one_that_was_refused_is_judged_at_its_turn(void **state)
{
	static const struct stage_conf narrow = {
		.route = "session = header:S\nsession_scope = fleet\nlimits = two\n",
		.upstream = "max_in_flight = 1\n",
		.more = FLEET "[limit two]\nkey = ip\nrate = 2 per 10s\non_exceed = delay 20s\n"};
	struct stage *stage = begin(&narrow);
	struct exchange *first = stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\nS: a\r\n\r\n"), *x;

	(void)state;
	held(stage, 5);
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	stage_server_got(stage, 0);
	x = stage_other_asks(stage, "GET / HTTP/1.1\r\nHost: h\r\nS: b\r\n\r\n");
	elsewhere(stage);
	assert_int_equal(x->state, EXCHANGE_CONNECTING);
	x->attempt.reach = REACH_LEFT;
	seek_refused(x);
	held(stage, 6);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_int_equal(x->gate->receipt.throttle.count, 0);
	assert_true(x->gate->judged_late);
	stage_pass(stage, &x->turn.deadline);
	flight_answer(stage, first, DONE);
	end(stage);
}

static void so_it_does_for_its_owner_and_its_place(void **state)
{
	static const struct stage_conf narrow = {.route = ROUTE "ordering = none\n",
		.upstream = "max_in_flight = 1\n",
		.more = FLEET};
	struct stage *stage = begin(&narrow);
	struct exchange *first = stage_ask(stage, GET), *x = stage_other_asks(stage, GET);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_SEEKING);
	stage_at(stage, 5000);
	held(stage, 5);
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 30000);
	stage_pass(stage, &x->turn.deadline);
	stage_server_got(stage, 0);
	flight_answer(stage, first, DONE);
	end(stage);
}

/* More sessions than a node may remember. */
static void a_new_one_that_has_no_room_is_answered(void **state)
{
	struct stage *stage = begin(&forwards);

	(void)state;
	owners_set_self(node_owners(&stage->daemon.node), "self", "127.0.0.1:7900", LEASE_MS, 0);
	stage_ask(stage, GET);
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 503 ");
	assert_has(got, "\r\nRetry-After: 1\r\n");
	assert_int_equal(asked.count, 0);
	end(stage);
}

UNIT_SUITE(test_seek)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_nobody_owns_is_taken),
		cmocka_unit_test(nothing_is_sent_when_the_lease_is_over),
		cmocka_unit_test(one_of_another_node_is_forwarded_to_it),
		cmocka_unit_test(nothing_is_sent_to_one_that_is_the_owner_no_more),
		cmocka_unit_test(one_that_is_followed_ends_with_the_ownership),
		cmocka_unit_test(or_refused),
		cmocka_unit_test(without_a_store_it_is_answered),
		cmocka_unit_test(it_waits_no_longer_than_for_its_turn),
		cmocka_unit_test(a_wait_at_another_node_counts),
		cmocka_unit_test(it_waits_once_for_both_nodes),
		cmocka_unit_test(one_that_was_refused_has_gone_nowhere),
		cmocka_unit_test(one_that_was_refused_is_judged_at_its_turn),
		cmocka_unit_test(so_it_does_for_its_owner_and_its_place),
		cmocka_unit_test(a_new_one_that_has_no_room_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
