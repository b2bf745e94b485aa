#include "store/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"

enum {
	REDIRECTS_MOST = 16, /* of a call, but for TRYAGAIN: it is sent in a circle */
	DELAY_MS = 3,        /* before keys on two nodes are asked for again */
	MOVED_MS = 1000,     /* before all slots are looked at, as one has moved */
	FIRST_MOST = 32,     /* primaries that are connected for the first time at once */
};

static void look_again(struct cluster *cluster);
static void look_within(struct cluster *cluster, uint64_t wait_ms);
static void connect_some(struct cluster *cluster);

static uint64_t now_ms(const struct cluster *cluster)
{
	return loop_now_ms(cluster->loop);
}

/* ---- calls without a connection -------------------------------------------------------------- */

static void append(struct store_call ***end, struct store_call *call)
{
	call->next = NULL;
	**end = call;
	*end = &call->next;
}

static struct store_call *take_all(struct store_call **first, struct store_call ***end)
{
	struct store_call *all = *first;

	*first = NULL;
	*end = first;
	return all;
}

static void fail_all(struct store_call *all)
{
	struct store_call *next;

	for (struct store_call *call = all; call; call = next) {
		next = call->next;
		call->answered(call, NULL, 0);
	}
}

/* To its primary, or to wait for that one's first connection. False: not now. */
static bool send_to(
	struct cluster *cluster, struct cluster_primary *primary, struct store_call *call)
{
	if (!primary)
		return false;
	call->sent_ms = now_ms(cluster);
	if (primary->server.is_ready)
		return store_server_send(&primary->server, call);
	if (primary->was_lost)
		return false;
	append(&primary->waiting_end, call);
	connect_some(cluster);
	return true;
}

static struct cluster_primary *owner_of(const struct cluster *cluster, uint16_t slot)
{
	unsigned owner = cluster->owners[slot];

	return owner > 0 ? cluster->primaries[owner - 1] : NULL;
}

/* ---- primaries ------------------------------------------------------------------------------- */

static void connect_to(struct cluster_primary *primary)
{
	deadline_clear(&primary->timer);
	store_server_open(
		&primary->server, primary->node.host, primary->node.port, primary->cluster->where);
}

static bool is_first_time(const struct cluster_primary *primary)
{
	return primary->server.peer.is_open && !primary->server.is_ready && !primary->was_lost;
}

/* Those that are used and not connected, but only so many for the first time: a map of hundreds is
 * connected in steps. One that was lost does not count, and has its own timer. */
static void connect_some(struct cluster *cluster)
{
	unsigned first = 0;

	for (unsigned i = 0; i < cluster->count; i++)
		first += cluster->primaries[i] && is_first_time(cluster->primaries[i]);
	for (unsigned i = 0; i < cluster->count && first < FIRST_MOST; i++) {
		struct cluster_primary *primary = cluster->primaries[i];
		if (!primary || primary->server.peer.is_open ||
			primary->timer.at_ms != DEADLINE_NEVER ||
			(primary->slots == 0 && !primary->waiting))
			continue;
		connect_to(primary);
		first += is_first_time(primary);
	}
}

static void on_ready(struct cluster_primary *primary)
{
	struct store_call *all = take_all(&primary->waiting, &primary->waiting_end), *next;

	primary->was_lost = false;
	primary->backoff.failures = 0;
	for (struct store_call *call = all; call; call = next) {
		next = call->next;
		if (!store_server_send(&primary->server, call))
			call->answered(call, NULL, 0);
	}
	connect_some(primary->cluster);
	primary->cluster->changed(primary->cluster, NULL);
}

static void on_lost(struct cluster_primary *primary)
{
	struct cluster *cluster = primary->cluster;
	bool is_first = !primary->was_lost && primary->slots > 0;
	char why[256];

	primary->was_lost = true;
	if (primary->slots > 0) {
		deadline_clear(&primary->timer);
		deadline_set(&primary->timer, now_ms(cluster) + backoff_next_ms(&primary->backoff),
			now_ms(cluster));
	}
	snprintf(why, sizeof(why), "primary %.80s:%u: %.150s", primary->node.host,
		primary->node.port, primary->server.peer.why);
	cluster->changed(cluster, is_first ? why : NULL);
	fail_all(take_all(&primary->waiting, &primary->waiting_end));
	connect_some(cluster);
	look_again(cluster);
}

static void on_server_changed(struct store_server *server)
{
	struct cluster_primary *primary = CONTAINER_OF(server, struct cluster_primary, server);

	if (server->is_ready)
		on_ready(primary);
	else
		on_lost(primary);
}

