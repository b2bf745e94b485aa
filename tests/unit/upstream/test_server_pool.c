/* Idle connections and the bound on all of a server's: which exchange gets one, which waits, and in
 * which order. */
#include "upstream/server_pool.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linked.h"
#include "net/socket_stream.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"
#include "upstream/upstream.h"

static const struct stage_conf unbounded = {.two_workers = true};
static const struct stage_conf bounded = {.two_workers = true,
	.more = "[upstream v]\nserver = 127.0.0.1:4 max_connections=2\n"
		"server = 127.0.0.1:5 max_connections=1\n"};

static const struct stage_conf with_places = {.two_workers = true,
	.more = "[upstream v]\nserver = 127.0.0.1:4 max_connections=2 max_in_flight=1\n"};

static void begin_bounded(struct linked *l)
{
	linked_begin(l, &bounded);
	l->server = &l->stage->daemon.site->upstreams[1]->servers[0];
}

/* ---- lists ----------------------------------------------------------------------------------- */

static unsigned visited;

static void visit(void *ctx, const struct server_connection *connection)
{
	assert_ptr_equal(connection, ((struct server_connection **)ctx)[visited++]);
}

static void keep(struct server_connection *connection, uint32_t most)
{
	struct server_connection *surplus;

	connection->state = SERVER_CONNECTION_IDLE;
	assert_true(pool_keep(connection, most, &surplus));
	if (surplus)
		server_connection_close_unlisted(surplus);
}

static void the_last_used_is_the_first_taken(void **state)
{
	struct server_connection *all[3], *order[3];
	struct pool_connection found;
	struct linked l;

	(void)state;
	linked_begin(&l, &unbounded);
	for (unsigned i = 0; i < 3; i++)
		order[2 - i] = all[i] = linked_get(&l);
	for (unsigned i = 0; i < 3; i++)
		keep(all[i], 3);
	visited = 0;
	pool_each(l.server->state, l.stage->worker, visit, order);
	assert_int_equal(visited, 3);
	assert_int_equal(linked_idle(&l, 1), 0); /* another worker's */
	assert_ptr_equal(pool_pop_oldest(l.server->state, l.stage->worker), all[0]);
	assert_int_equal(pool_take(l.stage->worker, l.server, 0, false, &found), POOL_IDLE);
	assert_ptr_equal(found.idle, all[2]);
	assert_true(pool_remove(all[1]));
	assert_null(pool_pop_oldest(l.server->state, l.stage->worker));
	assert_null(pool_pop_oldest(l.server->state, l.stage->workers[1]));
	for (unsigned i = 0; i < 3; i++)
		server_connection_close_unlisted(all[i]);
	assert_int_equal(linked_open(&l), 0);
	linked_end(&l);
}

/* Of what was in use at once all stay open, until it was not for a period or two; then the surplus
 * goes, one with each that becomes idle. */
static void what_was_in_use_lately_stays_open(void **state)
{
	struct server_connection *all[10];
	struct linked l;

	(void)state;
	linked_begin(&l, &unbounded);
	for (unsigned burst = 0; burst < 2; burst++) {
		for (unsigned i = 0; i < 10; i++)
			all[i] = linked_get(&l);
		for (unsigned i = 0; i < 10; i++)
			keep(all[i], 1000);
		assert_int_equal(linked_open(&l), 10);
	}
	assert_int_equal(l.stage->server_count, 10);
	stage_at(l.stage, POOL_PERIOD_MS);
	keep(linked_get(&l), 1000);
	assert_int_equal(linked_open(&l), 10);
	stage_at(l.stage, 2 * POOL_PERIOD_MS);
	for (unsigned open = 9; open > 0; open--) {
		keep(linked_get(&l), 1000);
		assert_int_equal(linked_open(&l), open);
	}
	keep(linked_get(&l), 1000);
	assert_int_equal(linked_open(&l), 1);
	linked_end(&l);
}

/* The oldest goes, where keepalive allows no more. */
static void keepalive_bounds_what_is_idle(void **state)
{
	struct server_connection *all[5];
	struct linked l;

	(void)state;
	linked_begin(&l, &unbounded);
	for (unsigned i = 0; i < 5; i++)
		all[i] = linked_get(&l);
	for (unsigned i = 0; i < 5; i++) {
		keep(all[i], 2);
		assert_int_equal(linked_idle(&l, 0), i < 2 ? i + 1 : 2);
	}
	assert_int_equal(all[2]->state, SERVER_CONNECTION_CLOSED);
	assert_int_equal(all[4]->state, SERVER_CONNECTION_IDLE);
	linked_end(&l);
}

