#include "memory_protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "exchange/judge.h"
#include "exchange/outgoing.h"
#include "exchange/respond.h"

static const struct field_marks client_marks = {{'=', '>'}, {'.', ';'}};
static const struct field_marks server_marks = {{':', ':'}, {'.', '|'}};

/* ---- bodies ---------------------------------------------------------------------------------- */

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

const struct body_source_calls memory_source_calls = {
	here, lend, release, fetch, read_again, take_back};

void memory_feed(struct memory_source *s, const char *content, bool is_all)
{
	s->content = content;
	s->len = strlen(content);
	s->is_all = is_all;
}

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

const struct body_sink_calls memory_sink_calls = {
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

void memory_make_head(struct http_head *head, struct text *text, const char *start,
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

const struct client_calls memory_client_calls = {
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

struct text memory_received;

struct memory_server *memory_server_of(const struct server_connection *connection)
{
	return (struct memory_server *)(uintptr_t)connection;
}

static void expect_head(struct server_connection *connection, struct http_head *response)
{
	memory_server_of(connection)->response = response;
}

static struct body_sink *open_request(
	struct server_connection *connection, struct http_head *response)
{
	struct memory_server *server = memory_server_of(connection);

	server->sink =
		(struct memory_sink){.sink.calls = &memory_sink_calls, .text = &memory_received};
	expect_head(connection, response);
	return &server->sink.sink;
}

static bool write_request(struct server_connection *connection, struct exchange *x)
{
	struct outgoing_request request;

	(void)connection;
	outgoing_request_make(&request, x);
	memory_received.len = 0;
	struct field_sink sink = open_head(&memory_received, server_marks, SERVER_MAJOR);
	http_out_slice(&sink.out, x->facts.method);
	http_out_char(&sink.out, ' ');
	outgoing_put_target(&sink.out, x);
	http_out_char(&sink.out, ' ');
	http_out_slice(&sink.out, request.authority);
	http_out_char(&sink.out, ' ');
	field_pass(&sink, &x->request, http_head_fields_at(&x->request), &request.omitted);
	outgoing_request_put(&sink, &request);
	http_out_char(&sink.out, '\n');
	close_head(&memory_received, &sink);
	return true;
}

static void stop_request(struct server_connection *connection)
{
	memory_server_of(connection)->has_stopped = true;
}

static uint64_t bytes_taken(const struct server_connection *connection)
{
	(void)connection;
	return memory_received.len;
}

static void ignore(struct server_connection *connection)
{
	(void)connection;
}

static enum server_head read_head(struct server_connection *connection)
{
	struct memory_server *server = memory_server_of(connection);

	if (server->is_malformed)
		return SERVER_HEAD_BAD;
	if (server->status == 0)
		return SERVER_HEAD_NONE;
	server->head.len = 0;
	memory_make_head(server->response, &server->head, "", SLICE("X-Server"), SLICE("memory"),
		SERVER_MAJOR);
	server->response->status = (uint16_t)server->status;
	server->status = 0;
	return SERVER_HEAD_READ;
}

static bool frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	bool has_body = response->status >= 200 && memory_server_of(connection)->source.content;

	(void)method;
	*framing = (struct http_framing){
		.body = has_body ? HTTP_BODY_CHUNKED : HTTP_BODY_NONE, .keep_alive = true};
	return true;
}

static bool has_bytes(const struct server_connection *connection)
{
	return memory_server_of(connection)->status != 0;
}

static struct body_source *open_server_body(
	struct server_connection *connection, const struct http_framing *framing)
{
	(void)framing;
	return &memory_server_of(connection)->source.source;
}

static uint64_t bytes_sent(const struct server_connection *connection)
{
	return memory_server_of(connection)->source.len;
}

static bool finish(struct server_connection *connection, struct buffer *kept)
{
	struct memory_server *server = memory_server_of(connection);

	(void)kept; /* the bytes are the test's */
	return is_empty(&server->sink.sink) && !server->has_stopped && !server->has_more;
}

const struct server_calls memory_server_calls = {
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
