#include "websocket/socket.h"

#include <stdlib.h>
#include <unistd.h>

#include "record/account.h"
#include "exchange/switched.h"
#include "websocket/close.h"
#include "websocket/grip.h"
#include "websocket/handshake.h"
#include "websocket/message.h"
#include "websocket/read_client.h"
#include "websocket/read_server.h"
#include "websocket/send.h"
#include "websocket/times.h"
#include "websocket/sockets.h"
#include "websocket/state.h"

/* ---- flush ---------------------------------------------------------------------------------- */

/* Frames of our own that are due, and what the connections of a socket take. */

/* ---- our own --------------------------------------------------------------------------------- */

/* As many as may be composed for a client that takes nothing: what is dropped meanwhile has no
 * notice, or the memory for them would have no bound. */
static bool write_notices(struct websocket *socket)
{
	const char *notice = socket_conf(socket)->notice;
	const struct flow *flow = socket->passage->down.flow;

	for (; socket->notices > 0 && flow_bytes(flow) < SOCKET_AHEAD_BYTES; socket->notices--) {
		if (notice && !socket_write_client(socket, FRAME_TEXT, slice_of(notice)))
			return false;
	}
	return true;
}

/* What may stand between two of the server's frames. */
static bool write_to_client(struct websocket *socket)
{
	struct socket_side *client = &socket->closing.client;

	if (socket->to_client.context || client->told || !socket_takes_frame(socket))
		return true;
	if (socket->notices > 0 && !socket->from_server.opcode && !write_notices(socket))
		return false;
	if (client->due)
		return socket_may_still_send(socket) || socket_tell_client(socket);
	if (!socket->ping.is_due || (socket->from_server.opcode && !socket->ping.hurries))
		return true;
	socket->ping.is_due = socket->ping.hurries = false;
	socket->ping.is_sent = socket->ping.is_open = true;
	socket->ping.since_ms = socket_now_ms(socket);
	return socket_write_client(socket, FRAME_PING,
		(struct slice){socket->ping.payload, sizeof(socket->ping.payload)});
}

static bool write_own(struct websocket *socket)
{
	struct socket_side *server = &socket->closing.server;

	/* The message under way goes first. */
	if (server->due && !server->told && !socket->gateway && !socket->client.first &&
		!socket_tell_server(socket))
		return false;
	return write_to_client(socket);
}

/* ---- to the connections ---------------------------------------------------------------------- */

static void flush_server(struct websocket *socket)
{
	struct passage_way *up = &socket->passage->up;

	if (!flow_is_empty(up->flow) && !passage_may_send(socket->passage)) {
		socket_session_over(socket);
		return;
	}
	if (!flow_is_empty(up->flow) && up->sink->writable &&
		flow_write(up->flow, up->sink, up->pool, &up->written) == STREAM_FAILED) {
		socket_server_gone(socket, "server gone");
		return;
	}
	if (flow_is_empty(up->flow))
		socket_messages_written(socket);
}

static enum stream_result write_flow(struct passage_way *down)
{
	if (flow_is_empty(down->flow) || !down->sink->writable)
		return STREAM_OK;
	return flow_write(down->flow, down->sink, down->pool, &down->written);
}

static void flush_client(struct websocket *socket)
{
	struct passage_way *down = &socket->passage->down;
	bool was_full = flow_bytes(down->flow) >= SOCKET_AHEAD_BYTES;
	enum stream_result result = write_flow(down);

	if (was_full && flow_is_empty(down->flow))
		socket->again = true; /* the server may be read again */
	if (result != STREAM_FAILED && flow_is_empty(down->flow) && socket_has_sends(socket))
		result = socket_write_sends(socket);
	if (result == STREAM_FAILED) {
		worker_count(socket->worker, STATS_CLIENT_GONE);
		socket_abort(socket, "client gone");
		return;
	}
	socket_end_output(socket);
}

/* Writes the due frames at a place where they are allowed; then what the connections take. May end
 * the socket. */
static void socket_flush(struct websocket *socket)
{
	if (!write_own(socket)) {
		socket_abort(socket, "no memory");
		return;
	}
	if (!socket->gateway)
		flush_server(socket);
	if (!socket_has_ended(socket))
		flush_client(socket);
}

/* ---- socket --------------------------------------------------------------------------------- */

static void end_if_closed(struct websocket *socket)
{
	if (!socket_is_closed(socket))
		socket_watch(socket);
	else
		passage_end(socket->passage, NULL);
}

/* Nothing more of it reaches its server. */
static void leave_server(struct websocket *socket)
{
	socket_session_over(socket);
	socket->server->abort(socket, "session over");
}

void socket_run(struct websocket *socket)
{
	if (socket->busy || socket_has_ended(socket)) {
		socket->again = true;
		return;
	}
	if (!passage_may_send(socket->passage))
		leave_server(socket);
	socket->busy = true;
	do {
		socket->again = false;
		socket->server->run(socket);
		if (!socket_has_ended(socket))
			socket_read_client(socket);
		if (!socket_has_ended(socket))
			socket_flush(socket);
	} while (socket->again && !socket_has_ended(socket));
	socket->busy = false;
	if (!socket_has_ended(socket))
		end_if_closed(socket);
}

/* ---- what an exchange calls ------------------------------------------------------------------ */

unsigned socket_judge(struct exchange *x, const char **why)
{
	return handshake_judge(&x->route->websocket, &x->request, x->memory.head, why);
}

