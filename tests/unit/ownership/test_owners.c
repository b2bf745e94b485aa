/* Which node owns a session: the table, with a store and a clock of the test's. */
#include "owned.h"
#include "tests/unit/suite.h"

static void those_who_wait_are_answered_in_their_order_by_one_call(void **state)
{
	struct fixture *f = *state;
	struct user users[5];

	answered_so_far = 0;
	for (int i = 0; i < 5; i++) {
		begin(f, &users[i]);
		assert_int_equal(look(f, &users[i]), OWNER_PENDING);
	}
	owner_cancel(&users[2].use);
	held(f, 7);
	assert_int_equal(asked.count, 1);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(users[i].answers, i == 2 ? 0 : 1);
		assert_int_equal(users[i].order, i == 2 ? 0 : i < 2 ? i + 1 : i);
	}
	assert_int_equal(look(f, &users[2]), OWNER_HERE);
	for (int i = 0; i < 5; i++)
		owner_end(f->owners, &users[i].use);
}

static void it_is_renewed_while_it_is_used_and_given_up_when_idle(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	pass(f, LEASE_MS / 3 + 1100);
	assert_int_equal(asked.verb, OWNER_RENEW);
	assert_int_equal(asked.fence, 7);
	held(f, 7);
	pass(f, LEASE_MS / 3 + 200);
	held(f, 7);
	assert_true(owner_is_valid(f->owners, &user.use));
	owner_end(f->owners, &user.use);
	unsigned count = asked.count;
	pass(f, IDLE_MS - 100);
	assert_int_equal(asked.count, count);
	pass(f, 1300);
	assert_int_equal(asked.verb, OWNER_GIVE);
	assert_int_equal(asked.fence, 7);
	commands = 0;
	answer(f, (struct owner_answer){.is_known = true});
	assert_int_equal(commands, 0); /* nobody is to learn of it */
	pass(f, 1000);
	assert_int_equal(owners_sweep(f->owners, f->worker), 0); /* and forgotten */
}

/* At the end of the process, also what is in use: another node may have it at once. */
static void what_is_given_up_in_use_is_not_in_hand(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	assert_true(owner_is_valid(f->owners, &user.use));
	owners_leave(f->owners, f->worker);
	assert_int_equal(asked.verb, OWNER_GIVE);
	assert_false(owner_is_valid(f->owners, &user.use));
	assert_true(owner_is_same(f->owners, &user.use));
	owner_end(f->owners, &user.use);
}

static void one_that_stood_still_does_not_believe_its_lease(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	now_ns += (LEASE_MS - LEASE_MS / 16 - 1) * CLOCK_NS_PER_MS;
	assert_true(owner_is_valid(f->owners, &user.use));
	now_ns += CLOCK_NS_PER_MS;
	assert_false(owner_is_valid(f->owners, &user.use));
	assert_int_equal(look(f, &user), OWNER_PENDING);
	busy(f, 8, 5000, OTHER);
	assert_int_equal(user.sight, OWNER_ELSEWHERE);
	assert_false(owner_is_same(f->owners, &user.use));
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 1);
	owner_end(f->owners, &user.use);
}

static void the_lease_goes_on_when_nobody_took_it(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	now_ns += 2 * LEASE_MS * CLOCK_NS_PER_MS;
	assert_int_equal(look(f, &user), OWNER_PENDING);
	held(f, 7);
	assert_int_equal(user.sight, OWNER_HERE);
	assert_true(owner_is_valid(f->owners, &user.use));
	assert_true(owner_is_same(f->owners, &user.use));
	owner_end(f->owners, &user.use);
}

static void a_renewal_that_is_refused_is_the_end(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	pass(f, LEASE_MS / 3 + 1100);
	commands = 0;
	busy(f, 8, 0, NULL);
	assert_int_equal(commands, 1);
	assert_false(owner_is_valid(f->owners, &user.use));
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 1);
	owner_end(f->owners, &user.use);
}

