/*
 * An exchange's birth, its states, what it releases, and its end. The files above it bring it
 * from state to state: judge.c, turn.c, find_server.c, forward.c, respond.c, reply.c. Its memory is
 * its worker's and used again:
 *
 *   spare --> exchange_new --> ... --> exchange_end --> exchange_free_later --(turn's end)--> spare
 *                                           `--> the queue's message, if one is under way --^
 */
#include "exchange/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "exchange/report.h"
#include "exchange/hop.h"
#include "ownership/owner_marks.h"
#include "ownership/parting.h"
#include "exchange/switched.h"
#include "gate/authority.h"
#include "http/parser.h"
#include "listen/listener.h"
#include "upstream/server_connection.h"
#include "upstream/server_pool.h"
#include "worker/worker_clock.h"

/* Spare items of each kind, on each worker. */
#define SPARES_MOST 1024

static const char *const state_names[] = {
	[EXCHANGE_HEAD] = "head",
	[EXCHANGE_HELD] = "held",
	[EXCHANGE_SEEKING] = "seeking",
	[EXCHANGE_ASKING] = "asking",
	[EXCHANGE_DELAYED] = "delayed",
	[EXCHANGE_QUEUED] = "queued",
	[EXCHANGE_CONNECTING] = "connecting",
	[EXCHANGE_FORWARDING] = "forwarding",
	[EXCHANGE_RELAYING] = "relaying",
	[EXCHANGE_DRAINING] = "draining",
	[EXCHANGE_TUNNEL] = "tunnel",
	[EXCHANGE_REPLYING] = "replying",
	[EXCHANGE_ENDED] = "ended",
};

#define ONE(state)    (1U << EXCHANGE_##state)
#define BEFORE_SERVER (ONE(DELAYED) | ONE(QUEUED) | ONE(CONNECTING) | ONE(REPLYING))

/* Besides ENDED, which follows each: a client may leave at any time. */
static const uint16_t leads_to[] = {
	[EXCHANGE_HEAD] = ONE(SEEKING) | ONE(HELD) | ONE(ASKING) | BEFORE_SERVER,
	/* Once more: the store did not answer, or the owner is not there. */
	[EXCHANGE_SEEKING] = ONE(SEEKING) | ONE(HELD) | ONE(ASKING) | BEFORE_SERVER,
	/* Held once more: it has entered the queue, and its body is still gathered. */
	[EXCHANGE_HELD] = ONE(SEEKING) | ONE(HELD) | ONE(ASKING) | BEFORE_SERVER,
	/* Held: its body is gathered, or others of its connection come first. Asked again: the
	 * answer was old when it was read. */
	[EXCHANGE_ASKING] = ONE(SEEKING) | ONE(HELD) | ONE(ASKING) | BEFORE_SERVER,
	/* Asked again, its limit delays it further. */
	[EXCHANGE_DELAYED] = ONE(SEEKING) | ONE(ASKING) | BEFORE_SERVER,
	/* It had its turn at the head of its session, and waits for a place at the upstream. */
	[EXCHANGE_QUEUED] = ONE(SEEKING) | ONE(ASKING) | BEFORE_SERVER,
	/* In line for a connection it waits as one that is queued. */
	[EXCHANGE_CONNECTING] =
		ONE(SEEKING) | ONE(DELAYED) | ONE(QUEUED) | ONE(FORWARDING) | ONE(REPLYING),
	/* Delayed: a gateway's request that did not leave, until it is tried again. */
	[EXCHANGE_FORWARDING] = ONE(SEEKING) | ONE(DELAYED) | ONE(CONNECTING) | ONE(RELAYING) |
				ONE(DRAINING) | ONE(TUNNEL) | ONE(REPLYING),
	/* No byte of the response's head has left; or it was collected, and opens a socket. */
	[EXCHANGE_RELAYING] = ONE(DRAINING) | ONE(REPLYING) | ONE(TUNNEL),
	[EXCHANGE_DRAINING] = 0,
	[EXCHANGE_TUNNEL] = 0,
	/* Another answer: the rest of its body did not come. */
	[EXCHANGE_REPLYING] = ONE(REPLYING),
	[EXCHANGE_ENDED] = 0,
};
_Static_assert(EXCHANGE_ENDED < 16, "states are bits of a row");

