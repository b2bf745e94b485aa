#include "store/store_server.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "store/function_texts.h"
#include "store/redis_events.h"

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
		redis_peer_drop(&server->peer, "it is not a primary");
}

/* A node of a cluster may serve nothing now. Without a cluster there is none to ask about. */
static void on_info(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_server *server = server_of(redis);
	char why[sizeof(server->peer.why)];

	(void)arg;
	if (!server || !answer || is_error(answer, "NOPERM"))
		return;
	if (answer->type != REDIS_REPLY_STRING && server->cluster) {
		snprintf(why, sizeof(why), "it is not a node of a Redis Cluster: %.80s",
			answer->type == REDIS_REPLY_ERROR ? answer->str : "no CLUSTER INFO");
		redis_peer_drop(&server->peer, why);
	} else if (answer->type == REDIS_REPLY_STRING) {
		const char *wrong =
			server->cluster ? server->cluster->informed(server, answer->str)
					: "it is a node of a Redis Cluster; expected cluster = on";
		if (wrong)
			redis_peer_drop(&server->peer, wrong);
	}
}

static void count_loaded(struct store_server *server)
{
	if (server->unloaded > 0 && --server->unloaded == 0 && !server->is_ready) {
		redis_peer_entered(&server->peer);
		server->is_ready = true;
		server->changed(server);
	}
}

/* The value behind a name in what FUNCTION LIST says of a library; NULL: there is none. */
static const redisReply *find_value(const redisReply *library, const char *name)
{
	for (size_t i = 0; i + 1 < library->elements; i += 2) {
		if (library->element[i]->type == REDIS_REPLY_STRING &&
			strcmp(library->element[i]->str, name) == 0)
			return library->element[i + 1];
	}
	return NULL;
}

/* Another function under our name would count in another way, or not at all. */
static void on_listed(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply, *code = NULL;
	const struct function_text *text = arg;
	struct store_server *server = server_of(redis);

	if (!server || !answer)
		return;
	if (answer->type == REDIS_REPLY_ARRAY && answer->elements == 1 &&
		answer->element[0]->type == REDIS_REPLY_ARRAY)
		code = find_value(answer->element[0], "library_code");
	if (is_error(answer, "NOPERM") ||
		(code && code->type == REDIS_REPLY_STRING && code->len == text->len &&
			memcmp(code->str, text->text, text->len) == 0))
		count_loaded(server);
	else
		redis_peer_drop(&server->peer,
			"it has another function under the name of one of this sluice's");
}

/* FUNCTION LIST of the library, whose first line has its name. */
static void compare(struct store_server *server, const struct function_text *text)
{
	const char *name = strchr(text->text, '=') + 1;
	size_t len = strcspn(name, "\n");

	redisAsyncCommand(server->peer.redis, on_listed, (void *)(uintptr_t)text,
		"FUNCTION LIST LIBRARYNAME %b WITHCODE", name, len);
	server->has_unsent = true;
}

/* Who may not load a function may still call one that another has loaded. */
static void on_loaded(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_server *server = server_of(redis);

	if (!server || !answer)
		return;
	if (is_error(answer, "NOPERM"))
		server->may_not_load = true;
	if (answer->type != REDIS_REPLY_ERROR || is_error(answer, "NOPERM"))
		count_loaded(server);
	else if (strstr(answer->str, "already exists"))
		compare(server, arg);
	else if (strstr(answer->str, "unknown command"))
		redis_peer_drop(&server->peer,
			"it has no functions; Redis 7 or later, or Valkey, is needed");
	else
		redis_peer_drop(&server->peer, answer->str);
}

static void load_functions(struct store_server *server)
{
	server->unloaded = FUNCTION_TEXTS;
	for (size_t i = 0; i < FUNCTION_TEXTS; i++)
		redisAsyncCommand(server->peer.redis, on_loaded,
			(void *)(uintptr_t)&function_texts[i], "FUNCTION LOAD %b",
			function_texts[i].text, function_texts[i].len);
}

/* ---- calls that it refuses, for people ------------------------------------------------------- */

static void report_refusal(struct store_server *server, const char *why)
{
	if (server->refused && (why || server->refusals.is_set))
		server->refused(server, why);
}

/* Redis says `ERR Function not found`; Valkey may say it otherwise. */
static bool is_unknown(const char *error)
{
	return strstr(error, "unction not found") || strncmp(error, "NOFUNCTION", 10) == 0;
}

static void report_error(
	struct store_server *server, const struct store_call *call, const char *error)
{
	char why[TROUBLE_BYTES];

