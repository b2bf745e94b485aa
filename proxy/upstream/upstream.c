#include "upstream/upstream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/tls_client.h"
#include "upstream/capacity.h"
#include "upstream/server_pool.h"

#define EXPIRY_DAYS 21 /* warnings begin so early */

/* The lower of two bounds, of which 0 is none. */
static uint32_t lower(uint32_t a, uint32_t b)
{
	return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The requests that the servers take together while all are in service; 0: no bound. */
static uint32_t bound_of_servers(const struct conf_upstream *conf)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < conf->server_count; i++) {
		uint32_t bound = capacity_of(conf, &conf->servers[i]);
		if (bound == 0)
			return 0;
		sum += bound;
	}
	return (uint32_t)sum;
}

static bool has_bounded_server(const struct conf_upstream *conf)
{
	for (size_t i = 0; i < conf->server_count; i++)
		if (capacity_of(conf, &conf->servers[i]) > 0)
			return true;
	return false;
}

static struct run_queue_config bounds_of(const struct conf_upstream *conf, struct pace *pace)
{
	struct run_queue_config bounds = {
		.quantum = conf->quantum,
		.shed_target_ms = (uint32_t)conf->shed.target_ms,
		.shed_interval_ms = (uint32_t)conf->shed.interval_ms,
	};

	if (conf->max_in_flight == CONF_IN_FLIGHT_AUTO) {
		bounds.adaptive = true;
		uint32_t servers = bound_of_servers(conf);
		bounds.adaptive_min = lower(conf->max_in_flight_floor, servers);
		bounds.adaptive_max = lower(conf->max_in_flight_ceiling, servers);
		bounds.max_in_flight = bounds.adaptive_min;
	} else {
		bounds.max_in_flight = conf->max_in_flight;
	}
	if (conf->pace.amount > 0) {
		bounds.pace = pace_charge;
		bounds.pace_ctx = pace;
	}
	return bounds;
}

/* The pace that the upstream will have. A pace that was once there is kept, also while it is off:
 * what it admitted still counts. */
static bool prepare_pace(struct upstream *upstream)
{
	const struct conf_upstream *conf = upstream->conf;
	struct pace *pace = upstream->state->pace;

	if (conf->pace.amount == 0)
		return true;
	if (!pace) {
		upstream->new_pace = pace_new(conf->pace.amount, conf->pace.per_ns);
		return upstream->new_pace != NULL;
	}
	upstream->pace_change = pace_prepare(pace, conf->pace.amount, conf->pace.per_ns);
	return upstream->pace_change != NULL;
}

static bool add_server(struct upstream *upstream, const struct conf_server *description)
{
	struct server *server = &upstream->servers[upstream->server_count];
	const struct conf_server *before = upstream->conf->servers;
	unsigned repeat = 0;

	for (; before < description; before++)
		repeat += strcmp(before->address.text, description->address.text) == 0;
	server->upstream = upstream;
	server->conf = description;
	server->index = (unsigned)upstream->server_count;
	server->state = server_state_get(upstream->state, &description->address, repeat);
	upstream->server_count += server->state != NULL;
	return server->state != NULL;
}

struct upstream *upstream_new(
	struct upstream_states *states, const struct conf_upstream *description)
{
	struct run_queue_config unpaced = bounds_of(description, NULL);
	struct upstream *upstream = calloc(1, sizeof(*upstream));
	bool good;

	if (!upstream)
		return NULL;
	unpaced.pace = NULL;
	upstream->conf = description;
	upstream->servers = calloc(description->server_count, sizeof(*upstream->servers));
	upstream->state = upstream_state_get(states, description->name, &unpaced);
	good = upstream->servers && upstream->state && prepare_pace(upstream) &&
	       (!description->semaphore || semaphore_slots_begin(&upstream->state->semaphore) == 0);
	for (size_t i = 0; good && i < description->server_count; i++)
		good = add_server(upstream, &description->servers[i]);
	if (!good) {
		upstream_free(upstream);
		return NULL;
	}
	upstream->bounds = bounds_of(
		description, upstream->new_pace ? upstream->new_pace : upstream->state->pace);
	if (has_bounded_server(description)) {
		upstream->bounds.capacity = capacity_read;
		upstream->bounds.capacity_ctx = upstream->state;
	}
	if (description->semaphore) {
		upstream->bounds.takes_slots = true;
		upstream->bounds.lacks = semaphore_slots_wake;
		upstream->bounds.lacks_ctx = &upstream->state->semaphore;
	}
	return upstream;
}

