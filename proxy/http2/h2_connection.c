#include "http2/h2_connection.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "exchange/exchange.h"
#include "http2/h2_linger.h"
#include "http2/h2_output.h"
#include "http2/h2_server.h"
#include "http2/h2_session.h"
#include "http2/h2_stream.h"
#include "http2/h2_wait.h"
#include "listen/accepted.h"

/* How often one connection runs its streams and writes, before it is the others' turn. */
#define ROUNDS_MOST 16
/* Frames that wait behind an output that its client does not read, besides two a stream. */
#define FRAMES_MOST 200

static const struct stream_calls calls;

/* ---- birth and end --------------------------------------------------------------------------- */

static bool flush_all(struct loop_stage *stage);

/* The first connection registers the stage: a worker that has none pays for none. */
static void await_writes(struct h2_worker *h2)
{
	if (h2->write_stage.run)
		return;
	h2->write_stage.run = flush_all;
	loop_add_stage(&h2->worker->loop, LOOP_WRITE, &h2->write_stage);
}

static struct h2_connection *make(
	struct worker *worker, struct listener *listener, struct accepted *accepted)
{
	struct h2_connection *c = calloc(1, sizeof(*c));

	if (!c)
		stream_export_close(&accepted->stream);
	if (!c || !stream_import(&c->stream, &worker->streams, &accepted->stream, &calls)) {
		free(c);
		accepted_fail(listener, accepted->entry);
		return NULL;
	}
	c->h2 = h2_part(worker);
	c->worker = c->link.worker = worker;
	c->link.stream = &c->stream;
	c->listener = listener;
	c->state = H2_GREETING;
	c->since_ms = worker_now_ms(worker);
	c->last_ready = &c->ready;
	c->flooded = H2_FLOOD_NONE;
	c->entry = accepted->entry;
	accepted_init_peer(accepted, &c->stream, &c->peer, &listener->conf->trusted_proxies);
	c->tls = accepted_tls(accepted, &c->stream);
	c->judged_by = site_part(worker)->use->site->serial;
	wait_init(&c->wait, worker->loop.base, h2_wait_passed);
	CHAIN_PUSH(c->h2->connections, c, prev, next);
	await_writes(c->h2);
	/* relaxed: as in downstream_accept */
	atomic_fetch_add_explicit(&worker->node->clients, 1, memory_order_relaxed);
	return c;
}

static void free_connection(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct h2_connection, deferred));
}

/* First the session, which knows the streams. */
void h2_connection_end_session(struct h2_connection *c)
{
	assert(!c->link.receiving && !c->link.composing);
	nghttp2_session_del(c->link.session);
	c->link.session = NULL;
	c->link.held_bytes = 0;
	c->ready = NULL;
	c->last_ready = &c->ready;
	while (c->streams)
		h2_stream_cut(c->streams);
	h2_head_end(&c->head);
}

/* Its stream is closed or another's. */
static void end_connection(struct h2_connection *c)
{
	struct buffer_pool *blocks = &c->worker->blocks;

	h2_connection_end_session(c);
	wait_end(&c->wait);
	buffer_release(&c->in, blocks);
	buffer_release(&c->link.block, blocks);
	forwarding_clear(&c->forwarding);
	free(c->accepted);
	c->accepted = NULL;
	CHAIN_REMOVE(c->h2->connections, c, prev, next);
	loop_free_later(&c->worker->loop, &c->deferred, free_connection);
}

void h2_connection_close(struct h2_connection *c, const char *why)
{
	if (c->state == H2_CLOSED)
		return;
	log_debug("client %.*s: closed: %s", SLICE_ARGS(forwarded_peer_text(&c->peer)), why);
	h2_linger_leave(c);
	idle_list_take_out(&c->listener->idle_http2, &c->idle);
	if (c->state == H2_GREETING)
		worker_count(c->worker, STATS_CONNECTIONS);
	h2_enter(c, H2_CLOSED);
	stream_close(&c->stream);
	end_connection(c);
	listener_client_gone(c->listener, c->entry);
}

static bool begin(struct h2_connection *c)
{
	if (!h2_session_begin(c)) {
		h2_connection_close(c, "no memory");
		return false;
	}
	worker_count(c->worker, STATS_CONNECTIONS);
	worker_count(c->worker, STATS_CONNECTIONS_HTTP2);
	free(c->accepted);
	c->accepted = NULL;
	h2_enter(c, H2_OPEN);
	h2_write_later(c);
	if (c->worker->draining)
		h2_connection_drain(c);
	return true;
}

void h2_connection_accept(
	struct worker *worker, struct listener *listener, struct accepted *accepted)
{
	struct h2_connection *c = make(worker, listener, accepted);

	if (c && begin(c))
		stream_expect_input(&c->stream);
}

