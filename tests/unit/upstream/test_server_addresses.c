/* The addresses of a server, against a plain list of them. */
#include "upstream/server_addresses.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

static struct server_address inet(unsigned port)
{
	struct sockaddr_in socket = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct server_address address = {.len = sizeof(socket)};

	memcpy(&address.socket, &socket, sizeof(socket));
	return address;
}

static unsigned port_of(const struct server_address *address)
{
	return ntohs(((const struct sockaddr_in *)&address->socket)->sin_port);
}

/* What the oracle knows of an address, by its port; the id is 0 where it is not there. */
struct plain {
	uint32_t id;
	unsigned slot;
	uint64_t interval_ms, out_until_ms;
	bool has_failed; /* an exchange, since the last that went well */
};

#define PORTS 20

struct oracle {
	struct plain at[PORTS + 1];
	uint32_t most_id;
};

static unsigned count_of(const struct oracle *oracle)
{
	unsigned count = 0;

	for (unsigned port = 1; port <= PORTS; port++)
		count += oracle->at[port].id != 0;
	return count;
}

/* Its slots are those of the oracle, and a new address has an id that no other had. */
static void compare(struct oracle *oracle, struct server_addresses *addresses)
{
	unsigned present = server_addresses_present(addresses), seen = 0;

	for (unsigned slot = 0; slot < SERVER_ADDRESSES; slot++) {
		if (!(present >> slot & 1))
			continue;
		struct server_address *address = &addresses->slots[slot].address;
		struct plain *plain = &oracle->at[port_of(address)];
		assert_true(server_addresses_has(addresses, slot, address->id));
		assert_int_equal(address->slot, slot);
		if (plain->id == 0) {
			assert_true(address->id > oracle->most_id);
			*plain = (struct plain){.id = address->id, .slot = slot};
		}
		assert_int_equal(plain->id, address->id);
		assert_int_equal(plain->slot, slot);
		seen++;
	}
	for (unsigned port = 1; port <= PORTS; port++) {
		if (oracle->at[port].id > oracle->most_id)
			oracle->most_id = oracle->at[port].id;
	}
	assert_int_equal(seen, count_of(oracle));
	assert_int_equal(seen, server_addresses_count(addresses));
}

/* Another list of addresses, some of them twice; as many as there may be, and more. */
static void look_up(
	struct oracle *oracle, struct server_addresses *addresses, struct random *random)
{
	struct server_address given[2 * PORTS];
	bool is_given[PORTS + 1] = {false};
	unsigned count = 0, different = 0, stay = 0;
	bool has_left = false;

	for (unsigned n = 0; n < 2 * PORTS; n++) {
		unsigned port = 1 + (unsigned)random_below(random, PORTS);
		if (random_below(random, 2) == 0)
			continue;
		given[count++] = inet(port);
		different += !is_given[port];
		is_given[port] = true;
	}
	for (unsigned port = 1; port <= PORTS; port++) {
		stay += oracle->at[port].id && is_given[port];
		has_left |= oracle->at[port].id && !is_given[port];
		if (!is_given[port])
			oracle->at[port] = (struct plain){0};
	}
	assert_int_equal(server_addresses_set(addresses, given, count), has_left);
	assert_int_equal(server_addresses_count(addresses),
		different < SERVER_ADDRESSES ? different : SERVER_ADDRESSES);
	assert_in_range(stay, 0, SERVER_ADDRESSES);
	compare(oracle, addresses);
}

static unsigned usable_of(const struct oracle *oracle, uint64_t now_ms)
{
	unsigned present = 0, usable = 0;

	for (unsigned port = 1; port <= PORTS; port++) {
		const struct plain *plain = &oracle->at[port];
		unsigned bit = plain->id ? 1u << plain->slot : 0;
		present |= bit;
		usable |= plain->out_until_ms <= now_ms ? bit : 0;
	}
	return usable ? usable : present;
}

