#include "http1/downstream.h"

#include <assert.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/list.h"
#include "base/log.h"
#include "exchange/exchange.h"
#include "exchange/forward.h"
#include "exchange/hop.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "exchange/turn_place.h"
#include "http1/client_wait.h"
#include "http1/http1_client.h"
#include "http1/idle_wait.h"
#include "http1/linger.h"
#include "http1/read_requests.h"
#include "listen/accepted.h"
#include "listen/listener.h"

static void enter(struct downstream *d, enum downstream_state state)
{
	static const char *const names[] = {"open", "finishing", "lingering", "closed"};

	log_debug("client %.*s: %s -> %s", SLICE_ARGS(forwarded_peer_text(&d->peer)),
		names[d->state], names[state]);
	d->state = state;
}

static const struct stream_calls calls;
static void on_deadline(struct deadline *deadline);

/* The internal listener: silent strangers must not fill it. */
static void begin_hop(struct downstream *d)
{
	struct client *oldest = hop_open(&d->client, worker_now_ms(d->worker));

	stream_keep_alive(&d->stream);
	if (oldest)
		downstream_close(downstream_of(oldest), "without proof, closed for a new node");
}

void downstream_accept(struct worker *worker, struct listener *listener, struct accepted *accepted)
{
	struct buffer none = {0};

	downstream_accept_begun(worker, listener, accepted, &none);
}

void downstream_accept_begun(struct worker *worker, struct listener *listener,
	struct accepted *accepted, struct buffer *first)
{
	struct downstream *d = calloc(1, sizeof(*d));

	if (!d)
		stream_export_close(&accepted->stream);
	if (!d || !stream_import(&d->stream, &worker->streams, &accepted->stream, &calls)) {
		free(d);
		buffer_release(first, &worker->blocks);
		accepted_fail(listener, accepted->entry);
		return;
	}
	d->worker = worker;
	d->in = *first;
	*first = (struct buffer){0};
	d->client.calls = &http1_client_calls;
	d->client.listener = listener;
	d->client.peer = &d->peer;
	d->client.forwarding = &d->forwarding;
	d->state = DOWNSTREAM_OPEN;
	d->entry = accepted->entry;
	accepted_init_peer(accepted, &d->stream, &d->peer, &listener->conf->trusted_proxies);
	d->client.stream = &d->stream;
	/* A node's connection says nothing about the clients of its requests. */
	d->client.tls = listener->conf->is_internal ? NULL : accepted_tls(accepted, &d->stream);
	d->judged_by = site_part(worker)->use->site->serial;
	http1_source_init(&d->source, &d->stream, &d->in, &worker->blocks, &d->parser);
	http1_sink_init(&d->sink, &d->stream, &d->out, &worker->blocks);
	wait_init(&d->wait, worker->loop.base, on_deadline);
	CHAIN_PUSH(http1_part(worker)->downstreams, d, prev, next);
	/* relaxed: looked at only by workers that drain, who are woken when it is 0 */
	atomic_fetch_add_explicit(&worker->node->clients, 1, memory_order_relaxed);
	worker_count(worker, STATS_CONNECTIONS);
	if (listener->conf->is_internal)
		begin_hop(d);
	/* Mostly the request is here already: looking saves a turn of the loop. */
	stream_expect_input(&d->stream);
}

static void free_downstream(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct downstream, deferred));
}

void downstream_leave_input(struct downstream *d, const struct exchange *exchange)
{
	if (d->reading != exchange)
		return;
	assert(d->input != INPUT_HEAD);
	/* The rest of a body must never be read as a request. */
	assert(d->input != INPUT_BODY || exchange_has_request(exchange) ||
		d->state != DOWNSTREAM_OPEN);
	downstream_set_input(d, INPUT_NONE, NULL);
}

/* The client could not tell that it has not got all: an end of data is the end of a body that has
 * no length (RFC 9112 section 6.3). */
static bool looks_whole(const struct downstream *d)
{
	return d->sink.by_close && (d->client.first || !flow_is_empty(&d->out));
}

