#include "relay/upstream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* The bound that the run queue keeps: the upstream's own, or what its servers take together. */
static uint32_t bound_of(const struct conf_upstream *conf)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < conf->server_count; i++) {
		if (conf->servers[i].max_in_flight == 0)
			return conf->max_in_flight;
		sum += conf->servers[i].max_in_flight;
	}
	if (conf->max_in_flight > 0 && conf->max_in_flight < sum)
		return conf->max_in_flight;
	return (uint32_t)sum;
}

static struct upstream_bounds bounds_of(const struct conf_upstream *conf)
{
	bool adapts = conf->max_in_flight == CONF_IN_FLIGHT_AUTO;

	return (struct upstream_bounds){
		.max_in_flight = adapts ? CONF_IN_FLIGHT_AUTO : bound_of(conf),
		.floor = conf->max_in_flight_floor,
		.ceiling = conf->max_in_flight_ceiling,
		.quantum = conf->quantum,
		.pace_amount = conf->pace_amount,
		.pace_per_ns = conf->pace_per_ns,
		.shed_target_ms = (uint32_t)conf->shed_target_ms,
		.shed_interval_ms = (uint32_t)conf->shed_interval_ms,
	};
}

static bool same_bounds(const struct upstream_bounds *a, const struct upstream_bounds *b)
{
	return a->max_in_flight == b->max_in_flight && a->floor == b->floor &&
	       a->ceiling == b->ceiling && a->quantum == b->quantum &&
	       a->pace_amount == b->pace_amount && a->pace_per_ns == b->pace_per_ns &&
	       a->shed_target_ms == b->shed_target_ms && a->shed_interval_ms == b->shed_interval_ms;
}

static struct run_queue_config run_queue_config_of(const struct upstream *upstream)
{
	const struct upstream_bounds *bounds = &upstream->bounds;
	struct run_queue_config config = {
		.quantum = bounds->quantum,
		.shed_target_ms = bounds->shed_target_ms,
		.shed_interval_ms = bounds->shed_interval_ms,
	};

	if (bounds->max_in_flight == CONF_IN_FLIGHT_AUTO) {
		config.adaptive = true;
		config.adaptive_min = bounds->floor;
		config.adaptive_max = bounds->ceiling;
		config.max_in_flight = bounds->floor;
	} else {
		config.max_in_flight = bounds->max_in_flight;
	}
	if (bounds->pace_amount > 0) {
		config.pace = pace_charge;
		config.pace_ctx = upstream->pace;
	}
	return config;
}

/* A pace that was once there is kept, also while it is off: what went goes on counting. */
static bool set_pace(struct upstream *upstream, const struct upstream_bounds *bounds)
{
	if (bounds->pace_amount == 0)
		return true;
	if (upstream->pace)
		return pace_configure(upstream->pace, bounds->pace_amount, bounds->pace_per_ns);
	struct pace *pace = pace_new(bounds->pace_amount, bounds->pace_per_ns);
	/* release: pairs with the acquire in note_sent (forward.c), so the pace is seen whole */
	atomic_store_explicit(&upstream->pace, pace, memory_order_release);
	return pace != NULL;
}

bool upstream_configure(struct upstream *upstream, const struct conf_upstream *description)
{
	struct upstream_bounds bounds = bounds_of(description);

	if (same_bounds(&upstream->bounds, &bounds))
		return true;
	if (!set_pace(upstream, &bounds))
		return false;
	upstream->bounds = bounds;
	struct run_queue_config config = run_queue_config_of(upstream);
	run_queue_configure(upstream->run_queue, &config, clock_monotonic_ns());
	return true;
}