static void another_is_believed_as_long_as_it_is_used(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	look(f, &user);
	busy(f, 7, LEASE_MS, OTHER);
	assert_int_equal(user.sight, OWNER_ELSEWHERE);
	owner_follow(&user.use);
	assert_string_equal(user.use.node->name, "other");
	assert_string_equal(user.use.node->address, "127.0.0.1:7946");
	now_ns += (IDLE_MS - 1) * CLOCK_NS_PER_MS;
	assert_int_equal(look(f, &user), OWNER_ELSEWHERE);
	now_ns += (IDLE_MS - 1) * CLOCK_NS_PER_MS;
	assert_int_equal(look(f, &user), OWNER_ELSEWHERE);
	now_ns += IDLE_MS * CLOCK_NS_PER_MS;
	assert_int_equal(look(f, &user), OWNER_PENDING);
	busy(f, 9, LEASE_MS, OTHER);
	assert_true(owner_is_same(f->owners, &user.use)); /* the same process, whatever its fence */
	assert_int_equal(owner_look(f->owners, &user.use, OWNER_ASK), OWNER_PENDING);
	busy(f, 10, LEASE_MS, THIRD);
	assert_false(owner_is_same(f->owners, &user.use));
	owner_end(f->owners, &user.use);
}

static void another_that_is_used_is_looked_at_when_its_lease_ends(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	look(f, &user);
	busy(f, 7, 3000, OTHER);
	owner_follow(&user.use);
	pass(f, 2900);
	assert_int_equal(asked.count, 1);
	pass(f, 300);
	assert_int_equal(asked.count, 2);
	assert_int_equal(asked.verb, OWNER_TAKE);
	held(f, 8);
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 1);
	owner_end(f->owners, &user.use);
}

static void without_a_store(void **state)
{
	struct fixture *f = *state;
	struct user user, late;

	own(f, &user, 7);
	asked.is_away = true;
	assert_int_equal(look(f, &user), OWNER_HERE);
	now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	assert_int_equal(look(f, &user), OWNER_UNKNOWN);
	asked.is_away = false;
	assert_int_equal(look(f, &user), OWNER_PENDING);
	begin(f, &late);
	assert_int_equal(look(f, &late), OWNER_PENDING);
	unknown(f);
	assert_int_equal(user.sight, OWNER_UNKNOWN);
	assert_int_equal(late.sight, OWNER_UNKNOWN);
	owner_end(f->owners, &user.use);
	owner_end(f->owners, &late.use);
}

static void what_comes_while_it_is_given_up_takes_it_again(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_leave(f, &user, 7);
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	answer(f, (struct owner_answer){.is_known = true});
	assert_int_equal(user.answers, 0);
	assert_int_equal(asked.verb, OWNER_TAKE);
	held(f, 9);
	assert_int_equal(user.sight, OWNER_HERE);
	owner_end(f->owners, &user.use);
}

/* A worker's part of the store is its own thread's alone. */
static void the_thread_that_has_the_answer_asks_again(void **state)
{
	const struct session_key key = {{1, 2}};
	struct fixture *f = *state;
	struct worker *late = calloc(1, sizeof(*late));
	struct ownership_part part = {0};
	struct user user;

	assert_int_equal(loop_init(&late->loop), 0);
	late->memory[PART_OWNERSHIP] = &part;
	late->node = &f->node;
	own_and_leave(f, &user, 7);
	assert_int_equal(owner_begin(f->owners, late, &user.use, key, IDLE_MS, name), OWNER_BEGUN);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	answer(f, (struct owner_answer){.is_known = true});
	assert_int_equal(asked.verb, OWNER_TAKE);
	assert_ptr_equal(asked.worker, f->worker);
	owner_end(f->owners, &user.use);
	loop_end(&late->loop);
	free(late);
}

static void a_renewal_that_is_not_answered_holds_nobody_up(void **state)
{
	struct fixture *f = *state;
	struct user user, next;

	own(f, &user, 7);
	pass(f, LEASE_MS / 3 + 1100);
	assert_int_equal(asked.verb, OWNER_RENEW);
	begin(f, &next);
	assert_int_equal(look(f, &next), OWNER_HERE);
	assert_int_equal(owner_look(f->owners, &next.use, OWNER_ASK_OWN), OWNER_HERE);
	now_ns += LEASE_MS * CLOCK_NS_PER_MS; /* it is over, and the store is silent */
	assert_int_equal(look(f, &next), OWNER_PENDING);
	assert_int_equal(asked.count, 2);
	held(f, 7);
	assert_int_equal(next.answers, 1);
	owner_end(f->owners, &user.use);
	owner_end(f->owners, &next.use);
}

