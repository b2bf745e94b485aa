#include "websocket/socket.h"

#include <stdlib.h>

#include "record/account.h"
#include "exchange/switched.h"
#include "websocket/close.h"
#include "websocket/flush.h"
#include "gateway/gateway.h"
#include "channels/grip.h"
#include "channels/grip_hold.h"
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

static void run_server(struct websocket *socket)
{
	struct gateway *gateway = socket->gateway;

	if (!gateway) {
		socket_read_server(socket);
		return;
	}
	gateway_pass_on(gateway);
	gateway_run(gateway);
}

/* Nothing more of it reaches its server. */
static void leave_server(struct websocket *socket)
{
	socket_session_over(socket);
	if (socket->gateway)
		gateway_abort(socket->gateway, "session over");
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
		run_server(socket);
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

static unsigned judge(struct exchange *x, const char **why)
{
	return handshake_judge(&x->route->websocket, &x->request, x->memory.head, why);
}

static bool agree(struct exchange *x)
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

/* Behind the handshake. */
static bool begin(const struct exchange *x, struct passage *passage)
{
	struct websocket *socket = socket_new(passage);

	if (!socket) {
		if (x->tunnel.gateway)
			gateway_leave(x->tunnel.gateway, x);
		return false;
	}
	socket->gateway = x->tunnel.gateway;
	if (socket->gateway)
		socket->gateway->socket = socket;
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

static void run(struct passage *passage)
{
	socket_run(passage->socket);
}

static void session_ends(struct passage *passage)
{
	socket_finish_with_session(passage->socket);
}

static void session_is_over(struct passage *passage)
{
	leave_server(passage->socket);
}

static void timeout(struct passage *passage)
{
	struct websocket *socket = passage->socket;

	socket_look_at_times(socket);
	socket_run(socket);
}

static void free_socket(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct websocket, deferred));
}

static void end(struct passage *passage)
{
	struct websocket *socket = passage->socket;
	struct gateway *gateway = socket->gateway;

	passage->socket = NULL;
	passage->messages =
		(struct passage_messages){true, socket->received.messages, socket->sent.messages};
	passage->up.bytes = socket->received.bytes;
	passage->down.bytes = socket->sent.bytes;
	if (!gateway)
		socket_messages_gone(socket);
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
	if (gateway)
		gateway_leave(gateway, NULL);
	loop_free_later(&socket->worker->loop, &socket->deferred, free_socket);
}

/* The handshake of a gateway's ends, and no socket came of it. */
static void close_handshake(struct exchange *x)
{
	gateway_leave(x->tunnel.gateway, x);
}

static void each_message(const struct worker *worker,
	void (*visit)(const struct exchange *message, const struct passage *passage))
{
	for (const struct websocket *socket = websockets_of(worker)->first; socket;
		socket = socket->links.next) {
		for (const struct exchange *x = socket->client.first; x; x = x->next)
			visit(x, socket->passage);
	}
}

static void each_request(const struct worker *worker, void (*visit)(const struct exchange *message))
{
	for (const struct gateway *gateway = websockets_of(worker)->gateways; gateway;
		gateway = gateway->next) {
		for (const struct exchange *x = gateway->client.first; x; x = x->next)
			visit(x);
	}
}

static void answered(struct exchange *x)
{
	if (x->kind == EXCHANGE_GATEWAY_HANDSHAKE)
		gateway_opened(x);
	else
		gateway_take_answer(x);
}

const struct switched_calls websocket_calls = {
	.judge = judge,
	.agree = agree,
	.leave = close_handshake,
	.screen = gateway_screen,
	.open = gateway_open,
	.collects = gateway_collects,
	.answered = answered,
	.holds = grip_holds,
	.held = grip_held,
	.let_go = grip_let_go,
	.signature = grip_signature,
};

const struct passage_calls websocket_passage_calls = {
	.begin = begin,
	.run = run,
	.timeout = timeout,
	.session_ends = session_ends,
	.session_is_over = session_is_over,
	.end = end,
	.each_message = each_message,
	.each_request = each_request,
};
