/* An exchange between a client and a server of a protocol in memory (fakes/memory_protocol.h). */
#include "fakes/memory_protocol.h"

#include "exchange/judge.h"
#include "tests/unit/suite.h"

static struct memory_client memory;

static const char *text_of(struct text *text)
{
	text->at[text->len] = '\0';
	return text->at;
}

static struct stage *begin(const char *route)
{
	const struct stage_conf conf = {.route = route};
	struct stage *stage = stage_begin(&conf);

	memory = (struct memory_client){
		.client = {.calls = &memory_client_calls,
			.listener = &stage->listener,
			.peer = &stage->client.peer,
			.forwarding = &memory.forwarding},
		.source.source.calls = &memory_source_calls,
		.sink = {.sink.calls = &memory_sink_calls, .text = &memory.got, .window = SIZE_MAX},
	};
	upstream_part(stage->worker)->calls = &memory_server_calls;
	return stage;
}

/* `content`: so much of a body as has come; NULL: the request has none. */
static struct exchange *ask(struct stage *stage, const char *start, enum http_method method,
	const char *content, bool is_all)
{
	struct exchange *x = exchange_new(stage->worker, &memory.client);
	const char *blank = strchr(start, ' ');

	assert_non_null(x);
	if (content)
		memory_feed(&memory.source, content, is_all);
	memory_make_head(&x->request, &memory.head, start, SLICE("Host"), SLICE("h"), CLIENT_MAJOR);
	x->request.method = method;
	x->request.target_at = (uint32_t)(blank + 1 - start);
	x->request.target_len = (uint32_t)strlen(blank + 1);
	x->next = NULL;
	memory.client.first = x;
	memory.busy = true;
	exchange_begin(x, memory.head.at);
	memory.busy = false;
	stage_turn(stage);
	return x;
}

/* The server that has the request; it may take `window` bytes of its content. */
static struct memory_server *serve(struct stage *stage, struct exchange *x, size_t window)
{
	struct memory_server *server = memory_server_of(x->connection);

	server->source.source.calls = &memory_source_calls;
	server->sink.window += window;
	x->connection->events->event(x);
	stage_turn(stage);
	return server;
}

static void run(struct stage *stage)
{
	client_advance(&memory.client);
	stage_turn(stage);
}

static void end(struct stage *stage)
{
	forwarding_clear(&memory.forwarding);
	stage_end(stage);
}

static void a_whole_exchange_passes(void **state)
{
	struct stage *stage = begin("request_buffering = off");
	struct exchange *x = ask(stage, "POST /a?b", HTTP_METHOD_POST, "hello", false);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	struct memory_server *server = serve(stage, x, 3);
	assert_has(text_of(&memory_received), "POST /a?b h X-Forwarded-For::192.0.2.1.|");
	assert_has(text_of(&memory_received), ".|\nhel");
	assert_lacks(text_of(&memory_received), " Host::"); /* the authority says it */
	assert_lacks(text_of(&memory_received), "hell");    /* its window is full, */
	assert_int_equal(memory.source.released, 0);        /* so the client gets no credit */
	serve(stage, x, 2);
	assert_has(text_of(&memory_received), "hello");
	assert_int_equal(memory.source.released, 1);
	memory_feed(&memory.source, "hello, you", true);
	memory.source.source.trailers = SLICE("Digest: 1\r\n");
	run(stage);
	serve(stage, x, SIZE_MAX / 2);
	assert_has(text_of(&memory_received), "hello, youDigest: 1\r\n");
	assert_true(server->sink.ended);

	server->status = 103;
	serve(stage, x, 0);
	assert_string_equal(text_of(&memory.got), "103 X-Server=>memory.;");
	memory.got.len = 0;
	memory.sink.window = 4;
	server->status = 200;
	memory_feed(&server->source, "answer", false);
	serve(stage, x, 0);
	assert_int_equal(memory.status, 200);
	assert_has(text_of(&memory.got), "X-Server=>memory.;");
	assert_has(text_of(&memory.got), "\nansw");
	assert_lacks(text_of(&memory.got), "\nanswe");
	memory_feed(&server->source, "answer, all", true);
	server->source.source.trailers = SLICE("X-End: 1\r\n");
	memory.sink.window = SIZE_MAX;
	run(stage);
	assert_has(text_of(&memory.got), "\nanswer, allX-End: 1\r\n");
	assert_true(memory.sink.ended && memory.has_ended && !memory.is_closed);
	assert_int_equal(flight_idle(stage), 1);
	end(stage);
}

