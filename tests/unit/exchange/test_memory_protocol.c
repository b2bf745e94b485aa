/*
 * A second protocol on both sides of an exchange, without a wire: heads are names and values in a
 * form of its own, bodies are runs in memory with windows of bytes that their sinks accept. Nothing
 * here, and nothing that the exchange does for it, is HTTP/1.
 *
 *   memory_client (exchange/client.h) --> exchange --> memory_server (upstream/server.h)
 */
#include "exchange/client.h"

#include "exchange/judge.h"
#include "exchange/outgoing.h"
#include "exchange/respond.h"
#include "fakes/flight.h"
#include "tests/unit/suite.h"

/* Of clients and of servers: heads of the one form are no runs of the other. */
enum { CLIENT_MAJOR = 7, SERVER_MAJOR = 8 };

static const struct field_marks client_marks = {{'=', '>'}, {'.', ';'}};
static const struct field_marks server_marks = {{':', ':'}, {'.', '|'}};

struct text {
	char at[4096];
	size_t len;
};

/* ---- bodies ---------------------------------------------------------------------------------- */

struct memory_source {
	struct body_source source;
	const char *content; /* what has come, */
	size_t len, lent;    /* how much that is, and how much of it was lent */
	bool is_all, is_cut;
	unsigned released;
};

static size_t here(const struct body_source *source)
{
	const struct memory_source *s = (const struct memory_source *)source;

	return s->len - s->lent;
}

static void look_for_end(struct memory_source *s)
{
	s->source.ended = s->is_all && s->lent == s->len;
}

static bool lend(struct body_source *source, size_t most, struct slice *run)
{
	struct memory_source *s = (struct memory_source *)source;
	size_t len = here(source) < most ? here(source) : most;

	*run = (struct slice){s->content + s->lent, len};
	s->lent += len;
	look_for_end(s);
	return true;
}

static void release(struct body_source *source)
{
	((struct memory_source *)source)->released++;
}

static enum body_fetch fetch(struct body_source *source, unsigned *turns)
{
	struct memory_source *s = (struct memory_source *)source;

	(void)turns;
	look_for_end(s);
	return s->is_cut ? BODY_CUT : source->ended ? BODY_FETCHED : BODY_NOT_NOW;
}

static void read_again(struct body_source *source)
{
	(void)source;
}

static bool take_back(struct body_source *source, uint32_t bytes)
{
	((struct memory_source *)source)->lent -= bytes;
	return true;
}

static const struct body_source_calls source_calls = {
	here, lend, release, fetch, read_again, take_back};

/* The content so far; `is_all`: there is no more. */
static void feed(struct memory_source *s, const char *content, bool is_all)
{
	s->content = content;
	s->len = strlen(content);
	s->is_all = is_all;
}

struct memory_sink {
	struct body_sink sink;
	struct slice run; /* borrowed */
	struct text *text;
	size_t window; /* so many bytes may leave */
	bool ended;
	struct buffer kept;
};

static bool end_body(struct body_sink *sink, const struct body_end *end)
{
	struct memory_sink *s = (struct memory_sink *)sink;
	struct http_out out =
		http_out_over(s->text->at + s->text->len, sizeof(s->text->at) - s->text->len);

	http_trailers_put(&out, end->trailers, &end->rules);
	s->text->len = (size_t)(out.at - s->text->at);
	assert_false(s->ended);
	s->ended = true;
	return true;
}

static bool push(struct body_sink *sink, struct slice run, bool is_last)
{
	struct memory_sink *s = (struct memory_sink *)sink;

	assert_int_equal(s->run.len, 0);
	assert_false(s->ended);
	s->run = run;
	s->ended = is_last;
	return true;
}

static enum body_flush flush(struct body_sink *sink, uint64_t *written)
{
	struct memory_sink *s = (struct memory_sink *)sink;
	size_t len = s->run.len < s->window ? s->run.len : s->window;

	if (len > 0)
		memcpy(s->text->at + s->text->len, s->run.at, len);
	s->text->len += len;
	s->run.at += len;
	s->run.len -= len;
	s->window -= len;
	*written += len;
	return s->run.len == 0 ? BODY_EMPTY : BODY_FULL;
}

static bool is_empty(const struct body_sink *sink)
{
	return ((const struct memory_sink *)sink)->run.len == 0;
}

static enum body_flush spill(struct body_sink *sink, struct spool_store *store,
	struct spool_limits limits, uint64_t left)
{
	(void)sink;
	(void)store;
	(void)limits;
	(void)left;
	return BODY_FULL;
}

