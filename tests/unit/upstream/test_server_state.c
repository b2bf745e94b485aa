/* States of upstreams and servers: shared by name, freed by the last holder; and whose turn it is
 * among a server's addresses, held to a plain list over random failures and look-ups. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "queue/queue.h"
#include "upstream/server_state.h"

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

/* ---- addresses ------------------------------------------------------------------------------- */

static struct server_address inet(unsigned port)
{
	struct sockaddr_in socket = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct server_address address = {.len = sizeof(socket)};

	memcpy(&address.socket, &socket, sizeof(socket));
	return address;
}

static const struct server_address none; /* of a list without any */

static unsigned port_of(const struct server_address *address)
{
	return ntohs(((const struct sockaddr_in *)&address->socket)->sin_port);
}

static void a_number_is_its_own_only_address(void **state)
{
	struct world world = begin();
	struct upstream_state *a = get(&world, "a");
	struct conf_address address = {.kind = CONF_ADDRESS_INET, .text = "x:80"};
	struct server_address only = inet(80), found;

	(void)state;
	address.socket = only.socket;
	address.socket_len = only.len;
	struct server_state *server = server_state_get(a, &address, 0);
	for (int i = 0; i < 3; i++) {
		assert_true(server_state_address(server, 1, &found));
		assert_int_equal(port_of(&found), 80);
	}
	/* It is given also when it has failed: there is no other. */
	assert_false(server_state_address_failed(server, found.id, 1, 10, 100));
	assert_true(server_state_address(server, 1, &found));
	server_state_set_addresses(server, &none, 0);
	assert_false(server_state_address(server, 1, &found));
	server_state_release(server);
	upstream_state_release(a);
	end(&world);
}

/* What the oracle knows of an address. */
struct plain {
	unsigned port;
	uint32_t id;
	uint64_t interval_ms, out_until_ms;
};

struct oracle {
	struct plain list[SERVER_ADDRESSES];
	unsigned count, turn;
	uint32_t most_id;
};

/* Another list of addresses, by the ports 1 to 20; as many as may be given, and more. */
static void look_up(struct oracle *oracle, struct server_state *server, struct random *random)
{
	struct server_address given[20];
	struct plain next[20];
	unsigned count = 0;

	for (unsigned port = 1; port <= 20; port++) {
		if (random_below(random, 3) == 0)
			continue;
		next[count] = (struct plain){.port = port};
		for (unsigned i = 0; i < oracle->count; i++) {
			if (oracle->list[i].port == port)
				next[count] = oracle->list[i];
		}
		given[count] = inet(port);
		/* Of a look-up only the socket counts. */
		given[count].id = 99999;
		given[count].out_until_ms = 99999;
		count++;
	}
	server_state_set_addresses(server, given, count);
	oracle->count = count < SERVER_ADDRESSES ? count : SERVER_ADDRESSES;
	for (unsigned i = 0; i < oracle->count; i++) {
		uint32_t id = server->addresses[i].id;
		assert_int_equal(port_of(&server->addresses[i]), next[i].port);
		if (next[i].id == 0) {
			assert_true(id > oracle->most_id); /* no other ever had it */
			oracle->most_id = next[i].id = id;
		}
		assert_int_equal(id, next[i].id);
		oracle->list[i] = next[i];
	}
	assert_int_equal(server->address_count, oracle->count);
}

/* The next by turns that is not out; when all are, the next. */
static struct plain *next_of(struct oracle *oracle, uint64_t now_ms)
{
	unsigned turn = oracle->turn++;

	for (unsigned i = 0; i < oracle->count; i++) {
		struct plain *plain = &oracle->list[(turn + i) % oracle->count];
		if (plain->out_until_ms <= now_ms)
			return plain;
	}
	return oracle->count > 0 ? &oracle->list[turn % oracle->count] : NULL;
}

static bool fail_plainly(struct oracle *oracle, struct plain *plain, uint64_t now_ms)
{
	bool others = false;

	if (plain->out_until_ms <= now_ms) {
		plain->interval_ms = plain->interval_ms ? 2 * plain->interval_ms : 10;
		if (plain->interval_ms > 70)
			plain->interval_ms = 70;
		plain->out_until_ms = now_ms + plain->interval_ms;
	}
	for (unsigned i = 0; i < oracle->count; i++)
		others |= oracle->list[i].out_until_ms <= now_ms;
	return others;
}

static void turns_are_those_of_a_plain_list(void **state)
{
	struct random random = random_begin("addresses");
	struct world world = begin();
	struct upstream_state *a = get(&world, "a");
	struct server_state *server = get_server(a, "name:80", 0);
	struct oracle oracle = {0};
	uint64_t now_ms = 1000;

	(void)state;
	for (unsigned step = 0; step < 50000; step++) {
		struct server_address found;
		if (random_below(&random, 50) == 0)
			look_up(&oracle, server, &random);
		now_ms += random_below(&random, 12);
		struct plain *expected = next_of(&oracle, now_ms);
		assert_int_equal(server_state_address(server, now_ms, &found), expected != NULL);
		if (!expected)
			continue;
		assert_int_equal(found.id, expected->id);
		assert_int_equal(port_of(&found), expected->port);
		if (random_below(&random, 3) > 0) {
			bool others = fail_plainly(&oracle, expected, now_ms);
			assert_int_equal(
				server_state_address_failed(server, found.id, now_ms, 10, 70),
				others);
		} else if (random_below(&random, 2) > 0) {
			expected->interval_ms = expected->out_until_ms = 0;
			server_state_address_succeeded(server, found.id);
		}
	}
	/* Of an address that is no longer there nothing is known. */
	server_state_set_addresses(server, &none, 0);
	server_state_address_succeeded(server, 1);
	assert_false(server_state_address_failed(server, 1, now_ms, 10, 70));
	server_state_release(server);
	upstream_state_release(a);
	end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_has_one_state_while_it_is_held),
		cmocka_unit_test(a_server_is_known_by_upstream_address_and_repeat),
		cmocka_unit_test(a_server_keeps_its_upstream),
		cmocka_unit_test(a_number_is_its_own_only_address),
		cmocka_unit_test(turns_are_those_of_a_plain_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
