/*
 * An exchange with its server: a connection, the request up, the response's head.
 *
 *   forward --find_server.c--> connected --> request's head and body up (pump)
 *      ^                                        |
 *      `--- retry, when that can do no harm     v
 *                                        response's head --> daemon.. (respond.c)
 *
 * A retry is made only when the connect failed, or when the connection was closed before a byte of
 * the response: a reused one when the method is idempotent (RFC 9110 section 9.2.2) and there was
 * no body or it was kept, a fresh one when the method is safe and there was no body; the latter on
 * another server, as this one may have had its reasons.
 *
 * One of which not a byte was written is another matter: it was certainly not processed (RFC 9110
 * section 9.2.2), so it is sent on a fresh connection whatever its method. That a reused connection
 * has ended is mostly read in the round before; a gateway's POST, whose loss costs its client the
 * socket, asks the system once more when it is about to leave.
 */
#include "exchange/forward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "exchange/report.h"
#include "exchange/exchange.h"
#include "exchange/find_server.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "exchange/seek.h"
#include "exchange/switched.h"
#include "exchange/turn.h"
#include "exchange/turn_limits.h"
#include "http/problem.h"
#include "upstream/server_connection.h"
#include "upstream/server.h"
#include "upstream/server_pool.h"
#include "worker/worker_clock.h"

/* Reads of one body in a row, so that other connections get their turn. */
#define PUMP_TURNS 16

/* The server's time runs. Not while an interim response of its waits for the client, though the
 * request's body may still go up. */
static inline void await_server(
	struct exchange *x, enum wait_reason reason, uint64_t progress, uint64_t timeout_ms)
{
	if (x->interim.heads != INTERIM_HELD)
		server_await(x->connection, reason, progress,
			exchange_within_deadline_ms(x, timeout_ms));
}

/* ---- when the server fails ------------------------------------------------------------------- */

/* Does its server have other addresses, one of which is next? */
static bool has_other_addresses(const struct exchange *x)
{
	return server_addresses_count(&x->server->state->addresses) > 1 &&
	       x->upstream->conf->balance != CONF_BALANCE_HASH;
}

/* May the request be sent once more, after a connection was closed on it without a word? */
static bool may_repeat(const struct exchange *x, bool reused)
{
	if (reused)
		return http_method_is_idempotent(x->request.method) &&
		       (x->framing.body == HTTP_BODY_NONE || x->memory.body);
	return http_method_is_safe(x->request.method) && x->framing.body == HTTP_BODY_NONE &&
	       (x->upstream->server_count > 1 || has_other_addresses(x));
}

/* The server failed before a response. Tries again where that is safe. */
static void server_broke(struct exchange *x, const char *why, unsigned status, bool is_timeout)
{
	struct worker *worker = x->worker;
	struct server_connection *connection = x->connection;
	const struct conf_upstream *conf = x->upstream->conf;
	const char *more = connection ? server_why(connection) : NULL;
	const char *seen = more ? more : why; /* by us: clients get no more than `why` */
	bool no_byte = !connection || (!server_has_bytes(connection) && !x->times.first_byte_ns);
	bool silent = connection && no_byte && !is_timeout;
	bool refused = connection && server_has_refused(connection);
	bool stale = silent && (refused || server_is_reused(connection));
	bool safe = !x->attempt.request_started || (silent && may_repeat(x, stale));

	if (!x->client && x->request_progress == REQUEST_REFUSED) {
		exchange_end(x); /* its client has left: there was nothing to answer */
		return;
	}
	report_failure(x);
	if (!stale || !safe) {
		/* A reused connection that the server had closed meanwhile is nobody's fault. */
		if (!stale && !exchange_is_past_deadline(x))
			server_note_failure(x->server, x->connection, seen, worker_now_ms(worker));
		find_server_log_failure(x, seen);
		if (!has_other_addresses(x))
			x->attempt.tried |= 1ULL << x->server->index;
	}
	x->turn.ticket.failed = !stale && x->client != NULL && !exchange_is_past_deadline(x);
	exchange_drop_connection(x);
	if (!x->client) {
		exchange_end(x);
	} else if (safe && x->attempt.tries < conf->retries) {
		x->attempt.tries++;
		worker_count(worker, STATS_RETRIES);
		x->attempt.request_started = false;
		exchange_drop_held_interim(x);
		x->turn.ticket.failed = false;
		x->times.first_byte_ns = x->times.sent_ns = 0;
		exchange_enter(x, EXCHANGE_CONNECTING);
		turn_doubt(x);
		find_server(x, stale);
	} else {
		exchange_reply(x, status, why, HTTP_PROBLEM_NO_RETRY);
	}
}