static void without_a_bound_there_is_always_a_new_one(void **state)
{
	struct pool_connection found;
	struct linked l;

	(void)state;
	linked_begin(&l, &unbounded);
	struct server_connection *connection = linked_get(&l);
	server_connection_keep(connection);
	assert_int_equal(pool_take(l.stage->worker, l.server, 0, true, &found), POOL_NEW);
	assert_int_equal(linked_open(&l), 2); /* it counts already */
	assert_int_equal(pool_take(l.stage->workers[1], l.server, 0, false, &found), POOL_NEW);
	assert_int_equal(pool_take(l.stage->worker, l.server, 0, false, &found), POOL_IDLE);
	assert_ptr_equal(found.idle, connection);
	assert_int_equal(linked_open(&l), 3);
	pool_forget(l.server->state);
	pool_forget(l.server->state);
	server_connection_close_unlisted(found.idle);
	assert_int_equal(linked_open(&l), 0);
	linked_end(&l);
}

/* ---- the bound ------------------------------------------------------------------------------- */

static void no_more_than_the_bound(void **state)
{
	struct pool_connection found;
	struct linked l;

	(void)state;
	begin_bounded(&l);
	struct server_connection *first = linked_get(&l), *second = linked_get(&l);
	assert_int_equal(pool_take(l.stage->worker, l.server, 0, false, &found), POOL_FULL);
	assert_null(linked_get_of(&l, 0, false));
	server_connection_keep(first);
	assert_ptr_equal(linked_get(&l), first);
	/* A fresh one takes the place of the oldest that is idle. */
	server_connection_keep(second);
	server_connection_keep(first);
	struct server_connection *fresh = linked_get_of(&l, 0, true);
	assert_non_null(fresh);
	assert_int_equal(second->state, SERVER_CONNECTION_CLOSED);
	assert_int_equal(linked_open(&l), 2);
	assert_ptr_equal(linked_get(&l), first);
	assert_int_equal(pool_take(l.stage->worker, l.server, 0, true, &found), POOL_FULL);
	server_connection_close(first);
	server_connection_close(fresh);
	linked_end(&l);
}

/* One that can't be shared ends, and a new one counts for it. */
static void another_workers_idle_one_makes_room(void **state)
{
	struct linked l;

	(void)state;
	begin_bounded(&l);
	struct server_connection *own = linked_get(&l);
	struct server_connection *other = linked_get_of(&l, 1, false);
	server_connection_keep(other);
	struct server_connection *new = linked_get(&l);
	assert_int_equal(linked_open(&l), 2);
	assert_int_equal(linked_idle(&l, 1), 0);
	assert_true(other->is_taken);
	assert_false(pool_remove(other)); /* it is not its worker's any more */
	server_connection_close(other);   /* that waits for the message, too */
	assert_int_equal(other->state, SERVER_CONNECTION_IDLE);
	stage_turn(l.stage);
	assert_int_equal(linked_open(&l), 2);
	assert_int_equal(l.stage->server_count, 3);
	char byte;
	assert_int_equal(memory_peer_receive(l.stage->servers[1].wire, &byte, 1), -1);
	server_connection_close(own);
	server_connection_close(new);
	assert_int_equal(linked_open(&l), 0);
	linked_end(&l);
}

/* One that could be shared, but that a server has written to, ends before a new one counts for it.
 */
static void another_workers_that_is_of_no_use_ends_first(void **state)
{
	struct linked l;
	int fds[2];
	char byte = 'x';

	(void)state;
	begin_bounded(&l);
	struct server_connection *own = linked_get(&l);
	struct server_connection *other = linked_get_of(&l, 1, false);
	const struct stream_calls *calls = other->stream.calls;
	stream_close(&other->stream);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_true(
		socket_stream_open(&other->stream, &other->worker->streams, fds[0], true, calls));
	server_connection_keep(other);
	assert_int_equal(write(fds[1], &byte, 1), 1);
	struct server_connection *new = linked_get(&l);
	assert_true(other->is_taken);
	assert_int_equal(recv(fds[1], &byte, 1, 0), 0); /* though its worker has had no turn */
	stage_turn(l.stage);
	assert_int_equal(linked_open(&l), 2);
	close(fds[1]);
	server_connection_close(own);
	server_connection_close(new);
	linked_end(&l);
}

