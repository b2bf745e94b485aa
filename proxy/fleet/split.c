#include "fleet/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "store/integers.h"
#include "store/cluster_map.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker_clock.h"

enum {
	GRACE_US = 200000, /* see split.h */
	SILENCE_MS = 1000, /* without an answer the store is looked for again */
	GROWS_LEAST_MS = 20,
	FIELDS = 5, /* of a limit, in a call and in its answer */
};

static void ask(struct splitting *splitting, bool leaves);
static void begin(struct splitting *splitting);

/* ---- limits ---------------------------------------------------------------------------------- */

static struct split_limit *find(const struct splitting *splitting, const char *name)
{
	for (size_t i = 0; i < splitting->count; i++) {
		if (strcmp(splitting->limits[i].name, name) == 0)
			return &splitting->limits[i];
	}
	return NULL;
}

/* What is known of it stays. */
static void add_limit(struct splitting *splitting, const struct conf_limit *limit,
	struct split_limit *limits, size_t *count)
{
	const struct split_limit *known = find(splitting, limit->name);
	struct split_limit *added = &limits[*count];
	struct rule rule = rule_of(limit);
	uint32_t number = gate_limit_number(site_part(splitting->worker)->use->site->gate, limit);

	if (!shares_add(splitting->shares, number, limit->name, limit->amount)) {
		log_error("limit %s: it has no share of its quota: %s", limit->name,
			"too many limits, or out of memory");
		return;
	}
	*added = known ? *known : (struct split_limit){.number = number};
	snprintf(added->name, sizeof(added->name), "%s", limit->name);
	added->quota = rule.quota;
	added->window_us = rule.window_us;
	shares_scale(splitting->shares, added->number, added->quota);
	++*count;
}

