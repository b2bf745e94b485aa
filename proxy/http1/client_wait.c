#include "http1/client_wait.h"

#include <stdlib.h>

#include "exchange/exchange.h"
#include "http1/downstream_inside.h"
#include "http1/idle_wait.h"
#include "http1/min_rate.h"
#include "listen/listener.h"

/* Made with the first body of a connection that has a rate. */
struct client_rates {
	struct min_rate body, take;
	uint64_t body_of, take_of; /* the exchanges by their numbers on the connection */
	uint64_t taken;            /* the most that the client's system is known to have */
	uint64_t timeout_ms;       /* body_timeout or send_timeout ends then */
	enum wait_reason asks;     /* whose rate decides when the time is over; or NONE */
};

/* Bytes that the client's system has taken. The count of a unix socket includes more than the
 * bytes, and may exceed what was sent: the highest count seen is right. */
static uint64_t taken(struct downstream *d)
{
	uint64_t now = stream_taken(&d->stream);

	if (now > d->rates->taken)
		d->rates->taken = now;
	return d->rates->taken;
}

static bool has_rate(const struct exchange *x)
{
	return x && x->route && x->route->min_rate > 0 && !x->attempt.endless;
}

static struct client_rates *rates_of(struct downstream *d)
{
	if (!d->rates)
		d->rates = calloc(1, sizeof(*d->rates));
	return d->rates; /* without memory there is no rate */
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* By which rate is taken what there is now: by that of its route, with the grace once a response.
 * What is left of a response that is over is taken by its own. */
static void choose_rate(struct downstream *d)
{
	const struct exchange *x = d->client.first;
	uint64_t number = d->begun - d->exchange_count + 1;

	if (!x || x->answer.progress == ANSWER_AWAITED || (d->rates && d->rates->take_of == number))
		return;
	if (has_rate(x) && rates_of(d))
		min_rate_begin(
			&d->rates->take, x->route->min_rate, x->route->min_rate_grace_ms, taken(d));
	else if (d->rates)
		d->rates->take.per_second = 0;
	if (d->rates)
		d->rates->take_of = number;
}

/* The earlier of what the timeout and the rate allow, rounded up. */
static uint64_t until_ms(struct downstream *d, struct min_rate *rate, uint64_t bytes)
{
	struct client_rates *rates = d->rates;
	uint64_t now_ns = worker_now_ns(d->worker);
	uint64_t at_ms =
		worker_now_ms(d->worker) + min_rate_look(rate, bytes, now_ns) / CLOCK_NS_PER_MS + 1;

	rates->asks = at_ms < rates->timeout_ms ? d->wait.reason : WAIT_NONE;
	return at_ms < rates->timeout_ms ? at_ms : rates->timeout_ms;
}

static void wait_to_take(struct downstream *d)
{
	uint64_t now_ms = worker_now_ms(d->worker), sent = d->stream.sent;
	uint64_t at_ms = now_ms + d->client.listener->conf->send_timeout_ms;

	if (d->wait.reason == WAIT_TAKE && d->wait.progress == sent)
		return;
	choose_rate(d);
	wait_for(&d->wait, WAIT_TAKE, sent, at_ms, now_ms);
	if (!d->rates)
		return;
	d->rates->timeout_ms = at_ms;
	d->rates->asks = WAIT_NONE;
	if (d->rates->take.per_second == 0 || (d->client.first && d->client.first->attempt.endless))
		return;
	deadline_set(&d->wait.deadline, until_ms(d, &d->rates->take, taken(d)), now_ms);
}

/* There is nothing for it now. */
static void pause_taking(struct downstream *d)
{
	if (d->rates && d->rates->take.look_ns != 0)
		min_rate_pause(&d->rates->take, taken(d), worker_now_ns(d->worker));
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Is it the client that keeps its request's body from continuing, and not the server? */
static bool wants_body(const struct downstream *d)
{
	const struct pump *up = &d->reading->up;

	/* It may wait for a 100, of the server, or behind the responses before it. */
	if (exchange_awaits_continue(d->reading) ||
		(d->reading != d->client.first && d->reading->framing.expects_continue))
		return false;
	if (d->reading->gathering == GATHERING_READY && !up->sink)
		return false; /* as much as is kept of it is here: it waits for its turn */
	return up->source && (!up->sink || body_sink_is_empty(up->sink));
}

static void wait_for_body(struct downstream *d)
{
	const struct exchange *x = d->reading;
	uint64_t now_ms = worker_now_ms(d->worker), bytes = x->up.content_bytes;
	uint64_t at_ms = now_ms + d->client.listener->conf->body_timeout_ms;
	uint64_t progress = d->begun << 48 ^ bytes; /* of which body, and how far */

	if (d->wait.reason == WAIT_BODY && d->wait.progress == progress)
		return;
	wait_for(&d->wait, WAIT_BODY, progress, at_ms, now_ms);
	struct client_rates *rates = has_rate(x) ? rates_of(d) : d->rates;
	if (!rates)
		return;
	rates->timeout_ms = at_ms;
	rates->asks = WAIT_NONE;
	if (!has_rate(x))
		return;
	if (rates->body_of != d->begun) {
		rates->body_of = d->begun;
		min_rate_begin(
			&rates->body, x->route->min_rate, x->route->min_rate_grace_ms, bytes);
	}
	deadline_set(&d->wait.deadline, until_ms(d, &rates->body, bytes), now_ms);
}

/* Others than the client have to do something now. */
static void pause_body(struct downstream *d)
{
	const struct exchange *x = d->input == INPUT_BODY ? d->reading : NULL;
	struct client_rates *rates = d->rates;

	if (rates)
		min_rate_pause(&rates->body,
			x && rates->body_of == d->begun ? x->up.content_bytes : rates->body.bytes,
			worker_now_ns(d->worker));
}

/* ---- heads ----------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* From the first byte of the head. A drain leaves half of its time for it, since the shutdown's end
 * would count it as a cut, and a head that begins later as long as an idle connection has. */
static void wait_for_head(struct downstream *d)
{
	struct worker *worker = d->worker;
	uint64_t began_ns = d->reading->times.began_ns, began_ms = began_ns / CLOCK_NS_PER_MS;
	uint64_t end_ms = began_ms + d->client.listener->conf->header_timeout_ms;

	if (worker->draining) {
		uint64_t shutdown_ms = site_part(worker)->use->site->conf->shutdown_timeout_ms;
		uint64_t half_ms = worker->drain_began_ms + shutdown_ms / 2;
		uint64_t late_ms = began_ms + least(DRAIN_IDLE_MS, shutdown_ms / 4);
		end_ms = least(end_ms, half_ms > late_ms ? half_ms : late_ms);
	}
	wait_for(&d->wait, WAIT_HEAD, 2 * began_ns + worker->draining, end_ms,
		worker_now_ms(worker));
}

/* ---- all ------------------------------------------------------------------------------------- */

bool client_wait(struct downstream *d)
{
	if (flow_is_empty(&d->out))
		pause_taking(d);
	if (d->input == INPUT_TUNNEL) {
		wait_none(&d->wait); /* tunnel_timeout, at the server's connection */
	} else if (!flow_is_empty(&d->out)) {
		pause_body(d);
		wait_to_take(d);
	} else if (d->input == INPUT_HEAD) {
		wait_for_head(d);
	} else if (d->input == INPUT_BODY && wants_body(d)) {
		wait_for_body(d);
	} else {
		pause_body(d);
		return false;
	}
	return true;
}

bool client_wait_is_over(struct downstream *d, const char **why)
{
	bool takes = d->wait.reason == WAIT_TAKE;
	struct client_rates *rates = d->rates;

	*why = takes ? "send timeout" : "body timeout";
	if (!rates || rates->asks != d->wait.reason)
		return true;
	struct min_rate *rate = takes ? &rates->take : &rates->body;
	uint64_t bytes = takes ? taken(d) : d->reading->up.content_bytes;
	uint64_t now_ms = worker_now_ms(d->worker);
	if (min_rate_look(rate, bytes, worker_now_ns(d->worker)) > 0) {
		deadline_set(&d->wait.deadline, until_ms(d, rate, bytes), now_ms);
		return false;
	}
	*why = takes ? "response below min_rate" : "request below min_rate";
	worker_count(d->worker, takes ? STATS_SLOW_RESPONSE : STATS_SLOW_REQUEST);
	if (takes)
		stream_reset_at_close(&d->stream);
	return true;
}

void client_wait_end(struct downstream *d)
{
	free(d->rates);
	d->rates = NULL;
}
