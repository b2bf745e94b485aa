/* What a node has all of its workers do. */
#include "worker/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/container.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define WORKERS 3

static unsigned commands_seen[WORKERS];

static void command(struct worker *worker, unsigned commands)
{
	commands_seen[worker->index] |= commands;
}

static const struct worker_part part = {.command = command};
static const struct worker_part *const parts[] = {&part, NULL};

struct world {
	struct node node;
	struct worker *workers[WORKERS];
	unsigned failures; /* messages that the main thread had */
};

static void note_failure(struct message *message)
{
	CONTAINER_OF(message, struct world, node.failures.message)->failures++;
}

static void begin(struct world *world)
{
	*world = (struct world){.node.worker_count = WORKERS};
	world->node.workers = world->workers;
	world->node.failures.message.run = note_failure;
	assert_int_equal(loop_init(&world->node.loop), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		world->workers[i] = worker_new(&world->node, i, NULL, parts);
		assert_non_null(world->workers[i]);
		commands_seen[i] = 0;
	}
}

static void end(struct world *world)
{
	for (unsigned i = 0; i < WORKERS; i++)
		worker_free(world->workers[i]);
	loop_end(&world->node.loop);
}

/* One turn of a loop that was woken: it does not sleep. */
static void turn(struct loop *loop)
{
	loop_enter(loop);
	assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(NULL);
}

static void every_worker_gets_the_commands(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	node_command_workers(&world.node, WORKER_PING);
	node_command_workers(&world.node, WORKER_SEEN); /* with the one before */
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_int_equal(commands_seen[i], 0); /* on its own thread */
		turn(&world.workers[i]->loop);
		assert_int_equal(commands_seen[i], WORKER_PING | WORKER_SEEN);
		for (unsigned k = i + 1; k < WORKERS; k++)
			assert_int_equal(commands_seen[k], 0);
	}
	end(&world);
}

static void every_worker_is_woken(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	node_wake_workers(&world.node);
	for (unsigned i = 0; i < WORKERS; i++) {
		turn(&world.workers[i]->loop); /* else it would sleep for ever */
		assert_int_equal(commands_seen[i], 0);
	}
	end(&world);
}

static void of_many_failures_the_main_thread_hears_once(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	for (unsigned i = 0; i < 5; i++)
		node_note_failure(&world.node);
	assert_true(world.node.failures.is_reported);
	turn(&world.node.loop);
	assert_int_equal(world.failures, 1);
	node_note_failure(&world.node); /* until it has looked */
	node_wake_workers(&world.node);
	loop_wake(&world.node.loop);
	turn(&world.node.loop);
	assert_int_equal(world.failures, 1);
	atomic_store(&world.node.failures.is_reported, false);
	node_note_failure(&world.node);
	turn(&world.node.loop);
	assert_int_equal(world.failures, 2);
	end(&world);
}

static void a_node_without_workers(void **state)
{
	struct node node = {.worker_count = 0};

	(void)state;
	node_wake_workers(&node);
	node_command_workers(&node, WORKER_PING);
	assert_int_equal(node.worker_count, 0);
}

UNIT_SUITE(test_node)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_worker_gets_the_commands),
		cmocka_unit_test(every_worker_is_woken),
		cmocka_unit_test(of_many_failures_the_main_thread_hears_once),
		cmocka_unit_test(a_node_without_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
