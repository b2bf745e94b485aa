/* Overrides: one caller, known by its hash, is exempt, denied or of another plan for a while. */
#include <stdio.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "base/clock.h"
#include "base/log.h"
#include "conf/value.h"
#include "daemon/daemon.h"
#include "exchange/delay_line.h"
#include "gate/identity.h"
#include "gate/roster.h"

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
