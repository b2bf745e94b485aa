#include "fleet/rung.h"

const char *rung_name(enum rung rung)
{
	static const char *const names[RUNGS] = {
		[RUNG_STORE] = "store",
		[RUNG_RETURNING] = "returning",
		[RUNG_SHARE] = "share",
		[RUNG_WAIT] = "wait",
		[RUNG_REFUSE] = "refuse",
		[RUNG_ADMIT] = "admit",
	};

	return names[rung];
}

bool rung_is_shared(const struct rung_facts *facts, uint64_t window_ms)
{
	uint64_t lasts_ms = window_ms < RUNG_SHARED_MS ? window_ms : RUNG_SHARED_MS;

	if (facts->is_slow)
		return true;
	return facts->shared_ms != 0 && facts->now_ms < facts->shared_ms + lasts_ms;
}

static bool is_returning(const struct rung_facts *facts, uint64_t window_ms)
{
	if (facts->back_ms != 0 && facts->now_ms < facts->back_ms + RUNG_RETURN_MS)
		return true;
	if (rung_is_shared(facts, window_ms))
		return true;
	return facts->has_forgotten && facts->now_ms < facts->forgot_ms + window_ms;
}

bool rung_lacks_memory(const struct rung_facts *facts, uint64_t window_ms)
{
	if (facts->now_ms < facts->young_ms)
		return true;
	return facts->has_forgotten &&
	       facts->now_ms < facts->forgot_ms + window_ms + facts->tail_ms;
}

static enum rung strict_rung(const struct rung_facts *facts, uint64_t window_ms)
{
	if (facts->strict == STRICT_USES)
		return RUNG_SHARE;
	if (facts->strict == STRICT_WAITS || !facts->has_store || !facts->knows_memory ||
		!facts->has_rest)
		return RUNG_WAIT;
	if (rung_lacks_memory(facts, window_ms))
		return RUNG_WAIT;
	return RUNG_STORE;
}

enum rung rung_of(enum conf_store_down down, const struct rung_facts *facts, uint64_t window_ms)
{
	switch (down) {
	case CONF_STORE_DOWN_LOCAL:
		if (facts->has_store && !is_returning(facts, window_ms))
			return RUNG_STORE;
		if (!facts->has_share)
			return RUNG_REFUSE;
		return facts->has_store ? RUNG_RETURNING : RUNG_SHARE;
	case CONF_STORE_DOWN_STRICT:
		return strict_rung(facts, window_ms);
	case CONF_STORE_DOWN_ADMIT:
		return facts->has_store ? RUNG_STORE : RUNG_ADMIT;
	case CONF_STORE_DOWN_REFUSE:
	case CONF_STORE_DOWN_UNSET:
		break;
	}
	return facts->has_store ? RUNG_STORE : RUNG_REFUSE;
}
