#include "upstream/server_pool.h"

#include <stdlib.h>

#include "upstream/server_inside.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

static pthread_mutex_t *lock_of(const struct server_state *server)
{
	return &server->upstream->connections_lock;
}

static struct server_idle *list_of(const struct server_state *server, const struct worker *worker)
{
	return &server->idle[worker->index];
}

/* Only the list's worker writes `shared`, so it may read it without the lock. */
static void lock_list(const struct server_state *server, const struct server_idle *list)
{
	if (list->shared)
		pthread_mutex_lock(lock_of(server));
}

static void unlock_list(const struct server_state *server, const struct server_idle *list)
{
	if (list->shared)
		pthread_mutex_unlock(lock_of(server));
}

static void unlink_idle(struct server_idle *list, struct server_connection *connection)
{
	if (connection->prev)
		connection->prev->next = connection->next;
	else
		list->first = connection->next;
	if (connection->next)
		connection->next->prev = connection->prev;
	else
		list->last = connection->prev;
	connection->prev = connection->next = NULL;
	list->count--;
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
	struct connection_waiter *before = upstream->last_waiter;

	while (before && before->number > number)
		before = before->prev;
	waiter->number = number;
	waiter->prev = before;
	waiter->next = before ? before->next : upstream->first_waiter;
	if (waiter->prev)
		waiter->prev->next = waiter;
	else
		upstream->first_waiter = waiter;
	if (waiter->next)
		waiter->next->prev = waiter;
	else
		upstream->last_waiter = waiter;
	/* seq_cst: see note_free */
	atomic_fetch_add(&upstream->waiting, 1);
}

static void unlink_waiter(struct upstream_state *upstream, struct connection_waiter *waiter)
{
	if (waiter->prev)
		waiter->prev->next = waiter->next;
	else
		upstream->first_waiter = waiter->next;
	if (waiter->next)
		waiter->next->prev = waiter->prev;
	else
		upstream->last_waiter = waiter->prev;
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

	waiter->next = atomic_load_explicit(&worker->inbox.woken, memory_order_relaxed);
	/* release: pairs with the acquire in pool_run */
	while (!atomic_compare_exchange_weak_explicit(&worker->inbox.woken, &waiter->next, waiter,
		memory_order_release, memory_order_relaxed))
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
	for (unsigned w = 0; w < server->workers; w++) {
		const struct server_idle *list = &server->idle[w];
		if ((w == worker->index || list->shared) && list->first)
			return true;
	}
	return false;
}

/* seq_cst: see pool_note_place. */
static bool has_place(const struct server *server)
{
	uint32_t bound = server->conf->max_in_flight;

	return bound == 0 || atomic_load(&server->state->in_flight) < bound;
}

/* With the lock: has one of the servers a place and a connection for it? What those before it wait
 * for is theirs: they have been woken, or will be. */