static void a_lower_bound_closes_what_is_too_much(void **state)
{
	struct server_connection *all[4];
	struct linked l;

	(void)state;
	linked_begin(&l, &unbounded);
	for (unsigned i = 0; i < 4; i++)
		all[i] = linked_get(&l);
	server_connection_keep(all[0]);
	server_connection_keep(all[1]);
	pool_set_bound(l.server->state, 3);
	pool_share(l.server->state, l.stage->worker);
	assert_int_equal(linked_open(&l), 3);
	assert_int_equal(linked_idle(&l, 0), 1);
	assert_int_equal(all[0]->state, SERVER_CONNECTION_CLOSED); /* the oldest */
	pool_set_bound(l.server->state, 2);
	server_connection_keep(all[2]);
	assert_int_equal(all[2]->state, SERVER_CONNECTION_CLOSED);
	assert_int_equal(linked_open(&l), 2);
	server_connection_keep(all[3]);
	assert_int_equal(linked_idle(&l, 0), 2);
	pool_set_bound(l.server->state, 0);
	pool_share(l.server->state, l.stage->worker);
	assert_int_equal(linked_open(&l), 2);
	linked_end(&l);
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct waiting {
	struct pool_line line;
	unsigned number;
};

static unsigned gone_on[16], gone_on_count;

static void go_on(struct pool_line *line)
{
	assert_null(line->waiter);
	gone_on[gone_on_count++] = CONTAINER_OF(line, struct waiting, line)->number;
}

static enum pool_wait line_up(
	struct linked *l, struct waiting *waiting, unsigned number, uint64_t servers)
{
	waiting->number = number;
	return pool_wait(&waiting->line, l->stage->worker, l->server->upstream, servers, go_on);
}

static struct upstream_state *upstream_of(const struct linked *l)
{
	return l->server->upstream->state;
}

static void the_first_in_line_has_the_next(void **state)
{
	struct waiting first = {0}, second = {0};
	struct linked l;

	(void)state;
	begin_bounded(&l);
	gone_on_count = 0;
	struct server_connection *a = linked_get(&l), *b = linked_get(&l);
	assert_false(pool_has_waiters(upstream_of(&l)));
	assert_int_equal(line_up(&l, &first, 1, 1), POOL_WAITS);
	assert_int_equal(line_up(&l, &second, 2, 1), POOL_WAITS);
	assert_true(pool_has_waiters(upstream_of(&l)));
	assert_int_equal(pool_waits_for(&first.line), 1);
	server_connection_keep(a);
	assert_int_equal(gone_on_count, 0); /* on its worker's thread */
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 1);
	assert_int_equal(gone_on[0], 1);
	/* It found none after all, and keeps its place before the second. */
	assert_ptr_equal(linked_get(&l), a);
	assert_int_equal(line_up(&l, &first, 1, 1), POOL_WAITS);
	server_connection_close(b);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 2);
	assert_int_equal(gone_on[1], 1);
	pool_pass_on(upstream_of(&l)); /* it takes none: the second has it */
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 3);
	assert_int_equal(gone_on[2], 2);
	assert_false(pool_has_waiters(upstream_of(&l)));
	pool_pass_on(upstream_of(&l));
	server_connection_close(a);
	linked_end(&l);
}

static void one_that_is_free_already_is_not_waited_for(void **state)
{
	struct waiting waiting = {0};
	struct linked l;

	(void)state;
	begin_bounded(&l);
	struct server_connection *a = linked_get(&l);
	assert_int_equal(line_up(&l, &waiting, 1, 1), POOL_HAS_ONE);
	assert_null(waiting.line.waiter);
	struct server_connection *b = linked_get(&l);
	assert_int_equal(line_up(&l, &waiting, 1, 2), POOL_HAS_ONE); /* at the other server */
	assert_int_equal(line_up(&l, &waiting, 1, 0), POOL_WAITS);   /* at none */
	pool_leave(&waiting.line);
	pool_leave(&waiting.line);
	assert_null(waiting.line.waiter);
	assert_false(pool_has_waiters(upstream_of(&l)));
	server_connection_keep(a); /* an idle one is as good */
	assert_int_equal(line_up(&l, &waiting, 1, 1), POOL_HAS_ONE);
	server_connection_close(a);
	server_connection_close(b);
	linked_end(&l);
}

