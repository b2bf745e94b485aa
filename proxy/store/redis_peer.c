#include "store/redis_peer.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "net/tls_bridge.h"
#include "net/tls_client.h"
#include "store/redis_events.h"

/* ---- the end --------------------------------------------------------------------------------- */

static void close_bridge(struct redis_peer *peer)
{
	tls_bridge_close(peer->bridge);
	peer->bridge = NULL;
}

void redis_peer_close(struct redis_peer *peer)
{
	struct redisAsyncContext *redis = peer->redis;

	if (!peer->is_open)
		return;
	peer->is_open = false;
	peer->redis = NULL;
	deadline_clear(&peer->timer);
	if (peer->lookup)
		names_cancel(peer->lookup);
	peer->lookup = NULL;
	if (redis) {
		redis->data = NULL;
		redisAsyncFree(redis);
	}
	close_bridge(peer);
}

/* hiredis has freed the connection, or is about to. */
static void lose(struct redis_peer *peer, const char *why)
{
	const char *more = peer->bridge ? tls_bridge_why(peer->bridge) : NULL;

	why = more ? more : why;
	snprintf(peer->why, sizeof(peer->why), "%s", why && *why ? why : "connection closed");
	peer->redis = NULL;
	redis_peer_close(peer);
	peer->calls->lost(peer);
}

void redis_peer_drop(struct redis_peer *peer, const char *why)
{
	struct redisAsyncContext *redis = peer->redis;

	if (!peer->is_open)
		return;
	if (redis)
		redis->data = NULL;
	lose(peer, why);
	if (redis)
		redisAsyncFree(redis);
}

struct redis_peer *redis_peer_of(const struct redisAsyncContext *redis)
{
	return redis->data;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void connect_next(struct redis_peer *peer);

/* Reports a failure from the loop. */
static void fail_later(struct redis_peer *peer, const char *why)
{
	uint64_t now_ms = loop_now_ms(peer->loop);

	snprintf(peer->why, sizeof(peer->why), "%s", why);
	deadline_clear(&peer->timer);
	deadline_set(&peer->timer, now_ms, now_ms);
}

/* hiredis frees the connection, which could not be made. */
static void try_next(struct redis_peer *peer, const char *why)
{
	peer->redis->data = NULL;
	if (peer->next >= peer->tried_count) {
		lose(peer, why);
		return;
	}
	peer->redis = NULL;
	close_bridge(peer);
	connect_next(peer);
}

static void on_connect(const struct redisAsyncContext *redis, int status)
{
	struct redis_peer *peer = redis_peer_of(redis);

	if (!peer || status == REDIS_OK)
		return;
	try_next(peer, redis->errstr);
}

static void on_disconnect(const struct redisAsyncContext *redis, int status)
{
	struct redis_peer *peer = redis_peer_of(redis);

	if (!peer)
		return;
	if (peer->bridge && !tls_bridge_is_up(peer->bridge))
		try_next(peer, redis->errstr);
	else
		lose(peer, status == REDIS_OK ? NULL : redis->errstr);
}

static void on_let_in(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct redis_peer *peer = redis_peer_of(redis);

	(void)arg;
	if (peer && answer && answer->type == REDIS_REPLY_ERROR)
		redis_peer_drop(peer, answer->str);
}

static void enter(struct redis_peer *peer)
{
	if (peer->password && peer->user)
		redisAsyncCommand(
			peer->redis, on_let_in, NULL, "AUTH %s %s", peer->user, peer->password);
	else if (peer->password)
		redisAsyncCommand(peer->redis, on_let_in, NULL, "AUTH %s", peer->password);
	peer->calls->enter(peer);
}

/* hiredis's descriptor is that of a bridge from now on; to it, it is connected. */
static bool encrypt(struct redis_peer *peer, struct redisAsyncContext *redis)
{
	struct tls_client *before = peer->tls;

	if (!peer->tls_settings)
		return true;
	peer->tls = peer->tls_has_name ? tls_client_hold(peer->tls_settings)
				       : tls_client_for(peer->tls_settings, peer->host, before);
	tls_client_release(before);
	if (peer->tls)
		peer->bridge = tls_bridge_open(peer->streams, peer->tls, redis->c.fd);
	redis->c.flags |= REDIS_CONNECTED;
	return peer->bridge != NULL;
}

/* To the next of its addresses. */
static void connect_next(struct redis_peer *peer)
{
	const struct sockaddr_storage *to =
		&peer->tried[(peer->first + peer->next++) % peer->tried_count];
	const void *bytes = to->ss_family == AF_INET
				    ? (const void *)&((const struct sockaddr_in *)to)->sin_addr
				    : &((const struct sockaddr_in6 *)to)->sin6_addr;
	char host[INET6_ADDRSTRLEN];

	inet_ntop(to->ss_family, bytes, host, sizeof(host));
	struct redisAsyncContext *redis = redisAsyncConnect(host, peer->port);
	if (redis && !redis->err)
		redisEnableKeepAlive(&redis->c);
	if (!redis || redis->err || !encrypt(peer, redis) ||
		!redis_events_attach(redis, peer->loop->base)) {
		fail_later(peer, redis && redis->err ? redis->errstr : strerror(ENOMEM));
		if (redis)
			redisAsyncFree(redis);
		return;
	}
	redis->data = peer;
	peer->redis = redis;
	redisAsyncSetConnectCallback(redis, on_connect);
	redisAsyncSetDisconnectCallback(redis, on_disconnect);
	enter(peer);
}

/* ---- its name -------------------------------------------------------------------------------- */

static void add_tried(struct redis_peer *peer, const struct sockaddr *address, size_t len)
{
	bool is_known = address->sa_family == AF_INET || address->sa_family == AF_INET6;

	if (!is_known || peer->tried_count == REDIS_TRIED_MOST || len > sizeof(peer->tried[0]))
		return;
	memcpy(&peer->tried[peer->tried_count++], address, len);
}

static void on_found(void *ctx, const char *why, const struct addrinfo *list)
{
	struct redis_peer *peer = ctx;
	char text[sizeof(peer->why)];

	peer->lookup = NULL;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		add_tried(peer, a->ai_addr, a->ai_addrlen);
	if (peer->tried_count > 0) {
		connect_next(peer);
		return;
	}
	snprintf(text, sizeof(text), "host %.80s: %s", peer->host, why ? why : "no address");
	redis_peer_drop(peer, text);
}

static bool take_literal(struct redis_peer *peer)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, peer->host, &four.sin_addr) == 1)
		add_tried(peer, (const struct sockaddr *)&four, sizeof(four));
	else if (inet_pton(AF_INET6, peer->host, &six.sin6_addr) == 1)
		add_tried(peer, (const struct sockaddr *)&six, sizeof(six));
	return peer->tried_count > 0;
}

