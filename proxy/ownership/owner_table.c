#include "ownership/owner_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ownership/owner_nodes.h"
#include "ownership/owner_use.h"

struct owner_stripe *owner_stripe_of(struct owners *owners, struct session_key key)
{
	return &owners->stripes[key.word[1] & (OWNER_STRIPES - 1)];
}

struct owner_session **owner_session_find(struct owner_stripe *stripe, struct session_key key)
{
	struct owner_session **at = &stripe->buckets[key.word[0] & (stripe->bucket_count - 1)];

	while (*at && ((*at)->key.word[0] != key.word[0] || (*at)->key.word[1] != key.word[1]))
		at = &(*at)->next;
	return at;
}

/* Without memory it stays as it is. */
static void grow(struct owner_stripe *stripe)
{
	size_t count = 2 * stripe->bucket_count;
	struct owner_session **buckets = calloc(count, sizeof(*buckets)), *session;

	if (!buckets)
		return;
	for (size_t i = 0; i < stripe->bucket_count; i++) {
		while ((session = stripe->buckets[i]) != NULL) {
			stripe->buckets[i] = session->next;
			struct owner_session **at = &buckets[session->key.word[0] & (count - 1)];
			session->next = *at;
			*at = session;
		}
	}
	free(stripe->buckets);
	stripe->buckets = buckets;
	stripe->bucket_count = count;
}

static void enlist(struct owner_session *session, struct owner_session **at)
{
	session->next_due = *at;
	session->due_at = at;
	if (*at)
		(*at)->due_at = &session->next_due;
	*at = session;
}

void owner_session_make_due(struct owner_stripe *stripe, struct owner_session *session)
{
	enlist(session, &stripe->due);
}

void owner_session_unschedule(struct owner_session *session)
{
	*session->due_at = session->next_due;
	if (session->next_due)
		session->next_due->due_at = session->due_at;
}

void owner_session_schedule(
	struct owner_stripe *stripe, struct owner_session *session, uint64_t at_ns)
{
	uint64_t tick = at_ns / (OWNER_TICK_MS * CLOCK_NS_PER_MS) + 1;

	if (tick <= stripe->tick)
		tick = stripe->tick + 1;
	if (tick >= stripe->tick + OWNER_TICKS)
		tick = stripe->tick + OWNER_TICKS - 1;
	enlist(session, &stripe->ticks[tick % OWNER_TICKS]);
}

struct owner_session *owner_session_add(struct owners *owners, struct owner_stripe *stripe,
	struct session_key key, const char *name, uint64_t now_ns)
{
	struct owner_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	if (stripe->count == 0)
		stripe->tick = now_ns / (OWNER_TICK_MS * CLOCK_NS_PER_MS);
	if (stripe->count >= stripe->bucket_count)
		grow(stripe);
	session->key = key;
	snprintf(session->name, sizeof(session->name), "%s", name);
	session->end = &session->first;
	atomic_init(&session->version, 1);
	/* relaxed: what raised the mark of this key held this lock */
	atomic_init(&session->mark, atomic_load_explicit(&owners->marks, memory_order_relaxed));
	*owner_session_find(stripe, key) = session;
	stripe->count++;
	atomic_fetch_add_explicit(&owners->count, 1, memory_order_relaxed); /* a number alone */
	owner_session_schedule(stripe, session, now_ns + CLOCK_NS_PER_S / 10);
	return session;
}

void owner_session_become(struct owner_session *session, enum owner_side side,
	struct owner_node *node, uint64_t fence)
{
	bool changes = side != session->side || node != session->node || fence != session->fence;

	if (node)
		owner_node_hold(node);
	owner_node_drop(session->node);
	session->side = side;
	session->node = node;
	session->fence = fence;
	if (changes)
		/* release: pairs with the acquire in owner_is_same */
		atomic_fetch_add_explicit(&session->version, 1, memory_order_release);
}

void owner_session_free(struct owner_session *session)
{
	owner_node_drop(session->node);
	free(session->marks);
	free(session);
}

void owner_session_forget(
	struct owners *owners, struct owner_stripe *stripe, struct owner_session *session)
{
	struct owner_session **at = owner_session_find(stripe, session->key);

	*at = session->next;
	stripe->count--;
	atomic_fetch_sub_explicit(&owners->count, 1, memory_order_relaxed);
	owner_session_free(session);
}

void owner_session_note(const struct owner_session *session, struct owner_use *use)
{
	use->seen.node = session->node;
	use->seen.fence = session->fence;
	use->seen.ends_ns = session->ends_ns;
	/* relaxed: with the lock */
	use->seen.version = atomic_load_explicit(&session->version, memory_order_relaxed);
}

bool owner_session_yields(struct owners *owners, const struct owner_session *session)
{
	/* relaxed: a flag alone */
	return atomic_load_explicit(&owners->is_leaving, memory_order_relaxed) ||
	       session->self != owner_self(owners);
}

bool owner_session_moves(struct owners *owners, const struct owner_session *session)
{
	const struct owner_self *self = owner_self(owners);

	if (session->side != OWNER_SIDE_HERE)
		return false;
	/* relaxed: a flag alone */
	return atomic_load_explicit(&owners->is_replaced, memory_order_relaxed) || !self ||
	       (session->self != self &&
		       strcmp(strrchr(session->self->text, '/'), strrchr(self->text, '/')) != 0);
}

enum owner_sight owner_session_sight(const struct owner_session *session)
{
	switch (session->side) {
	case OWNER_SIDE_NOBODY:
		return OWNER_UNKNOWN;
	case OWNER_SIDE_HERE:
		return OWNER_HERE;
	case OWNER_SIDE_ELSEWHERE:
		return OWNER_ELSEWHERE;
	}
	return OWNER_UNKNOWN;
}
