/* Channels and who is subscribed to them. */
#include "channels/channels.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static const struct channel_bounds wide = {1000, 100};

static struct channels *channels;
static struct channel_view views[2];

static int begin(void **state)
{
	(void)state;
	channels = channels_new();
	assert_non_null(channels);
	for (unsigned i = 0; i < 2; i++)
		views[i] = (struct channel_view){.channels = channels, .worker = i};
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(channels_count(channels), 0);
	assert_int_equal(channels_subscriptions(channels), 0);
	channels_free(channels);
	return 0;
}

static enum channel_result join(unsigned worker, struct subscriber *subscriber, const char *name)
{
	return channel_subscribe(&views[worker], subscriber, slice_of(name), &wide);
}

static void part(unsigned worker, struct subscriber *subscriber, const char *name)
{
	channel_unsubscribe(&views[worker], subscriber, slice_of(name));
}

/* How many a publication would reach, and at which workers. */
static uint64_t audience(const char *name, bool workers[2])
{
	uint64_t count;
	struct channel *channel;

	workers[0] = workers[1] = false;
	channel = channel_hold(channels, slice_of(name), &count, workers, 2);
	assert_int_equal(channel != NULL, count > 0);
	channel_release(channels, channel);
	return count;
}

static void a_channel_is_there_while_somebody_is_subscribed(void **state)
{
	struct subscriber a = {0}, b = {0};
	bool workers[2];

	(void)state;
	assert_int_equal(audience("x", workers), 0);
	assert_int_equal(join(0, &a, "x"), CHANNEL_SUBSCRIBED);
	assert_int_equal(join(0, &a, "x"), CHANNEL_SUBSCRIBED); /* once */
	assert_int_equal(audience("x", workers), 1);
	assert_true(workers[0] && !workers[1]);
	assert_int_equal(join(1, &b, "x"), CHANNEL_SUBSCRIBED);
	assert_int_equal(join(1, &b, "y"), CHANNEL_SUBSCRIBED);
	assert_int_equal(audience("x", workers), 2);
	assert_true(workers[0] && workers[1]);
	assert_int_equal(channels_count(channels), 2);
	assert_int_equal(channels_subscriptions(channels), 3);
	part(0, &a, "x");
	part(0, &a, "x");
	part(0, &a, "never");
	part(1, &b, "x");
	assert_int_equal(audience("x", workers), 0);
	assert_int_equal(channels_count(channels), 1);
	channel_unsubscribe_all(&views[1], &b);
	assert_int_equal(a.count + b.count, 0);
}

static void names_are_bytes(void **state)
{
	struct subscriber a = {0};
	uint64_t count;
	bool workers[2] = {false};

	(void)state;
	channel_subscribe(&views[0], &a, (struct slice){"a\0b", 3}, &wide);
	assert_null(channel_hold(channels, SLICE("a"), &count, workers, 2));
	assert_null(channel_hold(channels, (struct slice){"a\0c", 3}, &count, workers, 2));
	channel_unsubscribe_all(&views[0], &a);
}

static void bounds(void **state)
{
	static const struct channel_bounds narrow = {3, 2};
	struct subscriber a = {0}, b = {0}, c = {0};

	(void)state;
	assert_int_equal(channel_subscribe(&views[0], &a, SLICE("1"), &narrow), CHANNEL_SUBSCRIBED);
	assert_int_equal(channel_subscribe(&views[0], &a, SLICE("2"), &narrow), CHANNEL_SUBSCRIBED);
	assert_int_equal(channel_subscribe(&views[0], &a, SLICE("3"), &narrow),
		CHANNEL_TOO_MANY_OF_SUBSCRIBER);
	assert_int_equal(channel_subscribe(&views[0], &a, SLICE("2"), &narrow), CHANNEL_SUBSCRIBED);
	assert_int_equal(channel_subscribe(&views[1], &b, SLICE("3"), &narrow), CHANNEL_SUBSCRIBED);
	assert_int_equal(channel_subscribe(&views[1], &b, SLICE("4"), &narrow), CHANNEL_TOO_MANY);
	assert_int_equal(channel_subscribe(&views[1], &c, SLICE("1"), &narrow), CHANNEL_SUBSCRIBED);
	assert_int_equal(channels_count(channels), 3);
	part(0, &a, "2");
	assert_int_equal(channel_subscribe(&views[1], &b, SLICE("4"), &narrow), CHANNEL_SUBSCRIBED);
	channel_unsubscribe_all(&views[0], &a);
	channel_unsubscribe_all(&views[1], &b);
	channel_unsubscribe_all(&views[1], &c);
}

