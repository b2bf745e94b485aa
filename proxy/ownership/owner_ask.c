#include "ownership/owner_ask.h"

#include <string.h>

#include "base/clock.h"
#include "ownership/owner_use.h"
#include "ownership/owner_nodes.h"
#include "ownership/owner_table.h"
#include "worker/worker.h"

/* So long after a failure what is to be given up is asked to be once more, and twice as long after
 * each further one, so many times. */
#define GIVE_AGAIN_MS  UINT64_C(100)
#define GIVE_DOUBLINGS 4

/* So much less than the lease a node believes to have it: what two clocks may differ in. */
static uint64_t sure_ns(uint64_t lease_ms)
{
	return (lease_ms - lease_ms / 16) * CLOCK_NS_PER_MS;
}

static uint64_t bit_of(const struct worker *worker)
{
	return UINT64_C(1) << (worker->index & 63);
}

bool owner_is_starting(struct owners *owners, const struct worker *worker, uint64_t now_ns)
{
	/* relaxed: a flag alone */
	return now_ns < owners->born_ns + OWNER_START_MS * CLOCK_NS_PER_MS &&
	       !(atomic_load_explicit(&owners->has_asked, memory_order_relaxed) & bit_of(worker));
}

/* With the lock. What is taken again has a new fence, whatever the store remembers: one that has
 * lost its last writes may name this node by a fence after which another has owned the session. */
static uint64_t dropped_fence(const struct owners *owners, const struct owner_session *session)
{
	/* relaxed: a number alone */
	return session->side == OWNER_SIDE_HERE
		       ? session->fence - 1
		       : atomic_load_explicit(&owners->fence, memory_order_relaxed);
}

static void note_fence(struct owners *owners, uint64_t fence)
{
	/* relaxed: see dropped_fence */
	uint64_t highest = atomic_load_explicit(&owners->fence, memory_order_relaxed);

	while (highest < fence && !atomic_compare_exchange_weak_explicit(&owners->fence, &highest,
					  fence, memory_order_relaxed, memory_order_relaxed))
		;
}

bool owner_ask(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, uint64_t now_ns)
{
	/* One that was asked for and not answered may still be done: before it is known to be, what
	 * is taken would be taken from us again. */
	if (session->is_giving)
		verb = OWNER_GIVE;
	if (session->side != OWNER_SIDE_HERE)
		session->self = owner_self(owners);
	/* relaxed: a setting */
	session->lease_ms = atomic_load_explicit(&owners->lease_ms, memory_order_relaxed);
	const struct owner_question question = {.session = session,
		.verb = verb,
		.name = session->name,
		.self = session->self ? session->self->text : "",
		.fence = verb == OWNER_TAKE ? dropped_fence(owners, session) : session->fence,
		.lease_ms = session->lease_ms};
	session->is_asked = session->self && owners->store->ask(worker, &question);
	session->asked_ns = now_ns;
	if (session->is_asked)
		/* relaxed: a flag alone */
		atomic_fetch_or_explicit(&owners->has_asked, bit_of(worker), memory_order_relaxed);
	/* Whatever the answer, or without one: another may have it from now on. */
	if (session->is_asked && verb == OWNER_GIVE) {
		session->ends_ns = 0;
		/* Those who use it look at that, too. release: see owner_session_become */
		atomic_fetch_add_explicit(&session->version, 1, memory_order_release);
		session->is_giving = true;
	}
	return session->is_asked;
}

/* Others may wait for what was to be given up, and was not: it is looked after soon, and then less
 * and less often, as the part of the store that has it may stay away. */
static void give_again(struct owners *owners, struct owner_session *session)
{
	uint64_t wait_ns = (GIVE_AGAIN_MS * CLOCK_NS_PER_MS) << session->failed_gives;

	if (session->failed_gives < GIVE_DOUBLINGS)
		session->failed_gives++;
	owner_session_unschedule(session);
	owner_session_schedule(
		owner_stripe_of(owners, session->key), session, clock_boot_ns() + wait_ns);
}

void owner_yield(struct owners *owners, struct worker *worker, struct owner_session *session)
{
	if (session->side == OWNER_SIDE_HERE && session->users == 0 && !session->first &&
		!session->is_asked && owner_session_yields(owners, session) &&
		!owner_ask(owners, worker, session, OWNER_GIVE, clock_boot_ns()))
		give_again(owners, session);
}

static bool is_believed(const struct owner_session *session, uint64_t now_ns)
{
	switch (session->side) {
	case OWNER_SIDE_NOBODY:
		return false;
	case OWNER_SIDE_HERE:
		return now_ns < session->ends_ns;
	case OWNER_SIDE_ELSEWHERE:
		return now_ns < session->ends_ns && now_ns < session->used_ns + session->idle_ns;
	}
	return false;
}

/* With the lock. OWNER_PENDING: it is to wait in line. */
static enum owner_sight see(struct owners *owners, struct owner_use *use, enum owner_belief belief)
{
	struct owner_session *session = use->session;
	uint64_t now_ns = clock_boot_ns();

