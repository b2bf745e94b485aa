#include "config.h"

#include "daemon/wait_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "exchange/exchange.h"
#include "tunnel/passage.h"
#include "exchange/switched.h"
#include "http1/downstream.h"
#ifdef HAVE_HTTP2
#include "http2/h2_stream.h"
#endif
#include "site/site.h"
#include "upstream/server_inside.h"
#include "upstream/server_pool.h"

/* Connections looked at in a turn. */
#define CLIENTS_MOST 256

#define ONE(reason) (1u << (reason))
_Static_assert(WAIT_REASONS <= 32, "reasons are bits of a rule");

#define CLIENT_REASONS                                                                             \
	(ONE(WAIT_IDLE) | ONE(WAIT_HEAD) | ONE(WAIT_BODY) | ONE(WAIT_TAKE) | ONE(WAIT_LINGER))

struct rule {
	bool own;
	bool behind;     /* those before it on its connection */
	unsigned server; /* reasons of its connection's deadline */
	unsigned client; /* reasons of its client's */
};

static const struct rule rules[] = {
	[EXCHANGE_HEAD] = {.client = ONE(WAIT_HEAD) | ONE(WAIT_TAKE)},
	[EXCHANGE_HELD] = {.client = ONE(WAIT_BODY) | ONE(WAIT_TAKE), .behind = true},
	[EXCHANGE_SEEKING] = {.own = true},
	[EXCHANGE_ASKING] = {.own = true},
	[EXCHANGE_DELAYED] = {.own = true},
	[EXCHANGE_QUEUED] = {.own = true},
	[EXCHANGE_CONNECTING] = {.server = ONE(WAIT_CONNECT)},
	[EXCHANGE_FORWARDING] = {.server = ONE(WAIT_SEND) | ONE(WAIT_RESPONSE),
		.client = ONE(WAIT_BODY) | ONE(WAIT_TAKE)},
	/* CLIENT only tells a slow client from a fast one: it bounds nothing. */
	[EXCHANGE_RELAYING] = {.server = ONE(WAIT_MORE) | ONE(WAIT_CLIENT),
		.client = ONE(WAIT_TAKE)},
	[EXCHANGE_DRAINING] = {.server = ONE(WAIT_DRAIN)},
	[EXCHANGE_TUNNEL] = {0}, /* not between turns */
	[EXCHANGE_REPLYING] = {.client = ONE(WAIT_BODY) | ONE(WAIT_TAKE), .behind = true},
	[EXCHANGE_ENDED] = {0},
};

static bool runs(const struct deadline *deadline)
{
	return deadline->at_ms != DEADLINE_NEVER && deadline->armed_ms <= deadline->at_ms;
}

/* The reason of a deadline that runs, else WAIT_NONE. */
static enum wait_reason reason_of(const struct wait *wait)
{
	return runs(&wait->deadline) ? wait->reason : WAIT_NONE;
}

/* What its client's deadline says about this exchange. */
static enum wait_reason client_reason(const struct exchange *x)
{
#ifdef HAVE_HTTP2
	if (x->client && x->client->calls == &h2_client_calls) {
		enum wait_reason own = reason_of(&h2_stream_of(x->client)->wait);
		return rules[x->state].client & ONE(own) ? own : WAIT_NONE;
	}
#endif
	const struct downstream *d = x->client ? downstream_of(x->client) : NULL;
	enum wait_reason reason = d ? reason_of(&d->wait) : WAIT_NONE;
	bool is_its = reason == WAIT_TAKE ? d->client.first == x || d->reading == x
					  : d && d->reading == x;

	return is_its && (rules[x->state].client & ONE(reason)) ? reason : WAIT_NONE;
}

/* May it leave it to those before it on its connection to have a deadline? */
static bool is_behind(const struct exchange *x)
{
	return rules[x->state].behind && x->client && x->client->first != x;
}

static const char *check_connection(const struct exchange *x)
{
	const struct server_connection *connection = x->connection;
	bool connects = x->state == EXCHANGE_CONNECTING;

	if (!connection)
		return rules[x->state].server && x->state != EXCHANGE_RELAYING
			       ? "it has no connection"
			       : NULL;
	if (x->client && x->client->first != x)
		return "its server was asked before those ahead of it were answered";
	if (connection->exchange != x)
		return "its connection is another exchange's";
	if (connection->state != (connects ? SERVER_CONNECTION_CONNECTING : SERVER_CONNECTION_BUSY))
		return "its connection is in another state";
	enum wait_reason reason = reason_of(&connection->wait);
	if (reason != WAIT_NONE && !(rules[x->state].server & ONE(reason)))
		return "its server's deadline is of another state";
	return NULL;
}

