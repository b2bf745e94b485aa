#include "upstream/server_pool.h"

#include <stdlib.h>

#include "base/list.h"
#include "upstream/server_inside.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

/* Between two connections that are made before they are needed. */
#define AHEAD_MS 1000

static pthread_mutex_t *lock_of(const struct server_state *server)
{
	return &server->upstream->connections_lock;
}

static struct server_idle *list_at(
	const struct server_state *server, unsigned slot, unsigned worker)
{
	return &server->idle[slot * server->workers + worker];
}

static struct server_idle *list_of(
	const struct server_state *server, unsigned slot, const struct worker *worker)
{
	return list_at(server, slot, worker->index);
}

/* Are the worker's lists under the lock? Only the worker writes it, so it may read it without. */
static bool is_shared(const struct server_state *server, unsigned worker)
{
	return list_at(server, 0, worker)->shared;
}

static void lock_lists(const struct server_state *server, const struct worker *worker)
{
	if (is_shared(server, worker->index))
		pthread_mutex_lock(lock_of(server));
}

static void unlock_lists(const struct server_state *server, const struct worker *worker)
{
	if (is_shared(server, worker->index))
		pthread_mutex_unlock(lock_of(server));
}

static struct server_idle *list_with(const struct server_connection *connection)
{
	return list_of(connection->known, connection->slot, connection->worker);
}

/* With the lock: the one of the worker's lists that has most. */
static struct server_idle *longest_list(
	const struct server_state *server, const struct worker *worker)
{
	struct server_idle *longest = list_of(server, 0, worker);

	for (unsigned slot = 1; slot < server->slots; slot++) {
		struct server_idle *list = list_of(server, slot, worker);
		if (list->count > longest->count)
			longest = list;
	}
	return longest;
}

static void unlink_idle(struct server_idle *list, struct server_connection *connection)
{
	LIST_REMOVE(list->first, list->last, connection, prev, next);
	connection->prev = connection->next = NULL;
	connection->is_listed = false;
	if (connection->places_used == 0)
		list->count--;
}

/* With the lock: the idle one that was used longest ago. */
static struct server_connection *oldest_idle(const struct server_idle *list)
{
	return list->count > 0 ? list->last : NULL;
}

/* The idle one that was used last. */
static struct server_connection *newest_idle(const struct server_idle *list)
{
	struct server_connection *connection = list->count > 0 ? list->first : NULL;

	while (connection && connection->places_used > 0)
		connection = connection->next;
	return connection;
}

/* seq_cst: see note_free. */
static bool is_below_bound(const struct server_state *server)
{
	uint32_t bound = atomic_load_explicit(&server->max_connections, memory_order_relaxed);

	return bound == 0 || atomic_load(&server->connections) < bound;
}

/* A reload has lowered the bound, and this connection is one of those too many: it counts no more.
 * Of workers that ask at once, as many get true as there are connections too many. */
