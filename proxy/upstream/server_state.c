#include "upstream/server_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "upstream/pace.h"

struct upstream_states {
	pthread_mutex_t lock; /* guards the lists and the counts of holders */
	struct queue *queue;
	unsigned workers;
	struct upstream_state *first;
};

struct upstream_states *upstream_states_new(struct queue *queue, unsigned workers)
{
	struct upstream_states *states = calloc(1, sizeof(*states));

	if (!states)
		return NULL;
	pthread_mutex_init(&states->lock, NULL);
	states->queue = queue;
	states->workers = workers;
	return states;
}

void upstream_states_free(struct upstream_states *states)
{
	if (!states)
		return;
	assert(!states->first);
	pthread_mutex_destroy(&states->lock);
	free(states);
}

/* ---- upstreams ------------------------------------------------------------------------------- */

static struct upstream_state *find_upstream(struct upstream_states *states, const char *name)
{
	struct upstream_state *state;

	pthread_mutex_lock(&states->lock);
	for (state = states->first; state; state = state->next) {
		if (strcmp(state->name, name) == 0) {
			state->holders++;
			break;
		}
	}
	pthread_mutex_unlock(&states->lock);
	return state;
}

static void free_upstream(struct upstream_state *state)
{
	run_queue_destroy(state->run_queue);
	pthread_mutex_destroy(&state->connections_lock);
	pace_free(atomic_load_explicit(&state->pace, memory_order_relaxed));
	semaphore_slots_end(&state->semaphore);
	probes_shown_end(&state->probes);
	free(state->name);
	free(state);
}

struct upstream_state *upstream_state_get(
	struct upstream_states *states, const char *name, const struct run_queue_config *config)
{
	struct upstream_state *state = find_upstream(states, name);

	if (state)
		return state;
	state = calloc(1, sizeof(*state));
	if (!state)
		return NULL;
	state->states = states;
	pthread_mutex_init(&state->connections_lock, NULL);
	probes_shown_init(&state->probes);
	state->holders = 1;
	state->semaphore.wake_fd = -1;
	state->name = strdup(name);
	state->run_queue = state->name ? run_queue_create(states->queue, config) : NULL;
	if (!state->run_queue) {
		free_upstream(state);
		return NULL;
	}
	pthread_mutex_lock(&states->lock);
	state->next = states->first;
	states->first = state;
	pthread_mutex_unlock(&states->lock);
	return state;
}

struct upstream_state *upstream_state_hold(struct upstream_state *state)
{
	pthread_mutex_lock(&state->states->lock);
	state->holders++;
	pthread_mutex_unlock(&state->states->lock);
	return state;
}

bool upstream_state_is_last(struct upstream_state *state)
{
	pthread_mutex_lock(&state->states->lock);
	bool is_last = state->holders == 1;
	pthread_mutex_unlock(&state->states->lock);
	return is_last;
}

/* With the lock. False: others hold it. */
static bool drop_upstream(struct upstream_state *state)
{
	struct upstream_state **at = &state->states->first;

	if (--state->holders > 0)
		return false;
	while (*at != state)
		at = &(*at)->next;
	*at = state->next;
	return true;
}

void upstream_state_release(struct upstream_state *state)
{
	pthread_mutex_t *lock = &state->states->lock;

	pthread_mutex_lock(lock);
	bool is_last = drop_upstream(state);
	pthread_mutex_unlock(lock);
	if (is_last)
		free_upstream(state);
}

/* ---- servers --------------------------------------------------------------------------------- */

static struct server_state *find_server(
	struct upstream_state *upstream, const char *address, unsigned repeat)
{
	struct server_state *state;

	pthread_mutex_lock(&upstream->states->lock);
	for (state = upstream->servers; state; state = state->next) {
		if (state->repeat == repeat && strcmp(state->address, address) == 0) {
			state->holders++;
			break;
		}
	}
	pthread_mutex_unlock(&upstream->states->lock);
	return state;
}

static void free_server(struct server_state *state)
{
	pthread_mutex_destroy(&state->addresses_lock);
	free(state->idle);
	free(state->address);
	free(state);
}

static struct server_state *new_server(
	const struct conf_address *address, unsigned repeat, unsigned workers)
{
	struct server_state *state = aligned_alloc(64, sizeof(*state));
	size_t idle_bytes = workers * sizeof(struct server_idle);

	if (!state)
		return NULL;
	memset(state, 0, sizeof(*state));
	pthread_mutex_init(&state->addresses_lock, NULL);
	state->holders = 1;
	state->repeat = repeat;
	state->address = strdup(address->text);
	state->idle = aligned_alloc(64, idle_bytes);
	if (!state->address || !state->idle) {
		free_server(state);
		return NULL;
	}
	memset(state->idle, 0, idle_bytes);
	state->workers = workers;
	if (address->kind != CONF_ADDRESS_NAME) {
		struct server_address only = {
			.socket = address->socket, .len = address->socket_len};
		server_state_set_addresses(state, &only, 1);
	}
	return state;
}

struct server_state *server_state_get(
	struct upstream_state *upstream, const struct conf_address *address, unsigned repeat)
{
	struct server_state *state = find_server(upstream, address->text, repeat);

	if (state)
		return state;
	state = new_server(address, repeat, upstream->states->workers);
	if (!state)
		return NULL;
	state->upstream = upstream;
	pthread_mutex_lock(&upstream->states->lock);
	upstream->holders++;
	state->next = upstream->servers;
	upstream->servers = state;
	pthread_mutex_unlock(&upstream->states->lock);
	return state;
}