static void on_refused(struct store_server *server, const char *why)
{
	struct cluster_primary *primary = CONTAINER_OF(server, struct cluster_primary, server);
	char text[TROUBLE_BYTES];

	if (why)
		snprintf(text, sizeof(text), "primary %.80s:%u: %.150s", primary->node.host,
			primary->node.port, why);
	if (primary->cluster->refused)
		primary->cluster->refused(primary->cluster, &server->refusals, why ? text : NULL);
}

static void on_timer(struct deadline *deadline)
{
	struct cluster_primary *primary = CONTAINER_OF(deadline, struct cluster_primary, timer);

	if (primary->slots > 0)
		connect_to(primary);
}

/* ---- what their nodes say -------------------------------------------------------------------- */

static const char *on_informed(struct store_server *server, const char *info)
{
	struct cluster_primary *primary = CONTAINER_OF(server, struct cluster_primary, server);
	bool is_up;
	uint64_t epoch;

	cluster_map_read_info(info, &is_up, &epoch);
	if (!is_up)
		return "CLUSTERDOWN: it serves nothing now";
	if (!scout_knows(&primary->cluster->scout, epoch))
		return "it has missed a failover";
	return NULL;
}

static struct cluster_primary *find_or_add(
	struct cluster *cluster, const char *host, uint16_t port);

static void set_owner(struct cluster *cluster, uint16_t slot, struct cluster_primary *owner)
{
	struct cluster_primary *before = owner_of(cluster, slot);

	if (before)
		before->slots--;
	else
		cluster->unserved--;
	if (owner)
		owner->slots++;
	else
		cluster->unserved++;
	cluster->owners[slot] = owner ? (uint16_t)(owner->place + 1) : 0;
}

/* The slot has another owner than it was known to have, or none. */
static void move(struct cluster *cluster, uint16_t slot, struct cluster_primary *owner)
{
	set_owner(cluster, slot, owner);
	cluster->changed(cluster, NULL);
	look_within(cluster, MOVED_MS);
}

static bool delay(struct cluster *cluster, struct store_call *call)
{
	bool is_first = !cluster->delayed;

	append(&cluster->delayed_end, call);
	if (is_first) /* those after it do not make it wait longer */
		deadline_set(&cluster->delay, now_ms(cluster) + DELAY_MS, now_ms(cluster));
	return true;
}

static bool redirect_to(struct cluster *cluster, const struct cluster_primary *from,
	const struct redirect *redirect, struct store_call *call)
{
	struct cluster_primary *to = find_or_add(cluster, redirect->host, redirect->port);

	if (!to || to == from)
		return false;
	call->is_asking = redirect->kind == REDIRECT_ASK;
	if (redirect->kind == REDIRECT_MOVED)
		move(cluster, redirect->slot, to);
	return send_to(cluster, to, call);
}

static bool on_redirected(struct store_server *server, struct store_call *call, const char *error)
{
	struct cluster_primary *primary = CONTAINER_OF(server, struct cluster_primary, server);
	struct cluster *cluster = primary->cluster;
	struct redirect redirect;

	if (!redirect_read(&redirect, error, primary->node.host))
		return false;
	cluster->redirected(cluster, redirect.kind);
	if (redirect.kind == REDIRECT_DOWN) {
		redis_peer_drop(&server->peer, error);
		return false;
	}
	if (redirect.kind == REDIRECT_UNSERVED) {
		if (owner_of(cluster, call->slot) == primary)
			move(cluster, call->slot, NULL);
		return false;
	}
	if (now_ms(cluster) - call->begun_ms > cluster->where->timeout_ms)
		return false;
	call->is_asking = false;
	if (redirect.kind == REDIRECT_LATER) {
		call->redirects = 0;
		return delay(cluster, call);
	}
	return ++call->redirects <= REDIRECTS_MOST &&
	       redirect_to(cluster, primary, &redirect, call);
}

static void on_delay(struct deadline *deadline)
{
	struct cluster *cluster = CONTAINER_OF(deadline, struct cluster, delay);
	struct store_call *all = take_all(&cluster->delayed, &cluster->delayed_end), *next;

	for (struct store_call *call = all; call; call = next) {
		next = call->next;
		if (!send_to(cluster, owner_of(cluster, call->slot), call))
			call->answered(call, NULL, 0);
	}
}

/* ---- their list ------------------------------------------------------------------------------ */

static bool take_place(struct cluster *cluster, struct cluster_primary *primary)
{
	unsigned place = 0;

	while (place < cluster->count && cluster->primaries[place])
		place++;
	if (place == cluster->count) {
		if (place >= CLUSTER_NODES_MOST)
			return false;
		struct cluster_primary **primaries =
			realloc(cluster->primaries, (place + 1) * sizeof(struct cluster_primary *));
		if (!primaries)
			return false;
		cluster->primaries = primaries;
		cluster->count++;
	}
	primary->place = place;
	cluster->primaries[place] = primary;
	return true;
}

