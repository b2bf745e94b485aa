/* Connections to servers without an exchange: what they tell is noted for the test. Programs need
 * $(stage_sources) and $(stage_flags). */
#ifndef TESTS_UPSTREAM_LINKED_H
#define TESTS_UPSTREAM_LINKED_H

#include "http1/http1_server.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "upstream/server_inside.h"
#include "upstream/server_pool.h"

struct linked {
	struct stage *stage;
	struct server *server;
	struct server_calls calls; /* HTTP/1's; `fetch` is noted */
	char trace[256];           /* `connected(errno) ` `fetch ` `event ` `send ` `timeout ` */
	unsigned rooms;            /* descriptors that can be given back */
};

/* What an exchange is to its connection: a name. */
static inline struct linked *linked_of(struct exchange *exchange)
{
	return (struct linked *)(void *)exchange;
}

static inline void linked_note(struct exchange *exchange, const char *text)
{
	struct linked *linked = linked_of(exchange);

	assert_true(strlen(linked->trace) + strlen(text) < sizeof(linked->trace));
	strcat(linked->trace, text);
}

static inline void linked_connected(struct exchange *exchange, int error, const char *why)
{
	char text[32];

	(void)why;
	snprintf(text, sizeof(text), "connected(%d) ", error);
	linked_note(exchange, text);
}

static inline void linked_fetch(struct server_connection *connection)
{
	linked_note(connection->exchange, "fetch ");
	http1_server_calls.fetch(connection);
}

static inline void linked_event(struct exchange *exchange)
{
	linked_note(exchange, "event ");
}

static inline void linked_send(struct exchange *exchange)
{
	linked_note(exchange, "send ");
}

static inline void linked_timeout(struct exchange *exchange)
{
	linked_note(exchange, "timeout ");
}

static struct linked *linked_current;

static inline bool linked_make_room(struct worker *worker)
{
	assert_ptr_equal(worker, linked_current->stage->worker);
	if (linked_current->rooms == 0)
		return false;
	if (--linked_current->rooms == 0)
		linked_current->stage->connect_error = 0;
	return true;
}

static const struct server_events linked_events = {
	.connected = linked_connected,
	.event = linked_event,
	.send_request = linked_send,
	.timeout = linked_timeout,
	.make_room = linked_make_room,
};

static inline void linked_begin(struct linked *linked, const struct stage_conf *conf)
{
	*linked = (struct linked){.stage = stage_begin(conf)};
	linked->server = &linked->stage->daemon.site->upstreams[0]->servers[0];
	linked->calls = http1_server_calls;
	linked->calls.fetch = linked_fetch;
	for (unsigned i = 0; i < linked->stage->daemon.node.worker_count; i++)
		upstream_part(linked->stage->workers[i])->calls = &linked->calls;
	linked_current = linked;
}

static inline void linked_end(struct linked *linked)
{
	linked_current = NULL;
	stage_end(linked->stage);
}

/* What was noted since the last call. */
static inline const char *linked_heard(struct linked *linked)
{
	static char text[sizeof(linked->trace)];

	strcpy(text, linked->trace);
	linked->trace[0] = '\0';
	return text;
}

static inline struct server_user linked_user(struct linked *linked)
{
	return (struct server_user){(struct exchange *)(void *)linked, &linked_events, 0, NULL};
}

/* A connection of this worker's, or NULL. */
static inline struct server_connection *linked_get_of(
	struct linked *linked, unsigned worker, bool fresh)
{
	const char *why;
	enum connect_fault fault;

	return server_connection_get(linked->stage->workers[worker], linked->server,
		linked_user(linked), fresh, &why, &fault);
}

static inline struct server_connection *linked_get(struct linked *linked)
{
	struct server_connection *connection = linked_get_of(linked, 0, false);

	assert_non_null(connection);
	return connection;
}

static inline unsigned linked_open(const struct linked *linked)
{
	return atomic_load(&linked->server->state->connections);
}

static inline unsigned linked_idle(const struct linked *linked, unsigned worker)
{
	return pool_count(linked->server->state, linked->stage->workers[worker]);
}

#endif
