#include "exchange/owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/container.h"
#include "exchange/owners_inside.h"
#include "worker/worker.h"

enum { FIRST_BUCKETS = 16 };

/* So much less than the lease a node believes to have it: what two clocks may differ in. */
static uint64_t sure_ns(uint64_t lease_ms)
{
	return (lease_ms - lease_ms / 16) * CLOCK_NS_PER_MS;
}

/* ---- the table ---------------------------------------------------------------------------------
 */

static struct owner_stripe *stripe_of(struct owners *owners, struct session_key key)
{
	return &owners->stripes[key.word[1] & (OWNER_STRIPES - 1)];
}

static struct owner_session **place_of(struct owner_stripe *stripe, struct session_key key)
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

/* In the list of the tick in which `at_ns` comes, or of the last one that there is. */
static void schedule(struct owner_stripe *stripe, struct owner_session *session, uint64_t at_ns)
{
	uint64_t tick = at_ns / (OWNER_TICK_MS * CLOCK_NS_PER_MS) + 1;

	if (tick <= stripe->tick)
		tick = stripe->tick + 1;
	if (tick >= stripe->tick + OWNER_TICKS)
		tick = stripe->tick + OWNER_TICKS - 1;
	session->next_due = stripe->ticks[tick % OWNER_TICKS];
	stripe->ticks[tick % OWNER_TICKS] = session;
}

static struct owner_session *add(struct owners *owners, struct owner_stripe *stripe,
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
	session->mark = now_ns;
	*place_of(stripe, key) = session;
	stripe->count++;
	atomic_fetch_add_explicit(&owners->count, 1, memory_order_relaxed); /* a number alone */
	schedule(stripe, session, now_ns + CLOCK_NS_PER_S / 10);
	return session;
}

struct owners *owners_new(const struct owner_store *store, struct upstream_states *states)
{
	struct owners *owners = aligned_alloc(64, sizeof(*owners));
	bool good = owners != NULL;

	if (!owners)
		return NULL;
	memset(owners, 0, sizeof(*owners));
	owners->store = store;
	owners->states = states;
	pthread_mutex_init(&owners->lock, NULL);
	if (getrandom(&owners->instance, sizeof(owners->instance), 0) != sizeof(owners->instance))
		owners->instance = clock_wall_ns();
	for (size_t i = 0; i < OWNER_STRIPES; i++) {
		struct owner_stripe *stripe = &owners->stripes[i];
		pthread_mutex_init(&stripe->lock, NULL);
		stripe->bucket_count = FIRST_BUCKETS;
		stripe->buckets = calloc(FIRST_BUCKETS, sizeof(struct owner_session *));
		good = good && stripe->buckets;
	}
	if (good)
		return owners;
	owners_free(owners);
	return NULL;
}

static void free_session(struct owner_session *session)
{
	while (session->first) {
		struct owner_wait *wait = session->first;
		session->first = wait->next;
		free(wait);
	}
	free(session);
}

void owners_free(struct owners *owners)
{
	if (!owners)
		return;
	for (size_t i = 0; i < OWNER_STRIPES; i++) {
		struct owner_stripe *stripe = &owners->stripes[i];
		for (size_t j = 0; stripe->buckets && j < stripe->bucket_count; j++) {
			while (stripe->buckets[j]) {
				struct owner_session *session = stripe->buckets[j];
				stripe->buckets[j] = session->next;
				free_session(session);
			}
		}
		free(stripe->buckets);
		pthread_mutex_destroy(&stripe->lock);
	}
	owner_nodes_free(owners);
	pthread_mutex_destroy(&owners->lock);
	free(owners);
}

void owners_set_self(
	struct owners *owners, const char *name, const char *address, uint64_t lease_ms)
{
	/* relaxed: a setting */
	atomic_store_explicit(&owners->lease_ms, lease_ms, memory_order_relaxed);
	pthread_mutex_lock(&owners->lock);
	snprintf(owners->self, sizeof(owners->self), "%016llx/%s/%s",
		(unsigned long long)owners->instance, name, address);
	pthread_mutex_unlock(&owners->lock);
}

uint64_t owners_instance(const struct owners *owners)
{
	return owners->instance;
}

/* ---- asking the store --------------------------------------------------------------------------
 */

