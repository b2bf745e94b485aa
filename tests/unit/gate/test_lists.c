/* Plans by key, allow and deny lists, the set of texts under both. */
#include "gate/access.h"
#include "gate/text_set.h"

#include <errno.h>

#include "conf_of.h"
#include "http/forwarded.h"
#include "tests/unit/suite.h"

static void a_set_of_many(void **state)
{
	static char texts[5000][24];
	struct text_set set;

	(void)state;
	assert_true(text_set_init(&set, 5000));
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%.*s%u", (int)(i % 12), "abcdefghijkl", i);
		text_set_add(&set, slice_of(texts[i]), i);
		text_set_add(&set, slice_of(texts[i]), 77777);
	}
	assert_int_equal(set.count, 5000);
	for (unsigned i = 0; i < 5000; i++) {
		char other[26];
		assert_int_equal(text_set_find(&set, slice_of(texts[i])), i);
		snprintf(other, sizeof(other), "%.24sx", texts[i]);
		assert_int_equal(text_set_find(&set, slice_of(other)), TEXT_SET_NONE);
	}
	assert_int_equal(text_set_find(&set, SLICE_NONE), TEXT_SET_NONE);
	text_set_free(&set);
	assert_int_equal(text_set_find(&set, SLICE("a")), TEXT_SET_NONE);
}

/* of "abc", the example of FIPS 180-2 */
#define ABC_DIGEST "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
static const char *gold_keys[] = {"g1", "both"}, *silver_keys[] = {"s1", "both", ABC_DIGEST};

static void plans(void **state)
{
	struct conf_plan items[] = {
		{.name = "gold", .callers = {gold_keys, 2}},
		{.name = "silver", .callers = {silver_keys, 3}},
		{.name = "default"},
	};
	struct conf conf = {.plans = items, .plan_count = 3, .default_plan = &items[2]};
	struct plan_table *table = plan_table_new(&conf);

	(void)state;
	assert_non_null(table);
	assert_ptr_equal(plan_find(table, SLICE("g1")), &items[0]);
	assert_ptr_equal(plan_find(table, SLICE("s1")), &items[1]);
	assert_ptr_equal(plan_find(table, SLICE("both")), &items[0]);
	assert_null(plan_find(table, SLICE("G1")));
	assert_null(plan_find(table, SLICE_NONE));
	assert_ptr_equal(plan_find(table, SLICE("abc")), &items[1]);
	assert_null(plan_find(table, SLICE(ABC_DIGEST)));
	plan_table_free(table);
}

static enum access_verdict check(
	const struct access_list *list, const char *address, const char *key)
{
	uint8_t bytes[16];

	assert_true(forwarded_address_parse(slice_of(address), bytes));
	return access_check(list, bytes, slice_of(key));
}

static void lists(void **state)
{
	const char *vips[] = {"vip", "bad"}, *bad[] = {"bad"};
	const struct conf *conf =
		conf_of("[route r]\nupstream = u\nallow = 10.0.0.0/8, 192.0.2.7, 2001:db8::/32\n"
			"deny = 10.9.0.0/16, 2001:db8:bad::/48, 10.1.1.1\n");
	struct conf_route route = conf->routes[0];

	(void)state;
	route.access.allow_keys = (struct conf_text_list){vips, 2};
	route.access.deny_keys = (struct conf_text_list){bad, 1};
	struct access_list *list = access_list_new(&route);
	assert_non_null(list);
	assert_true(access_needs_key(list));
	assert_int_equal(check(list, "10.1.2.3", ""), ACCESS_ALLOWED);
	assert_int_equal(check(list, "10.9.2.3", ""), ACCESS_DENIED);
	assert_int_equal(check(list, "10.1.1.1", ""), ACCESS_DENIED);
	assert_int_equal(check(list, "10.1.1.2", ""), ACCESS_ALLOWED);
	assert_int_equal(check(list, "192.0.2.7", ""), ACCESS_ALLOWED);
	assert_int_equal(check(list, "192.0.2.8", ""), ACCESS_LIMITED);
	assert_int_equal(check(list, "2001:db8:1::1", ""), ACCESS_ALLOWED);
	assert_int_equal(check(list, "2001:db8:bad::1", ""), ACCESS_DENIED);
	assert_int_equal(check(list, "2001:db9::1", ""), ACCESS_LIMITED);
	assert_int_equal(check(list, "192.0.2.8", "vip"), ACCESS_ALLOWED);
	assert_int_equal(check(list, "192.0.2.8", "bad"), ACCESS_DENIED);
	assert_int_equal(check(list, "10.1.2.3", "bad"), ACCESS_DENIED);
	assert_int_equal(check(list, "192.0.2.8", "Vip"), ACCESS_LIMITED);
	access_list_free(list);
	conf_release(conf);
}

