/*
 * The floor of the bench: a relay that knows nothing of HTTP.
 *
 *	client <-> [front side | back side] <-> origin
 *
 * Each client connection has an upstream connection of its own and bytes are copied both ways. Both
 *sockets are registered once, edge-triggered, and a short read is taken to mean that nothing more
 *is there (epoll(7)), so a request costs two reads and two writes beside its share of an
 *epoll_wait: what no proxy that copies through user space can go below. No splice, no HTTP, no
 *timers, no limits.
 */
#include "tests/bench/sockets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024, EVENTS = 512 };

struct pair;

/* One of a pair's two sockets, and the bytes that it has not taken yet. */
struct side {
	struct pair *pair;
	struct side *peer;
	int fd;
	bool readable;  /* there may be something to read: an edge was seen and no short read since
			 */
	bool ending;    /* the peer has ended: no further edge will come, read on until 0 */
	bool ended;     /* read to its end */
	bool shut;      /* its writing half is closed */
	size_t waiting; /* bytes in `held` from `held_at` */
	size_t held_at;
	char *held; /* READ_BYTES, only while a write was short */
};

struct pair {
	struct side front;
	struct side back;
	bool broken;
	struct pair *next_dead;
};

struct relay {
	int epoll;
	int listener;
	struct sockaddr_in upstream;
	struct pair *dead; /* freed at the end of the turn: later events of it may name a pair */
	char scratch[READ_BYTES];
};

static void watch(int epoll, struct side *side)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = side};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, side->fd, &event) != 0)
		sockets_die("epoll_ctl");
}

static void side_init(struct side *side, struct pair *pair, struct side *peer, int fd)
{
	side->pair = pair;
	side->peer = peer;
	side->fd = fd;
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK;
}

static void open_pair(struct relay *relay, int client)
{
	bool connecting = false;
	int server = sockets_connect(&relay->upstream, &connecting);

	if (server < 0) {
		close(client);
		return;
	}
	struct pair *pair = calloc(1, sizeof *pair);
	if (pair == NULL)
		sockets_die("calloc");
	side_init(&pair->front, pair, &pair->back, client);
	side_init(&pair->back, pair, &pair->front, server);
	watch(relay->epoll, &pair->front);
	watch(relay->epoll, &pair->back);
}

static void break_pair(struct relay *relay, struct pair *pair)
{
	if (pair->broken)
		return;
	pair->broken = true;
	close(pair->front.fd);
	close(pair->back.fd);
	free(pair->front.held);
	free(pair->back.held);
	pair->next_dead = relay->dead;
	relay->dead = pair;
}

/* Keeps what a short write left over. Only ever one read's worth: nothing is read while something
 * waits. */
static void hold(struct side *side, const char *bytes, size_t length)
{
	if (side->held == NULL && (side->held = malloc(READ_BYTES)) == NULL)
		sockets_die("malloc");
	memcpy(side->held, bytes, length);
	side->held_at = 0;
	side->waiting = length;
}

/* Writes what waits for this side. Returns false on a broken connection. */
static bool flush(struct side *side)
{
	while (side->waiting > 0) {
		ssize_t n = write(side->fd, side->held + side->held_at, side->waiting);
		if (n < 0)
			return would_block();
		side->held_at += (size_t)n;
		side->waiting -= (size_t)n;
	}
	return true;
}

/* Copies from one side to the other until a read or a write comes up short. Returns false when
 * either broke. */
static bool copy(struct relay *relay, struct side *from)
{
	struct side *to = from->peer;

	while (from->readable && !from->ended && to->waiting == 0) {
		ssize_t n = read(from->fd, relay->scratch, READ_BYTES);
		if (n < 0) {
			from->readable = false;
			return would_block() || errno == ENOTCONN;
		}
		if (n == 0) {
			from->ended = true;
			break;
		}
		if (n < READ_BYTES)
			from->readable = from->ending;
		ssize_t sent = write(to->fd, relay->scratch, (size_t)n);
		if (sent < 0 && !would_block())
			return false;
		if (sent < n)
			hold(to, relay->scratch + (sent < 0 ? 0 : sent),
				(size_t)(n - (sent < 0 ? 0 : sent)));
	}
	if (from->ended && to->waiting == 0 && !to->shut) {
		to->shut = true;
		shutdown(to->fd, SHUT_WR);
	}
	return true;
}

static void serve(struct relay *relay, struct side *side, uint32_t events)
{
	struct pair *pair = side->pair;

	if (pair->broken)
		return;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		side->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP))
		side->ending = true;
	if ((events & EPOLLERR) || !flush(side) || !copy(relay, side) ||
		(side->waiting == 0 && side->peer->readable && !copy(relay, side->peer)) ||
		(side->shut && side->peer->shut))
		break_pair(relay, pair);
}

static void accept_all(struct relay *relay)
{
	int client;

	while ((client = sockets_accept(relay->listener)) >= 0)
		open_pair(relay, client);
}

static void bury_dead(struct relay *relay)
{
	while (relay->dead != NULL) {
		struct pair *pair = relay->dead;
		relay->dead = pair->next_dead;
		free(pair);
	}
}

static _Noreturn void run(struct relay *relay)
{
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(relay->epoll, events, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == NULL)
				accept_all(relay);
			else
				serve(relay, events[i].data.ptr, events[i].events);
		}
		bury_dead(relay);
	}
}

int main(int argc, char **argv)
{
	static struct relay relay;
	struct sockaddr_in address;

	if (argc != 3 || !sockets_parse(argv[1], &address) ||
		!sockets_parse(argv[2], &relay.upstream)) {
		fprintf(stderr, "usage: %s [HOST:]PORT [HOST:]UPSTREAM-PORT\n", argv[0]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	sockets_raise_file_limit();
	relay.listener = sockets_listen(&address);
	relay.epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	if (relay.epoll < 0 || epoll_ctl(relay.epoll, EPOLL_CTL_ADD, relay.listener, &event) != 0)
		sockets_die("epoll");
	run(&relay);
}
