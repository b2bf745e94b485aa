/*
 * An exchange's request: judged by the rules of HTTP, and given its route. turn.c has what comes
 * next.
 */
#include "exchange/judge.h"

#include <stdlib.h>

#include "exchange/entrance.h"
#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "exchange/read_target.h"
#include "exchange/reply.h"
#include "exchange/switched.h"
#include "exchange/turn.h"
#include "exchange/turn_limits.h"
#include "gate/readings.h"
#include "http/grpc.h"
#include "http/forwarded.h"
#include "http/problem.h"
#include "http/upgrade.h"
#include "listen/listener.h"
#include "net/tls_facts.h"

/* The head's bytes move to the exchange: the connection's buffer continues to the next request. */
static bool keep_head(struct exchange *x, const char *bytes)
{
	if (!exchange_new_head(x, x->request.len))
		return false;
	memcpy(x->memory.head, bytes, x->request.len);
	x->request.base = x->memory.head;
	x->facts.method =
		(struct slice){x->memory.head, x->request.target_at - 1}; /* one space between */
	return true;
}

static bool is_plain(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] <= ' ' || text.at[i] > '~' || text.at[i] == '"')
			return false;
	}
	return text.len > 0 && text.len <= 128;
}

static void name_request(struct exchange *x)
{
	const struct site *site = x->use->site;
	struct slice given;

	if (site->request_id_field.len == 0)
		return;
	given = http_head_find_known(
		&x->request, site->request_id_field_id, site->request_id_field);
	/* A node has judged that which it forwards, or made it. */
	if (hop_is_proven(x->client) ? given.len > 0 : is_plain(given)) {
		x->request_id = given;
		return;
	}
	memcpy(x->text.request_id, x->worker->request_id, WORKER_REQUEST_ID_BYTES);
	x->request_id = (struct slice){x->text.request_id, WORKER_REQUEST_ID_BYTES};
	worker_next_request_id(x->worker);
}

/* TRACE sends fields back that scripts shall not see: only a route that lists it serves it. */
static bool is_unlisted_trace(enum http_method method, const struct conf_route *route)
{
	return method == HTTP_METHOD_TRACE && route->methods == 0;
}

/* False: refused, and answered. */
static __attribute__((noinline)) bool may_open_socket(struct exchange *x)
{
	const char *why = NULL;

	if (!http_upgrade_names(&x->request, SLICE("websocket")))
		return true;
	x->kind = x->route->websocket.mode == CONF_WEBSOCKET_GATEWAY ? EXCHANGE_GATEWAY_HANDSHAKE
								     : EXCHANGE_HANDSHAKE;
	if (x->kind == EXCHANGE_GATEWAY_HANDSHAKE && x->framing.body != HTTP_BODY_NONE) {
		/* It becomes a request with a body of its own, and its own would be the next. */
		exchange_reply(x, 400, "handshake with a body", HTTP_PROBLEM_NO_RETRY);
		return false;
	}
	unsigned status = exchange_part(x->worker)->switched->judge(x, &why);
	if (status != 0)
		exchange_reply(x, status, why, HTTP_PROBLEM_NO_RETRY);
	return status == 0;
}

/* On a route whose server believes a gateway's requests. False: refused, and answered. */
static __attribute__((noinline)) bool is_no_forgery(struct exchange *x)
{
	const char *why = NULL;
	unsigned status = exchange_part(x->worker)->switched->screen(x, &why);

	if (status != 0)
		exchange_reply(x, status, why, HTTP_PROBLEM_NO_RETRY);
	return status == 0;
}

/* `*is_ambiguous`: servers may read the path so that another route would serve it. */
static inline struct route_match match_route(struct exchange *x, bool *is_ambiguous)
{
	struct worker *worker = x->worker;
	const struct route_table *routes = x->use->site->routes;
	struct route_match match = route_match(
		routes, worker->route_scratch, x->facts.host, x->facts.path, x->request.method);

	*is_ambiguous = match.outcome == ROUTE_FOUND && x->facts.path_odd &&
			readings_differ(routes, worker->route_scratch, x->facts.host,
				x->target.path, x->request.method, &match, worker->path_scratch,
				sizeof(worker->path_scratch));
	return match;
}

/* The same where routes have conditions. */
static __attribute__((noinline)) struct route_match match_by_conditions(
	struct exchange *x, bool *is_ambiguous)
{
	struct route_scratch *scratch = x->worker->route_scratch;
	struct identity_input input;

	turn_fill_identity(x, &input);
	route_scratch_ask(scratch, gate_matches(x->use->site->gate), &input);
	struct route_match match = match_route(x, is_ambiguous);
	route_scratch_ask(scratch, NULL, NULL);
	return match;
}