static bool has_spilled(const struct body_sink *sink)
{
	(void)sink;
	return false;
}

static struct buffer *keeper(struct body_sink *sink)
{
	struct memory_sink *s = (struct memory_sink *)sink;

	return s->run.len > 0 ? &s->kept : NULL;
}

static void wake(struct body_sink *sink)
{
	(void)sink;
}

static const struct body_sink_calls sink_calls = {
	push, end_body, flush, is_empty, spill, has_spilled, keeper, wake};

/* ---- heads ----------------------------------------------------------------------------------- */

static struct field_sink open_head(struct text *text, struct field_marks marks, unsigned major)
{
	return (struct field_sink){
		http_out_over(text->at + text->len, sizeof(text->at) - text->len - 1), marks,
		(uint8_t)major};
}

static void close_head(struct text *text, struct field_sink *sink)
{
	assert_false(sink->out.overflow);
	text->len = (size_t)(sink->out.at - text->at);
}

/* The head with this beginning and one field, whose bytes are in `text`. */
static void make_head(struct http_head *head, struct text *text, const char *start,
	struct slice name, struct slice value, unsigned major)
{
	struct field_sink sink =
		open_head(text, major == CLIENT_MAJOR ? client_marks : server_marks, major);

	http_out_slice(&sink.out, slice_of(start));
	head->field_count = 1;
	head->fields[0] = (struct http_field){
		.name_at = (uint32_t)(sink.out.at - text->at),
		.name_len = (uint16_t)name.len,
		.value_at = (uint32_t)((size_t)(sink.out.at - text->at) + name.len + 2),
		.value_len = (uint32_t)value.len,
		.id = (uint8_t)http_field_id_of(name),
	};
	field_put(&sink, name, value);
	field_end(&sink);
	close_head(text, &sink);
	head->ids = head->repeated = 0;
	http_head_note(head, 0);
	head->base = text->at;
	head->len = (uint32_t)text->len;
	head->major = (uint8_t)major;
	head->minor = 0;
}

/* ---- the client ------------------------------------------------------------------------------ */

struct memory_client {
	struct client client;
	struct forwarded_peer peer;
	struct forwarding forwarding;
	struct memory_source source;
	struct memory_sink sink;
	struct text head, got;
	bool busy, is_closed, has_ended;
	unsigned status;
};

static struct memory_client *self(struct client *client)
{
	return (struct memory_client *)client;
}

static void advance(struct client *client)
{
	struct memory_client *c = self(client);

	if (c->busy || !client->first)
		return;
	c->busy = true;
	exchange_run(client->first);
	c->busy = false;
}

static void nothing(struct client *client)
{
	(void)client;
}

static void close_client(struct client *client, const char *why)
{
	struct exchange *first = client->first;

	(void)why;
	client->first = NULL;
	self(client)->is_closed = true;
	if (first)
		exchange_client_gone(first);
}

static void exchange_ended(struct client *client, struct exchange *exchange)
{
	assert_ptr_equal(client->first, exchange);
	client->first = NULL;
	self(client)->has_ended = true;
}

/* Whether a body comes is known by the source, and not by a field. */
static unsigned frame_request(struct client *client, struct exchange *x)
{
	bool has_body = self(client)->source.content;

	x->framing = (struct http_framing){
		.body = has_body ? HTTP_BODY_CHUNKED : HTTP_BODY_NONE, .keep_alive = true};
	return 0;
}

static void request_read(struct client *client, struct exchange *exchange, bool upgrades)
{
	(void)client;
	(void)exchange;
	assert_false(upgrades);
}

static struct slice body_here(struct client *client)
{
	(void)client;
	return SLICE_NONE;
}

static uint64_t body_memory(struct client *client)
{
	return self(client)->source.len;
}

static struct body_source *open_body(struct client *client, struct exchange *exchange)
{
	(void)exchange;
	return &self(client)->source.source;
}

static bool body_is_whole(struct client *client, struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false;
}

static bool body_is_short(struct client *client, const struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false;
}

static struct body_sink *open_response(struct client *client)
{
	return &self(client)->sink.sink;
}

static enum client_interim interim(struct client *client, struct exchange *x, bool is_own)
{
	struct text *got = &self(client)->got;
	struct outgoing_response response;

