#include "websocket/socket.h"

#include <stdlib.h>

#include "record/account.h"
#include "exchange/switched.h"
#include "websocket/close.h"
#include "websocket/flush.h"
#include "websocket/grip.h"
#include "websocket/handshake.h"
#include "websocket/message.h"
#include "websocket/read_client.h"
#include "websocket/read_server.h"
#include "websocket/send.h"
#include "websocket/times.h"
#include "websocket/unfinished.h"

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