static bool is_one_too_many(struct server_state *server, struct server_connection *connection)
{
	/* relaxed, all: no other thread reads anything by it, and none waits for less than the
	 * bound */
	uint32_t bound = atomic_load_explicit(&server->max_connections, memory_order_relaxed);
	uint32_t count = atomic_load_explicit(&server->connections, memory_order_relaxed);

	while (bound > 0 && count > bound)
		if (atomic_compare_exchange_weak_explicit(&server->connections, &count, count - 1,
			    memory_order_relaxed, memory_order_relaxed)) {
			connection->counts = false;
			return true;
		}
	return false;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* An exchange in line; from when it is woken until its worker learns of it, on that worker's list
 * of those woken, and its exchange may be gone meanwhile. */
struct connection_waiter {
	struct connection_waiter *prev, *next;
	struct worker *worker;
	struct pool_line *line; /* NULL: it has left since it was woken; its worker's to change */
	void (*go_on)(struct pool_line *line);
	const struct upstream *upstream;
	uint64_t number;     /* the line is in their order */
	uint64_t servers;    /* of the upstream */
	bool has_connection; /* waits for a place only */
	bool is_woken;
};

/* Is it one of the servers that are waited for? With the lock. */
static bool waits_for(const struct connection_waiter *waiter, const struct server_state *server)
{
	const struct upstream *upstream = waiter->upstream;

	for (size_t i = 0; i < upstream->server_count; i++) {
		if (waiter->servers >> i & 1 && upstream->servers[i].state == server)
			return true;
	}
	return false;
}

/* By its number: at the end, unless it comes back into line. */
static void link_waiter(
	struct upstream_state *upstream, struct connection_waiter *waiter, uint64_t number)
{
	struct connection_waiter *behind = NULL, *last = upstream->last_waiter;

	for (; last && last->number > number; last = last->prev)
		behind = last;
	waiter->number = number;
	LIST_INSERT(upstream->first_waiter, upstream->last_waiter, waiter, behind, prev, next);
	/* seq_cst: see note_free */
	atomic_fetch_add(&upstream->waiting, 1);
}

static void unlink_waiter(struct upstream_state *upstream, struct connection_waiter *waiter)
{
	LIST_REMOVE(upstream->first_waiter, upstream->last_waiter, waiter, prev, next);
	/* seq_cst: see pool_forget */
	atomic_fetch_sub(&upstream->waiting, 1);
}

/* With the lock: out of line, to be woken. */
static void take_out(struct upstream_state *upstream, struct connection_waiter *waiter)
{
	unlink_waiter(upstream, waiter);
	waiter->is_woken = true;
}

static void wake(struct connection_waiter *waiter)
{
	struct worker *worker = waiter->worker;

	waiter->next = atomic_load_explicit(&upstream_part(worker)->woken, memory_order_relaxed);
	/* release: pairs with the acquire in pool_run */
	while (!atomic_compare_exchange_weak_explicit(&upstream_part(worker)->woken, &waiter->next,
		waiter, memory_order_release, memory_order_relaxed))
		;
	worker_command(worker, WORKER_CONNECTIONS);
}

/* A connection to the server is free: the first that waits for it learns of it. False: none does.
 * */
static bool wake_one(struct upstream_state *upstream, const struct server_state *server)
{
	struct connection_waiter *waiter;

	pthread_mutex_lock(&upstream->connections_lock);
	for (waiter = upstream->first_waiter; waiter; waiter = waiter->next) {
		if (waits_for(waiter, server))
			break;
	}
	if (waiter)
		take_out(upstream, waiter);
	pthread_mutex_unlock(&upstream->connections_lock);
	if (waiter)
		wake(waiter);
	return waiter != NULL;
}

/* A connection can be had now that could not before. A waiter counts itself, then looks; a thread
 * that frees one frees it, then looks at the count (seq_cst both): one sees the other. */
static void note_free(struct server_state *server)
{
	if (atomic_load(&server->upstream->waiting) > 0)
		wake_one(server->upstream, server);
}

void pool_forget(struct server_state *server)
{
	atomic_fetch_sub(&server->connections, 1);
	note_free(server);
}

bool pool_has_waiters(const struct upstream_state *upstream)
{
	/* relaxed: one that comes just now may be before or behind us */
	return atomic_load_explicit(&upstream->waiting, memory_order_relaxed) > 0;
}

/* With the lock: could one more connection to it be had? */
static bool has_room(const struct server_state *server, const struct worker *worker)
{
	if (is_below_bound(server))
		return true;
	for (unsigned i = 0; i < server->slots * server->workers; i++) {
		unsigned w = i % server->workers;
		if (w == worker->index ? server->idle[i].first != NULL
				       : is_shared(server, w) && server->idle[i].count > 0)
			return true;
	}
	return false;
}

/* seq_cst: see server_done. */
static bool has_place(const struct server *server)
{
	uint32_t bound = server->conf->max_in_flight;

	return bound == 0 || atomic_load(&server->state->in_flight) < bound;
}

/* With the lock: does one before it wait for the server, too, and could have it? `room`: for one
 * without a connection. */
static bool is_behind(
	const struct connection_waiter *waiter, const struct server_state *server, bool room)
{
	const struct connection_waiter *before = waiter->prev;

	while (before && !((room || before->has_connection) && waits_for(before, server)))
		before = before->prev;
	return before != NULL;
}

/* With the lock: has one of the servers a place and a connection for it? What those before it wait
 * for is theirs: they have been woken, or will be. A place is not where they lack a connection. */
static bool is_free(const struct connection_waiter *waiter)
{
	const struct upstream *upstream = waiter->upstream;

	for (size_t i = 0; i < upstream->server_count; i++) {
		const struct server_state *server = upstream->servers[i].state;
		if (!(waiter->servers >> i & 1) || !has_place(&upstream->servers[i]))
			continue;
		bool room = has_room(server, waiter->worker);
		if ((room || waiter->has_connection) && !is_behind(waiter, server, room))
			return true;
	}
	return false;
}

enum pool_wait pool_wait(struct pool_line *line, struct worker *worker, const struct upstream *of,
	uint64_t servers, void (*go_on)(struct pool_line *line))
{
	struct upstream_state *upstream = of->state;
	struct connection_waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter)
		return POOL_NO_MEMORY;
	*waiter = (struct connection_waiter){.worker = worker,
		.line = line,
		.go_on = go_on,
		.upstream = of,
		.servers = servers,
		.has_connection = line->has_connection};
	pthread_mutex_lock(&upstream->connections_lock);
	if (line->number == 0)
		line->number = ++upstream->line_numbers;
	link_waiter(upstream, waiter, line->number);
	bool has_one = is_free(waiter);
	if (has_one)
		unlink_waiter(upstream, waiter);
	pthread_mutex_unlock(&upstream->connections_lock);
	if (has_one) {
		free(waiter);
		return POOL_HAS_ONE;
	}
	line->waiter = waiter;
	return POOL_WAITS;
}

