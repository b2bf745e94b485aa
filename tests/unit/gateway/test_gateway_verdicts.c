/*
 * Messages of a gateway that are judged by an authority, which may answer late: each leaves by a
 * verdict of its moment, also in a request with others. The test plays the authority, the client,
 * the server and the time.
 */
#include "gatewayed.h"

#include "exchange/turn_ask.h"
#include "tests/unit/gate/fake_authority.h"
#include "tests/unit/suite.h"

#define ON_EXCEED ROUTE "message_limits = l\non_message_exceed = "
#define LIMIT     "[limit l]\nkey = ip\nrate = 100 per 1h\n"

static const struct stage_conf drops = {.route = ON_EXCEED "drop\n", .more = LIMIT},
			       delays = {.route = ON_EXCEED "delay\n", .more = LIMIT};

static struct fake_authority fake;
static struct throttle_key last_caller;
static enum fake_word word; /* what it answers at once, or FAKE_PENDING */

static enum fake_word plan(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	(void)question;
	return word;
}

static void begin_judged(const struct stage_conf *conf)
{
	open_with(conf);
	fake_init(&fake, 20);
	fake.plan = plan;
	word = FAKE_ADMIT;
	struct site *site = site_part(o.stage->worker)->use->site;
	assert_true(gate_use_authority(site->gate, &site->conf->limits[0], &fake.authority));
	shake_hands("", "OPEN\r\n");
}

static void end_judged(void)
{
	end();
	fake_end(&fake);
}

static void pass(uint64_t ms)
{
	stage_at(o.stage, worker_now_ms(o.stage->worker) - STAGE_START_MS + ms);
}

/* Answers the question of the n-th exchange that waits. */
static void reply(unsigned n, enum fake_word with)
{
	struct exchange *x = gateway_of(o.socket->gateway)->client.first;

	while (n-- > 0)
		x = x->next;
	struct fake_question *question =
		fake_find(&fake, &o.stage->worker->questions, x->turn.question);
	assert_non_null(question);
	fake_reply(&fake, question, with);
	opened_turn(&o);
}

/* One is under way, and so many wait, whose verdicts are old by the time when it is answered. */
static void begin_with_waiting(const struct stage_conf *conf, const char *const *texts)
{
	begin_judged(conf);
	say("first");
	assert_string_equal(request_got(), "TEXT 5\r\nfirst\r\n");
	for (; *texts; texts++)
		say(*texts);
	pass(101);
	word = FAKE_PENDING;
}

static const char *const abc[] = {"a", "b", "c", NULL};

static void fresh_verdicts_stand(void **state)
{
	(void)state;
	begin_judged(&drops);
	say("first");
	say("a");
	say("b");
	request_got();
	pass(50);
	word = FAKE_PENDING;
	unsigned asked = fake.asked;
	answer("");
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\n");
	assert_int_equal(fake.asked, asked);
	answer("");
	end_judged();
}

