#include "relay/pace.h"

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
	atomic_uint holders;
	struct throttle_table *table;
	uint32_t limit;
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
	atomic_init(&pace->holders, 1);
	pace->table = throttle_table_open(&options, &limit, 1, NULL);
	if (!pace->table) {
		free(pace);
		return NULL;
	}
	pace->limit = (uint32_t)throttle_table_find(pace->table, limit.name);
	return pace;
}

bool pace_configure(struct pace *pace, uint64_t amount, uint64_t per_ns)
{
	struct throttle_limit limit = limit_of(amount, per_ns);

	return throttle_table_apply(pace->table, &limit, 1, 0, clock_monotonic_ns(), NULL) == 0;
}

void pace_collect(struct pace *pace)
{
	throttle_table_collect(pace->table);
}

struct pace *pace_hold(struct pace *pace)
{
	/* relaxed: whoever holds may pass it on; the release below orders the rest */
	atomic_fetch_add_explicit(&pace->holders, 1, memory_order_relaxed);
	return pace;
}

void pace_release(struct pace *pace)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (!pace || atomic_fetch_sub_explicit(&pace->holders, 1, memory_order_acq_rel) != 1)
		return;
	throttle_table_close(pace->table);
	free(pace);
}

uint64_t pace_charge(void *ctx, uint64_t now_ns)
{
	struct pace *pace = ctx;
	struct throttle_charge charge = {.limit = pace->limit, .cost = 1};
	struct throttle_verdict verdict;

	(void)now_ns;
	throttle_take(pace->table, &charge, 1, clock_monotonic_ns(), &verdict, NULL);
	if (verdict.admitted)
		return 0;
	return verdict.retry_after_ns > 0 ? verdict.retry_after_ns : 1;
}
