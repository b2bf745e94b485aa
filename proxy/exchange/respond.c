#include "exchange/respond.h"

#include <assert.h>

#include "base/log.h"
#include "exchange/report.h"
#include "exchange/collect.h"
#include "exchange/endless.h"
#include "exchange/exchange.h"
#include "ownership/parting.h"
#include "exchange/pin.h"
#include "exchange/reply.h"
#include "exchange/seek.h"
#include "exchange/switched.h"
#include "gate/ratelimit_fields.h"
#include "http/problem.h"
#include "http/upgrade.h"
#include "upstream/server_connection.h"
#include "upstream/server.h"

#define PUMP_TURNS 16

/* Most bytes read of an answer that has no client any more, to keep its connection. */
#define FOLLOW_BYTES (1024 * 1024)

static void bad_gateway(struct exchange *x, const char *why)
{
	server_note_failure(x->server, x->connection, why, worker_now_ms(x->worker));
	report_failure(x);
	exchange_drop_connection(x);
	if (x->client)
		exchange_reply(x, 502, why, HTTP_PROBLEM_NO_RETRY);
	else
		exchange_end(x);
}

/* ---- heads ----------------------------------------------------------------------------------- */

void respond_continue(struct exchange *x)
{
	struct client *client = x->client;

	if (!client)
		return;
	switch (client_interim(client, x, true)) {
	case CLIENT_INTERIM_PASSED:
		x->interim.to_continue = CONTINUE_SENT;
		client->again = true;
		break;
	case CLIENT_INTERIM_UNKNOWN:
	case CLIENT_INTERIM_EARLY:
		break;
	case CLIENT_INTERIM_NO_MEMORY:
		exchange_abort(x, "no memory");
		break;
	}
}

/* 1xx: passed on to clients that know of them, then the next head is awaited. Before it is the
 * exchange's turn on its connection it waits: of a 100 that is noted, as the client may wait for it
 * with its request's body; with others the server is left to wait. False: it waits. */
static bool pass_interim(struct exchange *x)
{
	struct client *client = x->client;
	bool is_continue = x->response->status == 100;

	switch (client ? client_interim(client, x, false) : CLIENT_INTERIM_UNKNOWN) {
	case CLIENT_INTERIM_PASSED:
		if (is_continue && x->interim.to_continue < CONTINUE_SENT)
			x->interim.to_continue = CONTINUE_SENT;
		client->again = true;
		break;
	case CLIENT_INTERIM_UNKNOWN:
		break;
	case CLIENT_INTERIM_EARLY:
		if (!is_continue)
			return false;
		x->interim.to_continue = CONTINUE_DUE;
		break;
	case CLIENT_INTERIM_NO_MEMORY:
		exchange_abort(x, "no memory");
		return true;
	}
	x->interim.heads = INTERIM_SEEN;
	server_expect_head(x->connection, x->response);
	return true;
}

static void respond_interim(struct exchange *x)
{
	x->interim.heads = INTERIM_SEEN;
	if (x->client)
		x->client->work++;
	if (pass_interim(x))
		return;
	x->interim.heads = INTERIM_HELD;
	server_await_nothing(x->connection);
}

bool respond_held_interim(struct exchange *x)
{
	return pass_interim(x);
}

static void begin_tunnel(struct exchange *x);

/* It has asked for several protocols, perhaps. */
static __attribute__((noinline)) bool opens_socket(const struct exchange *x)
{
	return exchange_opens_socket(x) && http_upgrade_names(x->response, SLICE("websocket"));
}

static void read_cost(struct exchange *x)
{
	struct slice value = http_head_find_name(x->response, slice_of(x->route->cost_field));
	uint64_t cost = 0;

	if (value.len == 0 || value.len > 18)
		return;
	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return;
		cost = cost * 10 + (uint64_t)(value.at[i] - '0');
	}
	x->answer.has_cost = true;
	x->answer.cost = cost;
}

