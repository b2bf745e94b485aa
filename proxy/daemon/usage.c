#include "daemon/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "stats/usage_sums.h"
#include "stats/usage_file.h"
#include "exchange/exchange.h"
#include "queue/queue.h"
#include "queue/run_queue.h"
#include "site/site.h"
#include "stats/stats.h"
#include "upstream/server_state.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

#define TRIM_EVERY_S 60

struct usage {
	char *folder;
	uint64_t most_bytes;
	uint64_t interval_ms;
	uint64_t since_s; /* unix time of the interval's beginning, in whose hour it is counted */
	struct event *timer;
	bool has_failed;    /* which the log reports */
	bool is_full;       /* the hour's file has most_bytes, which the log reports */
	uint64_t trim_at_s; /* when the files are looked at again */
	unsigned workers;
	struct usage_counts *counts;
	struct usage_table *taken; /* [workers] */
};

/* From now on. */
static bool begin_interval(struct usage *usage)
{
	uint64_t now_ms = clock_wall_ns() / CLOCK_NS_PER_MS;
	uint64_t delay_ms = usage_file_delay_ms(now_ms, usage->interval_ms);
	const struct timeval delay = {.tv_sec = (time_t)(delay_ms / 1000),
		.tv_usec = (suseconds_t)(delay_ms % 1000) * 1000};

	usage->since_s = now_ms / 1000;
	return event_add(usage->timer, &delay) == 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	usage_write(daemon);
	begin_interval(daemon->usage);
}

static void usage_free(struct usage *usage)
{
	if (usage->timer)
		event_free(usage->timer);
	for (unsigned i = 0; usage->counts && i < usage->workers; i++) {
		usage_table_clear(&usage->counts[i].table);
		pthread_mutex_destroy(&usage->counts[i].lock);
	}
	free(usage->counts);
	free(usage->taken);
	free(usage->folder);
	free(usage);
}

/* False without memory. */
static bool fill(struct usage *usage, struct daemon *daemon, const struct conf *conf)
{
	usage->workers = conf->workers;
	usage->most_bytes = conf->usage.bytes;
	usage->interval_ms = conf->usage.interval_ms;
	if (asprintf(&usage->folder, "%s/usage", conf->state) < 0) {
		usage->folder = NULL;
		return false;
	}
	usage->taken = calloc(usage->workers, sizeof(*usage->taken));
	if (posix_memalign((void **)&usage->counts, _Alignof(struct usage_counts),
		    usage->workers * sizeof(*usage->counts)) != 0) {
		usage->counts = NULL;
		return false;
	}
	for (unsigned i = 0; i < usage->workers; i++) {
		usage->counts[i].table = (struct usage_table){0};
		pthread_mutex_init(&usage->counts[i].lock, NULL);
	}
	usage->timer = evtimer_new(daemon->node.loop.base, on_timer, daemon);
	return usage->taken && usage->timer && begin_interval(usage);
}

bool usage_begin(struct daemon *daemon, const struct conf *conf)
{
	if (conf->usage.interval_ms == 0)
		return true;
	struct usage *usage = calloc(1, sizeof(*usage));
	if (!usage || !fill(usage, daemon, conf)) {
		log_error("usage: no memory");
		if (usage)
			usage_free(usage);
		return false;
	}
	daemon->usage = usage;
	if (mkdir(usage->folder, 0750) == 0 || errno == EEXIST)
		return true;
	log_error("usage: %s can't be made: %s", usage->folder, strerror(errno));
	return false;
}

/* Once a minute: it looks at each file. */
static void trim(struct usage *usage)
{
	uint64_t now_s = clock_monotonic_ms() / 1000;
	unsigned removed;

	if (now_s < usage->trim_at_s)
		return;
	usage->trim_at_s = now_s + TRIM_EVERY_S;
	removed = usage_file_trim(usage->folder, usage->most_bytes);
	if (removed > 0)
		log_warn("usage: the oldest %u hours are removed, for usage_size", removed);
}

/* Takes the workers' tables. Returns how many rows they have. */
static size_t take_tables(struct usage *usage)
{
	size_t rows = 0;

	for (unsigned i = 0; i < usage->workers; i++) {
		pthread_mutex_lock(&usage->counts[i].lock);
		usage->taken[i] = usage->counts[i].table;
		usage->counts[i].table = (struct usage_table){0};
		pthread_mutex_unlock(&usage->counts[i].lock);
		rows += usage->taken[i].count;
	}
	return rows;
}

/* The hour that is being written is never removed, so callers without end would fill the disk. */
static void bound_hour(struct usage *usage)
{
	bool is_full = usage_file_bytes(usage->folder, usage->since_s) >= usage->most_bytes;

	if (is_full && !usage->is_full)
		log_warn("usage: the file of this hour alone has reached usage_size; callers are "
			 "counted together until the next hour");
	usage->is_full = is_full;
	for (unsigned i = 0; is_full && i < usage->workers; i++)
		usage_table_fold(&usage->taken[i]);
}

static void report(struct usage *usage, size_t rows, int error)
{
	if (error != 0 && !usage->has_failed)
		log_error(
			"usage: %s can't be written, %zu rows are lost, and more until it can: %s",
			usage->folder, rows, strerror(error));
	if (error == 0 && usage->has_failed)
		log_info("usage: %s is written again", usage->folder);
	usage->has_failed = error != 0;
}

void usage_write(struct daemon *daemon)
{
	struct usage *usage = daemon->usage;
	size_t rows = take_tables(usage);

	if (rows > 0) {
		bound_hour(usage);
		report(usage, rows,
			usage_file_append(usage->folder, usage->since_s, usage->taken,
				usage->workers, daemon->node.stats));
	}
	for (unsigned i = 0; i < usage->workers; i++)
		usage_table_clear(&usage->taken[i]);
	trim(usage);
}

void usage_end(struct daemon *daemon)
{
	if (!daemon->usage)
		return;
	usage_write(daemon);
	usage_free(daemon->usage);
	daemon->usage = NULL;
}

struct usage_counts *usage_counts_of(const struct daemon *daemon, unsigned worker)
{
	return daemon->usage ? &daemon->usage->counts[worker] : NULL;
}

const char *usage_folder(const struct daemon *daemon)
{
	return daemon->usage ? daemon->usage->folder : NULL;
}

/* ---- tally ---------------------------------------------------------------------------------- */

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