bool socket_agree(struct exchange *x)
{
	bool deflates;

	return handshake_agreed(x->response, &x->request, &deflates);
}

/* NULL: no memory. */
static struct websocket *socket_new(struct passage *passage)
{
	struct websocket *socket = calloc(1, sizeof(*socket));
	struct passage_account *account = &passage->account;

	if (!socket)
		return NULL;
	socket->worker = passage->worker;
	socket->all = websockets_of(passage->worker);
	socket->client = (struct client){
		.calls = &message_client_calls,
		.listener = account->listener,
	};
	if (account->hop) {
		socket->hop =
			shared_listener_hold(&socket->all->listeners, account->hop, account->use);
		if (!socket->hop) {
			free(socket);
			return NULL;
		}
		socket->client.listener = &socket->hop->listener;
	}
	socket->passage = passage;
	passage->socket = socket;
	return socket;
}

bool socket_begin(const struct exchange *x, struct passage *passage,
	const struct socket_server *server, struct client *gateway)
{
	struct websocket *socket = socket_new(passage);

	if (!socket)
		return false;
	socket->server = server;
	socket->gateway = gateway;
	socket->grip.subscriber.calls = &socket_subscriber_calls;
	handshake_agreed(x->response, &x->request, &socket->from_client.deflates);
	socket->from_server.deflates = socket->from_client.deflates;
	socket->from_client.masked = true;
	socket->from_client.max_bytes = x->route->websocket.max_message_bytes;
	socket->from_server.trusts_text = true; /* its client looks */
	socket_times_begin(socket);
	stream_limit_unsent(passage->down.sink, SEND_UNSENT_BYTES);
	websockets_add(socket->all, socket, socket->worker->index);
	/* relaxed: a figure for the operator */
	atomic_fetch_add_explicit(&x->worker->node->sockets, 1, memory_order_relaxed);
	passage_count(passage, STATS_SOCKETS_OPENED, 1);
	return true;
}

void socket_on_run(struct passage *passage)
{
	socket_run(passage->socket);
}

void socket_on_session_ends(struct passage *passage)
{
	socket_finish_with_session(passage->socket);
}

void socket_on_session_over(struct passage *passage)
{
	leave_server(passage->socket);
}

void socket_on_timeout(struct passage *passage)
{
	struct websocket *socket = passage->socket;

	socket_look_at_times(socket);
	socket_run(socket);
}

static void free_socket(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct websocket, deferred));
}

void socket_on_end(struct passage *passage)
{
	struct websocket *socket = passage->socket;

	passage->socket = NULL;
	passage->messages =
		(struct passage_messages){true, socket->received.messages, socket->sent.messages};
	passage->up.bytes = socket->received.bytes;
	passage->down.bytes = socket->sent.bytes;
	if (!socket->gateway)
		socket->server->leave(socket);
	socket_end_sends(socket);
	socket_end_grip(socket);
	passage_count(passage, STATS_SOCKETS_CLOSED, 1);
	socket->passage = NULL;
	message_reader_end(&socket->all->frames, &socket->from_client);
	message_reader_end(&socket->all->frames, &socket->from_server);
	frame_writer_end(&socket->all->frames, &socket->to_client);
	unfinished_clear(socket);
	shared_listener_release(&socket->all->listeners, socket->hop);
	websockets_remove(socket->all, socket);
	atomic_fetch_sub_explicit(&socket->worker->node->sockets, 1, memory_order_relaxed);
	if (socket->gateway)
		socket->server->leave(socket);
	loop_free_later(&socket->worker->loop, &socket->deferred, free_socket);
}

void socket_each_message(const struct worker *worker,
	void (*visit)(const struct exchange *message, const struct passage *passage))
{
	for (const struct websocket *socket = websockets_of(worker)->first; socket;
		socket = socket->links.next) {
		for (const struct exchange *x = socket->client.first; x; x = x->next)
			visit(x, socket->passage);
	}
}

/* ---- part ----------------------------------------------------------------------------------- */

static uint64_t draw_ids(void)
{
	uint64_t drawn;

	if (getentropy(&drawn, sizeof(drawn)) != 0)
		drawn = clock_wall_ns();
	return drawn & ((UINT64_C(1) << SOCKET_ID_BITS) - 1);
}

/* On the main thread, as for the other workers. */
static bool make(struct worker *worker, void *site)
{
	struct node *node = worker->node;

	(void)site;
	while (node->socket_ids == 0)
		node->socket_ids = draw_ids();
	worker->memory[PART_WEBSOCKETS] = websockets_new();
	return websockets_of(worker);
}

static bool drain(struct socket_walk *walk, struct websocket *socket)
{
	(void)walk;
	socket_drain(socket);
	passage_run(socket->passage); /* its connection may end with it */
	return true;
}

static void drained(struct socket_walk *walk)
{
	(void)walk;
}

static void command(struct worker *worker, unsigned commands)
{
	struct websockets *all = websockets_of(worker);

	if (commands & WORKER_HAND_OVER)
		all->is_handed_over = true;
	if (!(commands & WORKER_DRAIN) || all->drain.visit)
		return;
	all->drain = (struct socket_walk){.visit = drain, .done = drained};
	walk_begin(&all->drain, worker);
}

static void free_all(struct worker *worker)
{
	websockets_free(websockets_of(worker));
}

const struct worker_part websockets_part = {
	.make = make,
	.command = command,
	.end_turn = walk_end_turn,
	.free = free_all,
};