/* Only those who wait for the server that has one learn of it. */
static void each_waits_for_its_servers(void **state)
{
	struct waiting first = {0}, second = {0}, third = {0};
	struct linked l;

	(void)state;
	begin_bounded(&l);
	gone_on_count = 0;
	struct server *other = &l.stage->daemon.site->upstreams[1]->servers[1];
	struct server_connection *a = linked_get(&l), *b = linked_get(&l);
	l.server = other;
	struct server_connection *c = linked_get(&l);
	assert_int_equal(line_up(&l, &first, 1, 2), POOL_WAITS);
	assert_int_equal(line_up(&l, &second, 2, 1), POOL_WAITS);
	assert_int_equal(line_up(&l, &third, 3, 3), POOL_WAITS);
	server_connection_close(a);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 1);
	assert_int_equal(gone_on[0], 2);
	server_connection_close(b);
	stage_turn(l.stage);
	assert_int_equal(gone_on[1], 3);
	assert_int_equal(gone_on_count, 2);
	server_connection_close(c);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 3);
	assert_int_equal(gone_on[2], 1);
	linked_end(&l);
}

/* One that leaves after it was woken passes on what it was woken for. */
static void one_that_leaves(void **state)
{
	struct waiting first = {0}, second = {0}, third = {0};
	struct linked l;

	(void)state;
	begin_bounded(&l);
	gone_on_count = 0;
	struct server_connection *a = linked_get(&l), *b = linked_get(&l);
	line_up(&l, &first, 1, 1);
	line_up(&l, &second, 2, 1);
	line_up(&l, &third, 3, 1);
	pool_leave(&second.line);
	server_connection_close(a);
	pool_leave(&first.line);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 1);
	assert_int_equal(gone_on[0], 3);
	server_connection_close(b);
	linked_end(&l);
}

static void a_higher_bound_wakes_as_many(void **state)
{
	struct waiting waiting[4] = {0};
	struct linked l;

	(void)state;
	begin_bounded(&l);
	gone_on_count = 0;
	struct server_connection *a = linked_get(&l), *b = linked_get(&l);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(line_up(&l, &waiting[i], i, 1), POOL_WAITS);
	pool_set_bound(l.server->state, 1);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 0);
	pool_set_bound(l.server->state, 4);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 2);
	pool_set_bound(l.server->state, 0);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(gone_on[i], i);
	server_connection_close(a);
	server_connection_close(b);
	linked_end(&l);
}

/* A worker that has not seen the bound has idle ones to itself: those that wait get them then. */
static void those_that_are_shared_wake_as_many(void **state)
{
	struct waiting waiting = {0};
	struct linked l;

	(void)state;
	linked_begin(&l, &unbounded);
	gone_on_count = 0;
	struct server_connection *other = linked_get_of(&l, 1, false);
	server_connection_keep(other);
	pool_set_bound(l.server->state, 1);
	assert_null(linked_get_of(&l, 0, false));
	assert_int_equal(line_up(&l, &waiting, 1, 1), POOL_WAITS);
	pool_share(l.server->state, l.stage->workers[1]);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 1);
	struct server_connection *own = linked_get(&l);
	assert_int_equal(linked_open(&l), 1);
	server_connection_close(own);
	linked_end(&l);
}

/* ---- waiting for a place --------------------------------------------------------------------- */

static void begin_with_places(struct linked *l)
{
	linked_begin(l, &with_places);
	l->server = &l->stage->daemon.site->upstreams[1]->servers[0];
	gone_on_count = 0;
}

/* Its session has a connection. One before it that has none can't use the place. */
static void one_that_lacks_a_connection_leaves_the_place_to_one_that_has(void **state)
{
	struct waiting first = {0}, second = {.line.has_connection = true};
	struct linked l;

	(void)state;
	begin_with_places(&l);
	struct server_connection *a = linked_get(&l), *b = linked_get(&l);
	assert_true(server_take_place(l.server));
	assert_int_equal(line_up(&l, &first, 1, 1), POOL_WAITS);
	assert_int_equal(line_up(&l, &second, 2, 1), POOL_WAITS);
	server_done(l.server);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 1);
	assert_int_equal(gone_on[0], 2);
	server_connection_close(a);
	stage_turn(l.stage);
	assert_int_equal(gone_on_count, 2);
	assert_int_equal(gone_on[1], 1);
	server_connection_close(b);
	linked_end(&l);
}

