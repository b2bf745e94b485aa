#include "websocket/part.h"

#include <unistd.h>

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
