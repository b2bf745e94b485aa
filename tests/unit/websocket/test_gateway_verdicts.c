/*
 * Messages of a gateway that are judged by an authority, which may answer late: each leaves by a
 * verdict of its moment, also in a request with others. The test plays the authority, the client,
 * the server and the time.
 */
#include "opened.h"

#include "exchange/turn_ask.h"
#include "tests/unit/gate/fake_authority.h"
#include "websocket/gateway.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/websocket-events\r\n"

#define ROUTE                                                                                      \
	"websocket = gateway\nping_interval = 0s\nsocket_idle_timeout = 0s\nsession = ip\n"        \
	"ordering = strict\nmessage_limits = l\non_message_exceed = "
#define LIMIT "[limit l]\nkey = ip\nrate = 100 per 1h\n"

static const struct stage_conf drops = {.route = ROUTE "drop\n", .more = LIMIT},
			       delays = {.route = ROUTE "delay\n", .more = LIMIT};

static struct opened o;
static struct fake_authority fake;
static enum fake_word word; /* what it answers at once, or FAKE_PENDING */

static enum fake_word plan(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	(void)question;
	return word;
}

static void answer(const char *events)
{
	static char text[STAGE_ROOM];

	snprintf(text, sizeof(text), HEAD "Content-Length: %zu\r\n\r\n%s", strlen(events), events);
	stage_server_sends(o.stage, o.stage->server_count - 1, text);
	opened_turn(&o);
}

/* The events of the request that the server got; "": none came. */
static const char *request_got(void)
{
	static char got[STAGE_ROOM + 1];

	snprintf(got, sizeof(got), "%s", stage_server_got(o.stage, o.stage->server_count - 1));
	const char *body = strstr(got, "\r\n\r\n");
	return body ? body + 4 : "";
}

static void begin(const struct stage_conf *conf)
{
	memset(&o, 0, sizeof(o));
	opened_worker = NULL;
	connected_open(&o.c, conf);
	o.stage = o.c.stage;
	fake_init(&fake, 20);
	fake.plan = plan;
	word = FAKE_ADMIT;
	struct site *site = o.stage->worker->use->site;
	assert_true(gate_use_authority(site->gate, &site->conf->limits[0], &fake.authority));
	o.stage->listener.use = o.stage->worker->use;
	opened_worker = o.stage->worker;
	connected_send(&o.c, OPENED_REQUEST);
	answer("OPEN\r\n");
	assert_has(connected_got(&o.c), "HTTP/1.1 101 ");
	o.client.wire = o.c.wire;
	o.socket = o.stage->worker->websockets->first;
	o.passage = o.socket->passage;
	request_got();
}

static void end(void)
{
	o.stage->worker->stopping = true;
	while (o.stage->worker->passages)
		passage_end(o.stage->worker->passages, "the end");
	while (o.stage->worker->websockets->gateways)
		gateway_abort(o.stage->worker->websockets->gateways, "the end");
	opened_end(&o);
	fake_end(&fake);
}

static void say(const char *text)
{
	opened_client(&o, FRAME_TEXT, text);
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
	begin(conf);
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
	begin(&drops);
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
	end();
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
	assert_string_equal(request_got(), "");
	reply(0, FAKE_ADMIT);
	assert_string_equal(request_got(), "");
	reply(1, FAKE_ADMIT);
	reply(2, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\nTEXT 1\r\nc\r\n");
	assert_int_equal(fake_held(&fake), 3);
	answer("");
	end();
}

/* In whichever order the answers come. */
static void the_first_may_be_judged_last(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(2, FAKE_ADMIT);
	reply(1, FAKE_ADMIT);
	assert_string_equal(request_got(), "");
	reply(0, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\nTEXT 1\r\nc\r\n");
	answer("");
	end();
}

static void a_renewed_one_may_be_refused(void **state)
{
	(void)state;
	begin_with_waiting(&drops, abc);
	answer("");
	reply(0, FAKE_ADMIT);
	reply(1, FAKE_REFUSE); /* b is dropped */
	assert_string_equal(request_got(), "");
	reply(1, FAKE_ADMIT);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nc\r\n");
	answer("");
	end();
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
	end();
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
	end();
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
	end();
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
	end();
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
	end();
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
