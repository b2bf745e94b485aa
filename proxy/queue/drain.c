/* drain: how fast what waits gets away, for Retry-After.
 *
 * Counted in windows; a window's mean gap is smoothed into the gap that is reported. Written by
 * whichever worker dispatches; a count that lands in the neighbouring window does no harm, so all
 * orderings here are relaxed and pair with nothing. */
#include "queue/line.h"

#define DRAIN_WINDOW_NS 250000000ull /* 250 ms */
#define MAX_RETRY_MS    300000ull

void drain_start(struct drain *drain, uint64_t now_ns)
{
	atomic_store_explicit(&drain->since_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&drain->count, 0, memory_order_relaxed);
}

void drain_note(struct drain *drain, uint64_t now_ns)
{
	uint64_t count = atomic_fetch_add_explicit(&drain->count, 1, memory_order_relaxed) + 1;
	uint64_t since = atomic_load_explicit(&drain->since_ns, memory_order_relaxed);
	uint64_t old, gap;

	if (now_ns < since + DRAIN_WINDOW_NS)
		return;
	if (!atomic_compare_exchange_strong_explicit(
		    &drain->since_ns, &since, now_ns, memory_order_relaxed, memory_order_relaxed))
		return;
	atomic_store_explicit(&drain->count, 0, memory_order_relaxed);
	gap = (now_ns - since) / count + 1;
	old = atomic_load_explicit(&drain->gap_ns, memory_order_relaxed);
	atomic_store_explicit(
		&drain->gap_ns, old == 0 ? gap : (old * 3 + gap) / 4, memory_order_relaxed);
}

uint32_t drain_retry_ms(struct drain *drain, uint64_t waiting)
{
	uint64_t gap = atomic_load_explicit(&drain->gap_ns, memory_order_relaxed), ms;

	if (gap == 0)
		return 1000;
	if (waiting > MAX_RETRY_MS * 1000000 / gap)
		return MAX_RETRY_MS;
	ms = (waiting * gap + 999999) / 1000000;
	return ms > 0 ? (uint32_t)ms : 1;
}
