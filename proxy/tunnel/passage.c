#include "tunnel/passage.h"

#include <assert.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/list.h"
#include "base/log.h"
#include "record/access.h"
#include "record/access_line.h"
#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "exchange/report.h"
#include "exchange/kept_request.h"
#include "ownership/parting.h"
#include "gate/kept_receipt.h"
#include "listen/listener.h"
#include "upstream/server.h"
#include "upstream/server_connection.h"
#include "upstream/server_pool.h"
#include "worker/worker_clock.h"

/* Reads of each way in a row, before it is the others' turn. */
#define PASSAGE_TURNS 16

static struct passage *of_client(struct stream *stream)
{
	return CONTAINER_OF(stream, struct passage, client);
}

static struct passage *of_server(struct stream *stream)
{
	return CONTAINER_OF(stream, struct passage, server);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void free_passage(struct deferred_free *item)
{
	struct passage *p = CONTAINER_OF(item, struct passage, deferred);

	free(p->account.line);
	free(p->account.receipt);
	free(p->request);
	free(p);
}

static void free_later(struct passage *p)
{
	loop_free_later(&p->worker->loop, &p->deferred, free_passage);
}

static void clear_way(struct passage_way *way)
{
	flow_clear(way->flow, way->pool);
	buffer_release(way->in, way->pool);
}

static void leave_servers(struct passage *p)
{
	struct passage_account *account = &p->account;

	if (account->endless) {
		/* relaxed: counts; nothing is read by them */
		atomic_fetch_sub_explicit(&account->endless->streams, 1, memory_order_relaxed);
		atomic_fetch_sub_explicit(
			&account->upstream->state->streams, 1, memory_order_relaxed);
	}
	if (account->known)
		pool_forget(account->known);
}

static void leave_queue(struct passage *p)
{
	if (p->in_queue && queue_done(p->worker->node->queue, &p->ticket,
				   worker_now_ns(p->worker)) == QUEUE_UNDER_WAY)
		p->awaits_message = true;
	p->in_queue = false;
}

static void settle(struct passage *p)
{
	const struct gate_end end = {
		.status = 101,
		/* A socket's messages have paid for themselves. */
		.bytes = p->messages.count ? 0 : p->up.bytes + p->down.bytes,
	};
	struct gate_receipt receipt;

	if (!p->account.receipt)
		return;
	kept_receipt_open(p->account.receipt, &receipt);
	gate_finish(p->account.use->site->gate, p->account.route, &receipt, &end,
		worker_throttle_ns(p->worker));
}

static void give_account(struct passage *p)
{
	const struct site *site = p->account.use->site;
	struct access_line line = {
		.route = p->account.route->name,
		.upstream = p->account.route->upstream->name,
		.outcome = p->outcome,
		.status = 101,
		.upstream_status = 101,
		.received_bytes = p->up.bytes,
		.sent_bytes = p->down.bytes,
		.has_messages = p->messages.count,
		.messages_received = p->messages.received,
		.messages_sent = p->messages.sent,
	};

	settle(p);
	p->account.end.received_bytes = p->up.bytes;
	p->account.end.sent_bytes = p->down.bytes;
	account_request(p->worker, site, p->account.route, &p->account.end);
	access_log_kept(p->worker, site, p->account.line, &line);
}

static void delist(struct passage *p)
{
	CHAIN_REMOVE(tunnel_part(p->worker)->passages, p, prev, next);
}

void passage_end(struct passage *p, const char *why)
{
	if (p->has_ended)
		return;
	p->has_ended = true;
	if (!p->outcome)
		p->outcome = why;
	log_debug("passage: ended: %s", p->outcome ? p->outcome : "by both sides");
	stream_close(&p->client);
	parting_close(&p->server, p->worker, &p->owner);
	wait_end(&p->wait);
	if (p->socket)
		tunnel_part(p->worker)->calls->end(p);
	clear_way(&p->up);
	clear_way(&p->down);
	leave_servers(p);
	leave_queue(p);
	if (p->owner.session)
		owner_end(node_owners(p->worker->node), &p->owner);
	give_account(p);
	delist(p);
	listener_client_gone(p->account.listener, p->account.entry);
	if (p->account.server_use)
		site_use_release(p->account.server_use);
	site_use_release(p->account.use);
	exchange_part(p->worker)->count--;
	if (!p->awaits_message)
		free_later(p);
}

void passage_abort(struct passage *p, const char *why)
{
	if (!p->has_ended)
		p->outcome = why;
	passage_end(p, why);
}

bool passage_may_send(const struct passage *p)
{
	return !p->owner.session || p->owner.node ||
	       owner_is_valid(node_owners(p->worker->node), &p->owner);
}

/* ---- a reset --------------------------------------------------------------------------------
 * A reset of one side of a tunnel reaches the other as a reset, so that what was cut off does not
 * look complete (RFC 9293 section 3.5.3). A close by reset throws away what the other side has not
 * taken yet: it waits for that, and looks from time to time, as no system reports it.
 *
 *   reset --begin_reset--> bytes are on their way --taken, no progress, gone--> reset, ended
 *                                     `-- looks: by the clock, and at its events
 */

/* Between two looks; and how many of them in a row may find no progress: 10 s. */
#define RESET_LOOK_MS    50
#define RESET_IDLE_LOOKS 200

static bool is_reset_due(const struct passage *p, uint64_t taken)
{
	return taken == p->resets->sent || p->idle_looks >= RESET_IDLE_LOOKS ||
	       stream_is_cut(p->resets);
}

/* Has it been taken? `is_due`: its deadline has passed. May end the passage. */
static void look_at_reset(struct passage *p, bool is_due)
{
	uint64_t taken = stream_taken(p->resets), now_ms = worker_now_ms(p->worker);

	if (is_due)
		p->idle_looks = taken == p->wait.progress ? p->idle_looks + 1 : 0;
	if (is_reset_due(p, taken)) {
		stream_reset_at_close(p->resets);
		stream_close(p->resets);
		passage_end(p, p->outcome);
		return;
	}
	if (!is_due && p->wait.deadline.at_ms <= now_ms + RESET_LOOK_MS)
		return;
	wait_none(&p->wait);
	wait_for(&p->wait, WAIT_TUNNEL, taken, now_ms + RESET_LOOK_MS, now_ms);
}

/* Nothing more passes: `to`, a side of the passage, is reset, at once or when it has taken what was
 * written to it. `why` as for passage_end. May end the passage. */
static void begin_reset(struct passage *p, struct stream *to, const char *why)
{
	if (!p->outcome)
		p->outcome = why;
	p->resets = to;
	look_at_reset(p, false);
}

/* ---- its bytes ------------------------------------------------------------------------------- */

enum way_result { WAY_RESTS, WAY_OVER, WAY_CUT, WAY_SINK_FAILED };

static bool release(struct passage_way *way)
{
	if (way->in->at && buffer_used(way->in) == 0)
		buffer_release(way->in, way->pool);
	return way->in->at;
}

/* One block is read only when the one before has left. */
static enum way_result read_way(struct passage_way *way)
{
	struct buffer *in = way->in;

