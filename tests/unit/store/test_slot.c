/* Slots of keys as Redis has them, and what its nodes say of them. */
#include "store/cluster_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static uint16_t slot_of(const char *key)
{
	return slot_of_key(key, strlen(key));
}

/* By CLUSTER KEYSLOT. */
static void slots_are_those_of_redis(void **state)
{
	(void)state;
	assert_int_equal(slot_of("123456789"), 12739);
	assert_int_equal(slot_of("foo"), 12182);
	assert_int_equal(slot_of(""), 0);
	assert_int_equal(slot_of("{foo}bar"), slot_of("foo"));
	assert_int_equal(slot_of("a{foo}{bar}"), slot_of("foo"));
	assert_int_equal(slot_of("a{{foo}}b"), slot_of("{foo"));
	assert_int_not_equal(slot_of("a{}{foo}"), slot_of("foo")); /* all of it */
	assert_int_not_equal(slot_of("a{foo"), slot_of("foo"));
	assert_int_not_equal(slot_of("a}foo{"), slot_of("foo"));
}

static void parts_are_spread_over_slots(void **state)
{
	static unsigned of_third[3];
	static bool has[SLOTS];
	unsigned slots = 0;

	(void)state;
	assert_int_equal(slot_of_part(0), 0);
	for (unsigned part = 1; part <= SLOT_PARTS; part++) {
		char tag[SLOT_TAG_BYTES], key[32];
		slot_write_tag(part, tag);
		snprintf(key, sizeof(key), "sluice{%s}x", tag);
		uint16_t slot = slot_of_part(part);
		assert_int_equal(slot, slot_of(key));
		slots += !has[slot];
		has[slot] = true;
		of_third[slot * 3 / SLOTS]++;
	}
	assert_in_range(slots, SLOT_PARTS * 9 / 10, SLOT_PARTS);
	for (int i = 0; i < 3; i++)
		assert_in_range(of_third[i], SLOT_PARTS * 3 / 10, SLOT_PARTS * 4 / 10);
}

static void callers_are_spread_over_parts(void **state)
{
	static unsigned of_part[1 + SLOT_PARTS];

	(void)state;
	for (uint64_t i = 0; i < 100 * SLOT_PARTS; i++) {
		uint64_t hash = (i + 1) * 0x9e3779b97f4a7c15;
		unsigned part = slot_part_of((struct throttle_key){hash ^ hash >> 29, hash << 7});
		assert_in_range(part, 1, SLOT_PARTS);
		of_part[part]++;
	}
	for (unsigned part = 1; part <= SLOT_PARTS; part++)
		assert_in_range(of_part[part], 20, 300);
}

static void assert_place(
	const char *error, enum redirect_kind kind, const char *host, uint16_t port, uint16_t slot)
{
	struct redirect redirect;

	assert_true(redirect_read(&redirect, error, "self"));
	assert_int_equal(redirect.kind, kind);
	assert_string_equal(redirect.host, host);
	assert_int_equal(redirect.port, port);
	assert_int_equal(redirect.slot, slot);
}

static void redirects_are_read(void **state)
{
	struct redirect redirect;

	(void)state;
	assert_place("MOVED 3999 127.0.0.1:6381", REDIRECT_MOVED, "127.0.0.1", 6381, 3999);
	assert_place("ASK 16383 node-1.test:1", REDIRECT_ASK, "node-1.test", 1, 16383);
	assert_place("MOVED 0 ::1:65535", REDIRECT_MOVED, "::1", 65535, 0);
	assert_place("MOVED 1 :7000", REDIRECT_MOVED, "self", 7000, 1);
	assert_place("MOVED 1 ?:7000", REDIRECT_MOVED, "self", 7000, 1);
	assert_true(redirect_read(&redirect, "TRYAGAIN Multiple keys request", "h"));
	assert_int_equal(redirect.kind, REDIRECT_LATER);
	assert_true(redirect_read(&redirect, "CLUSTERDOWN Hash slot not served", "h"));
	assert_int_equal(redirect.kind, REDIRECT_UNSERVED);
	assert_true(redirect_read(&redirect, "CLUSTERDOWN The cluster is down", "h"));
	assert_int_equal(redirect.kind, REDIRECT_DOWN);
}

static void what_is_no_redirect(void **state)
{
	static const char *const wrong[] = {"", "MOVED", "MOVED ", "MOVED 1", "MOVED 1 h",
		"MOVED 1 h:", "MOVED 1 h:0", "MOVED 1 h:65536", "MOVED 16384 h:1", "MOVED -1 h:1",
		"MOVED x h:1", "MOVED h:1", "MOVEDX 1 h:1", "ASKING 1 h:1", "ERR of it",
		"CROSSSLOT Keys in request don't hash to the same slot"};
	struct redirect redirect;
	char text[REDIS_HOST_BYTES + 32];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(redirect_read(&redirect, wrong[i], "h"));
	snprintf(text, sizeof(text), "MOVED 1 %0*d:1", REDIS_HOST_BYTES, 7);
	assert_false(redirect_read(&redirect, text, "h"));
}

UNIT_SUITE(test_slot)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_those_of_redis),
		cmocka_unit_test(parts_are_spread_over_slots),
		cmocka_unit_test(callers_are_spread_over_parts),
		cmocka_unit_test(redirects_are_read),
		cmocka_unit_test(what_is_no_redirect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
