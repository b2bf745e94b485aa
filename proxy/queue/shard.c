/* shard: table, free list and idle lists of a part of the sessions. See shard.h. */
#include "queue/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS  16u
#define FIRST_SESSIONS 2u  /* of a shard; then as many more as there are, */
#define MORE_SESSIONS  32u /* at most so many at a time */

int shard_init(struct shard *shard)
{
	memset(shard, 0, sizeof(*shard));
	shard->buckets = calloc(FIRST_BUCKETS, sizeof(*shard->buckets));
	if (shard->buckets == NULL)
		return -1;
	if (pthread_mutex_init(&shard->mutex, NULL) != 0) {
		free(shard->buckets);
		return -1;
	}
	shard->mask = FIRST_BUCKETS - 1;
	atomic_init(&shard->deadline_ns, QUEUE_NEVER);
	return 0;
}

void shard_free(struct shard *shard)
{
	struct session_chunk *chunk = shard->chunks;

	while (chunk != NULL) {
		struct session_chunk *next = chunk->next;
		free(chunk);
		chunk = next;
	}
	free(shard->buckets);
	pthread_mutex_destroy(&shard->mutex);
}

/* ---- table ---------------------------------------------------------------------------------- */

struct session *shard_find(struct shard *shard, struct session_key key)
{
	struct session *session = shard->buckets[key.word[0] & shard->mask];

	while (session != NULL &&
		(session->key.word[0] != key.word[0] || session->key.word[1] != key.word[1]))
		session = session->hash_next;
	return session;
}

/* Doubles the buckets. Without memory the chains just get longer. */
static __attribute__((noinline)) void grow(struct shard *shard)
{
	uint64_t old_buckets = shard->mask + 1, mask = old_buckets * 2 - 1;
	struct session **buckets = calloc(mask + 1, sizeof(struct session *));

	if (buckets == NULL)
		return;
	for (uint64_t i = 0; i < old_buckets; i++) {
		struct session *session = shard->buckets[i];
		while (session != NULL) {
			struct session *next = session->hash_next;
			struct session **bucket = &buckets[session->key.word[0] & mask];
			session->hash_next = *bucket;
			*bucket = session;
			session = next;
		}
	}
	free(shard->buckets);
	shard->buckets = buckets;
	shard->mask = mask;
}

static __attribute__((noinline)) int add_chunk(struct shard *shard)
{
	size_t count = shard->sessions < FIRST_SESSIONS ? FIRST_SESSIONS : shard->sessions;

	if (count > MORE_SESSIONS)
		count = MORE_SESSIONS;
	struct session_chunk *chunk = malloc(sizeof(*chunk) + count * sizeof(chunk->sessions[0]));
	if (chunk == NULL)
		return -1;
	chunk->next = shard->chunks;
	shard->chunks = chunk;
	for (size_t i = 0; i < count; i++) {
		chunk->sessions[i].idle_next = shard->free;
		shard->free = &chunk->sessions[i];
	}
	return 0;
}

struct session *shard_open(struct shard *shard, struct session_key key)
{
	struct session *session, **bucket;

	if (shard->free == NULL && add_chunk(shard) != 0)
		return NULL;
	if (shard->sessions > shard->mask)
		grow(shard);
	session = shard->free;
	shard->free = session->idle_next;

	memset(session, 0, sizeof(*session));
	session->key = key;
	bucket = &shard->buckets[key.word[0] & shard->mask];
	session->hash_next = *bucket;
	*bucket = session;
	shard->sessions++;
	return session;
}

void shard_release(struct shard *shard, struct session *session)
{
	struct session **link = &shard->buckets[session->key.word[0] & shard->mask];

	assert(session_is_empty(session) && session->idle_class == 0);
	while (*link != session)
		link = &(*link)->hash_next;
	*link = session->hash_next;
	session->idle_next = shard->free;
	shard->free = session;
	shard->sessions--;
}

/* ---- idle lists ----------------------------------------------------------------------------- */

/* The list of this idle time; an empty one is retaken, a full house shares. */
static unsigned find_idle_list(struct shard *shard, uint64_t idle_ns)
{
	unsigned empty = SHARD_IDLE_LISTS, longer = SHARD_IDLE_LISTS, longest = 0;

	for (unsigned i = 0; i < shard->idle_lists; i++) {
		const struct idle_list *list = &shard->idle[i];
		if (list->idle_ns == idle_ns)
			return i;
		if (list->head == NULL)
			empty = i;
		if (list->idle_ns > idle_ns &&
			(longer == SHARD_IDLE_LISTS || list->idle_ns < shard->idle[longer].idle_ns))
			longer = i;
		if (list->idle_ns > shard->idle[longest].idle_ns)
			longest = i;
	}
	if (shard->idle_lists < SHARD_IDLE_LISTS)
		empty = shard->idle_lists++;
	if (empty < SHARD_IDLE_LISTS) {
		shard->idle[empty] = (struct idle_list){.idle_ns = idle_ns};
		return empty;
	}
	return longer < SHARD_IDLE_LISTS ? longer : longest;
}

