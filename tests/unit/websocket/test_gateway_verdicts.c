/*
 * Messages of a gateway that are judged by an authority, which may answer late: each leaves by a
 * verdict of its moment, also in a request with others. The test plays the authority, the client,
 * the server and the time.
 */
#include "gatewayed.h"

#include "exchange/turn_ask.h"
#include "tests/unit/gate/fake_authority.h"

#define ON_EXCEED ROUTE "message_limits = l\non_message_exceed = "
#define LIMIT     "[limit l]\nkey = ip\nrate = 100 per 1h\n"

static const struct stage_conf drops = {.route = ON_EXCEED "drop\n", .more = LIMIT},
			       delays = {.route = ON_EXCEED "delay\n", .more = LIMIT};

static struct fake_authority fake;
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
	struct site *site = o.stage->worker->use->site;
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
	struct exchange *x = o.socket->gateway->client.first;

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
	struct exchange *lead = o.socket->gateway->client.first;
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

int main(void)
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
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