	if (call->may_fail)
		return;
	if (is_unknown(error) && server->may_not_load)
		snprintf(why, sizeof(why),
			"a function is not there, and its user may not load it: %.100s", error);
	else
		snprintf(why, sizeof(why), "%.200s", error);
	report_refusal(server, why);
}

/* ---- its connection -------------------------------------------------------------------------- */

/* hiredis answers those that are left. */
static void forget_calls(struct store_server *server)
{
	server->unanswered = NULL;
	server->unanswered_end = &server->unanswered;
}

static void on_entering(struct redis_peer *peer)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);

	if (server->database != 0)
		redisAsyncCommand(peer->redis, on_selected, NULL, "SELECT %u", server->database);
	redisAsyncCommand(peer->redis, on_role, NULL, "ROLE");
	redisAsyncCommand(peer->redis, on_info, NULL, "CLUSTER INFO");
	load_functions(server);
}

static void on_lost(struct redis_peer *peer)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);

	server->is_ready = server->has_unsent = false;
	forget_calls(server);
	report_refusal(server, NULL);
	server->changed(server);
}

void store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server))
{
	static const struct redis_peer_calls calls = {on_entering, on_lost};

	*server = (struct store_server){.changed = changed};
	forget_calls(server);
	redis_peer_init(&server->peer, &calls, loop, names);
}

void store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where)
{
	server->database = where->database;
	server->quorum = where->quorum;
	server->quorum_ms = where->quorum_ms;
	server->may_not_load = false;
	redis_peer_use_tls(&server->peer, where->streams, where->tls, where->tls_has_name);
	redis_peer_open(&server->peer, host, port, where->user, where->password);
}

void store_server_close(struct store_server *server)
{
	server->is_ready = server->has_unsent = false;
	forget_calls(server);
	report_refusal(server, NULL);
	redis_peer_close(&server->peer);
}

