/* A connection as its exchanges use it: each operation of a client, on a connection of HTTP/1. */
#include "http1/http1_client.h"

#include "connected.h"
#include "tests/unit/suite.h"

#define OK1     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
#define UPGRADE "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
#define SWITCH  "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

static const struct stage_conf plain = {0};
static const struct stage_conf unbuffered = {.route = "request_buffering = off"};
static const struct client_calls *const calls = &http1_client_calls;

/* It has begun a body of 9 bytes, of which these are here, and its turn has not come. */
static struct client *begin_body(struct connected *c, const char *bytes)
{
	static const struct stage_conf conf = {
		.upstream = "max_in_flight = 1", .route = "request_buffering = off"};
	char request[256];

	connected_open(c, &conf);
	flight_begin(c->stage, GET); /* has the place */
	snprintf(request, sizeof(request),
		"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n%s", bytes);
	connected_send(c, request);
	assert_int_equal(c->downstream->input, INPUT_BODY);
	return &c->downstream->client;
}

static void there_are_all_operations(void **state)
{
	void *const *each = (void *const *)&http1_client_calls;

	(void)state;
	/* But what only clients of messages have. */
	for (size_t i = 0; i < sizeof(http1_client_calls) / sizeof(void *); i++)
		assert_int_equal(each[i] != NULL,
			i * sizeof(void *) != offsetof(struct client_calls, serve) &&
				i * sizeof(void *) != offsetof(struct client_calls, part) &&
				i * sizeof(void *) != offsetof(struct client_calls, retry) &&
				i * sizeof(void *) != offsetof(struct client_calls, refuse));
}

static void what_is_here_of_a_body(void **state)
{
	struct connected c;
	struct client *client = begin_body(&c, "abc");

	(void)state;
	assert_true(slice_equal(calls->body_here(client), SLICE("abc")));
	assert_int_equal(calls->body_memory(client), c.downstream->in.capacity);
	calls->take_body(client, 2);
	assert_true(slice_equal(calls->body_here(client), SLICE("c")));
	calls->take_body(client, 0);
	assert_true(slice_equal(calls->body_here(client), SLICE("c")));
	assert_ptr_equal(
		calls->open_body(client, c.downstream->reading), &c.downstream->source.source);
	assert_true(c.downstream->source.is_open);
	assert_ptr_equal(c.downstream->source.stream, &c.downstream->stream);
	assert_ptr_equal(c.downstream->source.in, &c.downstream->in);
	assert_ptr_equal(c.downstream->source.parser, &c.downstream->parser);
	connected_end(&c);
}

static void an_idle_connection_has_none(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	struct client *client = &c.downstream->client;
	assert_null(calls->body_here(client).at);
	assert_int_equal(calls->body_here(client).len, 0);
	assert_int_equal(calls->body_memory(client), 0);
	assert_ptr_equal(calls->open_response(client), &c.downstream->sink.sink);
	assert_ptr_equal(c.downstream->sink.stream, &c.downstream->stream);
	assert_ptr_equal(c.downstream->sink.flow, &c.downstream->out);
	connected_end(&c);
}

/* As many interim responses as the client takes, and no more in a turn than others can bear. */
static void when_one_more_interim_response_may_go(void **state)
{
	struct connected c;
	char block[16 * 1024];

	(void)state;
	connected_open(&c, &plain);
	struct client *client = &c.downstream->client;
	memset(block, 'x', sizeof(block));
	assert_true(calls->takes_interim(client));
	flow_append(&c.downstream->out, &c.stage->worker->blocks,
		(struct slice){block, sizeof(block) - 1});
	assert_true(calls->takes_interim(client));
	assert_false(c.downstream->stalled);
	flow_append(&c.downstream->out, &c.stage->worker->blocks, SLICE("x"));
	assert_false(calls->takes_interim(client));
	assert_true(c.downstream->stalled); /* and it continues when they are written */
	flow_clear(&c.downstream->out, &c.stage->worker->blocks);
	assert_false(calls->takes_interim(client)); /* not before it was looked at again */
	c.downstream->stalled = false;
	client->work = DOWNSTREAM_TURN_WORK - 1;
	assert_true(calls->takes_interim(client));
	client->work++;
	assert_false(calls->takes_interim(client));
	assert_true(c.downstream->yields);
	stage_at(c.stage, 1);
	assert_true(calls->takes_interim(client));
	assert_int_equal(client->work, 0);
	connected_end(&c);
}

