/* Keys of session tickets: their time, the process that follows, and the nodes of a fleet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/tls_tickets.h"
#include "tests/unit/suite.h"

#define T TLS_TICKET_S

static struct tls_ticket_key made_at(struct tls_tickets *tickets, uint64_t now_s)
{
	struct tls_ticket_key key;
	bool is_old;

	assert_true(tls_tickets_find(tickets, now_s, NULL, &key, &is_old));
	assert_false(is_old);
	return key;
}

enum taken { NOT_TAKEN, TAKEN, TAKEN_AS_OLD };

static enum taken taken_at(
	struct tls_tickets *tickets, uint64_t now_s, const struct tls_ticket_key *made)
{
	struct tls_ticket_key key;
	bool is_old;

	if (!tls_tickets_find(tickets, now_s, made->name, &key, &is_old))
		return NOT_TAKEN;
	assert_memory_equal(&key, made, sizeof(key));
	return is_old ? TAKEN_AS_OLD : TAKEN;
}

static void keys_last_two_epochs(void **state)
{
	static const char secret[] = "0123456789abcdef";

	(void)state;
	for (unsigned shared = 0; shared < 2; shared++) {
		struct tls_tickets *tickets = tls_tickets_new(100 * T);
		if (shared)
			tls_tickets_set_secret(tickets, secret, strlen(secret));
		struct tls_ticket_key first = made_at(tickets, 100 * T + 5), next;
		assert_int_equal(taken_at(tickets, 100 * T + 5, &first), TAKEN);
		assert_int_equal(taken_at(tickets, 101 * T - 1, &first), TAKEN);
		assert_int_equal(taken_at(tickets, 101 * T, &first), TAKEN_AS_OLD);
		next = made_at(tickets, 101 * T);
		assert_memory_not_equal(&next, &first, sizeof(next));
		assert_int_equal(taken_at(tickets, 102 * T - 1, &first), TAKEN_AS_OLD);
		assert_int_equal(taken_at(tickets, 102 * T, &first), NOT_TAKEN);
		assert_int_equal(taken_at(tickets, 102 * T, &next), TAKEN_AS_OLD);
		assert_int_equal(taken_at(tickets, 5000 * T, &next), NOT_TAKEN);
		tls_tickets_free(tickets);
	}
}

/* A process forgets them; the clock does not bring them back. */
static void old_keys_are_gone(void **state)
{
	struct tls_tickets *tickets = tls_tickets_new(100 * T);
	struct tls_ticket_key first = made_at(tickets, 100 * T), last = made_at(tickets, 102 * T);

	(void)state;
	assert_int_equal(taken_at(tickets, 100 * T, &first), NOT_TAKEN);
	assert_int_equal(taken_at(tickets, 100 * T, &last), TAKEN);
	tls_tickets_free(tickets);
}

static void the_next_process_has_them(void **state)
{
	struct tls_tickets *tickets = tls_tickets_new(100 * T), *next = tls_tickets_new(100 * T);
	struct tls_ticket_key key = made_at(tickets, 100 * T);
	char text[TLS_TICKETS_TEXT];

	(void)state;
	assert_int_equal(taken_at(next, 100 * T, &key), NOT_TAKEN);
	tls_tickets_write(tickets, text);
	assert_true(tls_tickets_read(next, text));
	assert_int_equal(taken_at(next, 100 * T, &key), TAKEN);
	/* Both go on to the same ones. */
	key = made_at(tickets, 103 * T);
	assert_int_equal(taken_at(next, 103 * T, &key), TAKEN);
	text[strlen(text) - 2] = '\0';
	assert_false(tls_tickets_read(next, text));
	assert_false(tls_tickets_read(next, ""));
	assert_false(tls_tickets_read(next, "12 xy"));
	tls_tickets_free(tickets);
	tls_tickets_free(next);
}

static void nodes_with_one_secret_share_them(void **state)
{
	static const char secret[] = "0123456789abcdef";
	struct tls_tickets *nodes[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		nodes[i] = tls_tickets_new(100 * T);
		tls_tickets_set_secret(nodes[i], secret, strlen(secret) - (i == 2));
	}
	/* The clock of the one that made it may be ahead. */
	struct tls_ticket_key key = made_at(nodes[0], 101 * T);
	assert_int_equal(taken_at(nodes[1], 101 * T - 1, &key), TAKEN);
	assert_int_equal(taken_at(nodes[1], 101 * T, &key), TAKEN);
	assert_int_equal(taken_at(nodes[2], 101 * T, &key), NOT_TAKEN);
	tls_tickets_set_secret(nodes[1], NULL, 0);
	assert_int_equal(taken_at(nodes[1], 101 * T, &key), NOT_TAKEN);
	for (unsigned i = 0; i < 3; i++)
		tls_tickets_free(nodes[i]);
}

UNIT_SUITE(test_tls_tickets)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_last_two_epochs),
		cmocka_unit_test(old_keys_are_gone),
		cmocka_unit_test(the_next_process_has_them),
		cmocka_unit_test(nodes_with_one_secret_share_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