void store_server_end(struct store_server *server)
{
	store_server_close(server);
	redis_peer_end(&server->peer);
	free(server->held);
	server->held = NULL;
	server->held_size = 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

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

/* It is among the first. */
static void remove_unanswered(struct store_server *server, struct store_call *call)
{
	struct store_call **at = &server->unanswered;

	while (*at && *at != call)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = call->next;
	if (server->unanswered_end == &call->next)
		server->unanswered_end = at;
}

/* The node has not done it, and the cluster looks after it. */
static bool redirect(struct store_server *server, struct store_call *call, const char *error)
{
	return server->cluster && server->cluster->redirected(server, call, error);
}

/* Sends it again if the function was flushed away, or the store has started again: nothing was
 * done. */
static bool send_again(
	struct store_server *server, struct store_call *call, const redisReply *answer)
{
	if (!server || !answer || answer->type != REDIS_REPLY_ERROR || !is_unknown(answer->str) ||
		call->is_again)
		return false;
	call->is_again = true;
	remove_unanswered(server, call);
	load_functions(server);
	call->is_awaited = server->quorum > 0 && !call->is_lone;
	if (store_server_send(server, call))
		return true;
	call->is_awaited = false;
	return false;
}

static void on_answer(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_call *call = arg;
	struct store_server *server = server_of(redis);

	if (send_again(server, call, answer))
		return;
	if (server)
		remove_unanswered(server, call);
	if (answer && answer->type == REDIS_REPLY_STRING) {
		if (server && !call->may_fail)
			report_refusal(server, NULL);
		call->answered(call, answer->str, answer->len);
		return;
	}
	if (server && answer)
		note_error(server, answer);
	if (server && answer && answer->type == REDIS_REPLY_ERROR &&
		redirect(server, call, answer->str))
		return;
	if (server && answer)
		report_error(server, call,
			answer->type == REDIS_REPLY_ERROR ? answer->str : "not an answer");
	call->answered(call, NULL, 0);
	server = server_of(redis);
	if (server && answer && is_of_role(answer))
		redis_peer_drop(&server->peer, answer->str);
}

/* ---- a quorum -------------------------------------------------------------------------------- */

/* Keeps the answer until that of WAIT, which comes next. */
static void hold(struct store_server *server, const redisReply *answer)
{
	server->has_held = server->held_is_error = false;
	if (answer->type != REDIS_REPLY_STRING)
		note_error(server, answer);
	if (answer->type != REDIS_REPLY_STRING && answer->type != REDIS_REPLY_ERROR)
		return;
	if (answer->len + 1 > server->held_size) {
		char *held = realloc(server->held, answer->len + 1);
		if (!held)
			return;
		server->held = held;
		server->held_size = answer->len + 1;
	}
	memcpy(server->held, answer->str, answer->len + 1);
	server->held_len = answer->len;
	server->has_held = answer->type == REDIS_REPLY_STRING;
	server->held_is_error = !server->has_held;
}

static void on_held_answer(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_server *server = server_of(redis);

	if (!server || !answer || send_again(server, arg, answer))
		return;
	hold(server, answer);
	if (is_of_role(answer))
		redis_peer_drop(&server->peer, answer->str);
}

/* One line for a run of them. */
static void note_replicas(struct store_server *server, long long replicas)
{
	bool lacks = replicas < (long long)server->quorum;

	if (lacks && !server->lacks_replicas)
		log_warn("store %s:%u: %lld replicas have confirmed the last writes, %u are needed",
			server->peer.host, server->peer.port, replicas, server->quorum);
	else if (!lacks && server->lacks_replicas)
		log_info("store %s:%u: enough replicas confirm writes again", server->peer.host,
			server->peer.port);
	server->lacks_replicas = lacks;
}

static void report_waited(
	struct store_server *server, const struct store_call *call, bool has, long long replicas)
{
	char why[80];

	snprintf(why, sizeof(why), "%lld replicas have confirmed the last writes, %u are needed",
		replicas, server->quorum);
	if (server->held_is_error)
		report_error(server, call, server->held);
	else
		report_refusal(server, has ? NULL : why);
}

static void on_waited(struct redisAsyncContext *redis, void *reply, void *arg)
{
	const redisReply *answer = reply;
	struct store_call *call = arg;
	struct store_server *server = server_of(redis);
	bool has = false;

	if (call->is_awaited) { /* of the first time that it was sent */
		call->is_awaited = false;
		return;
	}
	if (server)
		remove_unanswered(server, call);
	if (server && server->held_is_error && redirect(server, call, server->held))
		return;
	if (server && answer && answer->type == REDIS_REPLY_INTEGER) {
		note_replicas(server, answer->integer);
		has = server->has_held && answer->integer >= (long long)server->quorum;
		report_waited(server, call, has, answer->integer);
	}
	call->answered(call, has ? server->held : NULL, has ? server->held_len : 0);
}

bool store_server_send(struct store_server *server, struct store_call *call)
{
	bool waits = server->quorum > 0 && !call->is_lone;

	if (!server->is_ready ||
		(call->is_asking &&
			redisAsyncCommand(server->peer.redis, NULL, NULL, "ASKING") != REDIS_OK) ||
		redisAsyncFormattedCommand(server->peer.redis, waits ? on_held_answer : on_answer,
			call, call->command, call->len) != REDIS_OK)
		return false;
	if (waits)
		redisAsyncCommand(server->peer.redis, on_waited, call, "WAIT %u %u", server->quorum,
			server->quorum_ms);
	server->has_unsent = true;
	call->next = NULL;
	*server->unanswered_end = call;
	server->unanswered_end = &call->next;
	return true;
}

void store_server_flush(struct store_server *server)
{
	bool has_unsent = server->has_unsent;

	server->has_unsent = false;
	if (has_unsent && server->peer.redis)
		redis_events_flush(server->peer.redis);
}

/* ---- trouble -------------------------------------------------------------------------------- */

void trouble_init(struct trouble *trouble)
{
	*trouble = (struct trouble){0};
	pthread_mutex_init(&trouble->lock, NULL);
}

void trouble_end(struct trouble *trouble)
{
	pthread_mutex_destroy(&trouble->lock);
}

/* The store's words may be any bytes. */
static void write_why(struct trouble *trouble, const char *why)
{
	snprintf(trouble->why, sizeof(trouble->why), "%s", why);
	for (char *c = trouble->why; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
}

void trouble_note(
	struct trouble *trouble, struct trouble_mark *mark, const char *why, uint64_t now_ns)
{
	if (!why && !mark->is_set)
		return;
	pthread_mutex_lock(&trouble->lock);
	if (why && !mark->is_set && trouble->count++ == 0)
		trouble->since_ns = now_ns;
	if (!why)
		trouble->count--;
	if (why)
		write_why(trouble, why);
	mark->is_set = why != NULL;
	pthread_mutex_unlock(&trouble->lock);
}

void trouble_look(struct trouble *trouble, struct trouble_sight *sight)
{
	pthread_mutex_lock(&trouble->lock);
	*sight = (struct trouble_sight){.count = trouble->count, .since_ns = trouble->since_ns};
	memcpy(sight->why, trouble->why, sizeof(sight->why));
	pthread_mutex_unlock(&trouble->lock);
}
