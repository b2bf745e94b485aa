#include "exchange/passage.h"

#include <assert.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/log.h"
#include "body/pump.h"
#include "exchange/access.h"
#include "exchange/access_line.h"
#include "exchange/exchange.h"
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
	free(p);
}

static void free_later(struct passage *p)
{
	loop_free_later(&p->worker->loop, &p->deferred, free_passage);
}

static void clear_way(struct passage *p, struct passage_way *way)
{
	flow_clear(&way->out, &p->worker->blocks);
	buffer_release(&way->in, &p->worker->blocks);
}

static void leave_servers(struct passage *p)
{
	/* relaxed: counts; nothing is read by them */
	atomic_fetch_sub_explicit(&p->account.endless->streams, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&p->account.upstream->state->streams, 1, memory_order_relaxed);
	pool_forget(p->account.known);
}

static void leave_queue(struct passage *p)
{
	if (p->in_queue && queue_done(p->worker->node->queue, &p->ticket,
				   worker_now_ns(p->worker)) == QUEUE_UNDER_WAY)
		p->awaits_mail = true;
	p->in_queue = false;
}

static void settle(struct passage *p)
{
	const struct gate_end end = {.status = 101, .bytes = p->up.bytes + p->down.bytes};
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
	};

	settle(p);
	p->account.end.received_bytes = p->up.bytes;
	p->account.end.sent_bytes = p->down.bytes;
	account_kept(p->worker, site, p->account.route, &p->account.end);
	access_log_kept(p->worker, site, p->account.line, &line);
}

static void delist(struct passage *p)
{
	if (p->prev)
		p->prev->next = p->next;
	else
		p->worker->passages = p->next;
	if (p->next)
		p->next->prev = p->prev;
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
	stream_close(&p->server);
	wait_end(&p->wait);
	clear_way(p, &p->up);
	clear_way(p, &p->down);
	leave_servers(p);
	leave_queue(p);
	give_account(p);
	delist(p);
	listener_client_gone(p->account.listener);
	if (p->account.server_use)
		site_use_release(p->account.server_use);
	site_use_release(p->account.use);
	p->worker->exchange_count--;
	if (!p->awaits_mail)
		free_later(p);
}

/* ---- its bytes ------------------------------------------------------------------------------- */

static enum pump_result pump_way(
	struct passage *p, struct passage_way *way, struct stream *source, struct stream *sink)
{
	struct pump pump = {
		.source = source,
		.in = &way->in,
		.sink = sink,
		.flow = &way->out,
		.pool = &p->worker->blocks,
		.decoder.body = HTTP_BODY_UNTIL_CLOSE,
	};
	enum pump_result result = pump_run(&pump, PASSAGE_TURNS);

	way->bytes += pump.content_bytes;
	way->written += pump.written;
	return result;
}

/* False: the passage is to be cut. */
static bool run_way(
	struct passage *p, struct passage_way *way, struct stream *source, struct stream *sink)
{
	if (way->is_over)
		return true;
	switch (pump_way(p, way, source, sink)) {
	case PUMP_DONE:
		way->is_over = true;
		stream_end_output(sink);
		return true;
	case PUMP_WANTS_READ:
		stream_read_again(source);
		return true;
	case PUMP_WANTS_WRITE:
		return true;
	case PUMP_SINK_FAILED:
		/* Nothing more is read for it; what its peer has sent before, and its end, is. */
		way->is_over = true;
		p->outcome = "tunnel cut";
		clear_way(p, way);
		stream_expect_input(sink);
		return true;
	case PUMP_SOURCE_ENDED:
	case PUMP_SOURCE_BROKEN:
	case PUMP_TOO_LARGE:
	case PUMP_NO_MEMORY:
	case PUMP_SPOOL_FAILED:
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

static void run(struct passage *p)
{
	uint64_t now_ms = worker_now_ms(p->worker);

	if (!run_way(p, &p->up, &p->client, &p->server) ||
		!run_way(p, &p->down, &p->server, &p->client)) {
		passage_end(p, p->client.failed ? "client gone" : "tunnel cut");
		return;
	}
	if (p->up.is_over && p->down.is_over) {
		passage_end(p, NULL);
		return;
	}
	charge_passed(p);
	wait_for(&p->wait, WAIT_TUNNEL, p->up.written + p->down.written,
		now_ms + p->account.upstream->conf->tunnel_timeout_ms, now_ms);
}

/* What the server does not take now is not read, nor the reset behind it. */
static bool is_gone_unread(const struct passage *p)
{
	return p->client.peer_closed && !flow_is_empty(&p->up.out) && !p->down.is_over &&
	       stream_is_cut(&p->client);
}

static void on_client(struct stream *stream)
{
	struct passage *p = of_client(stream);

	if (is_gone_unread(p))
		passage_end(p, "client gone");
	else
		run(p);
}

static void on_server(struct stream *stream)
{
	run(of_server(stream));
}

static void on_deadline(struct deadline *deadline)
{
	passage_end(CONTAINER_OF(deadline, struct passage, wait.deadline), "tunnel idle");
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
		passage_end(p, "session aborted");
	}
}

/* ---- its beginning --------------------------------------------------------------------------- */

/* Is anything to be settled at its end? */
static bool has_to_settle(const struct exchange *x)
{
	return !gate_receipt_is_empty(&x->gate.receipt) &&
	       !gate_keeps_all(x->route, &x->gate.receipt, 101);
}

/* NULL without memory. */
static struct passage *passage_new(const struct exchange *x)
{
	struct passage *p = calloc(1, sizeof(*p));
	bool settles = has_to_settle(x);

