/* What an operator's question about callers asks of the store, and what is made of its answers:
 * without threads, a store and a clock. */
#include "fleet/inquiry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/cluster.h"
#include "fleet/fleet.h"
#include "store/integers.h"
#include "fleet/members.h"
#include "fleet/question.h"
#include "fleet/relaxed.h"
#include "fleet/split.h"
#include "tests/unit/fleet/call_words.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"

enum { BEGIN_MS = 1000000, QUOTA = 10, WINDOW_US = 2000000, LEASE_MS = 5000, CALLS = 8 };
enum { SILENCE_MS = 1000, EPOCH = 44, HOLDER = 7 };
enum { ASK = 1, GIVE = 2, LOOK = 4, FORGET = 6, WAITS = 2 + 64 }; /* of judge.lua and lease.lua */

static char prefix[] = "f";

static struct {
	struct fleet_worker fleet;
	struct members members;
	struct conf_limit limits[4];
	struct inquiry inquiry;
	struct loop asker;
	struct store_call *calls[CALLS];
	unsigned count, flushed, done;
	struct message *posted;
	struct loop *posted_to;
	struct cluster cluster;
} world;

/* ---- in the place of the store and of threads ------------------------------------------------ */

static void take(struct store_call *call)
{
	assert_true(world.count < CALLS);
	world.calls[world.count++] = call;
}

void __real_store_link_flush(struct store_link *store);
void __wrap_store_link_flush(struct store_link *store);
void __wrap_store_link_flush(struct store_link *store)
{
	if (!unit_runs("test_inquiry")) {
		__real_store_link_flush(store);
		return;
	}
	assert_ptr_equal(store, &world.fleet.store);
	world.flushed++;
}

void __real_message_post(struct loop *to, struct message *message);
void __wrap_message_post(struct loop *to, struct message *message);
void __wrap_message_post(struct loop *to, struct message *message)
{
	if (!unit_runs("test_inquiry")) {
		__real_message_post(to, message);
		return;
	}
	assert_null(world.posted);
	world.posted = message;
	world.posted_to = to;
}

/* ---- what a test does ------------------------------------------------------------------------ */

static void on_done(struct inquiry *inquiry)
{
	assert_ptr_equal(inquiry, &world.inquiry);
	world.done++;
}

static void add(struct conf_limit *limit, enum conf_fleet_way way, const char *name)
{
	*limit = (struct conf_limit){.name = name,
		.of_fleet = true,
		.fleet_way = way,
		.amount = QUOTA,
		.per_ns = WINDOW_US * UINT64_C(1000)};
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	fake_store.own_link = &world.fleet.store;
	fake_store.take = take;
	fake_store.conf.fleet = (struct conf_fleet){.store_timeout_ms = 20,
		.membership_lease_ms = LEASE_MS,
		.store_down = CONF_STORE_DOWN_LOCAL};
	fake_store.worker.memory[PART_FLEET] = &world.fleet;
	members_init(&world.members);
	members_learn_epoch(&world.members, 3, 0, EPOCH);
	world.fleet.worker = &fake_store.worker;
	world.fleet.store.state = STORE_READY;
	world.fleet.store_id = 3;
	world.fleet.prefix = prefix;
	world.fleet.joining.members = &world.members;
	world.fleet.holds.holder = HOLDER;
	world.fleet.parts[0].knows_epoch = true;
	world.inquiry.done = on_done;
	add(&world.limits[0], CONF_FLEET_EXACT, "exact");
	add(&world.limits[1], CONF_FLEET_LEASE, "lease");
	add(&world.limits[2], CONF_FLEET_RELAXED, "relaxed");
	add(&world.limits[3], CONF_FLEET_SPLIT, "split");
	return 0;
}

static int end(void **state)
{
	(void)state;
	inquiry_end(&world.inquiry);
	members_end(&world.members);
	periods_free(world.fleet.periods);
	return 0;
}

/* Asks about a caller of the n-th limit, too. */
static struct inquiry_limit *about(unsigned n, uint64_t caller, uint64_t cost)
{
	struct inquiry_limit *limit = &world.inquiry.limits[world.inquiry.count++];

	limit->limit = &world.limits[n];
	limit->caller = (struct throttle_key){caller, caller << 8};
	limit->cost = cost;
	return limit;
}

static void run_posted(struct loop *on)
{
	struct message *message = world.posted;

	assert_non_null(message);
	assert_ptr_equal(world.posted_to, on);
	world.posted = NULL;
	message->run(message);
}

