#include "fleet/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"

enum {
	CLEAN_ANSWERS = 16, /* of a cluster, until no primary is taken to evict keys */
	SLOT_STEP = 5462,   /* to the next slot whose primary is asked: of three, to the next */
};

/* ---- INFO ------------------------------------------------------------------------------------ */

/* A line of it, and what is behind a name at its beginning. */
struct piece {
	const char *at, *end;
};

static bool next_line(struct piece *rest, struct piece *line)
{
	if (rest->at >= rest->end)
		return false;
	const char *newline = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
	line->at = rest->at;
	line->end = newline ? newline : rest->end;
	rest->at = newline ? newline + 1 : rest->end;
	if (line->end > line->at && line->end[-1] == '\r')
		line->end--;
	return true;
}

static bool skip(struct piece *piece, const char *text)
{
	size_t len = strlen(text);

	if ((size_t)(piece->end - piece->at) < len || memcmp(piece->at, text, len) != 0)
		return false;
	piece->at += len;
	return true;
}

/* Decimal digits to the end, or to a comma. */
static bool read_number(struct piece piece, uint64_t *number)
{
	*number = 0;
	if (piece.at == piece.end || *piece.at < '0' || *piece.at > '9')
		return false;
	for (; piece.at < piece.end && *piece.at >= '0' && *piece.at <= '9'; piece.at++) {
		if (*number > (UINT64_MAX - 9) / 10)
			return false;
		*number = *number * 10 + (uint64_t)(*piece.at - '0');
	}
	return piece.at == piece.end || *piece.at == ',';
}

/* The value of `name` in a line of "name=value,name=value". */
static bool find_value(struct piece line, const char *name, struct piece *value)
{
	while (line.at < line.end) {
		const char *comma = memchr(line.at, ',', (size_t)(line.end - line.at));
		struct piece field = {line.at, comma ? comma : line.end};
		if (skip(&field, name) && skip(&field, "=")) {
			*value = field;
			return true;
		}
		line.at = comma ? comma + 1 : line.end;
	}
	return false;
}

/* What is no character of an address is not repeated to anyone. */
static void write_address(struct health_replica *replica, struct piece host, struct piece port)
{
	snprintf(replica->address, sizeof(replica->address), "%.*s:%.*s", (int)(host.end - host.at),
		host.at, (int)(port.end - port.at), port.at);
	for (char *c = replica->address; *c; c++) {
		if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
			*c = '?';
	}
}

/* "slave0:ip=...,port=...,state=online,offset=...,lag=..." behind the colon. `behind_bytes` is its
 * offset until the primary's is known. */
static bool read_replica(struct piece line, struct health_replica *replica)
{
	struct piece host, port, state, offset, lag;

	*replica = (struct health_replica){0};
	if (!find_value(line, "ip", &host) || !find_value(line, "port", &port) ||
		!find_value(line, "offset", &offset) ||
		!read_number(offset, &replica->behind_bytes))
		return false;
	write_address(replica, host, port);
	replica->is_online = find_value(line, "state", &state) && skip(&state, "online") &&
			     state.at == state.end;
	if (find_value(line, "lag", &lag) && !read_number(lag, &replica->silent_s))
		replica->silent_s = 0;
	return true;
}

static bool read_slave(struct piece line, struct health_replica *replica)
{
	if (!skip(&line, "slave"))
		return false;
	while (line.at < line.end && *line.at >= '0' && *line.at <= '9')
		line.at++;
	return skip(&line, ":") && read_replica(line, replica);
}

/* What is no character of a policy's name is not repeated to anyone. */
static void write_policy(char *policy, struct piece value)
{
	snprintf(policy, HEALTH_POLICY_BYTES, "%.*s", (int)(value.end - value.at), value.at);
	for (char *c = policy; *c; c++) {
		if (*c != '-' && (*c < 'a' || *c > 'z'))
			*c = '?';
	}
}

static void read_eviction(struct piece rest, char *policy)
{
	uint64_t most = 0;
	struct piece line;

	policy[0] = '\0';
	while (next_line(&rest, &line)) {
		struct piece value = line;
		if (skip(&value, "maxmemory:") && !read_number(value, &most))
			most = 0;
		value = line;
		if (skip(&value, "maxmemory_policy:"))
			write_policy(policy, value);
	}
	if (most == 0 || strcmp(policy, "noeviction") == 0)
		policy[0] = '\0';
}