static void a_held_channel_outlives_its_subscriptions(void **state)
{
	struct subscriber a = {0};
	uint64_t count;
	bool workers[2];

	(void)state;
	join(0, &a, "x");
	struct channel *channel = channel_hold(channels, SLICE("x"), &count, workers, 2);
	part(0, &a, "x");
	assert_null(channel_first(&views[0], channel));
	assert_int_equal(audience("x", workers), 0);
	join(0, &a, "x"); /* the same channel */
	assert_ptr_equal(channel_first(&views[0], channel)->subscriber, &a);
	channel_release(channels, channel);
	channel_release(channels, NULL);
	part(0, &a, "x");
}

/* A walk meets those that were subscribed when it began and are when it comes to them. */
static void a_walk_goes_on_when_its_next_one_ends(void **state)
{
	struct subscriber s[5] = {0};
	uint64_t count;
	bool workers[2];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		join(0, &s[i], "x");
	struct channel *channel = channel_hold(channels, SLICE("x"), &count, workers, 2);
	struct channel_view *view = &views[0];
	view->cursor = channel_first(view, channel);
	assert_ptr_equal(view->cursor->subscriber, &s[3]);
	view->cursor = view->cursor->next;
	part(0, &s[2], "x"); /* where it is */
	assert_ptr_equal(view->cursor->subscriber, &s[1]);
	part(0, &s[3], "x"); /* where it was */
	join(0, &s[4], "x"); /* too late */
	view->cursor = view->cursor->next;
	assert_ptr_equal(view->cursor->subscriber, &s[0]);
	part(0, &s[0], "x");
	assert_null(view->cursor);
	channel_release(channels, channel);
	part(0, &s[1], "x");
	part(0, &s[4], "x");
}

/* ---- against a model ------------------------------------------------------------------------- */

#define SUBSCRIBERS 20
#define NAMES       200

static void random_ones_are_as_in_a_table(void **state)
{
	static bool model[SUBSCRIBERS][NAMES];
	static struct subscriber s[SUBSCRIBERS];
	static const struct channel_bounds bound = {NAMES, NAMES};
	struct random random = random_begin("channels");

	(void)state;
	for (unsigned step = 0; step < 20000; step++) {
		size_t who = random_below(&random, SUBSCRIBERS);
		size_t what = random_below(&random, NAMES);
		char name[16];
		bool workers[2];
		snprintf(name, sizeof(name), "channel %zu", what);
		switch (random_below(&random, 8)) {
		case 0:
			if (random_below(&random, 20) > 0)
				break;
			channel_unsubscribe_all(&views[who % 2], &s[who]);
			memset(model[who], 0, sizeof(model[who]));
			break;
		case 1:
		case 2:
		case 3:
			part(who % 2, &s[who], name);
			model[who][what] = false;
			break;
		default:
			assert_int_equal(
				channel_subscribe(&views[who % 2], &s[who], slice_of(name), &bound),
				CHANNEL_SUBSCRIBED);
			model[who][what] = true;
		}
		uint64_t expected[2] = {0};
		for (unsigned i = 0; i < SUBSCRIBERS; i++)
			expected[i % 2] += model[i][what];
		assert_int_equal(audience(name, workers), expected[0] + expected[1]);
		assert_int_equal(workers[0], expected[0] > 0);
		assert_int_equal(workers[1], expected[1] > 0);
	}
	for (unsigned i = 0; i < SUBSCRIBERS; i++)
		channel_unsubscribe_all(&views[i % 2], &s[i]);
}