uint64_t pool_waits_for(const struct pool_line *line)
{
	return line->waiter->servers;
}

void pool_pass_on(struct upstream_state *upstream)
{
	struct connection_waiter *waiter;

	if (atomic_load(&upstream->waiting) == 0)
		return;
	pthread_mutex_lock(&upstream->connections_lock);
	for (waiter = upstream->first_waiter; waiter && !is_free(waiter); waiter = waiter->next)
		;
	if (waiter)
		take_out(upstream, waiter);
	pthread_mutex_unlock(&upstream->connections_lock);
	if (waiter)
		wake(waiter);
}

void pool_leave(struct pool_line *line)
{
	struct connection_waiter *waiter = line->waiter;

	if (!waiter)
		return;
	struct upstream_state *upstream = waiter->upstream->state;
	line->waiter = NULL;
	pthread_mutex_lock(&upstream->connections_lock);
	bool is_woken = waiter->is_woken;
	if (!is_woken)
		unlink_waiter(upstream, waiter);
	pthread_mutex_unlock(&upstream->connections_lock);
	if (!is_woken) {
		free(waiter);
		return;
	}
	waiter->line = NULL;
	pool_pass_on(upstream);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* With the lock: an idle connection of another worker, off its list; to that address if there is
 * one. */
static struct server_connection *steal(
	struct server_state *server, unsigned slot, const struct worker *worker)
{
	for (unsigned i = 1, all = server->slots * server->workers; i < all; i++) {
		unsigned at = (slot * server->workers + worker->index + i) % all;
		bool is_others = at % server->workers != worker->index &&
				 is_shared(server, at % server->workers);
		struct server_connection *connection =
			is_others ? newest_idle(&server->idle[at]) : NULL;
		if (connection) {
			unlink_idle(&server->idle[at], connection);
			connection->is_taken = true;
			return connection;
		}
	}
	return NULL;
}

/* Its worker closes its copy. From then on the object is not ours. */
static void dismiss(struct server_connection *connection)
{
	struct worker *worker = connection->worker;

	connection->next =
		atomic_load_explicit(&upstream_part(worker)->taken, memory_order_relaxed);
	/* release: pairs with the acquire in pool_run */
	while (!atomic_compare_exchange_weak_explicit(&upstream_part(worker)->taken,
		&connection->next, connection, memory_order_release, memory_order_relaxed))
		;
	worker_command(worker, WORKER_CONNECTIONS);
}

/* Another worker's connection is the caller's, or what it counted as. */
static enum pool_outcome take_over(
	struct server_connection *stolen, bool fresh, struct pool_connection *connection)
{
	struct passed_connection *taken = &connection->taken;
	bool is_current =
		server_addresses_has(&stolen->known->addresses, stolen->slot, stolen->address_id);
	bool copied = !fresh && is_current && !stolen->has_places &&
		      stream_copy(&stolen->stream, &taken->stream);

	taken->requests = stolen->requests;
	taken->slot = stolen->slot;
	taken->address_id = stolen->address_id;
	taken->tls = stolen->tls;
	if (!copied)
		stream_cut(&stolen->stream); /* it ends now, not when its worker hears */
	dismiss(stolen);
	if (copied && stream_export_is_silent(&taken->stream))
		return POOL_TAKEN;
	if (copied)
		stream_export_close(&taken->stream);
	return POOL_NEW;
}

/* With the lock, at the bound: the connection to another address that serves the exchange as well.
 * NULL: its own address has so few that one of the others is closed for it; else addresses would
 * change with each exchange where there are fewer connections than these. */
static struct server_idle *other_list(
	const struct server_state *server, unsigned slot, const struct worker *worker)
{
	struct server_idle *longest = longest_list(server, worker);
	const struct server_idle *own = list_of(server, slot, worker);
	uint32_t at_own = atomic_load_explicit(&own->busy, memory_order_relaxed) + own->count;
	uint32_t there =
		atomic_load_explicit(&longest->busy, memory_order_relaxed) + longest->count;

	return at_own > 0 && there <= at_own + 1 ? longest : NULL;
}

/* With the lock: takes a place of one that offers more, and does so as long as some are left. */
static __attribute__((noinline)) void use_place(
	struct server_idle *list, struct server_connection *connection)
{
	if (connection->places_used + 1 >= connection->places)
		unlink_idle(list, connection);
	else if (connection->places_used == 0)
		list->count--;
	connection->places_used++;
}

static struct server_connection *take_first(struct server_idle *list)
{
	struct server_connection *first = list->first;

	if (first && first->has_places)
		use_place(list, first);
	else if (first)
		unlink_idle(list, first);
	return first;
}

static enum pool_outcome take_bounded(struct worker *worker, struct server *server, unsigned slot,
	bool fresh, struct pool_connection *connection)
{
	struct server_state *state = server->state;
	struct server_idle *own = list_of(state, slot, worker), *other;
	struct server_connection *stolen = NULL, *ended = NULL;
	enum pool_outcome outcome = POOL_FULL;

	pthread_mutex_lock(lock_of(state));
	list_of(state, 0, worker)->shared = true;
	if (own->first && !fresh) {
		connection->idle = take_first(own);
		outcome = POOL_IDLE;
	} else if (is_below_bound(state)) {
		atomic_fetch_add(&state->connections, 1);
		outcome = POOL_NEW;
	} else if (!fresh && (other = other_list(state, slot, worker)) != NULL && other->first) {
		connection->idle = take_first(other);
		outcome = POOL_IDLE;
	} else if ((ended = oldest_idle(longest_list(state, worker))) != NULL) {
		unlink_idle(list_with(ended), ended);
		outcome = POOL_NEW;
	} else {
		stolen = steal(state, slot, worker);
	}
	pthread_mutex_unlock(lock_of(state));
	if (ended) {
		ended->counts = false; /* the new one counts for it */
		server_connection_close_unlisted(ended);
	}
	return stolen ? take_over(stolen, fresh, connection) : outcome;
}

enum pool_outcome pool_take(struct worker *worker, struct server *server, unsigned slot, bool fresh,
	struct pool_connection *connection)
{
	struct server_idle *list = list_of(server->state, slot, worker);

	/* relaxed: a setting */
	if (atomic_load_explicit(&server->state->max_connections, memory_order_relaxed) > 0)
		return take_bounded(worker, server, slot, fresh, connection);
	lock_lists(server->state, worker);
	connection->idle = fresh ? NULL : take_first(list);
	unlock_lists(server->state, worker);
	if (connection->idle)
		return POOL_IDLE;
	/* relaxed: a count; nothing is read by it */
	atomic_fetch_add_explicit(&server->state->connections, 1, memory_order_relaxed);
	return POOL_NEW;
}

/* ---- use ------------------------------------------------------------------------------------- */

/* The peaks are those of now. */
static void roll_peaks(struct server_idle *list, uint32_t busy, uint64_t now_ms)
{
	uint64_t period = now_ms / POOL_PERIOD_MS;

	if (list->period == period)
		return;
	list->peaks[1] = list->period + 1 == period ? list->peaks[0] : busy;
	list->peaks[0] = busy;
	list->period = period;
}

static void set_busy(struct server_connection *connection, bool is_busy)
{
	struct server_idle *list = list_with(connection);
	uint32_t busy = atomic_load_explicit(&list->busy, memory_order_relaxed);

	roll_peaks(list, busy, worker_now_ms(connection->worker));
	busy = is_busy ? busy + 1 : busy - 1;
	atomic_store_explicit(&list->busy, busy, memory_order_relaxed);
	if (busy > list->peaks[0])
		list->peaks[0] = busy;
	connection->is_busy = is_busy;
}

void pool_note_busy(struct server_connection *connection)
{
	set_busy(connection, true);
}

void pool_note_done(struct server_connection *connection)
{
	if (connection->is_busy)
		set_busy(connection, false);
}

uint32_t pool_busy(const struct server_state *server, unsigned slot)
{
	uint32_t busy = 0;

	for (unsigned i = 0; i < server->workers; i++)
		busy += atomic_load_explicit(&list_at(server, slot, i)->busy, memory_order_relaxed);
	return busy;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* With the lock. How many the worker has idle. */
static uint32_t count_idle(const struct server_state *server, const struct worker *worker)
{
	uint32_t count = 0;

	for (unsigned slot = 0; slot < server->slots; slot++)
		count += list_of(server, slot, worker)->count;
	return count;
}

/* With the lock. Has the address more connections than it had in use at once lately? */
static bool has_surplus(const struct server_idle *list)
{
	uint32_t peak = list->peaks[0] > list->peaks[1] ? list->peaks[0] : list->peaks[1];

	return list->count + atomic_load_explicit(&list->busy, memory_order_relaxed) > peak;
}

bool pool_keep(
	struct server_connection *connection, uint32_t most, struct server_connection **surplus)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_with(connection);

	*surplus = NULL;
	if (is_one_too_many(server, connection))
		return false;
	pool_note_done(connection);
	lock_lists(server, connection->worker);
	LIST_INSERT(list->first, list->last, connection, newest_idle(list), prev, next);
	list->count++;
	if (count_idle(server, connection->worker) > most)
		*surplus = oldest_idle(longest_list(server, connection->worker));
	else if (has_surplus(list))
		*surplus = oldest_idle(list);
	if (*surplus)
		unlink_idle(list_with(*surplus), *surplus);
	unlock_lists(server, connection->worker);
	if (is_shared(server, connection->worker->index))
		note_free(server);
	return true;
}

bool pool_remove(struct server_connection *connection)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_with(connection);
	bool was_ours;

	lock_lists(server, connection->worker);
	was_ours = !connection->is_taken;
	if (was_ours)
		unlink_idle(list, connection);
	unlock_lists(server, connection->worker);
	return was_ours;
}

