#include "websocket/part.h"

#include <unistd.h>

#include "gateway/gateway.h"
#include "channels/grip_hold.h"
#include "channels/publish.h"
#include "websocket/socket.h"
#include "websocket/sockets.h"
#include "websocket/times.h"
#include "websocket/walk.h"

static uint64_t draw_ids(void)
{
	uint64_t drawn;

	if (getentropy(&drawn, sizeof(drawn)) != 0)
		drawn = clock_wall_ns();
	return drawn & ((UINT64_C(1) << SOCKET_ID_BITS) - 1);
}

/* On the main thread, as for the other workers. */
static bool make(struct worker *worker, struct site *site)
{
	struct node *node = worker->node;

	(void)site;
	while (node->socket_ids == 0)
		node->socket_ids = draw_ids();
	worker->switched = &websocket_calls;
	worker->websockets = websockets_new();
	if (worker->websockets && !node->publishing)
		node->publishing = publishing_new(node);
	if (!worker->websockets || !node->publishing)
		return false;
	worker->websockets->line = publishing_enter(node->publishing, worker);
	worker->websockets->channels = publish_line_view(worker->websockets->line);
	return true;
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
	struct websockets *all = worker->websockets;

	if (commands & WORKER_HAND_OVER)
		all->is_handed_over = true;
	if (!(commands & WORKER_DRAIN) || all->drain.visit)
		return;
	grip_holds_drain(worker);
	all->drain = (struct socket_walk){.visit = drain, .done = drained};
	walk_begin(&all->drain, worker);
}

/* Servers are to learn of the end of each socket, unless there is no time for it. */
static bool is_done(const struct worker *worker)
{
	return worker->stopping || !worker->websockets->gateways;
}

static void end_all(struct worker *worker)
{
	while (worker->websockets->gateways)
		gateway_abort(worker->websockets->gateways, "shutdown");
}

/* The key may be another one. */
static void take_site(struct worker *worker)
{
	worker->websockets->signature.bytes = 0;
}

static void end_turn(struct worker *worker)
{
	walk_end_turn(worker);
	publish_line_end_turn(worker->websockets->line);
}

static void free_all(struct worker *worker)
{
	struct node *node = worker->node;

	if (worker->websockets && worker->websockets->line && publishing_leave(node->publishing))
		node->publishing = NULL;
	websockets_free(worker->websockets);
}

const struct worker_part websockets_part = {
	.make = make,
	.take_site = take_site,
	.command = command,
	.end_turn = end_turn,
	.is_done = is_done,
	.work = "sockets of gateways",
	.end = end_all,
	.free = free_all,
};