static void take_limits(struct splitting *splitting)
{
	const struct conf *conf = site_part(splitting->worker)->use->site->conf;
	struct split_limit *limits = calloc(conf->limit_count + 1, sizeof(*limits));
	size_t count = 0;

	if (!limits) {
		log_error("limits of the fleet: %s", "out of memory");
		return;
	}
	for (size_t i = 0; i < conf->limit_count; i++) {
		const struct conf_limit *limit = &conf->limits[i];
		if (limit->of_fleet && limit->fleet_way == CONF_FLEET_SPLIT)
			add_limit(splitting, limit, limits, &count);
	}
	free(splitting->limits);
	splitting->limits = limits;
	splitting->count = count;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Of one limit. True: the node now uses less than it said, which the store is to hear. */
static bool adopt(struct splitting *splitting, struct split_limit *limit, struct integers *numbers)
{
	uint64_t lease_ns = splitting->lease_ms * CLOCK_NS_PER_MS;
	uint64_t units = (uint64_t)integers_next(numbers);
	bool is_judged = integers_next(numbers) == 1;
	uint64_t since = (uint64_t)integers_next(numbers);
	uint32_t nodes = (uint32_t)integers_next(numbers);
	uint64_t more_us = (uint64_t)integers_next(numbers);

	if (numbers->wrong || units > limit->quota)
		return false;
	limit->since = since;
	limit->since_ns = splitting->asked_ns;
	struct share share = {
		.kind = is_judged ? SHARE_EXACT : SHARE_UNITS,
		.units = units,
		.until_ns = splitting->asked_ns + lease_ns - lease_ns / 16,
		.grows_ns =
			more_us > 0 ? worker_throttle_ns(splitting->worker) + more_us * 1000 : 0,
		.quota = limit->quota,
	};
	shares_set(splitting->shares, limit->number, &share, nodes);
	return limit->held.kind == SHARE_EXACT ? !is_judged : units < limit->held.units;
}

/* When the next call is due: at a third of the lease, or when something has become free. */
static void renew_later(struct splitting *splitting)
{
	uint64_t now_ns = worker_throttle_ns(splitting->worker);
	uint64_t now_ms = worker_now_ms(splitting->worker), wait_ms = splitting->lease_ms / 3;

	for (size_t i = 0; i < splitting->count; i++) {
		struct share share =
			shares_held(splitting->shares, splitting->limits[i].number, now_ns);
		if (share.grows_ns == 0)
			continue;
		uint64_t grows_ms =
			share.grows_ns > now_ns ? (share.grows_ns - now_ns) / CLOCK_NS_PER_MS : 0;
		grows_ms += GROWS_LEAST_MS;
		wait_ms = grows_ms < wait_ms ? grows_ms : wait_ms;
	}
	deadline_clear(&splitting->timer);
	deadline_set(&splitting->timer, now_ms + wait_ms, now_ms);
}

static void on_answer(struct store_call *call, const char *bytes, size_t len)
{
	struct splitting *splitting = CONTAINER_OF(call, struct splitting, call);
	struct integers numbers;
	bool uses_less = false;

	if (bytes && splitting->asked_ns != 0) {
		integers_begin(&numbers, bytes, len);
		integers_next(&numbers); /* the time */
		for (size_t i = 0; i < splitting->count && !numbers.wrong; i++)
			uses_less |= adopt(splitting, &splitting->limits[i], &numbers);
	}
	splitting->asked_ns = 0;
	if (splitting->store->state != STORE_READY)
		return; /* splitting_begin, when it is again */
	if (splitting->has_changed)
		begin(splitting);
	else if (uses_less)
		ask(splitting, false);
	else
		renew_later(splitting);
}

/* ---- the call -------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text)
{
	fprintf(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void put_number(FILE *out, uint64_t number)
{
	uint8_t bytes[INTEGERS_MOST_BYTES];

	fwrite(bytes, 1, integers_put(bytes, number), out);
}

/* Since when the store should remember: as long as anything that this node was given may count. */
static uint64_t known_since(
	const struct splitting *splitting, const struct split_limit *limit, uint64_t now_ns)
{
	uint64_t lasts_ns =
		splitting->lease_ms * CLOCK_NS_PER_MS + (limit->window_us + GRACE_US) * 1000;

	return now_ns - limit->since_ns < lasts_ns ? limit->since : 0;
}

static void put_request(struct splitting *splitting, FILE *out, bool leaves)
{
	uint8_t head[INTEGERS_HEAD_BYTES];
	uint64_t now_ns = splitting->asked_ns;

	fwrite(head, 1, integers_head(head, (uint32_t)(4 + FIELDS * splitting->count)), out);
	put_number(out, splitting->process);
	put_number(out, ++splitting->number);
	put_number(out, leaves ? 0 : splitting->lease_ms * 1000);
	put_number(out, GRACE_US);
	for (size_t i = 0; i < splitting->count; i++) {
		struct split_limit *limit = &splitting->limits[i];
		limit->held = shares_held(splitting->shares, limit->number, now_ns);
		put_number(out, limit->quota);
		put_number(out, limit->window_us);
		put_number(out, limit->held.units);
		put_number(out, limit->held.kind == SHARE_EXACT);
		put_number(out, known_since(splitting, limit, now_ns));
	}
}

static bool compose(struct splitting *splitting, bool leaves)
{
	char *request = NULL, key[160], since_key[sizeof(key) + 8];
	size_t request_len = 0, command_len = 0;
	FILE *out = open_memstream(&request, &request_len);

	if (out) {
		put_request(splitting, out, leaves);
		fclose(out);
	}
	snprintf(key, sizeof(key), "%s{split}", splitting->prefix);
	snprintf(since_key, sizeof(since_key), "%s:since", key);
	free(splitting->command);
	splitting->command = NULL;
	out = request ? open_memstream(&splitting->command, &command_len) : NULL;
	if (out) {
		fprintf(out, "*%zu\r\n", 7 + splitting->count);
		put_text(out, "FCALL");
		put_text(out, "sluice_split_1");
		put_text(out, "2");
		put_text(out, key);
		put_text(out, since_key);
		put_text(out, splitting->name);
		fprintf(out, "$%zu\r\n", request_len);
		fwrite(request, 1, request_len, out);
		fputs("\r\n", out);
		for (size_t i = 0; i < splitting->count; i++)
			put_text(out, splitting->limits[i].name);
		if (fclose(out) != 0)
			out = NULL;
	}
	free(request);
	splitting->call = store_call_of(
		splitting->command, command_len, slot_of_key(key, strlen(key)), on_answer);
	return out != NULL;
}

/* One call at a time: what the node says that it uses at most must hold until the answer. */
static void ask(struct splitting *splitting, bool leaves)
{
	uint64_t now_ms = worker_now_ms(splitting->worker);

	if (splitting->asked_ns != 0 || splitting->count == 0)
		return;
	splitting->asked_ns = worker_throttle_ns(splitting->worker);
	if (!compose(splitting, leaves) || !store_link_send(splitting->store, &splitting->call)) {
		splitting->asked_ns = 0;
		renew_later(splitting);
		return;
	}
	deadline_clear(&splitting->timer);
	if (!leaves)
		deadline_set(&splitting->timer, now_ms + splitting->patience_ms, now_ms);
}

static void on_timer(struct deadline *deadline)
{
	struct splitting *splitting = CONTAINER_OF(deadline, struct splitting, timer);

	if (splitting->store->state != STORE_READY)
		return; /* splitting_begin, when it is again */
	if (splitting->asked_ns != 0)
		store_link_drop_silent(splitting->store, splitting->call.sent_ms);
	else
		ask(splitting, false);
}

/* ---- the first worker's part ----------------------------------------------------------------- */

void splitting_init(struct splitting *splitting, struct worker *worker, struct shares *shares,
	struct store_link *store)
{
	*splitting = (struct splitting){.worker = worker, .shares = shares, .store = store};
	if (getrandom(&splitting->process, sizeof(splitting->process), 0) !=
		sizeof(splitting->process))
		splitting->process = clock_monotonic_ns();
	splitting->process >>= 12; /* the store's numbers have 53 bits */
	deadline_init(&splitting->timer, worker->loop.base, on_timer);
}

/* By the site in force; no call is on its way. */
static void begin(struct splitting *splitting)
{
	const struct conf_fleet *fleet = &site_part(splitting->worker)->use->site->conf->fleet;

	splitting->has_changed = false;
	take_limits(splitting);
	splitting->lease_ms = fleet->membership_lease_ms;
	splitting->patience_ms =
		SILENCE_MS > 2 * fleet->store_timeout_ms ? SILENCE_MS : 2 * fleet->store_timeout_ms;
	ask(splitting, false);
}

void splitting_begin(struct splitting *splitting, const char *prefix, const char *name)
{
	splitting->prefix = prefix;
	snprintf(splitting->name, sizeof(splitting->name), "%s", name);
	if (splitting->asked_ns != 0)
		splitting->has_changed = true; /* its answer is of the limits before */
	else
		begin(splitting);
}

void splitting_leave(struct splitting *splitting)
{
	static const struct share none = {.kind = SHARE_NONE};

	deadline_clear(&splitting->timer);
	for (size_t i = 0; i < splitting->count; i++)
		shares_set(splitting->shares, splitting->limits[i].number, &none, 0);
	if (splitting->store->state == STORE_READY && splitting->prefix)
		ask(splitting, true);
}

void splitting_end(struct splitting *splitting)
{
	deadline_end(&splitting->timer);
	free(splitting->limits);
	free(splitting->command);
	splitting->limits = NULL;
	splitting->command = NULL;
}

/* ---- any worker ------------------------------------------------------------------------------ */

enum share_kind split_judge(const struct shares *shares, uint32_t number, const struct rule *rule,
	uint64_t now_ns, struct reserve *reserve)
{
	struct share share = shares_read(shares, number, rule->quota, now_ns);

	if (share.kind == SHARE_UNITS) {
		uint64_t units = share.units < rule->quota ? share.units : rule->quota;
		reserve->units = rule->quota - units;
		reserve->quota = rule->quota;
		reserve->falls_ns = share.grows_ns > now_ns   ? share.grows_ns - now_ns
				    : share.until_ns > now_ns ? share.until_ns - now_ns
							      : 1;
	}
	return share.kind;
}

/* ---- shares --------------------------------------------------------------------------------- */

#define EXACT_WORD UINT64_MAX

void shares_init(struct shares *shares)
{
	for (unsigned i = 0; i < SHARES_MOST; i++)
		atomic_init(&shares->all[i], NULL);
}

void shares_end(struct shares *shares)
{
	for (unsigned i = 0; i < SHARES_MOST; i++)
		free(atomic_load(&shares->all[i]));
}

const struct share_cell *shares_cell(const struct shares *shares, uint32_t number)
{
	return number < SHARES_MOST ? /* acquire: the name, and that it is zeroed */
		       atomic_load_explicit(&shares->all[number], memory_order_acquire)
				    : NULL;
}

static struct share_cell *own_cell(struct shares *shares, uint32_t number)
{
	return number < SHARES_MOST ? /* relaxed: this thread has set it */
		       atomic_load_explicit(&shares->all[number], memory_order_relaxed)
				    : NULL;
}

bool shares_add(struct shares *shares, uint32_t number, const char *name, uint64_t quota)
{
	struct share_cell *cell;

	if (number >= SHARES_MOST)
		return false;
	if (own_cell(shares, number))
		return true;
	cell = calloc(1, sizeof(*cell));
	if (!cell)
		return false;
	snprintf(cell->name, sizeof(cell->name), "%s", name);
	atomic_init(&cell->quota, quota);
	/* release: pairs with shares_cell */
	atomic_store_explicit(&shares->all[number], cell, memory_order_release);
	return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Floor of units * part / whole, part <= whole. */
static uint64_t part_of(uint64_t units, uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)units * part / whole);
}

