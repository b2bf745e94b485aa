/* Requests of a session that one node of a fleet owns: where they continue, by what the store says.
 * */
#include "exchange/seek.h"

#include <errno.h>

#include "base/clock.h"
#include "base/hop_proof.h"
#include "exchange/hop.h"
#include "exchange/judge.h"
#include "exchange/owner_sweep.h"
#include "exchange/owner_table.h"
#include "exchange/owners.h"
#include "exchange/parting.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "fakes/flight.h"
#include "http/problem.h"
#include "site/spare.h"
#include "upstream/server.h"

#define OTHER    "0000000000000001/other/127.0.0.1:7946"
#define LEASE_MS 10000
#define DONE     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define WELCOME  "HTTP/1.1 200 OK\r\nSluice-Hop: welcome\r\nContent-Length: 0\r\n\r\n"
#define FLEET                                                                                      \
	"[fleet]\nstore = redis://127.0.0.1:5\nbind = 127.0.0.1:7900\n"                            \
	"secret = file:/of/the/fleet\n"
#define ROUTE "session = ip\nsession_scope = fleet\nqueue_timeout = 30s\nowner_idle = 5s\n"

static const struct stage_conf forwards = {.route = ROUTE, .more = FLEET};
static const struct stage_conf refuses = {
	.route = ROUTE "session_elsewhere = refuse\n", .more = FLEET};

uint64_t __wrap_clock_boot_ns(void);

/* The one that runs, whose time it is. The process is older than a start takes. */
static struct stage *current;

uint64_t __wrap_clock_boot_ns(void)
{
	return current ? worker_now_ns(current->worker)
		       : (STAGE_START_MS - OWNER_START_MS) * CLOCK_NS_PER_MS;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct {
	struct owner_session *session;
	enum owner_verb verb;
	unsigned count;
	bool is_away;
} asked;

static bool ask(struct worker *worker, const struct owner_question *question)
{
	(void)worker;
	if (asked.is_away)
		return false;
	asked.session = question->session;
	asked.verb = question->verb;
	asked.count++;
	return true;
}

static const struct owner_store store = {ask};

static void answer(struct stage *stage, struct owner_answer with)
{
	owners_answer(stage->relay.node.owners, stage->worker, asked.session, asked.verb, &with);
	stage_turn(stage);
}

static void held(struct stage *stage, uint64_t fence)
{
	answer(stage, (struct owner_answer){.is_known = true, .is_held = true, .fence = fence});
}

static void elsewhere(struct stage *stage)
{
	answer(stage, (struct owner_answer){
			      .is_known = true, .fence = 7, .left_ms = 9000, .node = OTHER});
}

static struct stage *begin(const struct stage_conf *conf)
{
	struct stage *stage = stage_begin(conf);

	memset(&asked, 0, sizeof(asked));
	current = NULL;
	stage->relay.node.owners = owners_new(&store, stage->relay.states);
	assert_non_null(stage->relay.node.owners);
	current = stage;
	owners_set_self(stage->relay.node.owners, "self", "127.0.0.1:7900", LEASE_MS, 100);
	return stage;
}

static void end(struct stage *stage)
{
	stage_forget(stage);
	owners_free(stage->relay.node.owners);
	stage->relay.node.owners = NULL;
	current = NULL;
	stage_end(stage);
}

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

/* The lease ends, and the store does not answer. */
static void lapse(struct stage *stage)
{
	struct owners *owners = stage->relay.node.owners;

	asked.is_away = true;
	stage_at(stage, LEASE_MS);
	owners_sweep(owners, stage->worker);
	assert_false(owners->has_lapsed); /* the workers were told */
	owners_look_at_uses(owners, stage->worker);
	stage_turn(stage);
}

/* The store says, when the lease is to be renewed, that another has it. */
static void hear_of_another(struct stage *stage)
{
	struct owners *owners = stage->relay.node.owners;

	stage_at(stage, LEASE_MS / 2);
	owners_sweep(owners, stage->worker);
	assert_int_equal(asked.verb, OWNER_RENEW);
	elsewhere(stage);
	owners_look_at_uses(owners, stage->worker);
	stage_turn(stage);
}

/* What its server has not taken was thrown away. */
static void assert_discarded(struct stage *stage)
{
	char text[STAGE_ROOM];

	assert_int_equal(memory_peer_receive(stage->servers[0].wire, text, sizeof(text)), -2);
	assert_null(stage->worker->fleet.partings);
}

/* Our system would send it in its own time, behind what the next owner has sent. */
static void what_has_not_arrived_ends_with_the_lease(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	lapse(stage);
	assert_has(stage_client_got(stage), "HTTP/1.1 502 ");
	assert_discarded(stage);
	end(stage);
}

static void nor_does_it_outlive_the_news_of_another_owner(void **state)
{
	struct stage *stage = begin(&forwards);

	(void)state;
	stage_ask(stage, GET);
	held(stage, 5);
	hear_of_another(stage);
	assert_has(stage_client_got(stage), "HTTP/1.1 502 ");
	assert_discarded(stage);
	end(stage);
}

/* Its client has left, and its answer is read on for the order's sake. */
static struct stage *begin_left(void)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, POST);

	held(stage, 5);
	stage->client.client.first = NULL;
	exchange_client_gone(x);
	assert_ptr_equal(stage->worker->orphans, x);
	return stage;
}

