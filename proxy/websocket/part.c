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
static bool make(struct worker *worker, void *site)
{
	struct node *node = worker->node;

	(void)site;
	while (node->socket_ids == 0)
		node->socket_ids = draw_ids();
	exchange_part(worker)->switched = &websocket_calls;
	tunnel_part(worker)->calls = &websocket_passage_calls;
	worker->memory[PART_WEBSOCKETS] = websockets_new();
	if (websockets_of(worker) && !node_publishing(node))
		node->shared[NODE_PUBLISHING] = publishing_new(node);
	if (!websockets_of(worker) || !node_publishing(node))
		return false;
	websockets_of(worker)->line = publishing_enter(node_publishing(node), worker);
	websockets_of(worker)->channels = publish_line_view(websockets_of(worker)->line);
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
	struct websockets *all = websockets_of(worker);

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
	return worker->stopping || !websockets_of(worker)->gateways;
}

static void end_all(struct worker *worker)
{
	while (websockets_of(worker)->gateways)
		gateway_abort(websockets_of(worker)->gateways, "shutdown");
}

/* The key may be another one. */
static void take_site(struct worker *worker)
{
	websockets_of(worker)->signature.bytes = 0;
}

static void end_turn(struct worker *worker)
{
	walk_end_turn(worker);
	publish_line_end_turn(websockets_of(worker)->line);
}

static void free_all(struct worker *worker)
{
	struct node *node = worker->node;

	if (websockets_of(worker) && websockets_of(worker)->line &&
		publishing_leave(node_publishing(node)))
		node->shared[NODE_PUBLISHING] = NULL;
	websockets_free(websockets_of(worker));
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
