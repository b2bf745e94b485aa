/* The addresses of a broker's name: what the name servers say, within a time. */
#include "semaphore/broker_addresses.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "net/names.h"
#include "tests/unit/suite.h"

struct names *__wrap_names_new(struct event_base *base);
void __wrap_names_set_timeout(struct names *names, uint64_t timeout_ms);
void __wrap_names_free(struct names *names);
struct name_lookup *__wrap_names_look_up_family(struct names *names, const char *name, int family,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx);
void __wrap_names_cancel(struct name_lookup *lookup);

struct names {
	struct event_base *base;
};

enum { FOURS, SIXES, FAMILIES };

/* One of a family at a time. */
struct name_lookup {
	void (*found)(void *ctx, const char *why, const struct addrinfo *list);
	void *ctx;
};

/* What the name servers do, of each family: nothing, say `why`, or have `count` addresses;
 * `after_ms`. */
struct says {
	bool nothing;
	const char *why;
	size_t count;
	unsigned after_ms;
};

static struct says servers[FAMILIES];
static struct name_lookup lookups[FAMILIES];
static size_t cancelled;

struct names *__wrap_names_new(struct event_base *base)
{
	struct names *names = malloc(sizeof(*names));

	assert_non_null(names);
	names->base = base;
	return names;
}

static uint64_t server_ms;

void __wrap_names_set_timeout(struct names *names, uint64_t timeout_ms)
{
	assert_non_null(names);
	server_ms = timeout_ms;
}

void __wrap_names_free(struct names *names)
{
	free(names);
}

static void answer(evutil_socket_t fd, short what, void *arg)
{
	struct name_lookup *lookup = arg;
	const struct says *says = &servers[lookup - lookups];
	struct sockaddr_in fours[2 * BROKER_ADDRESSES_MOST];
	struct sockaddr_in6 sixes[2 * BROKER_ADDRESSES_MOST];
	struct addrinfo list[2 * BROKER_ADDRESSES_MOST];

	(void)fd;
	(void)what;
	for (size_t i = 0; i < says->count; i++) {
		fours[i] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201 + (uint32_t)i)};
		sixes[i] = (struct sockaddr_in6){.sin6_family = AF_INET6,
			.sin6_addr.s6_addr = {0x20, 1, 0xd, 0xb8, [15] = (uint8_t)(i + 1)}};
		list[i] = (struct addrinfo){
			.ai_addr = lookup == &lookups[FOURS] ? (struct sockaddr *)(void *)&fours[i]
							     : (struct sockaddr *)(void *)&sixes[i],
			.ai_addrlen =
				lookup == &lookups[FOURS] ? sizeof(fours[i]) : sizeof(sixes[i]),
			.ai_next = i + 1 < says->count ? &list[i + 1] : NULL};
	}
	lookup->found(lookup->ctx, says->why, says->count > 0 ? list : NULL);
}

struct name_lookup *__wrap_names_look_up_family(struct names *names, const char *name, int family,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx)
{
	struct name_lookup *lookup = &lookups[family == AF_INET ? FOURS : SIXES];
	const struct says *says = &servers[lookup - lookups];
	const struct timeval after = {.tv_usec = (suseconds_t)says->after_ms * 1000};

	assert_string_equal(name, "broker.test");
	*lookup = (struct name_lookup){found, ctx};
	if (!says->nothing)
		assert_int_equal(
			event_base_once(names->base, -1, EV_TIMEOUT, answer, lookup, &after), 0);
	return lookup;
}

void __wrap_names_cancel(struct name_lookup *lookup)
{
	assert_true(lookup == &lookups[FOURS] || lookup == &lookups[SIXES]);
	cancelled++;
}

static struct broker_addresses addresses;

static const char *find(struct says fours, struct says sixes, uint64_t timeout_ms)
{
	servers[FOURS] = fours;
	servers[SIXES] = sixes;
	cancelled = 0;
	return broker_addresses_find(&addresses, "broker.test", timeout_ms);
}

static const struct says nothing = {.nothing = true}, none = {.why = "no such name"},
			 one = {.count = 1}, many = {.count = 2 * BROKER_ADDRESSES_MOST};

static void addresses_of_both_kinds_are_found(void **state)
{
	(void)state;
	assert_null(find(one, (struct says){.count = 1, .after_ms = 20}, 60000));
	assert_int_equal(addresses.count, 2);
	assert_string_equal(addresses.text[0], "192.0.2.1");
	assert_string_equal(addresses.text[1], "2001:db8::1");
	assert_int_equal(cancelled, 0);
}

static void one_kind_is_enough_when_the_other_is_not_answered(void **state)
{
	(void)state;
	assert_null(find(one, nothing, 60000));
	assert_int_equal(addresses.count, 1);
	assert_string_equal(addresses.text[0], "192.0.2.1");
	assert_int_equal(cancelled, 1);
	assert_null(find(nothing, one, 60000));
	assert_string_equal(addresses.text[0], "2001:db8::1");
}

static void what_one_kind_has_not_the_other_may_have_later(void **state)
{
	(void)state;
	assert_null(find((struct says){.count = 1, .after_ms = 300}, none, 60000));
	assert_string_equal(addresses.text[0], "192.0.2.1");
}

static void the_next_name_server_is_asked_in_time(void **state)
{
	(void)state;
	assert_null(find(one, none, 1500));
	assert_int_equal(server_ms, 500);
}

static void those_that_are_too_many_are_left_out(void **state)
{
	(void)state;
	assert_null(find(many, none, 60000));
	assert_int_equal(addresses.count, BROKER_ADDRESSES_MOST);
	assert_string_equal(addresses.text[BROKER_ADDRESSES_MOST - 1], "192.0.2.8");
}

static void a_name_without_addresses_has_the_reason(void **state)
{
	(void)state;
	assert_string_equal(find(none, none, 60000), "no such name");
	assert_string_equal(find(none, (struct says){0}, 60000), "it has no address");
	assert_int_equal(addresses.count, 0);
}

static void silent_name_servers_are_given_up_in_time(void **state)
{
	(void)state;
	assert_string_equal(find(nothing, nothing, 20), "the name servers do not answer");
	assert_int_equal(cancelled, 2);
	assert_string_equal(find(nothing, nothing, 0), "the name servers do not answer");
	assert_string_equal(find(none, nothing, 20), "the name servers do not answer");
	assert_int_equal(cancelled, 1);
	assert_int_equal(addresses.count, 0);
}

UNIT_SUITE(test_broker_addresses)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_both_kinds_are_found),
		cmocka_unit_test(one_kind_is_enough_when_the_other_is_not_answered),
		cmocka_unit_test(what_one_kind_has_not_the_other_may_have_later),
		cmocka_unit_test(the_next_name_server_is_asked_in_time),
		cmocka_unit_test(those_that_are_too_many_are_left_out),
		cmocka_unit_test(a_name_without_addresses_has_the_reason),
		cmocka_unit_test(silent_name_servers_are_given_up_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
