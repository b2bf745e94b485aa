/* Limits: what is configured, and how full their tables are. */
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "relay/relay.h"
#include "throttle/throttle.h"

static const char *const algorithms[] = {
	[CONF_LIMIT_RING] = "ring",
	[CONF_LIMIT_GCRA] = "gcra",
	[CONF_LIMIT_CALENDAR] = "calendar",
	[CONF_LIMIT_CONCURRENCY] = "concurrency",
};

static json_t *verdicts_of(const struct relay *relay, size_t index)
{
	uint64_t slots[STATS_LIMIT_SLOTS];

	stats_sum(relay->stats, STATS_LIMIT, relay->site->rows.limits[index], slots);
	return json_pack("{s:I, s:I, s:I, s:I}", "admitted",
		(json_int_t)slots[STATS_LIMIT_ADMITTED], "refused",
		(json_int_t)slots[STATS_LIMIT_REFUSED], "delayed",
		(json_int_t)slots[STATS_LIMIT_DELAYED], "shadow_refused",
		(json_int_t)slots[STATS_LIMIT_SHADOW_REFUSED]);
}

static json_t *limit_of(const struct relay *relay, size_t index)
{
	const struct conf_limit *limit = &relay->site->conf->limits[index];
	struct throttle_counters counters = {0};
	int number = throttle_table_find(relay->throttles, limit->name);

	if (number >= 0)
		throttle_table_counters(relay->throttles, (uint32_t)number, &counters);
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:o}", "name",
		limit->name, "algorithm", algorithms[limit->algorithm], "unit",
		limit->unit == CONF_UNIT_BYTES ? "bytes" : "requests", "amount",
		(json_int_t)limit->amount, "per_ms", (json_int_t)(limit->per_ns / 1000000),
		"shadow", limit->shadow, "callers", (json_int_t)counters.entries, "capacity",
		(json_int_t)counters.capacity, "evicted", (json_int_t)counters.evicted,
		"overflowed", (json_int_t)counters.overflowed, "verdicts",
		verdicts_of(relay, index));
}

void admin_get_limits(struct admin_request *request)
{
	const struct relay *relay = request->relay;
	json_t *list = json_array();

	for (size_t i = 0; i < relay->site->conf->limit_count; i++)
		json_array_append_new(list, limit_of(relay, i));
	admin_respond_json(request, 200, json_pack("{s:o}", "limits", list));
}

void admin_get_limit(struct admin_request *request)
{
	const struct relay *relay = request->relay;

	for (size_t i = 0; i < relay->site->conf->limit_count; i++) {
		if (strcmp(relay->site->conf->limits[i].name, request->tail) == 0) {
			admin_respond_json(request, 200, limit_of(relay, i));
			return;
		}
	}
	admin_respond_problem(request, 404, "There is no limit of this name.");
}