	if (!in->at && !buffer_acquire(in, way->pool))
		return WAY_CUT;
	if (buffer_used(in) == 0)
		in->start = in->end = 0;
	if (stream_read(way->source, in) == STREAM_OK)
		return WAY_RESTS;
	release(way);
	if (!way->source->read_ended)
		return WAY_RESTS;
	return way->source->failed ? WAY_CUT : WAY_OVER;
}

static enum way_result pump_way(struct passage_way *way)
{
	unsigned turns = PASSAGE_TURNS;

	for (;;) {
		if (!flow_is_empty(way->flow)) {
			if (!way->sink->writable)
				return WAY_RESTS;
			switch (flow_write(way->flow, way->sink, way->pool, &way->written)) {
			case STREAM_OK:
				break;
			case STREAM_AGAIN:
				return WAY_RESTS;
			case STREAM_END:
			case STREAM_FAILED:
				return WAY_SINK_FAILED;
			}
		}
		if (!release(way) || buffer_used(way->in) == 0) {
			if (!way->source->read_ended &&
				(!stream_may_have_more(way->source) || turns-- == 0)) {
				stream_read_again(way->source);
				return WAY_RESTS;
			}
			enum way_result result = read_way(way);
			if (result != WAY_RESTS || !way->in->at)
				return result;
		}
		way->flow->body = (struct slice){buffer_head(way->in), buffer_used(way->in)};
		way->bytes += way->flow->body.len;
		way->in->start = way->in->end;
	}
}

/* False: the passage is to be cut. */
static bool run_way(struct passage *p, struct passage_way *way)
{
	if (way->is_over)
		return true;
	switch (pump_way(way)) {
	case WAY_OVER:
		way->is_over = true;
		stream_end_output(way->sink);
		return true;
	case WAY_RESTS:
		return true;
	case WAY_SINK_FAILED:
		/* Nothing more is read for it; what its peer has sent before, and its end, is. */
		way->is_over = true;
		p->outcome = "tunnel cut";
		clear_way(way);
		stream_expect_input(way->sink);
		return true;
	case WAY_CUT:
		break;
	}
	return false;
}

/* Limits in bytes are charged while they pass. */
static void charge_passed(struct passage *p)
{
	if (p->account.receipt && kept_receipt_has_bytes(p->account.receipt))
		kept_receipt_charge_bytes(p->account.use->site->gate, p->account.receipt,
			p->up.bytes + p->down.bytes, worker_throttle_ns(p->worker));
}

/* Both ways are over, or one is cut. */
static void end_bytes(struct passage *p, const char *why)
{
	if (p->client.failed == p->server.failed)
		passage_end(p, why);
	else
		begin_reset(p, p->client.failed ? &p->server : &p->client, why);
}

static void run_bytes(struct passage *p)
{
	uint64_t now_ms = worker_now_ms(p->worker);

	if (!passage_may_send(p)) {
		passage_abort(p, "session over");
		return;
	}
	if (!run_way(p, &p->up) || !run_way(p, &p->down)) {
		end_bytes(p, p->client.failed ? "client gone" : "tunnel cut");
		return;
	}
	if (p->up.is_over && p->down.is_over) {
		end_bytes(p, NULL);
		return;
	}
	charge_passed(p);
	wait_for(&p->wait, WAIT_TUNNEL, p->up.written + p->down.written,
		now_ms + p->account.upstream->conf->tunnel_timeout_ms, now_ms);
}

void passage_run(struct passage *p)
{
	if (p->socket)
		tunnel_part(p->worker)->calls->run(p);
	else if (p->resets)
		look_at_reset(p, false);
	else
		run_bytes(p);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* What the server does not take now is not read, nor the reset behind it. A socket does not read at
 * times, and does not end its output: when the connection is over, its client has left. */
static bool is_gone_unread(const struct passage *p)
{
	return !p->has_ended && !p->resets && (p->socket || !flow_is_empty(p->up.flow)) &&
	       !p->down.is_over && stream_is_cut(&p->client);
}

/* An event says of a reset that the client can be read, as of bytes: so the system is asked where
 * that is left unread. */
static void on_client(struct stream *stream)
{
	struct passage *p = of_client(stream);

	if (!p->client.peer_closed || !is_gone_unread(p))
		passage_run(p);
	if ((!p->client.readable && !p->client.peer_closed) || !is_gone_unread(p))
		return;
	if (p->socket)
		passage_end(p, "client gone");
	else
		begin_reset(p, &p->server, "client gone");
}

static void on_server(struct stream *stream)
{
	passage_run(of_server(stream));
}

static void on_deadline(struct deadline *deadline)
{
	struct passage *p = CONTAINER_OF(deadline, struct passage, wait.deadline);

	if (p->socket)
		tunnel_part(p->worker)->calls->timeout(p);
	else if (p->resets)
		look_at_reset(p, true);
	else
		passage_end(p, "tunnel idle");
}

/* The message of its ticket. */
static void on_ticket(struct message *message)
{
	struct passage *p = CONTAINER_OF(ticket_of(message), struct passage, ticket);
	enum queue_verdict verdict =
		queue_arrive(p->worker->node->queue, &p->ticket, worker_now_ns(p->worker));

	if (p->has_ended) {
		assert(verdict == QUEUE_GONE);
		free_later(p);
	} else if (verdict == QUEUE_ABORTED) {
		passage_abort(p, "session aborted");
	} else if (verdict == QUEUE_ENDING && p->socket) {
		tunnel_part(p->worker)->calls->session_ends(p);
		if (!p->has_ended)
			passage_run(p);
	}
}

/* ---- of a socket ----------------------------------------------------------------------------- */

void passage_await(struct passage *p, uint64_t at_ms, bool is_ours)
{
	wait_for(&p->wait, WAIT_TUNNEL, at_ms, at_ms, worker_now_ms(p->worker));
	p->wait.deadline.is_patient &= !is_ours;
}

void passage_count(const struct passage *p, unsigned slot, uint64_t count)
{
	const struct account_rows *rows = &p->account.use->site->rows;

	stats_add(&stats_row(p->worker->stats, STATS_ROUTE,
			  rows->routes[p->account.route->index])[slot],
		count);
}

void passage_count_failure(const struct passage *p)
{
	/* relaxed: a count that others only show */
	if (p->account.known)
		atomic_fetch_add_explicit(&p->account.known->failures, 1, memory_order_relaxed);

	const struct account_rows *rows = &p->account.use->site->rows;

	stats_add(&stats_row(p->worker->stats, STATS_UPSTREAM,
			  rows->upstreams[p->account.route->upstream
						  ->index])[STATS_UPSTREAM_FAILURES],
		1);
}

/* ---- its beginning --------------------------------------------------------------------------- */

/* Is anything to be settled at its end? */
static bool has_to_settle(const struct exchange *x)
{
	return !gate_receipt_is_empty(&x->gate->receipt) &&
	       !gate_keeps_all(x->route, &x->gate->receipt, 101);
}

/* All that is kept of the request. False: no memory, for some of it. */
static bool keep_request(struct passage *p, const struct exchange *x, bool switches)
{
	bool settles = has_to_settle(x);

	p->account.line = report_keep_line(x);
	if (settles)
		p->account.receipt = kept_receipt_new(&x->gate->receipt);
	if (switches)
		p->request = kept_request_new(x);
	return p->account.line && (p->account.receipt || !settles) && (p->request || !switches);
}

/* NULL without memory. */
static struct passage *passage_new(const struct exchange *x, bool switches)
{
	struct passage *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->worker = x->worker;
	if (!keep_request(p, x, switches)) {
		free_passage(&p->deferred);
		return NULL;
	}
	p->up = (struct passage_way){&p->client, &p->server, &p->memory.from_client,
		&p->memory.to_server, &p->worker->blocks, 0, 0, false};
	p->down = (struct passage_way){&p->server, &p->client, &p->memory.from_server,
		&p->memory.to_client, &p->worker->blocks, 0, 0, false};
	wait_init(&p->wait, p->worker->loop.base, on_deadline);
	return p;
}

static void take_account(struct passage *p, struct exchange *x)
{
	p->account.end = report_keep_end(x);
	p->account.use = x->use;
	p->account.server_use = x->server_use;
	p->account.route = x->route;
	p->account.upstream = x->upstream;
	p->account.endless = x->attempt.endless;
	p->account.listener = x->client->listener;
	p->account.hop = hop_is_from_node(x->client) ? client_listener(x->client) : NULL;
	x->use = x->server_use = NULL;
	x->attempt.endless = NULL;
	x->gate->receipt.throttle.count = 0;
	x->gate->receipt.authority = NULL;
}

static void take_ticket(struct passage *p, struct exchange *x)
{
	ticket_init(&p->ticket, p->worker->index);
	p->ticket.message.run = on_ticket;
	p->in_queue = exchange_is_queued(x);
	if (!exchange_is_queued(x))
		return;
	x->turn.ticket_use = queue_pass_on(p->worker->node->queue, &x->turn.ticket, &p->ticket,
				     worker_now_ns(p->worker)) == QUEUE_UNDER_WAY
				     ? TURN_TICKET_IS_AWAY
				     : TURN_HAS_NO_TICKET;
}

/* Its session has another owner, or may have: nothing more of it may reach a server by this one. */
static void session_is_over(struct passage *p)
{
	if (!p->socket) {
		passage_abort(p, "session over");
		return;
	}
	tunnel_part(p->worker)->calls->session_is_over(p);
	if (!p->has_ended)
		passage_run(p);
}

static void on_owner_changed(struct owner_use *use)
{
	session_is_over(CONTAINER_OF(use, struct passage, owner));
}

static void on_owner_lapsed(struct owner_use *use)
{
	struct passage *p = CONTAINER_OF(use, struct passage, owner);

	if (p->server.open && stream_has_untaken(&p->server))
		session_is_over(p);
}

/* A socket closes in order; in a process that ends, when the drain says so (websocket/times.c). */
static void on_owner_moves(struct owner_use *use)
{
	struct passage *p = CONTAINER_OF(use, struct passage, owner);

	if (!p->socket) {
		passage_abort(p, "session moves");
	} else if (!passage_may_send(p)) {
		on_owner_lapsed(use);
	} else if (!owners_are_replaced(node_owners(p->worker->node))) {
		tunnel_part(p->worker)->calls->session_ends(p);
		if (!p->has_ended)
			passage_run(p);
	}
}

static void take_owner(struct passage *p, struct exchange *x)
{
	p->owner.changed = on_owner_changed;
	p->owner.lapsed = on_owner_lapsed;
	p->owner.moves = on_owner_moves;
	if (x->owner.use.session)
		owner_move(&p->owner, &x->owner.use);
}

/* False: no memory, and it is closed. */
static bool take_server(struct passage *p, struct exchange *x)
{
	static const struct stream_calls calls = {NULL, on_server};
	struct server_connection *connection = x->connection;

	if (!connection)
		return true;
	p->account.known = server_state_of(connection);
	server_finish(connection, p->down.in);
	struct passed_connection server = server_connection_export(connection);
	x->connection = NULL;
	return stream_import(&p->server, &p->worker->streams, &server.stream, &calls);
}

static bool take_client(struct passage *p, struct exchange *x)
{
	static const struct stream_calls calls = {NULL, on_client};
	struct client_rest rest;

	client_leave(x->client, &rest);
	x->client = NULL;
	p->account.entry = rest.entry;
	*p->up.in = rest.in;
	*p->down.flow = rest.out;
	return stream_import(&p->client, &p->worker->streams, &rest.stream, &calls);
}

static void enlist(struct passage *p)
{
	CHAIN_PUSH(tunnel_part(p->worker)->passages, p, prev, next);
	exchange_part(p->worker)->count++;
}

/* Both look in this turn: what came before is not told again. */
static void begin(struct passage *p)
{
	stream_expect_input(&p->client);
	if (p->server.open)
		stream_expect_input(&p->server);
}

bool passage_begin(struct exchange *x, bool switches)
{
	struct passage *p = passage_new(x, switches);

	if (!p)
		return false;
	enlist(p);
	take_account(p, x);
	take_ticket(p, x);
	take_owner(p, x);
	bool has_server = take_server(p, x);
	if (take_client(p, x) && has_server &&
		(!switches || tunnel_part(p->worker)->calls->begin(x, p)))
		begin(p);
	else
		passage_end(p, "no memory");
	exchange_hand_over(x);
	return true;
}