struct server_connection *pool_pop_oldest(struct server_state *server, struct worker *worker)
{
	lock_lists(server, worker);
	struct server_connection *connection = oldest_idle(longest_list(server, worker));
	if (connection)
		unlink_idle(list_with(connection), connection);
	unlock_lists(server, worker);
	return connection;
}

/* One to an address that has left, off its list. */
static struct server_connection *pop_left(
	struct server_state *server, unsigned slot, const struct worker *worker)
{
	struct server_idle *list = list_of(server, slot, worker);
	struct server_connection *connection;

	lock_lists(server, worker);
	for (connection = list->first; connection; connection = connection->next) {
		if (!server_addresses_has(
			    &server->addresses, connection->slot, connection->address_id))
			break;
	}
	if (connection)
		unlink_idle(list, connection);
	unlock_lists(server, worker);
	return connection;
}

void pool_close_left(struct server_state *server, struct worker *worker)
{
	struct server_connection *connection;

	for (unsigned slot = 0; slot < server->slots; slot++) {
		while ((connection = pop_left(server, slot, worker)) != NULL)
			server_connection_let_go(connection);
	}
}

void pool_each(const struct server_state *server, const struct worker *worker,
	void (*visit)(void *ctx, const struct server_connection *connection), void *ctx)
{
	lock_lists(server, worker);
	for (unsigned slot = 0; slot < server->slots; slot++) {
		for (const struct server_connection *connection =
				list_of(server, slot, worker)->first;
			connection; connection = connection->next)
			visit(ctx, connection);
	}
	unlock_lists(server, worker);
}