struct share shares_read(
	const struct shares *shares, uint32_t number, uint64_t quota, uint64_t now_ns)
{
	const struct share_cell *cell = shares_cell(shares, number);
	struct share share = {.kind = SHARE_NONE};
	uint32_t changes;
	uint64_t word;

	if (!cell)
		return share;
	/* The time first: a later one belongs to the same or a newer number of units, which is
	 * stored before it (acquire, with the release in shares_set). */
	share.until_ns = atomic_load_explicit(&cell->until_ns, memory_order_acquire);
	do { /* the units and the quota of one moment; acquire: pairs with store() */
		changes = atomic_load_explicit(&cell->changes, memory_order_acquire);
		word = atomic_load_explicit(&cell->word, memory_order_acquire);
		share.quota = atomic_load_explicit(&cell->quota, memory_order_acquire);
	} while (atomic_load_explicit(&cell->changes, memory_order_relaxed) != changes);
	share.grows_ns = atomic_load_explicit(&cell->grows_ns, memory_order_relaxed); /* a hint */
	if (now_ns >= share.until_ns)
		return share;
	share.kind = word == EXACT_WORD ? SHARE_EXACT : SHARE_UNITS;
	share.units = word == EXACT_WORD ? 0 : word;
	if (quota < share.quota)
		share.units = part_of(share.units, quota, share.quota);
	return share;
}

