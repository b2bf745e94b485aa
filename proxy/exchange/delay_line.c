#include "exchange/delay_line.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "worker/worker.h"

#define SHARDS 64
#define CHAINS 64 /* of each */

struct delay_line {
	struct delay_line *next; /* of the chain */
	struct delay_shard *shard;
	uint32_t limit;
	uint64_t caller;
	uint64_t cost; /* of all of them */
	struct delay_place *first, *last;
};

struct delay_shard {
	pthread_mutex_t lock;
	struct delay_line *chains[CHAINS];
};

/* The exchanges of one worker that were woken. Its lock is taken inside a shard's. */
struct delay_woken {
	pthread_mutex_t lock;
	struct delay_place *first;
};

struct delay_lines {
	atomic_uint in_line; /* over all lines */
	atomic_uint changes;
	atomic_uint frees[SHARDS]; /* of limits that an authority judges */
	unsigned workers;
	struct delay_shard shards[SHARDS];
	struct delay_woken woken[]; /* [workers] */
};

struct delay_lines *delay_lines_new(unsigned workers)
{
	struct delay_lines *lines = calloc(1, sizeof(*lines) + workers * sizeof(lines->woken[0]));

	if (!lines)
		return NULL;
	lines->workers = workers;
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&lines->shards[i].lock, NULL);
	for (unsigned i = 0; i < workers; i++)
		pthread_mutex_init(&lines->woken[i].lock, NULL);
	return lines;
}

void delay_lines_free(struct delay_lines *lines)
{
	if (!lines)
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&lines->shards[i].lock);
	for (unsigned i = 0; i < lines->workers; i++)
		pthread_mutex_destroy(&lines->woken[i].lock);
	free(lines);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static uint64_t hash_of(uint32_t limit, uint64_t caller)
{
	return caller ^ (limit * UINT64_C(0x9E3779B97F4A7C15));
}

static struct delay_shard *shard_of(struct delay_lines *lines, uint32_t limit, uint64_t caller)
{
	return &lines->shards[hash_of(limit, caller) % SHARDS];
}

/* With the lock: the place of the line's address in its chain; of NULL if there is none. */
static struct delay_line **find(struct delay_shard *shard, uint32_t limit, uint64_t caller)
{
	struct delay_line **at = &shard->chains[hash_of(limit, caller) / SHARDS % CHAINS];

	while (*at && ((*at)->limit != limit || (*at)->caller != caller))
		at = &(*at)->next;
	return at;
}

/* With the lock. */
static struct delay_line *find_or_make(struct delay_shard *shard, uint32_t limit, uint64_t caller)
{
	struct delay_line **at = find(shard, limit, caller);

	if (!*at && (*at = calloc(1, sizeof(**at))) != NULL)
		**at = (struct delay_line){.shard = shard, .limit = limit, .caller = caller};
	return *at;
}

/* With the lock. */
static void wake_first(struct delay_lines *lines, const struct delay_line *line)
{
	struct delay_place *place = line->first;

	while (place && !place->waits)
		place = place->next;
	if (!place || place->is_woken)
		return;
	struct worker *worker = place->worker;
	struct delay_woken *woken = &lines->woken[worker->index];
	place->is_woken = true;
	pthread_mutex_lock(&woken->lock);
	CHAIN_PUSH(woken->first, place, prev_woken, next_woken);
	pthread_mutex_unlock(&woken->lock);
	worker_command(worker, WORKER_DELAYED);
}

/* With the lock. */
static void take_woken(struct delay_woken *woken, struct delay_place *place)
{
	pthread_mutex_lock(&woken->lock);
	CHAIN_REMOVE(woken->first, place, prev_woken, next_woken);
	pthread_mutex_unlock(&woken->lock);
	place->is_woken = false;
}

/* With the lock. */
static void link_last(struct delay_line *line, struct delay_place *place)
{
	place->line = line;
	place->before = line->cost;
	LIST_APPEND(line->first, line->last, place, prev, next);
	line->cost += place->cost;
}

