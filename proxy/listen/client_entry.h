/*
 * The door's notes about a connection, until it ends. Most connections have none: a header of the
 * PROXY protocol makes one, and so does a limit on the connections that are open at once, whose
 * place goes back at the end.
 */
#ifndef LISTEN_CLIENT_ENTRY_H
#define LISTEN_CLIENT_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tls_facts.h"

struct throttle_held;
struct worker;

/* The connection's, until listener_connection_closed or listener_client_gone frees it. */
struct client_entry {
	struct tls_facts tls; /* by a proxy's report; without identity: it reports none */
	bool is_https;        /* by that report */
	bool is_unproven;     /* the peer's address is not the client's: forwarded_peer */
	uint32_t held_count;  /* places that go back at the end, in limits of connections */
	struct throttle_held *held;
};

/* Gives back what it holds. NULL is ignored. */
void client_entry_end(struct worker *worker, struct client_entry *entry);

#endif