/* It is CLOSED, and its stream is closed or another's. What is left of its own goes. */
static void end_connection(struct downstream *d)
{
	struct worker *worker = d->worker;

	wait_end(&d->wait);
	flow_clear(&d->out, &worker->blocks);
	buffer_release(&d->in, &worker->blocks);
	http_parser_end(&d->parser);
	forwarding_clear(&d->forwarding);
	hop_close(&d->client);
	client_wait_end(d);
	CHAIN_REMOVE(http1_part(worker)->downstreams, d, prev, next);
	loop_free_later(&worker->loop, &d->deferred, free_downstream);
}

/* The text that another node is to read before the end, while no request of its is under way here:
 * the answer to one that is on its way already, which says that it has gone nowhere. A node that
 * has sent none closes its end, too. None: its peer is no node, or could not read it. */
static struct slice farewell_of(const struct downstream *d)
{
	if (d->state != DOWNSTREAM_OPEN || d->client.first || d->input != INPUT_NONE ||
		!flow_is_empty(&d->out) || !d->stream.writable || d->stream.failed ||
		!hop_is_proven(&d->client))
		return SLICE_NONE;
	return SLICE("HTTP/1.1 421 Misdirected Request\r\nSluice-Hop: closing\r\n"
		     "Connection: close\r\nContent-Length: 0\r\n\r\n");
}

static void write_farewell(struct downstream *d)
{
	struct slice farewell = farewell_of(d);
	struct iovec piece = {(void *)(uintptr_t)farewell.at, farewell.len};
	size_t written;

	if (farewell.len > 0)
		stream_write(&d->stream, &piece, 1, &written);
}

void downstream_close(struct downstream *d, const char *why)
{
	if (d->state == DOWNSTREAM_CLOSED)
		return;
	write_farewell(d);
	log_debug("client %.*s: closed: %s", SLICE_ARGS(forwarded_peer_text(&d->peer)), why);
	linger_leave(d);
	idle_list_take_out(&d->client.listener->idle, &d->idle);
	enter(d, DOWNSTREAM_CLOSED);
	if (looks_whole(d))
		stream_reset_at_close(&d->stream);
	read_requests_discard_head(d);
	if (d->reading)
		downstream_leave_input(d, d->reading);
	while (d->client.first) {
		struct exchange *exchange = d->client.first;
		d->client.first = exchange->next;
		exchange_client_gone(exchange);
	}
	d->last = NULL;
	stream_close(&d->stream); /* last: its peer may ask again when it sees this */
	end_connection(d);
	listener_client_gone(d->client.listener, d->entry);
}

void downstream_leave(struct downstream *d, struct client_rest *rest)
{
	assert(d->input == INPUT_TUNNEL && d->client.first == d->last);
	idle_list_take_out(&d->client.listener->idle, &d->idle);
	enter(d, DOWNSTREAM_CLOSED);
	*rest = (struct client_rest){stream_export(&d->stream), d->in, d->out, d->entry};
	d->in = (struct buffer){0};
	d->out = (struct flow){0};
	downstream_set_input(d, INPUT_NONE, NULL);
	d->client.first = d->last = NULL;
	end_connection(d);
}

/* ---- writing and ending ---------------------------------------------------------------------- */

static void flush(struct downstream *d)
{
	if (d->state == DOWNSTREAM_CLOSED || flow_is_empty(&d->out) || !d->stream.writable)
		return;
	if (flow_write(&d->out, &d->stream, &d->worker->blocks, &d->written) == STREAM_FAILED)
		downstream_close(d, "write failed");
}

bool downstream_give_way(struct listener *listener)
{
	if (!listener->oldest_lingering)
		return false;
	downstream_close(listener->oldest_lingering, "lingering, closed for a new client");
	return true;
}

static void run_lingering(struct downstream *d)
{
	if (!linger_run(d))
		downstream_close(d, "lingered");
}

/* Or closes it at once, where no connection may linger. */
static void begin_lingering(struct downstream *d)
{
	struct listener *listener = d->client.listener;

	if (listener->conf->max_lingering == 0) {
		downstream_close(d, "done");
		return;
	}
	stream_end_output(&d->stream);
	enter(d, DOWNSTREAM_LINGERING);
	linger_begin(d);
	while (linger_is_full(listener))
		downstream_give_way(listener);
	run_lingering(d);
}

