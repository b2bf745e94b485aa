/* Rings that change their place: the charges that one remembers, their conversion for another, and
 * their check in a file. See section_move.c for when, ring.c for what slots and head mean. */
#include "throttle/ring.h"

#include <string.h>

bool ring_is_same(const struct shape *s, const struct shape *old)
{
	return s->slots == old->slots && s->shift == old->shift && s->window == old->window &&
	       s->keep == old->keep && s->scale == old->scale;
}

bool ring_remember(
	const struct shape *s, const struct entry *e, uint64_t now, struct history *history)
{
	struct entry *entry = (struct entry *)(uintptr_t)e; /* only read */
	/* acquire: as in ring_plan */
	uint64_t head = atomic_load_explicit(&entry->head, memory_order_acquire);
	struct view v = unpack(s, head);
	uint64_t newest = now >> s->shift, since = ticks_since(s, newest, v.tick);
	const uint64_t past = time_before_move(now), lasts = s->keep - TIME_SLACK_NS;

	if (since >= s->keep_ticks || ring_is_idle(s, entry, head, now))
		return false;
	newest = since > 0 ? newest - since : newest + ((v.tick - newest) & s->tick_mask);
	history->newest = newest << s->shift;
	for (uint32_t n = v.fill; n > 0; n--) {
		uint64_t age = age_of(s, entry, before(s, v.position, n), newest), end;

		if (age > newest)
			continue;
		end = ((newest - age + 1) << s->shift) - 1;
		if (end + lasts <= past)
			continue;
		history->events[history->count++] = (struct event){end < now ? end : now, 1};
	}
	return true;
}

void ring_recall(
	const struct shape *s, const struct history *history, uint64_t now, struct image *image)
{
	uint64_t newest = history->newest, first_units;
	unsigned first = history_newest(history, s->quota, &first_units);
	struct view v = {.type = RING_CLEAN};

	for (unsigned i = first; i < history->count; i++) {
		uint64_t at = history->events[i].at;
		uint64_t units = i == first ? first_units : history->events[i].units;

		newest = at > newest ? at : newest;
		for (; units > 0 && now - at < s->keep; units--)
			image->slot[s->first_slot + v.fill++] =
				(uint32_t)(at >> s->shift & s->slot_mask);
	}
	/* Not so old that its tick could be taken for a new one. */
	if (now > s->keep && newest < now - s->keep)
		newest = now - s->keep;
	v.tick = (newest < now ? newest : now) >> s->shift;
	v.position = v.fill % s->slots;
	if (s->first_slot > 0) {
		uint64_t stamp = now > 0 ? now : 1;

		memcpy(&image->slot[0], &stamp, sizeof(stamp));
	}
	image->head = pack(s, &v);
}

/* A hole is one of the slots in use. */
static bool can_be(const struct shape *s, const struct view *v)
{
	if (v->position >= s->slots || v->fill > s->slots)
		return false;
	if (is_gap_open(v))
		return v->hole < s->slots &&
		       (v->position + s->slots - v->hole - 1) % s->slots < v->fill;
	return v->type == RING_CLEAN ? v->hole == 0 : v->claimed <= s->slots;
}

void ring_repair(const struct shape *s, struct entry *e)
{
	/* relaxed: at opening */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);
	struct view v = unpack(s, head);

	if (head == 0 || head_is_tombstone(head))
		return;
	/* None was made without a stamp. What is in use is not taken for long over. */
	if (s->first_slot > 0 && atomic_load_explicit(stamp_of(e), memory_order_relaxed) == 0)
		atomic_store_explicit(stamp_of(e), latest_of(s), memory_order_relaxed);
	if (can_be(s, &v))
		return;
	v.fill = v.claimed = s->slots;
	v.position = 0;
	v.type = RING_OPEN;
	atomic_compare_exchange_strong_explicit(&e->head, &head,
		pack(s, &v) | (head & HEAD_SPECIAL), memory_order_relaxed, memory_order_relaxed);
}
