/* The callers that limits admit or refuse most, over all workers. */
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "gate/identity.h"
#include "http/forwarded.h"
#include "stats/busiest.h"
#include "throttle/throttle.h"

#define COUNT_DEFAULT 10
#define COUNT_MAX     384

/* One row of the answer. */
struct busy_caller {
	const struct conf_limit *limit;
	struct busiest_caller caller;
	uint64_t counts[BUSIEST_KINDS], errors[BUSIEST_KINDS];
};

struct busy_list {
	struct busy_caller *rows;
	size_t count;
	enum busiest_kind sort;
	uint64_t since_ns;
};

/* Adds what the workers counted of one limit. */
static bool add_workers(const struct daemon *daemon, size_t limit, enum busiest_kind kind,
	uint64_t now_ns, struct busiest_sum *sum)
{
	unsigned row = daemon->site->rows.limits[limit];

	for (unsigned i = 0; i < daemon->node.worker_count; i++) {
		const struct busiest *busiest =
			busiest_row_of(daemon->node.workers[i]->busiest, row, kind);
		if (busiest && !busiest_read(busiest, now_ns, sum))
			return false;
	}
	return true;
}

/* The order of the answer: most refused are those that a limit refuses, in shadow mode or not. */
static bool sum_sorted(const struct daemon *daemon, size_t limit, enum busiest_kind sort,
	uint64_t now_ns, struct busiest_sum *sum)
{
	bool good = add_workers(daemon, limit, sort, now_ns, sum) &&
		    (sort != BUSIEST_REFUSED ||
			    add_workers(daemon, limit, BUSIEST_SHADOW_REFUSED, now_ns, sum));

	busiest_sum_sort(sum);
	return good;
}

static uint64_t find_count(const struct busiest_sum *sum, uint64_t caller)
{
	for (size_t i = 0; i < sum->count; i++) {
		if (sum->callers[i].caller == caller)
			return sum->callers[i].count;
	}
	return 0;
}

/* The first `wanted` of one limit. */
static bool add_rows(struct busy_list *list, const struct conf_limit *limit,
	const struct busiest_sum *by, const struct busiest_sum sums[BUSIEST_KINDS], size_t wanted)
{
	size_t count = by->count < wanted ? by->count : wanted;
	struct busy_caller *rows = realloc(list->rows, (list->count + count + 1) * sizeof(*rows));

	if (!rows)
		return false;
	list->rows = rows;
	for (size_t i = 0; i < count; i++) {
		struct busy_caller *row = &rows[list->count++];
		*row = (struct busy_caller){.limit = limit, .caller = by->callers[i]};
		for (unsigned kind = 0; kind < BUSIEST_KINDS; kind++) {
			row->counts[kind] = find_count(&sums[kind], row->caller.caller);
			row->errors[kind] = sums[kind].error;
		}
	}
	if (by->since_ns && (!list->since_ns || by->since_ns < list->since_ns))
		list->since_ns = by->since_ns;
	return true;
}

