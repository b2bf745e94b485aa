#include "admin/last_second.h"

#include <stdlib.h>
#include <string.h>

#include "admin/json_text.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "stats/stats.h"

/* The sums of one scope's rows at the look before. */
struct sums {
	enum stats_scope scope;
	unsigned rows;
	uint64_t *slots; /* stats_slots[scope] of each row */
};

static const enum stats_scope scopes[] = {STATS_ROUTE, STATS_LIMIT, STATS_UPSTREAM};
#define SCOPES (sizeof(scopes) / sizeof(scopes[0]))

struct last_second {
	uint64_t at_ns; /* of the look before */
	struct sums sums[STATS_SCOPES];
};

/* Rows that have come since begin with nothing. False without memory. */
static bool make_room(struct sums *sums, const struct stats *stats)
{
	unsigned rows = stats_row_count(stats, sums->scope), width = stats_slots[sums->scope];

	if (rows == sums->rows)
		return true;
	uint64_t *slots = realloc(sums->slots, (size_t)rows * width * sizeof(*slots));
	if (!slots)
		return false;
	memset(slots + (size_t)sums->rows * width, 0,
		(size_t)(rows - sums->rows) * width * sizeof(*slots));
	sums->slots = slots;
	sums->rows = rows;
	return true;
}

/* What a row counted since the look before; false: nothing. */
static bool take_row(struct sums *sums, const struct stats *stats, unsigned row, uint64_t counted[])
{
	unsigned width = stats_slots[sums->scope];
	uint64_t *before = sums->slots + (size_t)row * width;
	bool any = false;

	stats_sum(stats, sums->scope, row, counted);
	for (unsigned i = 0; i < width; i++) {
		uint64_t now = counted[i];
		counted[i] = now - before[i];
		before[i] = now;
		any |= counted[i] > 0;
	}
	return any;
}

struct last_second *last_second_new(const struct daemon *daemon)
{
	struct last_second *last = calloc(1, sizeof(*last));
	uint64_t counted[STATS_ROUTE_SLOTS];

	if (!last)
		return NULL;
	last->at_ns = clock_monotonic_ns();
	for (size_t i = 0; i < SCOPES; i++) {
		struct sums *sums = &last->sums[scopes[i]];
		sums->scope = scopes[i];
		if (!make_room(sums, daemon->node.stats)) {
			last_second_free(last);
			return NULL;
		}
		for (unsigned row = 0; row < sums->rows; row++)
			take_row(sums, daemon->node.stats, row, counted);
	}
	return last;
}

void last_second_free(struct last_second *last)
{
	if (!last)
		return;
	for (unsigned scope = 0; scope < STATS_SCOPES; scope++)
		free(last->sums[scope].slots);
	free(last);
}

/* ---- histograms ------------------------------------------------------------------------------ */

/* The bound of the bucket in which the 99th of a hundred is; null: above all bounds, or none is. */
static json_t *p99_of(const uint64_t slots[STATS_HISTOGRAM_SLOTS], uint64_t count)
{
	uint64_t below = 0;

	for (unsigned i = 0; count > 0 && i < STATS_BOUNDS; i++) {
		below += slots[i];
		if (below * 100 >= count * 99)
			return json_real((double)stats_bounds_ns[i] / CLOCK_NS_PER_MS);
	}
	return json_null();
}

static json_t *times_of(const uint64_t slots[STATS_HISTOGRAM_SLOTS])
{
	uint64_t count = 0;

	for (unsigned i = 0; i <= STATS_BOUNDS; i++)
		count += slots[i];
	double sum_ms = (double)slots[STATS_BOUNDS + 1] / CLOCK_NS_PER_MS;
	return json_pack("{s:I, s:f, s:o}", "count", (json_int_t)count, "mean_ms",
		count ? sum_ms / (double)count : 0.0, "p99_ms", p99_of(slots, count));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static json_t *route_of(const char *name, const uint64_t *slots)
{
	uint64_t verdicts[STATS_VERDICTS] = {0}, classes[STATS_STATUS_CLASSES] = {0};

	for (unsigned i = 0; i < STATS_STATUS_CLASSES * STATS_VERDICTS; i++) {
		verdicts[i % STATS_VERDICTS] += slots[STATS_REQUESTS + i];
		classes[i / STATS_VERDICTS] += slots[STATS_REQUESTS + i];
	}
	return json_pack("{s:o, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I, s:I, s:I}, "
			 "s:o, s:o, s:o}",
		"route", admin_json_text(name), "verdicts", "admit",
		(json_int_t)verdicts[STATS_ADMIT], "refuse", (json_int_t)verdicts[STATS_REFUSE],
		"deny", (json_int_t)verdicts[STATS_DENY], "delay",
		(json_int_t)verdicts[STATS_DELAY], "none", (json_int_t)verdicts[STATS_UNLIMITED],
		"statuses", "none", (json_int_t)classes[0], "1xx", (json_int_t)classes[1], "2xx",
		(json_int_t)classes[2], "3xx", (json_int_t)classes[3], "4xx",
		(json_int_t)classes[4], "5xx", (json_int_t)classes[5], "duration",
		times_of(slots + STATS_REQUEST_DURATION), "queue_wait",
		times_of(slots + STATS_QUEUE_WAIT), "upstream_duration",
		times_of(slots + STATS_UPSTREAM_DURATION));
}

static json_t *limit_of(const char *name, const uint64_t *slots)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:I}", "limit", admin_json_text(name), "admitted",
		(json_int_t)slots[STATS_LIMIT_ADMITTED], "refused",
		(json_int_t)slots[STATS_LIMIT_REFUSED], "delayed",
		(json_int_t)slots[STATS_LIMIT_DELAYED], "shadow_refused",
		(json_int_t)slots[STATS_LIMIT_SHADOW_REFUSED]);
}

