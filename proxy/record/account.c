#include "record/account.h"

#include "exchange/exchange.h"
#include "stats/busiest.h"
#include "stats/stats.h"
#include "stats/usage_counts.h"

static inline __attribute__((always_inline)) enum stats_verdict verdict_of(const struct exchange *x)
{
	if (!x->times.judged_ns)
		return STATS_UNLIMITED;
	if (x->gate.verdict.outcome == GATE_ADMIT && !x->turn.delayed)
		return x->gate.verdict.limit_count > 0 ? STATS_ADMIT : STATS_UNLIMITED;
	switch (x->gate.verdict.outcome) {
	case GATE_ADMIT:
		return STATS_DELAY;
	case GATE_DELAY:
		return STATS_DELAY;
	case GATE_REFUSE:
	case GATE_UNAVAILABLE:
		return STATS_REFUSE;
	case GATE_DENY:
	case GATE_AMBIGUOUS:
	case GATE_NO_KEY:
	case GATE_UNKNOWN:
		return STATS_DENY;
	}
	return STATS_UNLIMITED;
}

static _Atomic uint64_t *row_of(
	const struct exchange *x, enum stats_scope scope, const unsigned *rows, size_t index)
{
	return stats_row(x->worker->stats, scope, rows[index]);
}

/* For an invoice: what a limit in shadow mode would have refused was served, unless another did
 * refuse it. */
static __attribute__((noinline)) void count_usage(
	const struct exchange *x, unsigned i, unsigned row, enum stats_limit_verdict is)
{
	if (is == STATS_LIMIT_REFUSED || x->gate.verdict.outcome == GATE_ADMIT)
		usage_count(x->worker->usage, row, x->gate.verdict.limits[i].caller,
			is != STATS_LIMIT_REFUSED);
}

/* The i-th limit's caller of the verdict. A delay is counted when it is over. */
static inline __attribute__((always_inline)) void count_caller(
	const struct exchange *x, unsigned i, unsigned row, enum stats_limit_verdict is)
{
	enum busiest_kind kind = is == STATS_LIMIT_ADMITTED  ? BUSIEST_ADMITTED
				 : is == STATS_LIMIT_REFUSED ? BUSIEST_REFUSED
							     : BUSIEST_SHADOW_REFUSED;
	struct busiest *busiest;

	if (is == STATS_LIMIT_DELAYED)
		return;
	if (x->worker->usage)
		count_usage(x, i, row, is);
	busiest = busiest_row(x->worker->busiest, row, kind);
	if (busiest)
		busiest_add(busiest, x->gate.verdict.limits[i].caller, x->facts.address,
			worker_now_ns(x->worker));
}

/* What most are: admitted, and none of its limits, those in shadow mode included, violated. */
static inline __attribute__((always_inline)) void count_admitted(const struct exchange *x)
{
	const struct gate_verdict *verdict = &x->gate.verdict;
	const struct account_rows *rows = &x->use->site->rows;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		unsigned row = rows->limits[verdict->limits[i].limit->index];
		stats_add(&stats_row(x->worker->stats, STATS_LIMIT,
				  row)[STATS_LIMIT_VERDICT + STATS_LIMIT_ADMITTED],
			1);
		count_caller(x, i, row, STATS_LIMIT_ADMITTED);
	}
}

/* Limits are all or nothing: of a refused request, those that it would have passed counted
 * nothing. */
static __attribute__((noinline)) void count_limits(const struct exchange *x, bool delayed)
{
	const struct gate_verdict *verdict = &x->gate.verdict;
	const struct account_rows *rows = &x->use->site->rows;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct gate_limit *limit = &verdict->limits[i];
		enum stats_limit_verdict is = STATS_LIMIT_ADMITTED;
		if (limit->violated && limit->limit->shadow)
			is = STATS_LIMIT_SHADOW_REFUSED;
		else if (limit->violated)
			is = delayed ? STATS_LIMIT_DELAYED : STATS_LIMIT_REFUSED;
		else if (verdict->outcome != GATE_ADMIT)
			continue;
		unsigned row = rows->limits[limit->limit->index];
		stats_add(&stats_row(x->worker->stats, STATS_LIMIT, row)[STATS_LIMIT_VERDICT + is],
			1);
		count_caller(x, i, row, is);
	}
}

static void count_times(const struct account_end *end, uint64_t now_ns, _Atomic uint64_t *route)
{
	stats_observe(&route[STATS_REQUEST_DURATION], now_ns - end->began_ns);
	if (end->started_ns == 0)
		return;
	stats_observe(&route[STATS_QUEUE_WAIT], end->queue_ns);
	stats_observe(&route[STATS_UPSTREAM_DURATION], now_ns - end->started_ns);
}