bool exchange_may_change(enum exchange_state from, enum exchange_state to)
{
	return from != EXCHANGE_ENDED && (to == EXCHANGE_ENDED || (leads_to[from] >> to & 1));
}

void exchange_check_change(const struct exchange *x, enum exchange_state state)
{
	if (exchange_may_change(x->state, state))
		return;
	/* The log's thread would be too late. */
	fprintf(stderr, "SLUICE_CHECK_WAITS: exchange: %s -> %s\n", state_names[x->state],
		state_names[state]);
	abort();
}

const char *exchange_state_name(enum exchange_state state)
{
	return state_names[state];
}

void exchange_log_change(const struct exchange *x, enum exchange_state state)
{
	log_debug("exchange %.*s: %s -> %s", SLICE_ARGS(x->request_id), state_names[x->state],
		state_names[state]);
}

const struct exchange_gate exchange_unjudged = {.verdict = {.outcome = GATE_ADMIT}};
const struct http_head exchange_no_response;

/* Written to by no one: see exchange.h. */
static struct exchange_gate *unjudged(void)
{
	return (struct exchange_gate *)(uintptr_t)&exchange_unjudged;
}

static struct http_head *no_response(void)
{
	return (struct http_head *)(uintptr_t)&exchange_no_response;
}

bool exchange_open_gate(struct exchange *x)
{
	struct exchange_gate *gate;

	if (x->gate != unjudged())
		return true;
	gate = spare_take(&exchange_part(x->worker)->gates);
	if (!gate)
		gate = malloc(sizeof(*gate));
	if (!gate)
		return false;
	gate->verdict.outcome = GATE_ADMIT;
	gate->verdict.limit_count = 0;
	gate->receipt.throttle.count = 0;
	gate->receipt.authority = NULL;
	gate->delayed = gate->asked_behind = gate->judged_late = false;
	x->gate = gate;
	return true;
}

bool exchange_open_response(struct exchange *x)
{
	struct http_head *response;

	if (x->response != no_response())
		return true;
	response = spare_take(&exchange_part(x->worker)->responses); /* was cleared */
	if (!response) {
		response = malloc(sizeof(*response));
		if (!response)
			return false;
		http_head_init(response);
	}
	x->response = response;
	return true;
}

static void free_head(struct exchange *x)
{
	if (x->memory.head_bytes > EXCHANGE_HEAD_BYTES)
		free(x->memory.head);
	else if (x->memory.head)
		spare_give(&exchange_part(x->worker)->heads, x->memory.head, SPARES_MOST);
}

char *exchange_new_head(struct exchange *x, size_t bytes)
{
	bool is_long = bytes > EXCHANGE_HEAD_BYTES;
	char *head;

	if (bytes <= x->memory.head_bytes)
		return x->memory.head;
	head = is_long ? NULL : spare_take(&exchange_part(x->worker)->heads);
	if (!head)
		head = malloc(is_long ? bytes : EXCHANGE_HEAD_BYTES);
	if (!head)
		return NULL;
	free_head(x);
	x->memory.head = head;
	x->memory.head_bytes = is_long ? bytes : EXCHANGE_HEAD_BYTES;
	return head;
}

size_t exchange_bytes(const struct exchange *x)
{
	size_t bytes = sizeof(*x);

	if (x->gate != &exchange_unjudged)
		bytes += sizeof(*x->gate);
	if (x->response != &exchange_no_response)
		bytes += sizeof(*x->response);
	bytes += x->memory.head_bytes;
	if (x->memory.path)
		bytes += x->facts.path.len;
	return bytes;
}

void exchange_part_clear(struct exchange_part *part)
{
	spare_clear(&part->spares);
	spare_clear(&part->gates);
	spare_clear(&part->heads);
	spare_clear(&part->responses);
}

/* Inline, so that requests, which have one caller, need no call for it. */
static inline __attribute__((always_inline)) struct exchange *make(
	struct worker *worker, struct client *client)
{
	struct exchange *x = spare_take(&exchange_part(worker)->spares);

