#include "ownership/owner_use.h"

#include <stdlib.h>

#include "base/clock.h"
#include "ownership/owner_ask.h"
#include "ownership/owner_table.h"
#include "worker/worker.h"
#include "base/container.h"

static void enlist(struct owner_use *use)
{
	struct owner_use **at = &ownership_part(use->worker)->uses;

	use->next = *at;
	use->at = at;
	if (use->next)
		use->next->at = &use->next;
	*at = use;
}

static void delist(struct owner_use *use)
{
	*use->at = use->next;
	if (use->next)
		use->next->at = use->at;
}

/* Those that come now may be some more than that. */
static bool is_full(const struct owners *owners)
{
	/* relaxed: numbers alone */
	return atomic_load_explicit(&owners->count, memory_order_relaxed) >=
	       atomic_load_explicit(&owners->most, memory_order_relaxed);
}

enum owner_begun owner_begin(struct owners *owners, struct worker *worker, struct owner_use *use,
	struct session_key key, uint64_t idle_ms,
	void (*name)(struct owner_use *use, char out[OWNER_NAME_BYTES]))
{
	struct owner_stripe *stripe = owner_stripe_of(owners, key);
	char named[OWNER_NAME_BYTES];
	struct owner_session *session;

	pthread_mutex_lock(&stripe->lock);
	session = *owner_session_find(stripe, key);
	if (!session && is_full(owners)) {
		pthread_mutex_unlock(&stripe->lock);
		return OWNER_FULL;
	}
	if (!session) {
		name(use, named);
		session = owner_session_add(owners, stripe, key, named, clock_boot_ns());
	}
	if (session) {
		session->users++;
		session->idle_ns = idle_ms * CLOCK_NS_PER_MS;
	}
	pthread_mutex_unlock(&stripe->lock);
	if (!session)
		return OWNER_NO_MEMORY;
	use->session = session;
	use->worker = worker;
	use->wait = NULL;
	use->node = use->seen.node = NULL;
	use->fence = use->version = use->ends_ns = 0;
	enlist(use);
	return OWNER_BEGUN;
}

void owner_follow(struct owner_use *use)
{
	use->node = use->seen.node;
	use->fence = use->seen.fence;
	use->version = use->seen.version;
	use->ends_ns = use->seen.ends_ns;
}

void owner_end(struct owners *owners, struct owner_use *use)
{
	struct owner_session *session = use->session;

	if (!session)
		return;
	struct owner_stripe *stripe = owner_stripe_of(owners, session->key);
	owner_cancel(use);
	delist(use);
	use->session = NULL;
	pthread_mutex_lock(&stripe->lock);
	session->users--;
	if (session->side == OWNER_SIDE_HERE)
		session->used_ns = clock_boot_ns();
	owner_yield(owners, use->worker, session);
	pthread_mutex_unlock(&stripe->lock);
}

void owner_share(struct owners *owners, struct owner_use *to, const struct owner_use *from)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, from->session->key);

	pthread_mutex_lock(&stripe->lock);
	from->session->users++;
	pthread_mutex_unlock(&stripe->lock);
	to->session = from->session;
	to->worker = from->worker;
	to->node = to->seen.node = NULL;
	to->fence = from->fence;
	to->version = from->version;
	to->ends_ns = from->ends_ns;
	to->wait = NULL;
	enlist(to);
}

void owner_move(struct owner_use *to, struct owner_use *from)
{
	to->session = from->session;
	to->worker = from->worker;
	to->node = to->seen.node = from->node;
	to->fence = from->fence;
	to->version = from->version;
	to->ends_ns = from->ends_ns;
	to->wait = NULL;
	if (!to->session)
		return;
	delist(from);
	from->session = NULL;
	enlist(to);
}

/* As nearly always: nothing has happened to its owner since it followed. No lock is needed. */
static bool is_unchanged(const struct owner_use *use)
{
	/* acquire: pairs with the release in owner_session_become */
	return use->version == atomic_load_explicit(&use->session->version, memory_order_acquire);
}