/* With the stripe's lock. False: the store can't be asked now. */
static bool ask(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, uint64_t now_ns)
{
	char self[OWNER_NODE_BYTES];

	pthread_mutex_lock(&owners->lock);
	memcpy(self, owners->self, sizeof(self));
	pthread_mutex_unlock(&owners->lock);
	const struct owner_question question = {.session = session,
		.verb = verb,
		.name = session->name,
		.self = self,
		.fence = session->fence,
		/* relaxed: a setting */
		.lease_ms = atomic_load_explicit(&owners->lease_ms, memory_order_relaxed)};
	session->is_asked = self[0] && owners->store->ask(worker, &question);
	session->asked_ns = now_ns;
	/* Whatever the answer, or without one: another may have it from now on. */
	if (session->is_asked && verb == OWNER_GIVE)
		session->ends_ns = 0;
	return session->is_asked;
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

static enum owner_sight sight_of(const struct owner_session *session)
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

/* Of the same session, at the end of the line. False: no memory. */
static bool enter_line(struct owners *owners, struct owner_use *use, void (*run)(struct message *))
{
	struct owner_session *session = use->session;
	struct owner_wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return false;
	wait->message.run = run;
	wait->owners = owners;
	wait->session = session;
	wait->worker = use->worker;
	wait->use = use;
	use->wait = wait;
	*session->end = wait;
	session->end = &wait->next;
	return true;
}

/* With the lock: the first in line hears of the answer. */
static void deliver(struct owner_session *session)
{
	session->is_delivering = session->first != NULL;
	if (session->first)
		message_post(&session->first->worker->loop, &session->first->message);
}

static void leave_line(struct owner_wait *wait)
{
	struct owner_session *session = wait->session;

	session->first = wait->next;
	if (!session->first)
		session->end = &session->first;
	free(wait);
	deliver(session);
}

static void on_answer(struct message *message)
{
	struct owner_wait *wait = CONTAINER_OF(message, struct owner_wait, message);
	struct owner_stripe *stripe = stripe_of(wait->owners, wait->session->key);
	struct owner_use *use = wait->use;

	if (use) {
		use->wait = NULL;
		use->answered(use, wait->session->sight);
	}
	pthread_mutex_lock(&stripe->lock);
	leave_line(wait);
	pthread_mutex_unlock(&stripe->lock);
}

void owner_cancel(struct owner_use *use)
{
	if (use->wait)
		use->wait->use = NULL;
	use->wait = NULL;
}

/* With the lock. OWNER_PENDING: it is to wait in line. */
static enum owner_sight see(struct owners *owners, struct owner_use *use, enum owner_belief belief)
{
	struct owner_session *session = use->session;
	uint64_t now_ns = clock_boot_ns();

	if (session->is_asked || session->first)
		return OWNER_PENDING;
	if (belief != OWNER_ASK && is_believed(session, now_ns)) {
		session->used_ns = now_ns;
		return sight_of(session);
	}
	if (belief == OWNER_ASK_OWN && session->side != OWNER_SIDE_HERE)
		return OWNER_ELSEWHERE;
	return ask(owners, use->worker, session, OWNER_TAKE, now_ns) ? OWNER_PENDING
								     : OWNER_UNKNOWN;
}

enum owner_sight owner_look(struct owners *owners, struct owner_use *use, enum owner_belief belief)
{
	struct owner_stripe *stripe = stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	enum owner_sight sight = see(owners, use, belief);
	if (sight == OWNER_PENDING && !enter_line(owners, use, on_answer))
		sight = OWNER_UNKNOWN;
	pthread_mutex_unlock(&stripe->lock);
	return sight;
}

/* ---- answers -----------------------------------------------------------------------------------
 */

static void hold(
	struct owner_session *session, const struct owner_answer *answer, uint64_t lease_ms)
{
	if (session->side != OWNER_SIDE_HERE)
		session->used_ns = session->asked_ns;
	session->side = OWNER_SIDE_HERE;
	session->node = NULL;
	session->fence = answer->fence;
	session->ends_ns = session->asked_ns + sure_ns(lease_ms);
	session->renew_ns = session->asked_ns + lease_ms / 3 * CLOCK_NS_PER_MS;
}

static void lose(struct owner_session *session)
{
	session->side = OWNER_SIDE_NOBODY;
	session->node = NULL;
	session->fence = 0;
}

static void leave_to(struct owner_session *session, struct owner_node *node,
	const struct owner_answer *answer, uint64_t now_ns)
{
	session->side = OWNER_SIDE_ELSEWHERE;
	session->node = node;
	session->fence = answer->fence;
	session->used_ns = now_ns;
	session->ends_ns = session->asked_ns + answer->left_ms * CLOCK_NS_PER_MS;
	session->renew_ns = now_ns + answer->left_ms * CLOCK_NS_PER_MS;
}

/* True: those who wait are to be told by another answer. */
static bool take_answer(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, const struct owner_answer *answer, struct owner_node *node)
{
	uint64_t now_ns = clock_boot_ns();
	uint64_t lease_ms = atomic_load_explicit(&owners->lease_ms, memory_order_relaxed);

	session->is_asked = false;
	if (!answer->is_known)
		session->sight = OWNER_UNKNOWN;
	else if (verb == OWNER_GIVE)
		lose(session);
	else if (answer->is_held)
		hold(session, answer, lease_ms);
	else if (verb == OWNER_TAKE && node)
		leave_to(session, node, answer, now_ns);
	else
		lose(session);
	if (answer->is_known)
		session->sight = sight_of(session);
	return session->first && answer->is_known && verb != OWNER_TAKE &&
	       session->side == OWNER_SIDE_NOBODY &&
	       ask(owners, worker, session, OWNER_TAKE, now_ns);
}

void owners_answer(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, const struct owner_answer *answer)
{
	struct owner_stripe *stripe = stripe_of(owners, session->key);
	struct owner_node *node = answer->node ? owner_node_of(owners, answer->node) : NULL;

	pthread_mutex_lock(&stripe->lock);
	uint64_t fence = session->fence;
	enum owner_side side = session->side;
	const struct owner_node *before = session->node;
	if (!take_answer(owners, worker, session, verb, answer, node))
		deliver(session);
	bool is_other = side != OWNER_SIDE_NOBODY && session->users > 0 &&
			(session->fence != fence || session->node != before);
	pthread_mutex_unlock(&stripe->lock);
	if (is_other)
		node_command_workers(worker->node, WORKER_OWNERS);
}

/* ---- uses --------------------------------------------------------------------------------------
 */

static void enlist(struct owner_use *use)
{
	struct owner_use **at = &use->worker->fleet.uses;

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

bool owner_begin(struct owners *owners, struct worker *worker, struct owner_use *use,
	struct session_key key, uint64_t idle_ms,
	void (*name)(struct owner_use *use, char out[OWNER_NAME_BYTES]))
{
	struct owner_stripe *stripe = stripe_of(owners, key);
	char named[OWNER_NAME_BYTES];
	struct owner_session *session;

	pthread_mutex_lock(&stripe->lock);
	session = *place_of(stripe, key);
	if (!session) {
		name(use, named);
		session = add(owners, stripe, key, named, clock_boot_ns());
	}
	if (session) {
		session->users++;
		session->idle_ns = idle_ms * CLOCK_NS_PER_MS;
	}
	pthread_mutex_unlock(&stripe->lock);
	if (!session)
		return false;
	use->session = session;
	use->worker = worker;
	use->wait = NULL;
	use->node = NULL;
	use->fence = 0;
	enlist(use);
	return true;
}

void owner_follow(struct owners *owners, struct owner_use *use)
{
	struct owner_stripe *stripe = stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	use->node = use->session->node;
	use->fence = use->session->fence;
	pthread_mutex_unlock(&stripe->lock);
}

void owner_end(struct owners *owners, struct owner_use *use)
{
	struct owner_session *session = use->session;

	if (!session)
		return;
	struct owner_stripe *stripe = stripe_of(owners, session->key);
	owner_cancel(use);
	delist(use);
	use->session = NULL;
	pthread_mutex_lock(&stripe->lock);
	session->users--;
	if (session->side == OWNER_SIDE_HERE)
		session->used_ns = clock_boot_ns();
	pthread_mutex_unlock(&stripe->lock);
}

void owner_move(struct owner_use *to, struct owner_use *from)
{
	to->session = from->session;
	to->worker = from->worker;
	to->node = from->node;
	to->fence = from->fence;
	to->wait = NULL;
	if (!to->session)
		return;
	delist(from);
	from->session = NULL;
	enlist(to);
}

bool owner_is_valid(struct owners *owners, const struct owner_use *use)
{
	const struct owner_session *session = use->session;
	struct owner_stripe *stripe = stripe_of(owners, session->key);

	pthread_mutex_lock(&stripe->lock);
	bool is_here = session->side == OWNER_SIDE_HERE && session->fence == use->fence &&
		       clock_boot_ns() < session->ends_ns;
	pthread_mutex_unlock(&stripe->lock);
	return is_here;
}

bool owner_is_same(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	const struct owner_session *session = use->session;
	bool is_same = use->node ? session->node == use->node : session->fence == use->fence;
	pthread_mutex_unlock(&stripe->lock);
	return is_same;
}

void owners_look_at_uses(struct owners *owners, struct worker *worker)
{
	struct owner_use *uses = worker->fleet.uses, *use;

	/* Any of them may end with another: those to come are a list of their own meanwhile. */
	worker->fleet.uses = NULL;
	if (uses)
		uses->at = &uses;
	while ((use = uses) != NULL) {
		delist(use);
		enlist(use);
		if (use->fence != 0 && !owner_is_same(owners, use))
			use->changed(use);
	}
}

/* ---- marks -------------------------------------------------------------------------------------
 */

uint64_t owner_mark(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	uint64_t mark = use->session->mark;
	pthread_mutex_unlock(&stripe->lock);
	return mark;
}

void owner_raise_mark(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	uint64_t now_ns = clock_boot_ns();
	use->session->mark = now_ns > use->session->mark ? now_ns : use->session->mark + 1;
	pthread_mutex_unlock(&stripe->lock);
}

/* With the lock. The oldest mark makes room: a node that sends nothing for long is gone. */
static bool take_mark(struct owner_session *session, uint64_t instance, uint64_t mark)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < OWNER_MARKS; i++) {
		if (session->marks[i].instance == instance && session->marks[i].mark > 0) {
			if (mark < session->marks[i].mark)
				return false;
			session->marks[i].mark = mark;
			return true;
		}
		if (session->marks[i].mark < session->marks[oldest].mark)
			oldest = i;
	}
	session->marks[oldest].instance = instance;
	session->marks[oldest].mark = mark;
	return true;
}

