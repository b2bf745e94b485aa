#include "exchange/pin.h"

#include <stdlib.h>

#include "base/log.h"
#include "exchange/exchange.h"
#include "queue/queue.h"
#include "upstream/server_connection.h"
#include "upstream/server_pool.h"

struct pin {
	struct server_state *server; /* held */
	struct passed_connection connection;
};

void pin_close(void *ctx, void *memory)
{
	struct pin *pin = memory;

	(void)ctx;
	log_debug("upstream %s: server %s: a session's connection is closed after %u requests",
		pin->server->upstream->name, pin->server->address, pin->connection.requests);
	passed_connection_close(&pin->connection);
	pool_forget(pin->server);
	server_state_release(pin->server);
	free(pin);
}

bool pin_is_of_site(void *site, const void *memory)
{
	const struct pin *pin = memory;
	const struct server *server = site ? site_server_of(site, pin->server) : NULL;

	return server && passed_connection_is_of(&pin->connection, server);
}

void pin_park(struct exchange *x, struct server_connection *connection)
{
	struct worker *worker = x->worker;
	struct server_state *server = server_state_of(connection);
	struct pin *pin = NULL;

	/* Later than the reload that took its server away: nobody would close it. */
	if (!worker->stopping && !server_is_stale(connection) &&
		server_connection_is_current(connection) &&
		site_server_of(site_part(worker)->use->site, server))
		pin = malloc(sizeof(*pin));
	if (!pin) {
		server_connection_close(connection);
		return;
	}
	*pin = (struct pin){.server = server_state_hold(server)};
	pin->connection = server_connection_export(connection);
	if (!queue_pin(worker->node->queue, &x->turn.ticket, pin))
		pin_close(NULL, pin);
}

enum pin_result pin_take(struct exchange *x, const struct server_events *events, uint64_t *full)
{
	struct worker *worker = x->worker;
	struct queue *queue = worker->node->queue;
	struct pin *pin = queue_take_pin(queue, &x->turn.ticket);
	struct server *server;

	if (!pin)
		return PIN_NONE;
	server = upstream_server_of(x->upstream, pin->server);
	/* Nothing is due on it: anything to read, an end most likely, makes it useless. */
	if (!server || !passed_connection_is_of(&pin->connection, server) ||
		!passed_connection_is_silent(&pin->connection) ||
		server_mode(server) == SERVER_DISABLED ||
		!server_may_serve(server, worker_now_ms(worker))) {
		pin_close(NULL, pin);
		return PIN_NONE;
	}
	if (!server_take_place(server)) {
		*full = 1ULL << server->index;
		if (!queue_pin(queue, &x->turn.ticket, pin))
			pin_close(NULL, pin);
		return PIN_FULL;
	}
	x->connection = server_connection_import(worker, server,
		(struct server_user){.exchange = x, .events = events}, &pin->connection);
	if (x->connection)
		x->server = server;
	else
		server_done(server);
	/* The exchange's site holds the server from here on. */
	server_state_release(pin->server);
	free(pin);
	return x->connection ? PIN_TAKEN : PIN_NONE;
}
