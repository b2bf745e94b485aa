/* One caller, by its key or the hash that logs have: what it has used of each limit, and forgetting
 * that. */
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "daemon/relay.h"
#include "gate/gate.h"
#include "throttle/throttle.h"

#define NS_PER_MS 1000000

/* A caller of one limit, as the table has it. */
struct subject {
	const struct conf_limit *limit;
	struct throttle_key caller;
	uint32_t number;
};

/* Is it a caller of this limit? By a hash each could be; by a key, the limit's own key says it. */
static bool find_subject(
	const struct admin_request *request, const char *key, struct subject *subject)
{
	const struct relay *relay = request->relay;
	int number = throttle_table_find(relay->node.throttles, subject->limit->name);

	if (key)
		return gate_find_caller(relay->site->gate, subject->limit, slice_of(key),
			&subject->caller, &subject->number);
	subject->number = (uint32_t)number;
	return number >= 0 && identity_of_short(slice_of(request->tail), &subject->caller);
}

/* The limits of the node that ?limit= leaves (all without it) which a caller of ?key=, or of a hash
 * in the path, can have. `found` has room for all limits. Returns how many there are, or -1 with
 * the problem sent. */
static long find_subjects(struct admin_request *request, struct subject *found)
{
	const struct site *site = request->relay->site;
	const char *key = admin_argument(request, "key");
	const char *name = admin_argument(request, "limit");
	bool known = !name;
	long count = 0;

	struct throttle_key hash;

	if (*request->tail) {
		key = NULL;
		if (!identity_of_short(slice_of(request->tail), &hash)) {
			admin_respond_problem(request, 404,
				"A caller's hash is the 16 digits that the access log has.");
			return -1;
		}
	} else if (!key || !*key) {
		admin_respond_problem(request, 400,
			"A caller is named by ?key=, the value that its limits' keys take.");
		return -1;
	}
	for (size_t i = 0; i < site->conf->limit_count; i++) {
		struct subject subject = {.limit = &site->conf->limits[i]};
		if (name && strcmp(subject.limit->name, name) != 0)
			continue;
		if (subject.limit->of_fleet && name) {
			admin_respond_problem(request, 404,
				"The limit is of the fleet: only its store knows the callers.");
			return -1;
		}
		known = true;
		if (!subject.limit->of_fleet && find_subject(request, key, &subject))
			found[count++] = subject;
	}
	if (!known) {
		admin_respond_problem(request, 404, "There is no limit of this name.");
		return -1;
	}
	return count;
}

static json_t *caller_of(const struct throttle_key *caller)
{
	char text[IDENTITY_SHORT_BYTES];

	identity_short(caller, text);
	return json_stringn(text, sizeof(text));
}

static json_t *wait_of(uint64_t ns)
{
	return ns == THROTTLE_NEVER ? json_null()
				    : json_integer((json_int_t)((ns + NS_PER_MS - 1) / NS_PER_MS));
}

static json_t *usage_of(const struct relay *relay, const struct subject *subject, uint64_t now_ns)
{
	struct throttle_outcome outcome;
	bool used = throttle_explain(
		relay->node.throttles, subject->number, subject->caller, now_ns, &outcome);
	uint64_t quota = used ? outcome.quota : subject->limit->amount;
	uint64_t remaining = used ? outcome.remaining : quota;

	return json_pack("{s:s, s:o, s:I, s:I, s:I, s:o, s:o, s:b, s:b}", "limit",
		subject->limit->name, "caller", caller_of(&subject->caller), "quota",
		(json_int_t)quota, "used", (json_int_t)(quota > remaining ? quota - remaining : 0),
		"remaining", (json_int_t)remaining, "more_ms",
		used ? wait_of(outcome.more_ns) : json_integer(0), "clear_ms",
		used ? wait_of(outcome.reset_ns) : json_integer(0), "banned",
		used && outcome.banned, "shadow", subject->limit->shadow);
}

/* {"key": KEY, NAME: list}, or with "caller" instead of the key. Takes over the list. */
static void respond(struct admin_request *request, const char *name, json_t *list)
{
	struct throttle_key hash;
	const char *key = admin_argument(request, "key");

	if (identity_of_short(slice_of(request->tail), &hash)) {
		admin_respond_json(request, 200,
			json_pack("{s:s, s:o, s:o}", "caller", request->tail, name, list,
				"override", admin_override_json(request->relay, hash.lo)));
		return;
	}
	json_t *answer = json_pack("{s:o, s:o}", "key", admin_json_text(key), name, list);
	const char *plan = admin_plan_of_key(request->relay, key);
	if (answer && strcmp(name, "limits") == 0)
		json_object_set_new(answer, "plan", plan ? json_string(plan) : json_null());
	admin_respond_json(request, 200, answer);
}

/* By its hash, a caller is known by what limits hold of it. */
static bool is_used(const struct relay *relay, const struct subject *subject, uint64_t now_ns)
{
	struct throttle_outcome outcome;

	return throttle_explain(
		relay->node.throttles, subject->number, subject->caller, now_ns, &outcome);
}

/* Answers with a list of what `describe` gives for each subject that is asked for; NULL: nothing of
 * this one. */
static void respond_each(struct admin_request *request, const char *name,
	json_t *(*describe)(
		struct admin_request *request, const struct subject *subject, uint64_t now_ns))
{
	struct subject *found = calloc(request->relay->site->conf->limit_count + 1, sizeof(*found));
	uint64_t now_ns = relay_throttle_ns(request->relay);

	if (!found) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	long count = find_subjects(request, found);
	if (count >= 0) {
		json_t *list = json_array();
		for (long i = 0; i < count; i++) {
			json_t *item = describe(request, &found[i], now_ns);
			if (item)
				json_array_append_new(list, item);
		}
		respond(request, name, list);
	}
	free(found);
}

static json_t *describe_used(
	struct admin_request *request, const struct subject *subject, uint64_t now_ns)
{
	const struct relay *relay = request->relay;

	if (*request->tail && !is_used(relay, subject, now_ns))
		return NULL;
	return usage_of(relay, subject, now_ns);
}

void admin_get_caller(struct admin_request *request)
{
	respond_each(request, "limits", describe_used);
}

void admin_get_callers(struct admin_request *request)
{
	if (admin_argument(request, "key"))
		admin_get_caller(request);
	else
		admin_get_busiest(request);
}

/* Forgets what it used, and gives the limit's name. */
static json_t *reset(struct admin_request *request, const struct subject *subject, uint64_t now_ns)
{
	if (!throttle_reset(
		    request->relay->node.throttles, subject->number, subject->caller, now_ns))
		return NULL;
	return json_string(subject->limit->name);
}

void admin_delete_caller(struct admin_request *request)
{
	if (strchr(request->tail, '/'))
		admin_delete_override(request);
	else
		respond_each(request, "reset", reset);
}
