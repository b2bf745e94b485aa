/*
 * How many requests the servers in service take at once, where servers have bounds of their own.
 *
 *   a server is drained, fails, works again, ... --> capacity_changed --> run queue: more may go
 *   a request takes a server that is out of service, or leaves it ---^
 *
 * A server is in service while it is enabled and not ejected. When all enabled ones are ejected,
 * they are in service nevertheless, as they are asked then. What a server that is out of service
 * still processes takes no place of the others. With no enabled server there is no bound: nothing
 * is gained by waiting, and the requests are refused.
 */
#ifndef UPSTREAM_CAPACITY_H
#define UPSTREAM_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

struct conf_server;
struct conf_upstream;
struct server_state;
struct upstream;
struct upstream_state;

/* Is it ejected, for failures or by active checks? */
bool capacity_is_ejected(const struct server_state *server, uint64_t now_ms);

/* Requests that a server takes at once; 0: no bound. A request of HTTP/1 has a connection to
 * itself, so that max_connections bounds it, too. */
uint32_t capacity_of(const struct conf_upstream *upstream, const struct conf_server *server);

/* These are the servers of the upstream from now on, with these bounds. Main thread. */
void capacity_set(const struct upstream *upstream);

/* A run_queue_config's `capacity`; its context is the struct upstream_state. */
uint32_t capacity_read(void *upstream_state, uint64_t now_ns, uint64_t *until_ns);

/* A server of the upstream has gone out of service, or come back. Any thread, without a lock. */
void capacity_changed(struct upstream_state *upstream);

/* A request has taken a place at the server, or has given it back: where it is out of service that
 * changes the capacity. Any thread, without a lock. */
void capacity_used(const struct server_state *server);

#endif
