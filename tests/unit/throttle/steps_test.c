/*
 * A thread that is stopped, or a process that is killed, between two steps of a change: what it
 * leaves is put there by hand, others continue, and then the thread does.
 */
#include "fixture.h"

#include "throttle/limit.h"
#include "throttle/ring.h"
#include "throttle/section_move.h"
#include "throttle/table.h"
#include "tests/unit/suite.h"

#define QUOTA 3
#define MANY  4000 /* more than the first level of a growing table has room for */

static struct section *section_of(struct throttle_table *t)
{
	return &generation_limit(table_current(t), 0)->section;
}

static struct place find(struct throttle_table *t, uint64_t caller)
{
	struct place place;

	assert_true(section_find(section_of(t), key_of(t, caller), &place));
	return place;
}

static uint64_t bucket_of(const struct section *s, struct throttle_table *t, uint64_t caller)
{
	return section_bucket_of(s, key_of(t, caller));
}

/* The first caller after this one with the same bucket of `s`. */
static uint64_t neighbour_of(const struct section *s, struct throttle_table *t, uint64_t caller)
{
	uint64_t other = caller + 1;

	while (bucket_of(s, t, other) != bucket_of(s, t, caller))
		other++;
	return other;
}

/* A newcomer has taken an empty entry for itself, and not yet said so in the bucket's word. Its
 * last caller comes back: the newcomer is too late, and what is charged is not lost to it. */
static void test_insertion_not_decided(void **state)
{
	const struct throttle_limit limit = ring("l", QUOTA, SECOND);
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);
	const uint64_t now = START + 100 * SECOND, caller = 1;
	struct section *s = section_of(t);
	uint64_t number = bucket_of(s, t, caller), newcomer = neighbour_of(s, t, caller);
	uint64_t word, next;
	struct place place;

	(void)state;
	assert_true(take_one(t, caller, 1, START, NULL));
	place = find(t, caller);
	word = section_load_word(s, number);
	next = section_tag(section_fingerprint_of(key_of(t, newcomer)), word_way(word),
		word_sequence(word) + 1);
	atomic_store(&place.entry->head, make_tombstone(next));
	assert_int_equal(take_until_refused(t, caller, now), QUOTA);
	atomic_compare_exchange_strong(section_word(s, number), &word, next);
	assert_int_equal(take_until_refused(t, newcomer, now), QUOTA);
	assert_int_equal(take_until_refused(t, caller, now), 0);
	throttle_table_close(t);
}

static struct throttle_table *open_grown(const struct throttle_limit *limit)
{
	const struct throttle_table_options options = {
		.callers = 100000, .now_ns = START, .grows = true};
	struct throttle_table *t = throttle_table_open(&options, limit, 1, NULL);

	assert_non_null(t);
	for (uint64_t caller = 0; !throttle_table_wants_growth(t) && caller < MANY; caller++)
		assert_true(take_one(t, caller, 1, START, NULL));
	assert_int_equal(throttle_table_grow(t), 0);
	assert_non_null(section_next(section_of(t)));
	return t;
}

/* The word says that the bucket was split, its entries can still be charged. A thread that comes by
 * then freezes them before they are copied. */
static void test_split_not_frozen(void **state)
{
	const struct throttle_limit limit = ring("l", QUOTA, 3600 * SECOND);
	struct throttle_table *t = open_grown(&limit);
	struct section *s = section_of(t);
	const uint64_t caller = 1, number = bucket_of(s, t, caller);
	uint64_t newcomer = neighbour_of(s->next, t, caller), word = section_load_word(s, number);
	struct place place;

	(void)state;
	while (section_find(s, key_of(t, newcomer), &place))
		newcomer = neighbour_of(s->next, t, newcomer);
	atomic_fetch_or(section_word(s, number),
		WORD_FROZEN | (word_insertion(word) != 0 ? WORD_MOVED : WORD_SPLIT));
	assert_true(take_one(t, newcomer, 1, START, NULL));
	assert_int_equal(take_until_refused(t, caller, START), QUOTA - 1);
	section_freeze_bucket(s, number, true);
	assert_int_equal(take_until_refused(t, caller, START), 0);
	throttle_table_close(t);
}

