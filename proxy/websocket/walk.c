#include "websocket/walk.h"

#include "websocket/state.h"

/* As many as are left of the turn. */
static unsigned visit_some(struct socket_walk *walk, unsigned left)
{
	while (left > 0 && walk->at) {
		struct websocket *socket = walk->at;
		walk->at = socket->links.next;
		left--;
		if (!walk->visit(walk, socket))
			walk->at = NULL;
	}
	return left;
}

static void put_last(struct websockets *all, struct socket_walk *walk)
{
	struct socket_walk **end = &all->walks.first;

	while (*end)
		end = &(*end)->next;
	*end = walk;
	walk->next = NULL;
}

static void run(struct message *message)
{
	struct websockets *all = CONTAINER_OF(message, struct websockets, walks.message);
	unsigned left = WALK_SOCKETS;

	all->walks.is_posted = false;
	while (all->walks.first && left > 0) {
		struct socket_walk *walk = all->walks.first;
		left = visit_some(walk, left); /* in its place: sockets that end look for it */
		left -= left > 0;              /* one of no sockets is work, too */
		all->walks.first = walk->next;
		if (walk->at)
			put_last(all, walk);
		else
			walk->done(walk);
	}
}

void walk_begin(struct socket_walk *walk, struct worker *worker)
{
	walk->at = websockets_of(worker)->first;
	put_last(websockets_of(worker), walk);
}

void walk_pass_over(struct websockets *all, const struct websocket *socket)
{
	for (struct socket_walk *walk = all->walks.first; walk; walk = walk->next)
		if (walk->at == socket)
			walk->at = socket->links.next;
}

void walk_end_turn(struct worker *worker)
{
	struct websockets *all = websockets_of(worker);

	if (!all->walks.first || all->walks.is_posted)
		return;
	all->walks.is_posted = true;
	all->walks.message.run = run;
	message_post(&worker->loop, &all->walks.message);
}
