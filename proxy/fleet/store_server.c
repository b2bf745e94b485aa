#include "fleet/store_server.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "fleet/function_texts.h"
#include "fleet/redis_events.h"

static struct store_server *server_of(const struct redisAsyncContext *redis)
{
	struct redis_peer *peer = redis_peer_of(redis);

	return peer ? CONTAINER_OF(peer, struct store_server, peer) : NULL;
}

static bool is_error(const redisReply *reply, const char *kind)
{
	return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, kind, strlen(kind)) == 0;
}

/* ---- before it is ready ---------------------------------------------------------------------- */

static void on_selected(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_server *server = server_of(redis);

	(void)arg;
	if (server && answer && answer->type == REDIS_REPLY_ERROR)
		redis_peer_drop(&server->peer, answer->str);
}

/* A replica would answer, and lose what it was told. A user who may not ask is let pass: a replica
 * refuses calls of functions that write (READONLY). */
static void on_role(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_server *server = server_of(redis);

	(void)arg;
	if (!server || !answer || is_error(answer, "NOPERM"))
		return;
	if (answer->type == REDIS_REPLY_ERROR)
		redis_peer_drop(&server->peer, answer->str);
	else if (answer->type != REDIS_REPLY_ARRAY || answer->elements == 0 ||
		 answer->element[0]->type != REDIS_REPLY_STRING ||
		 strcmp(answer->element[0]->str, "master") != 0)
		redis_peer_drop(&server->peer, "it is no primary");
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
	struct store_server *server = server_of(redis);

	if (!server || !answer)
		return;
	if (!is_loaded(answer)) {
		redis_peer_drop(&server->peer, answer->str);
		return;
	}
	if (server->is_ready || !arg)
		return;
	redis_peer_entered(&server->peer);
	server->is_ready = true;
	server->changed(server);
}

/* The answer to the last of them makes it ready. */
static void load_functions(struct store_server *server)
{
	for (size_t i = 0; i < FUNCTION_TEXTS; i++)
		redisAsyncCommand(server->peer.redis, on_loaded,
			i + 1 == FUNCTION_TEXTS ? server : NULL, "FUNCTION LOAD %b",
			function_texts[i].text, function_texts[i].len);
}

static void on_entering(struct redis_peer *peer)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);

	if (server->database != 0)
		redisAsyncCommand(peer->redis, on_selected, NULL, "SELECT %u", server->database);
	redisAsyncCommand(peer->redis, on_role, NULL, "ROLE");
	load_functions(server);
}

static void on_lost(struct redis_peer *peer)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);

	server->is_ready = server->has_unsent = false;
	server->changed(server);
}

void store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server))
{
	static const struct redis_peer_calls calls = {on_entering, on_lost};

	*server = (struct store_server){.changed = changed};
	redis_peer_init(&server->peer, &calls, loop, names);
}

void store_server_open(struct store_server *server, const char *host, uint16_t port,
	const char *user, const char *password, uint32_t database)
{
	server->database = database;
	redis_peer_open(&server->peer, host, port, user, password);
}

void store_server_close(struct store_server *server)
{
	server->is_ready = server->has_unsent = false;
	redis_peer_close(&server->peer);
}

void store_server_end(struct store_server *server)
{
	store_server_close(server);
	redis_peer_end(&server->peer);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Redis says `ERR Function not found`; Valkey may say it otherwise. */
static bool is_unknown(const redisReply *answer)
{
	return answer->type == REDIS_REPLY_ERROR &&
	       (strstr(answer->str, "unction not found") || is_error(answer, "NOFUNCTION"));
}

/* It is no primary any more, or one that lacks its replicas. */
static bool is_of_role(const redisReply *answer)
{
	return is_error(answer, "READONLY") || is_error(answer, "MASTERDOWN") ||
	       is_error(answer, "LOADING");
}

static void note_error(struct store_server *server, const redisReply *answer)
{
	snprintf(server->peer.why, sizeof(server->peer.why), "%s",
		answer->type == REDIS_REPLY_ERROR ? answer->str : "not an answer");
}

static void on_answer(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_call *call = arg;
	struct store_server *server = server_of(redis);

	if (server && answer && is_unknown(answer) && !call->is_again) {
		/* It was flushed away, or the store has started again: nothing was done. */
		call->is_again = true;
		load_functions(server);
		if (store_server_send(server, call))
			return;
	}
	if (answer && answer->type == REDIS_REPLY_STRING) {
		call->answered(call, answer->str, answer->len);
		return;
	}
	if (server && answer)
		note_error(server, answer);
	call->answered(call, NULL, 0);
	server = server_of(redis);
	if (server && answer && is_of_role(answer))
		redis_peer_drop(&server->peer, answer->str);
}

bool store_server_send(struct store_server *server, struct store_call *call)
{
	if (!server->is_ready)
		return false;
	call->server = server;
	server->has_unsent = true;
	return redisAsyncFormattedCommand(
		       server->peer.redis, on_answer, call, call->command, call->len) == REDIS_OK;
}

void store_server_flush(struct store_server *server)
{
	bool has_unsent = server->has_unsent;

	server->has_unsent = false;
	if (has_unsent && server->is_ready)
		redis_events_flush(server->peer.redis);
}