struct upstream *upstream_new(const struct conf *conf, const struct conf_upstream *description,
	const struct upstream *before, unsigned workers, struct queue *queue)
{
	struct upstream *upstream = calloc(1, sizeof(*upstream));

	if (!upstream)
		return NULL;
	atomic_init(&upstream->holders, 1);
	upstream->conf_held = conf_hold(conf);
	upstream->conf = description;
	upstream->workers = workers;
	upstream->queue = queue;
	upstream->servers = aligned_alloc(64, description->server_count * sizeof(struct server));
	upstream->bounds = bounds_of(description);
	if (before && before->pace)
		upstream->pace = pace_hold(before->pace);
	if (!set_pace(upstream, &upstream->bounds))
		goto failed;
	struct run_queue_config config = run_queue_config_of(upstream);
	upstream->run_queue = run_queue_create(queue, &config);
	if (!upstream->servers || !upstream->run_queue)
		goto failed;
	memset(upstream->servers, 0, description->server_count * sizeof(struct server));
	for (size_t i = 0; i < description->server_count; i++) {
		struct server *server = &upstream->servers[i];
		size_t bytes = workers * sizeof(struct server_idle);
		server->upstream = upstream;
		server->conf = &description->servers[i];
		server->index = (unsigned)i;
		server->idle = aligned_alloc(64, bytes);
		if (!server->idle)
			goto failed;
		memset(server->idle, 0, bytes);
		pthread_mutex_init(&server->addresses_lock, NULL);
		if (server->conf->address.kind != CONF_ADDRESS_NAME) {
			server->addresses[0].socket = server->conf->address.socket;
			server->addresses[0].len = server->conf->address.socket_len;
			server->address_count = 1;
		}
		upstream->server_count++;
	}
	return upstream;
failed:
	upstream_release(upstream);
	return NULL;
}

struct upstream *upstream_hold(struct upstream *upstream)
{
	/* relaxed: whoever holds may pass it on; the release below orders the rest */
	atomic_fetch_add_explicit(&upstream->holders, 1, memory_order_relaxed);
	return upstream;
}

void upstream_release(struct upstream *upstream)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (atomic_fetch_sub_explicit(&upstream->holders, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < upstream->server_count; i++) {
		free(upstream->servers[i].idle);
		pthread_mutex_destroy(&upstream->servers[i].addresses_lock);
	}
	run_queue_destroy(upstream->run_queue);
	pace_release(upstream->pace);
	free(upstream->servers);
	conf_release(upstream->conf_held);
	free(upstream);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool upstream_same(const struct upstream *upstream, const struct conf_upstream *b)
{
	const struct conf_upstream *a = upstream->conf;

	if (a->server_count != b->server_count || !same_text(a->name, b->name) ||
		!same_text(a->health_path, b->health_path) ||
		!same_text(a->health_host, b->health_host) ||
		!same_text(a->hash_key ? a->hash_key->text : NULL,
			b->hash_key ? b->hash_key->text : NULL))
		return false;
	for (size_t i = 0; i < a->server_count; i++) {
		if (!same_text(a->servers[i].address.text, b->servers[i].address.text) ||
			a->servers[i].weight != b->servers[i].weight ||
			a->servers[i].max_in_flight != b->servers[i].max_in_flight)
			return false;
	}
	return a->balance == b->balance && a->connect_timeout_ms == b->connect_timeout_ms &&
	       a->send_timeout_ms == b->send_timeout_ms &&
	       a->first_byte_timeout_ms == b->first_byte_timeout_ms &&
	       a->idle_timeout_ms == b->idle_timeout_ms &&
	       a->tunnel_timeout_ms == b->tunnel_timeout_ms && a->keepalive == b->keepalive &&
	       a->keepalive_timeout_ms == b->keepalive_timeout_ms &&
	       a->keepalive_requests == b->keepalive_requests &&
	       a->resolve_interval_ms == b->resolve_interval_ms && a->max_fails == b->max_fails &&
	       a->fail_timeout_ms == b->fail_timeout_ms &&
	       a->fail_timeout_max_ms == b->fail_timeout_max_ms && a->retries == b->retries &&
	       a->health_interval_ms == b->health_interval_ms &&
	       a->health_timeout_ms == b->health_timeout_ms;
}

static bool is_left_out(struct server *server, uint64_t now_ms)
{
	/* relaxed: a hint; a request more or less to a failing server harms nothing */
	uint64_t until = atomic_load_explicit(&server->out_until_ms, memory_order_relaxed);

	return until > now_ms || atomic_load_explicit(&server->unhealthy, memory_order_relaxed);
}

bool server_may_serve(struct server *server, uint64_t now_ms)
{
	return server->upstream->server_count == 1 || !is_left_out(server, now_ms);
}

static bool may_be_asked(struct server *server, uint64_t tried, bool all, uint64_t now_ms)
{
	uint32_t bound = server->conf->max_in_flight;

	if (tried & (1ULL << server->index))
		return false;
	if (bound > 0 && atomic_load_explicit(&server->in_flight, memory_order_relaxed) >= bound)
		return false;
	return all || !is_left_out(server, now_ms);
}

/* Smooth weighted round robin, a state for each worker: each gains its weight, the richest is
 * taken and pays the sum. */
static struct server *by_turn(
	struct upstream *upstream, unsigned worker, uint64_t tried, bool all, uint64_t now_ms)
{
	struct server *best = NULL;
	int32_t sum = 0;

	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		if (!may_be_asked(server, tried, all, now_ms))
			continue;
		struct server_idle *mine = &server->idle[worker];
		mine->current_weight += (int32_t)server->conf->weight;
		sum += (int32_t)server->conf->weight;
		if (!best || mine->current_weight > best->idle[worker].current_weight)
			best = server;
	}
	if (best)
		best->idle[worker].current_weight -= sum;
	return best;
}

