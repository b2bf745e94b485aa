/*
 * The table of owners in a test: with a store that the test answers, and its clock.
 *
 *   begin, look --> asked --> held, busy, unknown --> user.sight; pass: time
 *
 * Programs need $(fake_clock_wraps).
 */
#ifndef TESTS_EXCHANGE_OWNED_H
#define TESTS_EXCHANGE_OWNED_H

#include "ownership/owners.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ownership/owner_marks.h"
#include "ownership/owner_nodes.h"
#include "ownership/owner_sweep.h"
#include "ownership/owner_use.h"
#include "queue/queue.h"
#include "tests/unit/base/fake_clock.h"
#include "upstream/server_state.h"
#include "worker/worker.h"

#define LEASE_MS      10000
#define IDLE_MS       1000
#define SESSIONS_MOST 16
#define OTHER         "0000000000000001/other/127.0.0.1:7946"
#define THIRD         "0000000000000002/third/127.0.0.1:7947"

/* The last question, which the test answers. */
static struct {
	struct owner_session *session;
	enum owner_verb verb;
	const struct worker *worker; /* whose thread it is */
	uint64_t fence;
	unsigned count;
	bool is_away;
	char self[OWNER_NODE_BYTES];
} asked;

static uint64_t now_ns;

static inline uint64_t owned_boot_ns(void)
{
	return now_ns;
}

static inline bool ask(struct worker *worker, const struct owner_question *question)
{
	if (asked.is_away)
		return false;
	asked.session = question->session;
	asked.worker = worker;
	asked.verb = question->verb;
	asked.fence = question->fence;
	snprintf(asked.self, sizeof(asked.self), "%s", question->self);
	asked.count++;
	return true;
}

static const struct owner_store store = {ask};

/* One who uses a session. */
struct user {
	struct owner_use use;
	unsigned answers, changes, order;
	enum owner_sight sight;
};

static unsigned answered_so_far;

static inline void on_answered(struct owner_use *use, enum owner_sight sight)
{
	struct user *user = (struct user *)use;

	user->answers++;
	user->sight = sight;
	user->order = ++answered_so_far;
}

static inline void on_changed(struct owner_use *use)
{
	((struct user *)use)->changes++;
}

struct fixture {
	struct queue *queue;
	struct upstream_states *states;
	struct owners *owners;
	struct node node;
	struct worker *worker;
	struct worker *workers[1];
	struct ownership_part part;
};

static unsigned commands;

static inline void on_command(struct message *message)
{
	(void)message;
	commands++;
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct queue_config config = {.callbacks = {.dispatch = NULL}};

	memset(&asked, 0, sizeof(asked));
	now_ns = 100 * CLOCK_NS_PER_S;
	fake_clock_boot_ns = owned_boot_ns;
	f->queue = queue_create(&config);
	f->states = upstream_states_new(f->queue, 1);
	f->owners = owners_new(&store, f->states);
	owners_set_self(f->owners, "self", "127.0.0.1:7900", LEASE_MS, SESSIONS_MOST);
	now_ns += 10 * CLOCK_NS_PER_S; /* it has begun long ago */
	f->worker = calloc(1, sizeof(*f->worker));
	f->worker->memory[PART_OWNERSHIP] = &f->part;
	assert_int_equal(loop_init(&f->worker->loop), 0);
	f->workers[0] = f->worker;
	f->node.workers = f->workers;
	f->worker->node = &f->node;
	f->worker->inbox.command.run = on_command;
	f->node.worker_count = 1;
	loop_enter(&f->worker->loop);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	loop_finish_turn(&f->worker->loop);
	owners_free(f->owners);
	upstream_states_free(f->states);
	queue_destroy(f->queue);
	loop_enter(NULL);
	loop_end(&f->worker->loop);
	free(f->worker);
	free(f);
	return 0;
}

static inline void name(struct owner_use *use, char out[OWNER_NAME_BYTES])
{
	(void)use;
	snprintf(out, OWNER_NAME_BYTES, "session");
}

static inline void begin(struct fixture *f, struct user *user)
{
	const struct session_key key = {{1, 2}};

	memset(user, 0, sizeof(*user));
	user->use.answered = on_answered;
	user->use.changed = on_changed;
	assert_int_equal(
		owner_begin(f->owners, f->worker, &user->use, key, IDLE_MS, name), OWNER_BEGUN);
}

static inline void answer(struct fixture *f, struct owner_answer with)
{
	struct owner_session *session = asked.session;

	asked.session = NULL;
	owners_answer(f->owners, f->worker, session, asked.verb, &with);
	loop_finish_turn(&f->worker->loop);
}

static inline void held(struct fixture *f, uint64_t fence)
{
	answer(f, (struct owner_answer){.is_known = true, .is_held = true, .fence = fence});
}

static inline void busy(struct fixture *f, uint64_t fence, uint64_t left_ms, const char *node)
{
	answer(f, (struct owner_answer){
			  .is_known = true, .fence = fence, .left_ms = left_ms, .node = node});
}

static inline void unknown(struct fixture *f)
{
	answer(f, (struct owner_answer){0});
}

/* So long, and the table is looked after. */
static inline void pass(struct fixture *f, uint64_t ms)
{
	for (uint64_t passed = 0; passed < ms; passed += 50) {
		now_ns += 50 * CLOCK_NS_PER_MS;
		owners_sweep(f->owners, f->worker);
	}
}

static inline enum owner_sight look(struct fixture *f, struct user *user)
{
	return owner_look(f->owners, &user->use, OWNER_BELIEVE);
}

static inline void own(struct fixture *f, struct user *user, uint64_t fence)
{
	begin(f, user);
	assert_int_equal(look(f, user), OWNER_PENDING);
	held(f, fence);
	assert_int_equal(user->sight, OWNER_HERE);
	owner_follow(&user->use);
}

/* The use ends, and the session is being given up. */
static inline void own_and_leave(struct fixture *f, struct user *user, uint64_t fence)
{
	own(f, user, fence);
	owner_end(f->owners, &user->use);
	while (asked.verb != OWNER_GIVE)
		pass(f, 50);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
