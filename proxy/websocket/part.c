#include "websocket/part.h"

#include "websocket/socket.h"
#include "websocket/sockets.h"
#include "websocket/times.h"

static bool make(struct worker *worker, struct site *site)
{
	(void)site;
	worker->websockets = websockets_new();
	worker->switched = &websocket_calls;
	return worker->websockets != NULL;
}

static void command(struct worker *worker, unsigned commands)
{
	struct websockets *all = worker->websockets;
	struct websocket *next;

	if (commands & WORKER_HAND_OVER)
		all->is_handed_over = true;
	for (struct websocket *socket = all->first; commands & WORKER_DRAIN && socket;
		socket = next) {
		next = socket->next;
		socket_drain(socket);
		client_advance(socket->handshake->client); /* its connection may end with it */
	}
}

static void free_all(struct worker *worker)
{
	websockets_free(worker->websockets);
}

const struct worker_part websockets_part = {.make = make, .command = command, .free = free_all};