/* The authority that judged it, and how many its plan's callers have had. */
static inline __attribute__((always_inline)) void count_verdict(
	const struct exchange *x, enum stats_verdict verdict)
{
	const struct account_rows *rows = &x->use->site->rows;
	const struct conf *conf = x->use->site->conf;

	if (x->gate.verdict.outcome == GATE_ADMIT && !x->gate.verdict.shadowed)
		count_admitted(x);
	else if (x->gate.verdict.outcome !=
		 GATE_DELAY) /* else it left while it waited, counted so */
		count_limits(x, false);
	if (x->gate.verdict.plan)
		stats_add(&row_of(x, STATS_PLAN, rows->plans,
				  (size_t)(x->gate.verdict.plan -
					   conf->plans))[STATS_PLAN_REQUESTS + verdict],
			1);
}

static __attribute__((noinline)) void account_message(const struct exchange *x)
{
	enum stats_verdict verdict = verdict_of(x);
	_Atomic uint64_t *route =
		row_of(x, STATS_ROUTE, x->use->site->rows.routes, x->route->index);

	stats_add(&route[STATS_MESSAGES + verdict], 1);
	stats_add(&route[STATS_CLIENT_MESSAGE_BYTES], x->up.content_bytes);
	stats_observe(&route[STATS_MESSAGE_DURATION], worker_now_ns(x->worker) - x->times.began_ns);
	count_verdict(x, verdict);
}

static inline __attribute__((always_inline)) struct account_end end_of(const struct exchange *x)
{
	const struct ticket *ticket = &x->turn.ticket;
	struct account_end end = {
		.verdict = (uint8_t)verdict_of(x),
		.status = (uint16_t)x->answer.status,
		.has_upstream_status = x->answer.upstream_status != 0 && x->times.judged_ns,
		.received_bytes = x->up.content_bytes,
		.sent_bytes = x->down.content_bytes + x->answer.reply_bytes,
		.began_ns = x->times.began_ns,
		.started_ns = x->times.started_ns,
	};

	if (x->times.started_ns != 0 && ticket->started_ns > ticket->entered_ns)
		end.queue_ns = ticket->started_ns - ticket->entered_ns;
	return end;
}

static inline __attribute__((always_inline)) void count_end(struct worker *worker,
	const struct account_rows *rows, const struct conf_route *conf,
	const struct account_end *end)
{
	unsigned status = end->status / 100u < STATS_STATUS_CLASSES ? end->status / 100u : 0;
	_Atomic uint64_t *route =
		stats_row(worker->stats, STATS_ROUTE, conf ? rows->routes[conf->index] : 0);

	stats_add(&route[STATS_REQUESTS + status * STATS_VERDICTS + end->verdict], 1);
	if (end->received_bytes > 0)
		stats_add(&route[STATS_RECEIVED_BYTES], end->received_bytes);
	stats_add(&route[STATS_SENT_BYTES], end->sent_bytes);
	count_times(end, worker_now_ns(worker), route);
	if (end->has_upstream_status)
		stats_add(&stats_row(worker->stats, STATS_UPSTREAM,
				  rows->upstreams[conf->upstream->index])[STATS_UPSTREAM_REQUESTS],
			1);
}

void account_exchange(const struct exchange *x)
{
	if (x->tunnel.is_message) {
		account_message(x);
		return;
	}
	struct account_end end = end_of(x);
	count_end(x->worker, &x->use->site->rows, x->route, &end);
	if (x->times.judged_ns)
		count_verdict(x, (enum stats_verdict)end.verdict);
}

struct account_end account_keep(const struct exchange *x)
{
	struct account_end end = end_of(x);

	if (x->times.judged_ns)
		count_verdict(x, (enum stats_verdict)end.verdict);
	return end;
}

void account_kept(struct worker *worker, const struct site *site, const struct conf_route *route,
	const struct account_end *end)
{
	count_end(worker, &site->rows, route, end);
}

void account_delay(const struct exchange *x)
{
	count_limits(x, true);
}

void account_server_response(const struct exchange *x)
{
	/* relaxed: a count that others only show */
	if (x->server)
		atomic_fetch_add_explicit(&x->server->state->responses, 1, memory_order_relaxed);
}

void account_upstream_failure(const struct exchange *x)
{
	/* relaxed: a count that others only show */
	if (x->server)
		atomic_fetch_add_explicit(&x->server->state->failures, 1, memory_order_relaxed);
	stats_add(&row_of(x, STATS_UPSTREAM, x->use->site->rows.upstreams,
			  x->route->upstream->index)[STATS_UPSTREAM_FAILURES],
		1);
}