static void nor_does_one_whose_client_has_left(void **state)
{
	struct stage *stage = begin_left();

	(void)state;
	lapse(stage);
	assert_null(stage->worker->orphans);
	assert_discarded(stage);
	end(stage);
}

/* Its server has begun to answer, and has not taken it all yet. */
static void nor_does_one_that_is_being_answered(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, POST);

	(void)state;
	held(stage, 5);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst");
	stage->client.client.first = NULL;
	exchange_client_gone(x);
	assert_int_equal(x->state, EXCHANGE_DRAINING);
	lapse(stage);
	assert_null(stage->worker->orphans);
	assert_discarded(stage);
	end(stage);
}

static void nor_does_that_outlive_the_news(void **state)
{
	struct stage *stage = begin_left();

	(void)state;
	hear_of_another(stage);
	assert_null(stage->worker->orphans);
	assert_discarded(stage);
	end(stage);
}

/* One that was closed before: the session stays in use until what it was sent has arrived. */
static void nor_does_a_connection_that_was_closed(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	struct owner_session *session = x->owner.use.session;
	exchange_drop_connection(x);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	stage_turn(stage);
	assert_has(stage_client_got(stage), "HTTP/1.1 504 ");
	assert_non_null(stage->worker->fleet.partings);
	assert_int_equal(session->users, 1);
	lapse(stage);
	assert_discarded(stage);
	assert_int_equal(session->users, 0);
	end(stage);
}

/* Its server has answered all that it will, and reads on. */
static void one_whose_server_has_ended_its_output_arrives(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	memory_peer_end_unheard(stage->servers[0].wire);
	exchange_drop_connection(x);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	stage_turn(stage);
	assert_non_null(stage->worker->fleet.partings);
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	end(stage);
}

/* One that is reset takes no more. */
static void one_that_its_server_resets_is_forgotten(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	exchange_drop_connection(x);
	assert_non_null(stage->worker->fleet.partings);
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	assert_null(stage->worker->fleet.partings);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

/* A server that answers before it has read the body: what is left of it may go on, and nothing else
 * leaves on that connection. */
static void one_that_is_answered_early_does_not_go_to_others(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, POST);

	(void)state;
	held(stage, 5);
	struct owner_session *session = x->owner.use.session;
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	assert_int_equal(flight_idle(stage), 0);
	assert_non_null(stage->worker->fleet.partings);
	assert_int_equal(session->users, 1);
	lapse(stage);
	assert_discarded(stage);
	assert_int_equal(session->users, 0);
	end(stage);
}

/* Nor does one without a body, whose head is long. */
static void one_with_a_long_head_that_is_answered_early_does_not_either(void **state)
{
	struct stage *stage = begin(&forwards);
	char request[2100];

	(void)state;
	snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: h\r\nX-Long: %02000d\r\n\r\n",
		1);
	struct exchange *x = stage_ask(stage, request);
	held(stage, 5);
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	assert_int_equal(flight_idle(stage), 0);
	lapse(stage);
	assert_discarded(stage);
	end(stage);
}

