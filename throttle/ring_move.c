/* Rings that change their place: what one remembers, what another makes of it, and what a file
 * says. See section_move.c for when, ring.c for what slots and head mean. */
#include "throttle/ring.h"

#include <string.h>

unsigned ring_remember(const struct shape *s, const struct entry *e, uint64_t now,
	struct event *events, unsigned room)
{
	struct entry *entry = (struct entry *)(uintptr_t)e; /* only read */
	struct view v = unpack(s, atomic_load_explicit(&entry->head, memory_order_acquire));
	uint64_t absolute = now >> s->shift, since = ticks_since(s, absolute, v.tick);
	unsigned count = 0;

	if (since >= s->keep_ticks)
		return 0;
	if (since == 0)
		absolute += (v.tick - absolute) & s->tick_mask;
	for (uint32_t n = v.fill; n > 0 && count < room; n--) {
		uint64_t age = age_of(s, entry, before(s, v.position, n), absolute);

		if (age >= s->keep_ticks || age > absolute)
			continue;
		events[count].at = (absolute - age) << s->shift;
		events[count++].units = 1;
	}
	/* The head's time, though what was charged then may have been refunded. */
	if (count < room) {
		events[count].at = (absolute - ((absolute - v.tick) & s->tick_mask)) << s->shift;
		events[count++].units = 0;
	}
	return count;
}

void ring_recall(const struct shape *s, const struct event *events, unsigned count, uint64_t now,
	struct image *image)
{
	struct view v = {.type = RING_CLEAN, .tick = now >> s->shift};
	uint32_t n = 0;

	/* From the newest back, as many as there are slots for. */
	for (unsigned i = count; i > 0 && n < s->slots; i--)
		for (uint64_t u = events[i - 1].units; u > 0 && n < s->slots; u--)
			image->slot[s->first_slot + s->slots - ++n] =
				(uint32_t)(events[i - 1].at >> s->shift & s->slot_mask);
	if (count > 0)
		v.tick = events[count - 1].at >> s->shift;
	v.fill = n;
	if (s->first_slot > 0) {
		uint64_t stamp = now > 0 ? now : 1;

		memcpy(&image->slot[0], &stamp, sizeof(stamp));
	}
	image->head = pack(s, &v);
}

void ring_repair(const struct shape *s, struct entry *e)
{
	/* relaxed: at opening */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);
	struct view v = unpack(s, head);

	if (head == 0 || head_is_tombstone(head) ||
		(v.position < s->slots && v.fill <= s->slots &&
			v.hole < s->slots + (v.type == RING_OPEN)))
		return;
	v.fill = v.claimed = s->slots;
	v.position = 0;
	v.type = RING_OPEN;
	atomic_compare_exchange_strong_explicit(&e->head, &head,
		pack(s, &v) | (head & HEAD_SPECIAL), memory_order_relaxed, memory_order_relaxed);
}