	assert_false(is_own);
	outgoing_response_make(&response, x, true);
	struct field_sink sink = open_head(got, client_marks, CLIENT_MAJOR);
	http_out_number(&sink.out, x->response->status);
	http_out_char(&sink.out, ' ');
	outgoing_response_put(&sink, &response, http_head_fields_at(x->response));
	close_head(got, &sink);
	return CLIENT_INTERIM_PASSED;
}

static enum pump_result head(struct client *client, struct exchange *x)
{
	struct text *got = &self(client)->got;
	struct outgoing_response response;

	outgoing_response_make(&response, x, false);
	struct field_sink sink = open_head(got, client_marks, CLIENT_MAJOR);
	outgoing_response_put(&sink, &response, http_head_fields_at(x->response));
	http_out_char(&sink.out, '\n');
	close_head(got, &sink);
	self(client)->status = x->response->status;
	return pump_has_content(&x->down) ? pump_fill(&x->down) : PUMP_WANTS_READ;
}

static bool takes_reply(const struct client *client)
{
	(void)client;
	return true;
}

static bool reply(struct client *client, struct exchange *x)
{
	struct text *got = &self(client)->got;
	struct outgoing_reply reply;

	outgoing_reply_make(&reply, x);
	struct slice content = outgoing_reply_content(&reply);
	struct field_sink sink = open_head(got, client_marks, CLIENT_MAJOR);
	outgoing_reply_put(&sink, &reply, content.len);
	http_out_char(&sink.out, '\n');
	http_out_slice(&sink.out, content);
	close_head(got, &sink);
	self(client)->status = x->answer.status;
	return true;
}

static bool always(struct client *client)
{
	(void)client;
	return true;
}

static bool never(struct client *client)
{
	(void)client;
	return false;
}

static bool is_last(struct client *client, const struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false;
}

static const struct client_calls client_calls = {
	.advance = advance,
	.watch = nothing,
	.finish = nothing,
	.close = close_client,
	.exchange_ended = exchange_ended,
	.frame_request = frame_request,
	.request_read = request_read,
	.body_here = body_here,
	.body_memory = body_memory,
	.open_body = open_body,
	.body_is_whole = body_is_whole,
	.body_is_short = body_is_short,
	.interim = interim,
	.head = head,
	.takes_reply = takes_reply,
	.reply = reply,
	.open_response = open_response,
	.takes_interim = always,
	.is_behind = never,
	.is_last = is_last,
};

/* ---- the server ------------------------------------------------------------------------------ */

struct memory_server {
	struct server_connection connection;
	struct memory_source source;
	struct memory_sink sink;
	struct http_head *response;
	struct text head;
	unsigned status;                          /* of a head that has come and was not read */
	bool has_stopped, is_malformed, has_more; /* its head is; behind the response */
};

/* What the latest request was, with its content. */
static struct text received;

static struct memory_server *of(const struct server_connection *connection)
{
	return (struct memory_server *)(uintptr_t)connection;
}

static void expect_head(struct server_connection *connection, struct http_head *response)
{
	of(connection)->response = response;
}

static struct body_sink *open_request(
	struct server_connection *connection, struct http_head *response)
{
	struct memory_server *server = of(connection);

	server->sink = (struct memory_sink){.sink.calls = &sink_calls, .text = &received};
	expect_head(connection, response);
	return &server->sink.sink;
}

static bool write_request(struct server_connection *connection, struct exchange *x)
{
	struct outgoing_request request;

	(void)connection;
	outgoing_request_make(&request, x);
	received.len = 0;
	struct field_sink sink = open_head(&received, server_marks, SERVER_MAJOR);
	http_out_slice(&sink.out, x->facts.method);
	http_out_char(&sink.out, ' ');
	outgoing_put_target(&sink.out, x);
	http_out_char(&sink.out, ' ');
	http_out_slice(&sink.out, request.authority);
	http_out_char(&sink.out, ' ');
	field_pass(&sink, &x->request, http_head_fields_at(&x->request), &request.omitted);
	outgoing_request_put(&sink, &request);
	http_out_char(&sink.out, '\n');
	close_head(&received, &sink);
	return true;
}

static void stop_request(struct server_connection *connection)
{
	of(connection)->has_stopped = true;
}

static uint64_t bytes_taken(const struct server_connection *connection)
{
	(void)connection;
	return received.len;
}

static void ignore(struct server_connection *connection)
{
	(void)connection;
}

static enum server_head read_head(struct server_connection *connection)
{
	struct memory_server *server = of(connection);

