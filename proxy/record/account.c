#include "record/account.h"

#include "gate/gate.h"
#include "site/site.h"
#include "stats/busiest.h"
#include "stats/stats.h"
#include "stats/usage_sums.h"
#include "worker/worker_clock.h"

enum stats_verdict account_verdict_of(const struct gate_verdict *verdict, bool was_delayed)
{
	if (!verdict)
		return STATS_UNLIMITED;
	if (verdict->outcome == GATE_ADMIT && !was_delayed)
		return verdict->limit_count > 0 ? STATS_ADMIT : STATS_UNLIMITED;
	switch (verdict->outcome) {
	case GATE_ADMIT:
		return STATS_DELAY;
	case GATE_DELAY:
		return STATS_DELAY;
	case GATE_REFUSE:
	case GATE_UNAVAILABLE:
		return STATS_REFUSE;
	case GATE_DENY:
	case GATE_AMBIGUOUS:
	case GATE_UNDECIDED:
	case GATE_NO_KEY:
	case GATE_UNKNOWN:
		return STATS_DENY;
	}
	return STATS_UNLIMITED;
}

/* For an invoice: what a limit in shadow mode would have refused was served, unless another did
 * refuse it. */
static __attribute__((noinline)) void count_usage(
	const struct judged *judged, unsigned i, unsigned row, enum stats_limit_verdict is)
{
	if (is == STATS_LIMIT_REFUSED || judged->verdict->outcome == GATE_ADMIT)
		usage_count(judged->worker->usage, row, judged->verdict->limits[i].caller,
			is != STATS_LIMIT_REFUSED);
}

/* The i-th limit's caller of the verdict. A delay is counted when it is over. */
static inline __attribute__((always_inline)) void count_caller(
	const struct judged *judged, unsigned i, unsigned row, enum stats_limit_verdict is)
{
	enum busiest_kind kind = is == STATS_LIMIT_ADMITTED  ? BUSIEST_ADMITTED
				 : is == STATS_LIMIT_REFUSED ? BUSIEST_REFUSED
							     : BUSIEST_SHADOW_REFUSED;
	struct busiest *busiest;

	if (is == STATS_LIMIT_DELAYED)
		return;
	if (judged->worker->usage)
		count_usage(judged, i, row, is);
	busiest = busiest_row(judged->worker->busiest, row, kind);
	if (busiest)
		busiest_add(busiest, judged->verdict->limits[i].caller, judged->address,
			worker_now_ns(judged->worker));
}

/* The usual verdict: admitted, and no limit violated, in shadow mode neither. */
static inline __attribute__((always_inline)) void count_admitted(const struct judged *judged)
{
	const struct gate_verdict *verdict = judged->verdict;
	const struct account_rows *rows = &judged->site->rows;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		unsigned row = rows->limits[verdict->limits[i].limit->index];
		stats_add(&stats_row(judged->worker->stats, STATS_LIMIT,
				  row)[STATS_LIMIT_VERDICT + STATS_LIMIT_ADMITTED],
			1);
		count_caller(judged, i, row, STATS_LIMIT_ADMITTED);
	}
}

/* Limits are all or nothing: of a refused request, those that it would have passed counted
 * nothing. */
static __attribute__((noinline)) void count_limits(const struct judged *judged, bool delayed)
{
	const struct gate_verdict *verdict = judged->verdict;
	const struct account_rows *rows = &judged->site->rows;

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
		stats_add(&stats_row(judged->worker->stats, STATS_LIMIT,
				  row)[STATS_LIMIT_VERDICT + is],
			1);
		count_caller(judged, i, row, is);
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

void account_verdict(const struct judged *judged, enum stats_verdict counts_as)
{
	const struct account_rows *rows = &judged->site->rows;
	const struct gate_verdict *verdict = judged->verdict;

	if (verdict->outcome == GATE_ADMIT && !verdict->shadowed)
		count_admitted(judged);
	else if (verdict->outcome != GATE_DELAY) /* else it left while it waited, counted so */
		count_limits(judged, false);
	if (!verdict->plan)
		return;
	size_t plan = (size_t)(verdict->plan - judged->site->conf->plans);
	stats_add(&stats_row(judged->worker->stats, STATS_PLAN,
			  rows->plans[plan])[STATS_PLAN_REQUESTS + counts_as],
		1);
}

void account_message(struct worker *worker, const struct site *site, const struct conf_route *route,
	const struct account_end *end)
{
	_Atomic uint64_t *counts =
		stats_row(worker->stats, STATS_ROUTE, site->rows.routes[route->index]);

	stats_add(&counts[STATS_MESSAGES + end->verdict], 1);
	stats_add(&counts[STATS_CLIENT_MESSAGE_BYTES], end->received_bytes);
	stats_observe(&counts[STATS_MESSAGE_DURATION], worker_now_ns(worker) - end->began_ns);
}

void account_request(struct worker *worker, const struct site *site, const struct conf_route *route,
	const struct account_end *end)
{
	unsigned status = end->status / 100u < STATS_STATUS_CLASSES ? end->status / 100u : 0;
	_Atomic uint64_t *counts =
		stats_row(worker->stats, STATS_ROUTE, route ? site->rows.routes[route->index] : 0);

	stats_add(&counts[STATS_REQUESTS + status * STATS_VERDICTS + end->verdict], 1);
	if (end->received_bytes > 0)
		stats_add(&counts[STATS_RECEIVED_BYTES], end->received_bytes);
	stats_add(&counts[STATS_SENT_BYTES], end->sent_bytes);
	count_times(end, worker_now_ns(worker), counts);
	if (end->has_upstream_status)
		stats_add(&stats_row(worker->stats, STATS_UPSTREAM,
				  site->rows.upstreams[route->upstream
							       ->index])[STATS_UPSTREAM_REQUESTS],
			1);
}

void account_delay(const struct judged *judged)
{
	count_limits(judged, true);
}

void account_upstream_failure(
	struct worker *worker, const struct site *site, const struct conf_route *route)
{
	stats_add(&stats_row(worker->stats, STATS_UPSTREAM,
			  site->rows.upstreams[route->upstream->index])[STATS_UPSTREAM_FAILURES],
		1);
}