uint32_t pool_count(const struct server_state *server, const struct worker *worker)
{
	lock_lists(server, worker);
	uint32_t count = count_idle(server, worker);
	unlock_lists(server, worker);
	return count;
}

void pool_set_bound(struct server_state *server, uint32_t max_connections)
{
	uint32_t open = atomic_load(&server->connections), room = UINT32_MAX;

	if (max_connections > 0)
		room = max_connections > open ? max_connections - open : 0;
	/* relaxed: a setting; who waits by the old one is woken behind it */
	atomic_store_explicit(&server->max_connections, max_connections, memory_order_relaxed);
	while (room-- > 0 && wake_one(server->upstream, server))
		;
}

/* The oldest that this worker has idle, where there are more connections than the bound. */
static struct server_connection *pop_one_too_many(
	struct server_state *server, struct worker *worker)
{
	lock_lists(server, worker);
	struct server_connection *connection = oldest_idle(longest_list(server, worker));
	if (connection && is_one_too_many(server, connection))
		unlink_idle(list_with(connection), connection);
	else
		connection = NULL;
	unlock_lists(server, worker);
	return connection;
}

void pool_share(struct server_state *server, struct worker *worker)
{
	struct server_connection *connection;

	/* relaxed: a setting, and this site's or a later one's */
	if (atomic_load_explicit(&server->max_connections, memory_order_relaxed) == 0)
		return;
	pthread_mutex_lock(lock_of(server));
	list_of(server, 0, worker)->shared = true;
	pthread_mutex_unlock(lock_of(server));
	while ((connection = pop_one_too_many(server, worker)) != NULL)
		server_connection_close_unlisted(connection);
	for (uint32_t n = pool_count(server, worker); n > 0 && wake_one(server->upstream, server);
		n--)
		;
}