void upstream_commit(struct upstream *upstream)
{
	struct upstream_state *state = upstream->state;

	if (upstream->new_pace) {
		/* release: pairs with the acquire in note_sent (forward.c), so the pace is seen
		 * whole */
		atomic_store_explicit(&state->pace, upstream->new_pace, memory_order_release);
		upstream->new_pace = NULL;
	}
	if (upstream->pace_change)
		pace_commit(state->pace, upstream->pace_change);
	upstream->pace_change = NULL;
	for (size_t i = 0; i < upstream->server_count; i++)
		pool_set_bound(
			upstream->servers[i].state, upstream->servers[i].conf->max_connections);
	capacity_set(upstream);
	run_queue_configure(state->run_queue, &upstream->bounds, clock_monotonic_ns());
}

void upstream_free(struct upstream *upstream)
{
	if (!upstream)
		return;
	for (size_t i = 0; i < upstream->server_count; i++) {
		server_state_release(upstream->servers[i].state);
		tls_client_release(upstream->servers[i].tls);
	}
	pace_discard(upstream->pace_change);
	pace_free(upstream->new_pace);
	if (upstream->state)
		upstream_state_release(upstream->state);
	free(upstream->servers);
	free(upstream);
}

struct server *upstream_server_of(const struct upstream *upstream, const struct server_state *state)
{
	for (size_t i = 0; i < upstream->server_count; i++) {
		if (upstream->servers[i].state == state)
			return &upstream->servers[i];
	}
	return NULL;
}

bool server_may_serve(struct server *server, uint64_t now_ms)
{
	return server->upstream->server_count == 1 || !capacity_is_ejected(server->state, now_ms);
}

enum server_mode server_mode(const struct server *server)
{
	/* relaxed: a switch; what began just before it ends where it is */
	return atomic_load_explicit(&server->state->mode, memory_order_relaxed);
}

void server_set_mode(struct server *server, enum server_mode mode)
{
	atomic_store_explicit(&server->state->mode, mode, memory_order_relaxed);
	capacity_changed(server->upstream->state);
}

void server_set_unhealthy(struct server_state *server, bool unhealthy)
{
	/* relaxed: a hint for who picks a server */
	if (atomic_exchange_explicit(&server->unhealthy, unhealthy, memory_order_relaxed) !=
		unhealthy)
		capacity_changed(server->upstream);
}

const char *server_mode_name(enum server_mode mode)
{
	static const char *const names[SERVER_MODES] = {
		[SERVER_ENABLED] = "enabled",
		[SERVER_DRAINING] = "draining",
		[SERVER_DISABLED] = "disabled",
	};

	return names[mode];
}

static bool has_place(const struct server *server)
{
	uint32_t bound = server->conf->max_in_flight;

	return bound == 0 ||
	       atomic_load_explicit(&server->state->in_flight, memory_order_relaxed) < bound;
}

static bool may_be_asked(const struct server *server, uint64_t servers)
{
	return (servers >> server->index & 1) && has_place(server);
}

uint64_t upstream_serving(const struct upstream *upstream, uint64_t tried, uint64_t now_ms)
{
	uint64_t enabled = 0, ejected = 0;

	for (size_t i = 0; i < upstream->server_count; i++) {
		const struct server *server = &upstream->servers[i];
		if (tried >> i & 1 || server_mode(server) != SERVER_ENABLED)
			continue;
		enabled |= 1ULL << i;
		/* With one server there is no choice to make, whatever is known of it. */
		if (upstream->server_count > 1 && capacity_is_ejected(server->state, now_ms))
			ejected |= 1ULL << i;
	}
	return enabled == ejected ? enabled : enabled & ~ejected;
}

bool upstream_has_another(const struct upstream *upstream, uint64_t others, uint64_t now_ms)
{
	for (size_t i = 0; i < upstream->server_count; i++) {
		const struct server *server = &upstream->servers[i];
		if (!(others >> i & 1) && server_mode(server) == SERVER_ENABLED &&
			has_place(server) && !capacity_is_ejected(server->state, now_ms))
			return true;
	}
	return false;
}

bool upstream_has_enabled(const struct upstream *upstream, uint64_t servers)
{
	for (size_t i = 0; i < upstream->server_count; i++)
		if (servers >> i & 1 && server_mode(&upstream->servers[i]) == SERVER_ENABLED)
			return true;
	return false;
}

unsigned server_weight(const struct server *server)
{
	/* relaxed: what is set goes for the next that are chosen */
	unsigned weight = atomic_load_explicit(&server->state->weight, memory_order_relaxed);

	return weight > 0 ? weight : server->conf->weight;
}

void server_set_weight(struct server *server, unsigned weight)
{
	atomic_store_explicit(&server->state->weight, weight, memory_order_relaxed);
}

/* Each of its addresses that are in has its weight. */
static unsigned weight_of_addresses(const struct server *server, uint64_t now_ms)
{
	unsigned usable = server_addresses_usable(&server->state->addresses, now_ms);

	return server_weight(server) * (usable ? (unsigned)__builtin_popcount(usable) : 1);
}

