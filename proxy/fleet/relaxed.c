#include "fleet/relaxed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "store/integers.h"
#include "site/site.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"

/* A call that is not answered for so long has lost its connection. */
enum { SILENCE_MS = 1000 };

static const struct conf_fleet *conf_of(const struct relaxing *relaxing)
{
	return &site_part(relaxing->worker)->use->site->conf->fleet;
}

/* ---- when ------------------------------------------------------------------------------------ */

static uint64_t pause_ms(const struct relaxing *relaxing)
{
	return conf_of(relaxing)->publish_interval_ms / 2;
}

/* The next call, unless one is on its way: not later than this. */
static void schedule(struct relaxing *relaxing, uint64_t due_ms)
{
	uint64_t now_ms = worker_now_ms(relaxing->worker);

	if (relaxing->sent_count > 0 || !relaxing->views.due ||
		relaxing->store->state != STORE_READY ||
		(relaxing->is_scheduled && relaxing->due_ms <= due_ms))
		return;
	deadline_clear(&relaxing->timer);
	relaxing->is_scheduled = true;
	relaxing->due_ms = due_ms > now_ms ? due_ms : now_ms;
	deadline_set(&relaxing->timer, relaxing->due_ms, now_ms);
}

static void schedule_next(struct relaxing *relaxing)
{
	schedule(relaxing, relaxing->sent_ms + pause_ms(relaxing));
}

bool relaxing_hears(const struct relaxing *relaxing)
{
	const struct conf_fleet *conf = conf_of(relaxing);
	uint64_t patience_ms = conf->store_timeout_ms > pause_ms(relaxing) ? conf->store_timeout_ms
									   : pause_ms(relaxing);

	if (relaxing->store->state != STORE_READY || relaxing->has_failed)
		return false;
	return relaxing->sent_count == 0 ||
	       worker_now_ms(relaxing->worker) - relaxing->sent_ms <= patience_ms;
}

/* ---- what the node's table says -------------------------------------------------------------- */