static void one_that_has_arrived_leaves_its_connection_to_others(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, POST);

	(void)state;
	held(stage, 5);
	assert_has(stage_server_got(stage, 0), "\r\n\r\nab");
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	assert_null(stage->worker->fleet.partings);
	assert_int_equal(flight_idle(stage), 1);
	end(stage);
}

/* There may be only so many. */
static void one_too_many_is_discarded(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	stage->worker->fleet.parting_count = PARTINGS_MOST;
	exchange_drop_connection(x);
	assert_null(stage->worker->fleet.partings);
	stage->worker->fleet.parting_count = 0;
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

/* Nor do they keep their descriptors from others. */
static void one_gives_way_to_what_lacks_a_descriptor(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	exchange_drop_connection(x);
	assert_non_null(stage->worker->fleet.partings);
	assert_true(spare_own(stage->worker));
	assert_discarded(stage);
	assert_false(spare_own(stage->worker));
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

/* Closed, it stays no longer than until it has arrived. */
static void one_that_was_closed_and_has_arrived_is_forgotten(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	exchange_drop_connection(x);
	assert_null(stage->worker->fleet.partings);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

static void what_has_arrived_does_not(void **state)
{
	struct stage *stage = begin(&forwards);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	held(stage, 5);
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	lapse(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
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
	stage->worker->fleet.secret = &known;
	assert_non_null(hello);
	memcpy(theirs, hello + strlen("hello "), HOP_NONCE_BYTES - 1);
	size_t len = hop_prove(secret, HOP_OWNER, theirs, theirs, proof);
	snprintf(head, sizeof(head),
		"HTTP/1.1 200 OK\r\nSluice-Hop: challenge %s %.*s\r\nContent-Length: 0\r\n\r\n",
		theirs, (int)len, proof);
	stage_server_sends(stage, 0, head);
	stage_server_got(stage, 0);
	assert_int_equal(memory_peer_send(stage->servers[0].wire, WELCOME, strlen(WELCOME)),
		strlen(WELCOME));
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
	assert_ptr_equal(stage->worker->orphans, x);
	owner_session_become(x->owner.use.session, OWNER_SIDE_NOBODY, NULL, 0);
	owners_look_at_uses(stage->relay.node.owners, stage->worker);
	assert_null(stage->worker->orphans);
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
	x->attempt.sent = true;
	seek_refused(x);
	assert_int_equal(x->state, EXCHANGE_SEEKING);
	assert_int_equal(asked.count, 2);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 30000);
	assert_false(x->attempt.sent); /* it has gone nowhere */
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
	x->attempt.sent = x->attempt.left = true;
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
	x->attempt.sent = x->attempt.left = true;
	seek_refused(x);
	held(stage, 6);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_int_equal(x->gate.receipt.throttle.count, 0);
	assert_true(x->turn.judged_late);
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
	owners_set_self(stage->relay.node.owners, "self", "127.0.0.1:7900", LEASE_MS, 0);
	stage_ask(stage, GET);
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 503 ");
	assert_has(got, "\r\nRetry-After: 1\r\n");
	assert_int_equal(asked.count, 0);
	end(stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_nobody_owns_is_taken),
		cmocka_unit_test(nothing_is_sent_when_the_lease_is_over),
		cmocka_unit_test(what_has_not_arrived_ends_with_the_lease),
		cmocka_unit_test(nor_does_it_outlive_the_news_of_another_owner),
		cmocka_unit_test(nor_does_one_whose_client_has_left),
		cmocka_unit_test(nor_does_one_that_is_being_answered),
		cmocka_unit_test(nor_does_that_outlive_the_news),
		cmocka_unit_test(nor_does_a_connection_that_was_closed),
		cmocka_unit_test(one_whose_server_has_ended_its_output_arrives),
		cmocka_unit_test(one_that_its_server_resets_is_forgotten),
		cmocka_unit_test(one_that_is_answered_early_does_not_go_to_others),
		cmocka_unit_test(one_with_a_long_head_that_is_answered_early_does_not_either),
		cmocka_unit_test(one_that_has_arrived_leaves_its_connection_to_others),
		cmocka_unit_test(one_too_many_is_discarded),
		cmocka_unit_test(one_gives_way_to_what_lacks_a_descriptor),
		cmocka_unit_test(one_that_was_closed_and_has_arrived_is_forgotten),
		cmocka_unit_test(what_has_arrived_does_not),
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
