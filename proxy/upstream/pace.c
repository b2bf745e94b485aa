#include "upstream/pace.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "throttle/throttle.h"

/* More are quantised: waits are then longer by at most a 256th of the window. The table makes room
 * for some thousand callers whatever we need, but only what is touched takes memory. */
#define SLOTS_MAX 256

#define GUARD_MIN_NS CLOCK_NS_PER_MS
#define GUARD_MAX_NS (50 * CLOCK_NS_PER_MS)

struct pace {
	struct throttle_table *table;
	uint32_t limit;
	_Atomic uint64_t guard_ns;
	atomic_uint owed; /* sent, and not yet charged */
};

struct pace_change {
	struct throttle_change *table;
	uint64_t guard_ns;
};

static struct throttle_limit limit_of(uint64_t amount, uint64_t per_ns)
{
	struct throttle_limit limit = {
		.name = "pace",
		.kind = THROTTLE_RING,
		.quota = amount,
		.window_ns = per_ns,
		.guard_ns = per_ns / 50,
		.slots = amount < SLOTS_MAX ? (uint32_t)amount : SLOTS_MAX,
	};

	if (limit.guard_ns < GUARD_MIN_NS)
		limit.guard_ns = GUARD_MIN_NS;
	if (limit.guard_ns > GUARD_MAX_NS)
		limit.guard_ns = GUARD_MAX_NS;
	return limit;
}

struct pace *pace_new(uint64_t amount, uint64_t per_ns)
{
	struct throttle_limit limit = limit_of(amount, per_ns);
	struct throttle_table_options options = {.callers = 1, .now_ns = clock_monotonic_ns()};
	struct pace *pace = calloc(1, sizeof(*pace));

	if (!pace)
		return NULL;
	atomic_init(&pace->guard_ns, limit.guard_ns);
	pace->table = throttle_table_open(&options, &limit, 1, NULL);
	if (!pace->table) {
		free(pace);
		return NULL;
	}
	pace->limit = (uint32_t)throttle_table_find(pace->table, limit.name);
	return pace;
}

void pace_free(struct pace *pace)
{
	if (!pace)
		return;
	throttle_table_close(pace->table);
	free(pace);
}

struct pace_change *pace_prepare(struct pace *pace, uint64_t amount, uint64_t per_ns)
{
	struct throttle_limit limit = limit_of(amount, per_ns);
	struct pace_change *change = malloc(sizeof(*change));

	if (!change)
		return NULL;
	change->guard_ns = limit.guard_ns;
	change->table =
		throttle_table_prepare(pace->table, &limit, 1, 0, clock_monotonic_ns(), NULL);
	if (change->table)
		return change;
	free(change);
	return NULL;
}

void pace_commit(struct pace *pace, struct pace_change *change)
{
	throttle_table_commit(pace->table, change->table, clock_monotonic_ns(), NULL);
	/* relaxed: a thread that still sees the old guard is charged by the old one */
	atomic_store_explicit(&pace->guard_ns, change->guard_ns, memory_order_relaxed);
	free(change);
}

void pace_discard(struct pace_change *change)
{
	if (!change)
		return;
	throttle_table_discard(change->table);
	free(change);
}

void pace_collect(struct pace *pace)
{
	throttle_table_collect(pace->table);
}

/* 0 when there was room for one more. */
static uint64_t take(struct pace *pace, uint64_t now_ns)
{
	struct throttle_charge charge = {.limit = pace->limit, .cost = 1};
	struct throttle_verdict verdict;

	throttle_take(pace->table, &charge, 1, now_ns, &verdict, NULL);
	if (verdict.admitted)
		return 0;
	return verdict.retry_after_ns > 0 ? verdict.retry_after_ns : 1;
}

uint64_t pace_charge(void *ctx, uint64_t now_ns)
{
	struct pace *pace = ctx;
	/* relaxed, as below: counts, nothing is read by them */
	unsigned owed = atomic_load_explicit(&pace->owed, memory_order_relaxed);
	uint64_t wait_ns;

	now_ns = clock_monotonic_ns();
	while (owed > 0) {
		if (!atomic_compare_exchange_weak_explicit(&pace->owed, &owed, owed - 1,
			    memory_order_relaxed, memory_order_relaxed))
			continue;
		wait_ns = take(pace, now_ns);
		if (wait_ns != 0) {
			atomic_fetch_add_explicit(&pace->owed, 1, memory_order_relaxed);
			return wait_ns;
		}
		owed = atomic_load_explicit(&pace->owed, memory_order_relaxed);
	}
	return take(pace, now_ns);
}

void pace_sent(struct pace *pace, uint64_t charged_ns, bool again)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!again &&
		now_ns <= charged_ns + atomic_load_explicit(&pace->guard_ns, memory_order_relaxed))
		return;
	if (take(pace, now_ns) != 0)
		atomic_fetch_add_explicit(&pace->owed, 1, memory_order_relaxed);
}