/* With the lock. The line is freed behind its last one. */
static void unlink_place(struct delay_lines *lines, struct delay_place *place)
{
	struct delay_line *line = place->line;

	LIST_REMOVE(line->first, line->last, place, prev, next);
	line->cost -= place->cost;
	if (line->first) {
		wake_first(lines, line);
		return;
	}
	*find(line->shard, line->limit, line->caller) = line->next;
	free(line);
}

/* ---- the exchange's side --------------------------------------------------------------------- */

bool delay_ahead(struct delay_lines *lines, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX])
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	bool has_any = false;

	/* relaxed: one that comes just now is before or behind */
	if (atomic_load_explicit(&lines->in_line, memory_order_relaxed) == 0)
		return false;
	unsigned count = gate_charges(identity, charges);
	for (unsigned i = 0; i < count; i++) {
		struct delay_shard *shard = shard_of(lines, charges[i].limit, charges[i].caller.lo);
		ahead[i] = 0;
		if (gate_limit_at(identity, i)->delay_max_ms == 0)
			continue;
		pthread_mutex_lock(&shard->lock);
		const struct delay_line *line =
			*find(shard, charges[i].limit, charges[i].caller.lo);
		ahead[i] = line ? line->cost : 0;
		pthread_mutex_unlock(&shard->lock);
		has_any |= ahead[i] > 0;
	}
	return has_any;
}

static bool is_in(const struct delay_place *place, const struct throttle_charge *charge)
{
	return place->line->limit == charge->limit && place->line->caller == charge->caller.lo;
}

bool delay_join(struct delay_place *place, bool is_in_line, struct worker *worker,
	const struct gate_identity *identity, const struct gate_verdict *verdict,
	void (*go_on)(struct delay_place *place))
{
	struct delay_lines *lines = node_delays(worker->node);
	struct throttle_charge charge = {0};
	bool waits = gate_waits_for(identity, verdict, &charge);

	if (is_in_line && waits && is_in(place, &charge))
		return true;
	if (is_in_line)
		delay_leave(place);
	if (!waits)
		return false;
	struct delay_shard *shard = shard_of(lines, charge.limit, charge.caller.lo);
	*place = (struct delay_place){.worker = worker, .go_on = go_on, .cost = charge.cost};
	/* relaxed: what has changed before is seen by who comes now */
	place->changes = atomic_load_explicit(&lines->changes, memory_order_relaxed);
	/* seq_cst: see is_any_in_line */
	atomic_fetch_add(&lines->in_line, 1);
	pthread_mutex_lock(&shard->lock);
	struct delay_line *line = find_or_make(shard, charge.limit, charge.caller.lo);
	if (line)
		link_last(line, place);
	pthread_mutex_unlock(&shard->lock);
	if (!line)
		atomic_fetch_sub(&lines->in_line, 1);
	return line != NULL;
}

bool delay_was_passed(const struct delay_place *place, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX])
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	bool was_passed = false;

	for (unsigned i = 0, count = gate_charges(identity, charges); i < count; i++) {
		if (!is_in(place, &charges[i]) || place->before <= ahead[i])
			continue;
		ahead[i] = place->before;
		was_passed = true;
	}
	return was_passed;
}

bool delay_wait(struct delay_place *place)
{
	const struct delay_place *before;

	pthread_mutex_lock(&place->line->shard->lock);
	place->waits = true;
	for (before = place->prev; before && !before->waits; before = before->prev)
		;
	pthread_mutex_unlock(&place->line->shard->lock);
	bool looks = !before && !place->has_looked;
	place->has_looked |= looks;
	return looks;
}

void delay_miss(struct delay_place *place)
{
	place->has_missed = true;
}

bool delay_take_missed(struct delay_place *place)
{
	bool has_missed = place->has_missed;

	place->has_missed = false;
	return has_missed;
}