bool owner_is_valid(struct owners *owners, const struct owner_use *use)
{
	const struct owner_session *session = use->session;
	uint64_t now_ns = clock_boot_ns();

	/* While its version stays, a lease ends no earlier than it was to: the store keeps the
	 * later of two ends. */
	if (!use->node && now_ns < use->ends_ns && is_unchanged(use))
		return true;
	struct owner_stripe *stripe = owner_stripe_of(owners, session->key);
	pthread_mutex_lock(&stripe->lock);
	bool is_here = session->side == OWNER_SIDE_HERE && session->fence == use->fence &&
		       now_ns < session->ends_ns;
	pthread_mutex_unlock(&stripe->lock);
	return is_here;
}

bool owner_is_same(struct owners *owners, const struct owner_use *use)
{
	if (is_unchanged(use))
		return true;
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);
	pthread_mutex_lock(&stripe->lock);
	const struct owner_session *session = use->session;
	bool is_same = use->node ? session->node == use->node : session->fence == use->fence;
	pthread_mutex_unlock(&stripe->lock);
	return is_same;
}

static bool is_to_move(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	if (use->node || !use->moves)
		return false;
	pthread_mutex_lock(&stripe->lock);
	bool moves = owner_session_moves(owners, use->session);
	pthread_mutex_unlock(&stripe->lock);
	return moves;
}

void owners_look_at_uses(struct owners *owners, struct worker *worker)
{
	struct owner_use *uses = ownership_part(worker)->uses, *use;

	/* Any of them may end with another: those to come are a list of their own meanwhile. */
	ownership_part(worker)->uses = NULL;
	if (uses)
		uses->at = &uses;
	while ((use = uses) != NULL) {
		delist(use);
		enlist(use);
		if (use->fence == 0)
			continue;
		if (!owner_is_same(owners, use))
			use->changed(use);
		else if (is_to_move(owners, use))
			use->moves(use);
		else if (use->lapsed && !use->node && !owner_is_valid(owners, use))
			use->lapsed(use);
	}
}

/* ---- owner line ----------------------------------------------------------------------------- */

void owner_line_deliver(struct owner_session *session)
{
	session->is_posted = session->first != NULL;
	if (session->first)
		message_post(&session->first->worker->loop, &session->first->message);
}

/* With the lock. */
static void take_out(struct owner_wait *wait)
{
	*wait->at = wait->next;
	if (wait->next)
		wait->next->at = wait->at;
	else
		wait->session->end = wait->at;
	free(wait);
}

static void on_answer(struct message *message)
{
	struct owner_wait *wait = CONTAINER_OF(message, struct owner_wait, message);
	struct owner_stripe *stripe = owner_stripe_of(wait->owners, wait->session->key);
	struct owner_session *session = wait->session;
	struct owner_use *use = wait->use;

	/* While anybody is in line, nothing is asked that would change what is noted. */
	pthread_mutex_lock(&stripe->lock);
	enum owner_sight sight = session->sight;
	if (use)
		owner_session_note(session, use);
	pthread_mutex_unlock(&stripe->lock);
	if (use) {
		use->wait = NULL;
		use->answered(use, sight);
	}
	pthread_mutex_lock(&stripe->lock);
	take_out(wait);
	owner_line_deliver(session);
	pthread_mutex_unlock(&stripe->lock);
}

bool owner_line_enter(struct owners *owners, struct owner_use *use)
{
	struct owner_session *session = use->session;
	struct owner_wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return false;
	wait->message.run = on_answer;
	wait->owners = owners;
	wait->session = session;
	wait->worker = use->worker;
	wait->use = use;
	use->wait = wait;
	wait->at = session->end;
	*session->end = wait;
	session->end = &wait->next;
	return true;
}

void owner_cancel(struct owner_use *use)
{
	struct owner_wait *wait = use->wait;

	if (!wait)
		return;
	use->wait = NULL;
	struct owner_session *session = wait->session;
	struct owner_stripe *stripe = owner_stripe_of(wait->owners, session->key);
	pthread_mutex_lock(&stripe->lock);
	if (session->is_posted && session->first == wait)
		wait->use = NULL; /* its message is under way */
	else
		take_out(wait);
	pthread_mutex_unlock(&stripe->lock);
}

void owner_line_free(struct owner_session *session)
{
	while (session->first) {
		struct owner_wait *wait = session->first;
		session->first = wait->next;
		free(wait);
	}
}