	if (!x) {
		x = malloc(sizeof(*x));
		if (!x)
			return NULL;
		http_head_init(&x->request);
	}
	memset(x, 0, EXCHANGE_CLEARED_BYTES);
	x->memory.head = x->memory.path = x->memory.body = x->memory.trailers = NULL;
	x->memory.head_bytes = 0;
	x->gate = unjudged();
	x->response = no_response();
	x->text.trace = TRACE_NONE;
	x->owner.use.session = NULL;
	x->owner.use.node = NULL;
	ticket_init(&x->turn.ticket, worker->index);
	x->worker = worker;
	x->client = client;
	x->use = site_use_hold(site_part(worker)->use);
	x->dialect = client->listener->conf->ratelimit_headers;
	x->times.began_ns = worker_now_ns(worker);
	exchange_part(worker)->count++;
	return x;
}

struct exchange *exchange_new(struct worker *worker, struct client *client)
{
	return make(worker, client);
}

struct exchange *exchange_new_message(struct worker *worker, struct client *client)
{
	struct exchange *x = make(worker, client);

	if (x)
		x->kind = EXCHANGE_MESSAGE;
	return x;
}

static void free_exchange(struct deferred_free *item)
{
	struct exchange *x = CONTAINER_OF(item, struct exchange, deferred);
	struct exchange_part *part = exchange_part(x->worker);

	http_head_clear(&x->request);
	if (x->response != no_response()) {
		http_head_clear(x->response);
		spare_give(&part->responses, x->response, SPARES_MOST);
	}
	if (x->gate != unjudged())
		spare_give(&part->gates, x->gate, SPARES_MOST);
	free_head(x);
	free(x->memory.path);
	free(x->memory.body);
	free(x->memory.trailers);
	spare_give(&part->spares, x, SPARES_MOST);
}

void exchange_request_read(struct exchange *x)
{
	bool upgrades = x->framing.upgrade && x->answer.upstream_status == 0 &&
			x->state != EXCHANGE_REPLYING;

	if (!exchange_has_request(x))
		x->request_progress =
			x->request_progress == REQUEST_REFUSED ? REQUEST_OVER : REQUEST_READ;
	if (x->client)
		client_request_read(x->client, x, upgrades);
}

void exchange_free_body(struct exchange *x)
{
	spool_free(x->body);
	x->body = NULL;
	x->gathering = GATHERING_NONE;
	x->up.spool = NULL;
}

void exchange_forget_answer(struct exchange *x)
{
	spool_free(x->down.spool);
	x->down.spool = NULL;
	x->tunnel.collects = false;
}

void exchange_close_connection(struct exchange *x, struct server_connection *connection)
{
	if (x->owner.use.session)
		parting_close_server(connection, x->worker, &x->owner.use);
	server_connection_close(connection);
}

void exchange_cut_connection(struct exchange *x)
{
	if (x->attempt.line.waiter)
		pool_leave(&x->attempt.line);
	if (x->connection) {
		exchange_close_connection(x, x->connection);
		x->connection = NULL;
	}
	exchange_leave_server(x);
	x->up.sink = NULL;
	x->down.source = NULL;
}

static void leave_endless(struct exchange *x)
{
	if (x->kind == EXCHANGE_GATEWAY_HANDSHAKE && x->tunnel.gateway)
		exchange_part(x->worker)->switched->leave(x);
	if (!x->attempt.endless)
		return;
	atomic_fetch_sub_explicit(&x->attempt.endless->streams, 1, memory_order_relaxed);
	x->attempt.endless = NULL;
	atomic_fetch_sub_explicit(&x->upstream->state->streams, 1, memory_order_relaxed);
}

void exchange_cancel_question(struct exchange *x)
{
	struct authority *authority = x->gate->identity.authority;
	struct questions *questions = &x->worker->questions;

	questions_close(questions, x->turn.question);
	authority->calls->cancel(authority, questions, x->turn.question);
	x->turn.question = 0;
}

/* Gives its place in the queue back, once. */
void exchange_leave_queue(struct exchange *x)
{
	if (!exchange_is_queued(x))
		return;
	x->turn.ticket_use = TURN_HAS_NO_TICKET;
	if (queue_done(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker)) ==
		QUEUE_UNDER_WAY)
		x->turn.ticket_use = TURN_TICKET_IS_AWAY;
}

void exchange_leave_line(struct exchange *x)
{
	if (x->turn.in_line)
		delay_leave(&x->turn.place);
	x->turn.in_line = false;
}