static void what_it_says_of_itself(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	struct client *client = &c.downstream->client;
	assert_false(calls->is_behind(client));
	c.downstream->stream.writable = false;
	assert_true(calls->is_behind(client));
	c.downstream->stream.writable = true;
	connected_send(&c, GET GET);
	assert_false(calls->is_last(client, client->first));
	assert_true(calls->is_last(client, client->first->next));
	connected_end(&c);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static void bytes_of_a_tunnel_pass_both_ways(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, UPGRADE "early");
	assert_int_equal(c.downstream->input, INPUT_UPGRADE);
	stage_server_got(c.stage, 0);
	connected_answer(&c, 0, SWITCH "down");
	assert_false(connected_is_open(&c)); /* it continues as a passage */
	assert_non_null(tunnel_part(c.stage->worker)->passages);
	assert_int_equal(c.stage->daemon.node.clients, 1);
	assert_int_equal(c.stage->listener.connections, 1);
	const char *got = connected_got(&c);
	assert_has(got, "HTTP/1.1 101 Go\r\n");
	assert_string_equal(got + strlen(got) - 4, "down");
	connected_send(&c, "up");
	assert_string_equal(stage_server_got(c.stage, 0), "earlyup");
	connected_end(&c);
}

/* What the client says behind the server's end, with its own end, reaches the server. */
static void a_tunnel_passes_all_behind_the_other_end(void **state)
{
	struct connected c;
	char end[8];

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, UPGRADE);
	connected_answer(&c, 0, SWITCH);
	memory_peer_end_output(c.stage->servers[0].wire);
	stage_turn(c.stage);
	assert_has(connected_got(&c), "HTTP/1.1 101 Go\r\n");
	assert_int_equal(memory_peer_receive(c.wire, end, sizeof(end)), -1);
	stage_server_got(c.stage, 0);
	memory_peer_send(c.wire, "last words", 10);
	memory_peer_end_output(c.wire);
	stage_turn(c.stage);
	assert_string_equal(stage_server_got(c.stage, 0), "last words");
	assert_int_equal(memory_peer_receive(c.stage->servers[0].wire, end, sizeof(end)), -1);
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

/* Its server has left while the client takes nothing and speaks on: it gets all that the server
 * said. */
static void a_tunnel_passes_all_of_a_server_that_has_left(void **state)
{
	static char words[60000];
	struct connected c;
	size_t got = 0;

	(void)state;
	memset(words, 'w', sizeof(words));
	connected_open(&c, &plain);
	connected_send(&c, UPGRADE);
	connected_answer(&c, 0, SWITCH);
	connected_got(&c);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(memory_peer_send(c.stage->servers[0].wire, words, sizeof(words)),
			sizeof(words));
		stage_turn(c.stage);
	}
	memory_peer_close(c.stage->servers[0].wire);
	c.stage->server_count = 0;
	connected_send(&c, "is anybody there?");
	for (size_t len; (len = strlen(connected_got(&c))) > 0; stage_turn(c.stage))
		got += len;
	assert_int_equal(got, 2 * sizeof(words));
	/* The client is cut by a reset, when its system has taken what is before it. */
	for (unsigned i = 0; tunnel_part(c.stage->worker)->passages && i < 10; i++)
		stage_pass(c.stage, &tunnel_part(c.stage->worker)->passages->wait.deadline);
	assert_null(tunnel_part(c.stage->worker)->passages);
	assert_has(lines.text, "outcome=\"tunnel cut\"");
	connected_end(&c);
}

