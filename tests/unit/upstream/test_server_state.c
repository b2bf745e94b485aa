/* States of upstreams and servers: shared by name, freed by the last holder. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "queue/queue.h"
#include "upstream/server_state.h"
#include "tests/unit/suite.h"

static void dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	(void)ctx;
	(void)worker;
	(void)ticket;
	fail();
}

struct world {
	struct queue *queue;
	struct upstream_states *states;
};

static struct world begin(void)
{
	const struct queue_config config = {.callbacks = {.dispatch = dispatch}};
	struct world world = {.queue = queue_create(&config)};

	world.states = upstream_states_new(world.queue, 3);
	assert_non_null(world.states);
	return world;
}

/* Asserts that no state is left. */
static void end(struct world *world)
{
	upstream_states_free(world->states);
	queue_destroy(world->queue);
}

static struct upstream_state *get(struct world *world, const char *name)
{
	const struct run_queue_config config = {0};
	struct upstream_state *state = upstream_state_get(world->states, name, &config);

	assert_non_null(state);
	return state;
}

static struct server_state *get_server(
	struct upstream_state *upstream, const char *text, unsigned repeat)
{
	const struct conf_address address = {.kind = CONF_ADDRESS_NAME, .text = text};
	struct server_state *state = server_state_get(upstream, &address, repeat);

	assert_non_null(state);
	return state;
}

/* ---- sharing --------------------------------------------------------------------------------- */

static void a_name_has_one_state_while_it_is_held(void **state)
{
	struct world world = begin();
	struct upstream_state *a = get(&world, "a"), *b = get(&world, "b");

	(void)state;
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(get(&world, "a"), a);
	upstream_state_release(a);
	atomic_store(&a->streams, 7);
	assert_ptr_equal(get(&world, "a"), a);
	upstream_state_release(a);
	upstream_state_release(a);
	a = get(&world, "a");
	assert_int_equal(a->streams, 0);
	upstream_state_release(a);
	upstream_state_release(b);
	end(&world);
}

static void a_server_is_known_by_upstream_address_and_repeat(void **state)
{
	struct world world = begin();
	struct upstream_state *a = get(&world, "a"), *b = get(&world, "b");
	struct server_state *one = get_server(a, "x:1", 0);

	(void)state;
	struct server_state *others[] = {
		get_server(a, "x:1", 1), get_server(a, "x:2", 0), get_server(b, "x:1", 0)};
	for (size_t i = 0; i < 3; i++) {
		assert_ptr_not_equal(others[i], one);
		assert_int_equal(others[i]->workers, 3);
		server_state_release(others[i]);
	}
	atomic_store(&one->mode, SERVER_DRAINING);
	assert_ptr_equal(get_server(a, "x:1", 0), one);
	assert_ptr_equal(server_state_hold(one), one);
	server_state_release(one);
	server_state_release(one);
	assert_int_equal(one->mode, SERVER_DRAINING);
	server_state_release(one);
	one = get_server(a, "x:1", 0);
	assert_int_equal(one->mode, SERVER_ENABLED);
	server_state_release(one);
	upstream_state_release(a);
	upstream_state_release(b);
	end(&world);
}

static void a_server_keeps_its_upstream(void **state)
{
	struct world world = begin();
	struct upstream_state *a = get(&world, "a");
	struct server_state *one = get_server(a, "x:1", 0), *two = get_server(a, "x:2", 0);

	(void)state;
	upstream_state_release(a);
	assert_ptr_equal(get(&world, "a"), a);
	upstream_state_release(a);
	server_state_release(one);
	assert_ptr_equal(two->upstream, a);
	assert_ptr_equal(get_server(a, "x:2", 0), two);
	server_state_release(two);
	server_state_release(two);
	end(&world);
}

UNIT_SUITE(test_server_state)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_has_one_state_while_it_is_held),
		cmocka_unit_test(a_server_is_known_by_upstream_address_and_repeat),
		cmocka_unit_test(a_server_keeps_its_upstream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