static bool fail_plainly(struct oracle *oracle, struct plain *plain, uint64_t now_ms)
{
	bool others = false;

	if (plain->id && plain->out_until_ms <= now_ms) {
		plain->interval_ms = plain->interval_ms ? 2 * plain->interval_ms : 10;
		if (plain->interval_ms > 70)
			plain->interval_ms = 70;
		plain->out_until_ms = now_ms + plain->interval_ms;
	}
	for (unsigned port = 1; port <= PORTS; port++)
		others |= oracle->at[port].id && oracle->at[port].out_until_ms <= now_ms;
	return others;
}

static void they_are_those_of_a_plain_list(void **state)
{
	struct random random = random_begin("addresses");
	struct server_addresses addresses;
	struct oracle oracle = {0};
	uint64_t now_ms = 1000;

	(void)state;
	server_addresses_init(&addresses);
	for (unsigned step = 0; step < 50000; step++) {
		if (random_below(&random, 50) == 0)
			look_up(&oracle, &addresses, &random);
		now_ms += random_below(&random, 12);
		assert_int_equal(
			server_addresses_usable(&addresses, now_ms), usable_of(&oracle, now_ms));
		struct plain *plain = &oracle.at[1 + random_below(&random, PORTS)];
		if (!plain->id)
			continue;
		switch (random_below(&random, 3)) {
		case 0:
			assert_int_equal(server_addresses_failed(&addresses, plain->slot, plain->id,
						 now_ms, 10, 70),
				fail_plainly(&oracle, plain, now_ms));
			break;
		case 1:
			server_addresses_connected(&addresses, plain->slot, plain->id);
			if (!plain->has_failed)
				plain->interval_ms = plain->out_until_ms = 0;
			break;
		default:
			atomic_store(&addresses.slots[plain->slot].fails, 1);
			plain->has_failed = true;
			if (random_below(&random, 2) == 0)
				break;
			server_addresses_succeeded(&addresses, plain->slot, plain->id);
			*plain = (struct plain){.id = plain->id, .slot = plain->slot};
		}
	}
	/* Nothing is known of an address that has left. */
	server_addresses_set(&addresses, NULL, 0);
	server_addresses_connected(&addresses, 0, 1);
	assert_false(server_addresses_failed(&addresses, 0, 1, now_ms, 10, 70));
	assert_int_equal(server_addresses_usable(&addresses, now_ms), 0);
	server_addresses_end(&addresses);
}

static void turns_go_over_a_mask(void **state)
{
	(void)state;
	assert_int_equal(server_addresses_next(1, 0), 0);
	assert_int_equal(server_addresses_next(0x15, 0), 2);
	assert_int_equal(server_addresses_next(0x15, 2), 4);
	assert_int_equal(server_addresses_next(0x15, 4), 0);
	assert_int_equal(server_addresses_next(0x8001, 15), 0);
	assert_int_equal(server_addresses_next(0x8001, 7), 15);
}

/* Also one that failed is given where there is no other, and the text of any fits. */
static void one_address_is_used_whatever_is_known(void **state)
{
	struct sockaddr_in6 socket = {.sin6_family = AF_INET6, .sin6_port = htons(65535)};
	struct server_address only = {.len = sizeof(socket)}, found;
	struct server_addresses addresses;
	char text[SERVER_ADDRESS_TEXT];

	(void)state;
	memset(&socket.sin6_addr, 0xfd, sizeof(socket.sin6_addr));
	memcpy(&only.socket, &socket, sizeof(socket));
	server_addresses_init(&addresses);
	assert_false(server_addresses_get(&addresses, 3, &found));
	assert_false(server_addresses_set(&addresses, &only, 1));
	assert_true(server_addresses_get(&addresses, 3, &found)); /* there is none in that slot */
	assert_int_equal(found.slot, 0);
	assert_false(server_addresses_failed(&addresses, 0, found.id, 1, 10, 100));
	assert_int_equal(server_addresses_usable(&addresses, 1), 1);
	server_address_print(&found, text);
	assert_string_equal(text, "[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:65535");
	server_addresses_end(&addresses);
}

UNIT_SUITE(test_server_addresses)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_those_of_a_plain_list),
		cmocka_unit_test(turns_go_over_a_mask),
		cmocka_unit_test(one_address_is_used_whatever_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