/* ---- from several threads -------------------------------------------------------------------- */

#define ROUNDS 300

static void *come_and_go(void *arg)
{
	struct channel_view *view = arg;
	struct subscriber s[10] = {0};
	char name[16];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < 10; i++) {
			snprintf(name, sizeof(name), "%u", (round + i) % 50);
			channel_subscribe(view, &s[i], slice_of(name), &wide);
			snprintf(name, sizeof(name), "%u", (round * 7 + i) % 50);
			channel_subscribe(view, &s[i], slice_of(name), &wide);
		}
		for (unsigned i = 0; i < 10; i += 1 + round % 2)
			channel_unsubscribe_all(view, &s[i]);
	}
	for (unsigned i = 0; i < 10; i++)
		channel_unsubscribe_all(view, &s[i]);
	return NULL;
}

static void *look(void *arg)
{
	atomic_bool *stop = arg;
	char name[16];

	for (unsigned i = 0; !atomic_load(stop); i++) {
		uint64_t count;
		bool workers[2];
		snprintf(name, sizeof(name), "%u", i % 50);
		channel_release(
			channels, channel_hold(channels, slice_of(name), &count, workers, 2));
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t workers[2], publisher;
	atomic_bool stop = false;

	(void)state;
	pthread_create(&publisher, NULL, look, &stop);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&workers[i], NULL, come_and_go, &views[i]);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(workers[i], NULL);
	atomic_store(&stop, true);
	pthread_join(publisher, NULL);
}

/* Enough for a table of its subscriptions, and back to none, against a list of what it has. */
static void a_subscriber_of_many(void **state)
{
	enum { MANY = 500, MOVES = 20000 };
	static const struct channel_bounds bounds = {MANY, MANY - 50};
	struct subscriber many = {0}, other = {0};
	bool has[MANY] = {false};
	struct random random = random_begin("many");
	unsigned count = 0;
	char name[16];

	(void)state;
	for (unsigned step = 0; step < MOVES; step++) {
		size_t i = random_below(&random, MANY);
		bool grows = step / 2000 % 2 == 0,
		     joins = random_below(&random, 8) > 0 ? grows : !grows;
		snprintf(name, sizeof(name), "n%zu", i);
		assert_int_equal(channel_has_subscriber(&views[0], &many, slice_of(name)), has[i]);
		if (!joins) {
			part(0, &many, name);
			count -= has[i];
			has[i] = false;
			continue;
		}
		bool fits = has[i] || count < bounds.subscriptions;
		assert_int_equal(channel_subscribe(&views[0], &many, slice_of(name), &bounds),
			fits ? CHANNEL_SUBSCRIBED : CHANNEL_TOO_MANY_OF_SUBSCRIBER);
		count += fits && !has[i];
		has[i] |= fits;
		channel_subscribe(&views[0], &other, slice_of(name), &bounds);
		assert_int_equal(many.count, count);
		if (step % 5000 == 0)
			channel_unsubscribe_all(&views[0], &other);
	}
	channel_unsubscribe_all(&views[0], &many);
	assert_null(many.buckets);
	channel_unsubscribe_all(&views[0], &other);
}

UNIT_SUITE(test_channels)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_channel_is_there_while_somebody_is_subscribed),
		TEST(names_are_bytes),
		TEST(bounds),
		TEST(a_held_channel_outlives_its_subscriptions),
		TEST(a_walk_goes_on_when_its_next_one_ends),
		TEST(random_ones_are_as_in_a_table),
		TEST(a_subscriber_of_many),
		TEST(threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
