/* See charge.h. */
#include "throttle/charge.h"
#include "throttle/concurrency.h"

static bool head_is(const struct judged *j)
{
	/* relaxed: confirms the look at the bucket's tag before it */
	return atomic_load_explicit(&j->place.entry->head, memory_order_relaxed) == j->plan.head;
}

enum charged charge_judge(
	struct judged *j, struct throttle_key key, uint64_t now, enum how how, bool is_overflow)
{
	struct section *s = j->section;

	for (;;) {
		enum located located = LOCATED;

		if (is_overflow)
			section_overflow(s, key, now, &j->place);
		else
			located = section_locate(s, key, now, how != HOW_LOOK, &j->place);
		if (located == LOCATED_MOVED)
			return CHARGED_MOVED;
		if (located == LOCATED_NONE)
			return CHARGED_NONE;
		j->plan.given = 0;
		if (s->ops->plan(&s->shape, j->place.entry, j->units, now, how, &j->plan) !=
			ENTRY_READY) {
			/* An overflow's is gone only when it is frozen; of a bucket that was split
			 * there is one in the next level. */
			if (j->place.is_overflow && (j->plan.head & HEAD_SPECIAL) &&
				!place_is_split(&j->place))
				return CHARGED_MOVED;
			continue;
		}
		if (s->shape.form == FORM_CONCURRENCY && !j->place.is_overflow &&
			(j->plan.head & CONCURRENCY_SHARED) != 0)
			concurrency_share(
				&s->shape, &j->plan, j->units, section_overflow_used(s, key, now));
		if (place_holds(&j->place) && (how != HOW_LOOK || head_is(j)))
			return CHARGED;
	}
}

/* A caller judged by the overflow has perhaps got an entry of its own meanwhile, born without this
 * charge: then it is taken back. (A bucket that was frozen meanwhile has it in what moves on.) */
static bool overflow_stands(const struct judged *j)
{
	/* seq_cst: with the swap of the head before it, pairs with the swap of the word in insert()
	 */
	return word_insertion(atomic_load_explicit(&j->place.overflow->tag,
		       memory_order_seq_cst)) == word_insertion(j->place.word);
}

bool charge_commit(struct judged *j)
{
	struct section *s = j->section;
	uint64_t head = j->plan.head;

	if (j->units == 0)
		return true;
	/* seq_cst: releases what the plan wrote; for the overflow see overflow_stands */
	if (!atomic_compare_exchange_strong_explicit(&j->place.entry->head, &head, j->plan.next,
		    memory_order_seq_cst, memory_order_relaxed))
		return false;
	if (s->ops->finish != NULL)
		s->ops->finish(&s->shape, j->place.entry, j->plan.next);
	if (__builtin_expect(j->place.is_overflow, 0)) {
		if (!overflow_stands(j)) {
			struct when when = {j->plan.at, j->plan.given};

			s->ops->refund(&s->shape, j->place.entry, &when, j->units, j->plan.at);
			return false;
		}
		atomic_fetch_add_explicit(
			&j->place.section->tally->overflowed, 1, memory_order_relaxed);
	}
	return true;
}

void charge_give_back(struct throttle_table *table, const struct generation *generation,
	const struct section *s, const struct throttle_charge *charge, const struct place *place,
	struct when when, uint64_t now)
{
	struct throttle_receipt receipt = {.count = 1};

	if (s->ops->refund(
		    &s->shape, place->entry, &when, units_of_cost(&s->shape, charge->cost), now) ||
		(table_current(table) == generation && !place_is_split(place)))
		return;
	/* It has moved to a newer generation, or to the next level: there, by its key. */
	receipt.held[0] = (struct throttle_held){
		.limit = charge->limit,
		.flags = held_flags(generation->number, place->is_overflow),
		.caller = charge->caller,
		.cost = charge->cost,
		.at_ns = when.at + generation->epoch_ns,
		.given_ns = when.given,
		.added_at_ns = place->section->buckets,
	};
	throttle_refund(table, &receipt, 0, now + generation->epoch_ns);
}

enum charged charge_force(struct judged *j, struct throttle_key key, uint64_t now, bool is_overflow)
{
	enum charged charged;

	do {
		charged = charge_judge(j, key, now, HOW_FORCE, is_overflow);
	} while (charged == CHARGED && !charge_commit(j));
	return charged;
}
