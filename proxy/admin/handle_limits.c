/* Limits: what is configured, how full their tables are, and changing them. */
#include <stdio.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "daemon/daemon.h"
#include "throttle/throttle.h"

static const char *const algorithms[] = {
	[CONF_LIMIT_RING] = "ring",
	[CONF_LIMIT_GCRA] = "gcra",
	[CONF_LIMIT_CALENDAR] = "calendar",
	[CONF_LIMIT_CONCURRENCY] = "concurrency",
};

static const char *const calendars[] = {
	[CONF_CALENDAR_HOUR] = "hour",
	[CONF_CALENDAR_DAY] = "day",
	[CONF_CALENDAR_WEEK] = "week",
	[CONF_CALENDAR_MONTH] = "month",
};

#define PER_BYTES 32

/* As the ini file has it: a calendar's word, or a time in the largest unit that divides it. NULL:
 * the limit has no period. */
static const char *write_per(const struct conf_limit *limit, char text[static PER_BYTES])
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = {{UINT64_C(86400000000000), "d"}, {UINT64_C(3600000000000), "h"},
		{UINT64_C(60000000000), "m"}, {UINT64_C(1000000000), "s"}, {1000000, "ms"}};
	size_t unit = 0;

	if (limit->algorithm == CONF_LIMIT_CALENDAR)
		return calendars[limit->calendar];
	if (limit->per_ns == 0)
		return NULL;
	while (limit->per_ns % units[unit].ns != 0 && unit + 1 < sizeof(units) / sizeof(units[0]))
		unit++;
	snprintf(text, PER_BYTES, "%llu%s", (unsigned long long)(limit->per_ns / units[unit].ns),
		units[unit].name);
	return text;
}

static json_t *verdicts_of(const struct daemon *daemon, size_t index)
{
	uint64_t slots[STATS_LIMIT_SLOTS];

	stats_sum(daemon->node.stats, STATS_LIMIT, daemon->site->rows.limits[index], slots);
	return json_pack("{s:I, s:I, s:I, s:I}", "admitted",
		(json_int_t)slots[STATS_LIMIT_ADMITTED], "refused",
		(json_int_t)slots[STATS_LIMIT_REFUSED], "delayed",
		(json_int_t)slots[STATS_LIMIT_DELAYED], "shadow_refused",
		(json_int_t)slots[STATS_LIMIT_SHADOW_REFUSED]);
}

static json_t *limit_of(const struct daemon *daemon, size_t index)
{
	const struct conf_limit *limit = &daemon->site->conf->limits[index];
	struct throttle_counters counters = {0};
	int number = throttle_table_find(daemon->node.throttles, limit->name);
	char per[PER_BYTES];

	if (number >= 0)
		throttle_table_counters(daemon->node.throttles, (uint32_t)number, &counters);
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s?, s:b, s:b, s:I, s:I, s:I, s:I, s:o}",
		"name", limit->name, "algorithm", algorithms[limit->algorithm], "unit",
		limit->unit == CONF_UNIT_BYTES ? "bytes" : "requests", "amount",
		(json_int_t)limit->amount, "per_ms", (json_int_t)(limit->per_ns / 1000000), "per",
		write_per(limit, per), "shadow", limit->shadow, "changed",
		conf_is_revised(daemon->site->conf, "limit", limit->name), "callers",
		(json_int_t)counters.entries, "capacity", (json_int_t)counters.capacity, "evicted",
		(json_int_t)counters.evicted, "overflowed", (json_int_t)counters.overflowed,
		"verdicts", verdicts_of(daemon, index));
}

void admin_get_limits(struct admin_request *request)
{
	const struct daemon *daemon = request->daemon;
	json_t *list = json_array();

	for (size_t i = 0; i < daemon->site->conf->limit_count; i++)
		json_array_append_new(list, limit_of(daemon, i));
	admin_respond_json(request, 200, json_pack("{s:o}", "limits", list));
}

/* -1 with the problem sent. */
static long find_limit(struct admin_request *request)
{
	const struct conf *conf = request->daemon->site->conf;

	for (size_t i = 0; i < conf->limit_count; i++) {
		if (strcmp(conf->limits[i].name, request->tail) == 0)
			return (long)i;
	}
	admin_respond_problem(request, 404, "There is no limit of this name.");
	return -1;
}

void admin_get_limit(struct admin_request *request)
{
	long index = find_limit(request);

	if (index >= 0)
		admin_respond_json(request, 200, limit_of(request->daemon, (size_t)index));
}

/* ---- changes --------------------------------------------------------------------------------- */

#define CHANGES_MAX  16
#define NUMBER_BYTES 32

struct change {
	struct conf_revision revisions[CHANGES_MAX];
	char numbers[CHANGES_MAX][NUMBER_BYTES];
	size_t count;
};

/* A setting as its line would have it. False when JSON's value can't be one. */
static bool add_change(
	struct change *change, const char *name, const char *key, const json_t *value)
{
	char *number = change->numbers[change->count];
	const char *text = NULL;

	if (change->count == CHANGES_MAX)
		return false;
	if (json_is_integer(value)) {
		snprintf(number, NUMBER_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		text = number;
	} else if (json_is_boolean(value)) {
		text = json_is_true(value) ? "on" : "off";
	} else if (json_is_string(value)) {
		text = json_string_value(value);
	} else if (!json_is_null(value)) {
		return false;
	}
	change->revisions[change->count++] = (struct conf_revision){"limit", name, key, text};
	return true;
}

static bool read_changes(struct change *change, const char *name, const json_t *body)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)body, key, value)
	{
		if (!add_change(change, name, key, value))
			return false;
	}
	return change->count > 0;
}

/* A merge patch (RFC 7396) of the section's settings; null is the default. */
void admin_patch_limit(struct admin_request *request)
{
	struct change change = {.count = 0};
	json_t *body;

	if (find_limit(request) < 0 || !(body = admin_object(request)))
		return;
	if (!read_changes(&change, request->tail, body)) {
		admin_respond_problem(request, 400,
			"Expected settings of [limit] such as {\"rate\": \"200 per 10s\"}.");
	} else if (admin_revise(request, change.revisions, change.count)) {
		json_t *answer = limit_of(request->daemon, (size_t)find_limit(request));
		json_object_set_new(answer, "persists", json_false());
		json_object_set_new(answer, "detail", json_string(ADMIN_UNTIL_RELOAD));
		admin_respond_json(request, 200, answer);
	}
	json_decref(body);
}