void h2_connection_accept_plain(
	struct worker *worker, struct listener *listener, struct accepted *accepted)
{
	struct h2_connection *c = make(worker, listener, accepted);

	if (!c)
		return;
	c->accepted = malloc(sizeof(*c->accepted));
	if (!c->accepted) {
		h2_connection_close(c, "no memory");
		return;
	}
	*c->accepted = *accepted;
	stream_expect_input(&c->stream);
}

/* ---- the greeting ---------------------------------------------------------------------------- */

/* It speaks HTTP/1, which continues with the bytes that are here. */
static void hand_over(struct h2_connection *c)
{
	struct worker *worker = c->worker;
	struct listener *listener = c->listener;
	const struct protocol *other = listener_protocol(listener, "http/1.1");

	if (!other) {
		h2_connection_close(c, "no preface of HTTP/2");
		return;
	}
	struct accepted accepted = *c->accepted;
	struct buffer first = c->in;

	accepted.stream = stream_export(&c->stream);
	c->in = (struct buffer){0};
	idle_list_take_out(&listener->idle_http2, &c->idle);
	h2_enter(c, H2_CLOSED);
	end_connection(c);
	other->take_begun(worker, listener, &accepted, &first);
	/* The other one counts it by now. */
	if (atomic_fetch_sub(&worker->node->clients, 1) == 1 && worker->draining)
		node_wake_workers(worker->node);
}