bool owner_take_mark(
	struct owners *owners, const struct owner_use *use, uint64_t instance, uint64_t mark)
{
	struct owner_stripe *stripe = stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	bool is_taken = take_mark(use->session, instance, mark);
	pthread_mutex_unlock(&stripe->lock);
	return is_taken;
}

/* ---- time --------------------------------------------------------------------------------------
 */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* With the lock: asks what is due of it. When is it to be looked at again? 0: it is forgotten. */
static uint64_t look_after(struct owners *owners, struct worker *worker,
	struct owner_session *session, bool draining, uint64_t now_ns)
{
	uint64_t idle_ends_ns = session->users > 0 || session->first ? UINT64_MAX
				: draining                           ? now_ns
					   : session->used_ns + session->idle_ns;

	if (session->is_asked || session->first)
		return now_ns + CLOCK_NS_PER_S / 10;
	switch (session->side) {
	case OWNER_SIDE_NOBODY:
		return session->users > 0 ? now_ns + CLOCK_NS_PER_S : 0;
	case OWNER_SIDE_HERE:
		if (now_ns >= idle_ends_ns)
			ask(owners, worker, session, OWNER_GIVE, now_ns);
		else if (now_ns >= session->renew_ns)
			ask(owners, worker, session, OWNER_RENEW, now_ns);
		if (session->is_asked)
			return now_ns + CLOCK_NS_PER_S / 10;
		/* Without a store it is forgotten when the lease has ended. */
		if (now_ns >= idle_ends_ns && now_ns >= session->ends_ns)
			return 0;
		return earlier(session->users > 0 ? now_ns + session->idle_ns : idle_ends_ns,
			session->renew_ns);
	case OWNER_SIDE_ELSEWHERE:
		if (session->users > 0 && now_ns >= session->renew_ns)
			ask(owners, worker, session, OWNER_TAKE, now_ns);
		return session->users > 0 ? earlier(session->renew_ns, now_ns + CLOCK_NS_PER_S)
		       : now_ns >= idle_ends_ns ? 0
						: idle_ends_ns;
	}
	return 0;
}