static bool add_limit(
	const struct daemon *daemon, struct busy_list *list, size_t limit, size_t wanted)
{
	struct busiest_sum sums[BUSIEST_KINDS] = {{0}}, sorted = {0};
	uint64_t now_ns = clock_monotonic_ns();
	bool good = sum_sorted(daemon, limit, list->sort, now_ns, &sorted);

	for (unsigned kind = 0; good && kind < BUSIEST_KINDS; kind++) {
		good = add_workers(daemon, limit, kind, now_ns, &sums[kind]);
		busiest_sum_sort(&sums[kind]);
	}
	good = good && add_rows(list, &daemon->site->conf->limits[limit], &sorted, sums, wanted);
	for (unsigned kind = 0; kind < BUSIEST_KINDS; kind++)
		busiest_sum_clear(&sums[kind]);
	busiest_sum_clear(&sorted);
	return good;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void add_usage(const struct daemon *daemon, const struct busy_caller *row, json_t *object)
{
	struct throttle_key key = {.lo = row->caller.caller};
	struct throttle_outcome outcome;
	int number = throttle_table_find(daemon->node.throttles, row->limit->name);

	if (number < 0 || !throttle_explain(daemon->node.throttles, (uint32_t)number, key,
				  daemon_throttle_ns(daemon), &outcome))
		outcome = (struct throttle_outcome){
			.quota = row->limit->amount, .remaining = row->limit->amount};
	uint64_t used = outcome.quota > outcome.remaining ? outcome.quota - outcome.remaining : 0;
	json_object_set_new(object, "quota", json_integer((json_int_t)outcome.quota));
	json_object_set_new(object, "used", json_integer((json_int_t)used));
	json_object_set_new(object, "banned", json_boolean(outcome.banned));
	json_object_set_new(object, "banned_ms", admin_ban_ms(&outcome));
}

static json_t *row_of(const struct daemon *daemon, const struct busy_caller *row)
{
	const struct throttle_key key = {.lo = row->caller.caller};
	char hash[IDENTITY_SHORT_BYTES], address[FORWARDED_ADDRESS_BYTES];
	size_t len = forwarded_address_text(row->caller.address, address);

	identity_short(&key, hash);
	json_t *object = json_pack("{s:s, s:s#, s:s#, s:I, s:I, s:I, s:I, s:I, s:I}", "limit",
		row->limit->name, "caller", hash, (int)sizeof(hash), "address", address, (int)len,
		"admitted", (json_int_t)row->counts[BUSIEST_ADMITTED], "refused",
		(json_int_t)row->counts[BUSIEST_REFUSED], "shadow_refused",
		(json_int_t)row->counts[BUSIEST_SHADOW_REFUSED], "admitted_error",
		(json_int_t)row->errors[BUSIEST_ADMITTED], "refused_error",
		(json_int_t)row->errors[BUSIEST_REFUSED], "shadow_refused_error",
		(json_int_t)row->errors[BUSIEST_SHADOW_REFUSED]);
	if (object)
		add_usage(daemon, row, object);
	return object;
}

static int compare_counts(uint64_t x, uint64_t y)
{
	return (x < y) - (x > y);
}

static int compare_admitted(const struct busy_caller *x, const struct busy_caller *y)
{
	return compare_counts(x->counts[BUSIEST_ADMITTED], y->counts[BUSIEST_ADMITTED]);
}

static int compare_refused(const struct busy_caller *x, const struct busy_caller *y)
{
	return compare_counts(x->counts[BUSIEST_REFUSED] + x->counts[BUSIEST_SHADOW_REFUSED],
		y->counts[BUSIEST_REFUSED] + y->counts[BUSIEST_SHADOW_REFUSED]);
}

static int by_admitted(const void *a, const void *b)
{
	int order = compare_admitted(a, b);

	return order ? order : compare_refused(a, b);
}

static int by_refused(const void *a, const void *b)
{
	int order = compare_refused(a, b);

	return order ? order : compare_admitted(a, b);
}

static void respond(struct admin_request *request, struct busy_list *list, size_t wanted)
{
	json_t *rows = json_array();
	uint64_t now_ns = clock_monotonic_ns();

	if (list->count > 0)
		qsort(list->rows, list->count, sizeof(*list->rows),
			list->sort == BUSIEST_ADMITTED ? by_admitted : by_refused);
	for (size_t i = 0; i < list->count && i < wanted; i++)
		json_array_append_new(rows, row_of(request->daemon, &list->rows[i]));
	uint64_t span_ns = list->since_ns && now_ns > list->since_ns ? now_ns - list->since_ns : 0;
	admin_respond_json(request, 200,
		json_pack("{s:s, s:I, s:o}", "sort",
			list->sort == BUSIEST_ADMITTED ? "admitted" : "refused", "span_ms",
			(json_int_t)(span_ns / CLOCK_NS_PER_MS), "callers", rows));
}

/* ---- the question ---------------------------------------------------------------------------- */

static bool read_sort(const struct admin_request *request, enum busiest_kind *sort)
{
	const char *word = admin_argument(request, "sort");

	*sort = word && strcmp(word, "refused") == 0 ? BUSIEST_REFUSED : BUSIEST_ADMITTED;
	return !word || *sort == BUSIEST_REFUSED || strcmp(word, "admitted") == 0;
}

static bool read_count(const struct admin_request *request, size_t *count)
{
	const char *word = admin_argument(request, "count");
	char *end;

	*count = COUNT_DEFAULT;
	if (!word)
		return true;
	*count = strtoul(word, &end, 10);
	return *word >= '0' && *word <= '9' && *end == '\0' && *count > 0 && *count <= COUNT_MAX;
}

void admin_get_busiest(struct admin_request *request)
{
	const struct daemon *daemon = request->daemon;
	const char *name = admin_argument(request, "limit");
	struct busy_list list = {0};
	bool known = !name, good = true;
	size_t wanted;

	if (!read_sort(request, &list.sort) || !read_count(request, &wanted)) {
		admin_respond_problem(request, 400,
			"Invalid sort or count; expected admitted or refused, and a number from 1 "
			"to 384.");
		return;
	}
	for (size_t i = 0; good && i < daemon->site->conf->limit_count; i++) {
		if (name && strcmp(daemon->site->conf->limits[i].name, name) != 0)
			continue;
		known = true;
		good = add_limit(daemon, &list, i, wanted);
	}
	if (!known)
		admin_respond_problem(request, 404, "There is no limit of this name.");
	else if (!good)
		admin_respond_problem(request, 503, "The callers change too fast; try again.");
	else
		respond(request, &list, wanted);
	free(list.rows);
}
