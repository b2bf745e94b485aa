#include "store/sentinel.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"

enum { HEAR_AGAIN_MS = 1000 };

static struct sentinel *sentinel_of(const struct redisAsyncContext *redis)
{
	struct redis_peer *peer = redis_peer_of(redis);

	return peer ? CONTAINER_OF(peer, struct sentinel, peer) : NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ask_next(struct sentinel *sentinel)
{
	const struct store_where *where = sentinel->where;
	const struct store_host *host = &where->hosts[sentinel->next++ % where->host_count];

	sentinel->left--;
	redis_peer_use_tls(&sentinel->peer, where->streams, where->tls, where->tls_has_name);
	redis_peer_open(&sentinel->peer, host->name, host->port, where->sentinel_user,
		where->sentinel_password);
}

static void ask_later(struct sentinel *sentinel)
{
	uint64_t now_ms = loop_now_ms(sentinel->peer.loop);

	deadline_clear(&sentinel->timer);
	deadline_set(&sentinel->timer, now_ms + HEAR_AGAIN_MS, now_ms);
}

/* The next is asked. When all were, or the one that is heard is lost, they are asked again later.
 */
static void on_lost(struct redis_peer *peer)
{
	struct sentinel *sentinel = CONTAINER_OF(peer, struct sentinel, peer);

	if (!sentinel->is_asking) {
		ask_later(sentinel);
	} else if (sentinel->left > 0) {
		ask_next(sentinel);
	} else {
		sentinel->is_asking = false;
		ask_later(sentinel);
		sentinel->failed(sentinel);
	}
}

static void on_timer(struct deadline *deadline)
{
	struct sentinel *sentinel = CONTAINER_OF(deadline, struct sentinel, timer);

	sentinel_ask(sentinel, sentinel->where);
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool is_text(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING;
}

/* Takes where the primary is; false when it is no place. */
static bool take_place(struct sentinel *sentinel, const char *host, size_t len, const char *port)
{
	char *end;
	unsigned long number = strtoul(port, &end, 10);

	if (len == 0 || len >= sizeof(sentinel->host) || end == port || number == 0 ||
		number > UINT16_MAX)
		return false;
	memcpy(sentinel->host, host, len);
	sentinel->host[len] = '\0';
	sentinel->port = (uint16_t)number;
	return true;
}

static void on_place(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct sentinel *sentinel = sentinel_of(redis);
	char why[160];

	(void)arg;
	if (!sentinel || !answer)
		return;
	if (answer->type == REDIS_REPLY_ARRAY && answer->elements == 2 &&
		is_text(answer->element[0]) && is_text(answer->element[1]) &&
		take_place(sentinel, answer->element[0]->str, answer->element[0]->len,
			answer->element[1]->str)) {
		redis_peer_entered(&sentinel->peer);
		sentinel->is_asking = false;
		sentinel->found(sentinel);
		return;
	}
	snprintf(why, sizeof(why), "Sentinel %.60s:%u: %.60s", sentinel->peer.host,
		sentinel->peer.port,
		answer->type == REDIS_REPLY_ERROR ? answer->str
						  : "it knows no primary of the name");
	redis_peer_drop(&sentinel->peer, why);
}

/* name old-host old-port new-host new-port */
static void take_switch(struct sentinel *sentinel, const char *text)
{
	const char *name = sentinel->where->sentinel, *at = text;
	size_t len = strlen(name);

	if (strncmp(text, name, len) != 0 || text[len] != ' ')
		return;
	for (int i = 0; i < 3 && at; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	const char *end = at ? strchr(at, ' ') : NULL;
	if (end && take_place(sentinel, at, (size_t)(end - at), end + 1))
		sentinel->found(sentinel);
}

static void on_report(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *report = reply;
	struct sentinel *sentinel = sentinel_of(redis);

	(void)arg;
	if (!sentinel || !report || report->type != REDIS_REPLY_ARRAY || report->elements != 3)
		return;
	if (is_text(report->element[0]) && strcmp(report->element[0]->str, "message") == 0 &&
		is_text(report->element[2]))
		take_switch(sentinel, report->element[2]->str);
}

static void on_entering(struct redis_peer *peer)
{
	struct sentinel *sentinel = CONTAINER_OF(peer, struct sentinel, peer);

	redisAsyncCommand(peer->redis, on_place, NULL, "SENTINEL get-master-addr-by-name %s",
		sentinel->where->sentinel);
	redisAsyncCommand(peer->redis, on_report, NULL, "SUBSCRIBE +switch-master");
}

/* ---- what others call ------------------------------------------------------------------------ */

void sentinel_init(struct sentinel *sentinel, struct loop *loop, struct names *names,
	void (*found)(struct sentinel *sentinel), void (*failed)(struct sentinel *sentinel))
{
	static const struct redis_peer_calls calls = {on_entering, on_lost};

	*sentinel = (struct sentinel){.found = found, .failed = failed};
	redis_peer_init(&sentinel->peer, &calls, loop, names);
	deadline_init(&sentinel->timer, loop->base, on_timer);
}

void sentinel_ask(struct sentinel *sentinel, const struct store_where *where)
{
	sentinel_close(sentinel);
	sentinel->where = where;
	sentinel->left = (unsigned)where->host_count;
	sentinel->is_asking = true;
	ask_next(sentinel);
}

void sentinel_close(struct sentinel *sentinel)
{
	deadline_clear(&sentinel->timer);
	redis_peer_close(&sentinel->peer);
	sentinel->is_asking = false;
}

void sentinel_end(struct sentinel *sentinel)
{
	sentinel_close(sentinel);
	redis_peer_end(&sentinel->peer);
	deadline_end(&sentinel->timer);
}
