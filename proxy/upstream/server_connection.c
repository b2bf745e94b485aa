#include "upstream/server_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "net/dial.h"
#include "upstream/greeting.h"
#include "upstream/server_inside.h"
#include "upstream/server_pool.h"

/* A header of the PROXY protocol. */
struct first_bytes {
	size_t len;
	char bytes[PROXY_WRITTEN_BYTES];
};

static void free_connection(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct server_connection, deferred));
}

void server_connection_close_unlisted(struct server_connection *connection)
{
	struct worker *worker = connection->worker;

	connection->state = SERVER_CONNECTION_CLOSED;
	connection->exchange = NULL;
	pool_note_done(connection);
	stream_close(&connection->stream);
	wait_end(&connection->wait);
	free(connection->greeting);
	connection->greeting = NULL;
	free(connection->first);
	connection->first = NULL;
	connection->calls->end(connection);
	if (connection->counts)
		pool_forget(connection->known);
	loop_free_later(&worker->loop, &connection->deferred, free_connection);
}

void server_connection_close(struct server_connection *connection)
{
	if (connection->state == SERVER_CONNECTION_CLOSED)
		return;
	if (connection->state != SERVER_CONNECTION_IDLE || pool_remove(connection))
		server_connection_close_unlisted(connection);
}

/* Another node: it has to have the secret, as we do. 0: it has, EINPROGRESS: that is not known yet.
 */
static int greet(struct server_connection *connection)
{
	const struct worker *worker = connection->worker;

	if (!connection->greeting) {
		stream_keep_alive(&connection->stream); /* it may be silent for hours */
		connection->greeting = greeting_begin(&connection->stream);
		return connection->greeting ? EINPROGRESS : ENOMEM;
	}
	switch (greeting_run(connection->greeting, &connection->stream, worker->fleet_secret)) {
	case GREETING_GOES_ON:
		return EINPROGRESS;
	case GREETING_DONE:
		free(connection->greeting);
		connection->greeting = NULL;
		return 0;
	case GREETING_FAILED:
		break;
	}
	return connection->stream.read_ended || connection->stream.failed ? ECONNRESET : EACCES;
}

static bool has_header(const struct server *server)
{
	return server->upstream->conf->send_proxy != CONF_SEND_PROXY_OFF;
}

/* They are few, and nothing was written before: all of them fit. 0, or an errno value. */
static int write_first(struct server_connection *connection)
{
	struct first_bytes *first = connection->first;

	if (!first)
		return 0;
	struct iovec piece = {first->bytes, first->len};
	size_t written = 0;
	bool good = stream_write(&connection->stream, &piece, 1, &written) == STREAM_OK &&
		    written == first->len;
	free(first);
	connection->first = NULL;
	return good ? 0 : ECONNRESET;
}

/* Of a connection that was just begun: its server is to learn the client before all else. Before
 * TLS, whose stream keeps the bytes itself. 0, or an errno value. */
static int begin_header(struct server_connection *connection, const struct server_client *client)
{
	const struct server *server = connection->server;
	bool is_known = client && client->is_known;
	struct first_bytes *first = malloc(sizeof(*first));

	if (!first)
		return ENOMEM;
	first->len = proxy_header_write(server->upstream->conf->send_proxy == CONF_SEND_PROXY_V1
						? PROXY_VERSION_1
						: PROXY_VERSION_2,
		false, is_known ? &client->address : NULL, is_known ? &client->reached : NULL,
		first->bytes);
	if (server->tls) {
		bool good = tls_send_first(&connection->stream, first->bytes, first->len);
		free(first);
		return good ? 0 : ENOMEM;
	}
	connection->first = first;
	return connection->stream.writable ? write_first(connection) : 0;
}

/* The kernel, or the handshake, has decided about it, or its end came. */
static void on_connected(struct server_connection *connection)
{
	const char *why = NULL;
	int error = dial_progress(&connection->stream, &why);

	if (error == 0)
		server_warn_of_expiry(connection->server);
	if (error == 0 && (error = write_first(connection)) != 0)
		why = strerror(error);
	if (error == 0 && connection->server->upstream->is_node) {
		error = greet(connection);
		why = strerror(error);
	}
	if (error == EINPROGRESS)
		return;
	if (error == 0) {
		connection->state = SERVER_CONNECTION_BUSY;
		server_addresses_connected(
			&connection->known->addresses, connection->slot, connection->address_id);
	}
	connection->events->connected(connection->exchange, error, why);
}

