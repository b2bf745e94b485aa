/*
 * Three nodes that own sessions by one store, at random: answers are late, connections to the store
 * are cut, and what was sent by them is done later, or never. Whoever may send for a session has
 * its lock at that moment, by the fence that it sends with.
 */
#include "ownership/owners.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ownership/owner_sweep.h"
#include "ownership/owner_use.h"
#include "queue/queue.h"
#include "tests/unit/base/fake_clock.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"
#include "upstream/server_state.h"
#include "worker/worker.h"

enum { NODES = 3, SESSIONS = 4, USERS = 24, CALLS = 4096, STEPS = 1500 };
enum { IDLE_MS = 300, LEASE_MS = 2000 };

static uint64_t now_ns;

static uint64_t boot_ns(void)
{
	return now_ns;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct lock {
	char session[OWNER_NODE_BYTES];
	uint64_t fence, ends_ns;
} locks[SESSIONS];

enum call_state { CALL_SENT, CALL_DONE, CALL_CUT, CALL_OVER };

static struct call {
	enum call_state state;
	unsigned node, lock;
	struct owner_session *session;
	enum owner_verb verb;
	char self[OWNER_NODE_BYTES], other[OWNER_NODE_BYTES];
	uint64_t fence, lease_ms;
	struct owner_answer answer;
} calls[CALLS];
static unsigned call_count;
static uint64_t last_fence;

static void renew(struct call *call, struct lock *lock)
{
	uint64_t ends_ns = now_ns + call->lease_ms * CLOCK_NS_PER_MS;

	lock->ends_ns = ends_ns > lock->ends_ns ? ends_ns : lock->ends_ns;
	call->answer.is_held = true;
}

/* lock.lua, in short. */
static void run_call(struct call *call)
{
	struct lock *lock = &locks[call->lock];
	bool has = strcmp(lock->session, call->self) == 0;

	call->answer = (struct owner_answer){.is_known = true};
	if (call->verb == OWNER_TAKE && !has && lock->session[0] && lock->ends_ns > now_ns) {
		strcpy(call->other, lock->session);
		call->answer.node = call->other;
		call->answer.left_ms = (lock->ends_ns - now_ns) / CLOCK_NS_PER_MS;
	} else if (call->verb == OWNER_TAKE) {
		if (!has || lock->fence <= call->fence) {
			strcpy(lock->session, call->self);
			lock->fence = ++last_fence;
			lock->ends_ns = 0;
		}
		renew(call, lock);
	} else if (has && lock->fence == call->fence && call->verb == OWNER_RENEW) {
		renew(call, lock);
	} else if (has && lock->fence == call->fence) {
		*lock = (struct lock){.fence = lock->fence};
	}
	call->answer.fence = lock->fence;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct user {
	struct owner_use use; /* first */
	unsigned node;
	unsigned lock; /* whose name is asked for */
	bool is_begun, waits, is_here;
};

static struct fleet_node {
	struct queue *queue;
	struct upstream_states *states;
	struct owners *owners;
	struct ownership_part part;
	struct node node;
	struct worker *worker, *workers[1];
	bool is_away; /* the store, for it */
} nodes[NODES];

static struct user users[USERS];

static bool ask(struct worker *worker, const struct owner_question *question)
{
	unsigned node = worker->index;
	struct call *call = &calls[call_count];

	if (nodes[node].is_away || call_count == CALLS)
		return false;
	call_count++;
	*call = (struct call){.node = node,
		.lock = (unsigned)atoi(question->name),
		.session = question->session,
		.verb = question->verb,
		.fence = question->fence,
		.lease_ms = question->lease_ms};
	snprintf(call->self, sizeof(call->self), "%s", question->self);
	return true;
}

static const struct owner_store store = {ask};

static void on_command(struct message *message)
{
	struct worker *worker =
		(struct worker *)((char *)message - offsetof(struct worker, inbox.command));

	atomic_store(&worker->inbox.commands, 0);
	owners_look_at_uses(nodes[worker->index].owners, worker);
}

static void set_lease(unsigned i, uint64_t lease_ms)
{
	char name[8], address[32];

	snprintf(name, sizeof(name), "n%u", i);
	snprintf(address, sizeof(address), "127.0.0.1:%u", 7000 + i);
	owners_set_self(nodes[i].owners, name, address, lease_ms, 1000);
}

static void begin_node(unsigned i)
{
	static const struct queue_config config = {.callbacks = {.dispatch = NULL}};
	struct fleet_node *node = &nodes[i];

	node->queue = queue_create(&config);
	node->states = upstream_states_new(node->queue, 1);
	node->owners = owners_new(&store, node->states);
	set_lease(i, LEASE_MS);
	node->worker = calloc(1, sizeof(*node->worker));
	node->part = (struct ownership_part){0};
	node->worker->memory[PART_OWNERSHIP] = &node->part;
	assert_int_equal(loop_init(&node->worker->loop), 0);
	node->worker->index = i;
	node->worker->node = &node->node;
	node->worker->inbox.command.run = on_command;
	node->workers[0] = node->worker;
	node->node.workers = node->workers;
	node->node.worker_count = 1;
	node->is_away = false;
}

static void enter(unsigned node)
{
	loop_enter(&nodes[node].worker->loop);
}

static void finish_turn(unsigned node)
{
	for (int i = 0; i < 2 * USERS + 2; i++)
		loop_finish_turn(&nodes[node].worker->loop);
}

static void end_node(unsigned i)
{
	struct fleet_node *node = &nodes[i];

	enter(i);
	owners_free(node->owners);
	upstream_states_free(node->states);
	queue_destroy(node->queue);
	loop_enter(NULL);
	loop_end(&node->worker->loop);
	free(node->worker);
}

/* ---- users ----------------------------------------------------------------------------------- */

static void follow(struct user *user, enum owner_sight sight)
{
	user->waits = sight == OWNER_PENDING;
	user->is_here = sight == OWNER_HERE;
	if (sight == OWNER_HERE || sight == OWNER_ELSEWHERE) {
		owner_follow(&user->use);
		assert_true((user->use.node != NULL) == (sight == OWNER_ELSEWHERE));
	}
}

static void on_answered(struct owner_use *use, enum owner_sight sight)
{
	assert_true(((struct user *)use)->waits);
	assert_int_not_equal(sight, OWNER_PENDING);
	follow((struct user *)use, sight);
}

static void on_changed(struct owner_use *use)
{
	((struct user *)use)->is_here = false;
}

static void name(struct owner_use *use, char out[OWNER_NAME_BYTES])
{
	snprintf(out, OWNER_NAME_BYTES, "%u", ((struct user *)use)->lock);
}

static void look(struct user *user, enum owner_belief belief)
{
	if (!user->waits)
		follow(user, owner_look(nodes[user->node].owners, &user->use, belief));
}

static void begin(struct random *random, struct user *user)
{
	memset(user, 0, sizeof(*user));
	user->node = (unsigned)random_below(random, NODES);
	user->lock = (unsigned)random_below(random, SESSIONS);
	const struct session_key key = {{user->lock + 1, user->lock + 7}};
	user->use.answered = on_answered;
	user->use.changed = on_changed;
	enter(user->node);
	assert_int_equal(owner_begin(nodes[user->node].owners, nodes[user->node].worker, &user->use,
				 key, IDLE_MS, name),
		OWNER_BEGUN);
	user->is_begun = true;
	look(user, OWNER_BELIEVE);
}

static void end(struct user *user)
{
	enter(user->node);
	owner_end(nodes[user->node].owners, &user->use);
	user->is_begun = user->waits = user->is_here = false;
}

/* Who may send has the lock. */
static void check(void)
{
	for (unsigned i = 0; i < USERS; i++) {
		const struct user *user = &users[i];
		char self[OWNER_NODE_BYTES];
		if (!user->is_here || !owner_is_valid(nodes[user->node].owners, &user->use))
			continue;
		snprintf(self, sizeof(self), "/n%u/", user->node);
		assert_int_equal(locks[user->lock].fence, user->use.fence);
		assert_non_null(strstr(locks[user->lock].session, self));
	}
}

/* ---- what happens ---------------------------------------------------------------------------- */

/* The next call of a node's connection in this state. */
static struct call *next_call(unsigned node, enum call_state state)
{
	for (unsigned i = 0; i < call_count; i++) {
		/* Of those that were cut the latest, which does most harm. */
		struct call *call = &calls[state == CALL_CUT ? call_count - 1 - i : i];
		if (call->node == node && call->state == state)
			return call;
	}
	return NULL;
}

static void answer(struct call *call, const struct owner_answer *with)
{
	struct fleet_node *node = &nodes[call->node];

	enter(call->node);
	owners_answer(node->owners, node->worker, call->session, call->verb, with);
	finish_turn(call->node);
}

static void answer_done(unsigned node)
{
	struct call *call = next_call(node, CALL_DONE);

	if (!call)
		return;
	call->state = CALL_OVER;
	answer(call, &call->answer);
}

static void run_next(unsigned node, enum call_state state)
{
	struct call *call = next_call(node, state);

	if (!call)
		return;
	run_call(call);
	call->state = state == CALL_SENT ? CALL_DONE : CALL_OVER;
}

/* What the store has not read may still be on its way; its answers are not. */
static void cut(unsigned node)
{
	static const struct owner_answer unknown = {0};
	unsigned count = call_count;

	for (unsigned i = 0; i < count; i++) {
		struct call *call = &calls[i];
		if (call->node != node || call->state == CALL_OVER || call->state == CALL_CUT)
			continue;
		call->state = call->state == CALL_SENT ? CALL_CUT : CALL_OVER;
		answer(call, &unknown);
	}
}

static void sweep(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		enter(i);
		owners_sweep(nodes[i].owners, nodes[i].worker);
		finish_turn(i);
	}
}

static void pass(uint64_t ms)
{
	for (uint64_t passed = 0; passed < ms; passed += 50) {
		now_ns += 50 * CLOCK_NS_PER_MS;
		check();
		sweep();
	}
}

static void step(struct random *random)
{
	unsigned node = (unsigned)random_below(random, NODES);
	struct user *user = &users[random_below(random, USERS)];

	switch (random_below(random, 16)) {
	case 0:
	case 1:
	case 2:
		run_next(node, CALL_SENT);
		break;
	case 3:
	case 4:
	case 5:
		answer_done(node);
		break;
	case 6:
		cut(node);
		break;
	case 7:
		run_next(node, CALL_CUT);
		break;
	case 8:
		nodes[node].is_away = random_below(random, 4) == 0;
		break;
	case 9:
		if (random_below(random, 4) == 0)
			set_lease(node, LEASE_MS * (1 + random_below(random, 3)));
		break;
	case 10:
	case 11:
		pass(50 * random_below(random, 12));
		break;
	case 12:
		if (random_below(random, 30) == 0)
			now_ns += 2 * LEASE_MS * CLOCK_NS_PER_MS; /* all of them stood still */
		break;
	default:
		if (!user->is_begun) {
			begin(random, user);
		} else if (random_below(random, 2) == 0) {
			end(user);
		} else {
			enter(user->node);
			look(user, random_below(random, 5) == 0 ? OWNER_ASK : OWNER_BELIEVE);
		}
		finish_turn(user->node);
	}
	check();
}

/* The store is well: all who wait are answered, and nothing is left but leases that are over. */
static void come_to_rest(void)
{
	for (unsigned round = 0; round < 400; round++) {
		for (unsigned i = 0; i < NODES; i++) {
			nodes[i].is_away = false;
			while (next_call(i, CALL_SENT) || next_call(i, CALL_DONE)) {
				run_next(i, CALL_SENT);
				answer_done(i);
			}
		}
		if (round == 100) {
			for (unsigned i = 0; i < USERS; i++) {
				assert_false(users[i].waits);
				if (users[i].is_begun)
					end(&users[i]);
			}
		}
		if (round % 4 == 0)
			call_count = 0; /* all are over, or lost for good */
		pass(50);
	}
	for (unsigned i = 0; i < NODES; i++) {
		enter(i);
		assert_int_equal(owners_sweep(nodes[i].owners, nodes[i].worker), 0);
	}
	for (unsigned i = 0; i < SESSIONS; i++)
		assert_true(!locks[i].session[0] || locks[i].ends_ns <= now_ns);
}

static void live(struct random *random)
{
	now_ns = 1000 * CLOCK_NS_PER_S;
	fake_clock_boot_ns = boot_ns;
	call_count = 0;
	memset(locks, 0, sizeof(locks));
	memset(users, 0, sizeof(users));
	for (unsigned i = 0; i < NODES; i++)
		begin_node(i);
	for (unsigned i = 0; i < STEPS; i++)
		step(random);
	come_to_rest();
	for (unsigned i = 0; i < NODES; i++)
		end_node(i);
}

static void who_may_send_has_the_lock(void **state)
{
	const char *lives = getenv("LIVES");
	struct random random = random_begin("owners");

	(void)state;
	for (int i = 0; i < (lives ? atoi(lives) : 10); i++)
		live(&random);
}

UNIT_SUITE(test_owners_random)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_may_send_has_the_lock)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
