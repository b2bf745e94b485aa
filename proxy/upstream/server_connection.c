#include "upstream/server_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "net/dial.h"
#include "net/tls_client.h"
#include "upstream/greeting.h"
#include "upstream/server_inside.h"
#include "upstream/server_pool.h"

/* Places whose memory a worker keeps. */
#define PLACES_SPARE 256

/* A header of the PROXY protocol. */
struct first_bytes {
	size_t len;
	char bytes[PROXY_WRITTEN_BYTES];
};

static void free_connection(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct server_connection, deferred));
}

/* ---- places of a connection with many ---------------------------------------------------------
 */

static void close_many(struct server_connection *connection)
{
	struct worker *worker = connection->worker;

	if (connection->state == SERVER_CONNECTION_CLOSED)
		return;
	connection->state = SERVER_CONNECTION_CLOSED;
	connection->calls->many->end(connection);
	stream_close(&connection->stream);
	wait_end(&connection->wait);
	pool_note_ended(connection);
	if (connection->counts)
		pool_forget(connection->known);
	server_state_release(connection->known);
	loop_free_later(&worker->loop, &connection->deferred, free_connection);
}

static void free_place(struct deferred_free *item)
{
	struct server_connection *place = CONTAINER_OF(item, struct server_connection, deferred);

	spare_give(&upstream_part(place->worker)->places, place, PLACES_SPARE);
}

/* One that is not used any more ends, or rests. */
static void give_place(struct server_connection *connection, uint32_t keepalive)
{
	pool_give_place(connection, connection->worker->draining ? 0 : keepalive);
	connection->calls->many->place_given(connection);
	if (connection->places_used == 0 && connection->is_retired)
		close_many(connection);
}

static void close_place(struct server_connection *place)
{
	struct server_connection *carrier = place->carrier;
	uint32_t keepalive = place->server->upstream->conf->keepalive;

	place->state = SERVER_CONNECTION_CLOSED;
	place->exchange = NULL;
	pool_note_done(place);
	wait_end(&place->wait);
	place->calls->end(place);
	loop_free_later(&place->worker->loop, &place->deferred, free_place);
	if (carrier)
		give_place(carrier, keepalive);
}

void server_place_lost(struct server_connection *place, const char *why)
{
	place->carrier = NULL;
	if (!place->why)
		place->why = why;
}

void server_connection_let_go(struct server_connection *connection)
{
	if (connection->has_places && connection->places_used > 0)
		pool_retire(connection);
	else
		server_connection_close_unlisted(connection);
}

bool server_may_refuse(const struct server_connection *connection)
{
	return connection->calls->many != NULL;
}

bool server_has_refused(const struct server_connection *connection)
{
	return connection->is_refused;
}

/* ---- its end --------------------------------------------------------------------------------- */

void server_connection_close_unlisted(struct server_connection *connection)
{
	struct worker *worker = connection->worker;

	if (connection->has_places) {
		close_many(connection);
		return;
	}
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
	if (connection->has_places) {
		if (pool_set_places(connection, 0)) /* else it is closed by another's message */
			close_many(connection);
	} else if (connection->calls->many) {
		close_place(connection);
	} else if (connection->state != SERVER_CONNECTION_IDLE || pool_remove(connection)) {
		server_connection_close_unlisted(connection);
	}
}

/* The settings of the server's connections, to be compared with those of one. NULL: plain. */
static const struct tls_client *tls_of(const struct worker *worker, const struct server *server)
{
	return server->upstream->is_node ? tls_client_slot_look(&worker->node->links_tls)
					 : server->tls;
}

static const char *why_not_greeted(const struct server_connection *connection, int error)
{
	const char *why = stream_why(&connection->stream);

	if (!why)
		why = greeting_why(connection->greeting);
	return why ? why : strerror(error);
}

/* Another node: it has to have the secret, as we do. 0: it has, EINPROGRESS: that is not known yet;
 * else `*why` has a text for the errno value. */
