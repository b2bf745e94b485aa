#include "upstream/server_addresses.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

void server_addresses_init(struct server_addresses *addresses)
{
	*addresses = (struct server_addresses){0};
	pthread_mutex_init(&addresses->lock, NULL);
}

void server_addresses_end(struct server_addresses *addresses)
{
	pthread_mutex_destroy(&addresses->lock);
}

/* ---- look-ups -------------------------------------------------------------------------------- */

static bool is_same(const struct server_address *a, const struct server_address *b)
{
	return a->len == b->len && memcmp(&a->socket, &b->socket, a->len) == 0;
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const struct server_address *address)
{
	const unsigned char *bytes = (const unsigned char *)&address->socket;
	uint64_t hash = 0xcbf29ce484222325u;

	for (socklen_t i = 0; i < address->len; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

static bool is_listed(
	const struct server_address *address, const struct server_address *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (is_same(address, &list[i]))
			return true;
	}
	return false;
}

static void set_present(struct server_addresses *addresses, unsigned present)
{
	atomic_store_explicit(&addresses->present, present, memory_order_relaxed);
}

/* With the lock. The slots of the addresses that are no longer there are empty. */
static bool drop_missing(
	struct server_addresses *addresses, const struct server_address *list, unsigned count)
{
	unsigned before = server_addresses_present(addresses), after = before;

	for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
		struct server_slot *slot = &addresses->slots[i];
		if (!(before >> i & 1) || is_listed(&slot->address, list, count))
			continue;
		after &= ~(1u << i);
		atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
	}
	set_present(addresses, after);
	return after != before;
}

/* With the lock. The first empty slot; SERVER_ADDRESSES: it is there already, or there is none. */
static unsigned slot_for(
	const struct server_addresses *addresses, const struct server_address *address)
{
	unsigned present = server_addresses_present(addresses), empty = SERVER_ADDRESSES;

	for (unsigned i = SERVER_ADDRESSES; i-- > 0;) {
		if (!(present >> i & 1))
			empty = i;
		else if (is_same(&addresses->slots[i].address, address))
			return SERVER_ADDRESSES;
	}
	return empty;
}

/* With the lock. */
static void add(struct server_addresses *addresses, const struct server_address *address)
{
	unsigned i = slot_for(addresses, address);

	if (i == SERVER_ADDRESSES)
		return;
	struct server_slot *slot = &addresses->slots[i];
	slot->address = *address;
	slot->address.slot = i;
	slot->address.id = ++addresses->next_id;
	slot->interval_ms = 0;
	slot->probe_fails = 0;
	atomic_store_explicit(&slot->fails, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->out_until_ms, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->unhealthy, false, memory_order_relaxed);
	atomic_store_explicit(&slot->hash, hash_of(address), memory_order_relaxed);
	atomic_store_explicit(&slot->id, slot->address.id, memory_order_relaxed);
	set_present(addresses, server_addresses_present(addresses) | 1u << i);
}

bool server_addresses_set(
	struct server_addresses *addresses, const struct server_address *list, unsigned count)
{
	pthread_mutex_lock(&addresses->lock);
	bool have_left = drop_missing(addresses, list, count);
	for (unsigned i = 0; i < count; i++)
		add(addresses, &list[i]);
	pthread_mutex_unlock(&addresses->lock);
	return have_left;
}

uint64_t server_addresses_sum(struct server_addresses *addresses)
{
	uint64_t sum = 0;

	pthread_mutex_lock(&addresses->lock);
	for (unsigned i = 0, present = server_addresses_present(addresses); present >> i; i++)
		sum += present >> i & 1 ? hash_of(&addresses->slots[i].address) : 0;
	pthread_mutex_unlock(&addresses->lock);
	return sum;
}

/* ---- choice ---------------------------------------------------------------------------------- */