/* ---- connections with many places ------------------------------------------------------------ */

/* With the lock: where it belongs now, if anywhere. */
static void relist(struct server_idle *list, struct server_connection *connection)
{
	struct server_connection *before = list->first;

	connection->is_listed =
		!connection->is_retired && connection->places_used < connection->places;
	if (!connection->is_listed)
		return;
	if (connection->places_used == 0) {
		before = newest_idle(list);
		list->count++;
	}
	LIST_INSERT(list->first, list->last, connection, before, prev, next);
}

/* Wakes the first of this worker that waits for the server: the connection is of no use to others.
 */
static void wake_own(struct server_connection *connection)
{
	struct upstream_state *upstream = connection->known->upstream;
	struct connection_waiter *waiter;

	pthread_mutex_lock(&upstream->connections_lock);
	for (waiter = upstream->first_waiter; waiter; waiter = waiter->next) {
		if (waiter->worker == connection->worker && waits_for(waiter, connection->known))
			break;
	}
	if (waiter)
		take_out(upstream, waiter);
	pthread_mutex_unlock(&upstream->connections_lock);
	if (waiter)
		wake(waiter);
}

bool pool_set_places(struct server_connection *connection, uint32_t places)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_with(connection);

	lock_lists(server, connection->worker);
	bool is_ours = !connection->is_taken;
	if (connection->is_listed)
		unlink_idle(list, connection);
	connection->places = places;
	if (is_ours)
		relist(list, connection);
	bool is_listed = connection->is_listed;
	unlock_lists(server, connection->worker);
	if (is_listed && pool_has_waiters(server->upstream))
		wake_own(connection);
	return is_ours;
}

void pool_retire(struct server_connection *connection)
{
	connection->is_retired = true;
	pool_set_places(connection, 0);
}