/* Does it hold something that bounds what its server works on at once? */
static bool holds_place(const struct exchange *x)
{
	const struct conf_sessions *sessions = &x->route->sessions;

	if (x->gate->receipt.in_flight != 0)
		return true;
	return exchange_is_queued(x) &&
	       (sessions->ordering == CONF_ORDERING_STRICT || sessions->in_flight > 0 ||
		       upstream_bounds_requests(x->upstream));
}

/* The client is gone. A write is followed to its response's end, so that what must come after it
 * does. So is a read that holds a place, as its server works on, whatever becomes of the
 * connection, and one that may end its session's login and whose end is known. Not one that
 * lasts for as long as its client likes, nor one at another node, which sees that its client has
 * left. Each at most for FOLLOW_BYTES, and for the upstream's idle_timeout (respond_await_more). */
static bool is_worth_following(const struct exchange *x)
{
	if (x->attempt.endless)
		return false;
	if (!http_method_is_safe(x->request.method))
		return true;
	if (!exchange_is_elsewhere(x) && holds_place(x))
		return true;
	return exchange_has_affinity(x) &&
	       (x->state == EXCHANGE_FORWARDING || x->response_framing.body == HTTP_BODY_NONE ||
		       x->response_framing.body == HTTP_BODY_LENGTH);
}

/* Its body comes down. */
static void begin_down(struct exchange *x)
{
	const struct conf_buffering *buffering = &x->route->response_buffering;

	struct pump *down = pump_begin(&x->down);
	down->source = server_open_response(x->connection, &x->response_framing);
	if (x->client)
		down->sink = client_open_response(x->client);
	if (buffering->memory_bytes > 0) {
		down->store = &x->worker->node->store;
		down->kept = (struct spool_limits){
			buffering->memory_bytes, buffering->file_bytes, SPOOL_RESPONSE};
	}
	down->ended = x->response_framing.body == HTTP_BODY_NONE;
	down->max_bytes = x->client ? 0 : FOLLOW_BYTES;
	down->end.rules.removed = &x->route->response_remove;
	down->end.rules.set = &x->route->response_set;
}

/* The bytes of both bodies that have come, or that a length declares. */
static void foresee_bytes(struct exchange *x)
{
	uint64_t length =
		x->response_framing.body == HTTP_BODY_LENGTH ? x->response_framing.length : 0;

	ratelimit_foresee_bytes(&x->gate->verdict, x->up.content_bytes + length);
}

/* The head goes to the client, its body is on its way. */
static void begin_relaying(struct exchange *x)
{
	struct client *client = x->client;

	if (client && (!exchange_has_request(x) || exchange_ends_drain(x)))
		x->close_client = true; /* in a drain, the last of the connection says so */
	x->answer.progress = ANSWER_BEGUN;
	x->answer.status = x->response->status;
	if (x->gate->receipt.in_bytes != 0)
		foresee_bytes(x);
	begin_down(x);
	exchange_enter(x, client ? EXCHANGE_RELAYING : EXCHANGE_DRAINING);
	if (!client && !is_worth_following(x))
		exchange_end(x);
	if (!client)
		return;
	switch (client_head(client, x)) {
	case PUMP_NO_MEMORY:
		exchange_abort(x, "no memory");
		break;
	case PUMP_SOURCE_BROKEN:
		x->answer.progress = ANSWER_AWAITED; /* it can still be another one */
		bad_gateway(x, "malformed response body");
		break;
	case PUMP_WANTS_READ:
	case PUMP_WANTS_WRITE:
	case PUMP_DONE:
	case PUMP_SOURCE_ENDED:
	case PUMP_TOO_LARGE:
	case PUMP_SINK_FAILED:
	case PUMP_SPOOL_FAILED:
		if (x->close_client)
			client_finish(client);
		break;
	}
}

/* Has all of it left for the server? One that switches before has not read what it is asked. */
static bool request_has_left(const struct exchange *x)
{
	return exchange_has_request(x) && exchange_has_sent(x) && body_sink_is_empty(x->up.sink);
}

