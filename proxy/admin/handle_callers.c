/* One caller, by its key or the hash that logs have: what it has used of each limit, and forgetting
 * that. Limits that the fleet's store counts are asked there, and know callers by their keys only.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "daemon/daemon.h"
#include "exchange/delay_line.h"
#include "gate/gate.h"
#include "throttle/throttle.h"

#ifdef HAVE_REDIS
#include "admin/fleet_calls.h"
#include "fleet/fleet.h"
#include "fleet/reserve.h"
#include "fleet/split.h"
#endif

#define NS_PER_MS 1000000

/* A caller of one limit, as the table or the store has it, and what it has used. */
struct subject {
	const struct conf_limit *limit;
	struct throttle_key caller;
	uint32_t number;
	bool is_at_store, is_used;
	struct throttle_outcome outcome;
};

/* What was asked of subjects. */
struct subjects {
	bool resets;
	long count;
	struct subject list[];
};

/* ---- limits of the fleet --------------------------------------------------------------------- */

#ifdef HAVE_REDIS

static bool is_of_store(const struct daemon *daemon, const struct conf_limit *limit)
{
	return limit->of_fleet &&
	       inquiry_is_of_store(daemon->node.fleet, limit,
		       gate_limit_number(daemon->site->gate, limit), daemon_throttle_ns(daemon));
}

/* Of a limit that is divided, what is free on this node. */
static void lessen(const struct daemon *daemon, struct subject *subject, uint64_t now_ns)
{
	const struct conf_limit *limit = subject->limit;

	if (!limit->of_fleet || limit->fleet_way != CONF_FLEET_SPLIT)
		return;
	struct share share = shares_read(
		fleet_shares(daemon->node.fleet), subject->number, limit->amount, now_ns);
	if (share.kind == SHARE_UNITS && share.units < limit->amount)
		reserve_lessen(&subject->outcome, limit->amount - share.units);
}

#else

static bool is_of_store(const struct daemon *daemon, const struct conf_limit *limit)
{
	(void)daemon;
	(void)limit;
	return false;
}

static void lessen(const struct daemon *daemon, struct subject *subject, uint64_t now_ns)
{
	(void)daemon;
	(void)subject;
	(void)now_ns;
}

#endif

/* ---- which ----------------------------------------------------------------------------------- */

/* Is it a caller of this limit? By a hash each could be; by a key, the limit's own key says it. */
static bool find_subject(
	const struct admin_request *request, const char *key, struct subject *subject)
{
	const struct daemon *daemon = request->daemon;
	int number = throttle_table_find(daemon->node.throttles, subject->limit->name);

	subject->is_at_store = is_of_store(daemon, subject->limit);
	if (subject->is_at_store)
		return key && gate_find_shared_caller(daemon->site->gate, subject->limit,
				      slice_of(key), &subject->caller);
	if (key)
		return gate_find_caller(daemon->site->gate, subject->limit, slice_of(key),
			&subject->caller, &subject->number);
	subject->number = (uint32_t)number;
	return number >= 0 && identity_of_short(slice_of(request->tail), &subject->caller);
}

/* The limits that ?limit= leaves (all without it) which a caller of ?key=, or of a hash in the
 * path, can have. `found` has room for all limits. Returns how many there are, or -1 with the
 * problem sent. */