static void settle(struct exchange *x)
{
	/* Most requests are charged one, and keep to it. */
	if (gate_receipt_is_empty(&x->gate->receipt) ||
		(x->attempt.reach == REACH_LEFT && !x->answer.has_cost &&
			gate_keeps_all(x->route, &x->gate->receipt, x->answer.upstream_status)))
		return;
	struct gate_end end = {
		.status = x->answer.upstream_status,
		.never_forwarded = x->attempt.reach != REACH_LEFT,
		.bytes = x->up.content_bytes + x->down.content_bytes,
		.has_cost = x->answer.has_cost,
		.cost = x->answer.cost,
	};

	if (gate_finish_plain(x->route, &x->gate->receipt, &end))
		return;
	gate_finish(x->use->site->gate, x->route, &x->gate->receipt, &end,
		x->gate->receipt.authority ? 0 : worker_throttle_ns(x->worker));
	delay_freed(node_delays(x->worker->node), &x->gate->identity);
}

static void leave_orphans(struct exchange *x)
{
	struct exchange **at = &exchange_part(x->worker)->orphans;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
}

void exchange_free_later(struct exchange *x)
{
	loop_free_later(&x->worker->loop, &x->deferred, free_exchange);
}

/* A request that has left for another node and was not answered may still arrive there: it must
 * not arrive behind one that is forwarded from now on. */
static void leave_owner(struct exchange *x)
{
	struct owners *owners = node_owners(x->worker->node);

	if (exchange_is_elsewhere(x) && x->attempt.request_started &&
		x->answer.upstream_status == 0)
		owner_raise_mark(owners, &x->owner.use);
	owner_end(owners, &x->owner.use);
}

void exchange_end(struct exchange *x)
{
	struct worker *worker = x->worker;

	if (x->state == EXCHANGE_ENDED)
		return;
	bool logged = x->state != EXCHANGE_HEAD;
	exchange_enter(x, EXCHANGE_ENDED);
	if (x->turn.question)
		exchange_cancel_question(x);
	if (x->turn.has_deadline)
		deadline_end(&x->turn.deadline);
	exchange_drop_connection(x);
	if (x->body)
		exchange_free_body(x);
	if (x->tunnel.collects || x->tunnel.hold)
		exchange_forget_answer(x);
	leave_endless(x);
	exchange_leave_queue(x);
	exchange_leave_line(x);
	if (x->owner.use.session)
		leave_owner(x);
	if (x->turn.unplaced_ns != 0) /* relaxed: see turn.c */
		atomic_fetch_sub_explicit(&x->upstream->state->unplaced, 1, memory_order_relaxed);
	settle(x);
	if (logged && exchange_is_counted(x))
		report_end(x);
	if (x->client) {
		if (x->client->hop)
			hop_end(x->client->hop);
		if (x->close_client)
			client_finish(x->client);
		client_exchange_ended(x->client, x);
		x->client = NULL;
	}
	if (x->orphaned)
		leave_orphans(x);
	if (x->tunnel.hold)
		exchange_part(worker)->switched->let_go(x);
	if (x->server_use)
		site_use_release(x->server_use);
	site_use_release(x->use);
	x->use = x->server_use = NULL;
	exchange_part(worker)->count--;
	if (x->turn.ticket_use != TURN_TICKET_IS_AWAY)
		exchange_free_later(x);
}

void exchange_hand_over(struct exchange *x)
{
	assert(!x->client && !x->connection && !x->server && !x->body && !exchange_is_queued(x));
	exchange_enter(x, EXCHANGE_ENDED);
	if (x->turn.has_deadline)
		deadline_end(&x->turn.deadline);
	x->up.sink = NULL;
	x->down.source = NULL;
	exchange_part(x->worker)->count--;
	if (x->turn.ticket_use != TURN_TICKET_IS_AWAY)
		exchange_free_later(x);
}

void exchange_abort(struct exchange *x, const char *why)
{
	struct client *client = x->client;

	x->outcome = why;
	exchange_drop_connection(x); /* or a write would be followed, as if its client had left */
	if (client && x->state != EXCHANGE_ENDED)
		client_close(client, why); /* ends this one with the others */
	else
		exchange_end(x);
}

void exchange_request_cut(struct exchange *x)
{
	const char *why = "client left during its request";

	worker_count(x->worker, STATS_CLIENT_GONE);
	x->outcome = why;
	if (x->client)
		client_close(x->client, why);
	else
		exchange_end(x);
}