/* It may have been: another may have it by now. */
static void what_may_have_been_given_up_is_asked_about(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_leave(f, &user, 7);
	unknown(f);
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
	assert_int_equal(asked.verb, OWNER_TAKE);
	busy(f, 8, LEASE_MS, OTHER);
	assert_int_equal(user.sight, OWNER_ELSEWHERE);
	owner_end(f->owners, &user.use);
}

static void what_is_forwarded_to_it_makes_no_owner(void **state)
{
	struct fixture *f = *state;
	struct user user, hop;

	begin(f, &hop);
	assert_int_equal(owner_look(f->owners, &hop.use, OWNER_ASK_OWN), OWNER_ELSEWHERE);
	assert_int_equal(asked.count, 0);
	own(f, &user, 7);
	assert_int_equal(owner_look(f->owners, &hop.use, OWNER_ASK_OWN), OWNER_HERE);
	now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	assert_int_equal(owner_look(f->owners, &hop.use, OWNER_ASK_OWN), OWNER_PENDING);
	held(f, 7);
	assert_int_equal(hop.sight, OWNER_HERE);
	owner_end(f->owners, &user.use);
	owner_end(f->owners, &hop.use);
}

/* What has begun looks without a lock whether it is owned as before: every change must show. */
static void every_change_of_the_owner_shows(void **state)
{
	struct fixture *f = *state;
	struct user user, shared;

	own(f, &user, 7);
	shared = (struct user){.use = {.answered = on_answered, .changed = on_changed}};
	owner_share(f->owners, &shared.use, &user.use);
	assert_true(owner_is_same(f->owners, &user.use) && owner_is_valid(f->owners, &user.use));
	assert_true(owner_is_valid(f->owners, &shared.use));
	pass(f, LEASE_MS / 2);
	held(f, 7);
	now_ns += (LEASE_MS - LEASE_MS / 16) * CLOCK_NS_PER_MS / 2; /* by the renewed lease alone */
	assert_true(owner_is_valid(f->owners, &user.use) && owner_is_valid(f->owners, &shared.use));
	now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	assert_true(owner_is_same(f->owners, &user.use)); /* but the lease is over */
	assert_false(
		owner_is_valid(f->owners, &user.use) || owner_is_valid(f->owners, &shared.use));
	owners_sweep(f->owners, f->worker);
	held(f, 8); /* lost, and taken again */
	assert_false(owner_is_same(f->owners, &user.use) || owner_is_valid(f->owners, &user.use));
	assert_false(owner_is_valid(f->owners, &shared.use));
	owner_end(f->owners, &shared.use);
	owner_end(f->owners, &user.use);
}

/* Also when the session was forgotten meanwhile: what was given up may still be on its way. */
static void a_mark_is_no_lower_later(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	owner_raise_mark(f->owners, &user.use);
	owner_raise_mark(f->owners, &user.use);
	uint64_t mark = owner_mark(&user.use);
	owner_end(f->owners, &user.use);
	while (asked.verb != OWNER_GIVE)
		pass(f, 50);
	answer(f, (struct owner_answer){.is_known = true, .fence = 7});
	pass(f, 1000);
	assert_true(owners_are_none(f->owners));
	own(f, &user, 8);
	assert_true(owner_mark(&user.use) >= mark);
	owner_raise_mark(f->owners, &user.use);
	assert_true(owner_mark(&user.use) > mark);
	owner_end(f->owners, &user.use);
}

static void marks_only_grow(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	uint64_t mark = owner_mark(&user.use);
	owner_raise_mark(f->owners, &user.use);
	assert_true(owner_mark(&user.use) > mark);
	assert_true(owner_take_mark(f->owners, &user.use, 1, 5));
	assert_true(owner_take_mark(f->owners, &user.use, 1, 5));
	assert_true(owner_take_mark(f->owners, &user.use, 1, 6));
	assert_false(owner_take_mark(f->owners, &user.use, 1, 5));
	for (uint64_t other = 2; other <= 40; other++)
		assert_true(owner_take_mark(f->owners, &user.use, other, 9));
	assert_false(owner_take_mark(f->owners, &user.use, 1, 5));
	owner_end(f->owners, &user.use);
}