void redis_peer_open(struct redis_peer *peer, const char *host, uint16_t port, const char *user,
	const char *password)
{
	uint64_t now_ms = loop_now_ms(peer->loop);

	assert(!peer->is_open);
	if (host != peer->host)
		snprintf(peer->host, sizeof(peer->host), "%s", host);
	peer->port = port;
	peer->user = user;
	peer->password = password;
	peer->is_open = true;
	peer->tried_count = peer->next = 0;
	peer->why[0] = '\0';
	deadline_clear(&peer->timer);
	deadline_set(&peer->timer, now_ms + REDIS_CONNECT_MS, now_ms);
	if (take_literal(peer)) {
		connect_next(peer);
		return;
	}
	peer->lookup = names_look_up(peer->names, peer->host, on_found, peer);
	if (!peer->lookup)
		fail_later(peer, strerror(ENOMEM));
}

static void on_timer(struct deadline *deadline)
{
	struct redis_peer *peer = CONTAINER_OF(deadline, struct redis_peer, timer);
	char why[sizeof(peer->why)];

	peer->first++; /* another address next time */
	snprintf(why, sizeof(why), "%s", peer->why[0] ? peer->why : "no answer to a connection");
	redis_peer_drop(peer, why);
}

void redis_peer_init(struct redis_peer *peer, const struct redis_peer_calls *calls,
	struct loop *loop, struct names *names)
{
	*peer = (struct redis_peer){.calls = calls, .loop = loop, .names = names};
	deadline_init(&peer->timer, loop->base, on_timer);
}

void redis_peer_entered(struct redis_peer *peer)
{
	deadline_clear(&peer->timer);
}

void redis_peer_end(struct redis_peer *peer)
{
	redis_peer_close(peer);
	deadline_end(&peer->timer);
	tls_client_release(peer->tls);
	peer->tls = NULL;
}

void redis_peer_use_tls(struct redis_peer *peer, struct stream_loop *streams,
	struct tls_client *settings, bool has_name)
{
	peer->streams = streams;
	peer->tls_settings = settings;
	peer->tls_has_name = has_name;
}
