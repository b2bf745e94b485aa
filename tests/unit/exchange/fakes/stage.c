#include "stage.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "base/clock.h"
#include "gate/roster.h"
#include "http/forwarded.h"
#include "net/socket_stream.h"
#include "queue/queue.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "exchange/forwarding.h"
#include "exchange/judge.h"
#include "ownership/parting.h"
#include "tunnel/passage.h"
#include "exchange/pin.h"
#include "exchange/respond.h"
#include "http1/http1_client.h"
#include "http1/http1_response.h"
#include "upstream/server_pool.h"
#include "site/site.h"
#include "daemon/worker_parts.h"
#include "stats/stats.h"

/* The one that runs: for what is replaced at link time. */
static struct stage *current;

/* ---- connections to servers ------------------------------------------------------------------ */

int __real_socket_stream_connect(struct stream *stream, struct stream_loop *loop,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls);
int __wrap_socket_stream_connect(struct stream *stream, struct stream_loop *loop,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls);

static void write_address(char *text, size_t bytes, const struct sockaddr *address)
{
	const struct sockaddr_in *in = (const void *)address;
	char host[INET_ADDRSTRLEN] = "";

	if (address->sa_family == AF_UNIX) {
		snprintf(
			text, bytes, "unix:%.50s", ((const struct sockaddr_un *)address)->sun_path);
		return;
	}
	inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
	snprintf(text, bytes, "%s:%u", host, ntohs(in->sin_port));
}

int __wrap_socket_stream_connect(struct stream *stream, struct stream_loop *loop,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls)
{
	if (current == NULL)
		return __real_socket_stream_connect(stream, loop, address, len, calls);
	struct stage_server *server = &current->servers[current->server_count];
	if (current->connect_error != 0)
		return current->connect_error;
	assert_true(current->server_count < STAGE_SERVERS);
	current->server_count++;
	server->wire = memory_stream_open(stream, loop, STAGE_ROOM, calls);
	server->stream = stream;
	write_address(server->address, sizeof(server->address), address);
	if (current->connects_later)
		stream->writable = false;
	return 0;
}

void stage_server_connected(struct stage *stage, unsigned n)
{
	stage->servers[n].stream->writable = true;
	stream_wake(stage->servers[n].stream);
	stage_turn(stage);
}

const char *stage_server_got(struct stage *stage, unsigned n)
{
	static char text[STAGE_ROOM + 1];

	assert_true(n < stage->server_count);
	long len = memory_peer_receive(stage->servers[n].wire, text, STAGE_ROOM);
	text[len > 0 ? len : 0] = '\0';
	return text;
}

void stage_server_sends(struct stage *stage, unsigned n, const char *bytes)
{
	assert_int_equal(
		memory_peer_send(stage->servers[n].wire, bytes, strlen(bytes)), strlen(bytes));
	stage_turn(stage);
}

/* ---- the client ------------------------------------------------------------------------------ */

static struct stage_client *self(struct client *client)
{
	return CONTAINER_OF(client, struct stage_client, client);
}

static void note(struct client *client, const char *text)
{
	struct stage_client *c = self(client);

	assert_true(strlen(c->trace) + strlen(text) < sizeof(c->trace));
	strcat(c->trace, text);
}

static void advance(struct client *client)
{
	self(client)->advanced++;
}

static void watch(struct client *client)
{
	self(client)->watched++;
}

static void finish(struct client *client)
{
	note(client, "finish ");
}

static void close_client(struct client *client, const char *why)
{
	note(client, "close(");
	note(client, why);
	note(client, ") ");
	while (client->first) {
		struct exchange *exchange = client->first;
		client->first = exchange->next;
		exchange_client_gone(exchange);
	}
	self(client)->last = NULL;
}

static void exchange_ended(struct client *client, struct exchange *exchange)
{
	assert_ptr_equal(client->first, exchange);
	note(client, "ended ");
	client->first = exchange->next;
	if (!client->first)
		self(client)->last = NULL;
}

static unsigned frame_request(struct client *client, struct exchange *exchange)
{
	(void)client;
	return http_frame_request(&exchange->request, &exchange->framing);
}