static void on_event(struct stream *stream)
{
	struct server_connection *connection =
		(struct server_connection *)((char *)stream -
					     offsetof(struct server_connection, stream));

	switch (connection->state) {
	case SERVER_CONNECTION_IDLE:
		/* Nothing is due on it: whatever came, an end most likely, it is of no use. */
		if (stream_is_stale(stream))
			server_connection_close(connection);
		break;
	case SERVER_CONNECTION_CONNECTING:
		on_connected(connection);
		break;
	case SERVER_CONNECTION_BUSY:
		connection->events->event(connection->exchange);
		break;
	case SERVER_CONNECTION_CLOSED:
		break;
	}
}

static void on_readable(struct stream *stream)
{
	struct server_connection *connection =
		(struct server_connection *)((char *)stream -
					     offsetof(struct server_connection, stream));

	if (connection->state == SERVER_CONNECTION_BUSY && connection->awaits_head)
		connection->calls->fetch(connection);
}

static const struct stream_calls calls = {on_readable, on_event};

static void on_deadline(struct deadline *deadline)
{
	struct server_connection *connection =
		(struct server_connection *)((char *)deadline -
					     offsetof(struct server_connection, wait));

	if (connection->state == SERVER_CONNECTION_IDLE)
		server_connection_close(connection);
	else if (connection->state != SERVER_CONNECTION_CLOSED)
		connection->events->timeout(connection->exchange);
}

/* Nothing that a server can do anything about. A unix socket says EAGAIN when its backlog is full.
 */
static bool is_local(int error, sa_family_t family)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
	       error == EADDRNOTAVAIL || (error == EAGAIN && family != AF_UNIX);
}

static bool lacks_descriptor(int error)
{
	return error == EMFILE || error == ENFILE;
}

static enum connect_fault fault_of(const struct server_connection *connection)
{
	const struct conf_upstream *conf = connection->server->upstream->conf;

	return server_addresses_failed(&connection->known->addresses, connection->slot,
		       connection->address_id, worker_now_ms(connection->worker),
		       conf->fail_timeout_ms, conf->fail_timeout_max_ms)
		       ? CONNECT_ADDRESS
		       : CONNECT_SERVER;
}

enum connect_fault server_connection_failed(struct server_connection *connection, int error)
{
	if (is_local(error, AF_UNSPEC))
		return CONNECT_LOCAL;
	return fault_of(connection);
}

bool server_is_connected(const struct server_connection *connection)
{
	return connection->state == SERVER_CONNECTION_BUSY;
}

bool server_is_reused(const struct server_connection *connection)
{
	return connection->reused;
}

bool server_is_stale(struct server_connection *connection)
{
	return stream_is_stale(&connection->stream);
}

bool server_has_input(struct server_connection *connection)
{
	return stream_has_input(&connection->stream);
}

bool server_has_untaken(const struct server_connection *connection)
{
	return stream_has_untaken(&connection->stream);
}

void server_reset_at_death(struct server_connection *connection)
{
	stream_reset_at_death(&connection->stream);
}

const char *server_why(const struct server_connection *connection)
{
	return stream_why(&connection->stream);
}

struct stream *server_stream(struct server_connection *connection)
{
	return &connection->stream;
}

struct server_state *server_state_of(const struct server_connection *connection)
{
	return connection->known;
}

/* Not open yet. It counts already. */
static struct server_connection *connection_new(
	struct worker *worker, struct server *server, struct server_user user)
{
	const struct server_calls *protocol = upstream_part(worker)->calls;
	struct server_connection *connection = calloc(1, protocol->bytes);

	if (!connection)
		return NULL;
	connection->calls = protocol;
	connection->worker = worker;
	connection->server = server;
	connection->known = server->state;
	connection->tls = server->tls;
	connection->counts = true;
	connection->exchange = user.exchange;
	connection->events = user.events;
	connection->requests = 1;
	return connection;
}

