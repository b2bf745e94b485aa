/* Names to addresses, without a network. */
#include "net/names.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loop/loop.h"

struct heard {
	unsigned count;
	bool failed;
	uint32_t address;
};

static void note(void *ctx, const char *why, const struct addrinfo *list)
{
	struct heard *heard = ctx;

	heard->count++;
	heard->failed = why != NULL;
	assert_true((why == NULL) == (list != NULL));
	if (list && list->ai_family == AF_INET)
		heard->address = ntohl(
			((const struct sockaddr_in *)(const void *)list->ai_addr)->sin_addr.s_addr);
}

static struct heard look_up(const char *name)
{
	struct heard heard = {0};
	struct loop loop;

	assert_int_equal(loop_init(&loop), 0);
	struct names *names = names_new(loop.base);
	assert_non_null(names);
	assert_non_null(names_look_up(names, name, note, &heard));
	assert_int_equal(heard.count, 0);
	while (heard.count == 0)
		assert_int_equal(loop_run_turn(&loop), 0);
	names_free(names);
	loop_end(&loop);
	assert_int_equal(heard.count, 1);
	return heard;
}

static void an_address_is_its_own(void **state)
{
	struct heard heard = look_up("127.0.0.2");

	(void)state;
	assert_false(heard.failed);
	assert_int_equal(heard.address, 0x7f000002);
}

/* A label has at most 63 bytes (RFC 1035 section 2.3.4). */
static void what_is_no_name_fails(void **state)
{
	(void)state;
	assert_true(
		look_up("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test")
			.failed);
}

static void a_cancelled_one_is_not_heard(void **state)
{
	struct heard heard = {0};
	struct loop loop;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	struct names *names = names_new(loop.base);
	struct name_lookup *one = names_look_up(names, "127.0.0.1", note, &heard);
	struct heard other = {0};
	assert_non_null(names_look_up(names, "127.0.0.1", note, &other));
	names_cancel(one);
	while (other.count == 0)
		assert_int_equal(loop_run_turn(&loop), 0);
	assert_int_equal(heard.count, 0);
	names_free(names);
	names_free(NULL);
	loop_end(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_its_own),
		cmocka_unit_test(what_is_no_name_fails),
		cmocka_unit_test(a_cancelled_one_is_not_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