	if (!p)
		return NULL;
	p->account.line = access_keep(x);
	if (settles)
		p->account.receipt = kept_receipt_new(&x->gate.receipt);
	if (p->account.line && (p->account.receipt || !settles))
		return p;
	free(p->account.line);
	free(p->account.receipt);
	free(p);
	return NULL;
}

static void take_account(struct passage *p, struct exchange *x)
{
	p->account.end = account_keep(x);
	p->account.use = x->use;
	p->account.server_use = x->server_use;
	p->account.route = x->route;
	p->account.upstream = x->upstream;
	p->account.endless = x->attempt.endless;
	p->account.listener = x->client->listener;
	x->use = x->server_use = NULL;
	x->attempt.endless = NULL;
	x->gate.receipt.throttle.count = 0;
	x->gate.receipt.authority = NULL;
}

static void take_ticket(struct passage *p, struct exchange *x)
{
	ticket_init(&p->ticket, p->worker->index);
	p->ticket.message.run = on_ticket;
	p->in_queue = x->turn.in_queue;
	if (!x->turn.in_queue)
		return;
	x->turn.in_queue = false;
	x->turn.awaits_mail = queue_pass_on(p->worker->node->queue, &x->turn.ticket, &p->ticket,
				      worker_now_ns(p->worker)) == QUEUE_UNDER_WAY;
}

/* False: no memory, and what was opened is closed. */
static bool take_streams(struct passage *p, struct exchange *x)
{
	static const struct stream_calls client_calls = {NULL, on_client};
	static const struct stream_calls server_calls = {NULL, on_server};
	struct server_connection *connection = x->connection;
	struct stream_loop *streams = &p->worker->streams;
	struct client_rest rest;
	uint32_t requests;

	p->account.known = server_state_of(connection);
	server_finish(connection, &p->down.in);
	struct stream_export server = server_connection_export(connection, &requests);
	client_leave(x->client, &rest);
	x->connection = NULL;
	x->client = NULL;
	p->up.in = rest.in;
	p->down.out = rest.out;
	bool has_client = stream_import(&p->client, streams, &rest.stream, &client_calls);
	bool has_server = stream_import(&p->server, streams, &server, &server_calls);
	return has_client && has_server;
}

static void enlist(struct passage *p)
{
	p->next = p->worker->passages;
	if (p->next)
		p->next->prev = p;
	p->worker->passages = p;
	p->worker->exchange_count++;
}

bool passage_begin(struct exchange *x)
{
	struct passage *p = passage_new(x);

	if (!p)
		return false;
	p->worker = x->worker;
	wait_init(&p->wait, p->worker->loop.base, on_deadline);
	enlist(p);
	take_account(p, x);
	take_ticket(p, x);
	if (take_streams(p, x)) {
		/* Both look in this turn: what came before is not told again. */
		stream_expect_input(&p->client);
		stream_expect_input(&p->server);
	} else {
		passage_end(p, "no memory");
	}
	exchange_hand_over(x);
	return true;
}
