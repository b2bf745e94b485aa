#include "fleet/members.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"

/* ---- what all threads see -------------------------------------------------------------------- */

/* The machine's name, as far as a name can have it, and a random part. */
void members_init(struct members *members)
{
	char host[48] = "node";
	uint32_t drawn = 0;

	*members = (struct members){.process = clock_wall_ns() / 1000000};
	pthread_mutex_init(&members->lock, NULL);
	if (gethostname(host, sizeof(host) - 1) != 0)
		strcpy(host, "node");
	for (char *c = host; *c; c++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.", *c))
			*c = '-';
	}
	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		drawn = (uint32_t)(clock_monotonic_ns() ^ (uint64_t)getpid() << 16);
	snprintf(members->default_name, sizeof(members->default_name), "%s-%08x", host, drawn);
}

void members_end(struct members *members)
{
	pthread_mutex_destroy(&members->lock);
	free(members->lines);
	free(members->primaries);
}

/* FNV-1a (Fowler, Noll, Vo), over both with their NULs. */
uint64_t members_store_id(const char *store, const char *prefix)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = store;; c++) {
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
		if (!*c)
			break;
	}
	for (const char *c = prefix; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	return hash;
}

uint64_t members_epoch(struct members *members, uint64_t store, unsigned part)
{
	pthread_mutex_lock(&members->lock);
	uint64_t epoch = members->store == store ? members->epochs[part] : 0;
	pthread_mutex_unlock(&members->lock);
	return epoch;
}

void members_learn_epoch(struct members *members, uint64_t store, unsigned part, uint64_t epoch)
{
	pthread_mutex_lock(&members->lock);
	if (members->store != store)
		memset(members->epochs, 0, sizeof(members->epochs));
	members->store = store;
	members->epochs[part] = epoch;
	pthread_mutex_unlock(&members->lock);
}

void members_note_primaries(struct members *members, char *primaries)
{
	pthread_mutex_lock(&members->lock);
	free(members->primaries);
	members->primaries = primaries;
	pthread_mutex_unlock(&members->lock);
}

static void take_lines(struct joining *joining, const char *bytes, size_t len)
{
	struct members *members = joining->members;
	char *lines = strndup(bytes, len);
	unsigned count = len > 0;

	for (size_t i = 0; i < len; i++)
		count += bytes[i] == '\n';
	atomic_store_explicit(&members->count, count, memory_order_relaxed); /* a number alone */

	pthread_mutex_lock(&members->lock);
	if (lines) {
		free(members->lines);
		members->lines = lines;
		members->answered_ns = clock_monotonic_ns();
	}
	strcpy(members->name, joining->name);
	pthread_mutex_unlock(&members->lock);
}

/* ---- the first worker's part ----------------------------------------------------------------- */

static void renew_later(struct joining *joining)
{
	uint64_t now_ms = loop_now_ms(joining->loop);

	deadline_clear(&joining->timer);
	deadline_set(&joining->timer, now_ms + joining->lease_ms / 3, now_ms);
}

static void on_joined(struct store_call *call, const char *bytes, size_t len)
{
	struct joining *joining = CONTAINER_OF(call, struct joining, call);

	joining->is_asked = false;
	if (bytes)
		take_lines(joining, bytes, len);
	if (joining->after)
		joining->after(joining, bytes != NULL);
}

static bool compose(struct joining *joining, uint64_t lease_ms)
{
	char lease[24], process[24], key[192], process_key[192 + 1 + MEMBERS_NAME_BYTES];
	size_t prefix_len = strlen(joining->prefix);

	if (prefix_len > 128)
		return false;
	snprintf(key, sizeof(key), "%s{nodes}", joining->prefix);
	snprintf(process_key, sizeof(process_key), "%s:%s", key, joining->name);
	snprintf(lease, sizeof(lease), "%" PRIu64, lease_ms);
	snprintf(process, sizeof(process), "%" PRIu64, joining->members->process);
	int len = snprintf(joining->command, sizeof(joining->command),
		"*8\r\n$5\r\nFCALL\r\n$13\r\nsluice_join_1\r\n$1\r\n2\r\n$%zu\r\n%s\r\n"
		"$%zu\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
		strlen(key), key, strlen(process_key), process_key, strlen(joining->name),
		joining->name, strlen(lease), lease, strlen(process), process);
	joining->call = store_call_of(
		joining->command, (size_t)len, slot_of_key(key, strlen(key)), on_joined);
	joining->call.is_lone = true;
	return true;
}

void joining_go_on(struct joining *joining)
{
	joining->is_preparing = false;
	joining->asked_ms = loop_now_ms(joining->loop);
	joining->is_asked = store_link_send(joining->store, &joining->call);
	if (!joining->is_asked && joining->after)
		joining->after(joining, false);
}

/* Who leaves can't wait. */
static void call_store(struct joining *joining, uint64_t lease_ms, bool may_wait)
{
	if (joining->is_asked || !compose(joining, lease_ms) || (joining->is_preparing && may_wait))
		return;
	joining->is_preparing = joining->before && !joining->before(joining, may_wait);
	if (!joining->is_preparing)
		joining_go_on(joining);
}

static void on_timer(struct deadline *deadline)
{
	struct joining *joining = CONTAINER_OF(deadline, struct joining, timer);

	if (joining->store->state != STORE_READY)
		return; /* joining_begin, when it is again */
	call_store(joining, joining->lease_ms, true);
	renew_later(joining);
}

void joining_init(struct joining *joining, struct members *members, struct loop *loop,
	struct store_link *store)
{
	*joining = (struct joining){.members = members, .loop = loop, .store = store};
	deadline_init(&joining->timer, loop->base, on_timer);
}

void joining_begin(struct joining *joining, const char *prefix, const char *name, uint64_t lease_ms)
{
	snprintf(joining->name, sizeof(joining->name), "%s",
		name ? name : joining->members->default_name);
	joining->prefix = prefix;
	joining->lease_ms = lease_ms;
	call_store(joining, lease_ms, true);
	renew_later(joining);
}

void joining_leave(struct joining *joining)
{
	deadline_clear(&joining->timer);
	if (joining->name[0] && joining->store->state == STORE_READY)
		call_store(joining, 0, false);
}

void joining_end(struct joining *joining)
{
	deadline_end(&joining->timer);
}

/* ---- standing ------------------------------------------------------------------------------- */

/* Down only when it was so for a lease. */
static void follow(struct standing *standing, uint64_t asked_ms, uint64_t lease_ms, unsigned count)
{
	if (count >= standing->nodes) {
		standing->nodes = count;
		standing->fewer = 0;
		return;
	}
	if (standing->fewer == 0)
		standing->fewer_ms = asked_ms;
	if (count > standing->fewer)
		standing->fewer = count;
	if (asked_ms - standing->fewer_ms >= lease_ms) {
		standing->nodes = standing->fewer;
		standing->fewer = 0;
	}
}

unsigned standing_note(
	struct standing *standing, uint64_t asked_ms, uint64_t lease_ms, unsigned count)
{
	if (!standing->has_asked || asked_ms - standing->last_ms > lease_ms)
		standing->since_ms = asked_ms;
	standing->has_asked = true;
	standing->last_ms = asked_ms;
	if (asked_ms - standing->since_ms >= lease_ms)
		follow(standing, asked_ms, lease_ms, count);
	else if (standing->nodes > 0)
		standing->nodes = count > standing->nodes ? count : standing->nodes;
	else if (count == 1)
		standing->nodes = 1;
	return standing->nodes;
}