static void a_use_goes_on_as_another(void **state)
{
	struct fixture *f = *state;
	struct user user, heir = {.use = {.answered = on_answered, .changed = on_changed}};

	own(f, &user, 7);
	owner_move(&heir.use, &user.use);
	owner_end(f->owners, &user.use); /* it has none */
	assert_true(owner_is_valid(f->owners, &heir.use));
	pass(f, LEASE_MS / 3 + 1100);
	busy(f, 8, 0, NULL);
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(heir.changes, 1);
	assert_int_equal(user.changes, 0);
	owner_end(f->owners, &heir.use);
}

static void who_it_is(void **state)
{
	struct fixture *f = *state;
	const struct session_key key = {{1, 2}};
	char text[CONF_NODE_BYTES];
	struct user user;

	owners_describe(f->owners, key, text);
	assert_string_equal(text, "");
	own(f, &user, 7);
	owners_describe(f->owners, key, text);
	assert_string_equal(text, "self");
	owner_end(f->owners, &user.use);
}

/* A reload in the middle: the store has granted what it was asked for. */
static void a_lease_is_as_long_as_it_was_asked_for(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	owners_set_self(f->owners, "self", "127.0.0.1:7900", 6 * LEASE_MS, SESSIONS_MOST);
	held(f, 7);
	owner_follow(&user.use);
	assert_true(owner_is_valid(f->owners, &user.use));
	now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	assert_false(owner_is_valid(f->owners, &user.use));
	owner_end(f->owners, &user.use);
}

/* It may still reach the store, behind what is asked by another connection. */
static void what_was_given_up_without_an_answer_is_not_taken_under_the_same_fence(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_leave(f, &user, 7);
	unknown(f);
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	assert_int_equal(asked.verb, OWNER_GIVE);
	assert_int_equal(asked.fence, 7);
	answer(f, (struct owner_answer){.is_known = true});
	assert_int_equal(user.answers, 0);
	assert_int_equal(asked.verb, OWNER_TAKE);
	held(f, 8);
	assert_int_equal(user.sight, OWNER_HERE);
	owner_end(f->owners, &user.use);
}

/* A store that has lost its last writes may still name this node by what it has given up since. */
static void what_is_taken_again_has_no_fence_from_before(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_leave(f, &user, 7);
	answer(f, (struct owner_answer){.is_known = true, .fence = 7});
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	assert_int_equal(asked.verb, OWNER_TAKE);
	assert_int_equal(asked.fence, 7); /* and those before it are over */
	held(f, 9);
	pass(f, LEASE_MS / 3 + 1100);
	unknown(f);
	now_ns += 2 * LEASE_MS * CLOCK_NS_PER_MS;
	assert_int_equal(look(f, &user), OWNER_PENDING);
	assert_int_equal(asked.verb, OWNER_TAKE);
	assert_int_equal(asked.fence, 8); /* this one goes on */
	held(f, 9);
	owner_end(f->owners, &user.use);
}

static void nor_is_that_forgotten_while_the_store_is_away(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_leave(f, &user, 7);
	unknown(f);
	asked.is_away = true;
	pass(f, 3 * LEASE_MS);
	asked.is_away = false;
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
	held(f, 8);
	owner_end(f->owners, &user.use);
}

/* It is the same ownership when the store is back: what is late for it is refused as before. */
static void marks_outlive_a_store_that_is_away(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	assert_true(owner_take_mark(f->owners, &user.use, 1, 6));
	asked.is_away = true;
	owner_end(f->owners, &user.use);
	pass(f, 3 * LEASE_MS);
	asked.is_away = false;
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	held(f, 7);
	owner_follow(&user.use);
	assert_false(owner_take_mark(f->owners, &user.use, 1, 5));
	owner_end(f->owners, &user.use);
}

