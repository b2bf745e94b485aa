#include "upstream/capacity.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "queue/queue.h"
#include "upstream/upstream.h"

bool capacity_is_ejected(const struct server_state *server, uint64_t now_ms)
{
	/* relaxed: a hint; a request more or less to a failing server harms nothing */
	uint64_t until_ms = atomic_load_explicit(&server->out_until_ms, memory_order_relaxed);

	return until_ms > now_ms || atomic_load_explicit(&server->unhealthy, memory_order_relaxed);
}

static bool is_listed(const struct server_state *server)
{
	return atomic_load_explicit(&server->listed, memory_order_relaxed);
}

static bool is_enabled(const struct server_state *server)
{
	return is_listed(server) &&
	       atomic_load_explicit(&server->mode, memory_order_relaxed) == SERVER_ENABLED;
}

/* ---- setting --------------------------------------------------------------------------------- */

/* The lower of two bounds, of which 0 is none. */
static uint32_t lower(uint32_t a, uint32_t b)
{
	return a == 0 || (b > 0 && b < a) ? b : a;
}

uint32_t capacity_of(const struct conf_upstream *upstream, const struct conf_server *server)
{
	if (upstream->protocol == CONF_PROTOCOL_HTTP2)
		return server->max_in_flight;
	return lower(server->max_in_flight, server->max_connections);
}

static void set_one(void *ctx, struct server_state *state)
{
	const struct upstream *upstream = ctx;
	const struct server *server = upstream_server_of(upstream, state);

	atomic_store_explicit(&state->listed, server != NULL, memory_order_relaxed);
	state->bound = server ? capacity_of(upstream->conf, server->conf) : 0;
}

void capacity_set(const struct upstream *upstream)
{
	/* relaxed: whoever sees the old value goes by the old configuration */
	atomic_store_explicit(&upstream->state->has_capacity, upstream->bounds.capacity != NULL,
		memory_order_relaxed);
	upstream_state_each_server(upstream->state, set_one, (void *)(uintptr_t)upstream);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct capacity {
	uint64_t now_ms;
	uint64_t back_ms;               /* when the first ejected one comes back */
	unsigned listed, in, enabled;   /* servers */
	bool in_unbounded, unbounded;   /* is one of those without a bound? */
	uint64_t in_places, places;     /* the bounds of those in service, of the enabled ones */
	uint64_t in_flight, out_flight; /* at servers that are not in service, not enabled */
};

static void add_one(void *ctx, struct server_state *server)
{
	struct capacity *sum = ctx;
	uint32_t in_flight = atomic_load_explicit(&server->in_flight, memory_order_relaxed);

	sum->listed += is_listed(server);
	if (!is_enabled(server)) {
		sum->in_flight += in_flight;
		sum->out_flight += in_flight;
		return;
	}
	sum->enabled++;
	sum->places += server->bound;
	sum->unbounded |= server->bound == 0;
	if (capacity_is_ejected(server, sum->now_ms)) {
		uint64_t until_ms =
			atomic_load_explicit(&server->out_until_ms, memory_order_relaxed);
		sum->in_flight += in_flight;
		if (until_ms > sum->now_ms && until_ms < sum->back_ms)
			sum->back_ms = until_ms;
		return;
	}
	sum->in++;
	sum->in_places += server->bound;
	sum->in_unbounded |= server->bound == 0;
}

uint32_t capacity_read(void *upstream_state, uint64_t now_ns, uint64_t *until_ns)
{
	struct capacity sum = {.now_ms = now_ns / CLOCK_NS_PER_MS, .back_ms = UINT64_MAX};

	upstream_state_each_server(upstream_state, add_one, &sum);
	if (sum.back_ms != UINT64_MAX)
		*until_ns = sum.back_ms * CLOCK_NS_PER_MS;
	/* The only server is asked, and so are all, when all are ejected. */
	bool all = sum.in == 0 || sum.listed == 1;
	if (sum.enabled == 0 || (all ? sum.unbounded : sum.in_unbounded))
		return UINT32_MAX;
	uint64_t places = all ? sum.places + sum.out_flight : sum.in_places + sum.in_flight;
	return places < UINT32_MAX ? (uint32_t)places : UINT32_MAX;
}

/* ---- changes --------------------------------------------------------------------------------- */

void capacity_changed(struct upstream_state *upstream)
{
	if (atomic_load_explicit(&upstream->has_capacity, memory_order_relaxed))
		run_queue_refresh(upstream->run_queue, clock_monotonic_ns());
}

void capacity_used(const struct server_state *server)
{
	/* relaxed: one that goes out of service just now is counted by capacity_changed. An
	 * ejection that is over counts until the first success, for nothing. */
	if (!is_enabled(server) || atomic_load_explicit(&server->unhealthy, memory_order_relaxed) ||
		atomic_load_explicit(&server->out_until_ms, memory_order_relaxed) != 0)
		capacity_changed(server->upstream);
}