/* From the asker's thread to the worker's, where it asks. */
static void ask(void)
{
	inquiry_begin(&world.inquiry, &fake_store.worker, &world.asker);
	assert_int_equal(fake_store.sent, 0);
	run_posted(&fake_store.worker.loop);
	assert_int_equal(world.flushed, 1);
}

static void assert_done(bool is_answered)
{
	assert_int_equal(world.done, 0);
	run_posted(&world.asker);
	assert_int_equal(world.done, 1);
	assert_int_equal(world.inquiry.is_answered, is_answered);
	assert_true(world.inquiry.silence.at_ms == DEADLINE_NEVER);
}

static void assert_not_done(void)
{
	assert_null(world.posted);
	assert_int_equal(world.done, 0);
}

/* What the n-th call of all that were sent says. */
static void says(
	unsigned n, const char *function, const char *key, const uint64_t *numbers, unsigned count)
{
	struct call_words words;

	assert_true(n < world.count);
	call_words_read(&words, world.calls[n]->command, world.calls[n]->len);
	assert_memory_equal(words.texts[1], function, strlen(function)); /* and perhaps a number */
	/* behind the epoch's, if it has one */
	assert_string_equal(words.texts[strstr(key, ":relaxed") ? 3 : 4], key);
	assert_int_equal(words.number_count, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(words.numbers[i], numbers[i]);
}

#define SAYS(n, function, key, ...)                                                                \
	says(n, function, key, (const uint64_t[]){__VA_ARGS__},                                    \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* As judge.lua answers on a machine that has the low byte of a double first, as the tests do. */
static size_t put_doubles(uint8_t *out, const int64_t *numbers, uint32_t count)
{
	for (unsigned i = 0; i < count; i++) {
		double number = (double)numbers[i];
		memcpy(out + i * sizeof(number), &number, sizeof(number));
	}
	return count * sizeof(double);
}

static size_t put_integers(uint8_t *out, const int64_t *numbers, uint32_t count)
{
	size_t len = integers_head(out, count);

	for (unsigned i = 0; i < count; i++) {
		if (numbers[i] < 0)
			out[len++] = (uint8_t)numbers[i]; /* a small one below 0 */
		else
			len += integers_put(out + len, (uint64_t)numbers[i]);
	}
	return len;
}

static void answer(unsigned n, const int64_t *numbers, uint32_t count)
{
	uint8_t bytes[256];
	struct store_call *call = world.calls[n];
	struct call_words words;

	call_words_read(&words, call->command, call->len);
	bool is_judge = strcmp(words.texts[1], batch_judge.name) == 0;
	size_t len =
		is_judge ? put_doubles(bytes, numbers, count) : put_integers(bytes, numbers, count);
	call->answered(call, (const char *)bytes, len);
}

#define ANSWER(n, ...)                                                                             \
	answer(n, (const int64_t[]){__VA_ARGS__},                                                  \
		sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void lose(unsigned n)
{
	world.calls[n]->answered(world.calls[n], NULL, 0);
}

#define JUDGE_KEY   "f{00000000000000010000000000000100}exact:1"
#define LEASE_KEY   "f{00000000000000010000000000000100}lease:lease"
#define RELAXED_KEY "f{00000000000000010000000000000100}relaxed:relaxed"

/* ---- looks ----------------------------------------------------------------------------------- */

static void an_exact_limit_is_looked_at(void **state)
{
	(void)state;
	struct inquiry_limit *limit = about(0, 1, 3);
	ask();
	SAYS(0, batch_judge.name, JUDGE_KEY, 0, 5000000, 1, 0, QUOTA, WINDOW_US, 1, LOOK, 1, 2, 1,
		3);
	assert_not_done();
	ANSWER(0, 1000, EPOCH, 0, 8, -1, 5000);
	assert_done(true);
	assert_int_equal(limit->outcome.quota, QUOTA);
	assert_int_equal(limit->outcome.remaining, 2);
	assert_true(limit->outcome.violated);
	assert_int_equal(limit->outcome.retry_after_ns, 5000000);
}

/* Where a limit waits for a store that has forgotten, so does a look. */
static void a_look_says_what_the_node_remembers(void **state)
{
	struct call_words words;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		world.limits[i].store_down =
			i == 0 ? CONF_STORE_DOWN_REFUSE : CONF_STORE_DOWN_STRICT;
		about(i, 1, 1);
	}
	ask();
	for (unsigned i = 0; i < 2; i++) {
		call_words_read(&words, world.calls[i]->command, world.calls[i]->len);
		assert_int_equal(words.numbers[3], WAITS);
		assert_string_equal(words.texts[words.count - 1], "44");
		lose(i);
	}
	assert_done(false);
}

static void a_leased_limit_is_asked_for_nothing(void **state)
{
	(void)state;
	struct inquiry_limit *free_one = about(1, 1, 2), *full = about(1, 2, 0),
			     *never = about(1, 3, QUOTA + 1);
	ask();
	assert_int_equal(world.count, 1);
	SAYS(0, batch_lease.name, LEASE_KEY, 0, LEASE_MS * 1000, 1, 0, QUOTA, WINDOW_US, 1, ASK, 1,
		2, 1, 0, 0, 0, 0, 0, 0, WINDOW_US / 4, 0, /* nothing */
		ASK, 1, 3, 1, 0, 0, 0, 0, 0, 0, WINDOW_US / 4, 0, ASK, 1, 4, 1, 0, 0, 0, 0, 0, 0,
		WINDOW_US / 4, 0);
	ANSWER(0, 1000, 2, 1, 8, 0, 0, 0, 700, 1, 1, QUOTA, 0, 0, 0, 700, 1, 1, 0, 0, 0, 0, 0, 1);
	assert_done(true);
	assert_false(free_one->outcome.violated);
	assert_int_equal(free_one->outcome.remaining, 2);
	assert_true(full->outcome.violated);
	assert_int_equal(full->outcome.retry_after_ns, 700000);
	assert_true(never->outcome.violated);
	assert_true(never->outcome.retry_after_ns == THROTTLE_NEVER);
}

static void of_a_relaxed_limit_the_sum_is_asked_for(void **state)
{
	(void)state;
	struct inquiry_limit *free_one = about(2, 1, 0), *over = about(2, 2, 0),
			     *never = about(2, 3, QUOTA + 1);
	ask();
	SAYS(0, "sluice_relaxed_", RELAXED_KEY, WINDOW_US, 1, 0, 0, WINDOW_US, 1, 0, 0, WINDOW_US,
		1, 0, 0);
	ANSWER(0, QUOTA - 1, 900, QUOTA, 800, 0, 0);
	assert_done(true);
	assert_int_equal(free_one->outcome.remaining, 1);
	assert_false(free_one->outcome.violated);
	assert_int_equal(free_one->outcome.reset_ns, 900000);
	assert_true(over->outcome.violated);
	assert_int_equal(over->outcome.remaining, 0);
	assert_int_equal(over->outcome.retry_after_ns, 800000);
	assert_true(never->outcome.retry_after_ns == THROTTLE_NEVER);
}

static void each_function_has_a_call_and_all_must_answer(void **state)
{
	(void)state;
	struct inquiry_limit *exact = about(0, 1, 1), *lease = about(1, 1, 1),
			     *relaxed = about(2, 1, 1), *split = about(3, 1, 1);
	ask();
	assert_int_equal(world.count, 3); /* split is judged as exact */
	ANSWER(2, 6, 100);
	ANSWER(0, 1000, EPOCH, -1, 3, 0, 100, -1, 4, 0, 100);
	assert_not_done();
	ANSWER(1, 1000, 2, 1, 5, 0, 0, 0, 100, 1);
	assert_done(true);
	assert_int_equal(exact->outcome.remaining, QUOTA - 3);
	assert_int_equal(split->outcome.remaining, QUOTA - 4);
	assert_int_equal(lease->outcome.remaining, QUOTA - 5);
	assert_int_equal(relaxed->outcome.remaining, QUOTA - 6);
}

/* A period's edges are the limit's, by the store's clock. */
static void a_calendar_has_the_edges_of_its_periods(void **state)
{
	struct call_words words;
	const uint64_t store_us = UINT64_C(1767261600) * 1000000; /* 2026-01-01 10:00 UTC */

	(void)state;
	world.limits[0].algorithm = CONF_LIMIT_CALENDAR;
	world.limits[0].calendar = CONF_CALENDAR_DAY;
	world.limits[0].time_zone = "UTC";
	world.limits[0].per_ns = 0;
	world.fleet.store_ahead_us = (int64_t)(store_us - BEGIN_MS * UINT64_C(1000));
	about(0, 1, 1);
	ask();
	call_words_read(&words, world.calls[0]->command, world.calls[0]->len);
	assert_int_equal(
		words.numbers[3], WAITS + 16 * RULE_CALENDAR); /* it waits: shares fail it */
	assert_int_equal(words.numbers[4], QUOTA);
	for (unsigned i = 0; i < RULE_EDGES; i++) /* yesterday's beginning ... tomorrow's end */
		assert_true(words.numbers[5 + i] % (UINT64_C(86400) * 1000000) == 0);
	assert_true(words.numbers[6] <= store_us && store_us < words.numbers[7]);
	lose(0);
	assert_done(false);
}

static void a_zone_that_cannot_be_read_is_no_answer(void **state)
{
	(void)state;
	world.limits[0].algorithm = CONF_LIMIT_CALENDAR;
	world.limits[0].calendar = CONF_CALENDAR_DAY;
	world.limits[0].time_zone = "No/Such";
	about(0, 1, 1);
	ask();
	assert_int_equal(world.count, 0);
	assert_done(false);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static void an_exact_limit_is_forgotten_with_the_look(void **state)
{
	(void)state;
	world.inquiry.forgets = true;
	struct inquiry_limit *limit = about(0, 1, 1);
	ask();
	SAYS(0, batch_judge.name, JUDGE_KEY, 0, 5000000, 1, 0, QUOTA, WINDOW_US, 1, LOOK, 1, 2, 1,
		1, FORGET, 2, 1);
	ANSWER(0, 1000, EPOCH, 0, 8, 0, 5000);
	assert_done(true);
	assert_int_equal(limit->outcome.remaining, 2); /* before */
}

/* What was used is given back, in the epoch that the store has said. */
static void a_leased_limit_is_forgotten_after_the_look(void **state)
{
	(void)state;
	world.inquiry.forgets = true;
	struct inquiry_limit *limit = about(1, 1, 1);
	ask();
	ANSWER(0, 1000, 66, 1, 8, 0, 0, 0, 700, 1);
	assert_not_done();
	assert_int_equal(world.count, 2);
	SAYS(1, batch_lease.name, LEASE_KEY, 0, LEASE_MS * 1000, 1, 0, QUOTA, WINDOW_US, 1, GIVE, 2,
		1, QUOTA, 66, 1000);
	ANSWER(1, 1000, 66);
	assert_done(true);
	assert_int_equal(limit->outcome.remaining, 2);
}

static void a_sum_is_forgotten_after_the_look(void **state)
{
	(void)state;
	world.inquiry.forgets = true;
	struct inquiry_limit *limit = about(2, 1, 1);
	ask();
	ANSWER(0, 9, 100);
	assert_not_done();
	SAYS(1, "sluice_relaxed_", RELAXED_KEY, WINDOW_US, 1, 0, RELAXED_ALL);
	ANSWER(1, 0, 0);
	assert_done(true);
	assert_int_equal(limit->outcome.remaining, 1); /* before */
}

/* It may not be forgotten. */
static void a_lost_answer_to_the_second_call_is_no_answer(void **state)
{
	(void)state;
	world.inquiry.forgets = true;
	about(1, 1, 1);
	about(2, 1, 1);
	ask();
	ANSWER(0, 1000, 66, 1, 8, 0, 0, 0, 700, 1);
	ANSWER(1, 9, 100);
	lose(2);
	assert_not_done();
	ANSWER(3, 0, 0);
	assert_done(false);
}

static void a_second_call_that_cannot_be_sent_is_no_answer(void **state)
{
	for (unsigned n = 1; n <= 2; n++) {
		end(state);
		begin(state);
		world.inquiry.forgets = true;
		about(n, 1, 1);
		ask();
		fake_store.is_full = true;
		if (n == 1)
			ANSWER(0, 1000, 66, 1, 8, 0, 0, 0, 700, 1);
		else
			ANSWER(0, 9, 100);
		assert_int_equal(world.count, 1);
		assert_done(false);
	}
}

/* ---- no answer ------------------------------------------------------------------------------- */

static void without_the_store_it_is_done_at_once(void **state)
{
	(void)state;
	world.fleet.store.state = STORE_WAITING;
	about(0, 1, 1);
	about(2, 1, 1);
	ask();
	assert_int_equal(fake_store.sent, 0);
	assert_done(false);
}

static void calls_that_cannot_be_sent_are_no_answer(void **state)
{
	(void)state;
	fake_store.is_full = true;
	about(0, 1, 1);
	about(1, 1, 1);
	about(2, 1, 1);
	ask();
	assert_done(false);
}

/* Of one that forgets, too: what was not understood is not forgotten. */
static void an_answer_that_ends_too_soon_is_none(void **state)
{
	for (unsigned n = 0; n < 6; n++) {
		end(state);
		begin(state);
		world.inquiry.forgets = n >= 3;
		about(n % 3, 1, 1);
		ask();
		if (n % 3 == 0)
			ANSWER(0, 1000, EPOCH, 0, 8);
		else if (n % 3 == 1)
			ANSWER(0, 1000, 2, 1, 5, 0, 0, 0, 100);
		else
			ANSWER(0, 6);
		assert_int_equal(world.count, 1);
		assert_done(false);
	}
}

static void one_lost_answer_is_enough(void **state)
{
	(void)state;
	about(0, 1, 1);
	about(2, 1, 1);
	ask();
	lose(0);
	assert_not_done();
	ANSWER(1, 6, 100);
	assert_done(false);
}

/* The store's connection is cut, which fails the calls; until then it looks again and again. */
static void a_silent_store_is_left(void **state)
{
	(void)state;
	about(0, 1, 1);
	ask();
	for (unsigned n = 1; n <= 2; n++) {
		assert_int_equal(world.inquiry.silence.at_ms, BEGIN_MS + n * SILENCE_MS);
		fake_store_run_timer(&world.inquiry.silence);
		assert_int_equal(fake_store.dropped, n);
		assert_int_equal(fake_store.dropped_ms, BEGIN_MS + (n - 1) * SILENCE_MS);
	}
	lose(0);
	assert_done(false);
}

/* ---- a cluster, and others ------------------------------------------------------------------- */

static void each_part_of_a_cluster_has_a_call(void **state)
{
	(void)state;
	world.fleet.store.cluster = &world.cluster;
	struct inquiry_limit *one = about(0, 1, 1), *two = about(0, 2, 1), *again = about(0, 1, 1);
	two->caller.hi += 5;
	unsigned part_one = slot_part_of(one->caller), part_two = slot_part_of(two->caller);
	assert_true(part_one != part_two);
	ask();
	assert_int_equal(world.count, 2);
	assert_int_equal(world.calls[0]->slot, slot_of_part(part_one));
	assert_int_equal(world.calls[1]->slot, slot_of_part(part_two));
	ANSWER(1, 1000, EPOCH, -1, 5, 0, 100);
	ANSWER(0, 1000, EPOCH, -1, 3, 0, 100, -1, 4, 0, 100);
	assert_done(true);
	assert_int_equal(one->outcome.remaining, QUOTA - 3);
	assert_int_equal(again->outcome.remaining, QUOTA - 4);
	assert_int_equal(two->outcome.remaining, QUOTA - 5);
}

static void of_which_limits_the_store_knows_callers(void **state)
{
	struct authority *fleet = fleet_new(NULL);
	struct share share = {.kind = SHARE_EXACT, .until_ns = fake_store.now_ns + 1};

	(void)state;
	assert_non_null(fleet);
	for (unsigned i = 0; i < 3; i++)
		assert_true(inquiry_is_of_store(fleet, &world.limits[i], 0, fake_store.now_ns));
	assert_true(shares_add(fleet_shares(fleet), 0, "split", QUOTA));
	assert_false(inquiry_is_of_store(fleet, &world.limits[3], 0, fake_store.now_ns));
	share.quota = QUOTA;
	shares_set(fleet_shares(fleet), 0, &share, QUOTA + 1);
	assert_true(inquiry_is_of_store(fleet, &world.limits[3], 0, fake_store.now_ns));
	assert_false(inquiry_is_of_store(fleet, &world.limits[3], 0, fake_store.now_ns + 2));
	fleet_free(fleet);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_inquiry)
{
	const struct CMUnitTest tests[] = {
		TEST(an_exact_limit_is_looked_at),
		TEST(a_look_says_what_the_node_remembers),
		TEST(a_leased_limit_is_asked_for_nothing),
		TEST(of_a_relaxed_limit_the_sum_is_asked_for),
		TEST(each_function_has_a_call_and_all_must_answer),
		TEST(a_calendar_has_the_edges_of_its_periods),
		TEST(a_zone_that_cannot_be_read_is_no_answer),
		TEST(an_exact_limit_is_forgotten_with_the_look),
		TEST(a_leased_limit_is_forgotten_after_the_look),
		TEST(a_sum_is_forgotten_after_the_look),
		TEST(a_lost_answer_to_the_second_call_is_no_answer),
		TEST(a_second_call_that_cannot_be_sent_is_no_answer),
		TEST(without_the_store_it_is_done_at_once),
		TEST(calls_that_cannot_be_sent_are_no_answer),
		TEST(an_answer_that_ends_too_soon_is_none),
		TEST(one_lost_answer_is_enough),
		TEST(a_silent_store_is_left),
		TEST(each_part_of_a_cluster_has_a_call),
		TEST(of_which_limits_the_store_knows_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