static int greet(struct server_connection *connection, const char **why)
{
	const struct worker *worker = connection->worker;

	if (!connection->greeting) {
		stream_keep_alive(&connection->stream); /* it may be silent for hours */
		connection->greeting = greeting_begin(&connection->stream);
		*why = "no memory";
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
	int error =
		connection->stream.read_ended || connection->stream.failed ? ECONNRESET : EACCES;
	*why = why_not_greeted(connection, error);
	return error;
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
	if (error == 0 && connection->server->upstream->is_node)
		error = greet(connection, &why);
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

/* The stream whose bytes are its, and perhaps others'. NULL: it is over. */
static const struct stream *shared_stream(const struct server_connection *connection)
{
	if (!connection->calls->many)
		return &connection->stream;
	return connection->carrier ? &connection->carrier->stream : NULL;
}

bool server_has_input(struct server_connection *connection)
{
	const struct stream *stream = shared_stream(connection);

	if (stream == &connection->stream)
		return stream_has_input(&connection->stream);
	return !stream || stream_is_cut(stream); /* bytes may be any other's */
}

bool server_has_untaken(const struct server_connection *connection)
{
	const struct stream *stream = shared_stream(connection);

	return stream && stream_has_untaken(stream);
}

void server_reset_at_death(struct server_connection *connection)
{
	struct stream *stream = server_stream(connection);

	if (stream)
		stream_reset_at_death(stream);
}

const char *server_why(const struct server_connection *connection)
{
	const struct stream *stream = shared_stream(connection);

	return connection->why || !stream ? connection->why : stream_why(stream);
}

struct stream *server_stream(struct server_connection *connection)
{
	return connection->calls->many ? NULL : &connection->stream;
}

struct server_state *server_state_of(const struct server_connection *connection)
{
	return connection->known;
}

static const struct server_calls *protocol_of(
	const struct worker *worker, const struct server *server)
{
	const struct upstream_part *part = upstream_part(worker);

	return server->upstream->conf->protocol == CONF_PROTOCOL_HTTP2 ? part->http2_calls
								       : part->calls;
}

static void fill(struct server_connection *connection, struct worker *worker, struct server *server,
	struct server_user user)
{
	connection->worker = worker;
	connection->server = server;
	connection->known = server->state;
	connection->tls = server->tls;
	connection->exchange = user.exchange;
	connection->events = user.events;
	connection->requests = 1;
}

/* Not open yet. It counts already. */
static struct server_connection *connection_new(struct worker *worker, struct server *server,
	const struct server_calls *protocol, struct server_user user)
{
	size_t bytes = protocol->many ? protocol->many->bytes : protocol->bytes;
	struct server_connection *connection = calloc(1, bytes);

	if (!connection)
		return NULL;
	connection->calls = protocol;
	connection->has_places = protocol->many != NULL;
	connection->counts = true;
	fill(connection, worker, server, user);
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
	bool is_node = connection->server->upstream->is_node;
	struct tls_client *tls =
		is_node ? tls_client_slot_take(&worker->node->links_tls) : connection->server->tls;
	const struct stream_calls *stream_calls =
		connection->has_places ? connection->calls->many->stream_calls : &calls;
	int error;

	do {
		error = dial(&connection->stream, &worker->streams, tls,
			(const struct sockaddr *)&address->socket, address->len, stream_calls);
	} while (lacks_descriptor(error) && connection->events->make_room(worker));
	connection->tls = tls;
	if (is_node)
		tls_client_release(tls);
	return error;
}

/* One that is on its way, not `opened` yet. */
static struct server_connection *dial_new(struct worker *worker, struct server *server,
	const struct server_calls *protocol, unsigned slot, struct server_user user,
	const char **why, enum connect_fault *fault)
{
	struct server_connection *connection = connection_new(worker, server, protocol, user);
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
			return connection;
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

static struct server_connection *connect_new(struct worker *worker, struct server *server,
	const struct server_calls *protocol, unsigned slot, struct server_user user,
	const char **why, enum connect_fault *fault)
{
	struct server_connection *connection =
		dial_new(worker, server, protocol, slot, user, why, fault);
	bool is_connected = connection && connection->stream.writable &&
			    !server->upstream->is_node && !server->tls;

	return connection ? opened(connection, is_connected ? SERVER_CONNECTION_BUSY
							    : SERVER_CONNECTION_CONNECTING)
			  : NULL;
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
	struct server_connection *connection =
		connection_new(worker, server, upstream_part(worker)->calls, user);

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

/* ---- a connection with many places ------------------------------------------------------------
 */

/* The exchange's place of it, which counts already as used. NULL: no memory, and it is given back.
 */
static struct server_connection *place_new(
	struct server_connection *carrier, struct server *server, struct server_user user)
{
	struct worker *worker = carrier->worker;
	struct server_connection *place = spare_take(&upstream_part(worker)->places);
	const struct conf_upstream *conf = server->upstream->conf;

	if (!place)
		place = malloc(carrier->calls->bytes);
	if (!place) {
		give_place(carrier, conf->keepalive);
		return NULL;
	}
	memset(place, 0, carrier->calls->bytes);
	place->calls = carrier->calls;
	fill(place, worker, server, user);
	place->carrier = carrier;
	place->slot = carrier->slot;
	place->address_id = carrier->address_id;
	place->reused = carrier->requests > 0 && carrier->state == SERVER_CONNECTION_BUSY;
	carrier->requests++;
	opened(place, carrier->state);
	carrier->calls->many->place_taken(carrier, place, conf);
	if (conf->keepalive_requests > 0 && carrier->requests >= conf->keepalive_requests)
		pool_retire(carrier);
	return place;
}

/* A new one. NULL: `*why` and `*fault` have the reason. */
static struct server_connection *carrier_new(struct worker *worker, struct server *server,
	unsigned slot, struct server_user user, const char **why, enum connect_fault *fault)
{
	const struct server_calls *protocol = protocol_of(worker, server);
	struct server_connection *carrier =
		dial_new(worker, server, protocol, slot, user, why, fault);

	if (!carrier)
		return NULL;
	server_state_hold(carrier->known);
	carrier->server = NULL; /* its site may go, its state stays */
	carrier->exchange = NULL;
	carrier->requests = 0;
	carrier->state = SERVER_CONNECTION_CONNECTING;
	carrier->places_used = 1;
	protocol->many->begin(carrier, server->upstream->conf);
	if (!carrier->stream.writable || server->tls)
		return carrier;
	*why = protocol->many->open(carrier);
	if (!*why)
		return carrier;
	*fault = CONNECT_LOCAL;
	server_connection_close(carrier);
	return NULL;
}

/* One of the pool can't be used: another protocol's, as a reload has changed that, or to an address
 * or with certificates that are not the server's any more, or it has ended. */
static void drop(struct server_connection *connection)
{
	if (!connection->has_places) {
		server_connection_close_unlisted(connection);
		return;
	}
	pool_retire(connection);
	give_place(connection, 0);
}

/* Before all of its places are in use: nobody waits for the one that is made now. */
static void open_ahead(
	struct server_connection *carrier, struct server *server, struct server_user user)
{
	uint32_t keepalive = server->upstream->conf->keepalive;
	struct server_connection *ahead;
	enum connect_fault fault;
	const char *why;

	if (keepalive == 0 || carrier->is_retired || !pool_may_open_ahead(carrier))
		return;
	ahead = carrier_new(carrier->worker, server, carrier->slot, user, &why, &fault);
	if (ahead)
		give_place(ahead, keepalive);
}

static struct server_connection *get_place(struct worker *worker, struct server *server,
	unsigned slot, struct server_user user, const char **why, enum connect_fault *fault)
{
	struct server_connection *carrier, *place;
	struct pool_connection pooled;

	for (;;) {
		switch (pool_take(worker, server, slot, false, &pooled)) {
		case POOL_IDLE:
			carrier = pooled.idle;
			if (!carrier->has_places || carrier->calls->many->is_over(carrier) ||
				!server_connection_is_current(carrier) ||
				carrier->tls != server->tls) {
				drop(carrier);
				break;
			}
			place = place_new(carrier, server, user);
			if (place)
				open_ahead(carrier, server, user);
			*why = "no memory";
			*fault = CONNECT_LOCAL;
			return place;
		case POOL_TAKEN: /* it speaks HTTP/1 */
			stream_export_close(&pooled.taken.stream);
			pool_forget(server->state);
			break;
		case POOL_NEW:
			carrier = carrier_new(worker, server, slot, user, why, fault);
			return carrier ? place_new(carrier, server, user) : NULL;
		case POOL_FULL:
			*why = "no connection";
			*fault = CONNECT_FULL;
			return NULL;
		}
	}
}

struct server_connection *server_connection_get(struct worker *worker, struct server *server,
	struct server_user user, bool fresh, const char **why, enum connect_fault *fault)
{
	const struct server_calls *protocol = protocol_of(worker, server);
	unsigned slot =
		server_choose_address(server, worker->index, user.hash, worker_now_ms(worker));
	struct server_connection *connection;
	struct pool_connection pooled;

	if (protocol->many)
		return get_place(worker, server, slot, user, why, fault);
	/* One that has served was another client's, or is none of a client. */
	fresh |= has_header(server);
	for (;;) {
		switch (pool_take(worker, server, slot, fresh, &pooled)) {
		case POOL_IDLE:
			if (!pooled.idle->has_places && !stream_is_stale(&pooled.idle->stream) &&
				server_connection_is_current(pooled.idle) &&
				pooled.idle->tls == tls_of(worker, server))
				return resume(pooled.idle, server, user);
			drop(pooled.idle);
			break;
		case POOL_TAKEN:
			if (!passed_connection_is_of(&pooled.taken, server) ||
				pooled.taken.tls != tls_of(worker, server)) {
				stream_export_close(&pooled.taken.stream);
				pool_forget(server->state);
				break;
			}
			connection = server_connection_import(worker, server, user, &pooled.taken);
			*why = "no memory";
			*fault = CONNECT_LOCAL;
			return connection;
		case POOL_NEW:
			return connect_new(worker, server, protocol, slot, user, why, fault);
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

	if (connection->calls->many) {
		close_place(connection);
		return;
	}
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