/* A process of its own that tries to take a place, stopped before its first instruction. */
static pid_t begin_to_try(struct server *server)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(2);
		raise(SIGSTOP);
		_exit(server_take_place(server));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSTOPPED(status) ? child : 0;
}

/* A try that fails must not look like a place that is taken: who gives one back then, and sees
 * none free, wakes nobody. Looks after each instruction, in place of another thread. */
static void a_try_that_fails_takes_no_place_meanwhile(void **state)
{
	struct linked l;
	pid_t child;
	int status;

	(void)state;
	begin_with_places(&l);
	assert_true(server_take_place(l.server));
	child = begin_to_try(l.server);
	if (child == 0) {
		linked_end(&l);
		skip(); /* ptrace is not allowed */
	}
	for (;;) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (!WIFSTOPPED(status))
			break;
		errno = 0;
		long seen = ptrace(PTRACE_PEEKDATA, child, &l.server->state->in_flight, NULL);
		assert_int_equal(errno, 0);
		assert_int_equal(*(unsigned *)&seen, 1);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), false);
	server_done(l.server);
	linked_end(&l);
}

/* ---- whatever happens ------------------------------------------------------------------------ */

/* Two workers take, keep and close under a bound that changes. A plain count says what there is. */
static void no_connection_is_lost(void **state)
{
	struct random random = random_begin("connections");

	(void)state;
	for (unsigned round = 0; round < 10; round++) {
		struct server_connection *busy[8];
		unsigned busy_count = 0, bound = 2;
		struct linked l;
		begin_bounded(&l);
		for (unsigned step = 0; step < 120 && l.stage->server_count < 200; step++) {
			unsigned worker = (unsigned)random_below(&random, 2);
			bool fresh = random_below(&random, 4) == 0;
			unsigned at = busy_count ? (unsigned)random_below(&random, busy_count) : 0;
			switch (random_below(&random, 8)) {
			case 0:
				bound = 1 + (unsigned)random_below(&random, 4);
				pool_set_bound(l.server->state, bound);
				for (unsigned i = 0; i < 2; i++)
					pool_share(l.server->state, l.stage->workers[i]);
				break;
			case 1:
			case 2:
			case 3:
				if (busy_count == 0)
					break;
				if (random_below(&random, 3) > 0)
					server_connection_keep(busy[at]);
				else
					server_connection_close(busy[at]);
				busy[at] = busy[--busy_count];
				break;
			default:
				if (busy_count == 8)
					break;
				busy[busy_count] = linked_get_of(&l, worker, fresh);
				assert_int_equal(busy[busy_count] != NULL, busy_count < bound);
				busy_count += busy[busy_count] != NULL;
				break;
			}
			unsigned idle = linked_idle(&l, 0) + linked_idle(&l, 1);
			assert_int_equal(linked_open(&l), busy_count + idle);
			assert_true(linked_open(&l) <= (bound > busy_count ? bound : busy_count));
			if (random_below(&random, 3) == 0)
				stage_turn(l.stage);
		}
		while (busy_count > 0)
			server_connection_close(busy[--busy_count]);
		linked_end(&l);
	}
}

UNIT_SUITE(test_server_pool)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_used_is_the_first_taken),
		cmocka_unit_test(what_was_in_use_lately_stays_open),
		cmocka_unit_test(keepalive_bounds_what_is_idle),
		cmocka_unit_test(without_a_bound_there_is_always_a_new_one),
		cmocka_unit_test(no_more_than_the_bound),
		cmocka_unit_test(another_workers_idle_one_makes_room),
		cmocka_unit_test(another_workers_that_is_of_no_use_ends_first),
		cmocka_unit_test(a_lower_bound_closes_what_is_too_much),
		cmocka_unit_test(the_first_in_line_has_the_next),
		cmocka_unit_test(one_that_is_free_already_is_not_waited_for),
		cmocka_unit_test(each_waits_for_its_servers),
		cmocka_unit_test(one_that_leaves),
		cmocka_unit_test(a_higher_bound_wakes_as_many),
		cmocka_unit_test(those_that_are_shared_wake_as_many),
		cmocka_unit_test(one_that_lacks_a_connection_leaves_the_place_to_one_that_has),
		cmocka_unit_test(a_try_that_fails_takes_no_place_meanwhile),
		cmocka_unit_test(no_connection_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
