/*
 * The addresses of a broker's name, found within a time. For a name librabbitmq asks the system,
 * which waits for name servers that are silent as long as it is configured to: longer than a node's
 * share is valid.
 */
#ifndef SEMAPHORE_BROKER_ADDRESSES_H
#define SEMAPHORE_BROKER_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

/* That are kept; an address of IPv6 may have the name of an interface behind it. */
#define BROKER_ADDRESSES_MOST 8
#define BROKER_ADDRESS_BYTES  64

struct broker_addresses {
	size_t count;
	char text[BROKER_ADDRESSES_MOST][BROKER_ADDRESS_BYTES];
};

/* Waits for `timeout_ms` at most. NULL: there is at least one; else the reason why there is none,
 * static. */
const char *broker_addresses_find(
	struct broker_addresses *addresses, const char *name, uint64_t timeout_ms);

#endif
