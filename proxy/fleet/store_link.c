#include "fleet/store_link.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "fleet/function_texts.h"
#include "fleet/redis_events.h"

enum { CONNECT_MS = 1000, WAIT_FIRST_MS = 50, WAIT_MOST_MS = 5000 };

/* ---- states ---------------------------------------------------------------------------------- */

static void note_failure(struct store_link *store, const char *why)
{
	snprintf(store->why, sizeof(store->why), "%s", why && *why ? why : "connection closed");
}

static uint64_t next_random(struct store_link *store)
{
	/* xorshift64 (Marsaglia 2003) */
	store->random ^= store->random << 13;
	store->random ^= store->random >> 7;
	store->random ^= store->random << 17;
	return store->random;
}

/* Half of a time that doubles, and a random part of the other half: nodes that lost the store at
 * once do not come back at once. */
static void wait_to_connect(struct store_link *store)
{
	unsigned doublings = store->failures < 7 ? store->failures : 7;
	uint64_t most_ms = (uint64_t)WAIT_FIRST_MS << doublings;
	uint64_t now_ms = loop_now_ms(store->loop);

	if (most_ms > WAIT_MOST_MS)
		most_ms = WAIT_MOST_MS;
	store->failures++;
	deadline_clear(&store->timer);
	deadline_set(&store->timer, now_ms + most_ms / 2 + next_random(store) % (most_ms / 2 + 1),
		now_ms);
}

/* The connection is gone: hiredis frees it, or did. */
static void lose(struct store_link *store, const char *why)
{
	bool was_ready = store->state == STORE_READY;

	note_failure(store, why);
	store->redis = NULL;
	store->state = STORE_WAITING;
	bool is_first = was_ready || store->failures == 0;
	wait_to_connect(store);
	if (is_first)
		store->changed(store);
}

void store_link_drop(struct store_link *store, const char *why)
{
	struct redisAsyncContext *redis = store->redis;

	if (!redis)
		return;
	redis->data = NULL;
	lose(store, why);
	redisAsyncFree(redis);
}

/* ---- what hiredis reports -------------------------------------------------------------------- */

static struct store_link *store_of(const struct redisAsyncContext *redis)
{
	return redis->data;
}

static void on_connect(const struct redisAsyncContext *redis, int status)
{
	struct store_link *store = store_of(redis);

	if (status != REDIS_OK && store)
		lose(store, redis->errstr);
}

static void on_disconnect(const struct redisAsyncContext *redis, int status)
{
	struct store_link *store = store_of(redis);

	if (store)
		lose(store, status == REDIS_OK ? NULL : redis->errstr);
}

static bool is_error(const redisReply *reply, const char *kind)
{
	return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, kind, strlen(kind)) == 0;
}

/* AUTH and SELECT, without which nothing works. */
static void on_entry(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_link *store = store_of(redis);

	(void)arg;
	if (store && answer && answer->type == REDIS_REPLY_ERROR)
		store_link_drop(store, answer->str);
}

/* Who may not load a function may still call one that another has loaded. */
static bool is_loaded(const redisReply *answer)
{
	return answer->type != REDIS_REPLY_ERROR || strstr(answer->str, "already exists") ||
	       is_error(answer, "NOPERM");
}

static void on_loaded(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_link *store = store_of(redis);

	if (!store || !answer)
		return;
	if (!is_loaded(answer)) {
		store_link_drop(store, answer->str);
		return;
	}
	if (store->state != STORE_CONNECTING || !arg)
		return;
	deadline_clear(&store->timer);
	store->state = STORE_READY;
	store->failures = 0;
	store->changed(store);
}

/* The answer to the last of them makes it READY. */
static void load_function(struct store_link *store)
{
	for (size_t i = 0; i < FUNCTION_TEXTS; i++)
		redisAsyncCommand(store->redis, on_loaded, i + 1 == FUNCTION_TEXTS ? store : NULL,
			"FUNCTION LOAD %b", function_texts[i].text, function_texts[i].len);
}

/* Redis says `ERR Function not found`; Valkey may say it otherwise. */
static bool is_unknown(const redisReply *answer)
{
	return answer->type == REDIS_REPLY_ERROR &&
	       (strstr(answer->str, "unction not found") || is_error(answer, "NOFUNCTION"));
}