static void request_read(struct client *client, struct exchange *exchange, bool upgrades)
{
	assert_true(exchange_has_request(exchange));
	note(client, upgrades ? "read-upgrade " : "read ");
}

static bool begin_tunnel(struct client *client, struct exchange *exchange)
{
	note(client, "tunnel ");
	return http1_switch(&self(client)->sink, exchange);
}

static bool become_tunnel(struct client *client, struct exchange *exchange, bool is_read)
{
	(void)client;
	return passage_begin(exchange, is_read);
}

/* Its wire continues, as the other end of what continues. */
static void leave(struct client *client, struct client_rest *rest)
{
	struct stage_client *c = self(client);

	note(client, "leave ");
	*rest = (struct client_rest){stream_export(&c->stream), c->in, c->out, NULL};
	c->in = (struct buffer){0};
	c->out = (struct flow){0};
	client->first = c->last = NULL;
	/* As many as stand in the listener's count: one that came for this. */
	current->daemon.node.clients++;
	current->listener.connections++;
	current->bound.connections++;
	current->daemon.listening.descriptors.connections++;
}

static struct slice body_here(struct client *client)
{
	const struct buffer *in = &self(client)->in;

	return in->at ? (struct slice){buffer_head(in), buffer_used(in)} : SLICE_NONE;
}

static void take_body(struct client *client, uint32_t bytes)
{
	self(client)->in.start += bytes;
}

static uint64_t body_memory(struct client *client)
{
	return self(client)->in.at ? self(client)->in.capacity : 0;
}

static struct body_source *open_body(struct client *client, struct exchange *exchange)
{
	struct http1_source *source = &self(client)->source;

	return source->is_open ? &source->source : http1_source_open(source, &exchange->framing);
}

static bool body_is_whole(struct client *client, struct exchange *exchange)
{
	return http1_body_is_whole(&self(client)->source, exchange);
}

static bool body_is_short(struct client *client, const struct exchange *exchange)
{
	return http1_body_is_short(&self(client)->source, exchange);
}

static enum client_interim interim(struct client *client, struct exchange *exchange, bool is_own)
{
	return http1_interim(&self(client)->sink, exchange, is_own);
}

static enum pump_result head(struct client *client, struct exchange *exchange)
{
	return http1_head(&self(client)->sink, exchange);
}

static bool takes_reply(const struct client *client)
{
	return flow_takes_prefix(&((const struct stage_client *)client)->out);
}

static bool reply(struct client *client, struct exchange *exchange)
{
	return http1_reply(&self(client)->sink, exchange);
}

static struct body_sink *open_response(struct client *client)
{
	return &self(client)->sink.sink;
}

static bool takes_interim(struct client *client)
{
	return !self(client)->takes_no_interim;
}

static bool is_behind(struct client *client)
{
	return self(client)->is_behind;
}

static bool is_last(struct client *client, const struct exchange *exchange)
{
	(void)exchange;
	return self(client)->is_last;
}

static const struct client_calls client_calls = {
	.advance = advance,
	.watch = watch,
	.finish = finish,
	.close = close_client,
	.exchange_ended = exchange_ended,
	.frame_request = frame_request,
	.request_read = request_read,
	.begin_tunnel = begin_tunnel,
	.become_tunnel = become_tunnel,
	.leave = leave,
	.body_here = body_here,
	.take_body = take_body,
	.body_memory = body_memory,
	.open_body = open_body,
	.body_is_whole = body_is_whole,
	.body_is_short = body_is_short,
	.interim = interim,
	.head = head,
	.takes_reply = takes_reply,
	.reply = reply,
	.open_response = open_response,
	.takes_interim = takes_interim,
	.is_behind = is_behind,
	.is_last = is_last,
};

static void on_notify(struct stream *stream)
{
	(void)stream;
}

static const struct stream_calls stream_calls = {NULL, on_notify};

