#include "fleet/strict.h"

#include "base/clock.h"

enum { HEAD_MS = 200 }; /* until what was admitted has left (exchange/turn_ask.c), doubled */

void strict_init(struct strict *strict)
{
	atomic_init(&strict->asked_ns, 0);
	atomic_init(&strict->answered_ns, 0);
	atomic_init(&strict->lost, 0);
	atomic_init(&strict->divisor, 0);
	atomic_init(&strict->ahead_ns, 0);
}

void strict_set(struct strict *strict, const struct strict_view *view)
{
	/* relaxed: asked_ns comes after them */
	atomic_store_explicit(&strict->answered_ns, view->answered_ns, memory_order_relaxed);
	atomic_store_explicit(&strict->lost, view->lost, memory_order_relaxed);
	atomic_store_explicit(&strict->divisor, view->divisor, memory_order_relaxed);
	atomic_store_explicit(&strict->ahead_ns, view->ahead_ns, memory_order_relaxed);
	/* release: pairs with strict_look */
	atomic_store_explicit(&strict->asked_ns, view->asked_ns, memory_order_release);
}

struct strict_view strict_look(const struct strict *strict)
{
	struct strict_view view;

	/* acquire: the rest is as new, at least (strict_set) */
	view.asked_ns = atomic_load_explicit(&strict->asked_ns, memory_order_acquire);
	view.answered_ns = atomic_load_explicit(&strict->answered_ns, memory_order_relaxed);
	view.lost = atomic_load_explicit(&strict->lost, memory_order_relaxed);
	view.divisor = atomic_load_explicit(&strict->divisor, memory_order_relaxed);
	view.ahead_ns = atomic_load_explicit(&strict->ahead_ns, memory_order_relaxed);
	return view;
}

uint64_t strict_tail_ms(uint64_t timeout_ms, uint64_t term_ms)
{
	return (timeout_ms > term_ms ? timeout_ms : term_ms) + HEAD_MS;
}

static uint64_t ms_since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? (now_ns - then_ns) / CLOCK_NS_PER_MS : 0;
}

/* Points 4 and 6 of the header, with a sixteenth for the speed of clocks. */
static bool uses_share(
	const struct strict_view *view, const struct strict_times *times, uint64_t now_ns)
{
	uint64_t lost_ms = 3 * times->lease_ms + times->tail_ms;
	uint64_t begins_ms = lost_ms + lost_ms / 16 + times->window_ms;
	uint64_t last_ms = times->kept_ms - times->kept_ms / 16;
	uint64_t after_ms = times->window_ms + times->tail_ms;

	return view->divisor > 0 && ms_since(view->answered_ns, now_ns) > begins_ms &&
	       ms_since(view->asked_ns, now_ns) + after_ms < last_ms;
}

enum strict_state strict_state_of(
	const struct strict_view *view, const struct strict_times *times, uint64_t now_ns)
{
	if (view->asked_ns == 0)
		return STRICT_WAITS;
	if (ms_since(view->asked_ns, now_ns) < times->lease_ms)
		return STRICT_ASKS;
	return uses_share(view, times, now_ns) ? STRICT_USES : STRICT_WAITS;
}

uint64_t strict_held(const struct strict_view *view, uint64_t kept_ms, uint64_t now_ns)
{
	return ms_since(view->asked_ns, now_ns) < kept_ms - kept_ms / 16 ? view->divisor : 0;
}

uint64_t strict_late_ns(const struct strict_view *view, const struct strict_times *times)
{
	return view->asked_ns + (times->lease_ms + times->tail_ms - HEAD_MS) * CLOCK_NS_PER_MS;
}