	if (server->is_malformed)
		return SERVER_HEAD_BAD;
	if (server->status == 0)
		return SERVER_HEAD_NONE;
	server->head.len = 0;
	make_head(server->response, &server->head, "", SLICE("X-Server"), SLICE("memory"),
		SERVER_MAJOR);
	server->response->status = (uint16_t)server->status;
	server->status = 0;
	return SERVER_HEAD_READ;
}

static bool frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	bool has_body = response->status >= 200 && of(connection)->source.content;

	(void)method;
	*framing = (struct http_framing){
		.body = has_body ? HTTP_BODY_CHUNKED : HTTP_BODY_NONE, .keep_alive = true};
	return true;
}

static bool has_bytes(const struct server_connection *connection)
{
	return of(connection)->status != 0;
}

static struct body_source *open_server_body(
	struct server_connection *connection, const struct http_framing *framing)
{
	(void)framing;
	return &of(connection)->source.source;
}

static uint64_t bytes_sent(const struct server_connection *connection)
{
	return of(connection)->source.len;
}

static bool finish(struct server_connection *connection, struct buffer *kept)
{
	struct memory_server *server = of(connection);

	(void)kept; /* the bytes are the test's */
	return is_empty(&server->sink.sink) && !server->has_stopped && !server->has_more;
}

static const struct server_calls server_calls = {
	.bytes = sizeof(struct memory_server),
	.open_request = open_request,
	.write_request = write_request,
	.stop_request = stop_request,
	.spoil_request = ignore,
	.bytes_taken = bytes_taken,
	.expect_head = expect_head,
	.fetch = ignore,
	.read_head = read_head,
	.frame_response = frame_response,
	.has_bytes = has_bytes,
	.open_response = open_server_body,
	.bytes_sent = bytes_sent,
	.read_again = ignore,
	.read_next_turn = ignore,
	.expect_input = ignore,
	.finish = finish,
	.end = ignore,
};

/* ---- tests ----------------------------------------------------------------------------------- */

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
		.client = {.calls = &client_calls,
			.listener = &stage->listener,
			.peer = &stage->client.peer,
			.forwarding = &memory.forwarding},
		.source.source.calls = &source_calls,
		.sink = {.sink.calls = &sink_calls, .text = &memory.got, .window = SIZE_MAX},
	};
	upstream_part(stage->worker)->calls = &server_calls;
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
		feed(&memory.source, content, is_all);
	make_head(&x->request, &memory.head, start, SLICE("Host"), SLICE("h"), CLIENT_MAJOR);
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
	struct memory_server *server = of(x->connection);

	server->source.source.calls = &source_calls;
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
	assert_has(text_of(&received), "POST /a?b h X-Forwarded-For::192.0.2.1.|");
	assert_has(text_of(&received), ".|\nhel");
	assert_lacks(text_of(&received), " Host::"); /* the authority says it */
	assert_lacks(text_of(&received), "hell");    /* its window is full, */
	assert_int_equal(memory.source.released, 0); /* so the client gets no credit */
	serve(stage, x, 2);
	assert_has(text_of(&received), "hello");
	assert_int_equal(memory.source.released, 1);
	feed(&memory.source, "hello, you", true);
	memory.source.source.trailers = SLICE("Digest: 1\r\n");
	run(stage);
	serve(stage, x, SIZE_MAX / 2);
	assert_has(text_of(&received), "hello, youDigest: 1\r\n");
	assert_true(server->sink.ended);

	server->status = 103;
	serve(stage, x, 0);
	assert_string_equal(text_of(&memory.got), "103 X-Server=>memory.;");
	memory.got.len = 0;
	memory.sink.window = 4;
	server->status = 200;
	feed(&server->source, "answer", false);
	serve(stage, x, 0);
	assert_int_equal(memory.status, 200);
	assert_has(text_of(&memory.got), "X-Server=>memory.;");
	assert_has(text_of(&memory.got), "\nansw");
	assert_lacks(text_of(&memory.got), "\nanswe");
	feed(&server->source, "answer, all", true);
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
	feed(&memory.source, "hello", true);
	run(stage);
	exchange_next(x);
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->framing.length, 5);
	struct memory_server *server = serve(stage, x, 100);
	assert_has(text_of(&received), "\nhello");
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
	feed(&server->source, "ans", false);
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
	of(x->connection)->is_malformed = true;
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
	struct memory_server *server = of(x->connection);

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
