/* A worker runs its parts, whatever they are: each call in their order, commands before the end of
 * all, and freed in the opposite order. */
#include "worker/worker.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "tests/unit/suite.h"

/* What was called, a letter each; by one thread at a time. */
static char trace[200];
static bool fails;       /* the second part's make */
static unsigned waits;   /* turns until the first part is done */
static unsigned ordered; /* commands that the first part saw */

static void note(const char *text)
{
	assert_true(strlen(trace) + strlen(text) < sizeof(trace));
	strcat(trace, text);
}

static bool make_a(struct worker *worker, void *site)
{
	assert_int_equal(*(uint64_t *)worker->memory[PART_EXCHANGE], 0); /* its own */
	assert_null(worker->memory[PART_LISTEN]);
	(void)site;
	note("ma ");
	return true;
}

static bool make_b(struct worker *worker, void *site)
{
	(void)worker;
	(void)site;
	note("mb ");
	return !fails;
}

static void begin_a(struct worker *worker)
{
	(void)worker;
	assert_non_null(loop_current());
	note("ba ");
}

static void begin_b(struct worker *worker)
{
	note("bb ");
	worker_site_taken(worker);
}

static void take_a(struct worker *worker)
{
	(void)worker;
	note("ta ");
}

static void command_a(struct worker *worker, unsigned commands)
{
	ordered |= commands;
	note(worker->draining ? worker->stopping ? "sa " : "da " : "ca ");
}

static void command_b(struct worker *worker, unsigned commands)
{
	(void)worker;
	(void)commands;
	note("cb ");
}

static void end_turn_a(struct worker *worker)
{
	if (worker->draining && waits > 0) {
		note("w ");
		if (--waits > 0)
			loop_hurry(&worker->loop);
	}
}

static bool is_done_a(const struct worker *worker)
{
	(void)worker;
	return waits == 0;
}

static void end_a(struct worker *worker)
{
	(void)worker;
	note("ea ");
}

static void end_b(struct worker *worker)
{
	(void)worker;
	note("eb ");
}

static void free_a(struct worker *worker)
{
	(void)worker;
	note("fa ");
}

static void free_b(struct worker *worker)
{
	(void)worker;
	note("fb ");
}

static const struct worker_part a = {.memory = PART_EXCHANGE,
					.bytes = sizeof(uint64_t),
					.make = make_a,
					.begin = begin_a,
					.take_site = take_a,
					.command = command_a,
					.end_turn = end_turn_a,
					.is_done = is_done_a,
					.end = end_a,
					.free = free_a,
					.work = "work"},
				b = {.make = make_b,
					.begin = begin_b,
					.command = command_b,
					.end = end_b,
					.free = free_b},
				empty = {0};
static const struct worker_part *const parts[] = {&a, &empty, &b, NULL};

static void reset(void)
{
	trace[0] = '\0';
	fails = false;
	waits = ordered = 0;
}

static void parts_live_in_order(void **state)
{
	(void)state;
	reset();
	struct worker *worker = worker_new(NULL, 0, NULL, parts);
	assert_non_null(worker);
	worker_command(worker, WORKER_PING);
	worker_command(worker, WORKER_ACCEPT); /* one message for both */
	waits = 2;
	worker_command(worker, WORKER_DRAIN);
	assert_int_equal(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
	assert_int_equal(pthread_join(worker->thread, NULL), 0);
	worker_free(worker);
	/* The commands of others before the drain, which is there when the parts learn of it. */
	assert_string_equal(trace, "ma mb ba bb ta ca cb da cb w w ea eb fb fa ");
	assert_int_equal(ordered, WORKER_PING | WORKER_ACCEPT | WORKER_DRAIN);
}

static void a_stop_is_a_drain_that_waits_for_less(void **state)
{
	(void)state;
	reset();
	struct worker *worker = worker_new(NULL, 0, NULL, parts);
	assert_non_null(worker);
	worker_command(worker, WORKER_STOP);
	assert_int_equal(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
	assert_int_equal(pthread_join(worker->thread, NULL), 0);
	worker_free(worker);
	assert_string_equal(trace, "ma mb ba bb ta sa cb ea eb fb fa ");
}

static void a_part_that_can_not_be_made_ends_all(void **state)
{
	(void)state;
	reset();
	fails = true;
	assert_null(worker_new(NULL, 0, NULL, parts));
	assert_string_equal(trace, "ma mb fb fa ");
}

static void names_count_up(void **state)
{
	struct worker *worker;
	char first[WORKER_REQUEST_ID_BYTES];

	(void)state;
	reset();
	worker = worker_new(NULL, 0, NULL, parts);
	assert_non_null(worker);
	memcpy(first, worker->request_id, sizeof(first));
	for (int i = 0; i < 0x1f; i++)
		worker_next_request_id(worker);
	assert_memory_equal(worker->request_id, first, sizeof(first) - 12);
	assert_memory_equal(worker->request_id + sizeof(first) - 12, "00000000001f", 12);
	worker_free(worker);
}

UNIT_SUITE(test_worker)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_live_in_order),
		cmocka_unit_test(a_stop_is_a_drain_that_waits_for_less),
		cmocka_unit_test(a_part_that_can_not_be_made_ends_all),
		cmocka_unit_test(names_count_up),
	};
	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