const char *wait_check_exchange(const struct exchange *x)
{
	bool own = x->turn.has_deadline && runs(&x->turn.deadline);
	enum wait_reason client = client_reason(x);
	enum wait_reason server = x->connection ? reason_of(&x->connection->wait) : WAIT_NONE;
	const char *fault;

	if (x->state == EXCHANGE_ENDED)
		return "it has ended and is still listed";
	if ((fault = check_connection(x)) != NULL)
		return fault;
	if (own != rules[x->state].own)
		return own ? "its own deadline is of another state" : "its own deadline is missing";
	if (x->tunnel.hold && x->state == EXCHANGE_RELAYING && !x->connection)
		return NULL; /* it has a deadline of its own, or lasts as long as its client likes
			      */
	int count = own + (server != WAIT_NONE && server != WAIT_CLIENT) +
		    (client != WAIT_NONE && client != WAIT_TAKE);
	if (count > 1)
		return "it has two deadlines";
	if (count == 0 && client != WAIT_TAKE && !is_behind(x))
		return "no deadline runs";
	return NULL;
}

const char *wait_check_message(const struct exchange *x, const struct passage *passage)
{
	bool own = x->turn.has_deadline && runs(&x->turn.deadline);
	bool is_served = x->state == EXCHANGE_FORWARDING;

	if (x->state == EXCHANGE_HELD && is_behind(x))
		return NULL;
	if (x->connection || passage->has_ended || !passage->server.open)
		return "it is not passed on by its handshake's connection";
	if (!is_served && !rules[x->state].own)
		return "it rests in a state that is none of a message's";
	if (own != !is_served)
		return own ? "its own deadline is of another state" : "its own deadline is missing";
	if (is_served && reason_of(&passage->wait) != WAIT_TUNNEL)
		return "no deadline runs";
	return NULL;
}

const char *wait_check_request(const struct exchange *x)
{
	bool own = x->turn.has_deadline && runs(&x->turn.deadline);
	bool server = x->connection && reason_of(&x->connection->wait) != WAIT_NONE;
	const char *fault = check_connection(x);

	if (x->state == EXCHANGE_ENDED)
		return "it has ended and is still listed";
	if (fault)
		return fault;
	if (own != rules[x->state].own)
		return own ? "its own deadline is of another state" : "its own deadline is missing";
	/* All of its answer is here: it is passed on by as much as a turn takes, in each turn. */
	bool passes = x->state == EXCHANGE_RELAYING && x->tunnel.collects && !x->connection;
	return own || server || passes || is_behind(x) ? NULL : "no deadline runs";
}

const char *wait_check_client(const struct downstream *d)
{
	enum wait_reason reason = reason_of(&d->wait);

	if (reason != WAIT_NONE && !(CLIENT_REASONS & ONE(reason)))
		return "its deadline is a server's";
	if (d->state == DOWNSTREAM_CLOSED)
		return "it is closed and still listed";
	if ((d->state == DOWNSTREAM_LINGERING) != (reason == WAIT_LINGER))
		return "lingering and its deadline do not go together";
	if (d->state == DOWNSTREAM_LINGERING || d->input == INPUT_TUNNEL)
		return NULL;
	if (!flow_is_empty(&d->out))
		return reason == WAIT_TAKE ? NULL : "nobody waits until it takes what was sent";
	if (reason == WAIT_TAKE)
		return "it is to take what was not sent";
	if (d->input == INPUT_HEAD)
		return reason == WAIT_HEAD ? NULL : "nobody waits for the rest of its head";
	if (d->client.first)
		return reason == WAIT_IDLE ? "it is idle with a request under way" : NULL;
	return reason == WAIT_IDLE ? NULL : "it has nothing under way and no deadline";
}

const char *wait_check_passage(const struct passage *passage)
{
	if (passage->has_ended)
		return "it has ended and is still listed";
	return reason_of(&passage->wait) == WAIT_TUNNEL ? NULL : "no deadline runs";
}

const char *wait_check_idle_server(const struct server_connection *connection)
{
	if (connection->has_places)
		return reason_of(&connection->wait) == WAIT_NONE ? "no deadline runs" : NULL;
	if (connection->state != SERVER_CONNECTION_IDLE || connection->exchange)
		return "it is listed as idle and is not";
	return reason_of(&connection->wait) == WAIT_REUSE ? NULL : "no deadline runs";
}