static int32_t sum_of_weights(const struct upstream *upstream, uint64_t now_ms)
{
	int32_t sum = 0;

	for (size_t i = 0; i < upstream->server_count; i++)
		sum += (int32_t)weight_of_addresses(&upstream->servers[i], now_ms);
	return sum;
}

/* Smooth weighted round robin, a state for each worker: each gains its weight, the richest is
 * taken and pays the sum. So none has more than the sum of all, or owes more; what goes beyond is
 * from before the weights were changed, and is forgotten: it would be paid back in a row. */
static struct server *by_turn(
	struct upstream *upstream, unsigned worker, uint64_t servers, uint64_t now_ms)
{
	struct server *best = NULL;
	int32_t sum = 0, most = sum_of_weights(upstream, now_ms);

	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		if (!may_be_asked(server, servers))
			continue;
		struct server_idle *mine = &server->state->idle[worker];
		int32_t weight = (int32_t)weight_of_addresses(server, now_ms);
		if (mine->current_weight > most || mine->current_weight < -most)
			mine->current_weight = mine->current_weight > 0 ? most : -most;
		mine->current_weight += weight;
		sum += weight;
		if (!best || mine->current_weight > best->state->idle[worker].current_weight)
			best = server;
	}
	if (best)
		best->state->idle[worker].current_weight -= sum;
	return best;
}

static struct server *by_load(
	struct upstream *upstream, unsigned worker, uint64_t servers, uint64_t now_ms)
{
	struct server *best = NULL;
	uint64_t best_load = UINT64_MAX;
	size_t count = upstream->server_count;

	/* Starting at another one each time, so that equals take turns. */
	for (size_t i = 0; i < count; i++) {
		struct server *server = &upstream->servers[(i + (size_t)now_ms + worker) % count];
		if (!may_be_asked(server, servers))
			continue;
		/* relaxed: counts; nothing is read by them */
		uint64_t load = 1ULL;
		load += atomic_load_explicit(&server->state->in_flight, memory_order_relaxed);
		load += atomic_load_explicit(&server->state->streams, memory_order_relaxed);
		load = load * 65536 / weight_of_addresses(server, now_ms);
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
	struct upstream *upstream, uint64_t hash, uint64_t servers, uint64_t now_ms)
{
	struct server *best = NULL;
	uint64_t best_score = 0;

	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		if (!may_be_asked(server, servers))
			continue;
		unsigned weight = weight_of_addresses(server, now_ms);
		for (unsigned w = 0; w < weight; w++) {
			uint64_t score = mix(hash, (i + 1) * 1000003ULL + w);
			if (!best || score > best_score) {
				best_score = score;
				best = server;
			}
		}
	}
	return best;
}

static struct server *choose(struct upstream *upstream, unsigned worker, uint64_t servers,
	uint64_t hash, uint64_t now_ms)
{
	switch (upstream->conf->balance) {
	case CONF_BALANCE_ROUND_ROBIN:
		return by_turn(upstream, worker, servers, now_ms);
	case CONF_BALANCE_LEAST_IN_FLIGHT:
		return by_load(upstream, worker, servers, now_ms);
	case CONF_BALANCE_HASH:
		return by_hash(upstream, hash, servers, now_ms);
	}
	return NULL;
}

/* ---- addresses of a server ------------------------------------------------------------------- */

static unsigned address_by_load(const struct server_state *state, unsigned usable, unsigned turn)
{
	unsigned best = turn;
	uint32_t least = UINT32_MAX;

	for (unsigned n = 0; n < (unsigned)__builtin_popcount(usable); n++) {
		uint32_t busy = pool_busy(state, turn);
		if (busy < least) {
			least = busy;
			best = turn;
		}
		turn = server_addresses_next(usable, turn);
	}
	return best;
}

/* Rendezvous hashing, as between servers. */
static unsigned address_by_hash(const struct server_state *state, unsigned usable, uint64_t hash)
{
	unsigned best = 0;
	uint64_t best_score = 0;

	for (unsigned i = 0; usable >> i; i++) {
		/* relaxed: a hint */
		uint64_t score = mix(hash, atomic_load_explicit(&state->addresses.slots[i].hash,
						   memory_order_relaxed));
		if (usable >> i & 1 && score >= best_score) {
			best_score = score;
			best = i;
		}
	}
	return best;
}

unsigned server_choose_address(
	struct server *server, unsigned worker, uint64_t hash, uint64_t now_ms)
{
	struct server_state *state = server->state;
	unsigned usable = server_addresses_usable(&state->addresses, now_ms);