/* The store has then forgotten it, too, or another has it: the next ownership has another fence. */
static void without_a_store_it_is_forgotten_in_the_end(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	asked.is_away = true;
	owner_end(f->owners, &user.use);
	pass(f, 2 * LEASE_MS + 2 * OWNER_KEEP_MS);
	assert_false(owners_are_none(f->owners));
	pass(f, 2 * OWNER_KEEP_MS);
	assert_true(owners_are_none(f->owners));
}

/* It takes nothing again under this fence: its successor, or another node, does. */
static void one_that_leaves_waits_for_no_store(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	asked.is_away = true;
	owner_end(f->owners, &user.use);
	owners_drain(f->owners, false);
	pass(f, 2 * LEASE_MS);
	assert_true(owners_are_none(f->owners));
}

/* What it goes on by is what it was told, whatever another worker hears meanwhile. */
static void one_follows_what_it_was_told(void **state)
{
	struct fixture *f = *state;
	struct user user, other;

	own(f, &user, 7);
	begin(f, &other);
	assert_int_equal(look(f, &other), OWNER_HERE);
	assert_int_equal(owner_look(f->owners, &user.use, OWNER_ASK), OWNER_PENDING);
	busy(f, 8, 5000, OTHER);
	owner_follow(&other.use);
	assert_null(other.use.node);
	assert_int_equal(other.use.fence, 7);
	assert_false(owner_is_same(f->owners, &other.use));
	owner_end(f->owners, &user.use);
	owner_end(f->owners, &other.use);
}

/* Its worker may be gone when its turn would come. */
static void one_that_waits_no_more_is_in_no_line(void **state)
{
	const struct session_key key = {{1, 2}};
	struct fixture *f = *state;
	struct worker *gone = calloc(1, sizeof(*gone));
	struct ownership_part part = {0};
	struct user first, second, third;

	assert_int_equal(loop_init(&gone->loop), 0);
	gone->memory[PART_OWNERSHIP] = &part;
	gone->node = &f->node;
	begin(f, &first);
	assert_int_equal(look(f, &first), OWNER_PENDING);
	memset(&second, 0, sizeof(second));
	second.use.answered = on_answered;
	assert_int_equal(
		owner_begin(f->owners, gone, &second.use, key, IDLE_MS, name), OWNER_BEGUN);
	assert_int_equal(look(f, &second), OWNER_PENDING);
	begin(f, &third);
	assert_int_equal(look(f, &third), OWNER_PENDING);
	owner_end(f->owners, &second.use);
	loop_end(&gone->loop);
	free(gone);
	held(f, 7);
	assert_int_equal(first.answers, 1);
	assert_int_equal(third.answers, 1);
	owner_end(f->owners, &first.use);
	owner_end(f->owners, &third.use);
}

/* However many nodes forward to it: what one of them has given up may come after all of them. */
static void marks_stay_as_long_as_the_ownership(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	for (uint64_t node = 1; node <= 40; node++)
		assert_true(owner_take_mark(f->owners, &user.use, node, 1000 * node));
	for (uint64_t node = 1; node <= 40; node++) {
		assert_false(owner_take_mark(f->owners, &user.use, node, 1000 * node - 1));
		assert_true(owner_take_mark(f->owners, &user.use, node, 1000 * node));
	}
	owner_end(f->owners, &user.use);
}

/* What is late for the one before is refused by its fence. */
static void another_ownership_has_marks_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct user user, late;

	own(f, &user, 7);
	assert_true(owner_take_mark(f->owners, &user.use, 1, 6));
	now_ns += LEASE_MS * CLOCK_NS_PER_MS;
	begin(f, &late);
	assert_int_equal(look(f, &late), OWNER_PENDING);
	held(f, 8);
	owner_follow(&late.use);
	assert_true(owner_take_mark(f->owners, &late.use, 1, 5));
	assert_false(owner_take_mark(f->owners, &user.use, 1, 6)); /* of the one before */
	assert_false(owner_take_mark(f->owners, &late.use, 1, 4));
	owner_end(f->owners, &user.use);
	owner_end(f->owners, &late.use);
}

static enum owner_begun begin_number(struct fixture *f, struct user *user, uint64_t number)
{
	const struct session_key key = {{number, number}};

