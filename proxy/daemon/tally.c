#include "daemon/tally.h"

#include "exchange/exchange.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/log.h"
#include "daemon/daemon.h"
#include "queue/queue.h"
#include "queue/run_queue.h"
#include "site/site.h"
#include "stats/stats.h"
#include "upstream/server_state.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

/* Requests by the class of their status; [0]: ended without an answer. */
static void sum_requests(const struct stats *stats, uint64_t classes[STATS_STATUS_CLASSES])
{
	uint64_t slots[STATS_ROUTE_SLOTS];

	for (unsigned row = 0; row < stats_row_count(stats, STATS_ROUTE); row++) {
		stats_sum(stats, STATS_ROUTE, row, slots);
		for (unsigned i = 0; i < STATS_STATUS_CLASSES * STATS_VERDICTS; i++)
			classes[i / STATS_VERDICTS] += slots[STATS_REQUESTS + i];
	}
}

static void log_served(const struct stats *stats)
{
	uint64_t node[STATS_NODE_SLOTS], classes[STATS_STATUS_CLASSES] = {0}, requests = 0;

	stats_sum(stats, STATS_NODE, 0, node);
	sum_requests(stats, classes);
	for (unsigned i = 0; i < STATS_STATUS_CLASSES; i++)
		requests += classes[i];
	log_info("served %" PRIu64 " requests on %" PRIu64 " connections: 1xx %" PRIu64
		 ", 2xx %" PRIu64 ", 3xx %" PRIu64 ", 4xx %" PRIu64 ", 5xx %" PRIu64
		 ", unanswered %" PRIu64,
		requests, node[STATS_CONNECTIONS], classes[1], classes[2], classes[3], classes[4],
		classes[5], classes[0]);
}

/* Places taken of the upstreams and of their servers. */
static uint64_t sum_places(const struct site *site)
{
	uint64_t places = 0;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct run_queue_counts counts = {0};
		const struct upstream *upstream = site->upstreams[i];

		run_queue_count(upstream->state->run_queue, &counts);
		places += counts.in_flight;
		for (size_t j = 0; j < upstream->server_count; j++)
			places += atomic_load_explicit(
				&upstream->servers[j].state->in_flight, memory_order_relaxed);
	}
	return places;
}

static void log_left(struct daemon *daemon)
{
	struct queue_counts queue = {0};
	uint64_t exchanges = 0, places = sum_places(daemon->site);
	unsigned clients = atomic_load_explicit(&daemon->node.clients, memory_order_relaxed);

	for (unsigned i = 0; daemon->node.workers && i < daemon->node.worker_count; i++)
		exchanges +=
			daemon->node.workers[i] ? exchange_part(daemon->node.workers[i])->count : 0;
	queue_count(daemon->node.queue, &queue);
	if (exchanges + clients + queue.queued + queue.in_flight + places == 0)
		return;
	log_error("still held at exit, which is a bug: %" PRIu64
		  " exchanges, %u client connections, %" PRIu64 " requests queued, %" PRIu64
		  " in flight, %" PRIu64 " places at upstreams",
		exchanges, clients, queue.queued, queue.in_flight, places);
}

void tally_log(struct daemon *daemon)
{
	log_served(daemon->node.stats);
	log_left(daemon);
}