static void open_client(struct stage *stage, struct stage_client *c)
{
	const struct sockaddr_in peer = {.sin_family = AF_INET,
		.sin_addr.s_addr = inet_addr("192.0.2.1"),
		.sin_port = htons(9)};

	c->client.calls = &client_calls;
	c->client.listener = &stage->listener;
	c->client.peer = &c->peer;
	c->client.forwarding = &c->forwarding;
	forwarded_peer_init(&c->peer, (const struct sockaddr *)&peer, sizeof(peer),
		&stage->listener.conf->trusted_proxies);
	c->wire =
		memory_stream_open(&c->stream, &stage->worker->streams, STAGE_ROOM, &stream_calls);
	http1_source_init(&c->source, &c->stream, &c->in, &stage->worker->blocks, &c->parser);
	http1_sink_init(&c->sink, &c->stream, &c->out, &stage->worker->blocks);
}

static void end_client(struct stage *stage, struct stage_client *c)
{
	if (c->client.first)
		close_client(&c->client, "the end");
	stream_close(&c->stream);
	memory_peer_close(c->wire);
	flow_clear(&c->out, &stage->worker->blocks);
	buffer_release(&c->in, &stage->worker->blocks);
	http_parser_end(&c->parser);
	forwarding_clear(&c->forwarding);
}

struct exchange *stage_request(struct stage *stage, const char *bytes)
{
	static const struct http_parser_limits limits = {16384, 8192, 100};
	struct stage_client *c = stage->asks;
	struct exchange *x = exchange_new(stage->worker, &c->client);
	size_t len = strlen(bytes);

	assert_non_null(x);
	if (!c->in.at)
		assert_true(buffer_acquire(&c->in, &stage->worker->blocks));
	assert_true(len <= buffer_room(&c->in));
	memcpy(c->in.at + c->in.end, bytes, len);
	c->in.end += (uint32_t)len;
	http_parser_end(&c->parser);
	memset(&c->parser, 0, sizeof(c->parser));
	http_parser_begin_request(&c->parser, &x->request, &limits);
	if (http_parser_head(&c->parser, buffer_head(&c->in), buffer_used(&c->in)) !=
		HTTP_PARSE_DONE)
		fail_msg("the head is not whole, or malformed: %s", bytes);
	if (c->last)
		c->last->next = x;
	else
		c->client.first = x;
	c->last = x;
	c->in.start += x->request.len;
	c->source.is_open = false;
	return x;
}

struct exchange *stage_ask(struct stage *stage, const char *bytes)
{
	struct exchange *x = stage_request(stage, bytes);

	exchange_begin(x, x->request.base);
	stage_turn(stage);
	return x;
}

struct exchange *stage_other_asks(struct stage *stage, const char *bytes)
{
	struct stage_client *asks = stage->asks;

	stage->asks = &stage->other;
	struct exchange *x = stage_ask(stage, bytes);
	stage->asks = asks;
	return x;
}

void stage_client_sends(struct stage *stage, const char *bytes)
{
	assert_int_equal(memory_peer_send(stage->asks->wire, bytes, strlen(bytes)), strlen(bytes));
}

const char *stage_client_got(struct stage *stage)
{
	static char text[STAGE_ROOM + 1];
	struct stage_client *c = stage->asks;
	uint64_t written = 0;

	if (!flow_is_empty(&c->out))
		flow_write(&c->out, &c->stream, &stage->worker->blocks, &written);
	long len = memory_peer_receive(c->wire, text, STAGE_ROOM);
	text[len > 0 ? len : 0] = '\0';
	return text;
}

/* ---- the daemon -------------------------------------------------------------------------------
 */

static const char *or_none(const char *text)
{
	return text ? text : "";
}

static struct conf *read_conf(const struct stage_conf *conf)
{
	struct conf_errors errors;
	char *text = NULL;

	assert_true(asprintf(&text,
			    "[sluice]\nworkers = 1\n%s\n[listener l]\nbind = 127.0.0.1:1\n%s\n"
			    "[upstream u]\nserver = 127.0.0.1:2\n%s\n%s\n"
			    "[route r]\nupstream = u\n%s\n",
			    or_none(conf->node), or_none(conf->listener), or_none(conf->upstream),
			    or_none(conf->more), or_none(conf->route)) > 0);
	struct conf *result = conf_parse(text, strlen(text), "test.ini", NULL, &errors);
	if (!result)
		fail_msg("%s in\n%s", errors.items[0].text, text);
	conf_errors_free(&errors);
	free(text);
	return result;
}