/* ---- all of a worker's ----------------------------------------------------------------------- */

static void judge(const char *what, const char *state, const char *fault)
{
	if (!fault)
		return;
	/* The log's thread would be too late. */
	fprintf(stderr, "SLUICE_CHECK_WAITS: %s (%s): %s\n", what, state, fault);
	abort();
}

static void check_exchange(const struct exchange *x)
{
	judge("exchange", exchange_state_name(x->state), wait_check_exchange(x));
}

static void check_message(const struct exchange *x, const struct passage *passage)
{
	judge("message", exchange_state_name(x->state), wait_check_message(x, passage));
}

static void check_request(const struct exchange *x)
{
	judge("gateway's request", exchange_state_name(x->state), wait_check_request(x));
}

static void check_client(const struct downstream *d)
{
	static const char *const names[] = {"open", "finishing", "lingering", "closed"};

	judge("client", names[d->state], wait_check_client(d));
	if (d->input == INPUT_HEAD)
		check_exchange(d->reading);
	for (const struct exchange *x = d->client.first; x; x = x->next)
		check_exchange(x);
}

#ifdef HAVE_HTTP2
const char *wait_check_http2(const struct h2_connection *c)
{
	enum wait_reason reason = reason_of(&c->wait);

	if (c->state == H2_CLOSED)
		return "it is closed and still listed";
	if ((c->state == H2_LINGERING) != (reason == WAIT_LINGER))
		return "lingering and its deadline do not go together";
	if (c->state == H2_LINGERING)
		return NULL;
	if (c->link.block.at || c->link.held_bytes > 0)
		return reason == WAIT_TAKE ? NULL : "no deadline until it takes what was sent";
	if (c->head.is_open)
		return reason == WAIT_HEAD ? NULL : "no deadline for the rest of its head";
	if (c->stream_count > 0)
		return NULL; /* each has its own, or its exchange has */
	return reason == WAIT_NONE ? "it has no stream and no deadline" : NULL;
}

static const char *check_stream(const struct h2_stream *stream)
{
	bool owes = stream->has_responded && h2_sink_has_output(&stream->sink);

	if (stream->connection->state == H2_LINGERING)
		return "it has outlived its connection's session";
	return owes && reason_of(&stream->wait) != WAIT_TAKE
		       ? "no deadline until it takes what was sent"
		       : NULL;
}

static void check_http2(const struct worker *worker)
{
	unsigned count = 0;

	for (const struct h2_connection *c = h2_part(worker)->connections;
		c && count < CLIENTS_MOST; c = c->next, count++) {
		judge("client", "HTTP/2", wait_check_http2(c));
		for (const struct h2_stream *s = c->streams; s; s = s->next) {
			judge("stream", "HTTP/2", check_stream(s));
			if (s->client.first)
				check_exchange(s->client.first);
		}
	}
}
#endif

static void check_idle_one(void *ctx, const struct server_connection *connection)
{
	const char **fault = ctx;

	if (!*fault)
		*fault = wait_check_idle_server(connection);
}

static void check_idle(const struct worker *worker)
{
	const struct site *site = site_part(worker)->use->site;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		const struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			const char *fault = NULL;
			pool_each(upstream->servers[j].state, worker, check_idle_one, &fault);
			judge("server's connection", "idle", fault);
		}
	}
}

bool wait_check_wanted(void)
{
	return getenv("SLUICE_CHECK_WAITS") != NULL;
}

void wait_check(const struct worker *worker)
{
	unsigned count = 0;

	for (const struct downstream *d = http1_part(worker)->downstreams;
		d && count < CLIENTS_MOST; d = d->next, count++)
		check_client(d);
	count = 0;
	for (const struct passage *p = tunnel_part(worker)->passages; p && count < CLIENTS_MOST;
		p = p->next, count++)
		judge("passage", "tunnel", wait_check_passage(p));
	for (const struct exchange *x = exchange_part(worker)->orphans; x; x = x->next)
		check_exchange(x);
	if (tunnel_part(worker)->calls) {
		tunnel_part(worker)->calls->each_message(worker, check_message);
		tunnel_part(worker)->calls->each_request(worker, check_request);
	}
#ifdef HAVE_HTTP2
	check_http2(worker);
#endif
	check_idle(worker);
}