static bool find_route(struct exchange *x)
{
	struct site *site = x->use->site;
	bool is_ambiguous;
	struct route_match match = route_table_has_conditions(site->routes)
					   ? match_by_conditions(x, &is_ambiguous)
					   : match_route(x, &is_ambiguous);

	switch (match.outcome) {
	case ROUTE_FOUND:
		if (is_ambiguous) {
			exchange_reply(x, 400, "ambiguous path", HTTP_PROBLEM_NO_RETRY);
			return false;
		}
		if (is_unlisted_trace(x->request.method, match.route)) {
			exchange_reply(x, 405, "method not allowed", HTTP_PROBLEM_NO_RETRY);
			return false;
		}
		x->route = match.route;
		x->upstream = site->upstreams[x->route->upstream->index];
		if (x->route->is_before_gateway && !is_no_forgery(x))
			return false;
		x->framing.upgrade = x->framing.upgrade &&
				     http_upgrade_allowed(&x->request, &x->route->upgrades);
		if (x->framing.upgrade && x->route->websocket.mode != CONF_WEBSOCKET_TUNNEL &&
			!may_open_socket(x))
			return false;
		if (x->route->ratelimit_headers != CONF_RATELIMIT_INHERIT)
			x->dialect = x->route->ratelimit_headers;
		return true;
	case ROUTE_NONE:
		exchange_reply(x, 404, "no route", HTTP_PROBLEM_NO_RETRY);
		return false;
	case ROUTE_UNDECIDED:
		exchange_reply(x, 400, "path too costly to match", HTTP_PROBLEM_NO_RETRY);
		return false;
	case ROUTE_METHOD:
		x->facts.allow = match.allow;
		exchange_reply(x, 405, "method not allowed", HTTP_PROBLEM_NO_RETRY);
		return false;
	}
	return false;
}

/* Most requests have none, and most sites begin none. */
static inline bool trace_is_due(const struct exchange *x)
{
	enum conf_traceparent mode = x->use->site->conf->hop.traceparent;

	return mode == CONF_TRACEPARENT_BEGIN || http_head_has(&x->request, HTTP_FIELD_TRACEPARENT);
}

/* Names it, and says how it is framed and what its target is. 0, or the status that it is answered
 * with. */
static unsigned read_head(struct exchange *x)
{
	unsigned status;

	name_request(x);
	status = x->client->calls->frame_request(x->client, x);
	if (trace_is_due(x)) /* it may be one that Connection names */
		x->text.trace = trace_begin(x->worker, x->use->site->conf->hop.traceparent,
			&x->request, x->text.traceparent);
	x->close_client = status != 0 || !x->framing.keep_alive;
	if (status == 0 && x->framing.body == HTTP_BODY_NONE)
		x->request_progress = REQUEST_READ;
	if (status == 0 && x->request.method == HTTP_METHOD_TRACE &&
		x->framing.body != HTTP_BODY_NONE)
		return 400; /* RFC 9110 section 9.3.8: it has no content */
	return status != 0 ? status : read_target(x);
}

/* Whose request it is, and what its listener does about the head of such a one. */
static void know_caller(struct exchange *x, const struct conf_listener *listener)
{
	if ((http_head_has(&x->request, HTTP_FIELD_UNDERSCORED) ||
		    lookalikes_need_all(x->use->site->lookalikes)) &&
		!listener->passes_lookalikes)
		lookalikes_drop(x->use->site->lookalikes, &x->request);
	const struct forwarded_peer *peer = x->client->peer;
	forwarded_caller(&x->request, peer, &listener->trusted_proxies, x->facts.address);
	x->facts.is_https =
		peer->trusted ? forwarded_is_https(&x->request, peer, &listener->trusted_proxies)
			      : peer->is_https;
	if (hop_is_from_node(x->client))
		x->facts.tls = hop_identity(x->client->hop);
	else if (x->client->tls && (listener->tls.client_ca || x->use->site->conf->keys.has_tls))
		x->facts.tls = tls_facts_identify(x->client->tls);
}

/* gRPC is spoken by HTTP/2 alone. */
static void note_call(struct exchange *x)
{
	uint64_t ms;

	x->is_call = http_is_grpc(&x->request);
	ms = x->is_call ? http_grpc_timeout_ms(&x->request) : 0;
	if (ms > 0)
		x->times.ends_ms = worker_now_ms(x->worker) + ms;
}

void exchange_begin(struct exchange *x, const char *bytes)
{
	const struct conf_listener *listener = x->client->listener->conf;
	unsigned status;

	if (!keep_head(x, bytes)) {
		exchange_reject(x, 503, "no memory");
		return;
	}
	status = read_head(x);
	if (status == 405) {
		exchange_reply(x, 405, "method not allowed", HTTP_PROBLEM_NO_RETRY);
		return;
	}
	if (status != 0) {
		exchange_reject(x, status, "malformed request");
		return;
	}
	if (x->close_client)
		client_finish(x->client);
	if (listener->is_internal) {
		if (!hop_begin(x))
			return;
		listener = client_listener(x->client);
	}
	know_caller(x, listener);
	if (listener->health && probe_answered(x))
		return;
	if (entrance_may_answer(x, listener) && entrance_answered(x))
		return;
	if (!find_route(x))
		return;
	if (exchange_has_request(x))
		exchange_request_read(x);
	if (x->route->max_body_bytes > 0 && x->framing.length > x->route->max_body_bytes) {
		exchange_reply(x, 413, "body too large", HTTP_PROBLEM_NO_RETRY);
		return;
	}
	if (x->request.major == 2 && x->request.method == HTTP_METHOD_POST)
		note_call(x);
	turn_begin(x);
}
