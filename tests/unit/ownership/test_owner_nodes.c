/* The nodes that own sessions: they come, are used, and leave the table. */
#include "owned.h"

#include "ownership/owner_table.h"
#include "upstream/upstream.h"
#include "tests/unit/suite.h"

/* The session's owner is this node now. */
static void go_to(struct fixture *f, struct user *user, const char *node)
{
	assert_int_equal(owner_look(f->owners, &user->use, OWNER_ASK), OWNER_PENDING);
	busy(f, 7, LEASE_MS, node);
	assert_int_equal(user->sight, OWNER_ELSEWHERE);
}

static const char *text_of(char text[OWNER_NODE_BYTES], unsigned number)
{
	snprintf(text, OWNER_NODE_BYTES, "%016x/n%u/127.0.0.1:%u", number, number,
		1024 + number % 60000);
	return text;
}

/* As `pass`, and the worker looks. */
static void pass_all(struct fixture *f, uint64_t ms)
{
	for (uint64_t passed = 0; passed < ms; passed += 1000) {
		now_ns += CLOCK_NS_PER_S;
		owners_sweep(f->owners, f->worker);
		loop_finish_turn(&f->worker->loop);
		owner_nodes_look(f->owners, f->worker);
	}
}

static void any_number_of_them_comes_and_goes(void **state)
{
	struct fixture *f = *state;
	char text[OWNER_NODE_BYTES];
	struct user user;

	for (unsigned i = 0; i < 5000; i++) {
		begin(f, &user);
		go_to(f, &user, text_of(text, i));
		owner_end(f->owners, &user.use);
		pass_all(f, i % 100 == 0 ? OWNER_NODE_UNUSED_MS + 5000 : 1000);
		assert_true(f->owners->node_count < 300);
	}
	pass_all(f, 2 * OWNER_NODE_UNUSED_MS);
	assert_int_equal(f->owners->node_count, 0);
}

static void one_that_is_used_stays(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	go_to(f, &user, OTHER);
	owner_follow(&user.use);
	for (unsigned i = 0; i < 10; i++) {
		pass_all(f, OWNER_NODE_UNUSED_MS / 4);
		if (asked.session)
			busy(f, 7, LEASE_MS, OTHER);
	}
	assert_int_equal(f->owners->node_count, 1);
	assert_false(user.use.node->is_leaving);
	owner_end(f->owners, &user.use);
}

/* What was sent to the one before is not over yet. */
static void one_that_a_use_still_has_is_not_freed(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	go_to(f, &user, OTHER);
	owner_follow(&user.use);
	go_to(f, &user, THIRD);
	for (unsigned i = 0; i < 20; i++) {
		pass_all(f, OWNER_NODE_UNUSED_MS / 4);
		if (asked.session)
			busy(f, 8, LEASE_MS, THIRD);
	}
	assert_true(user.use.node->is_leaving);
	assert_string_equal(user.use.node->name, "other");
	assert_int_equal(f->owners->node_count, 2);
	owner_follow(&user.use);
	assert_string_equal(user.use.node->name, "third");
	pass_all(f, 5000);
	assert_int_equal(f->owners->node_count, 1);
	owner_end(f->owners, &user.use);
}

static void all_workers_have_to_say_so(void **state)
{
	struct fixture *f = *state;
	struct worker *other = calloc(1, sizeof(*other));
	struct ownership_part part = {0};
	struct worker *workers[2] = {f->worker, other};
	struct user user;

	assert_int_equal(loop_init(&other->loop), 0);
	other->memory[PART_OWNERSHIP] = &part;
	other->inbox.command.run = on_command;
	other->node = &f->node;
	f->node.workers = workers;
	f->node.worker_count = 2;
	begin(f, &user);
	go_to(f, &user, OTHER);
	owner_end(f->owners, &user.use);
	commands = 0;
	pass_all(f, 3 * OWNER_NODE_UNUSED_MS);
	assert_int_equal(f->owners->node_count, 1);
	assert_true(commands > 0);
	owner_nodes_look(f->owners, other);
	owner_nodes_look(f->owners, other);
	pass_all(f, 2000);
	assert_int_equal(f->owners->node_count, 0);
	f->node.workers = f->workers;
	f->node.worker_count = 1;
	loop_finish_turn(&other->loop);
	loop_end(&other->loop);
	loop_enter(&f->worker->loop);
	free(other);
}

/* Another process starts at the same address, while the one before it leaves. */
static void the_next_process_at_an_address_keeps_its_connections(void **state)
{
	struct fixture *f = *state;
	struct user user;

	begin(f, &user);
	go_to(f, &user, OTHER);
	go_to(f, &user, "0000000000000003/other/127.0.0.1:7946");
	owner_follow(&user.use);
	struct upstream_state *shared = user.use.node->upstream->state;
	for (unsigned i = 0; i < 8; i++) {
		pass_all(f, OWNER_NODE_UNUSED_MS / 4);
		if (asked.session)
			busy(f, 7, LEASE_MS, "0000000000000003/other/127.0.0.1:7946");
	}
	assert_int_equal(f->owners->node_count, 1);
	assert_ptr_equal(user.use.node->upstream->state, shared);
	owner_end(f->owners, &user.use);
}

UNIT_SUITE(test_owner_nodes)
{
	const struct CMUnitTest tests[] = {
		TEST(any_number_of_them_comes_and_goes),
		TEST(one_that_is_used_stays),
		TEST(one_that_a_use_still_has_is_not_freed),
		TEST(all_workers_have_to_say_so),
		TEST(the_next_process_at_an_address_keeps_its_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