static struct cluster_primary *find_or_add(struct cluster *cluster, const char *host, uint16_t port)
{
	static const struct store_server_cluster calls = {on_informed, on_redirected};

	for (unsigned i = 0; i < cluster->count; i++) {
		struct cluster_primary *known = cluster->primaries[i];
		if (known && known->node.port == port && strcmp(known->node.host, host) == 0)
			return known;
	}
	struct cluster_primary *primary = calloc(1, sizeof(*primary));
	if (!primary || !take_place(cluster, primary)) {
		free(primary);
		return NULL;
	}
	primary->cluster = cluster;
	primary->backoff.random = cluster->backoff.random + (primary->place << 1);
	primary->waiting_end = &primary->waiting;
	snprintf(primary->node.host, sizeof(primary->node.host), "%s", host);
	primary->node.port = port;
	deadline_init(&primary->timer, cluster->loop->base, on_timer);
	store_server_init(&primary->server, cluster->loop, cluster->names, on_server_changed);
	primary->server.cluster = &calls;
	primary->server.refused = on_refused;
	return primary;
}

static void remove_primary(struct cluster *cluster, struct cluster_primary *primary)
{
	struct store_call *waiting = take_all(&primary->waiting, &primary->waiting_end);

	cluster->primaries[primary->place] = NULL;
	store_server_end(&primary->server);
	deadline_end(&primary->timer);
	free(primary);
	fail_all(waiting);
}

/* Those that have no slots, and nothing to answer. */
static void remove_unused(struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		struct cluster_primary *primary = cluster->primaries[i];
		if (primary && primary->slots == 0 && !primary->server.unanswered &&
			!primary->waiting)
			remove_primary(cluster, primary);
	}
}

/* ---- which slots they have ------------------------------------------------------------------- */

static void look(struct cluster *cluster)
{
	deadline_clear(&cluster->timer);
	cluster->is_due = false;
	scout_ask(&cluster->scout, cluster->where);
}

static void look_within(struct cluster *cluster, uint64_t wait_ms)
{
	uint64_t at_ms = now_ms(cluster) + wait_ms;

	if (at_ms < cluster->timer.at_ms)
		deadline_set(&cluster->timer, at_ms, now_ms(cluster));
}

/* After a while that grows until nothing is missing any more. */
static void look_later(struct cluster *cluster)
{
	look_within(cluster, backoff_next_ms(&cluster->backoff));
}

static void look_again(struct cluster *cluster)
{
	if (cluster->scout.is_asking)
		cluster->is_due = true;
	else
		look_later(cluster);
}

static void on_look(struct deadline *deadline)
{
	look(CONTAINER_OF(deadline, struct cluster, timer));
}

static void adopt(struct cluster *cluster, const struct cluster_map *map)
{
	struct cluster_primary **owners = calloc(map->count, sizeof(*owners));

	if (!owners)
		return;
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		unsigned node = map->owners[slot];
		if (node > 0 && !owners[node - 1])
			owners[node - 1] = find_or_add(
				cluster, map->nodes[node - 1].host, map->nodes[node - 1].port);
		set_owner(cluster, (uint16_t)slot, node > 0 ? owners[node - 1] : NULL);
	}
	free(owners);
}

static void on_found(struct scout *scout)
{
	struct cluster *cluster = CONTAINER_OF(scout, struct cluster, scout);

	adopt(cluster, &scout->map);
	remove_unused(cluster);
	connect_some(cluster);
	if (cluster_has_all(cluster) && !cluster->is_due)
		cluster->backoff.failures = 0;
	else
		look_later(cluster);
	cluster->is_due = false;
	cluster->changed(cluster, NULL);
}

static void on_not_found(struct scout *scout)
{
	struct cluster *cluster = CONTAINER_OF(scout, struct cluster, scout);
	bool is_first = cluster->backoff.failures == 0 && !cluster_has_any(cluster);

	cluster->is_due = false;
	look_later(cluster);
	cluster->changed(cluster, is_first ? scout->peer.why : NULL);
}

/* ---- as a whole ------------------------------------------------------------------------------ */

struct cluster *cluster_new(struct loop *loop, struct names *names, uint64_t seed,
	void (*changed)(struct cluster *cluster, const char *why),
	void (*redirected)(struct cluster *cluster, enum redirect_kind kind))
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	if (!cluster)
		return NULL;
	cluster->loop = loop;
	cluster->names = names;
	cluster->changed = changed;
	cluster->redirected = redirected;
	cluster->backoff.random = seed | 1;
	cluster->unserved = SLOTS;
	cluster->delayed_end = &cluster->delayed;
	scout_init(&cluster->scout, loop, names, (unsigned)(seed >> 8), on_found, on_not_found);
	deadline_init(&cluster->timer, loop->base, on_look);
	deadline_init(&cluster->delay, loop->base, on_delay);
	return cluster;
}