void forward_timeout(struct exchange *x)
{
	struct client *client = x->client;

	switch (x->state) {
	case EXCHANGE_CONNECTING:
		find_server_connect_failed(x, "connect timeout", ETIMEDOUT, 504);
		break;
	case EXCHANGE_FORWARDING:
		server_broke(x,
			exchange_is_past_deadline(x) ? "deadline"
			: exchange_has_request(x)    ? "response timeout"
						     : "send timeout",
			504, true);
		break;
	case EXCHANGE_DRAINING:
		exchange_end(x); /* not its server's fault */
		break;
	case EXCHANGE_RELAYING:
		if (server_awaited(x->connection) == WAIT_CLIENT) {
			respond_client_is_slow(x);
			break;
		}
		if (exchange_is_past_deadline(x)) {
			exchange_abort(x, "deadline");
			break;
		}
		server_note_failure(
			x->server, x->connection, "idle timeout", worker_now_ms(x->worker));
		x->turn.ticket.failed = true;
		if (x->tunnel.collects)
			exchange_reply(x, 504, "idle timeout", HTTP_PROBLEM_NO_RETRY);
		else
			exchange_abort(x, "upstream idle timeout");
		break;
	case EXCHANGE_HEAD:
	case EXCHANGE_HELD:
	case EXCHANGE_SEEKING:
	case EXCHANGE_ASKING:
	case EXCHANGE_DELAYED:
	case EXCHANGE_QUEUED:
	case EXCHANGE_TUNNEL:
	case EXCHANGE_REPLYING:
	case EXCHANGE_ENDED:
		break;
	}
	if (client)
		client_advance(client);
}

/* No byte of it left, as its connection had ended before. The part of the body that was taken is
 * still where it was. */
static void never_sent(struct exchange *x)
{
	if (x->up.source)
		x->up.source->calls->take_back(x->up.source, x->attempt.up_taken);
	if (!x->body)
		x->up = (struct pump){0};
	x->attempt.request_started = false;
	server_broke(x, "closed before the request was sent", 502, false);
}

/* ---- the request up -------------------------------------------------------------------------- */

/* The server's end closed while the request was written. */
static void sink_failed(struct exchange *x)
{
	bool can_put_back = !http_framing_is_open(&x->framing) || !x->up.lent;

	exchange_stop_sending(x);
	if (x->up.written > 0 || !can_put_back || x->state != EXCHANGE_FORWARDING) {
		/* Perhaps it has answered already: what it said is still to be read. The loop may
		 * have told of it, and of the end behind it, before: it is read now. */
		await_server(x, WAIT_RESPONSE, 0, x->upstream->conf->first_byte_timeout_ms);
		server_expect_input(x->connection);
		return;
	}
	never_sent(x); /* what it may have said answers something else */
}

