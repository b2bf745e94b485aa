/* Limits: what is configured, how full their tables are, and changing them. */
#include <stdio.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "daemon/daemon.h"
#include "throttle/throttle.h"
#include "base/clock.h"
#include "base/log.h"
#include "conf/value.h"
#include "exchange/delay_line.h"
#include "gate/identity.h"
#include "gate/roster.h"

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

/* ---- handle override ------------------------------------------------------------------------ */

/* Overrides: one caller, known by its hash, is exempt, denied or of another plan for a while. */

#define TAIL    "/override"
#define FOR_MAX (UINT64_C(400) * 24 * 3600) /* seconds */

static uint64_t now_s(void)
{
	return clock_wall_ns() / CLOCK_NS_PER_S;
}

static json_t *override_of(const struct daemon *daemon, const struct roster_override *override)
{
	static const char *const kinds[] = {
		[ROSTER_EXEMPT] = "exempt", [ROSTER_DENY] = "deny", [ROSTER_PLAN] = "plan"};
	char until[CLOCK_ISO_BYTES];
	struct clock_cache cache = {0};

	if (override->kind == ROSTER_NO_OVERRIDE)
		return json_null();
	clock_format_iso(&cache, override->until_s * CLOCK_NS_PER_S, until);
	return json_pack("{s:s, s:s?, s:s, s:b}", "kind", kinds[override->kind], "plan",
		override->kind == ROSTER_PLAN ? roster_plan_name(daemon->roster, override->plan)
					      : NULL,
		"until", until, "persists", roster_is_kept(daemon->roster));
}

json_t *admin_override_json(const struct daemon *daemon, uint64_t caller)
{
	struct roster_override override = roster_find_override(daemon->roster, caller, now_s());

	return override_of(daemon, &override);
}

/* The caller of `HASH/override`. False with the problem sent. */
static bool read_caller(struct admin_request *request, struct throttle_key *caller)
{
	struct slice tail = slice_of(request->tail), end = SLICE(TAIL);

	if (tail.len > end.len && memcmp(tail.at + tail.len - end.len, end.at, end.len) == 0 &&
		identity_of_short((struct slice){tail.at, tail.len - end.len}, caller))
		return true;
	admin_respond_problem(request, 404,
		"An override's path is callers/HASH/override, with the 16 hexadecimal digits of "
		"the access log.");
	return false;
}

/* `"for": "1h30m"`, or a number of seconds. 0: neither. */
static uint64_t read_seconds(const json_t *value)
{
	uint64_t ms = 0;

	if (json_is_integer(value) && json_integer_value(value) > 0)
		return (uint64_t)json_integer_value(value);
	if (json_is_string(value) && scan_duration_ms(slice_of(json_string_value(value)), &ms))
		return (ms + 999) / 1000;
	return 0;
}

static bool read_plan(
	struct admin_request *request, const char *name, struct roster_override *override)
{
	const struct conf *conf = request->daemon->site->conf;

	override->kind = ROSTER_PLAN;
	for (size_t i = 0; i < conf->plan_count; i++) {
		if (strcmp(conf->plans[i].name, name) == 0) {
			override->plan = roster_plan_number(request->daemon->roster, name);
			return true;
		}
	}
	admin_respond_problem(request, 422, "There is no plan of this name.");
	return false;
}

/* False with the problem sent. */
static bool read_override(
	struct admin_request *request, const json_t *body, struct roster_override *override)
{
	const char *plan = json_string_value(json_object_get(body, "plan"));
	bool is_exempt = json_is_true(json_object_get(body, "exempt"));
	bool is_denied = json_is_true(json_object_get(body, "deny"));
	uint64_t seconds = read_seconds(json_object_get(body, "for"));

	*override = (struct roster_override){
		.kind = is_exempt ? ROSTER_EXEMPT : ROSTER_DENY, .until_s = now_s() + seconds};
	if ((plan != NULL) + is_exempt + is_denied != 1 || json_object_size(body) != 2 ||
		seconds == 0 || seconds > FOR_MAX) {
		admin_respond_problem(request, 400,
			"Expected {\"plan\": NAME, \"for\": \"1h\"}, or \"exempt\": true or "
			"\"deny\": true in place of the plan; at most 400 days.");
		return false;
	}
	return !plan || read_plan(request, plan, override);
}

/* False with the problem sent. */
static bool put(struct admin_request *request, uint64_t caller, struct roster_override *override)
{
	char detail[256];

	if (admin_is_leaving(request))
		return false;
	int error = roster_put_override(request->daemon->roster, caller, override, now_s());
	if (error == 0) {
		delay_changed(node_delays(&request->daemon->node));
		return true;
	}
	snprintf(detail, sizeof(detail), "The change can't be written to disk: %s.",
		strerror(error));
	log_error("overrides: %s", detail);
	admin_respond_problem(request, 503, detail);
	return false;
}

static void respond(struct admin_request *request, const struct throttle_key *caller)
{
	char text[IDENTITY_SHORT_BYTES];

	identity_short(caller, text);
	json_t *override = admin_override_json(request->daemon, caller->lo);
	log_info("caller %.*s: override %s%s%s by the admin interface", (int)sizeof(text), text,
		json_is_null(override) ? "ended"
				       : json_string_value(json_object_get(override, "kind")),
		json_is_null(override) ? "" : " until ",
		json_is_null(override) ? ""
				       : json_string_value(json_object_get(override, "until")));
	admin_respond_json(request, 200,
		json_pack("{s:s#, s:o}", "caller", text, (int)sizeof(text), "override", override));
}

void admin_put_override(struct admin_request *request)
{
	struct roster_override override;
	struct throttle_key caller;
	json_t *body = NULL;

	if (!read_caller(request, &caller) || !(body = admin_object(request)))
		return;
	if (read_override(request, body, &override) && put(request, caller.lo, &override))
		respond(request, &caller);
	json_decref(body);
}

void admin_delete_override(struct admin_request *request)
{
	struct roster_override none = {.kind = ROSTER_NO_OVERRIDE};
	struct throttle_key caller;

	if (!read_caller(request, &caller))
		return;
	if (roster_find_override(request->daemon->roster, caller.lo, now_s()).kind ==
		ROSTER_NO_OVERRIDE)
		admin_respond_problem(request, 404, "There is no override of this caller.");
	else if (put(request, caller.lo, &none))
		respond(request, &caller);
}