/* It takes a place when it is here whole, and has a length then. */
static void a_request_is_gathered_before_its_turn(void **state)
{
	struct stage *stage = begin("");
	struct exchange *x = ask(stage, "POST /", HTTP_METHOD_POST, "hel", false);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_HELD);
	run(stage);
	assert_int_equal(memory.source.released, 1); /* it is in the spool */
	memory_feed(&memory.source, "hello", true);
	run(stage);
	exchange_next(x);
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->framing.length, 5);
	struct memory_server *server = serve(stage, x, 100);
	assert_has(text_of(&memory_received), "\nhello");
	assert_true(server->sink.ended);
	server->status = 200;
	serve(stage, x, 0);
	assert_true(memory.has_ended);
	assert_int_equal(flight_idle(stage), 1);
	end(stage);
}

static void bodies_may_be_none(void **state)
{
	struct stage *stage = begin("");

	(void)state;
	for (unsigned n = 1; n <= 2; n++) { /* on one connection */
		struct exchange *x = ask(stage, "GET /", HTTP_METHOD_GET, NULL, false);
		struct memory_server *server = serve(stage, x, 0);
		server->status = 204;
		serve(stage, x, 0);
		assert_int_equal(memory.status, 204);
		assert_true(memory.has_ended);
		assert_int_equal(flight_idle(stage), 1);
		memory.got.len = memory.head.len = 0;
		memory.has_ended = false;
	}
	assert_int_equal(stage->server_count, 1);
	end(stage);
}

static void a_reply_of_our_own(void **state)
{
	struct stage *stage = begin("method = GET");

	(void)state;
	ask(stage, "PUT /", HTTP_METHOD_PUT, NULL, false);
	run(stage);
	assert_int_equal(memory.status, 405);
	assert_has(text_of(&memory.got), ".;Allow=>GET");
	assert_has(text_of(&memory.got), "\n{\"type\":\"about:blank\"");
	assert_true(memory.has_ended);
	end(stage);
}

static void a_request_that_is_cut_ends_its_server(void **state)
{
	struct stage *stage = begin("request_buffering = off");
	struct exchange *x = ask(stage, "POST /", HTTP_METHOD_POST, "hel", false);

	(void)state;
	serve(stage, x, 100);
	memory.source.is_cut = true;
	run(stage);
	assert_true(memory.is_closed);
	assert_int_equal(flight_idle(stage), 0);
	end(stage);
}

static void a_response_that_is_cut_closes_its_client(void **state)
{
	struct stage *stage = begin("");
	struct exchange *x = ask(stage, "GET /", HTTP_METHOD_GET, NULL, false);
	struct memory_server *server = serve(stage, x, 0);

	(void)state;
	server->status = 200;
	memory_feed(&server->source, "ans", false);
	serve(stage, x, 0);
	assert_false(memory.is_closed);
	server->source.is_cut = true;
	serve(stage, x, 0);
	assert_true(memory.is_closed);
	assert_false(memory.sink.ended);
	end(stage);
}

static void a_malformed_head_is_a_502(void **state)
{
	struct stage *stage = begin("");
	struct exchange *x = ask(stage, "GET /", HTTP_METHOD_GET, NULL, false);

	(void)state;
	memory_server_of(x->connection)->is_malformed = true;
	serve(stage, x, 0);
	run(stage);
	assert_int_equal(memory.status, 502);
	assert_int_equal(flight_idle(stage), 0);
	end(stage);
}

static void a_connection_that_is_not_clean_is_closed(void **state)
{
	struct stage *stage = begin("");
	struct exchange *x = ask(stage, "GET /", HTTP_METHOD_GET, NULL, false);
	struct memory_server *server = memory_server_of(x->connection);

	(void)state;
	server->status = 204;
	server->has_more = true;
	serve(stage, x, 0);
	assert_int_equal(memory.status, 204);
	assert_int_equal(flight_idle(stage), 0);
	end(stage);
}

UNIT_SUITE(test_memory_protocol)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_exchange_passes),
		cmocka_unit_test(a_request_is_gathered_before_its_turn),
		cmocka_unit_test(bodies_may_be_none),
		cmocka_unit_test(a_reply_of_our_own),
		cmocka_unit_test(a_request_that_is_cut_ends_its_server),
		cmocka_unit_test(a_response_that_is_cut_closes_its_client),
		cmocka_unit_test(a_malformed_head_is_a_502),
		cmocka_unit_test(a_connection_that_is_not_clean_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
