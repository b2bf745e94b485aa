/* Sessions that move with a process or an address: an upgrade, a reload of [fleet], a drain. */
#include "owned.h"
#include "tests/unit/suite.h"

#define BEFORE "00000000000000ff/self/127.0.0.1:7900"

/* What has this node's address is the process before it: forwarded there, it would come back. */
static void the_process_before_is_waited_for_in_line(void **state)
{
	struct fixture *f = *state;
	struct user users[3];

	answered_so_far = 0;
	for (int i = 0; i < 2; i++) {
		begin(f, &users[i]);
		assert_int_equal(look(f, &users[i]), OWNER_PENDING);
	}
	busy(f, 7, 9000, BEFORE);
	assert_int_equal(users[0].answers, 0);
	begin(f, &users[2]);
	assert_int_equal(look(f, &users[2]), OWNER_PENDING);
	pass(f, 150);
	assert_int_equal(asked.count, 2);
	assert_int_equal(asked.verb, OWNER_TAKE);
	busy(f, 7, 8900, BEFORE);
	pass(f, 350);
	assert_int_equal(asked.count, 3);
	held(f, 8);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(users[i].sight, OWNER_HERE);
		assert_int_equal(users[i].order, i + 1);
		owner_end(f->owners, &users[i].use);
	}
}

/* It was killed, say: then its lease must end. */
static void the_process_before_is_asked_about_less_and_less(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	for (unsigned i = 0; i < 100; i++) { /* ten seconds */
		if (asked.session)
			busy(f, 7, 10000 - 100 * i, BEFORE);
		pass(f, 100);
	}
	assert_in_range(asked.count, 15, 30);
	if (!asked.session)
		pass(f, 500);
	held(f, 8);
	assert_int_equal(user.sight, OWNER_HERE);
	owner_end(f->owners, &user.use);
}

static void a_store_that_fails_meanwhile_is_not_waited_for(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	busy(f, 7, 9000, BEFORE);
	asked.is_away = true;
	pass(f, 150);
	loop_finish_turn(&f->worker->loop);
	assert_int_equal(user.answers, 1);
	assert_int_equal(user.sight, OWNER_UNKNOWN);
	owner_end(f->owners, &user.use);
}

/* Its connection to the store is made when its listeners may be open already. */
static void one_that_has_just_begun_waits_for_its_store(void **state)
{
	struct fixture *f = *state;
	struct user user, late;

	now_ns -= 9 * CLOCK_NS_PER_S;
	asked.is_away = true;
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	pass(f, 500);
	asked.is_away = false;
	pass(f, 150);
	held(f, 7);
	assert_int_equal(user.sight, OWNER_HERE);
	owner_end(f->owners, &user.use);
	asked.is_away = true;
	begin(f, &late);
	assert_int_equal(owner_look(f->owners, &late.use, OWNER_ASK), OWNER_UNKNOWN);
	owner_end(f->owners, &late.use);
}

static void one_whose_store_is_away_at_its_start_says_so(void **state)
{
	struct fixture *f = *state;
	struct user user;

	now_ns -= 9 * CLOCK_NS_PER_S;
	asked.is_away = true;
	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	pass(f, 3500);
	loop_finish_turn(&f->worker->loop);
	assert_int_equal(user.answers, 0);
	pass(f, 1500);
	loop_finish_turn(&f->worker->loop);
	assert_int_equal(user.sight, OWNER_UNKNOWN);
	assert_int_equal(user.answers, 1);
	owner_end(f->owners, &user.use);
}

static void one_that_is_replaced_forwards_to_its_own_address(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	assert_int_equal(look(f, &user), OWNER_PENDING);
	busy(f, 7, 9000, BEFORE);
	assert_int_equal(user.answers, 0);
	owners_drain(f->owners, true);
	pass(f, 150);
	busy(f, 7, 8900, BEFORE);
	assert_int_equal(user.sight, OWNER_ELSEWHERE);
	owner_end(f->owners, &user.use);
}

static void what_is_forwarded_waits_for_the_process_before(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	assert_int_equal(owner_look(f->owners, &user.use, OWNER_ASK_OWN), OWNER_ELSEWHERE);
	owners_set_predecessor(f->owners, true);
	assert_int_equal(owner_look(f->owners, &user.use, OWNER_ASK_OWN), OWNER_PENDING);
	busy(f, 7, 9000, BEFORE);
	assert_int_equal(user.answers, 0);
	pass(f, 150);
	held(f, 8);
	assert_int_equal(user.sight, OWNER_HERE);
	owner_end(f->owners, &user.use);
}