static struct server *by_load(
	struct upstream *upstream, unsigned worker, uint64_t tried, bool all, uint64_t now_ms)
{
	struct server *best = NULL;
	uint64_t best_load = UINT64_MAX;
	size_t count = upstream->server_count;

	/* Starting at another one each time, so that equals take turns. */
	for (size_t i = 0; i < count; i++) {
		struct server *server = &upstream->servers[(i + (size_t)now_ms + worker) % count];
		if (!may_be_asked(server, tried, all, now_ms))
			continue;
		uint64_t load =
			(atomic_load_explicit(&server->in_flight, memory_order_relaxed) + 1ULL) *
			65536 / server->conf->weight;
		if (load < best_load) {
			best_load = load;
			best = server;
		}
	}
	return best;
}

/* A mix of two words, every bit of the result depending on every bit given (the finaliser of
 * SplitMix64). */
static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = a ^ (b * 0x9E3779B97F4A7C15ULL);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
	return z ^ (z >> 31);
}

/* Weighted rendezvous hashing (Thaler and Ravishankar, 1998): each server draws a number for this
 * caller as many times as it has weight; the highest wins. */
static struct server *by_hash(
	struct upstream *upstream, uint64_t hash, uint64_t tried, bool all, uint64_t now_ms)
{
	struct server *best = NULL;
	uint64_t best_score = 0;

	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		if (!may_be_asked(server, tried, all, now_ms))
			continue;
		for (uint32_t w = 0; w < server->conf->weight; w++) {
			uint64_t score = mix(hash, (i + 1) * 1000003ULL + w);
			if (!best || score > best_score) {
				best_score = score;
				best = server;
			}
		}
	}
	return best;
}

static struct server *choose(struct upstream *upstream, unsigned worker, uint64_t tried,
	uint64_t hash, bool all, uint64_t now_ms)
{
	switch (upstream->conf->balance) {
	case CONF_BALANCE_ROUND_ROBIN:
		return by_turn(upstream, worker, tried, all, now_ms);
	case CONF_BALANCE_LEAST_IN_FLIGHT:
		return by_load(upstream, worker, tried, all, now_ms);
	case CONF_BALANCE_HASH:
		return by_hash(upstream, hash, tried, all, now_ms);
	}
	return NULL;
}