static bool is_free(const struct connection_waiter *waiter)
{
	const struct upstream *upstream = waiter->upstream;

	for (size_t i = 0; i < upstream->server_count; i++) {
		const struct server_state *server = upstream->servers[i].state;
		const struct connection_waiter *before = waiter->prev;
		if (!(waiter->servers >> i & 1) || !has_place(&upstream->servers[i]) ||
			!(waiter->has_connection || has_room(server, waiter->worker)))
			continue;
		while (before && !waits_for(before, server))
			before = before->prev;
		if (!before)
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

/* A waiter counts itself, then looks for a place; a thread that gives one back does so, then looks
 * at the count (seq_cst both): one sees the other. */
void pool_note_place(const struct server_state *server)
{
	pool_pass_on(server->upstream);
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

/* With the lock: an idle connection of another worker, off its list. */
static struct server_connection *steal(struct server_state *server, const struct worker *worker)
{
	for (unsigned i = 1; i < server->workers; i++) {
		struct server_idle *list = &server->idle[(worker->index + i) % server->workers];
		struct server_connection *connection = list->shared ? list->first : NULL;
		if (connection) {
			unlink_idle(list, connection);
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

	connection->next = atomic_load_explicit(&worker->inbox.taken, memory_order_relaxed);
	/* release: pairs with the acquire in pool_run */
	while (!atomic_compare_exchange_weak_explicit(&worker->inbox.taken, &connection->next,
		connection, memory_order_release, memory_order_relaxed))
		;
	worker_command(worker, WORKER_CONNECTIONS);
}

/* Another worker's connection is the caller's, or what it counted as. */
static enum pool_outcome take_over(
	struct server_connection *stolen, bool fresh, struct pool_connection *connection)
{
	bool copied = !fresh && stream_copy(&stolen->stream, &connection->taken);

	connection->requests = stolen->requests;
	if (!copied)
		stream_cut(&stolen->stream); /* it ends now, not when its worker hears */
	dismiss(stolen);
	if (copied && stream_export_is_silent(&connection->taken))
		return POOL_TAKEN;
	if (copied)
		stream_export_close(&connection->taken);
	return POOL_NEW;
}

static enum pool_outcome take_bounded(struct worker *worker, struct server *server, bool fresh,
	struct pool_connection *connection)
{
	struct server_state *state = server->state;
	struct server_idle *own = list_of(state, worker);
	struct server_connection *stolen = NULL, *ended = NULL;
	enum pool_outcome outcome = POOL_FULL;

	pthread_mutex_lock(lock_of(state));
	own->shared = true;
	if (own->first && !fresh) {
		connection->idle = own->first;
		unlink_idle(own, own->first);
		outcome = POOL_IDLE;
	} else if (is_below_bound(state)) {
		atomic_fetch_add(&state->connections, 1);
		outcome = POOL_NEW;
	} else if (own->last) {
		ended = own->last;
		unlink_idle(own, ended);
		outcome = POOL_NEW;
	} else {
		stolen = steal(state, worker);
	}
	pthread_mutex_unlock(lock_of(state));
	if (ended) {
		ended->counts = false; /* the new one counts for it */
		server_connection_close_unlisted(ended);
	}
	return stolen ? take_over(stolen, fresh, connection) : outcome;
}

enum pool_outcome pool_take(struct worker *worker, struct server *server, bool fresh,
	struct pool_connection *connection)
{
	/* relaxed: a setting */
	if (atomic_load_explicit(&server->state->max_connections, memory_order_relaxed) > 0)
		return take_bounded(worker, server, fresh, connection);
	connection->idle = fresh ? NULL : pool_pop(server->state, worker, false);
	if (connection->idle)
		return POOL_IDLE;
	/* relaxed: a count; nothing is read by it */
	atomic_fetch_add_explicit(&server->state->connections, 1, memory_order_relaxed);
	return POOL_NEW;
}

/* ---- lists ----------------------------------------------------------------------------------- */

uint32_t pool_keep(struct server_connection *connection)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_of(server, connection->worker);
	uint32_t count;

	if (is_one_too_many(server, connection))
		return 0;
	lock_list(server, list);
	connection->prev = NULL;
	connection->next = list->first;
	if (list->first)
		list->first->prev = connection;
	else
		list->last = connection;
	list->first = connection;
	count = ++list->count;
	unlock_list(server, list);
	if (list->shared)
		note_free(server);
	return count;
}

bool pool_remove(struct server_connection *connection)
{
	struct server_state *server = connection->known;
	struct server_idle *list = list_of(server, connection->worker);
	bool was_ours;

	lock_list(server, list);
	was_ours = !connection->is_taken;
	if (was_ours)
		unlink_idle(list, connection);
	unlock_list(server, list);
	return was_ours;
}

struct server_connection *pool_pop(struct server_state *server, struct worker *worker, bool oldest)
{
	struct server_idle *list = list_of(server, worker);
	struct server_connection *connection;

	lock_list(server, list);
	connection = oldest ? list->last : list->first;
	if (connection)
		unlink_idle(list, connection);
	unlock_list(server, list);
	return connection;
}

void pool_each(const struct server_state *server, const struct worker *worker,
	void (*visit)(void *ctx, const struct server_connection *connection), void *ctx)
{
	const struct server_idle *list = list_of(server, worker);

	lock_list(server, list);
	for (const struct server_connection *connection = list->first; connection;
		connection = connection->next)
		visit(ctx, connection);
	unlock_list(server, list);
}

uint32_t pool_count(const struct server_state *server, const struct worker *worker)
{
	const struct server_idle *list = list_of(server, worker);
	uint32_t count;

	lock_list(server, list);
	count = list->count;
	unlock_list(server, list);
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
	struct server_idle *list = list_of(server, worker);
	struct server_connection *connection;

	lock_list(server, list);
	connection = list->last;
	if (connection && is_one_too_many(server, connection))
		unlink_idle(list, connection);
	else
		connection = NULL;
	unlock_list(server, list);
	return connection;
}

void pool_share(struct server_state *server, struct worker *worker)
{
	struct server_idle *list = list_of(server, worker);
	struct server_connection *connection;

	/* relaxed: a setting, and this site's or a later one's */
	if (atomic_load_explicit(&server->max_connections, memory_order_relaxed) == 0)
		return;
	pthread_mutex_lock(lock_of(server));
	list->shared = true;
	pthread_mutex_unlock(lock_of(server));
	while ((connection = pop_one_too_many(server, worker)) != NULL)
		server_connection_close_unlisted(connection);
	for (uint32_t n = pool_count(server, worker); n > 0 && wake_one(server->upstream, server);
		n--)
		;
}

/* ---- of other threads ------------------------------------------------------------------------ */

static void close_taken(struct worker *worker)
{
	/* acquire: pairs with the release in dismiss */
	struct server_connection *connection =
		atomic_exchange_explicit(&worker->inbox.taken, NULL, memory_order_acquire);

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
		atomic_exchange_explicit(&worker->inbox.woken, NULL, memory_order_acquire);
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
	for (waiter = woken_in_order(worker); waiter; waiter = next) {
		next = waiter->next;
		free(waiter);
	}
}