static struct server_connection *opened(
	struct server_connection *connection, enum server_connection_state state)
{
	pool_note_busy(connection);
	wait_init(&connection->wait, connection->worker->loop.base, on_deadline);
	connection->state = state;
	return connection;
}

/* 0, or an errno value. A descriptor that only waits for a request is given up for it. */
static int begin_connect(struct server_connection *connection, const struct server_address *address)
{
	struct worker *worker = connection->worker;
	int error;

	do {
		error = dial(&connection->stream, &worker->streams, connection->server->tls,
			(const struct sockaddr *)&address->socket, address->len, &calls);
	} while (lacks_descriptor(error) && connection->events->make_room(worker));
	return error;
}

static struct server_connection *connect_new(struct worker *worker, struct server *server,
	unsigned slot, struct server_user user, const char **why, enum connect_fault *fault)
{
	struct server_connection *connection = connection_new(worker, server, user);
	struct server_address address;
	int error;

	*fault = CONNECT_LOCAL;
	*why = "no memory";
	if (connection && !server_addresses_get(&server->state->addresses, slot, &address)) {
		*fault = CONNECT_SERVER;
		*why = "its name has no address";
	} else if (connection) {
		connection->slot = address.slot;
		connection->address_id = address.id;
		error = begin_connect(connection, &address);
		if (error == 0 && has_header(server)) {
			error = begin_header(connection, user.client);
			if (error != 0)
				stream_close(&connection->stream);
		}
		if (error == 0)
			return opened(connection, connection->stream.writable &&
								  !server->upstream->is_node &&
								  !server->tls
							  ? SERVER_CONNECTION_BUSY
							  : SERVER_CONNECTION_CONNECTING);
		*why = strerror(error);
		if (lacks_descriptor(error))
			*fault = CONNECT_NO_DESCRIPTOR;
		else if (!is_local(error, address.socket.ss_family))
			*fault = fault_of(connection);
	}
	pool_forget(server->state);
	if (connection) {
		free(connection->first);
		loop_free_later(&worker->loop, &connection->deferred, free_connection);
	}
	return NULL;
}

struct passed_connection server_connection_export(struct server_connection *connection)
{
	struct passed_connection passed = {stream_export(&connection->stream), connection->requests,
		connection->slot, connection->address_id, connection->tls};

	connection->counts = false;
	server_connection_close(connection);
	return passed;
}

struct server_connection *server_connection_import(struct worker *worker, struct server *server,
	struct server_user user, struct passed_connection *passed)
{
	struct server_connection *connection = connection_new(worker, server, user);

	if (!connection)
		stream_export_close(&passed->stream);
	if (!connection ||
		!stream_import(&connection->stream, &worker->streams, &passed->stream, &calls)) {
		pool_forget(server->state);
		free(connection);
		return NULL;
	}
	connection->reused = true;
	connection->requests = passed->requests + 1;
	connection->slot = passed->slot;
	connection->address_id = passed->address_id;
	connection->tls = passed->tls;
	return opened(connection, SERVER_CONNECTION_BUSY);
}

bool server_connection_is_current(const struct server_connection *connection)
{
	return server_addresses_has(
		&connection->known->addresses, connection->slot, connection->address_id);
}

bool passed_connection_is_silent(const struct passed_connection *passed)
{
	return stream_export_is_silent(&passed->stream);
}

void passed_connection_close(struct passed_connection *passed)
{
	stream_export_close(&passed->stream);
}

bool passed_connection_is_of(const struct passed_connection *passed, const struct server *server)
{
	return passed->tls == server->tls &&
	       server_addresses_has(&server->state->addresses, passed->slot, passed->address_id);
}

static struct server_connection *resume(
	struct server_connection *connection, struct server *server, struct server_user user)
{
	wait_none(&connection->wait);
	connection->state = SERVER_CONNECTION_BUSY;
	connection->server = server;
	connection->exchange = user.exchange;
	connection->events = user.events;
	connection->reused = true;
	connection->requests++;
	pool_note_busy(connection);
	return connection;
}

struct server_connection *server_connection_get(struct worker *worker, struct server *server,
	struct server_user user, bool fresh, const char **why, enum connect_fault *fault)
{
	unsigned slot =
		server_choose_address(server, worker->index, user.hash, worker_now_ms(worker));
	struct server_connection *connection;
	struct pool_connection pooled;