void delay_leave(struct delay_place *place)
{
	struct delay_lines *lines = node_delays(place->worker->node);
	struct delay_shard *shard = place->line->shard;

	pthread_mutex_lock(&shard->lock);
	if (place->is_woken)
		take_woken(&lines->woken[place->worker->index], place);
	unlink_place(lines, place);
	pthread_mutex_unlock(&shard->lock);
	atomic_fetch_sub(&lines->in_line, 1);
}

bool delay_has_changed(struct delay_place *place)
{
	uint32_t changes = atomic_load_explicit(
		&node_delays(place->worker->node)->changes, memory_order_relaxed);
	bool has_changed = place->changes != changes;

	place->changes = changes;
	return has_changed;
}

/* ---- waking ---------------------------------------------------------------------------------- */

/* One that joins adds itself, then looks at its limits once more; who frees capacity has freed it,
 * then reads the count by an addition, which is ordered with the other (seq_cst both): one of them
 * sees the other. */
static bool is_any_in_line(struct delay_lines *lines)
{
	return atomic_fetch_add(&lines->in_line, 0) > 0;
}

/* relaxed in both: who asks has read before it asks, and reads again when it is answered; what was
 * freed after that finds it in line */
static void count_frees(struct delay_lines *lines, const struct gate_identity *identity)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];

	for (unsigned i = 0, count = gate_charges(identity, charges); i < count; i++) {
		size_t shard = hash_of(charges[i].limit, charges[i].caller.lo) % SHARDS;
		if (gate_limit_at(identity, i)->delay_max_ms > 0)
			atomic_fetch_add_explicit(&lines->frees[shard], 1, memory_order_relaxed);
	}
}

uint32_t delay_frees(struct delay_lines *lines, const struct gate_identity *identity)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	uint32_t sum = atomic_load_explicit(&lines->changes, memory_order_relaxed);

	for (unsigned i = 0, count = gate_charges(identity, charges); i < count; i++) {
		size_t shard = hash_of(charges[i].limit, charges[i].caller.lo) % SHARDS;
		if (gate_limit_at(identity, i)->delay_max_ms > 0)
			sum += atomic_load_explicit(&lines->frees[shard], memory_order_relaxed);
	}
	return sum;
}

void delay_freed(struct delay_lines *lines, const struct gate_identity *identity)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];

	if (identity->authority)
		count_frees(lines, identity);
	if (!is_any_in_line(lines))
		return;
	for (unsigned i = 0, count = gate_charges(identity, charges); i < count; i++) {
		struct delay_shard *shard = shard_of(lines, charges[i].limit, charges[i].caller.lo);
		pthread_mutex_lock(&shard->lock);
		const struct delay_line *line =
			*find(shard, charges[i].limit, charges[i].caller.lo);
		if (line)
			wake_first(lines, line);
		pthread_mutex_unlock(&shard->lock);
	}
}

void delay_changed(struct delay_lines *lines)
{
	atomic_fetch_add(&lines->changes, 1);
	if (!is_any_in_line(lines))
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		pthread_mutex_lock(&lines->shards[i].lock);
		for (unsigned n = 0; n < CHAINS; n++) {
			for (const struct delay_line *line = lines->shards[i].chains[n]; line;
				line = line->next)
				wake_first(lines, line);
		}
		pthread_mutex_unlock(&lines->shards[i].lock);
	}
}

/* One that was woken, off the list; NULL: there is none. It can't leave meanwhile: that is this
 * thread's. */
static struct delay_place *pop_woken(struct worker *worker)
{
	struct delay_woken *woken = &node_delays(worker->node)->woken[worker->index];

	pthread_mutex_lock(&woken->lock);
	struct delay_place *place = woken->first;
	pthread_mutex_unlock(&woken->lock);
	if (!place)
		return NULL;
	pthread_mutex_lock(&place->line->shard->lock);
	take_woken(woken, place);
	place->has_looked = true;
	pthread_mutex_unlock(&place->line->shard->lock);
	return place;
}

void delay_run(struct worker *worker)
{
	struct delay_place *place;

	while ((place = pop_woken(worker)) != NULL)
		place->go_on(place);
}