static long find_subjects(struct admin_request *request, struct subject *found)
{
	const struct site *site = request->daemon->site;
	const char *key = admin_argument(request, "key");
	const char *name = admin_argument(request, "limit");
	bool known = !name;
	long count = 0;

	struct throttle_key hash;

	if (*request->tail) {
		key = NULL;
		if (!identity_of_short(slice_of(request->tail), &hash)) {
			admin_respond_problem(request, 404,
				"A caller's hash has 16 hexadecimal digits, as in the access log.");
			return -1;
		}
	} else if (!key || !*key) {
		admin_respond_problem(
			request, 400, "Name the caller by ?key=, the value of the limits' keys.");
		return -1;
	}
	for (size_t i = 0; i < site->conf->limit_count; i++) {
		struct subject subject = {.limit = &site->conf->limits[i]};
		if (name && strcmp(subject.limit->name, name) != 0)
			continue;
		if (!key && name && is_of_store(request->daemon, subject.limit)) {
			admin_respond_problem(request, 404,
				"The limit is shared by the fleet: its store finds callers by "
				"?key= only.");
			return -1;
		}
		known = true;
		if (find_subject(request, key, &subject))
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

json_t *admin_ban_ms(const struct throttle_outcome *outcome)
{
	return outcome->banned ? wait_of(outcome->retry_after_ns) : json_null();
}

static json_t *usage_of(const struct subject *subject)
{
	const struct throttle_outcome *outcome = &subject->outcome;
	bool used = subject->is_used;
	uint64_t quota = used ? outcome->quota : subject->limit->amount;
	uint64_t remaining = used ? outcome->remaining : quota;

	return json_pack("{s:s, s:o, s:I, s:I, s:I, s:o, s:o, s:b, s:o, s:b}", "limit",
		subject->limit->name, "caller", caller_of(&subject->caller), "quota",
		(json_int_t)quota, "used", (json_int_t)(quota > remaining ? quota - remaining : 0),
		"remaining", (json_int_t)remaining, "more_ms",
		used ? wait_of(outcome->more_ns) : json_integer(0), "clear_ms",
		used ? wait_of(outcome->reset_ns) : json_integer(0), "banned",
		used && outcome->banned, "banned_ms", used ? admin_ban_ms(outcome) : json_null(),
		"shadow", subject->limit->shadow);
}

/* {"key": KEY, NAME: list}, or with "caller" instead of the key. Takes over the list. */
static void respond(struct admin_request *request, const char *name, json_t *list)
{
	struct throttle_key hash;
	const char *key = admin_argument(request, "key");

	if (identity_of_short(slice_of(request->tail), &hash)) {
		admin_respond_json(request, 200,
			json_pack("{s:s, s:o, s:o}", "caller", request->tail, name, list,
				"override", admin_override_json(request->daemon, hash.lo)));
		return;
	}
	json_t *answer = json_pack("{s:o, s:o}", "key", admin_json_text(key), name, list);
	const char *plan = admin_plan_of_key(request->daemon, key);
	if (answer && strcmp(name, "limits") == 0)
		json_object_set_new(answer, "plan", plan ? json_string(plan) : json_null());
	admin_respond_json(request, 200, answer);
}

/* Looks the caller up in the node's table; resets it there, if that is asked. */
static void look_up(
	const struct daemon *daemon, bool resets, struct subject *subject, uint64_t now_ns)
{
	struct throttle_table *throttles = daemon->node.throttles;

	if (resets) {
		subject->is_used =
			throttle_reset(throttles, subject->number, subject->caller, now_ns);
		return;
	}
	subject->is_used = throttle_explain(
		throttles, subject->number, subject->caller, now_ns, &subject->outcome);
	if (subject->is_used)
		lessen(daemon, subject, now_ns);
}

/* Those of the store are known. By its hash, a caller is known by what limits hold of it. */
static void look_up_all(struct admin_request *request, struct subjects *subjects)
{
	uint64_t now_ns = daemon_throttle_ns(request->daemon);
	json_t *list = json_array();

	for (long i = 0; i < subjects->count; i++) {
		struct subject *subject = &subjects->list[i];
		if (!subject->is_at_store)
			look_up(request->daemon, subjects->resets, subject, now_ns);
		if (subjects->resets && subject->is_used)
			json_array_append_new(list, json_string(subject->limit->name));
		else if (!subjects->resets && (subject->is_used || !*request->tail))
			json_array_append_new(list, usage_of(subject));
	}
	if (subjects->resets)
		delay_changed(node_delays(&request->daemon->node));
	respond(request, subjects->resets ? "reset" : "limits", list);
}

#ifdef HAVE_REDIS

/* What this node has admitted of a limit with fleet = relaxed, published or not: looks it up, or
 * forgets it before the store does. */
static void look_up_own(const struct admin_request *request, bool resets, struct subject *subject)
{
	const struct daemon *daemon = request->daemon;
	const char *key = admin_argument(request, "key");
	struct subject own = {.limit = subject->limit};

	if (subject->limit->fleet_way != CONF_FLEET_RELAXED || !key ||
		!gate_find_caller(
			daemon->site->gate, own.limit, slice_of(key), &own.caller, &own.number))
		return;
	look_up(daemon, resets, &own, daemon_throttle_ns(daemon));
	subject->is_used = own.is_used;
	if (own.is_used && !resets && own.outcome.remaining < subject->outcome.remaining)
		subject->outcome = own.outcome;
}

static void on_answer(struct fleet_call *call)
{
	struct subjects *subjects = call->more;
	unsigned next = 0;

	for (long i = 0; i < subjects->count; i++) {
		struct subject *subject = &subjects->list[i];
		if (!subject->is_at_store)
			continue;
		subject->outcome = call->inquiry.limits[next++].outcome;
		if (!subjects->resets)
			look_up_own(call->request, false, subject);
		/* What is in flight is not forgotten. */
		subject->is_used = !subjects->resets || subject->is_used ||
				   subject->outcome.banned ||
				   (subject->limit->algorithm != CONF_LIMIT_CONCURRENCY &&
					   subject->outcome.remaining < subject->outcome.quota);
	}
	look_up_all(call->request, subjects);
}

/* Asks it, and the rest is done then; `subjects` is its. */
static void ask_store(struct admin_request *request, struct subjects *subjects, unsigned count)
{
	struct fleet_call *call =
		count <= INQUIRY_MOST ? fleet_calls_add(request, on_answer) : NULL;

	if (!call) {
		free(subjects);
		if (count > INQUIRY_MOST)
			admin_respond_problem(request, 400,
				"There are too many limits of the fleet; select one by ?limit=.");
		return;
	}
	call->more = subjects;
	call->inquiry.forgets = subjects->resets;
	for (long i = 0; i < subjects->count; i++) {
		struct subject *subject = &subjects->list[i];
		if (subject->is_at_store && subjects->resets)
			look_up_own(request, true, subject);
		if (subject->is_at_store)
			call->inquiry.limits[call->inquiry.count++] = (struct inquiry_limit){
				.limit = subject->limit, .caller = subject->caller};
	}
	fleet_calls_begin(call);
}

#else

static void ask_store(struct admin_request *request, struct subjects *subjects, unsigned count)
{
	(void)count; /* none is at a store */
	look_up_all(request, subjects);
	free(subjects);
}

#endif

static void respond_about(struct admin_request *request, bool resets)
{
	size_t most = request->daemon->site->conf->limit_count;
	struct subjects *subjects = calloc(1, sizeof(*subjects) + most * sizeof(struct subject));
	unsigned at_store = 0;

	if (!subjects) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	subjects->resets = resets;
	subjects->count = find_subjects(request, subjects->list);
	for (long i = 0; i < subjects->count; i++)
		at_store += subjects->list[i].is_at_store;
	if (at_store > 0) {
		ask_store(request, subjects, at_store);
		return;
	}
	if (subjects->count >= 0)
		look_up_all(request, subjects);
	free(subjects);
}

void admin_get_caller(struct admin_request *request)
{
	respond_about(request, false);
}

void admin_get_callers(struct admin_request *request)
{
	if (admin_argument(request, "key"))
		admin_get_caller(request);
	else
		admin_get_busiest(request);
}

void admin_delete_caller(struct admin_request *request)
{
	if (strchr(request->tail, '/'))
		admin_delete_override(request);
	else
		respond_about(request, true);
}