static void act_on_up(struct exchange *x, enum pump_result result)
{
	const struct conf_upstream *conf = x->upstream->conf;

	switch (result) {
	case PUMP_DONE:
		exchange_stop_sending(x);
		x->times.sent_ns = worker_now_ns(x->worker);
		x->up.source = NULL; /* its client continues with the next */
		if (!exchange_has_request(x)) {
			exchange_request_read(x);
			if (x->client)
				x->client->again = true;
		}
		if (x->state == EXCHANGE_FORWARDING)
			await_server(x, WAIT_RESPONSE, 0, conf->first_byte_timeout_ms);
		break;
	case PUMP_WANTS_READ:
		/* The client's time runs now, not the server's, unless that owes it a 100. */
		if (x->state == EXCHANGE_FORWARDING && exchange_awaits_continue(x))
			await_server(x, WAIT_RESPONSE, 0, conf->first_byte_timeout_ms);
		else if (x->state == EXCHANGE_FORWARDING)
			server_await_nothing(x->connection);
		if (x->up.source)
			x->up.source->calls->read_again(x->up.source);
		break;
	case PUMP_WANTS_WRITE:
		if (x->state == EXCHANGE_FORWARDING)
			await_server(x, WAIT_SEND, server_bytes_taken(x->connection),
				conf->send_timeout_ms);
		break;
	case PUMP_SOURCE_ENDED:
		exchange_request_cut(x);
		break;
	case PUMP_SOURCE_BROKEN:
		exchange_drop_connection(x);
		exchange_reject(x, 400, "malformed body");
		break;
	case PUMP_TOO_LARGE:
		exchange_drop_connection(x);
		exchange_reply(x, 413, "body too large", HTTP_PROBLEM_NO_RETRY);
		break;
	case PUMP_SINK_FAILED:
		sink_failed(x);
		break;
	case PUMP_NO_MEMORY:
		exchange_abort(x, "no memory");
		break;
	case PUMP_SPOOL_FAILED:
		server_spoil_request(x->connection);
		exchange_drop_connection(x);
		exchange_reply(x, 503, "temporary file failed", 1000);
		break;
	}
}

/* Its first byte leaves now, for the first time or once more. */
static void note_sent(struct exchange *x)
{
	/* acquire: pairs with the release in upstream_commit */
	struct pace *pace = atomic_load_explicit(&x->upstream->state->pace, memory_order_acquire);

	uint64_t charged_ns =
		x->turn.unplaced_ns != 0 ? x->turn.unplaced_ns : x->turn.ticket.placed_ns;

	if (pace && charged_ns != 0)
		pace_sent(pace, charged_ns, x->attempt.reach != REACH_NONE);
	if (x->attempt.reach == REACH_NONE)
		x->attempt.reach = REACH_SENT;
	if (x->owner.use.session) /* another node continues then */
		server_reset_at_death(x->connection);
}

/* The part of the body that is here already leaves with the head. It is taken now and not before:
 * until now the connection may turn out to have ended, and then the whole request is sent on
 * another one. */
static enum pump_result begin_up(struct exchange *x)
{
	uint64_t before = x->up.content_bytes;

	x->attempt.request_started = true;
	x->attempt.up_taken = 0;
	enum pump_result result = pump_fill_first(&x->up);
	x->attempt.up_taken = (uint32_t)(x->up.content_bytes - before);
	return result;
}

static void run_up(struct exchange *x)
{
	enum pump_result result = PUMP_DONE;

	if (exchange_has_sent(x) || !x->up.sink || server_sends_later(x->connection))
		return;
	/* forward_send has asked about its first byte. */
	if (x->owner.use.session && x->attempt.request_started && !seek_may_send(x))
		return;
	if (!x->attempt.request_started)
		result = begin_up(x);
	if (result == PUMP_DONE || result == PUMP_WANTS_READ)
		result = pump_run(&x->up, PUMP_TURNS);
	if (x->up.written > 0)
		x->attempt.reach = REACH_LEFT;
	act_on_up(x, result);
}

/* To a server that may have closed its connection meanwhile, or may refuse it, or a node that may
 * not be the owner of its session any more. */
static bool may_send_twice(const struct exchange *x)
{
	return exchange_is_elsewhere(x) || server_may_refuse(x->connection) ||
	       (server_is_reused(x->connection) && http_method_is_idempotent(x->request.method));
}

