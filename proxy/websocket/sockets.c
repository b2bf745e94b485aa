#include "websocket/sockets.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/container.h"
#include "base/random.h"
#include "websocket/send_queue.h"
#include "websocket/state.h"
#include "site/site_use.h"

#define WORKER_SHIFT 40
#define HALF_DIGITS  (SOCKET_ID_BITS / 4)

_Static_assert(2 * HALF_DIGITS + 1 == SOCKET_ID_BYTES, "the digits of both halves, and a NUL");

struct websockets *websockets_new(void)
{
	struct websockets *all = calloc(1, sizeof(*all));

	if (!all || getentropy(&all->random, sizeof(all->random)) != 0 ||
		!hash_table_begin(&all->by_id)) {
		free(all);
		return NULL;
	}
	frame_pool_init(&all->frames);
	return all;
}

void websockets_free(struct websockets *all)
{
	if (!all)
		return;
	frame_pool_clear(&all->frames);
	hash_table_end(&all->by_id);
	free(all);
}

/* ---- names ----------------------------------------------------------------------------------- */

void socket_id_text(uint64_t process, uint64_t id, char text[static SOCKET_ID_BYTES])
{
	snprintf(text, SOCKET_ID_BYTES, "%0*llx%0*llx", HALF_DIGITS, (unsigned long long)process,
		HALF_DIGITS, (unsigned long long)id);
}

/* Only as they are written. */
static bool read_digits(const char *at, uint64_t *number)
{
	*number = 0;
	for (unsigned i = 0; i < HALF_DIGITS; i++) {
		if (!isxdigit((unsigned char)at[i]) || isupper((unsigned char)at[i]))
			return false;
		*number = *number << 4 | (uint64_t)(at[i] <= '9' ? at[i] - '0' : at[i] - 'a' + 10);
	}
	return true;
}

bool socket_id_read(struct slice text, uint64_t process, uint64_t *id)
{
	uint64_t by;

	return text.len == SOCKET_ID_BYTES - 1 && read_digits(text.at, &by) && by == process &&
	       read_digits(text.at + HALF_DIGITS, id);
}

unsigned socket_id_worker(uint64_t id)
{
	return (unsigned)(id >> WORKER_SHIFT);
}

void websockets_add(struct websockets *all, struct websocket *socket, unsigned worker)
{
	socket->id = (uint64_t)worker << WORKER_SHIFT |
		     (++all->begun & ((UINT64_C(1) << WORKER_SHIFT) - 1));
	hash_table_add(&all->by_id, &socket->links.by_id, socket->id); /* begun: it cannot fail */
	socket->links.next = all->first;
	if (socket->links.next)
		socket->links.next->links.prev = socket;
	all->first = socket;
	all->count++;
}

/* A request that waits for a socket's end. */
struct socket_watch {
	struct socket_watch *next;
	struct send_report *report;
};

bool socket_report_end(struct websocket *socket, struct send_report *report)
{
	struct socket_watch *watch = malloc(sizeof(*watch));

	if (!watch)
		return false;
	*watch = (struct socket_watch){socket->watches, report};
	socket->watches = watch;
	return true;
}

static void report_end(struct websocket *socket)
{
	while (socket->watches) {
		struct socket_watch *watch = socket->watches;
		socket->watches = watch->next;
		watch->report->tell(watch->report, SEND_GONE);
		free(watch);
	}
}

void websockets_remove(struct websockets *all, struct websocket *socket)
{
	walk_pass_over(all, socket);
	hash_table_remove(&all->by_id, &socket->links.by_id);
	if (socket->links.prev)
		socket->links.prev->links.next = socket->links.next;
	else
		all->first = socket->links.next;
	if (socket->links.next)
		socket->links.next->links.prev = socket->links.prev;
	all->count--;
	report_end(socket);
}

struct websocket *websockets_find(struct websockets *all, uint64_t id)
{
	struct hash_link *link = hash_table_first(&all->by_id, id);

	return link ? CONTAINER_OF(link, struct websocket, links.by_id) : NULL;
}

uint64_t websockets_random_below(struct websockets *all, uint64_t bound)
{
	return random_below(&all->random, bound);
}

/* ---- walk ----------------------------------------------------------------------------------- */

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

/* ---- shared listener ------------------------------------------------------------------------ */

struct shared_listener *shared_listener_hold(
	struct shared_listener **all, const struct conf_listener *conf, struct site_use *use)
{
	struct shared_listener *shared = *all;

	while (shared && (shared->listener.conf != conf || shared->listener.use != use))
		shared = shared->next;
	if (!shared) {
		shared = calloc(1, sizeof(*shared));
		if (!shared)
			return NULL;
		shared->listener.conf = conf;
		shared->listener.use = site_use_hold(use);
		shared->next = *all;
		*all = shared;
	}
	shared->holders++;
	return shared;
}

void shared_listener_release(struct shared_listener **all, struct shared_listener *shared)
{
	if (!shared || --shared->holders > 0)
		return;
	while (*all != shared)
		all = &(*all)->next;
	*all = shared->next;
	site_use_release(shared->listener.use);
	free(shared);
}