/* The caller's use on this node. False: its limit is not known in this site yet. */
static bool used_here(const struct relaxing *relaxing, const struct view *view, int64_t *used)
{
	struct throttle_outcome outcome;

	*used = 0;
	if (view->site != relaxing->site)
		return false;
	if (throttle_explain(relaxing->worker->node->throttles, view->number, view->here,
		    worker_throttle_ns(relaxing->worker), &outcome))
		*used = (int64_t)(outcome.quota - outcome.remaining);
	return true;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void adopt(struct relaxing *relaxing, struct view *view, uint64_t total, uint64_t oldest_us)
{
	int64_t used;

	if (!used_here(relaxing, view, &used))
		return;                                       /* its next request asks again */
	int64_t unknown = view->fresh - (int64_t)view->given; /* to the store */
	uint64_t published = used > unknown ? (uint64_t)(used - unknown) : 0;
	view->reserved = total > published ? total - published : 0;
	view->asked_ns = relaxing->sent_ns;
	view->falls_ns = worker_throttle_ns(relaxing->worker) + oldest_us * 1000;
}

/* It was not published, as far as one can know. The store may have it all the same: what was
 * admitted is then in the sum twice, until it has left the window; but what was given back would be
 * missing from it twice, and so is forgotten. */
static void put_back(
	struct relaxing *relaxing, struct view *view, const struct relaxed_units *units)
{
	view->fresh += (int64_t)units->more;
	views_put_due(&relaxing->views, view);
}

static void publish(struct relaxing *relaxing);

static void on_answer(struct store_call *call, const char *bytes, size_t len)
{
	struct relaxing *relaxing = CONTAINER_OF(call, struct relaxing, call);
	bool is_more = bytes && relaxing->sent_count == RELAXED_AT_ONCE;
	unsigned count = relaxing->sent_count;
	struct integers numbers = {.wrong = true};

	deadline_clear(&relaxing->timer);
	relaxing->is_scheduled = false;
	relaxing->sent_count = 0;
	if (bytes)
		integers_begin(&numbers, bytes, len);
	for (unsigned i = 0; i < count; i++) {
		struct view *view = relaxing->sent[i];
		uint64_t total = numbers.wrong ? 0 : (uint64_t)integers_next(&numbers);
		uint64_t oldest_us = numbers.wrong ? 0 : (uint64_t)integers_next(&numbers);
		view->is_away = false;
		if (numbers.wrong)
			put_back(relaxing, view, &relaxing->units[i]);
		else
			adopt(relaxing, view, total, oldest_us);
	}
	relaxing->has_failed = numbers.wrong;
	if (is_more && !numbers.wrong && relaxing->store->state == STORE_READY &&
		relaxing->views.due)
		publish(relaxing);
	else
		schedule_next(relaxing);
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool compose(struct relaxing *relaxing)
{
	struct relaxed_part parts[RELAXED_AT_ONCE];
	size_t len;

	for (unsigned i = 0; i < relaxing->sent_count; i++) {
		const struct view *view = relaxing->sent[i];
		parts[i] = (struct relaxed_part){
			.caller = view->caller,
			.limit = view->limit,
			.rule = &view->rule,
			.more = relaxing->units[i].more,
			.less = relaxing->units[i].less,
		};
	}
	free(relaxing->command);
	if (!relaxed_compose(
		    parts, relaxing->sent_count, relaxing->prefix, &relaxing->command, &len))
		return false;
	relaxing->call = store_call_of(relaxing->command, len, 0, on_answer);
	return true;
}

/* How much of a view the call publishes: nothing that has left the window since it was admitted. */
static struct relaxed_units take_fresh(struct relaxing *relaxing, struct view *view)
{
	int64_t used, more = view->fresh;
	struct relaxed_units units = {.less = view->given};

	if (more > 0 && used_here(relaxing, view, &used) && used < more)
		more = used;
	units.more = (uint64_t)more;
	view->fresh = 0;
	view->given = 0;
	view->taken_ns = worker_throttle_ns(relaxing->worker);
	return units;
}

static void take_due(struct relaxing *relaxing)
{
	while (relaxing->sent_count < RELAXED_AT_ONCE) {
		struct view *view = views_take_due(&relaxing->views);
		if (!view)
			break;
		view->is_away = true;
		relaxing->units[relaxing->sent_count] = take_fresh(relaxing, view);
		relaxing->sent[relaxing->sent_count++] = view;
	}
	stats_add(&stats_row(relaxing->worker->stats, STATS_NODE, 0)[STATS_RELAXED_PUBLISHED],
		relaxing->sent_count);
}

/* No call is on its way, and the store is READY. */
static void publish(struct relaxing *relaxing)
{
	uint64_t now_ms = worker_now_ms(relaxing->worker);
	uint64_t patience_ms = 2 * conf_of(relaxing)->store_timeout_ms;

	take_due(relaxing);
	if (relaxing->sent_count == 0)
		return;
	relaxing->sent_ms = now_ms;
	relaxing->sent_ns = worker_throttle_ns(relaxing->worker);
	if (!compose(relaxing) || !store_link_send(relaxing->store, &relaxing->call)) {
		on_answer(&relaxing->call, NULL, 0);
		return;
	}
	worker_count(relaxing->worker, STATS_STORE_CALLS);
	deadline_clear(&relaxing->timer);
	deadline_set(&relaxing->timer,
		now_ms + (patience_ms > SILENCE_MS ? patience_ms : SILENCE_MS), now_ms);
}

static void on_timer(struct deadline *deadline)
{
	struct relaxing *relaxing = CONTAINER_OF(deadline, struct relaxing, timer);

	relaxing->is_scheduled = false;
	if (relaxing->store->state != STORE_READY)
		return; /* relaxing_begin, when it is again */
	if (relaxing->sent_count > 0)
		store_link_drop_silent(relaxing->store, relaxing->call.sent_ms);
	else
		publish(relaxing);
}

/* ---- requests -------------------------------------------------------------------------------- */

void relaxing_ask(struct relaxing *relaxing, struct view *view)
{
	uint64_t age_ns = worker_throttle_ns(relaxing->worker) - view->asked_ns;

	views_put_due(&relaxing->views, view);
	if (!view->is_away && age_ns > pause_ms(relaxing) * CLOCK_NS_PER_MS)
		schedule(relaxing, 0);
	else
		schedule_next(relaxing);
}

/* What was admitted since the last time is not published at all; the rest is taken from the sum. */
static void note_given(struct view *view, uint64_t units, uint64_t taken_ns)
{
	uint64_t fresh = taken_ns > view->taken_ns ? (uint64_t)view->fresh : 0;
	uint64_t less = units < fresh ? units : fresh;

	view->fresh -= (int64_t)less;
	view->given += units - less;
}

void relaxing_note(struct relaxing *relaxing, struct view *view, int64_t units, uint64_t taken_ns)
{
	if (units >= 0)
		view->fresh += units;
	else
		note_given(view, (uint64_t)-units, taken_ns);
	views_put_due(&relaxing->views, view);
	schedule_next(relaxing);
}

/* ---- the worker's part ----------------------------------------------------------------------- */

bool relaxing_init(struct relaxing *relaxing, struct worker *worker, struct store_link *store)
{
	*relaxing = (struct relaxing){.worker = worker, .store = store};
	deadline_init(&relaxing->timer, worker->loop.base, on_timer);
	return views_init(&relaxing->views);
}

struct view *relaxing_view(struct relaxing *relaxing, struct throttle_key caller, const char *limit)
{
	return views_find(&relaxing->views, caller, limit,
		(size_t)site_part(relaxing->worker)->use->site->conf->totals.callers);
}

void relaxing_begin(struct relaxing *relaxing, const char *prefix)
{
	relaxing->prefix = prefix;
	relaxing->has_failed = false;
	schedule_next(relaxing);
}

void relaxing_take_site(struct relaxing *relaxing)
{
	relaxing->site++;
}

void relaxing_leave(struct relaxing *relaxing)
{
	deadline_clear(&relaxing->timer);
	relaxing->is_scheduled = false;
	if (relaxing->store->state == STORE_READY && relaxing->sent_count == 0 && relaxing->prefix)
		publish(relaxing);
}

void relaxing_end(struct relaxing *relaxing)
{
	deadline_end(&relaxing->timer);
	views_end(&relaxing->views);
	free(relaxing->command);
	relaxing->command = NULL;
}

/* ---- relaxed call --------------------------------------------------------------------------- */

enum { FIELDS = 4 }; /* integers of a part */

static void put_key(const struct relaxed_part *part, const char *prefix, FILE *out)
{
	size_t len = strlen(prefix) + 34 + strlen(part->limit) + strlen(":relaxed");

	fprintf(out, "$%zu\r\n%s{%016" PRIx64 "%016" PRIx64 "}%s:relaxed\r\n", len, prefix,
		part->caller.hi, part->caller.lo, part->limit);
}

static size_t put_numbers(const struct relaxed_part *parts, unsigned count, uint8_t *out)
{
	size_t len = integers_head(out, FIELDS * count);

	for (unsigned i = 0; i < count; i++) {
		len += integers_put(out + len, parts[i].rule->window_us);
		len += integers_put(out + len, parts[i].rule->quantum_us);
		len += integers_put(out + len, parts[i].more);
		len += integers_put(out + len, parts[i].less);
	}
	return len;
}

bool relaxed_compose(const struct relaxed_part *parts, unsigned count, const char *prefix,
	char **command, size_t *len)
{
	uint8_t request[INTEGERS_HEAD_BYTES + INTEGERS_MOST_BYTES * FIELDS * RELAXED_AT_ONCE];
	size_t request_len = put_numbers(parts, count, request);
	char text[16];

	*command = NULL;
	FILE *out = open_memstream(command, len);
	if (!out)
		return false;
	int digits = snprintf(text, sizeof(text), "%u", count);
	fprintf(out, "*%u\r\n$5\r\nFCALL\r\n$16\r\nsluice_relaxed_1\r\n$%d\r\n%s\r\n", count + 4,
		digits, text);
	for (unsigned i = 0; i < count; i++)
		put_key(&parts[i], prefix, out);
	fprintf(out, "$%zu\r\n", request_len);
	fwrite(request, 1, request_len, out);
	fputs("\r\n", out);
	bool is_whole = !ferror(out);
	if (fclose(out) == 0 && is_whole)
		return true;
	free(*command);
	*command = NULL;
	return false;
}

/* ---- views ---------------------------------------------------------------------------------- */

bool views_init(struct views *views)
{
	memset(views, 0, sizeof(*views));
	views->due_end = &views->due;
	return getentropy(&views->seed, sizeof(views->seed)) == 0;
}

void views_end(struct views *views)
{
	while (views->oldest) {
		struct view *view = views->oldest;
		views->oldest = view->newer;
		free(view);
	}
	hash_table_end(&views->hashed);
	views->newest = views->due = NULL;
	views->due_end = &views->due;
}

/* ---- the order of use ------------------------------------------------------------------------ */

static void unlink_used(struct views *views, struct view *view)
{
	*(view->older ? &view->older->newer : &views->oldest) = view->newer;
	*(view->newer ? &view->newer->older : &views->newest) = view->older;
}

static void link_newest(struct views *views, struct view *view)
{
	view->older = views->newest;
	view->newer = NULL;
	*(view->older ? &view->older->newer : &views->oldest) = view;
	views->newest = view;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* A limit's name is the same text as long as the worker. */
static uint64_t hash_of(const struct views *views, struct throttle_key caller, const char *limit)
{
	const uint64_t words[] = {caller.hi, caller.lo, (uintptr_t)limit};

	return throttle_hash(&views->seed, words, sizeof(words)).lo;
}

/* Memory for another one. */
static struct view *make(struct views *views, size_t most)
{
	struct view *view = views->oldest;

	if (views->hashed.count < most)
		return malloc(sizeof(*view));
	if (!view || view->is_due || view->is_away || view->fresh != 0 || view->given != 0)
		return NULL;
	unlink_used(views, view);
	hash_table_remove(&views->hashed, &view->link);
	return view;
}

static struct view *add(struct views *views, struct throttle_key caller, const char *limit,
	size_t most, uint64_t hash)
{
	struct view *view = make(views, most);

	if (!view)
		return NULL;
	*view = (struct view){.caller = caller, .limit = limit};
	if (!hash_table_add(&views->hashed, &view->link, hash)) {
		free(view);
		return NULL;
	}
	link_newest(views, view);
	return view;
}

struct view *views_find(
	struct views *views, struct throttle_key caller, const char *limit, size_t most)
{
	uint64_t hash = hash_of(views, caller, limit);
	struct hash_link *link = hash_table_first(&views->hashed, hash);

	for (; link; link = hash_table_next(&views->hashed, link)) {
		struct view *view = CONTAINER_OF(link, struct view, link);
		if (view->caller.lo != caller.lo || view->caller.hi != caller.hi ||
			view->limit != limit)
			continue;
		unlink_used(views, view);
		link_newest(views, view);
		return view;
	}
	return add(views, caller, limit, most, hash);
}

/* ---- what is due ----------------------------------------------------------------------------- */

void views_put_due(struct views *views, struct view *view)
{
	if (view->is_due)
		return;
	view->is_due = true;
	view->next_due = NULL;
	*views->due_end = view;
	views->due_end = &view->next_due;
}

struct view *views_take_due(struct views *views)
{
	struct view *view = views->due;

	if (!view)
		return NULL;
	views->due = view->next_due;
	if (!views->due)
		views->due_end = &views->due;
	view->is_due = false;
	return view;
}