struct server_state *server_state_hold(struct server_state *state)
{
	pthread_mutex_t *lock = &state->upstream->states->lock;

	pthread_mutex_lock(lock);
	state->holders++;
	pthread_mutex_unlock(lock);
	return state;
}

void server_state_release(struct server_state *state)
{
	struct upstream_state *upstream = state->upstream;
	pthread_mutex_t *lock = &upstream->states->lock;
	bool is_last = false, is_upstreams_last = false;

	pthread_mutex_lock(lock);
	if (--state->holders == 0) {
		struct server_state **at = &upstream->servers;
		while (*at != state)
			at = &(*at)->next;
		*at = state->next;
		is_last = true;
		is_upstreams_last = drop_upstream(upstream);
	}
	pthread_mutex_unlock(lock);
	if (is_last)
		free_server(state);
	if (is_upstreams_last)
		free_upstream(upstream);
}

void upstream_state_each_server(struct upstream_state *upstream,
	void (*visit)(void *ctx, struct server_state *server), void *ctx)
{
	pthread_mutex_lock(&upstream->states->lock);
	for (struct server_state *server = upstream->servers; server; server = server->next)
		visit(ctx, server);
	pthread_mutex_unlock(&upstream->states->lock);
}

/* ---- addresses ------------------------------------------------------------------------------- */

bool server_state_address(
	struct server_state *state, uint64_t now_ms, struct server_address *address)
{
	pthread_mutex_lock(&state->addresses_lock);
	unsigned count = state->address_count, turn = state->next_address++;
	if (count > 0) {
		unsigned i = 0;
		while (i < count && state->addresses[(turn + i) % count].out_until_ms > now_ms)
			i++;
		*address = state->addresses[(turn + i) % count];
	}
	pthread_mutex_unlock(&state->addresses_lock);
	return count > 0;
}

void server_state_address_succeeded(struct server_state *state, uint32_t id)
{
	pthread_mutex_lock(&state->addresses_lock);
	for (unsigned i = 0; i < state->address_count; i++) {
		struct server_address *address = &state->addresses[i];
		if (address->id == id) {
			address->interval_ms = 0;
			address->out_until_ms = 0;
		}
	}
	pthread_mutex_unlock(&state->addresses_lock);
}

bool server_state_address_failed(struct server_state *state, uint32_t id, uint64_t now_ms,
	uint64_t first_ms, uint64_t most_ms)
{
	bool others = false;

	pthread_mutex_lock(&state->addresses_lock);
	for (unsigned i = 0; i < state->address_count; i++) {
		struct server_address *address = &state->addresses[i];
		if (address->id == id && address->out_until_ms <= now_ms) {
			uint64_t interval =
				address->interval_ms ? address->interval_ms * 2ull : first_ms;
			address->interval_ms = (uint32_t)(interval < most_ms ? interval : most_ms);
			address->out_until_ms = now_ms + address->interval_ms;
		}
		others |= address->out_until_ms <= now_ms;
	}
	pthread_mutex_unlock(&state->addresses_lock);
	return others;
}

static bool is_same_address(const struct server_address *a, const struct server_address *b)
{
	return a->len == b->len && memcmp(&a->socket, &b->socket, a->len) == 0;
}

void server_state_set_addresses(
	struct server_state *state, const struct server_address *addresses, unsigned count)
{
	struct server_address next[SERVER_ADDRESSES];

	if (count > SERVER_ADDRESSES)
		count = SERVER_ADDRESSES;
	memcpy(next, addresses, count * sizeof(*addresses));
	pthread_mutex_lock(&state->addresses_lock);
	for (unsigned i = 0; i < count; i++) {
		next[i].id = 0;
		for (unsigned j = 0; j < state->address_count; j++) {
			if (is_same_address(&next[i], &state->addresses[j]))
				next[i] = state->addresses[j];
		}
		if (next[i].id == 0) {
			next[i].id = ++state->next_id;
			next[i].interval_ms = 0;
			next[i].out_until_ms = 0;
		}
	}
	memcpy(state->addresses, next, count * sizeof(*next));
	state->address_count = count;
	pthread_mutex_unlock(&state->addresses_lock);
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const struct server_address *address)
{
	const unsigned char *bytes = (const unsigned char *)&address->socket;
	uint64_t hash = 0xcbf29ce484222325u;

	for (socklen_t i = 0; i < address->len; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

uint64_t server_state_addresses_id(struct server_state *state)
{
	uint64_t sum = 0;

	pthread_mutex_lock(&state->addresses_lock);
	for (unsigned i = 0; i < state->address_count; i++)
		sum += hash_of(&state->addresses[i]);
	pthread_mutex_unlock(&state->addresses_lock);
	return sum;
}

/* ---- findings -------------------------------------------------------------------------------- */

void server_state_note_finding(struct server_state *state, const struct server_finding *finding)
{
	pthread_mutex_lock(&state->addresses_lock);
	state->finding = *finding;
	pthread_mutex_unlock(&state->addresses_lock);
}

void server_state_read_finding(struct server_state *state, struct server_finding *finding)
{
	pthread_mutex_lock(&state->addresses_lock);
	*finding = state->finding;
	pthread_mutex_unlock(&state->addresses_lock);
}