unsigned server_addresses_usable(const struct server_addresses *addresses, uint64_t now_ms)
{
	unsigned present = server_addresses_present(addresses), usable = 0;

	if ((present & (present - 1)) == 0)
		return present; /* there is no choice */
	for (unsigned i = 0; present >> i; i++) {
		const struct server_slot *slot = &addresses->slots[i];
		bool is_out =
			atomic_load_explicit(&slot->out_until_ms, memory_order_relaxed) > now_ms ||
			atomic_load_explicit(&slot->unhealthy, memory_order_relaxed);
		usable |= present & (is_out ? 0 : 1u << i);
	}
	return usable ? usable : present;
}

unsigned server_addresses_next(unsigned mask, unsigned slot)
{
	unsigned behind = slot + 1 < SERVER_ADDRESSES ? mask >> (slot + 1) << (slot + 1) : 0;

	return (unsigned)__builtin_ctz(behind ? behind : mask);
}

bool server_addresses_get(
	struct server_addresses *addresses, unsigned slot, struct server_address *address)
{
	pthread_mutex_lock(&addresses->lock);
	unsigned present = server_addresses_present(addresses);
	if (present) {
		if (!(present >> slot & 1))
			slot = server_addresses_next(present, slot);
		*address = addresses->slots[slot].address;
	}
	pthread_mutex_unlock(&addresses->lock);
	return present != 0;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* With the lock. */
static bool is_in_slot(const struct server_addresses *addresses, unsigned slot, uint32_t id)
{
	return server_addresses_present(addresses) >> slot & 1 &&
	       addresses->slots[slot].address.id == id;
}

static void take_back(struct server_addresses *addresses, unsigned slot, uint32_t id)
{
	struct server_slot *of = &addresses->slots[slot];

	pthread_mutex_lock(&addresses->lock);
	if (is_in_slot(addresses, slot, id)) {
		of->interval_ms = 0;
		atomic_store_explicit(&of->fails, 0, memory_order_relaxed);
		atomic_store_explicit(&of->out_until_ms, 0, memory_order_relaxed);
	}
	pthread_mutex_unlock(&addresses->lock);
}

void server_addresses_connected(struct server_addresses *addresses, unsigned slot, uint32_t id)
{
	struct server_slot *of = &addresses->slots[slot];

	if (atomic_load_explicit(&of->out_until_ms, memory_order_relaxed) != 0 &&
		atomic_load_explicit(&of->fails, memory_order_relaxed) == 0)
		take_back(addresses, slot, id);
}

void server_addresses_succeeded(struct server_addresses *addresses, unsigned slot, uint32_t id)
{
	/* Read before writing: in good times nobody's cache line moves. */
	if (atomic_load_explicit(&addresses->slots[slot].fails, memory_order_relaxed) != 0)
		take_back(addresses, slot, id);
}

bool server_addresses_failed(struct server_addresses *addresses, unsigned slot, uint32_t id,
	uint64_t now_ms, uint64_t first_ms, uint64_t most_ms)
{
	struct server_slot *of = &addresses->slots[slot];
	bool others = false;

	pthread_mutex_lock(&addresses->lock);
	unsigned present = server_addresses_present(addresses);
	if (is_in_slot(addresses, slot, id) &&
		atomic_load_explicit(&of->out_until_ms, memory_order_relaxed) <= now_ms) {
		uint64_t interval = of->interval_ms ? of->interval_ms * 2ull : first_ms;
		of->interval_ms = (uint32_t)(interval < most_ms ? interval : most_ms);
		atomic_store_explicit(
			&of->out_until_ms, now_ms + of->interval_ms, memory_order_relaxed);
	}
	for (unsigned i = 0; present >> i; i++)
		others |=
			present >> i & 1 && atomic_load_explicit(&addresses->slots[i].out_until_ms,
						    memory_order_relaxed) <= now_ms;
	pthread_mutex_unlock(&addresses->lock);
	return others;
}

void server_address_print(const struct server_address *address, char text[SERVER_ADDRESS_TEXT])
{
	char host[48] = "?", port[8] = "?";

	getnameinfo((const struct sockaddr *)&address->socket, address->len, host, sizeof(host),
		port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, SERVER_ADDRESS_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}
