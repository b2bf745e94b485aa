#include "ownership/owner_marks.h"

#include <stdlib.h>

#include "ownership/owner_table.h"

enum {
	FIRST_ROOM = 2,
	MARKS_MOST = 4096, /* processes that forward to one ownership */
};

uint64_t owner_mark(const struct owner_use *use)
{
	/* acquire: pairs with the release in owner_raise_mark */
	return atomic_load_explicit(&use->session->mark, memory_order_acquire);
}

void owner_raise_mark(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	/* relaxed: a number alone */
	uint64_t mark = atomic_fetch_add_explicit(&owners->marks, 1, memory_order_relaxed) + 1;
	/* release: pairs with the acquire in owner_mark */
	atomic_store_explicit(&use->session->mark, mark, memory_order_release);
	pthread_mutex_unlock(&stripe->lock);
}

/* With the lock. NULL: nothing came from it under this ownership. */
static struct owner_node_mark *find_mark(struct owner_session *session, uint64_t instance)
{
	for (unsigned i = 0; i < session->mark_count; i++) {
		if (session->marks[i].instance == instance)
			return &session->marks[i];
	}
	return NULL;
}

static bool add_mark(struct owner_session *session, uint64_t instance, uint64_t mark)
{
	if (session->mark_count == session->mark_room) {
		unsigned room = session->mark_room > 0 ? 2 * session->mark_room : FIRST_ROOM;
		struct owner_node_mark *marks =
			room > MARKS_MOST ? NULL : realloc(session->marks, room * sizeof(*marks));
		if (!marks)
			return false;
		session->marks = marks;
		session->mark_room = room;
	}
	session->marks[session->mark_count++] = (struct owner_node_mark){instance, mark};
	return true;
}

/* With the lock. None makes room for another: what its node has given up may still be on its way.
 * It is no more than that when the ownership ends: then it is refused by its fence. */
static bool take_mark(
	struct owner_session *session, uint64_t fence, uint64_t instance, uint64_t mark)
{
	if (fence < session->marks_fence)
		return false;
	if (fence > session->marks_fence) {
		session->marks_fence = fence;
		session->mark_count = 0;
	}
	struct owner_node_mark *kept = find_mark(session, instance);
	if (!kept)
		return add_mark(session, instance, mark);
	if (mark < kept->mark)
		return false;
	kept->mark = mark;
	return true;
}

bool owner_take_mark(
	struct owners *owners, const struct owner_use *use, uint64_t instance, uint64_t mark)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	bool is_taken = take_mark(use->session, use->fence, instance, mark);
	pthread_mutex_unlock(&stripe->lock);
	return is_taken;
}