	/* One that has served was another client's, or is none of a client. */
	fresh |= has_header(server);
	for (;;) {
		switch (pool_take(worker, server, slot, fresh, &pooled)) {
		case POOL_IDLE:
			if (!stream_is_stale(&pooled.idle->stream) &&
				server_connection_is_current(pooled.idle) &&
				pooled.idle->tls == server->tls)
				return resume(pooled.idle, server, user);
			server_connection_close_unlisted(pooled.idle);
			break;
		case POOL_TAKEN:
			if (!passed_connection_is_of(&pooled.taken, server)) {
				stream_export_close(&pooled.taken.stream);
				pool_forget(server->state);
				break;
			}
			connection = server_connection_import(worker, server, user, &pooled.taken);
			*why = "no memory";
			*fault = CONNECT_LOCAL;
			return connection;
		case POOL_NEW:
			return connect_new(worker, server, slot, user, why, fault);
		case POOL_FULL:
			*why = "no connection";
			*fault = CONNECT_FULL;
			return NULL;
		}
	}
}

void server_connection_keep(struct server_connection *connection)
{
	struct worker *worker = connection->worker;
	const struct conf_upstream *conf = connection->server->upstream->conf;
	uint64_t now_ms = worker_now_ms(worker);
	struct server_connection *surplus;

	connection->exchange = NULL;
	bool worn =
		conf->keepalive_requests > 0 && connection->requests >= conf->keepalive_requests;
	if (stream_is_stale(&connection->stream) || worn || worker->draining ||
		conf->keepalive == 0 || has_header(connection->server) ||
		!server_connection_is_current(connection)) {
		server_connection_close(connection);
		return;
	}
	/* All is set before it is listed: others may take it from then on. */
	connection->server = NULL; /* its site may go, its state stays */
	wait_none(&connection->wait);
	wait_for(&connection->wait, WAIT_REUSE, 0, now_ms + conf->keepalive_timeout_ms, now_ms);
	connection->state = SERVER_CONNECTION_IDLE;
	if (!pool_keep(connection, conf->keepalive, &surplus))
		server_connection_close_unlisted(connection);
	else if (surplus)
		server_connection_close_unlisted(surplus);
}

void server_close_idle(struct server_state *server, struct worker *worker)
{
	struct server_connection *connection;

	while ((connection = pool_pop_oldest(server, worker)) != NULL)
		server_connection_close_unlisted(connection);
}

/* ---- how it went ----------------------------------------------------------------------------- */

void server_note_success(struct server *server, const struct server_connection *connection)
{
	if (connection)
		server_addresses_succeeded(
			&server->state->addresses, connection->slot, connection->address_id);
	server_succeeded(server);
}

/* Has the address failed so often that it is left out, and others of the server are in? */
static bool eject_address(struct server *server, const struct server_connection *connection,
	const char *why, uint64_t now_ms)
{
	const struct conf_upstream *conf = server->upstream->conf;
	struct server_addresses *addresses = &server->state->addresses;
	struct server_slot *slot = &addresses->slots[connection->slot];
	struct server_address address;
	char text[SERVER_ADDRESS_TEXT];

	/* relaxed: a count for a choice */
	unsigned fails = atomic_fetch_add_explicit(&slot->fails, 1, memory_order_relaxed) + 1;
	if (conf->max_fails == 0 || fails < conf->max_fails)
		return true;
	if (fails % conf->max_fails == 0 &&
		server_addresses_get(addresses, connection->slot, &address)) {
		server_address_print(&address, text);
		log_warn("upstream %s: server %s: address %s ejected after %u failures: %s",
			conf->name, server->conf->address.text, text, fails, why);
	}
	return server_addresses_failed(addresses, connection->slot, connection->address_id, now_ms,
		conf->fail_timeout_ms, conf->fail_timeout_max_ms);
}

void server_note_failure(struct server *server, const struct server_connection *connection,
	const char *why, uint64_t now_ms)
{
	if (connection && server_addresses_count(&server->state->addresses) > 1 &&
		(!server_connection_is_current(connection) ||
			eject_address(server, connection, why, now_ms)))
		return;
	server_failed(server, why, now_ms);
}