/* Those of a scope that counted anything. NULL without memory. */
static json_t *rows_of(struct last_second *last, const struct stats *stats, enum stats_scope scope,
	json_t *(*row_of)(const char *name, const uint64_t *slots))
{
	struct sums *sums = &last->sums[scope];
	uint64_t counted[STATS_ROUTE_SLOTS];
	json_t *list = make_room(sums, stats) ? json_array() : NULL;

	for (unsigned row = 0; list && row < sums->rows; row++) {
		if (take_row(sums, stats, row, counted))
			json_array_append_new(
				list, row_of(stats_row_name(stats, scope, row), counted));
	}
	return list;
}

/* ---- what is now ----------------------------------------------------------------------------- */

static json_t *server_of(struct server *server, uint64_t now_ms)
{
	return json_pack("{s:o, s:s, s:b, s:I, s:I, s:I}", "address",
		admin_json_text(server->conf->address.text), "mode",
		server_mode_name(server_mode(server)), "up", server_may_serve(server, now_ms),
		"in_flight", (json_int_t)atomic_load(&server->state->in_flight), "responses_total",
		(json_int_t)atomic_load(&server->state->responses), "failures_total",
		(json_int_t)atomic_load(&server->state->failures));
}

static json_t *upstream_of(struct last_second *last, const struct daemon *daemon, size_t index)
{
	const struct upstream *upstream = daemon->site->upstreams[index];
	struct run_queue_counts queue;
	uint64_t counted[STATS_ROUTE_SLOTS], now_ms = clock_monotonic_ms();
	json_t *servers = json_array();

	take_row(&last->sums[STATS_UPSTREAM], daemon->node.stats,
		daemon->site->rows.upstreams[index], counted);
	run_queue_count(upstream->state->run_queue, &queue);
	for (size_t i = 0; i < upstream->server_count; i++)
		json_array_append_new(servers, server_of(&upstream->servers[i], now_ms));
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "upstream",
		admin_json_text(upstream->conf->name), "responses",
		(json_int_t)counted[STATS_UPSTREAM_REQUESTS], "failures",
		(json_int_t)counted[STATS_UPSTREAM_FAILURES], "queued", (json_int_t)queue.waiting,
		"in_flight", (json_int_t)queue.in_flight, "max_in_flight",
		(json_int_t)queue.max_in_flight, "servers", servers);
}

static json_t *upstreams_of(struct last_second *last, const struct daemon *daemon)
{
	json_t *list =
		make_room(&last->sums[STATS_UPSTREAM], daemon->node.stats) ? json_array() : NULL;

	for (size_t i = 0; list && i < daemon->site->conf->upstream_count; i++)
		json_array_append_new(list, upstream_of(last, daemon, i));
	return list;
}

json_t *last_second_take(struct last_second *last, const struct daemon *daemon)
{
	struct clock_cache cache = {0};
	char time[CLOCK_ISO_BYTES];
	uint64_t now_ns = clock_monotonic_ns(), span_ns = now_ns - last->at_ns;

	last->at_ns = now_ns;
	clock_format_iso(&cache, clock_wall_ns(), time);
	return json_pack("{s:s, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:{s:I, s:I}}", "time",
		time, "span_ms", (json_int_t)(span_ns / CLOCK_NS_PER_MS), "reloads",
		(json_int_t)atomic_load(&daemon->reloads), "client_connections",
		(json_int_t)atomic_load(&daemon->node.clients), "draining", daemon->node.stopping,
		"routes", rows_of(last, daemon->node.stats, STATS_ROUTE, route_of), "limits",
		rows_of(last, daemon->node.stats, STATS_LIMIT, limit_of), "queue",
		admin_json_queue(daemon->node.queue), "upstreams", upstreams_of(last, daemon),
		"sockets", "open", (json_int_t)atomic_load(&daemon->node.sockets), "queued_bytes",
		(json_int_t)atomic_load(&daemon->node.sends.bytes));
}