/* What the old ones took is given back, all are asked in one turn, and leave together. */
static void all_are_renewed(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	unsigned asked = fake.asked;
	answer("");
	assert_int_equal(fake.asked, asked + 3);
	assert_int_equal(fake_held(&fake), 0);
	assert_string_equal(server_got(), "");
	reply(0, FAKE_ADMIT);
	assert_string_equal(server_got(), "");
	reply(1, FAKE_ADMIT);
	reply(2, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\nTEXT 1\r\nc\r\n");
	assert_int_equal(fake_held(&fake), 3);
	answer("");
	end_judged();
}

/* In whichever order the answers come. */
static void the_first_may_be_judged_last(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(2, FAKE_ADMIT);
	reply(1, FAKE_ADMIT);
	assert_string_equal(server_got(), "");
	reply(0, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\nTEXT 1\r\nc\r\n");
	answer("");
	end_judged();
}

static void a_renewed_one_may_be_refused(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(0, FAKE_ADMIT);
	reply(1, FAKE_REFUSE); /* b is dropped */
	assert_string_equal(server_got(), "");
	reply(1, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nc\r\n");
	answer("");
	end_judged();
}

static void the_first_may_be_refused(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(0, FAKE_REFUSE);
	reply(0, FAKE_ADMIT); /* b, which is the first now, and was not asked about as such */
	assert_string_equal(request_got(), "TEXT 1\r\nb\r\n");
	reply(1, FAKE_ADMIT);
	answer("");
	assert_string_equal(request_got(), "TEXT 1\r\nc\r\n");
	answer("");
	end_judged();
}

/* One that is to be delayed does not leave, and nothing passes it. */
static void a_delayed_one_ends_the_batch(void **state)
{
	(void)state;
	begin_with_waiting(&delays, abc);
	fake.delay_ns = 1000000;
	answer("");
	reply(0, FAKE_ADMIT);
	reply(1, FAKE_DELAY);
	reply(2, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\n");
	word = FAKE_ADMIT;
	answer("");
	end_judged();
}

/* An authority that answers at once has judged the first before those behind it can be asked. */
static void old_ones_do_not_leave_with_a_fresh_one(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	word = FAKE_ADMIT;
	answer("");
	assert_string_equal(request_got(), "TEXT 1\r\na\r\n");
	answer("");
	assert_string_equal(request_got(), "TEXT 1\r\nb\r\n");
	answer("");
	assert_string_equal(request_got(), "TEXT 1\r\nc\r\n");
	answer("");
	end_judged();
}

/* No answer comes: the time of each is over, and what the authority says then counts. */
static void no_answer_comes(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(0, FAKE_ADMIT);
	struct exchange *lead = gateway_of(o.socket->gateway)->client.first;
	assert_true(turn_awaits_riders(lead));
	stage_pass(o.stage, &lead->next->turn.deadline); /* unavailable: 1013 */
	opened_turn(&o);
	assert_has(opened_to_client(&o), "close(1013 ");
	end_judged();
}

/* The client leaves while they are asked: nothing is left, and nothing was sent. */
static void the_client_leaves(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(0, FAKE_ADMIT);
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	end_judged();
}

/* ---- limits in bytes ------------------------------------------------------------------------- */

#define BYTES "[limit l]\nkey = ip\nrate = 10B per 1h\n"

static uint64_t used(void)
{
	struct throttle_charge charge = {.caller = last_caller, .cost = 0};
	struct throttle_verdict verdict;

	assert_int_equal(throttle_peek(o.stage->worker->node->throttles, &charge, 1,
				 worker_throttle_ns(o.stage->worker), &verdict),
		0);
	return 10 - verdict.outcome[0].remaining;
}

static const char *const texts[] = {"1234", "5678", "9abc", "defg"};

/* One is under way, and four wait behind it, of which each has four bytes. */
static void begin_in_bytes(const struct stage_conf *conf)
{
	open_with(conf);
	shake_hands("", "OPEN\r\n");
	say("xx");
	assert_string_equal(request_got(), "TEXT 2\r\nxx\r\n");
	last_caller = gateway_of(o.socket->gateway)->client.first->gate->verdict.caller;
	for (unsigned i = 0; i < 4; i++)
		say(texts[i]);
}

/* Each is judged behind the bytes of those before it, so that one of them at most is too much. */
static void bytes_of_those_before_it_are_spent(void **state)
{
	static const struct stage_conf drops_bytes = {.route = ON_EXCEED "drop\n", .more = BYTES},
				       delays_bytes = {.route = ON_EXCEED "delay\n", .more = BYTES};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin_in_bytes(i == 0 ? &drops_bytes : &delays_bytes);
		answer("");
		assert_string_equal(request_got(), "TEXT 4\r\n1234\r\nTEXT 4\r\n5678\r\n");
		assert_int_equal(used(), 10);
		answer("");
		assert_string_equal(server_got(), "");
		assert_int_equal(used(), 10);
		end();
	}
}

/* What could not be sent has used nothing, and is charged once when it is. */
static void bytes_that_do_not_leave_are_given_back(void **state)
{
	static const struct stage_conf delays_bytes = {.route = ON_EXCEED "delay\n", .more = BYTES};

	(void)state;
	open_with(&delays_bytes);
	shake_hands("", "OPEN\r\n");
	say("x");
	last_caller = gateway_of(o.socket->gateway)->client.first->gate->verdict.caller;
	request_got();
	answer("");
	leave();
	say("1234");
	assert_in_range(wait_ms(), 1000, 1101);
	assert_int_equal(used(), 1);
	o.stage->connect_error = 0;
	stage_pass(o.stage, &gateway_of(o.socket->gateway)->client.first->turn.deadline);
	opened_turn(&o);
	assert_string_equal(request_got(), "TEXT 4\r\n1234\r\n");
	assert_int_equal(used(), 5);
	answer("");
	assert_int_equal(used(), 5);
	end();
}

/* A status that gives the admission back does not give them back: they have passed. */
static void bytes_that_have_passed_stay_charged(void **state)
{
	static const struct stage_conf refunds = {
		.route = ON_EXCEED "delay\nrefund = 500\n", .more = BYTES};

	(void)state;
	open_with(&refunds);
	shake_hands("", "OPEN\r\n");
	say("1234");
	last_caller = gateway_of(o.socket->gateway)->client.first->gate->verdict.caller;
	request_got();
	stage_server_sends(
		o.stage, o.stage->server_count - 1, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
	opened_turn(&o);
	assert_int_equal(used(), 4);
	end();
}

/* An authority is asked again at the turn of each, when those before it are charged. */
static void an_authority_is_asked_behind_bytes(void **state)
{
	static const struct stage_conf drops_bytes = {.route = ON_EXCEED "drop\n", .more = BYTES};

	(void)state;
	begin_judged(&drops_bytes);
	for (unsigned i = 0; i < 3; i++)
		say(texts[i]);
	assert_string_equal(request_got(), "TEXT 4\r\n1234\r\n");
	unsigned asked = fake.asked, before = fake.account_count;
	answer("");
	assert_int_equal(fake.asked, asked + 1);
	assert_string_equal(request_got(), "TEXT 4\r\n5678\r\n");
	word = FAKE_REFUSE;
	answer("");
	assert_string_equal(server_got(), "");
	for (unsigned i = 0; i < fake.account_count; i++)
		assert_int_equal(fake.accounts[i].bytes, i == 0 || i == before ? 4 : 0);
	end_judged();
}

UNIT_SUITE(test_gateway_verdicts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fresh_verdicts_stand),
		cmocka_unit_test(all_are_renewed),
		cmocka_unit_test(the_first_may_be_judged_last),
		cmocka_unit_test(a_renewed_one_may_be_refused),
		cmocka_unit_test(the_first_may_be_refused),
		cmocka_unit_test(a_delayed_one_ends_the_batch),
		cmocka_unit_test(old_ones_do_not_leave_with_a_fresh_one),
		cmocka_unit_test(no_answer_comes),
		cmocka_unit_test(the_client_leaves),
		cmocka_unit_test(bytes_of_those_before_it_are_spent),
		cmocka_unit_test(bytes_that_do_not_leave_are_given_back),
		cmocka_unit_test(bytes_that_have_passed_stay_charged),
		cmocka_unit_test(an_authority_is_asked_behind_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
