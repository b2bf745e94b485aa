#include "store/scout.h"

#include <hiredis/async.h>
#include <stdio.h>

#include "base/container.h"

static struct scout *scout_of(const struct redisAsyncContext *redis)
{
	struct redis_peer *peer = redis_peer_of(redis);

	return peer ? CONTAINER_OF(peer, struct scout, peer) : NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static unsigned count_of(const struct scout *scout)
{
	return (unsigned)scout->where->host_count + scout->map.count;
}

static void ask_next(struct scout *scout)
{
	const struct store_where *where = scout->where;
	unsigned place = scout->next++ % count_of(scout);

	scout->left--;
	redis_peer_use_tls(&scout->peer, where->streams, where->tls, where->tls_has_name);
	if (place < where->host_count) {
		const struct store_host *host = &where->hosts[place];
		redis_peer_open(&scout->peer, host->name, host->port, where->user, where->password);
		return;
	}
	const struct cluster_node *node = &scout->map.nodes[place - where->host_count];
	redis_peer_open(&scout->peer, node->host, node->port, where->user, where->password);
}

static void on_lost(struct redis_peer *peer)
{
	struct scout *scout = CONTAINER_OF(peer, struct scout, peer);

	if (scout->left > 0) {
		ask_next(scout);
		return;
	}
	scout->is_asking = false;
	if (scout->is_late)
		scout->epoch = 0; /* all of them know an older one: it has been made again */
	scout->failed(scout);
}

bool scout_knows(struct scout *scout, uint64_t epoch)
{
	if (epoch < scout->epoch)
		return false;
	scout->epoch = epoch;
	return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void drop(struct scout *scout, const char *what)
{
	char why[sizeof(scout->peer.why)];

	snprintf(why, sizeof(why), "%.70s:%u: %.70s", scout->peer.host, scout->peer.port, what);
	redis_peer_drop(&scout->peer, why);
}

static void on_info(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct scout *scout = scout_of(redis);
	bool is_up;
	uint64_t epoch;

	(void)arg;
	if (!scout || !answer || answer->type != REDIS_REPLY_STRING)
		return; /* what is wrong is said of CLUSTER SLOTS, too */
	cluster_map_read_info(answer->str, &is_up, &epoch);
	if (scout_knows(scout, epoch))
		return;
	scout->is_late = true;
	drop(scout, "it has missed a failover");
}

static void on_slots(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct scout *scout = scout_of(redis);
	struct cluster_map map = {0};

	(void)arg;
	if (!scout || !answer)
		return;
	if (answer->type == REDIS_REPLY_ERROR) {
		drop(scout, answer->str);
	} else if (!cluster_map_read(&map, answer, scout->peer.host) || map.count == 0) {
		drop(scout, "it knows no slots");
	} else {
		cluster_map_clear(&scout->map);
		scout->map = map;
		scout->is_asking = false;
		scout->left = 0;
		redis_peer_close(&scout->peer);
		scout->found(scout);
	}
}

static void on_entering(struct redis_peer *peer)
{
	redisAsyncCommand(peer->redis, on_info, NULL, "CLUSTER INFO");
	redisAsyncCommand(peer->redis, on_slots, NULL, "CLUSTER SLOTS");
}

void scout_init(struct scout *scout, struct loop *loop, struct names *names, unsigned first,
	void (*found)(struct scout *scout), void (*failed)(struct scout *scout))
{
	static const struct redis_peer_calls calls = {on_entering, on_lost};

	*scout = (struct scout){.next = first, .found = found, .failed = failed};
	redis_peer_init(&scout->peer, &calls, loop, names);
}

void scout_ask(struct scout *scout, const struct store_where *where)
{
	if (scout->is_asking)
		return;
	scout->where = where;
	scout->is_asking = true;
	scout->is_late = false;
	scout->left = count_of(scout);
	ask_next(scout);
}

void scout_close(struct scout *scout)
{
	scout->is_asking = false;
	scout->left = 0;
	redis_peer_close(&scout->peer);
	cluster_map_clear(&scout->map);
}

void scout_end(struct scout *scout)
{
	scout_close(scout);
	redis_peer_end(&scout->peer);
}
