/*
 * The addresses of a server. A name has several, and they change; each has a slot, which stays its
 * own while the name has the address. So a connection is named by slot and id, and everyone sees at
 * once, without a lock, whether its address is still one of the server's.
 *
 *   a look-up --server_addresses_set--> slot 0: id 7   slot 1: (empty)   slot 2: id 9
 *                                           ^-- idle connections by slot (upstream/server_pool.h)
 *
 * An address that fails is used only when all others of its server have failed, too.
 */
#ifndef UPSTREAM_SERVER_ADDRESSES_H
#define UPSTREAM_SERVER_ADDRESSES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define SERVER_ADDRESSES 16
/* "[address]:port" of any address of a name. */
#define SERVER_ADDRESS_TEXT 64

struct server_address {
	struct sockaddr_storage socket;
	socklen_t len;
	uint32_t id; /* no other address of the server ever has it; 0: none */
	unsigned slot;
};

struct server_slot {
	struct server_address address; /* guarded */
	uint32_t interval_ms;          /* it was left for last for, last; guarded */
	unsigned probe_fails;          /* in a row; the main thread's */
	/* Relaxed, all of them: hints for the choice of an address. */
	atomic_uint id;                /* address.id; 0: the slot is empty */
	atomic_uint fails;             /* of exchanges, in a row */
	_Atomic uint64_t out_until_ms; /* 0: in */
	_Atomic uint64_t hash;         /* of the address, the same on every node */
	atomic_bool unhealthy;         /* by active checks */
};

struct server_addresses {
	pthread_mutex_t lock; /* held for a copy only */
	uint32_t next_id;     /* guarded */
	atomic_uint present;  /* a mask of slots */
	struct server_slot slots[SERVER_ADDRESSES];
};

void server_addresses_init(struct server_addresses *addresses);
void server_addresses_end(struct server_addresses *addresses);

/* The result of a look-up; at most SERVER_ADDRESSES of it, of which those that are there already
 * have precedence. These keep their slot and their state. Has an address left? */
bool server_addresses_set(
	struct server_addresses *addresses, const struct server_address *list, unsigned count);

/* relaxed: an address that leaves just now may still be used */
static inline unsigned server_addresses_present(const struct server_addresses *addresses)
{
	return atomic_load_explicit(&addresses->present, memory_order_relaxed);
}

/* How many there are. */
static inline unsigned server_addresses_count(const struct server_addresses *addresses)
{
	return (unsigned)__builtin_popcount(server_addresses_present(addresses));
}

/* Is that address still one of the server's? */
static inline bool server_addresses_has(
	const struct server_addresses *addresses, unsigned slot, uint32_t id)
{
	return atomic_load_explicit(&addresses->slots[slot].id, memory_order_relaxed) == id;
}

/* A mask of those that have not failed; of all when all have. 0: there is none. */
unsigned server_addresses_usable(const struct server_addresses *addresses, uint64_t now_ms);

/* The slot in `mask`, which is not 0, that comes next behind `slot`. */
unsigned server_addresses_next(unsigned mask, unsigned slot);

/* The address in that slot; if that is empty, another one. False: there is none. */
bool server_addresses_get(
	struct server_addresses *addresses, unsigned slot, struct server_address *address);

/* A connection to it was made; an exchange with it went well. */
void server_addresses_connected(struct server_addresses *addresses, unsigned slot, uint32_t id);
void server_addresses_succeeded(struct server_addresses *addresses, unsigned slot, uint32_t id);
/* No connection to it could be made, or too many exchanges failed: it is left for last for a time
 * that doubles from `first_ms` to `most_ms`. Is there another one that has not failed? */
bool server_addresses_failed(struct server_addresses *addresses, unsigned slot, uint32_t id,
	uint64_t now_ms, uint64_t first_ms, uint64_t most_ms);

/* "address:port" of a server whose addresses are of a name. */
void server_address_print(const struct server_address *address, char text[SERVER_ADDRESS_TEXT]);

/* A number that distinguishes the set of addresses from others, in any order; 0: it has none. The
 * same on every node. */
uint64_t server_addresses_sum(struct server_addresses *addresses);

#endif