/* ---- setting --------------------------------------------------------------------------------- */

struct share shares_held(const struct shares *shares, uint32_t number, uint64_t now_ns)
{
	return shares_read(shares, number, UINT64_MAX, now_ns);
}

/* A reader that sees the value sees the count, and one that sees the count sees all that was stored
 * before it (both release): while the count stays, at most this one value changes. */
static void store(struct share_cell *cell, _Atomic uint64_t *at, uint64_t value)
{
	atomic_fetch_add_explicit(&cell->changes, 1, memory_order_release);
	atomic_store_explicit(at, value, memory_order_release);
}

void shares_set(struct shares *shares, uint32_t number, const struct share *share, uint32_t nodes)
{
	struct share_cell *cell = own_cell(shares, number);

	if (!cell)
		return;
	store(cell, &cell->word,
		share->kind == SHARE_EXACT   ? EXACT_WORD
		: share->kind == SHARE_UNITS ? share->units
					     : 0);
	atomic_store_explicit(&cell->grows_ns, share->grows_ns, memory_order_relaxed);
	atomic_store_explicit(&cell->nodes, nodes, memory_order_relaxed);
	/* release: after the units, see shares_read */
	atomic_store_explicit(&cell->until_ns, share->kind == SHARE_NONE ? 0 : share->until_ns,
		memory_order_release);
}

void shares_scale(struct shares *shares, uint32_t number, uint64_t quota)
{
	struct share_cell *cell = own_cell(shares, number);

	if (!cell)
		return;
	uint64_t before = atomic_load_explicit(&cell->quota, memory_order_relaxed);
	uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
	if (quota < before && word != EXACT_WORD)
		store(cell, &cell->word, part_of(word, quota, before));
	store(cell, &cell->quota, quota);
}