static void dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	struct stage *stage = ctx;

	message_post(&stage->workers[worker]->loop, &ticket->message);
}

static void open_limits(struct daemon *daemon, const struct conf *conf)
{
	struct throttle_limit *limits = gate_throttle_limits(conf, 0);
	const struct throttle_table_options options = {.callers = 4000,
		.now_ns = clock_anchor_time(&daemon->node.anchor, clock_boot_ns())};
	struct throttle_report report;
	char why[512];

	daemon->node.throttles = throttle_table_open(&options, limits, conf->limit_count, &report);
	if (!daemon->node.throttles)
		fail_msg("%s", report.text);
	free(limits);
	daemon->roster = roster_open(NULL, 0, why, sizeof(why));
	assert_non_null(daemon->roster);
}

static void open_daemon(struct stage *stage, const struct conf *conf, unsigned workers)
{
	const struct queue_config queue = {
		.max_sessions = conf->totals.sessions,
		.max_queued = conf->totals.queue,
		.max_queued_bytes = conf->totals.queue_bytes,
		.callbacks = {.ctx = stage, .dispatch = dispatch, .unpin = pin_close},
	};
	struct daemon *daemon = &stage->daemon;

	daemon->node.workers = stage->workers;
	daemon->node.worker_count = workers;
	daemon->node.shared[NODE_LISTENING] = &daemon->listening;
	daemon->listening.clients_max = 100;
	clock_anchor_init(&daemon->node.anchor, clock_boot_ns(), clock_wall_ns());
	assert_int_equal(loop_init(&daemon->node.loop), 0);
	assert_true(store_init(&daemon->node.store, conf->body_store.folder));
	store_set_bounds(
		&daemon->node.store, conf->body_store.memory_bytes, conf->body_store.disk_bytes);
	daemon->node.store.files_max = 10;
	daemon->node.queue = queue_create(&queue);
	daemon->node.shared[NODE_DELAYS] = delay_lines_new(workers);
	daemon->states = upstream_states_new(daemon->node.queue, workers);
	daemon->node.stats = stats_new(workers);
	open_limits(daemon, conf);
	daemon->site = site_new(conf, 1, daemon->states, daemon->node.throttles, daemon->roster,
		daemon->node.stats, NULL);
	assert_non_null(daemon->site);
	site_commit(daemon->site);
}

struct stage *stage_begin(const struct stage_conf *conf)
{
	struct stage *stage = calloc(1, sizeof(*stage));

	assert_non_null(stage);
	current = stage;
	lines_clear();
	open_daemon(stage, read_conf(conf), conf->two_workers ? 2 : 1);
	for (unsigned i = 0; i < stage->daemon.node.worker_count; i++) {
		stage->workers[i] =
			worker_new(&stage->daemon.node, i, stage->daemon.site, worker_parts);
		assert_non_null(stage->workers[i]);
	}
	stage->worker = stage->workers[0];
	memset(stage->worker->request_id, '0', sizeof(stage->worker->request_id)); /* not random */
	loop_enter(&stage->worker->loop);
	stage->binding.bound = &stage->bound;
	stage->listener.conf = &stage->daemon.site->conf->listeners[0];
	stage->listener.worker = stage->worker;
	stage->listener.binding = &stage->binding;
	stage->listener.retry.at_ms = DEADLINE_NEVER;
	stage_at(stage, 0);
	open_client(stage, &stage->client);
	open_client(stage, &stage->other);
	stage->asks = &stage->client;
	return stage;
}