/* Takes a place at the server unless another worker has taken the last one just now. */
bool server_take_place(struct server *server)
{
	uint32_t bound = server->conf->max_in_flight;

	/* relaxed: a count; nothing is read by it */
	if (atomic_fetch_add_explicit(&server->in_flight, 1, memory_order_relaxed) < bound ||
		bound == 0)
		return true;
	server_done(server);
	return false;
}

struct server *upstream_pick(
	struct upstream *upstream, unsigned worker, uint64_t tried, uint64_t hash, uint64_t now_ms)
{
	/* With one server there is no choice to make, whatever is known of it. */
	int all = upstream->server_count == 1;

	for (; all <= 1; all++) {
		uint64_t passed = tried;
		struct server *server;
		while ((server = choose(upstream, worker, passed, hash, all, now_ms)) != NULL) {
			if (server_take_place(server))
				return server;
			passed |= 1ULL << server->index;
		}
	}
	return NULL;
}

void server_done(struct server *server)
{
	/* relaxed: a count for balancing, nothing is read by it */
	atomic_fetch_sub_explicit(&server->in_flight, 1, memory_order_relaxed);
}

void server_succeeded(struct server *server)
{
	/* Read before writing: in good times nobody's cache line moves. */
	if (atomic_load_explicit(&server->fails, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&server->fails, 0, memory_order_relaxed);
	atomic_store_explicit(&server->interval_ms, 0, memory_order_relaxed);
	if (atomic_exchange_explicit(&server->out_until_ms, 0, memory_order_relaxed) != 0)
		log_info("upstream %s: server %s is back", server->upstream->conf->name,
			server->conf->address.text);
}

void server_failed(struct server *server, const char *why, uint64_t now_ms)
{
	const struct conf_upstream *conf = server->upstream->conf;
	unsigned fails = atomic_fetch_add_explicit(&server->fails, 1, memory_order_relaxed) + 1;

	if (conf->max_fails == 0 || fails < conf->max_fails || is_left_out(server, now_ms))
		return;
	uint64_t until = atomic_load_explicit(&server->out_until_ms, memory_order_relaxed);
	uint64_t interval = atomic_load_explicit(&server->interval_ms, memory_order_relaxed);
	interval = interval == 0 ? conf->fail_timeout_ms : interval * 2;
	if (interval > conf->fail_timeout_max_ms)
		interval = conf->fail_timeout_max_ms;
	/* Of several workers that see it fail at once, one leaves it out. relaxed: hints, as above
	 */
	if (until > now_ms ||
		!atomic_compare_exchange_strong_explicit(&server->out_until_ms, &until,
			now_ms + interval, memory_order_relaxed, memory_order_relaxed))
		return;
	atomic_store_explicit(&server->interval_ms, (unsigned)interval, memory_order_relaxed);
	log_warn("upstream %s: server %s left out for %llu ms after %u failures: %s", conf->name,
		server->conf->address.text, (unsigned long long)interval, fails, why);
}

bool server_address(struct server *server, struct server_address *address)
{
	bool found = false;

	pthread_mutex_lock(&server->addresses_lock);
	if (server->address_count > 0) {
		unsigned turn =
			atomic_fetch_add_explicit(&server->next_address, 1, memory_order_relaxed);
		*address = server->addresses[turn % server->address_count];
		found = true;
	}
	pthread_mutex_unlock(&server->addresses_lock);
	return found;
}

void server_set_addresses(
	struct server *server, const struct server_address *addresses, unsigned count)
{
	if (count > SERVER_ADDRESSES)
		count = SERVER_ADDRESSES;
	pthread_mutex_lock(&server->addresses_lock);
	memcpy(server->addresses, addresses, count * sizeof(*addresses));
	server->address_count = count;
	pthread_mutex_unlock(&server->addresses_lock);
}