bool shard_idle_start(struct shard *shard, struct session *session, uint64_t now_ns)
{
	unsigned index = find_idle_list(shard, (uint64_t)session->idle_ms * 1000000);
	struct idle_list *list = &shard->idle[index];

	assert(session->idle_class == 0);
	session->idle_class = (uint8_t)(index + 1);
	session->idle_deadline_ns = now_ns + list->idle_ns;
	session->idle_next = NULL;
	session->idle_prev = list->tail;
	if (list->tail != NULL)
		list->tail->idle_next = session;
	else
		list->head = session;
	list->tail = session;
	shard->counts.idle_sessions++;

	/* Only a session at the head of its list can be the first to be over. The comparison pairs
	 * with nothing: all writers hold the mutex. */
	if (list->head != session ||
		session->idle_deadline_ns >=
			atomic_load_explicit(&shard->deadline_ns, memory_order_relaxed))
		return false;
	/* Pairs with the scan in queue_expire: see deadline.c. */
	atomic_store_explicit(&shard->deadline_ns, session->idle_deadline_ns, memory_order_seq_cst);
	return true;
}

void shard_idle_stop(struct shard *shard, struct session *session)
{
	struct idle_list *list;

	if (session->idle_class == 0)
		return;
	list = &shard->idle[session->idle_class - 1];
	if (session->idle_prev != NULL)
		session->idle_prev->idle_next = session->idle_next;
	else
		list->head = session->idle_next;
	if (session->idle_next != NULL)
		session->idle_next->idle_prev = session->idle_prev;
	else
		list->tail = session->idle_prev;
	session->idle_class = 0;
	shard->counts.idle_sessions--;
}

struct session *shard_idle_oldest(struct shard *shard)
{
	struct session *oldest = NULL;

	for (unsigned i = 0; i < shard->idle_lists; i++) {
		struct session *head = shard->idle[i].head;
		if (head != NULL &&
			(oldest == NULL || head->idle_deadline_ns < oldest->idle_deadline_ns))
			oldest = head;
	}
	return oldest;
}

/* Few writes wait for reads at any time, and not for long: no order is kept. */
static struct session *first_held(const struct shard *shard)
{
	struct session *first = shard->held;

	for (struct session *session = first; session != NULL; session = session->idle_next) {
		if (session->idle_deadline_ns < first->idle_deadline_ns)
			first = session;
	}
	return first;
}

static void refresh_deadline(struct shard *shard)
{
	const struct session *oldest = shard_idle_oldest(shard), *held = first_held(shard);
	uint64_t deadline_ns = oldest != NULL ? oldest->idle_deadline_ns : QUEUE_NEVER;

	if (held != NULL && held->idle_deadline_ns < deadline_ns)
		deadline_ns = held->idle_deadline_ns;
	/* Pairs with the scan in queue_expire. */
	atomic_store_explicit(&shard->deadline_ns, deadline_ns, memory_order_seq_cst);
}

struct session *shard_idle_due(struct shard *shard, uint64_t now_ns)
{
	struct session *oldest = shard_idle_oldest(shard);

	if (oldest != NULL && oldest->idle_deadline_ns <= now_ns)
		return oldest;
	refresh_deadline(shard);
	return NULL;
}

/* ---- held sessions -------------------------------------------------------------------------- */

bool shard_hold_start(struct shard *shard, struct session *session, uint64_t deadline_ns)
{
	assert(session->idle_class == 0 && !session->held);
	session->held = true;
	session->idle_deadline_ns = deadline_ns;
	session->idle_prev = NULL;
	session->idle_next = shard->held;
	if (session->idle_next != NULL)
		session->idle_next->idle_prev = session;
	shard->held = session;
	/* The comparison pairs with nothing: all writers hold the mutex. */
	if (deadline_ns >= atomic_load_explicit(&shard->deadline_ns, memory_order_relaxed))
		return false;
	/* Pairs with the scan in queue_expire: see deadline.c. */
	atomic_store_explicit(&shard->deadline_ns, deadline_ns, memory_order_seq_cst);
	return true;
}

void shard_hold_stop(struct shard *shard, struct session *session)
{
	assert(session->held);
	session->held = false;
	if (session->idle_prev != NULL)
		session->idle_prev->idle_next = session->idle_next;
	else
		shard->held = session->idle_next;
	if (session->idle_next != NULL)
		session->idle_next->idle_prev = session->idle_prev;
}

struct session *shard_hold_due(struct shard *shard, uint64_t now_ns)
{
	struct session *first = first_held(shard);

	if (first != NULL && first->idle_deadline_ns <= now_ns) {
		shard_hold_stop(shard, first);
		return first;
	}
	refresh_deadline(shard);
	return NULL;
}