/* A body that came whole with its head and may have to be sent twice moves to the exchange. */
static void keep_body(struct exchange *x)
{
	size_t len = (size_t)x->framing.length;
	struct slice here;

	if (x->memory.body || x->framing.body != HTTP_BODY_LENGTH || !may_send_twice(x))
		return;
	if (x->body) {
		gather_keep(x);
		return;
	}
	if (exchange_has_request(x))
		return;
	here = client_body_here(x->client);
	if (here.len < x->framing.length)
		return;
	x->memory.body = malloc(len);
	if (!x->memory.body)
		return; /* then it is sent once */
	memcpy(x->memory.body, here.at, len);
	client_take_body(x->client, (uint32_t)len);
	exchange_request_read(x);
	x->client->again = true;
}

/* Its body as it comes. */
static void begin_body(struct exchange *x)
{
	struct pump *up = pump_begin(&x->up);

	up->ended = x->framing.body == HTTP_BODY_NONE || x->memory.body;
	if (!up->ended)
		up->source = client_open_body(x->client, x);
	up->sink = server_open_request(x->connection, x->response);
	up->content_bytes = x->memory.body ? x->framing.length : 0;
	up->max_bytes = x->route->max_body_bytes;
	up->end.rules = (struct http_trailer_rules){
		&x->route->request_trailers, &x->route->request_remove, &x->route->request_set};
}

bool forward_start(struct exchange *x)
{
	exchange_enter(x, EXCHANGE_FORWARDING);
	x->attempt.search = SEARCH_FIRST;
	keep_body(x);
	if (x->state != EXCHANGE_FORWARDING)
		return false;     /* its file could not be read */
	if (exchange_has_sent(x)) /* by another connection */
		x->request_progress = exchange_has_request(x) ? REQUEST_READ : REQUEST_READING;
	if (x->body)
		gather_resume(x);
	else
		begin_body(x);
	if (!server_write_request(x->connection, x) ||
		(x->memory.body &&
			!body_sink_push(x->up.sink,
				(struct slice){x->memory.body, x->framing.length}, true))) {
		exchange_abort(x, "no memory");
		return false;
	}
	server_send_later(x->connection);
	return true;
}

/* A gateway's POST on a reused connection that has ended in this moment, or on which something has
 * come that answers nothing. */
static bool is_late(const struct exchange *x)
{
	return x->tunnel.gateway && !x->attempt.request_started &&
	       server_is_reused(x->connection) && server_has_input(x->connection);
}

/* Its place was by slots of a semaphore that may be another node's by now: it takes a place once
 * more, and what is in flight here counts against it. */
static bool lost_slot(struct exchange *x)
{
	if (x->attempt.request_started ||
		semaphore_slots_let(&x->upstream->state->semaphore, x->turn.ticket.placed_ns))
		return false;
	if (!x->client) {
		exchange_end(x);
		return true;
	}
	if (!x->body)
		x->up = (struct pump){0};
	exchange_try_later(x, 1);
	return true;
}

void forward_send(struct exchange *x)
{
	struct client *client = x->client;

	if (is_late(x)) {
		never_sent(x);
	} else if (lost_slot(x)) {
		return;
	} else if (!x->owner.use.session || seek_may_send(x)) {
		note_sent(x);
		run_up(x);
	}
	if (client && client->again)
		client_advance(client);
	else if (x->client && !exchange_has_request(x))
		client_watch(x->client);
}

/* ---- the response's head --------------------------------------------------------------------- */

static void note_first_byte(struct exchange *x)
{
	if (!x->times.first_byte_ns)
		x->times.first_byte_ns = worker_now_ns(x->worker);
}

/* The server has processed nothing of it (RFC 9113 section 8.7): whatever it is, it may be sent
 * once more, if all of it is here still. */
static void refused(struct exchange *x)
{
	if (x->framing.body == HTTP_BODY_NONE || x->memory.body)
		x->attempt.request_started = false;
	server_broke(x, "refused by the server", 503, false);
}