/* All is answered. May the client still be sending, or has sent what nobody will read? */
static void end_output(struct downstream *d)
{
	bool unread = (d->in.at && buffer_used(&d->in) > 0) || d->stream.readable;

	assert(d->input == INPUT_NONE);
	if (d->stream.read_ended || !(unread || d->rest_comes))
		downstream_close(d, "done");
	else
		begin_lingering(d);
}

void downstream_finish(struct downstream *d)
{
	if (d->state == DOWNSTREAM_OPEN)
		enter(d, DOWNSTREAM_FINISHING);
	read_requests_discard_head(d);
}

/* The client was told that no further response comes on this connection, or takes all that follows
 * for the body of the one before (RFC 9112 sections 6.3 and 9.6). */
static void cut_behind(struct downstream *d)
{
	while (d->client.first) {
		struct exchange *exchange = d->client.first;
		d->rest_comes |= !exchange_has_request(exchange);
		d->client.first = exchange->next;
		downstream_leave_input(d, exchange);
		exchange_client_gone(exchange);
	}
	d->exchange_count = 0;
}

void downstream_exchange_ended(struct downstream *d, struct exchange *exchange)
{
	assert(d->client.first == exchange);
	d->client.first = exchange->next;
	d->exchange_count--;
	d->rest_comes |= !exchange_has_request(exchange);
	downstream_leave_input(d, exchange);
	if (exchange->close_client)
		cut_behind(d);
	if (!d->client.first)
		d->last = NULL;
	d->client.again = true;
}

/* Nothing to be sent, and none of its requests is being read: the usual cases. */
static inline void watch_input_none(struct downstream *d)
{
	if (d->client.first)
		wait_none(&d->wait); /* what it asked for is under way */
	else
		idle_wait(d);
}

static inline void watch(struct downstream *d)
{
	if (d->state == DOWNSTREAM_LINGERING)
		return;
	if ((d->input == INPUT_NONE && flow_is_empty(&d->out) && !d->rates) || !client_wait(d))
		watch_input_none(d);
}

void downstream_watch(struct downstream *d)
{
	watch(d);
}

/* Whether to write now, or at the turn's end together with what else is about to come. */
static bool may_wait(struct downstream *d)
{
	if (d->stalled || flow_is_empty(&d->out) || !flow_takes_prefix(&d->out) ||
		(d->client.first && d->client.first->answer.progress != ANSWER_AWAITED))
		return false;
	if (!d->unflushed) {
		d->unflushed = true;
		d->next_unflushed = NULL;
		*http1_part(d->worker)->unflushed_end = d;
		http1_part(d->worker)->unflushed_end = &d->next_unflushed;
	}
	return true;
}

/* Runs when no more progress is possible in this turn. */
static void settle(struct downstream *d)
{
	flush(d);
	if (d->state == DOWNSTREAM_CLOSED)
		return;
	if (d->state == DOWNSTREAM_FINISHING && !d->client.first && flow_is_empty(&d->out))
		end_output(d);
	if (d->state != DOWNSTREAM_CLOSED)
		watch(d);
}

/* It was idle for long enough. What a node has sent meanwhile is read and thrown away, or a reset
 * would take the farewell out of its socket again. */
static void close_idle(struct downstream *d, const char *why)
{
	struct slice farewell = farewell_of(d);

	if (farewell.len == 0 || !flow_append(&d->out, &d->worker->blocks, farewell)) {
		downstream_close(d, why);
		return;
	}
	d->rest_comes = true;
	downstream_finish(d);
	settle(d);
}

void downstream_flush_all(struct worker *worker)
{
	while (http1_part(worker)->unflushed) {
		struct downstream *d = http1_part(worker)->unflushed;
		http1_part(worker)->unflushed = d->next_unflushed;
		if (!http1_part(worker)->unflushed)
			http1_part(worker)->unflushed_end = &http1_part(worker)->unflushed;
		d->unflushed = false;
		if (d->state != DOWNSTREAM_CLOSED)
			settle(d);
	}
}

