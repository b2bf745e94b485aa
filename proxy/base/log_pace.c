#include "base/log_pace.h"

/* The clock of the thread that wrote the last line may be ahead of this one's. */
static bool has_line(uint64_t last_ms, uint64_t every_ms, uint64_t now_ms)
{
	return last_ms != 0 && (now_ms < last_ms || now_ms - last_ms < every_ms);
}

bool log_pace_may_log(struct log_pace *pace, uint64_t now_ms, unsigned *unlogged)
{
	return log_pace_may_log_each(pace, LOG_PACE_MS, now_ms, unlogged);
}

bool log_pace_may_log_each(
	struct log_pace *pace, uint64_t every_ms, uint64_t now_ms, unsigned *unlogged)
{
	/* relaxed, all: of several workers one writes the line; the count is for people */
	uint64_t last = atomic_load_explicit(&pace->logged_ms, memory_order_relaxed);

	if (has_line(last, every_ms, now_ms) ||
		!atomic_compare_exchange_strong_explicit(&pace->logged_ms, &last, now_ms,
			memory_order_relaxed, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&pace->unlogged, 1, memory_order_relaxed);
		return false;
	}
	*unlogged = atomic_exchange_explicit(&pace->unlogged, 0, memory_order_relaxed);
	return true;
}

unsigned log_pace_take_unlogged(struct log_pace *pace, uint64_t now_ms)
{
	/* relaxed, both: for people */
	uint64_t last = atomic_load_explicit(&pace->logged_ms, memory_order_relaxed);

	if (!log_pace_has_unlogged(pace) || has_line(last, LOG_PACE_MS, now_ms))
		return 0;
	atomic_store_explicit(&pace->logged_ms, now_ms, memory_order_relaxed);
	return atomic_exchange_explicit(&pace->unlogged, 0, memory_order_relaxed);
}

bool log_pace_has_unlogged(const struct log_pace *pace)
{
	return atomic_load_explicit(&pace->unlogged, memory_order_relaxed) > 0;
}