/* The next head of the response, an interim one included. False: none now, or not any more. */
static bool read_head(struct exchange *x)
{
	enum server_head result = server_read_head(x->connection);

	if (result == SERVER_HEAD_READ || server_has_bytes(x->connection))
		note_first_byte(x);
	switch (result) {
	case SERVER_HEAD_READ:
		return true;
	case SERVER_HEAD_NONE:
		break;
	case SERVER_HEAD_BAD:
		server_broke(x, "malformed response", 502, false);
		break;
	case SERVER_HEAD_ENDED:
		server_broke(x, "closed without a response", 502, false);
		break;
	case SERVER_HEAD_CUT:
		server_broke(x, "closed within the response's head", 502, false);
		break;
	case SERVER_HEAD_REFUSED:
		refused(x);
		break;
	case SERVER_HEAD_NO_MEMORY:
		exchange_abort(x, "no memory");
		break;
	}
	return false;
}

/* A server may send interim responses without end: as many are read as the client takes, and some
 * in one turn. */
#define INTERIM_AT_ONCE 16

static bool may_read_on(struct exchange *x, unsigned *heads)
{
	if (exchange_is_first(x))
		return client_takes_interim(x->client);
	if (++*heads <= INTERIM_AT_ONCE)
		return true;
	server_read_next_turn(x->connection);
	return false;
}

static void read_response(struct exchange *x)
{
	unsigned heads = 0;

	if (x->interim.to_continue == CONTINUE_DUE)
		respond_continue(x);
	if (x->interim.heads == INTERIM_HELD) {
		if (!respond_held_interim(x) || x->state != EXCHANGE_FORWARDING)
			return;
		if (exchange_has_sent(x))
			await_server(x, WAIT_RESPONSE, 0, x->upstream->conf->first_byte_timeout_ms);
	}
	while (x->state == EXCHANGE_FORWARDING && x->connection) {
		if (x->interim.heads != INTERIM_NONE && !may_read_on(x, &heads))
			return;
		if (!read_head(x))
			return;
		respond_to_head(x);
		if (x->interim.heads == INTERIM_HELD)
			return;
	}
}

/* Limits in bytes are charged while bodies pass, so that what is long on its way holds others back
 * already. */
static void charge_passed(struct exchange *x)
{
	uint64_t bytes = x->up.content_bytes + x->down.content_bytes;

	if (x->tunnel.gateway)
		return; /* what is on its way is not what its client has sent */
	if (gate_receipt_is_empty(&x->gate->receipt) || x->gate->receipt.in_bytes == 0 ||
		bytes <= x->gate->receipt.bytes_charged)
		return;
	gate_charge_bytes(
		x->use->site->gate, &x->gate->receipt, bytes, worker_throttle_ns(x->worker));
}

void exchange_run(struct exchange *x)
{
	switch (x->state) {
	case EXCHANGE_FORWARDING:
	case EXCHANGE_RELAYING:
		run_up(x);
		if (x->state == EXCHANGE_FORWARDING)
			read_response(x);
		if (x->state == EXCHANGE_RELAYING || x->state == EXCHANGE_DRAINING)
			respond_run(x);
		break;
	case EXCHANGE_DRAINING:
		respond_run(x);
		break;
	case EXCHANGE_REPLYING:
		if (!exchange_has_request(x) && x->up.source)
			reply_discard_body(x);
		reply_if_first(x);
		break;
	case EXCHANGE_HELD:
		gather_run(x);
		break;
	case EXCHANGE_HEAD:
	case EXCHANGE_SEEKING:
	case EXCHANGE_ASKING:
	case EXCHANGE_DELAYED:
	case EXCHANGE_QUEUED:
	case EXCHANGE_CONNECTING:
	case EXCHANGE_TUNNEL:
	case EXCHANGE_ENDED:
		break;
	}
	charge_passed(x);
}

void forward_event(struct exchange *x)
{
	struct client *client = x->client;

	if (!client || client->first != x)
		exchange_run(x);
	if (client)
		client_advance(client);
}