/* Runs the oldest exchange, and when that has ended the one behind it. */
static void run_first(struct downstream *d)
{
	struct exchange *first;

	while ((first = d->client.first) != NULL) {
		exchange_next(first);
		if (d->client.first == first)
			exchange_run(first);
		if (d->client.first == first)
			return;
		d->client.again = false; /* what it was set for is done here or comes right after */
	}
}

/* The first whose answer is still to come may fetch it now, unless the client has yet to take what
 * was there before: it would hold a connection and a place until then. */
static void go_next(struct downstream *d)
{
	struct exchange *next = d->client.first;

	if (downstream_is_behind(d))
		return;

	while (next && exchange_is_answered(next))
		next = next->next;
	if (next && next != d->client.first)
		exchange_next(next);
}

/* ---- has the client left? -------------------------------------------------------------------- */

/*
 * A client that closes its half may only have said all that it has to say, or have left: TCP does
 * not tell before the client is sent something. An interim response is allowed at any time (RFC
 * 9110 section 15.2), and a client that has left answers it with a reset, which ends its exchange.
 * Once for each, as soon as it is the first of its connection.
 */
static void probe(struct downstream *d)
{
	struct exchange *first = d->client.first;

	if (first->interim.to_continue == CONTINUE_PROBED || first->request.minor == 0 ||
		first->answer.progress != ANSWER_AWAITED || first->state == EXCHANGE_REPLYING ||
		!flow_takes_prefix(&d->out))
		return;
	first->interim.to_continue = CONTINUE_PROBED;
	flow_append(&d->out, &d->worker->blocks, SLICE("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Is the following input left unread now, with a reset behind it? It is a body that waits for its
 * exchange's turn, or comes behind a request for an upgrade, the last request, or as many requests
 * as are taken at once. */
static bool leaves_unread(const struct downstream *d)
{
	switch (d->input) {
	case INPUT_NONE:
		return d->state != DOWNSTREAM_OPEN ||
		       d->exchange_count >= d->client.listener->conf->pipeline_depth;
	case INPUT_BODY:
		return !d->reading->up.source;
	case INPUT_UPGRADE:
		return true;
	case INPUT_HEAD:
	case INPUT_TUNNEL:
		break;
	}
	return false;
}

/* The last request has just been read and waits for its turn. A reset that came together with it is
 * behind it. The stream tells of it later; until then its turn may come. */
static inline bool may_hide_reset(const struct downstream *d, uint64_t begun)
{
	return d->begun != begun && d->last && d->stream.unsure && exchange_waits_for_turn(d->last);
}

/* Everything that could be done is, and a client that has left ends it here. */
static bool is_gone(struct downstream *d, uint64_t begun)
{
	if (may_hide_reset(d, begun) && stream_is_cut(&d->stream))
		return true;
	if (!d->stream.peer_closed || !d->client.first)
		return false;
	/* A response that never ends lasts for as long as its client likes: the client that closes
	 * its half during it has left, as browsers do that close a page, and is not heard of again
	 * while the server is silent. nginx takes it so, too. */
	if (d->client.first->attempt.endless)
		return true;
	if (exchange_waits_for_turn(d->client.first))
		probe(d);
	return false;
}

static void read_more(struct downstream *d)
{
	switch (read_requests(d)) {
	case READ_REQUESTS_PAUSED:
		break;
	case READ_REQUESTS_ENDED:
		downstream_finish(d);
		break;
	case READ_REQUESTS_RESET:
		downstream_close(d, "connection reset");
		break;
	case READ_REQUESTS_NO_MEMORY:
		downstream_close(d, "no memory");
		break;
	}
}

void downstream_advance(struct downstream *d)
{
	uint64_t begun = d->begun;

	if (d->busy) {
		d->client.again = true;
		return;
	}
	if (d->state == DOWNSTREAM_CLOSED)
		return;
	if (d->state == DOWNSTREAM_LINGERING) {
		run_lingering(d);
		return;
	}
	d->busy = true;
	do {
		d->client.again = d->stalled = d->yields = false;
		run_first(d);
		go_next(d);
		if (d->state != DOWNSTREAM_CLOSED && d->input == INPUT_BODY &&
			d->reading != d->client.first)
			exchange_run(d->reading);
		if (d->state == DOWNSTREAM_OPEN && (d->in.at || d->stream.readable))
			read_more(d);
		if (d->stalled) {
			flush(d);
			d->client.again |= !read_requests_are_stalled(d);
		}
	} while (d->client.again && d->state != DOWNSTREAM_CLOSED);
	d->busy = false;
	if (d->state != DOWNSTREAM_CLOSED && is_gone(d, begun)) {
		downstream_close(d, "client gone");
		return;
	}
	if (d->yields && d->state <= DOWNSTREAM_FINISHING)
		stream_yield(&d->stream);
	if (d->state != DOWNSTREAM_CLOSED && !may_wait(d))
		settle(d);
}

void downstream_drain(struct downstream *d)
{
	bool is_idle = !d->client.first && d->input == INPUT_NONE;

	if (d->state == DOWNSTREAM_OPEN && flow_is_empty(&d->out) &&
		(is_idle || d->input == INPUT_HEAD))
		downstream_watch(d);
	linger_drain(d);
}

bool downstream_is_last(const struct downstream *d, const struct exchange *exchange)
{
	bool more = exchange_has_request(exchange) &&
		    ((d->in.at && buffer_used(&d->in) > 0) || d->stream.readable);

	/* Requests pipelined behind it are answered, too, unless they continue for ever. */
	return !exchange->next &&
	       (!more || worker_now_ms(d->worker) > d->worker->drain_began_ms + DRAIN_IDLE_MS);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Nothing is under way on it: what comes is a request. */
static void on_readable(struct stream *stream)
{
	struct downstream *d =
		(struct downstream *)((char *)stream - offsetof(struct downstream, stream));

	if (d->state == DOWNSTREAM_OPEN && !d->client.first && d->input == INPUT_NONE && !d->in.at)
		stream_fetch(stream, &d->in, &d->worker->blocks);
}

static void on_event(struct stream *stream)
{
	struct downstream *d =
		(struct downstream *)((char *)stream - offsetof(struct downstream, stream));

	if ((stream->peer_closed || leaves_unread(d)) && d->client.first &&
		d->state != DOWNSTREAM_LINGERING) {
		if (stream_is_cut(&d->stream)) {
			downstream_close(d, "client gone");
			return;
		}
		if (stream->peer_closed)
			probe(d);
	}
	downstream_advance(d);
}

static const struct stream_calls calls = {on_readable, on_event};

static void cut_slow_reader(struct downstream *d, const char *why)
{
	if (d->client.first && !d->client.first->outcome)
		d->client.first->outcome = why;
	downstream_close(d, why);
}

static void on_deadline(struct deadline *deadline)
{
	struct downstream *d =
		(struct downstream *)((char *)deadline - offsetof(struct downstream, wait));
	struct exchange *reading = d->reading;
	const char *why;

	switch (d->wait.reason) {
	case WAIT_LINGER:
		downstream_close(d, "lingered");
		break;
	case WAIT_TAKE:
		if (client_wait_is_over(d, &why))
			cut_slow_reader(d, why);
		break;
	case WAIT_HEAD:
		d->was_slow = true;
		read_requests_append(d);
		exchange_reject(reading, 408, "header timeout");
		downstream_advance(d);
		break;
	case WAIT_BODY:
		if (!client_wait_is_over(d, &why))
			break;
		d->was_slow = true;
		exchange_reject(reading, 408, why);
		downstream_advance(d);
		break;
	case WAIT_IDLE:
		if (d->worker->draining && d->state == DOWNSTREAM_OPEN &&
			stream_has_input(&d->stream)) {
			wait_none(&d->wait);
			stream_expect_input(&d->stream);
			downstream_advance(d);
		} else if ((why = idle_wait_is_over(d)) != NULL) {
			close_idle(d, why);
		}
		break;
	case WAIT_NONE:
	case WAIT_CONNECT:
	case WAIT_SEND:
	case WAIT_RESPONSE:
	case WAIT_MORE:
	case WAIT_CLIENT:
	case WAIT_DRAIN:
	case WAIT_TUNNEL:
	case WAIT_REUSE:
	case WAIT_PING:
		assert(!"a client's connection waits for something else");
	}
}