static void one_that_is_not_granted_is_a_request(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, UPGRADE GET);
	assert_int_equal(c.downstream->input, INPUT_UPGRADE);
	assert_int_equal(c.downstream->begun, 1); /* what follows is not known yet */
	stage_server_got(c.stage, 0);
	connected_answer(&c, 0, OK1);
	assert_int_equal(c.downstream->input, INPUT_NONE);
	assert_int_equal(c.downstream->begun, 2);
	assert_has(stage_server_got(c.stage, 0), "GET / HTTP/1.1\r\n");
	connected_end(&c);
}

/* Of another exchange than the one that is being read, nothing changes. */
static void only_the_one_that_is_read_says_what_comes(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &unbuffered);
	connected_send(&c, GET "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na");
	struct client *client = &c.downstream->client;
	assert_int_equal(c.downstream->input, INPUT_BODY);
	calls->request_read(client, client->first, true);
	assert_int_equal(c.downstream->input, INPUT_BODY);
	calls->request_read(client, client->first, false);
	assert_int_equal(c.downstream->input, INPUT_BODY);
	connected_send(&c, "bcdefghi");
	connected_answer(&c, 0, OK1);
	assert_int_equal(c.downstream->input, INPUT_NONE);
	calls->request_read(client, client->first, true);
	assert_int_equal(c.downstream->input, INPUT_NONE);
	connected_end(&c);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void no_further_request(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET);
	struct client *client = &c.downstream->client;
	calls->finish(client);
	assert_int_equal(c.downstream->state, DOWNSTREAM_FINISHING);
	connected_send(&c, GET);
	assert_int_equal(c.downstream->begun, 1);
	connected_end(&c);
}

static void it_is_cut(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET);
	calls->close(&c.downstream->client, "test");
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void the_next_takes_its_place(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET GET);
	struct client *client = &c.downstream->client;
	struct exchange *first = client->first, *second = first->next;
	connected_answer(&c, 0, OK1); /* http1 hears it by exchange_ended */
	assert_ptr_equal(client->first, second);
	assert_int_equal(c.downstream->exchange_count, 1);
	assert_int_equal(second->state, EXCHANGE_FORWARDING);
	assert_has(connected_got(&c), "\r\n\r\na");
	connected_end(&c);
}

/* What has changed is acted on, and one that waits has its time set again. */
static void it_acts_on_what_has_changed(void **state)
{
	struct connected c;
	struct client *client = begin_body(&c, "");

	(void)state;
	assert_int_equal(c.downstream->wait.reason, WAIT_NONE); /* it waits for us */
	calls->watch(client);
	assert_int_equal(c.downstream->wait.reason, WAIT_NONE);
	memory_peer_send(c.wire, "ab", 2);
	c.downstream->busy = true;
	client->again = false;
	calls->advance(client);
	assert_true(client->again); /* once more at its end */
	c.downstream->busy = false;
	calls->advance(client);
	assert_false(client->again);
	connected_end(&c);
}

UNIT_SUITE(test_http1_client)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_are_all_operations),
		cmocka_unit_test(what_is_here_of_a_body),
		cmocka_unit_test(an_idle_connection_has_none),
		cmocka_unit_test(when_one_more_interim_response_may_go),
		cmocka_unit_test(what_it_says_of_itself),
		cmocka_unit_test(bytes_of_a_tunnel_pass_both_ways),
		cmocka_unit_test(a_tunnel_passes_all_behind_the_other_end),
		cmocka_unit_test(a_tunnel_passes_all_of_a_server_that_has_left),
		cmocka_unit_test(one_that_is_not_granted_is_a_request),
		cmocka_unit_test(only_the_one_that_is_read_says_what_comes),
		cmocka_unit_test(no_further_request),
		cmocka_unit_test(it_is_cut),
		cmocka_unit_test(the_next_takes_its_place),
		cmocka_unit_test(it_acts_on_what_has_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