static void check_nothing_is_left(struct stage *stage)
{
	struct queue_counts queue;
	struct run_queue_counts places;
	const struct upstream *upstream = stage->daemon.site->upstreams[0];

	assert_int_equal(exchange_part(stage->worker)->count, 0);
	queue_count(stage->daemon.node.queue, &queue);
	assert_int_equal(queue.queued, 0);
	assert_int_equal(queue.in_flight, 0);
	assert_int_equal(queue.detached, 0);
	run_queue_count(upstream->state->run_queue, &places);
	assert_int_equal(places.in_flight, 0);
	assert_int_equal(upstream->state->streams, 0);
	for (size_t i = 0; i < upstream->server_count; i++) {
		assert_int_equal(upstream->servers[i].state->in_flight, 0);
		assert_int_equal(upstream->servers[i].state->streams, 0);
	}
	assert_int_equal(stage->daemon.node.store.memory, 0);
	assert_int_equal(stage->daemon.node.store.disk, 0);
}

void stage_forget(struct stage *stage)
{
	close_client(&stage->asks->client, "next");
	stage->asks->trace[0] = '\0';
	lines_clear();
	while (exchange_part(stage->worker)->orphans)
		exchange_end(exchange_part(stage->worker)->orphans);
	partings_end(stage->worker);
	for (unsigned i = 0; i < stage->server_count; i++)
		memory_peer_close(stage->servers[i].wire);
	stage->server_count = 0;
	stage_client_got(stage);
	stage_turn(stage);
}

void stage_end(struct stage *stage)
{
	struct daemon *daemon = &stage->daemon;

	end_client(stage, &stage->client);
	end_client(stage, &stage->other);
	while (exchange_part(stage->worker)->orphans)
		exchange_end(exchange_part(stage->worker)->orphans);
	while (tunnel_part(stage->worker)->passages)
		passage_end(tunnel_part(stage->worker)->passages, "the end");
	stage_turn(stage);
	check_nothing_is_left(stage);
	while (daemon->node.worker_count > 0)
		worker_free(stage->workers[--daemon->node.worker_count]);
	queue_sweep_pins(daemon->node.queue, pin_is_of_site, NULL);
	for (unsigned i = 0; i < stage->server_count; i++)
		memory_peer_close(stage->servers[i].wire);
	site_release(daemon->site);
	upstream_states_free(daemon->states);
	queue_destroy(daemon->node.queue);
	delay_lines_free(node_delays(&daemon->node));
	store_end(&daemon->node.store);
	throttle_table_close(daemon->node.throttles);
	roster_close(daemon->roster);
	stats_free(daemon->node.stats);
	loop_end(&daemon->node.loop);
	current = NULL;
	free(stage);
}

void stage_at(struct stage *stage, uint64_t ms)
{
	for (unsigned i = 0; i < stage->daemon.node.worker_count; i++) {
		struct worker *worker = stage->workers[i];
		worker->loop.now_known = true;
		worker->loop.now_ms = STAGE_START_MS + ms;
		worker->loop.now_ns = worker->loop.now_ms * CLOCK_NS_PER_MS;
		worker->wall.turn_ns = worker->loop.now_ns;
		worker->wall.ns = UINT64_C(1795000000) * CLOCK_NS_PER_S + ms * CLOCK_NS_PER_MS;
	}
}

void stage_turn(struct stage *stage)
{
	for (unsigned i = 0; i < stage->daemon.node.worker_count; i++) {
		stage->workers[i]->loop.turn++;
		loop_finish_turn(&stage->workers[i]->loop);
	}
}

void stage_pass(struct stage *stage, struct deadline *deadline)
{
	assert_int_not_equal(deadline->at_ms, DEADLINE_NEVER);
	if (deadline->at_ms > worker_now_ms(stage->worker))
		stage_at(stage, deadline->at_ms - STAGE_START_MS);
	deadline->at_ms = DEADLINE_NEVER;
	deadline->passed(deadline);
	stage_turn(stage);
}

uint64_t stage_count(const struct stage *stage, unsigned slot)
{
	uint64_t slots[STATS_NODE_SLOTS];

	stats_sum(stage->daemon.node.stats, STATS_NODE, 0, slots);
	return slots[slot];
}

void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no \"%s\" in \"%s\"", part, text);
}

void assert_lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" in \"%s\"", part, text);
}