void cluster_free(struct cluster *cluster)
{
	if (!cluster)
		return;
	cluster_close(cluster);
	scout_end(&cluster->scout);
	deadline_end(&cluster->timer);
	deadline_end(&cluster->delay);
	free(cluster->primaries);
	free(cluster);
}

void cluster_open(struct cluster *cluster, struct store_where *where)
{
	cluster->where = where;
	cluster->backoff.failures = 0;
	look(cluster);
}

void cluster_close(struct cluster *cluster)
{
	deadline_clear(&cluster->timer);
	deadline_clear(&cluster->delay);
	scout_close(&cluster->scout);
	memset(cluster->owners, 0, sizeof(cluster->owners));
	cluster->unserved = SLOTS;
	for (unsigned i = 0; i < cluster->count; i++) {
		if (cluster->primaries[i])
			remove_primary(cluster, cluster->primaries[i]);
	}
	fail_all(take_all(&cluster->delayed, &cluster->delayed_end));
}

bool cluster_has_any(const struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		const struct cluster_primary *primary = cluster->primaries[i];
		if (primary && primary->slots > 0 && primary->server.is_ready)
			return true;
	}
	return false;
}

bool cluster_has_all(const struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		const struct cluster_primary *primary = cluster->primaries[i];
		if (primary && primary->slots > 0 && !primary->server.is_ready)
			return false;
	}
	return cluster->unserved == 0;
}

bool cluster_has(const struct cluster *cluster, uint16_t slot)
{
	const struct cluster_primary *owner = owner_of(cluster, slot);

	return owner && (owner->server.is_ready || !owner->was_lost);
}

/* ---- calls ----------------------------------------------------------------------------------- */

bool cluster_send(struct cluster *cluster, struct store_call *call)
{
	call->begun_ms = now_ms(cluster);
	call->redirects = 0;
	call->is_asking = false;
	return send_to(cluster, owner_of(cluster, call->slot), call);
}

void cluster_flush(struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		if (cluster->primaries[i])
			store_server_flush(&cluster->primaries[i]->server);
	}
}

static uint64_t oldest_of(const struct cluster_primary *primary)
{
	const struct store_call *first = primary->server.unanswered;

	first = first ? first : primary->waiting;
	return first ? first->sent_ms : UINT64_MAX;
}

uint64_t cluster_oldest_ms(const struct cluster *cluster, uint16_t slot)
{
	const struct cluster_primary *owner = owner_of(cluster, slot);

	return owner ? oldest_of(owner) : UINT64_MAX;
}

uint64_t cluster_oldest_of_all_ms(const struct cluster *cluster)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i < cluster->count; i++) {
		if (cluster->primaries[i] && oldest_of(cluster->primaries[i]) < oldest)
			oldest = oldest_of(cluster->primaries[i]);
	}
	return oldest;
}

void cluster_drop_silent(struct cluster *cluster, uint64_t before_ms, const char *why)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		struct cluster_primary *primary = cluster->primaries[i];
		if (primary && primary->server.unanswered && oldest_of(primary) <= before_ms)
			redis_peer_drop(&primary->server.peer, why);
	}
}

void cluster_describe(const struct cluster *cluster, FILE *out)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		const struct cluster_primary *primary = cluster->primaries[i];
		if (primary && primary->slots > 0)
			fprintf(out, "%s:%u %u %s\n", primary->node.host, primary->node.port,
				primary->slots, primary->server.is_ready ? "ready" : "away");
	}
}

/* ---- backoff -------------------------------------------------------------------------------- */

enum { FIRST_MS = 50, MOST_MS = 5000, DOUBLINGS_MOST = 7 };

static uint64_t next_random(struct backoff *backoff)
{
	/* xorshift64 (Marsaglia 2003) */
	backoff->random ^= backoff->random << 13;
	backoff->random ^= backoff->random >> 7;
	backoff->random ^= backoff->random << 17;
	return backoff->random;
}

uint64_t backoff_next_ms(struct backoff *backoff)
{
	unsigned doublings =
		backoff->failures < DOUBLINGS_MOST ? backoff->failures : DOUBLINGS_MOST;
	uint64_t most_ms = (uint64_t)FIRST_MS << doublings;

	if (most_ms > MOST_MS)
		most_ms = MOST_MS;
	backoff->failures++;
	return most_ms / 2 + next_random(backoff) % (most_ms / 2 + 1);
}
