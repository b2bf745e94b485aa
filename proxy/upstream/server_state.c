#include "upstream/server_state.h"

#include <assert.h>
#include <stdio.h>
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
	pthread_mutex_destroy(&state->finding_lock);
	server_addresses_end(&state->addresses);
	free(state->idle);
	free(state->address);
	free(state);
}

static struct server_state *new_server(
	const struct conf_address *address, unsigned repeat, unsigned workers)
{
	struct server_state *state = aligned_alloc(64, sizeof(*state));
	unsigned slots = address->kind == CONF_ADDRESS_NAME ? SERVER_ADDRESSES : 1;
	size_t idle_bytes = slots * workers * sizeof(struct server_idle);

	if (!state)
		return NULL;
	memset(state, 0, sizeof(*state));
	pthread_mutex_init(&state->finding_lock, NULL);
	server_addresses_init(&state->addresses);
	state->slots = slots;
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
		server_addresses_set(&state->addresses, &only, 1);
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

/* ---- findings -------------------------------------------------------------------------------- */

void server_state_note_finding(struct server_state *state, const struct server_finding *finding)
{
	pthread_mutex_lock(&state->finding_lock);
	state->finding = *finding;
	pthread_mutex_unlock(&state->finding_lock);
}

void server_state_read_finding(struct server_state *state, struct server_finding *finding)
{
	pthread_mutex_lock(&state->finding_lock);
	*finding = state->finding;
	pthread_mutex_unlock(&state->finding_lock);
}

void server_state_note_failure(struct server_state *state, const char *why, uint64_t now_ms)
{
	pthread_mutex_lock(&state->finding_lock);
	state->failure.at_ms = now_ms;
	snprintf(state->failure.why, sizeof(state->failure.why), "%s", why);
	pthread_mutex_unlock(&state->finding_lock);
}

void server_state_read_failure(struct server_state *state, struct server_failure *failure)
{
	pthread_mutex_lock(&state->finding_lock);
	*failure = state->failure;
	pthread_mutex_unlock(&state->finding_lock);
}