/* A receipt of a caller whose throttle is no more is refunded just when a change of limits has
 * frozen the bucket. */
static void test_refund_of_nobody(void **state)
{
	const struct throttle_limit limit = ring("l", QUOTA, 3600 * SECOND);
	struct throttle_table *t = open_grown(&limit);
	struct section *s = section_of(t);
	const uint64_t nobody = MANY + 1;
	struct throttle_charge charge = {.cost = 1, .caller = key_of(t, 1)};
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	struct place place;

	(void)state;
	throttle_take(t, &charge, 1, START, &verdict, &receipt);
	assert_true(verdict.admitted);
	receipt.held[0].caller = key_of(t, nobody);
	assert_false(section_find(s, key_of(t, nobody), &place));
	section_freeze_bucket(s, bucket_of(s, t, nobody), false);
	throttle_refund(t, &receipt, 0, START);
	throttle_table_close(t);
}

/* A thread that has judged by a head, and swaps it late, must not find it again with other slots
 * behind it: after a refund there is none like before, also within the same tick. */
static void refund_first(uint64_t quota)
{
	struct throttle_limit limit = ring("l", quota, 10 * SECOND);
	struct throttle_table *t;
	struct throttle_charge charge = {.cost = 1};
	struct throttle_verdict verdict;
	struct throttle_receipt first;
	uint64_t head;

	limit.slots = THROTTLE_EXACT;
	t = open_table(NULL, 1, &limit, 1);
	charge.caller = key_of(t, 1);
	throttle_take(t, &charge, 1, START, &verdict, &first);
	assert_true(verdict.admitted);
	assert_true(take_one(t, 1, 1, START + 10 * MS, NULL));
	head = atomic_load(&find(t, 1).entry->head);
	throttle_refund(t, &first, 0, START + 10 * MS);
	assert_true(take_one(t, 1, 1, START + 10 * MS, NULL));
	assert_true(atomic_load(&find(t, 1).entry->head) != head);
	throttle_table_close(t);
}

static void test_no_head_twice(void **state)
{
	(void)state;
	refund_first(8);
	refund_first(20);
	refund_first(31);
	refund_first(32);
	refund_first(300);
}

/* A ring that is made of an entry whose newest slot has the very tick from its last caller: its
 * slots are not taken for written. */
static void make_of_the_same_tick(uint64_t quota, uint64_t used)
{
	static _Alignas(64) unsigned char memory[4096];
	const struct throttle_limit limit = {
		.name = "l", .quota = quota, .window_ns = SECOND, .slots = THROTTLE_EXACT};
	struct entry *e = (struct entry *)(void *)memory;
	_Atomic(uint64_t) latest = 1000 * SECOND;
	struct birth birth = {.used = used, .now = 1000 * SECOND};
	struct plan plan;
	struct shape s;

	limit_shape(&limit, &s);
	s.latest = &latest;
	memset(memory, 0, sizeof(memory));
	for (uint64_t i = 0; i + 1 < used; i++)
		e->slot[s.first_slot + i] = (uint32_t)((birth.now - SECOND) >> s.shift);
	e->slot[s.first_slot + used - 1] = (uint32_t)(birth.now >> s.shift & s.slot_mask);
	ring_ops.make(&s, e, &birth);
	atomic_store(&latest, birth.now + SECOND / 2);
	assert_int_equal(
		ring_ops.plan(&s, e, 1, birth.now + SECOND / 2, HOW_LOOK, &plan), ENTRY_READY);
	assert_int_equal(plan.used, used);
}

static void test_made_of_the_same_tick(void **state)
{
	(void)state;
	make_of_the_same_tick(20, 7);
	make_of_the_same_tick(40, 12);
}

UNIT_SUITE(steps_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_insertion_not_decided),
		cmocka_unit_test(test_split_not_frozen),
		cmocka_unit_test(test_refund_of_nobody),
		cmocka_unit_test(test_no_head_twice),
		cmocka_unit_test(test_made_of_the_same_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