static void on_answer(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_call *call = arg;
	struct store_link *store = store_of(redis);

	if (store && answer && is_unknown(answer) && !call->is_again) {
		/* It was flushed away, or the store has started again: nothing was done. */
		call->is_again = true;
		load_function(store);
		if (store_link_send(store, call))
			return;
	}
	if (answer && answer->type == REDIS_REPLY_STRING) {
		call->answered(call, answer->str, answer->len);
		return;
	}
	if (store && answer)
		note_failure(
			store, answer->type == REDIS_REPLY_ERROR ? answer->str : "not an answer");
	call->answered(call, NULL, 0);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void enter(struct store_link *store)
{
	struct redisAsyncContext *redis = store->redis;

	if (store->password && store->user)
		redisAsyncCommand(
			redis, on_entry, NULL, "AUTH %s %s", store->user, store->password);
	else if (store->password)
		redisAsyncCommand(redis, on_entry, NULL, "AUTH %s", store->password);
	if (store->database != 0)
		redisAsyncCommand(redis, on_entry, NULL, "SELECT %u", store->database);
	load_function(store);
}

static void connect_store(struct store_link *store)
{
	struct redisAsyncContext *redis = redisAsyncConnect(store->host, store->port);
	uint64_t now_ms = loop_now_ms(store->loop);

	if (!redis || redis->err || !redis_events_attach(redis, store->loop->base)) {
		lose(store, redis && redis->err ? redis->errstr : strerror(ENOMEM));
		if (redis)
			redisAsyncFree(redis);
		return;
	}
	redis->data = store;
	store->redis = redis;
	store->state = STORE_CONNECTING;
	deadline_clear(&store->timer);
	deadline_set(&store->timer, now_ms + CONNECT_MS, now_ms);
	redisAsyncSetConnectCallback(redis, on_connect);
	redisAsyncSetDisconnectCallback(redis, on_disconnect);
	enter(store);
}

static void on_timer(struct deadline *deadline)
{
	struct store_link *store = CONTAINER_OF(deadline, struct store_link, timer);

	if (store->state == STORE_WAITING)
		connect_store(store);
	else if (store->state == STORE_CONNECTING)
		store_link_drop(store, "no answer to a connection");
}

void store_link_init(struct store_link *store, struct loop *loop, uint64_t seed,
	void (*changed)(struct store_link *store))
{
	*store = (struct store_link){.loop = loop, .random = seed | 1, .changed = changed};
}

static bool copy(char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	return *to || !text;
}

bool store_link_open(struct store_link *store, const struct conf_fleet *conf)
{
	const struct conf_store *to = &conf->store;
	char host[INET6_ADDRSTRLEN + 1];
	const struct sockaddr_storage *address = &to->address.socket;
	const void *bytes = address->ss_family == AF_INET
				    ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
				    : &((const struct sockaddr_in6 *)address)->sin6_addr;

	assert(store->state == STORE_OFF);
	inet_ntop(address->ss_family, bytes, host, sizeof(host));
	store->port = to->address.port;
	store->database = to->database;
	if (!copy(&store->host, host) || !copy(&store->user, to->user) ||
		!copy(&store->password, conf->password ? conf->password : to->password)) {
		store_link_close(store);
		return false;
	}
	store->failures = 0;
	deadline_init(&store->timer, store->loop->base, on_timer);
	connect_store(store);
	return true;
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool store_link_is_of(const struct store_link *store, const struct conf_fleet *conf)
{
	const struct conf_store *to = &conf->store;
	const struct sockaddr_storage *address = &to->address.socket;
	struct in6_addr bytes = {0};
	size_t len = address->ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(bytes);
	const void *wanted =
		address->ss_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)address)->sin_addr
			: &((const struct sockaddr_in6 *)address)->sin6_addr;

	return store->state != STORE_OFF && to->text &&
	       inet_pton(address->ss_family, store->host, &bytes) == 1 &&
	       memcmp(&bytes, wanted, len) == 0 && store->port == to->address.port &&
	       store->database == to->database && same(store->user, to->user) &&
	       same(store->password, conf->password ? conf->password : to->password);
}

void store_link_close(struct store_link *store)
{
	struct redisAsyncContext *redis = store->redis;
	bool had_timer = store->state != STORE_OFF;

	store->redis = NULL;
	store->state = STORE_OFF;
	if (redis) {
		redis->data = NULL;
		redisAsyncFree(redis);
	}
	if (had_timer)
		deadline_end(&store->timer);
	free(store->host);
	free(store->user);
	free(store->password);
	store->host = store->user = store->password = NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

bool store_link_send(struct store_link *store, struct store_call *call)
{
	if (store->state != STORE_READY)
		return false;
	call->store = store;
	store->has_unsent = true;
	return redisAsyncFormattedCommand(
		       store->redis, on_answer, call, call->command, call->len) == REDIS_OK;
}

void store_link_flush(struct store_link *store)
{
	bool has_unsent = store->has_unsent;

	store->has_unsent = false;
	if (has_unsent && store->state == STORE_READY)
		redis_events_flush(store->redis);
}