	if ((usable & (usable - 1)) == 0)
		return usable ? (unsigned)__builtin_ctz(usable) : 0;
	if (server->upstream->conf->balance == CONF_BALANCE_HASH)
		return address_by_hash(state, usable, hash);
	uint32_t *turn = &state->idle[worker].turn;
	*turn = server_addresses_next(usable, *turn);
	if (server->upstream->conf->balance == CONF_BALANCE_LEAST_IN_FLIGHT)
		*turn = address_by_load(state, usable, *turn);
	return *turn;
}

/* Takes a place at the server unless another worker has taken the last one just now. A try that
 * fails changes nothing: the place that another worker gives back meanwhile would seem to be taken,
 * and would wake none of those that wait. */
bool server_take_place(struct server *server)
{
	atomic_uint *in_flight = &server->state->in_flight;
	uint32_t bound = server->conf->max_in_flight;

	/* relaxed: a count; nothing is read by it */
	if (bound == 0) {
		atomic_fetch_add_explicit(in_flight, 1, memory_order_relaxed);
	} else {
		uint32_t count = atomic_load_explicit(in_flight, memory_order_relaxed);
		do {
			if (count >= bound)
				return false;
		} while (!atomic_compare_exchange_weak_explicit(
			in_flight, &count, count + 1, memory_order_relaxed, memory_order_relaxed));
	}
	capacity_used(server->state);
	return true;
}

struct server *upstream_pick(struct upstream *upstream, unsigned worker, uint64_t servers,
	uint64_t hash, uint64_t now_ms)
{
	struct server *server;

	while ((server = choose(upstream, worker, servers, hash, now_ms)) != NULL) {
		if (server_take_place(server))
			return server;
		servers &= ~(1ULL << server->index);
	}
	return NULL;
}

void server_done(struct server *server)
{
	/* A waiter counts itself, then looks for a place; a thread that gives one back does so,
	 * then looks at the count (seq_cst both): one sees the other. */
	atomic_fetch_sub(&server->state->in_flight, 1);
	capacity_used(server->state);
	pool_pass_on(server->state->upstream);
}

void server_succeeded(struct server *server)
{
	/* Read before writing: in good times nobody's cache line moves. */
	if (atomic_load_explicit(&server->state->fails, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&server->state->fails, 0, memory_order_relaxed);
	atomic_store_explicit(&server->state->interval_ms, 0, memory_order_relaxed);
	if (atomic_exchange_explicit(&server->state->out_until_ms, 0, memory_order_relaxed) == 0)
		return;
	capacity_changed(server->upstream->state);
	log_info("upstream %s: server %s is available again", server->upstream->conf->name,
		server->conf->address.text);
}

bool server_may_log(struct server *server, uint64_t now_ms, unsigned *unlogged)
{
	return log_pace_may_log(&server->state->failure_lines, now_ms, unlogged);
}

unsigned server_take_unlogged(struct server *server, uint64_t now_ms)
{
	return log_pace_take_unlogged(&server->state->failure_lines, now_ms);
}

bool server_has_unlogged(const struct server *server)
{
	return log_pace_has_unlogged(&server->state->failure_lines);
}

void server_warn_of_expiry(struct server *server)
{
	int64_t now_s = (int64_t)(clock_wall_ns() / CLOCK_NS_PER_S);

	if (server->tls && tls_client_warns(server->tls, now_s, EXPIRY_DAYS))
		log_warn("upstream %s: server %s: its certificate expires in %lld days",
			server->upstream->conf->name, server->conf->address.text,
			(long long)((tls_client_expires(server->tls) - now_s) / 86400));
}

void server_failed(struct server *server, const char *why, uint64_t now_ms)
{
	const struct conf_upstream *conf = server->upstream->conf;
	unsigned fails =
		atomic_fetch_add_explicit(&server->state->fails, 1, memory_order_relaxed) + 1;

	if (conf->max_fails == 0 || fails < conf->max_fails ||
		capacity_is_ejected(server->state, now_ms))
		return;
	uint64_t until = atomic_load_explicit(&server->state->out_until_ms, memory_order_relaxed);
	uint64_t interval = atomic_load_explicit(&server->state->interval_ms, memory_order_relaxed);
	interval = interval == 0 ? conf->fail_timeout_ms : interval * 2;
	if (interval > conf->fail_timeout_max_ms)
		interval = conf->fail_timeout_max_ms;
	/* Of several workers that see it fail at once, one leaves it out. relaxed: hints, as above
	 */
	if (until > now_ms ||
		!atomic_compare_exchange_strong_explicit(&server->state->out_until_ms, &until,
			now_ms + interval, memory_order_relaxed, memory_order_relaxed))
		return;
	atomic_store_explicit(
		&server->state->interval_ms, (unsigned)interval, memory_order_relaxed);
	capacity_changed(server->upstream->state);
	log_warn("upstream %s: server %s ejected for %llu ms after %u failures: %s", conf->name,
		server->conf->address.text, (unsigned long long)interval, fails, why);
}