/* 101. */
static __attribute__((noinline)) void respond_switched(struct exchange *x)
{
	if (!x->client)
		exchange_end(x); /* its client has left meanwhile */
	else if (x->framing.upgrade && request_has_left(x) && x->response_framing.upgrade &&
		 http_upgrade_agreed(x->response, &x->request, &x->route->upgrades) &&
		 (!opens_socket(x) || exchange_part(x->worker)->switched->agree(x)))
		begin_tunnel(x);
	else
		bad_gateway(x, "101 without a request for it");
}

/* An event stream lasts for as long as its client likes, who may have left: nothing waits for its
 * end, that of a write neither. */
static bool begin_events(struct exchange *x)
{
	if (x->client)
		return endless_begin(x);
	exchange_end(x);
	return false;
}

void respond_to_head(struct exchange *x)
{
	assert(!x->client ||
		exchange_is_first(x)); /* or another's response would be taken for its own */
	if (exchange_is_elsewhere(x) && x->client &&
		http_head_has(x->response, HTTP_FIELD_SLUICE_HOP)) {
		seek_refused(x);
		return;
	}
	if (!server_frame_response(
		    x->connection, x->response, x->request.method, &x->response_framing)) {
		bad_gateway(x, "ambiguous framing in the response");
		return;
	}
	if (x->response->status == 101) {
		respond_switched(x);
		return;
	}
	if (x->response->status < 200) {
		respond_interim(x);
		return;
	}
	x->answer.upstream_status = x->response->status;
	report_response(x);
	server_note_success(x->server, x->connection);
	if (exchange_is_queued(x))
		queue_answered(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
	if (x->route->cost_field)
		read_cost(x);
	if (x->tunnel.gateway && collect_begin(x))
		return;
	if (x->route->holds_responses && x->client && !exchange_is_elsewhere(x) &&
		exchange_part(x->worker)->switched->holds(x))
		return;
	if (endless_is_events(x) && !begin_events(x))
		return;
	if ((x->framing.upgrade || exchange_opens_gateway(x)) && x->client &&
		exchange_has_request(x)) {
		/* It stays what it is: the next request may be behind it. */
		client_request_read(x->client, x, false);
		x->client->again = true;
	}
	begin_relaying(x);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Heads up to this size reach a server's system whole. */
#define SHORT_HEAD_BYTES 1024

static bool is_short(const struct exchange *x)
{
	return x->framing.body == HTTP_BODY_NONE && x->up.written <= SHORT_HEAD_BYTES;
}

static bool is_all_confirmed(const struct exchange *x)
{
	return is_short(x) || !parting_is_due(x->connection, &x->owner.use);
}

/* For max_in_flight = auto: its server's time, without that of its client. One whose client has
 * left shows nothing: how long such requests are is up to those who send and cut them. */
static void note_latency(struct exchange *x)
{
	uint64_t now_ns = worker_now_ns(x->worker);
	uint64_t since_ns = x->times.sent_ns + x->times.client_ns;

	if (x->client && x->times.sent_ns != 0 && exchange_is_queued(x))
		x->turn.ticket.latency_ns = now_ns > since_ns ? now_ns - since_ns : 1;
}

void respond_release_server(struct exchange *x)
{
	struct server_connection *connection = x->connection;

	if (connection) {
		note_latency(x);
		/* When the client still borrows the last block, it takes that over. */
		struct body_sink *sink = x->down.sink;
		bool clean = server_finish(connection, sink ? sink->calls->keeper(sink) : NULL) &&
			     x->response_framing.keep_alive && exchange_has_request(x) &&
			     is_all_confirmed(x);
		if (sink)
			pump_finish(&x->down);
		x->down.source = NULL;
		x->connection = NULL;
		x->up.sink = NULL;
		exchange_leave_server(x);
		/* An event of a gateway is of no client's session, and nothing follows it there. */
		if (clean && exchange_has_affinity(x) && exchange_is_queued(x) &&
			!exchange_is_event(x))
			pin_park(x, connection);
		else if (clean && !exchange_has_affinity(x))
			server_connection_keep(connection);
		else
			exchange_close_connection(x, connection);
	}
}

/* All of the response was read: who waited for that may go, and the connection may serve another.
 */
static void received(struct exchange *x)
{
	if (x->response_progress == RESPONSE_RECEIVED)
		return;
	x->response_progress = RESPONSE_RECEIVED;
	respond_release_server(x);
	exchange_leave_queue(x);
}

/* A client that takes less than SLOW_BYTES in SLOW_MS, while there is more for it, is slow: what it
 * does not take is kept for it from then on, until it has caught up. For a faster one the server
 * waits, as that costs no copy and ends soon. */
#define SLOW_MS    100
#define SLOW_BYTES (1024 * 1024)

/* The client takes no more now. */
static void await_client(struct exchange *x)
{
	if (!x->connection)
		return;
	if (x->times.client_from_ns == 0)
		x->times.client_from_ns = worker_now_ns(x->worker);
	if (!x->down.store || x->down.spills) {
		server_await_nothing(x->connection);
		return;
	}
	if (server_awaited(x->connection) != WAIT_CLIENT)
		x->answer.taken = x->down.written;
	server_await(x->connection, WAIT_CLIENT, x->answer.taken, SLOW_MS);
}

void respond_client_is_slow(struct exchange *x)
{
	x->down.spills = x->down.written - x->answer.taken < SLOW_BYTES;
	server_await_nothing(x->connection);
}

void respond_await_more(struct exchange *x)
{
	bool drains = x->state == EXCHANGE_DRAINING;

	if (!x->connection)
		return;
	server_await(x->connection, drains ? WAIT_DRAIN : WAIT_MORE,
		drains ? 0 : server_bytes_sent(x->connection),
		exchange_within_deadline_ms(x, exchange_idle_timeout_ms(x)));
	server_read_again(x->connection);
}

static void relayed(struct exchange *x)
{
	received(x);
	if (x->client && !exchange_has_request(x)) {
		/* Answered early: what is left of the request is of no use to anybody. */
		x->close_client = true;
	}
	exchange_end(x);
}

/* Is it held (exchange/held.h), so that its response comes from elsewhere, and later? Not where its
 * client left before all of the server's was collected: the rest is read as any other's. */
static bool waits_held(const struct exchange *x)
{
	return x->tunnel.hold && x->client && !x->tunnel.collects &&
	       x->answer.progress == ANSWER_AWAITED;
}

void respond_run(struct exchange *x)
{
	enum pump_result result = PUMP_DONE;

	if ((x->state != EXCHANGE_RELAYING && x->state != EXCHANGE_DRAINING) || waits_held(x))
		return;
	if (x->tunnel.collects && x->state == EXCHANGE_RELAYING) {
		collect_run(x);
		return;
	}
	if (x->times.client_from_ns != 0) {
		x->times.client_ns += worker_now_ns(x->worker) - x->times.client_from_ns;
		x->times.client_from_ns = 0;
	}
	/* The last of the body is here: before the client takes it, others may go. */
	if (x->down.ended)
		received(x);
	if (x->answer.progress == ANSWER_JOINED) {
		relayed(x);
		return;
	}
	result = pump_run(&x->down, PUMP_TURNS);
	if (x->down.spills && x->down.sink && !x->down.sink->calls->has_spilled(x->down.sink))
		x->down.spills = false; /* it has caught up */
	if (x->down.ended && result == PUMP_WANTS_WRITE)
		received(x);
	switch (result) {
	case PUMP_DONE:
		relayed(x);
		break;
	case PUMP_WANTS_READ:
		respond_await_more(x);
		break;
	case PUMP_WANTS_WRITE:
		await_client(x);
		break;
	case PUMP_SINK_FAILED:
		worker_count(x->worker, STATS_CLIENT_GONE);
		client_close(x->client, "client gone");
		break;
	case PUMP_TOO_LARGE:
		exchange_end(x); /* nobody waits for what continues so long */
		break;
	case PUMP_SOURCE_ENDED:
	case PUMP_SOURCE_BROKEN:
		/* The head is out: only a cut tells the client that this is not all. */
		x->turn.ticket.failed = x->client != NULL && (result == PUMP_SOURCE_ENDED ||
								     result == PUMP_SOURCE_BROKEN);
		report_failure(x);
		server_note_failure(
			x->server, x->connection, "response cut short", worker_now_ms(x->worker));
		exchange_abort(x, "response cut short");
		break;
	case PUMP_NO_MEMORY:
		exchange_abort(x, "no memory");
		break;
	case PUMP_SPOOL_FAILED:
		exchange_abort(x, "temporary file failed");
		break;
	}
}

/* ---- tunnels --------------------------------------------------------------------------------- */

static void begin_tunnel(struct exchange *x)
{
	struct client *client = x->client;

	if (!endless_begin(x))
		return;
	x->answer.status = x->answer.upstream_status = 101;
	report_response(x);
	x->answer.progress = ANSWER_BEGUN;
	x->close_client = true;
	if (x->body)
		exchange_free_body(x); /* it was sent */
	if (!client_begin_tunnel(client, x)) {
		exchange_abort(x, "no memory");
		return;
	}
	exchange_enter(x, EXCHANGE_TUNNEL);
	x->turn.ticket.hears_end = exchange_opens_socket(x);
	if (exchange_is_queued(x))
		queue_detach(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
	exchange_leave_server(x);
	if (!client_become_tunnel(client, x, opens_socket(x)))
		exchange_abort(x, "no memory");
}

/* ---- the client left ------------------------------------------------------------------------- */

/* The rest of its request does not come. Where it holds a place, its server learns of that by
 * an end and answers or closes: a connection that is closed is read by few before they have done.
 * False: nothing is to be waited for. */
static bool stop_request(struct exchange *x)
{
	if (exchange_has_request(x) && exchange_has_sent(x))
		return true;
	if (!x->attempt.request_started || exchange_is_elsewhere(x) || !holds_place(x))
		return false;
	x->request_progress = REQUEST_REFUSED; /* whole or not: its connection serves no other */
	if (x->body)
		exchange_free_body(x);
	server_stop_request(x->connection);
	server_await(x->connection, WAIT_RESPONSE, 0, x->upstream->conf->first_byte_timeout_ms);
	return true;
}

void exchange_client_gone(struct exchange *x)
{
	bool under_way = x->state == EXCHANGE_FORWARDING || x->state == EXCHANGE_RELAYING;

	x->client = NULL;
	if (!x->outcome)
		x->outcome = x->worker->stopping ? "shutdown" : "client gone";
	if (!under_way || x->response_progress == RESPONSE_RECEIVED || x->worker->stopping ||
		!x->connection || !is_worth_following(x) || !stop_request(x)) {
		exchange_end(x);
		return;
	}
	if (x->tunnel.collects)
		exchange_forget_answer(x);
	x->up.source = NULL;
	x->up.sink = NULL;
	x->next = exchange_part(x->worker)->orphans;
	exchange_part(x->worker)->orphans = x;
	x->orphaned = true;
	if (x->state == EXCHANGE_FORWARDING) {
		if (x->interim.heads == INTERIM_HELD) {
			server_await(x->connection, WAIT_RESPONSE, 0,
				x->upstream->conf->first_byte_timeout_ms);
			server_read_next_turn(x->connection);
		}
		return; /* continues alone */
	}
	/* The bytes that the flow borrowed are gone with the client's connection. */
	x->down.sink = NULL;
	x->down.end_due = false;
	x->down.max_bytes = x->down.content_bytes + FOLLOW_BYTES;
	exchange_enter(x, EXCHANGE_DRAINING);
	respond_await_more(x);
	server_read_next_turn(x->connection);
}