/* IPv4 addresses are stored as IPv6 ones (::ffff:0:0/96), which are in none of the wider networks.
 */
static void a_network_of_ipv6_has_no_ipv4(void **state)
{
	const struct conf *conf =
		conf_of("[route r]\nupstream = u\nallow = ::/0\n"
			"[route s]\npath = /s\nupstream = u\nallow = 0.0.0.0/0\ndeny = ::/8\n"
			"[route t]\npath = /t\nupstream = u\ndeny = ::ffff:0:0/96\n");
	static const struct {
		const char *address;
		enum access_verdict verdicts[3];
	} cases[] = {
		{"10.1.2.3", {ACCESS_LIMITED, ACCESS_ALLOWED, ACCESS_DENIED}},
		{"::ffff:10.1.2.3", {ACCESS_LIMITED, ACCESS_ALLOWED, ACCESS_DENIED}},
		{"0.0.0.0", {ACCESS_LIMITED, ACCESS_ALLOWED, ACCESS_DENIED}},
		{"::1", {ACCESS_ALLOWED, ACCESS_DENIED, ACCESS_LIMITED}},
		{"::fffe:10.1.2.3", {ACCESS_ALLOWED, ACCESS_DENIED, ACCESS_LIMITED}},
		{"2001:db8::1", {ACCESS_ALLOWED, ACCESS_LIMITED, ACCESS_LIMITED}},
	};

	(void)state;
	for (unsigned n = 0; n < 3; n++) {
		unsigned i = (unsigned)(conf->routes[n].name[0] - 'r'); /* they are sorted */
		struct access_list *list = access_list_new(&conf->routes[n]);
		assert_non_null(list);
		for (unsigned j = 0; j < sizeof(cases) / sizeof(cases[0]); j++)
			assert_int_equal(check(list, cases[j].address, ""), cases[j].verdicts[i]);
		access_list_free(list);
	}
	conf_release(conf);
}

static void no_lists(void **state)
{
	const struct conf *conf = conf_of("[route r]\nupstream = u\n");

	(void)state;
	errno = 1;
	assert_null(access_list_new(&conf->routes[0]));
	assert_int_equal(errno, 0);
	conf_release(conf);
}

static bool in_list(const struct conf_cidrs *list, const uint8_t address[16])
{
	return forwarded_peer_trusted(list, address);
}

/* Sorted runs against a scan. */
static void many_networks(void **state)
{
	static struct conf_cidr networks[2000];
	struct conf_route route = {.access.deny_addresses = {networks, 2000}};
	uint64_t seed = 0x5eed0004, x = seed;
	unsigned denied = 0;

	(void)state;
	for (unsigned i = 0; i < 2000; i++) {
		for (unsigned j = 0; j < 16; j++) {
			x = x * 6364136223846793005 + 1442695040888963407;
			networks[i].address[j] = (uint8_t)(x >> 60);
		}
		networks[i].prefix = (uint8_t)(20 + (x >> 33) % 109);
	}
	struct access_list *list = access_list_new(&route);
	for (unsigned i = 0; i < 100000; i++) {
		uint8_t address[16];
		memcpy(address, networks[i % 2000].address, 16);
		x = x * 6364136223846793005 + 1442695040888963407;
		address[(x >> 40) % 16] ^= (uint8_t)(1u << (x >> 61));
		bool expected = in_list(&route.access.deny_addresses, address);
		denied += expected;
		if ((access_check(list, address, SLICE_NONE) == ACCESS_DENIED) != expected)
			fail_msg("seed %llx at %u", (unsigned long long)seed, i);
	}
	assert_in_range(denied, 10000, 90000);
	access_list_free(list);
}

UNIT_SUITE(test_lists)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_of_many),
		cmocka_unit_test(plans),
		cmocka_unit_test(lists),
		cmocka_unit_test(a_network_of_ipv6_has_no_ipv4),
		cmocka_unit_test(no_lists),
		cmocka_unit_test(many_networks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