void health_read(const char *text, size_t len, struct health_sight *sight)
{
	struct piece rest = {text, text + len}, line;
	uint64_t offset = 0;

	sight->connected = sight->count = 0;
	read_eviction(rest, sight->eviction);
	while (next_line(&rest, &line)) {
		struct health_replica replica;
		struct piece value = line;
		if (skip(&value, "master_repl_offset:")) {
			if (!read_number(value, &offset))
				offset = 0;
			continue;
		}
		if (!read_slave(line, &replica))
			continue;
		sight->connected++;
		if (sight->count < HEALTH_REPLICAS)
			sight->replicas[sight->count++] = replica;
	}
	for (unsigned i = 0; i < sight->count; i++) {
		uint64_t *behind = &sight->replicas[i].behind_bytes;
		*behind = offset > *behind ? offset - *behind : 0;
	}
}

/* ---- what all threads see -------------------------------------------------------------------- */

void health_init(struct health *health)
{
	*health = (struct health){0};
	pthread_mutex_init(&health->lock, NULL);
}

void health_end(struct health *health)
{
	pthread_mutex_destroy(&health->lock);
}

void health_look(struct health *health, struct health_sight *sight)
{
	pthread_mutex_lock(&health->lock);
	*sight = health->sight;
	pthread_mutex_unlock(&health->lock);
}

/* ---- the first worker's part ----------------------------------------------------------------- */

static void warn(struct checking *checking, const char *policy)
{
	if (policy[0] && !checking->has_warned)
		log_warn("the store may evict keys (maxmemory-policy %s), and limits then admit "
			 "more, as what was counted vanishes; expected maxmemory-policy noeviction",
			policy);
	checking->has_warned = policy[0] != '\0';
}

/* One primary of a cluster has answered: the others may have another policy. */
static void keep_eviction(struct checking *checking, const struct health_sight *sight)
{
	struct health *health = checking->health;

	checking->clean = sight->eviction[0] ? 0 : checking->clean + 1;
	if (!sight->eviction[0] && checking->clean < CLEAN_ANSWERS)
		return;
	pthread_mutex_lock(&health->lock);
	health->sight = (struct health_sight){0};
	memcpy(health->sight.eviction, sight->eviction, sizeof(sight->eviction));
	pthread_mutex_unlock(&health->lock);
	warn(checking, sight->eviction);
}

static void on_answer(struct store_call *call, const char *bytes, size_t len)
{
	struct checking *checking = CONTAINER_OF(call, struct checking, call);
	const struct redis_peer *peer = &checking->store->server.peer;
	struct health_sight sight = {.answered_ns = clock_monotonic_ns()};

	checking->is_asked = false;
	if (!bytes)
		return;
	if (checking->store->cluster) {
		health_read(bytes, len, &sight);
		keep_eviction(checking, &sight);
		return;
	}
	sight.round_trip_ns = sight.answered_ns - checking->asked_ns;
	snprintf(sight.primary, sizeof(sight.primary), "%.70s:%u", peer->host, peer->port);
	health_read(bytes, len, &sight);
	pthread_mutex_lock(&checking->health->lock);
	checking->health->sight = sight;
	pthread_mutex_unlock(&checking->health->lock);
	warn(checking, sight.eviction);
}

void checking_init(struct checking *checking, struct health *health, struct store_link *store)
{
	static const char command[] = "*3\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n$6\r\nmemory\r\n";

	*checking = (struct checking){.health = health, .store = store};
	checking->call.command = command;
	checking->call.len = sizeof(command) - 1;
	checking->call.answered = on_answer;
	checking->call.is_lone = true;
	checking->call.may_fail = true;
}

void checking_ask(struct checking *checking)
{
	if (checking->is_asked)
		return;
	checking->call.is_again = false;
	checking->call.slot = (uint16_t)((checking->call.slot + SLOT_STEP) % SLOTS);
	checking->asked_ns = clock_monotonic_ns();
	checking->is_asked = store_link_send(checking->store, &checking->call);
}

void checking_renew(struct checking *checking)
{
	checking->has_warned = false;
}