static void forget(
	struct owners *owners, struct owner_stripe *stripe, struct owner_session *session)
{
	struct owner_session **at = place_of(stripe, session->key);

	*at = session->next;
	stripe->count--;
	atomic_fetch_sub_explicit(&owners->count, 1, memory_order_relaxed);
	free_session(session);
}

/* Those of the ticks that have come are due. */
static void turn_ticks(struct owner_stripe *stripe, uint64_t now_ns)
{
	uint64_t tick = now_ns / (OWNER_TICK_MS * CLOCK_NS_PER_MS);

	if (tick > stripe->tick + OWNER_TICKS)
		stripe->tick = tick - OWNER_TICKS;
	while (stripe->tick < tick) {
		struct owner_session **at = &stripe->ticks[++stripe->tick % OWNER_TICKS], *session;
		while ((session = *at) != NULL) {
			*at = session->next_due;
			session->next_due = stripe->due;
			stripe->due = session;
		}
	}
}

/* Has it more than it has done? */
static bool sweep_stripe(struct owners *owners, struct owner_stripe *stripe, struct worker *worker,
	bool draining, uint64_t now_ns)
{
	struct owner_session *session;
	unsigned done = 0;

	pthread_mutex_lock(&stripe->lock);
	if (stripe->count > 0)
		turn_ticks(stripe, now_ns);
	while (done++ < OWNER_AT_ONCE && (session = stripe->due) != NULL) {
		stripe->due = session->next_due;
		uint64_t next_ns = look_after(owners, worker, session, draining, now_ns);
		if (next_ns == 0)
			forget(owners, stripe, session);
		else
			schedule(stripe, session, next_ns);
	}
	bool has_more = stripe->due != NULL;
	pthread_mutex_unlock(&stripe->lock);
	return has_more;
}