	memset(user, 0, sizeof(*user));
	user->use.answered = on_answered;
	return owner_begin(f->owners, f->worker, &user->use, key, 3600000, name);
}

/* Other workers may serve before the first has taken the configuration. */
static void a_table_without_settings_is_not_full(void **state)
{
	struct fixture *f = *state;
	struct owners *owners = f->owners;
	struct user user, late;

	f->owners = owners_new(&store, f->states);
	assert_int_equal(begin_number(f, &user, 1), OWNER_BEGUN);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	owners_set_self(f->owners, "self", "127.0.0.1:7900", LEASE_MS, 1);
	assert_int_equal(begin_number(f, &late, 2), OWNER_FULL);
	owner_end(f->owners, &user.use);
	owners_free(f->owners);
	f->owners = owners;
}

static void a_full_table_gives_idle_ones_up_first(void **state)
{
	struct fixture *f = *state;
	struct user users[SESSIONS_MOST], late;

	for (uint64_t i = 0; i < SESSIONS_MOST; i++) {
		assert_int_equal(begin_number(f, &users[i], i), OWNER_BEGUN);
		assert_int_equal(look(f, &users[i]), OWNER_PENDING);
		held(f, 7);
	}
	assert_int_equal(begin_number(f, &late, 100), OWNER_FULL);
	pass(f, 1000); /* all are in use: none goes */
	assert_int_equal(asked.verb, OWNER_TAKE);
	assert_int_equal(begin_number(f, &late, 100), OWNER_FULL);
	assert_int_equal(begin_number(f, &late, 3), OWNER_BEGUN); /* one that is known */
	owner_end(f->owners, &late.use);
	owner_end(f->owners, &users[5].use); /* idle from now on, which it may be for an hour */
	for (unsigned i = 0; i < 20 && asked.verb != OWNER_GIVE; i++)
		pass(f, 50);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
	pass(f, 300);
	assert_int_equal(begin_number(f, &late, 100), OWNER_BEGUN);
	owner_end(f->owners, &late.use);
	for (uint64_t i = 0; i < SESSIONS_MOST; i++)
		owner_end(f->owners, &users[i].use);
}

UNIT_SUITE(test_owners)
{
	const struct CMUnitTest tests[] = {
		TEST(those_who_wait_are_answered_in_their_order_by_one_call),
		TEST(it_is_renewed_while_it_is_used_and_given_up_when_idle),
		TEST(what_is_given_up_in_use_is_not_in_hand),
		TEST(one_that_stood_still_does_not_believe_its_lease),
		TEST(the_lease_goes_on_when_nobody_took_it),
		TEST(a_renewal_that_is_refused_is_the_end),
		TEST(another_is_believed_as_long_as_it_is_used),
		TEST(another_that_is_used_is_looked_at_when_its_lease_ends),
		TEST(without_a_store),
		TEST(what_comes_while_it_is_given_up_takes_it_again),
		TEST(the_thread_that_has_the_answer_asks_again),
		TEST(a_renewal_that_is_not_answered_holds_nobody_up),
		TEST(what_may_have_been_given_up_is_asked_about),
		TEST(what_is_forwarded_to_it_makes_no_owner),
		TEST(every_change_of_the_owner_shows),
		TEST(a_mark_is_no_lower_later),
		TEST(marks_only_grow),
		TEST(a_use_goes_on_as_another),
		TEST(who_it_is),
		TEST(a_lease_is_as_long_as_it_was_asked_for),
		TEST(what_was_given_up_without_an_answer_is_not_taken_under_the_same_fence),
		TEST(what_is_taken_again_has_no_fence_from_before),
		TEST(nor_is_that_forgotten_while_the_store_is_away),
		TEST(marks_outlive_a_store_that_is_away),
		TEST(without_a_store_it_is_forgotten_in_the_end),
		TEST(one_that_leaves_waits_for_no_store),
		TEST(one_follows_what_it_was_told),
		TEST(one_that_waits_no_more_is_in_no_line),
		TEST(marks_stay_as_long_as_the_ownership),
		TEST(another_ownership_has_marks_of_its_own),
		TEST(a_table_without_settings_is_not_full),
		TEST(a_full_table_gives_idle_ones_up_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