	if (session->first)
		return OWNER_PENDING;
	/* Also while it is being renewed: the store may take its time, the lease is in hand. */
	if (belief != OWNER_ASK && is_believed(session, now_ns)) {
		session->used_ns = now_ns;
		owner_session_note(session, use);
		return owner_session_sight(session);
	}
	if (session->is_asked)
		return OWNER_PENDING;
	/* Of what the process before this one owns the next request is to wait here. relaxed: a
	 * flag alone */
	if (belief == OWNER_ASK_OWN && session->side != OWNER_SIDE_HERE &&
		!atomic_load_explicit(&owners->has_predecessor, memory_order_relaxed))
		return OWNER_ELSEWHERE;
	if (owner_ask(owners, use->worker, session, OWNER_TAKE, now_ns))
		return OWNER_PENDING;
	session->awaits = owner_is_starting(owners, use->worker, now_ns);
	return session->awaits ? OWNER_PENDING : OWNER_UNKNOWN;
}

enum owner_sight owner_look(struct owners *owners, struct owner_use *use, enum owner_belief belief)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	enum owner_sight sight = see(owners, use, belief);
	if (sight == OWNER_PENDING && !owner_line_enter(owners, use))
		sight = OWNER_UNKNOWN;
	pthread_mutex_unlock(&stripe->lock);
	return sight;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void hold(struct owner_session *session, const struct owner_answer *answer)
{
	uint64_t lease_ms = session->lease_ms;

	if (session->side != OWNER_SIDE_HERE)
		session->used_ns = session->asked_ns;
	owner_session_become(session, OWNER_SIDE_HERE, NULL, answer->fence);
	session->ends_ns = session->asked_ns + sure_ns(lease_ms);
	session->renew_ns = session->asked_ns + lease_ms / 3 * CLOCK_NS_PER_MS;
}

static void lose(struct owner_session *session)
{
	owner_session_become(session, OWNER_SIDE_NOBODY, NULL, 0);
}

static void leave_to(struct owner_session *session, struct owner_node *node,
	const struct owner_answer *answer, uint64_t now_ns)
{
	owner_session_become(session, OWNER_SIDE_ELSEWHERE, node, answer->fence);
	session->used_ns = now_ns;
	session->ends_ns = session->asked_ns + answer->left_ms * CLOCK_NS_PER_MS;
	session->renew_ns = now_ns + answer->left_ms * CLOCK_NS_PER_MS;
}

/* Does the owner have the address of this node? Then it is the process before this one, and what is
 * forwarded there comes back; or, in that, the one behind it. */
static bool is_predecessor(struct owners *owners, const char *node)
{
	const struct owner_self *self = owner_self(owners);
	const char *address = strrchr(node, '/');

	/* relaxed: a flag alone */
	return self && address && strcmp(address, strrchr(self->text, '/')) == 0 &&
	       !atomic_load_explicit(&owners->is_replaced, memory_order_relaxed);
}

/* True: those who wait are to be told by another answer. */
static bool take_answer(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, const struct owner_answer *answer, struct owner_node *node,
	bool waits)
{
	uint64_t now_ns = clock_boot_ns();

	session->is_asked = false;
	if (verb == OWNER_GIVE && answer->is_known) {
		session->is_giving = false;
		session->failed_gives = 0;
	}
	session->awaits = waits && answer->is_known && session->first != NULL;
	if (!session->awaits)
		session->asks_again = 0;
	if (!answer->is_known)
		session->sight = OWNER_UNKNOWN;
	else if (verb == OWNER_GIVE)
		lose(session);
	else if (answer->is_held)
		hold(session, answer);
	else if (verb == OWNER_TAKE && node)
		leave_to(session, node, answer, now_ns);
	else
		lose(session);
	if (answer->is_known)
		session->sight = owner_session_sight(session);
	if (session->awaits)
		return true;
	return session->first && answer->is_known && verb != OWNER_TAKE &&
	       session->side == OWNER_SIDE_NOBODY &&
	       owner_ask(owners, worker, session, OWNER_TAKE, now_ns);
}

void owners_answer(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, const struct owner_answer *answer)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, session->key);
	bool waits = verb == OWNER_TAKE && answer->node && is_predecessor(owners, answer->node);
	struct owner_node *node =
		answer->node && !waits ? owner_node_get(owners, answer->node) : NULL;

	if (answer->is_known)
		note_fence(owners, answer->fence);
	pthread_mutex_lock(&stripe->lock);
	uint64_t fence = session->fence;
	enum owner_side side = session->side;
	const struct owner_node *before = session->node;
	if (!take_answer(owners, worker, session, verb, answer, node, waits))
		owner_line_deliver(session);
	/* Without an answer a later sweep asks again: at once it would be without end, where the
	 * part of the store that has it is away. */
	if (answer->is_known)
		owner_yield(owners, worker, session);
	else if (session->is_giving && !session->is_asked)
		give_again(owners, session);
	bool is_other = side != OWNER_SIDE_NOBODY && session->users > 0 &&
			(session->fence != fence || session->node != before);
	pthread_mutex_unlock(&stripe->lock);
	owner_node_drop(node);
	if (is_other)
		node_command_workers(worker->node, WORKER_OWNERS);
}