uint64_t owners_sweep(struct owners *owners, struct worker *worker, bool draining)
{
	uint64_t now_ns = clock_boot_ns();
	bool has_more = false;

	/* relaxed: a number alone */
	if (atomic_load_explicit(&owners->count, memory_order_relaxed) == 0)
		return 0;
	for (size_t i = 0; i < OWNER_STRIPES; i++)
		has_more |= sweep_stripe(owners, &owners->stripes[i], worker, draining, now_ns);
	return has_more ? 1 : OWNER_TICK_MS;
}

static void leave_bucket(
	struct owners *owners, struct worker *worker, struct owner_session *session)
{
	for (; session; session = session->next) {
		if (session->side == OWNER_SIDE_HERE && !session->is_asked)
			ask(owners, worker, session, OWNER_GIVE, clock_boot_ns());
	}
}

void owners_leave(struct owners *owners, struct worker *worker)
{
	for (size_t i = 0; i < OWNER_STRIPES; i++) {
		struct owner_stripe *stripe = &owners->stripes[i];
		pthread_mutex_lock(&stripe->lock);
		for (size_t j = 0; j < stripe->bucket_count; j++)
			leave_bucket(owners, worker, stripe->buckets[j]);
		pthread_mutex_unlock(&stripe->lock);
	}
}

void owners_describe(struct owners *owners, struct session_key key, char name[CONF_NODE_BYTES])
{
	struct owner_stripe *stripe = stripe_of(owners, key);

	name[0] = '\0';
	pthread_mutex_lock(&stripe->lock);
	const struct owner_session *session = *place_of(stripe, key);
	if (session && session->side == OWNER_SIDE_ELSEWHERE) {
		snprintf(name, CONF_NODE_BYTES, "%s", session->node->name);
	} else if (session && session->side == OWNER_SIDE_HERE) {
		pthread_mutex_lock(&owners->lock);
		const char *begin = strchr(owners->self, '/');
		if (begin)
			snprintf(name, CONF_NODE_BYTES, "%.*s", (int)strcspn(begin + 1, "/"),
				begin + 1);
		pthread_mutex_unlock(&owners->lock);
	}
	pthread_mutex_unlock(&stripe->lock);
}