/* The first that waits for the server, if it is another worker's. With the lock. */
static const struct connection_waiter *foreign_waiter(const struct server_connection *connection)
{
	const struct upstream_state *upstream = connection->known->upstream;
	const struct connection_waiter *waiter = upstream->first_waiter;

	while (waiter && (waiter->has_connection || !waits_for(waiter, connection->known)))
		waiter = waiter->next;
	return waiter && waiter->worker != connection->worker ? waiter : NULL;
}

/* Where the server has no connection left for another worker, whose exchange is the first in line,
 * this one ends for it: its places alone would never be free at once. */
static bool must_yield(struct server_connection *connection)
{
	struct server_idle *list = list_at(connection->known, 0, connection->worker->index);

	if (list->yields || is_below_bound(connection->known))
		return false;
	pthread_mutex_lock(lock_of(connection->known));
	connection->yields = list->yields = foreign_waiter(connection) != NULL;
	pthread_mutex_unlock(lock_of(connection->known));
	return connection->yields;
}

void pool_give_place(struct server_connection *connection, uint32_t most)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_with(connection);

	lock_lists(server, connection->worker);
	if (connection->is_listed)
		unlink_idle(list, connection);
	connection->places_used--;
	bool is_idle = connection->places_used == 0;
	if (is_idle && (is_one_too_many(server, connection) ||
			       count_idle(server, connection->worker) >= most))
		connection->is_retired = true;
	relist(list, connection);
	bool is_listed = connection->is_listed;
	unlock_lists(server, connection->worker);
	/* seq_cst: see note_free */
	if (!is_listed || atomic_load(&server->upstream->waiting) == 0)
		return;
	if (is_idle)
		note_free(server);
	else if (must_yield(connection))
		pool_retire(connection);
	else
		wake_own(connection);
}

bool pool_may_open_ahead(struct server_connection *connection)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_with(connection);
	uint64_t now_ms = worker_now_ms(connection->worker);

	/* The last quarter is in use. */
	if (connection->places_used * 4 < connection->places * 3 || now_ms < list->ahead_ms)
		return false;
	lock_lists(server, connection->worker);
	bool is_last = !list->first || (list->first == connection && !connection->next);
	bool may_open = is_last && is_below_bound(server);
	if (may_open)
		atomic_fetch_add(&server->connections, 1);
	unlock_lists(server, connection->worker);
	if (may_open)
		list->ahead_ms = now_ms + AHEAD_MS;
	return may_open;
}

void pool_note_ended(struct server_connection *connection)
{
	if (connection->yields)
		list_at(connection->known, 0, connection->worker->index)->yields = false;
}

/* ---- of other threads ------------------------------------------------------------------------ */

static void close_taken(struct worker *worker)
{
	/* acquire: pairs with the release in dismiss */
	struct server_connection *connection =
		atomic_exchange_explicit(&upstream_part(worker)->taken, NULL, memory_order_acquire);

	while (connection) {
		struct server_connection *next = connection->next;
		connection->next = NULL;
		connection->counts = false; /* for the one that took it */
		server_connection_close_unlisted(connection);
		connection = next;
	}
}

/* They came last first. */
static struct connection_waiter *woken_in_order(struct worker *worker)
{
	/* acquire: pairs with the release in wake_one */
	struct connection_waiter *last =
		atomic_exchange_explicit(&upstream_part(worker)->woken, NULL, memory_order_acquire);
	struct connection_waiter *first = NULL;

	while (last) {
		struct connection_waiter *next = last->next;
		last->next = first;
		first = last;
		last = next;
	}
	return first;
}

void pool_run(struct worker *worker)
{
	struct connection_waiter *waiter, *next;

	close_taken(worker);
	for (waiter = woken_in_order(worker); waiter; waiter = next) {
		struct connection_waiter woken = *waiter;
		next = woken.next;
		free(waiter);
		if (!woken.line)
			continue;
		woken.line->waiter = NULL;
		woken.go_on(woken.line);
	}
}

void pool_end(struct worker *worker)
{
	struct connection_waiter *waiter, *next;

	close_taken(worker);
	spare_clear(&upstream_part(worker)->places);
	for (waiter = woken_in_order(worker); waiter; waiter = next) {
		next = waiter->next;
		free(waiter);
	}
}