static void one_that_leaves_gives_up_at_once(void **state)
{
	struct fixture *f = *state;
	struct user user, last;

	own(f, &user, 7);
	owner_end(f->owners, &user.use);
	unsigned count = asked.count;
	owners_drain(f->owners, false);
	owners_sweep(f->owners, f->worker);
	assert_int_equal(asked.count, count + 1);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
	own(f, &last, 8);
	count = asked.count;
	owners_sweep(f->owners, f->worker);
	assert_int_equal(asked.count, count); /* in use */
	owner_end(f->owners, &last.use);
	assert_int_equal(asked.count, count + 1); /* not a turn later */
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

static void what_is_renewed_while_it_is_left_is_given_up_behind_that(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	pass(f, LEASE_MS / 3 + 1100);
	assert_int_equal(asked.verb, OWNER_RENEW);
	owners_drain(f->owners, false);
	owner_end(f->owners, &user.use);
	assert_int_equal(asked.verb, OWNER_RENEW);
	held(f, 7);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

/* A reload has changed [fleet] node or bind: the store knows it by the old ones. */
static void another_name_is_for_what_is_taken_from_then_on(void **state)
{
	struct fixture *f = *state;
	struct user user, next;
	char before[OWNER_NODE_BYTES];

	own(f, &user, 7);
	snprintf(before, sizeof(before), "%s", asked.self);
	owners_set_self(f->owners, "self", "127.0.0.1:7999", LEASE_MS, SESSIONS_MOST);
	pass(f, LEASE_MS / 3 + 1100);
	assert_int_equal(asked.verb, OWNER_RENEW);
	assert_string_equal(asked.self, before);
	held(f, 7);
	assert_true(owner_is_valid(f->owners, &user.use));
	owner_end(f->owners, &user.use);
	assert_int_equal(asked.verb, OWNER_GIVE);
	assert_string_equal(asked.self, before);
	answer(f, (struct owner_answer){.is_known = true});
	own(f, &next, 8);
	assert_non_null(strstr(asked.self, "127.0.0.1:7999"));
	owner_end(f->owners, &next.use);
	pass(f, 200);
	assert_int_equal(asked.verb, OWNER_TAKE); /* kept for owner_idle, as ever */
}

static void on_moves(struct owner_use *use)
{
	((struct user *)use)->changes++;
}

static void uses_are_shared_and_hear_of_a_successor(void **state)
{
	struct fixture *f = *state;
	struct user user, other;

	own(f, &user, 7);
	memset(&other, 0, sizeof(other));
	other.use.changed = on_changed;
	other.use.moves = on_moves;
	owner_share(f->owners, &other.use, &user.use);
	assert_true(owner_is_valid(f->owners, &other.use));
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(other.changes, 0);
	owners_drain(f->owners, true);
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 0);
	assert_int_equal(other.changes, 1);
	owner_end(f->owners, &user.use);
	unsigned count = asked.count;
	owners_sweep(f->owners, f->worker);
	assert_int_equal(asked.count, count); /* still in use */
	owner_end(f->owners, &other.use);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

/* By its name alone nobody is led astray; by its address he is. */
static void uses_hear_of_another_address(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	user.use.moves = on_moves;
	assert_true(owners_set_self(f->owners, "other", "127.0.0.1:7900", LEASE_MS, SESSIONS_MOST));
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 0);
	assert_true(owners_set_self(f->owners, "other", "127.0.0.1:7999", LEASE_MS, SESSIONS_MOST));
	assert_false(
		owners_set_self(f->owners, "other", "127.0.0.1:7999", LEASE_MS, SESSIONS_MOST));
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 1);
	owner_end(f->owners, &user.use);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

/* A reload has taken [fleet] bind away. */
static void uses_hear_that_nobody_reaches_them(void **state)
{
	struct fixture *f = *state;
	struct user user, late;

	own(f, &user, 7);
	user.use.moves = on_moves;
	assert_true(owners_unset_self(f->owners));
	assert_false(owners_unset_self(f->owners));
	owners_look_at_uses(f->owners, f->worker);
	assert_int_equal(user.changes, 1);
	pass(f, LEASE_MS / 3 + 1100);
	assert_int_equal(asked.verb, OWNER_RENEW); /* what is in use is its own until it ends */
	held(f, 7);
	owner_end(f->owners, &user.use);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
	begin(f, &late);
	assert_int_equal(look(f, &late), OWNER_UNKNOWN); /* it takes nothing more */
	owner_end(f->owners, &late.use);
	assert_false(owners_set_self(f->owners, "self", "127.0.0.1:7900", LEASE_MS, SESSIONS_MOST));
	own(f, &late, 8);
	owner_end(f->owners, &late.use);
}

static unsigned told;

static void on_told(struct owner_use *use)
{
	(void)use;
	told++;
}

/* It continues in a session that was in use when the address changed: nobody would tell it, and the
 * session would stay at the old address as long as that takes. */
static void one_that_begins_behind_the_change_is_told(void **state)
{
	struct fixture *f = *state;
	struct user user, late;

	own(f, &user, 7);
	assert_true(owners_set_self(f->owners, "self", "127.0.0.1:7999", LEASE_MS, SESSIONS_MOST));
	owners_look_at_uses(f->owners, f->worker); /* the command of the reload */
	begin(f, &late);
	late.use.moves = on_told;
	assert_int_equal(look(f, &late), OWNER_HERE);
	owner_follow(&late.use);
	owner_end(f->owners, &user.use);
	commands = told = 0;
	for (int i = 0; i < 4; i++) {
		pass(f, 1000);
		if (asked.session)
			held(f, 7);
		loop_finish_turn(&f->worker->loop);
		if (commands > 0)
			owners_look_at_uses(f->owners, f->worker);
	}
	assert_true(told > 0);
	owner_end(f->owners, &late.use);
}

static void a_store_that_does_not_answer_is_not_asked_at_once(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own(f, &user, 7);
	owner_end(f->owners, &user.use);
	owners_drain(f->owners, false);
	pass(f, 50);
	assert_int_equal(asked.verb, OWNER_GIVE);
	unsigned count = asked.count;
	unknown(f);
	assert_int_equal(asked.count, count);
	pass(f, 250);
	assert_int_equal(asked.count, count + 1);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

/* One that has been in use for a while, and is to be given up when that ends. */
static void own_and_drain(struct fixture *f, struct user *user)
{
	own(f, user, 7);
	pass(f, 150);
	owners_drain(f->owners, false);
	owners_sweep(f->owners, f->worker);
}

/* Others wait for it: not until it would have been looked after. */
static void what_failed_to_be_given_up_is_soon_given_up_again(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_drain(f, &user);
	owner_end(f->owners, &user.use);
	assert_int_equal(asked.verb, OWNER_GIVE);
	unsigned count = asked.count;
	unknown(f);
	pass(f, 150);
	assert_int_equal(asked.count, count + 1);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

static void so_is_what_could_not_be_asked(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_drain(f, &user);
	unsigned count = asked.count;
	asked.is_away = true;
	owner_end(f->owners, &user.use);
	pass(f, 150);
	assert_int_equal(asked.count, count);
	asked.is_away = false;
	pass(f, 150);
	assert_int_equal(asked.count, count + 1);
	assert_int_equal(asked.verb, OWNER_GIVE);
	answer(f, (struct owner_answer){.is_known = true});
}

static void a_store_that_fails_on_and_on_is_asked_less_and_less(void **state)
{
	struct fixture *f = *state;
	struct user user;

	own_and_drain(f, &user);
	owner_end(f->owners, &user.use);
	unsigned count = asked.count;
	for (unsigned i = 0; i < 100; i++) { /* ten seconds */
		if (asked.session)
			unknown(f);
		pass(f, 100);
	}
	assert_in_range(asked.count - count, 8, 16);
	if (!asked.session)
		pass(f, 1000);
	answer(f, (struct owner_answer){.is_known = true});
	own(f, &user, 8);
	owner_end(f->owners, &user.use);
	count = asked.count;
	unknown(f); /* that is another one: soon again */
	pass(f, 150);
	assert_int_equal(asked.count, count + 1);
	answer(f, (struct owner_answer){.is_known = true});
}

UNIT_SUITE(test_owners_move)
{
	const struct CMUnitTest tests[] = {
		TEST(the_process_before_is_waited_for_in_line),
		TEST(the_process_before_is_asked_about_less_and_less),
		TEST(a_store_that_fails_meanwhile_is_not_waited_for),
		TEST(one_that_has_just_begun_waits_for_its_store),
		TEST(one_whose_store_is_away_at_its_start_says_so),
		TEST(one_that_is_replaced_forwards_to_its_own_address),
		TEST(what_is_forwarded_waits_for_the_process_before),
		TEST(one_that_leaves_gives_up_at_once),
		TEST(what_is_renewed_while_it_is_left_is_given_up_behind_that),
		TEST(another_name_is_for_what_is_taken_from_then_on),
		TEST(uses_are_shared_and_hear_of_a_successor),
		TEST(uses_hear_of_another_address),
		TEST(uses_hear_that_nobody_reaches_them),
		TEST(one_that_begins_behind_the_change_is_told),
		TEST(a_store_that_does_not_answer_is_not_asked_at_once),
		TEST(what_failed_to_be_given_up_is_soon_given_up_again),
		TEST(so_is_what_could_not_be_asked),
		TEST(a_store_that_fails_on_and_on_is_asked_less_and_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