/* True: its session has begun, and `in` has its first bytes. */
static bool read_greeting(struct h2_connection *c)
{
	struct buffer *in = &c->in;

	if (!c->stream.readable || (!in->at && !buffer_acquire(in, &c->worker->blocks)))
		return false;
	enum stream_result result = stream_read(&c->stream, in);
	size_t used = buffer_used(in);
	size_t known = used < NGHTTP2_CLIENT_MAGIC_LEN ? used : NGHTTP2_CLIENT_MAGIC_LEN;

	if (result == STREAM_END || result == STREAM_FAILED) {
		if (used > 0 && !c->stream.failed)
			hand_over(c);
		else
			h2_connection_close(c, "client gone");
		return false;
	}
	if (memcmp(buffer_head(in), NGHTTP2_CLIENT_MAGIC, known) != 0) {
		hand_over(c);
		return false;
	}
	if (used == 0)
		buffer_release(in, &c->worker->blocks);
	return used >= NGHTTP2_CLIENT_MAGIC_LEN && begin(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What has come is the session's. False: nothing more is read. */
static bool receive(struct h2_connection *c)
{
	struct buffer *in = &c->in;
	bool is_good = h2_session_receive(c, (const uint8_t *)buffer_head(in), buffer_used(in));

	buffer_release(in, &c->worker->blocks);
	return is_good;
}

/* Is more composed than may wait for a client that does not read? */
static bool is_stalled(const struct h2_connection *c)
{
	size_t most = FRAMES_MOST + 2u * c->listener->conf->max_streams;

	/* DATA for which there is no room stays in the session: nothing is held then. */
	return (c->link.held_bytes > 0 || (c->link.block.at && !c->stream.writable)) &&
	       nghttp2_session_get_outbound_queue_size(c->link.session) > most;
}

static void read_more(struct h2_connection *c)
{
	c->stalled = false;
	while (c->stream.readable && c->state < H2_LINGERING &&
		nghttp2_session_want_read(c->link.session)) {
		if (is_stalled(c)) {
			c->stalled = true;
			return;
		}
		if (!h2_may_work(c)) {
			stream_yield(&c->stream);
			return;
		}
		c->turn.work++;
		if (!buffer_acquire(&c->in, &c->worker->blocks)) {
			h2_connection_close(c, "no memory");
			return;
		}
		switch (stream_read(&c->stream, &c->in)) {
		case STREAM_OK:
			if (!receive(c))
				return;
			break;
		case STREAM_AGAIN:
			buffer_release(&c->in, &c->worker->blocks);
			return;
		case STREAM_END:
		case STREAM_FAILED:
			h2_connection_close(c, "client gone");
			return;
		}
	}
}

static void run_streams(struct h2_connection *c)
{
	struct h2_stream *stream;

	while ((stream = c->ready) != NULL) {
		c->ready = stream->next_ready;
		if (!c->ready)
			c->last_ready = &c->ready;
		stream->ready = false;
		h2_stream_advance(stream);
	}
}

/* There is room for interim responses again. */
static void wake_interims(struct h2_connection *c)
{
	if (!c->has_interims || !c->stream.writable)
		return;
	c->has_interims = false;
	for (struct h2_stream *stream = c->streams; stream; stream = stream->next) {
		if (stream->has_interim)
			h2_run_later(stream);
		stream->has_interim = false;
	}
}

/* ---- its end --------------------------------------------------------------------------------- */

static void flood_over(struct h2_connection *c)
{
	unsigned unlogged;

	worker_count(c->worker, STATS_HTTP2_FLOODS);
	if (log_pace_may_log_each(
		    &c->worker->node->http2_floods, 60000, worker_now_ms(c->worker), &unlogged))
		log_warn("listener %s: %.*s is closed: too many of %s in HTTP/2; %u others since "
			 "the last line",
			c->listener->conf->name, SLICE_ARGS(forwarded_peer_text(&c->peer)),
			h2_flood_name(c->flooded), unlogged);
	nghttp2_session_terminate_session(c->link.session, NGHTTP2_ENHANCE_YOUR_CALM);
}

void h2_connection_drain(struct h2_connection *c)
{
	if (c->state == H2_GREETING || c->state == H2_LINGERING)
		h2_wait(c);
	if (c->state != H2_OPEN)
		return;
	/* Streams that are on their way meanwhile are served (RFC 9113 section 6.8). */
	h2_enter(c, H2_DRAINING);
	nghttp2_submit_shutdown_notice(c->link.session);
	h2_write_later(c);
}

/* All is done that can be now. */
static void settle(struct h2_connection *c)
{
	bool is_over = !nghttp2_session_want_read(c->link.session) ||
		       (c->state == H2_FINISHING && c->stream_count == 0);

	if (c->stream.failed)
		h2_connection_close(c, "client gone");
	else if (is_over && !h2_link_has_output(&c->link))
		h2_linger_begin(c);
	else
		h2_wait(c);
}

/* Runs its streams and writes, until nothing changes. */
static void run(struct h2_connection *c)
{
	unsigned rounds = 0;

	do {
		run_streams(c);
		if (c->flooded != H2_FLOOD_NONE && nghttp2_session_want_read(c->link.session))
			flood_over(c);
		do {
			h2_output_send(&c->link);
			h2_output_write(&c->link);
		} while (!c->link.block.at && !c->stream.failed && h2_link_has_output(&c->link) &&
			 ++rounds < ROUNDS_MOST);
	} while (c->ready && ++rounds < ROUNDS_MOST);
	if (c->flooded != H2_FLOOD_NONE && h2_link_has_output(&c->link)) {
		h2_connection_close(c, "flood"); /* it does not read why */
		return;
	}
	bool reads_on = c->stalled && !is_stalled(c);
	if (c->ready || reads_on || (!c->link.block.at && h2_link_has_output(&c->link)))
		stream_yield(&c->stream);
	settle(c);
}

static void advance(struct h2_connection *c)
{
	if (c->state == H2_GREETING && !read_greeting(c)) {
		if (c->state == H2_GREETING)
			h2_wait(c);
		return;
	}
	if (c->state == H2_LINGERING) {
		h2_linger_run(c);
		return;
	}
	wake_interims(c);
	bool continues = !c->in.at || receive(c);
	if (continues)
		read_more(c);
	if (c->state != H2_CLOSED)
		run(c);
}

static void on_event(struct stream *stream)
{
	struct h2_connection *c = CONTAINER_OF(stream, struct h2_connection, stream);

	if (c->state != H2_CLOSED)
		advance(c);
}

static const struct stream_calls calls = {NULL, on_event};

/* ---- the worker ------------------------------------------------------------------------------ */

static bool flush_all(struct loop_stage *stage)
{
	struct h2_worker *h2 = CONTAINER_OF(stage, struct h2_worker, write_stage);
	struct h2_connection *c;

	if (!h2->unflushed)
		return false;
	while ((c = h2->unflushed) != NULL) {
		h2->unflushed = c->next_unflushed;
		if (!h2->unflushed)
			h2->last_unflushed = &h2->unflushed;
		c->unflushed = false;
		if (c->state != H2_CLOSED && c->link.session && c->state != H2_LINGERING)
			run(c);
	}
	return true;
}

bool h2_worker_make(struct worker *worker)
{
	struct h2_worker *h2 = h2_part(worker);

	h2->worker = worker;
	h2->last_unflushed = &h2->unflushed;
	return h2_session_make(h2) && h2_servers_make(worker);
}

void h2_worker_command(struct worker *worker, unsigned commands)
{
	struct h2_worker *h2 = h2_part(worker);
	struct h2_connection *next;

	for (struct h2_connection *c = h2->connections; commands & WORKER_DRAIN && c; c = next) {
		next = c->next;
		h2_connection_drain(c);
	}
	while (commands & WORKER_STOP && h2->connections)
		h2_connection_close(h2->connections, "shutdown");
}

void h2_worker_free(struct worker *worker)
{
	struct h2_worker *h2 = h2_part(worker);

	h2_session_free(h2);
	h2_streams_free_spare(h2);
	free(h2->fields);
}
