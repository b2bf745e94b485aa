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

struct names *__wrap_names_new(struct event_base *base);
void __wrap_names_set_timeout(struct names *names, uint64_t timeout_ms);
void __wrap_names_free(struct names *names);
struct name_lookup *__wrap_names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx);
void __wrap_names_cancel(struct name_lookup *lookup);

struct names {
	struct event_base *base;
};

/* One look-up at a time. */
struct name_lookup {
	void (*found)(void *ctx, const char *why, const struct addrinfo *list);
	void *ctx;
};

/* What the name servers do: nothing, say `why`, or have `count` addresses, of which the last is of
 * IPv6. */
static struct {
	bool answer;
	const char *why;
	size_t count, cancelled;
} servers;

static struct name_lookup lookup;

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
	struct sockaddr_in6 six = {
		.sin6_family = AF_INET6, .sin6_addr.s6_addr = {0x20, 1, 0xd, 0xb8, [15] = 1}};
	struct sockaddr_in fours[2 * BROKER_ADDRESSES_MOST];
	struct addrinfo list[2 * BROKER_ADDRESSES_MOST];

	(void)fd;
	(void)what;
	(void)arg;
	for (size_t i = 0; i < servers.count; i++) {
		bool is_last = i + 1 == servers.count;
		fours[i] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201 + (uint32_t)i)};
		list[i] =
			(struct addrinfo){.ai_addr = is_last ? (struct sockaddr *)(void *)&six
							     : (struct sockaddr *)(void *)&fours[i],
				.ai_addrlen = is_last ? sizeof(six) : sizeof(fours[i]),
				.ai_next = is_last ? NULL : &list[i + 1]};
	}
	lookup.found(lookup.ctx, servers.why, servers.count > 0 ? list : NULL);
}

struct name_lookup *__wrap_names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx)
{
	const struct timeval at_once = {0};

	assert_string_equal(name, "broker.test");
	lookup = (struct name_lookup){found, ctx};
	if (servers.answer)
		assert_int_equal(
			event_base_once(names->base, -1, EV_TIMEOUT, answer, NULL, &at_once), 0);
	return &lookup;
}

void __wrap_names_cancel(struct name_lookup *cancelled)
{
	assert_ptr_equal(cancelled, &lookup);
	servers.cancelled++;
}

static struct broker_addresses addresses;

static const char *find(uint64_t timeout_ms)
{
	servers.cancelled = 0;
	return broker_addresses_find(&addresses, "broker.test", timeout_ms);
}

static void addresses_of_both_kinds_are_found(void **state)
{
	(void)state;
	servers.answer = true;
	servers.count = 2;
	servers.why = NULL;
	assert_null(find(60000));
	assert_int_equal(addresses.count, 2);
	assert_string_equal(addresses.text[0], "192.0.2.1");
	assert_string_equal(addresses.text[1], "2001:db8::1");
	assert_int_equal(servers.cancelled, 0);
}

static void the_next_name_server_is_asked_in_time(void **state)
{
	(void)state;
	servers.answer = true;
	servers.count = 1;
	servers.why = NULL;
	assert_null(find(1500));
	assert_int_equal(server_ms, 500);
}

static void those_that_are_too_many_are_left_out(void **state)
{
	(void)state;
	servers.answer = true;
	servers.count = 2 * BROKER_ADDRESSES_MOST;
	servers.why = NULL;
	assert_null(find(60000));
	assert_int_equal(addresses.count, BROKER_ADDRESSES_MOST);
	assert_string_equal(addresses.text[BROKER_ADDRESSES_MOST - 1], "192.0.2.8");
}

static void a_name_without_addresses_has_the_reason(void **state)
{
	(void)state;
	servers.answer = true;
	servers.count = 0;
	servers.why = "no such name";
	assert_string_equal(find(60000), "no such name");
	servers.why = NULL;
	assert_string_equal(find(60000), "it has no address");
	assert_int_equal(addresses.count, 0);
}

static void silent_name_servers_are_given_up_in_time(void **state)
{
	(void)state;
	servers.answer = false;
	assert_string_equal(find(20), "the name servers do not answer");
	assert_int_equal(servers.cancelled, 1);
	assert_string_equal(find(0), "the name servers do not answer");
	assert_int_equal(addresses.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_both_kinds_are_found),
		cmocka_unit_test(the_next_name_server_is_asked_in_time),
		cmocka_unit_test(those_that_are_too_many_are_left_out),
		cmocka_unit_test(a_name_without_addresses_has_the_reason),
		cmocka_unit_test(silent_name_servers_are_given_up_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
