/* A worker's listeners: whom they accept within which bounds, what happens where none can be, and
 * how they end. The socket is a fake: the test says what it has. */
#include "listen/listener.h"

#include <errno.h>
#include <unistd.h>

#include "site/site_use.h"
#include "fake_acceptor.h"
#include "tests/unit/exchange/fakes/stage.h"
#include "tests/unit/suite.h"

/* ---- the world ------------------------------------------------------------------------------- */

struct world {
	struct stage *stage;
	struct worker *worker;
	struct binding binding;
	struct connection_bound bound;
	char text[64];
	int sockets[1];
	struct listener *listeners[1], *listener;
};

static struct idle_link *idle; /* one that may give way */
static struct listener *idles_at;
static unsigned taken;

static void take_client(struct worker *worker, struct listener *listener, struct accepted *accepted)
{
	(void)accepted;
	assert_ptr_equal(listener->worker, worker);
	taken++;
}

static bool none_lingers(struct listener *listener)
{
	(void)listener;
	return false;
}

static struct idle_link *find_idle(struct worker *worker, const struct connection_bound *bound)
{
	(void)worker;
	(void)bound;
	return idle;
}

static void close_idle(struct idle_link *link)
{
	assert_ptr_equal(link, idle);
	idle = NULL;
	listener_connection_closed(idles_at, NULL);
}

static const struct protocol protocol = {.name = "http/1.1",
	.bit = CONF_PROTOCOL_HTTP1,
	.take_client = take_client,
	.give_way = none_lingers,
	.find_idle = find_idle,
	.close_idle = close_idle};
static const struct protocol *const protocols[] = {&protocol, NULL};

static void begin(struct world *w, const struct stage_conf *conf)
{
	fake = (struct fake_acceptor){.handshakes = HANDSHAKES_NONE};
	taken = 0;
	idle = NULL;
	*w = (struct world){.stage = stage_begin(conf), .text = "127.0.0.1:1"};
	w->worker = w->stage->worker;
	w->sockets[0] = FAKE_DESCRIPTOR;
	w->listeners[0] = w->listener = calloc(1, sizeof(struct listener));
	assert_non_null(w->listener);
	w->binding = (struct binding){.text = w->text,
		.sockets = w->sockets,
		.listeners = w->listeners,
		.workers = 1,
		.bound = &w->bound};
	w->stage->daemon.listening.bindings = &w->binding;
	pthread_mutex_init(&w->stage->daemon.listening.lock, NULL);
	listeners_update(w->worker, protocols);
	assert_ptr_equal(listen_part(w->worker)->listeners, w->listener);
	assert_true(w->listener->acceptor.accepting);
	idles_at = w->listener;
}

static void end(struct world *w)
{
	w->stage->daemon.listening.bindings = NULL;
	while (listen_part(w->worker)->listeners &&
		listen_part(w->worker)->listeners->connections > 0)
		listener_connection_closed(listen_part(w->worker)->listeners, NULL);
	listeners_close(w->worker);
	assert_null(listen_part(w->worker)->listeners);
	assert_int_equal(w->binding.holders, 0);
	assert_int_equal(w->bound.connections, 0);
	assert_int_equal(w->stage->daemon.listening.descriptors.connections, 0);
	pthread_mutex_destroy(&w->stage->daemon.listening.lock);
	stage_end(w->stage);
}

static void come(struct world *w, unsigned clients)
{
	fake.waiting = clients;
	if (w->listener->acceptor.accepting)
		fake.ready(&w->listener->acceptor);
}

static const struct stage_conf plain = {0};

/* ---- accepting ------------------------------------------------------------------------------- */

static void all_who_come_are_accepted(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	assert_int_equal(w.binding.holders, 1);
	assert_null(w.listeners[0]); /* it is the worker's now */
	assert_int_equal(w.sockets[0], -1);
	come(&w, 3);
	assert_int_equal(taken, 3);
	assert_int_equal(w.listener->connections, 3);
	assert_int_equal(w.bound.connections, 3);
	assert_int_equal(w.stage->daemon.listening.descriptors.connections, 3);
	listener_connection_closed(w.listener, NULL);
	assert_int_equal(w.bound.connections, 2);
	w.stage->daemon.listening.clients_max = 1000;
	come(&w, 100); /* others get their turn in between */
	assert_int_equal(taken, 3 + 64);
	come(&w, fake.waiting);
	assert_int_equal(taken, 103);
	end(&w);
}

static void a_second_look_opens_none(void **state)
{
	const struct stage_conf conf = {.listener = "backlog = 33"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	const struct conf_listener *before = w.listener->conf;
	assert_ptr_equal(before, &w.stage->daemon.site->conf->listeners[0]);
	listeners_update(w.worker, protocols);
	assert_ptr_equal(listen_part(w.worker)->listeners, w.listener);
	assert_null(w.listener->next);
	assert_int_equal(fake.backlog, 33);
	end(&w);
}

static void which_bindings_are_opened(void **state)
{
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		begin(&w, &plain);
		struct binding other = {.text = i == 0 ? w.text : (char[]){"127.0.0.1:9"},
			.closed = i == 0,
			.sockets = (int[]){i == 2 ? -1 : 78},
			.next = NULL,
			.workers = 1};
		w.binding.next = &other;
		listeners_update(w.worker, protocols); /* closed, of no listener, taken already */
		assert_null(w.listener->next);
		assert_ptr_equal(listen_part(w.worker)->listeners, w.listener);
		w.binding.next = NULL;
		end(&w);
	}
}

static void no_more_than_max_connections(void **state)
{
	const struct stage_conf conf = {.listener = "max_connections = 2"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	come(&w, 3);
	assert_int_equal(taken, 2);
	assert_true(w.listener->acceptor.accepting); /* the loop tells whether another one waits */
	come(&w, 1);
	assert_false(w.listener->acceptor.accepting);
	assert_true(w.bound.waiting);
	assert_int_equal(w.bound.connections, 2);
	assert_int_equal(w.stage->daemon.listening.descriptors.connections, 2);
	/* Nothing is idle: it looks again after a while. */
	assert_int_equal(w.listener->again.at_ms, STAGE_START_MS + 100);
	stage_pass(w.stage, &w.listener->again);
	assert_true(w.listener->acceptor.accepting);
	come(&w, 1);
	assert_int_equal(taken, 2);
	listener_connection_closed(w.listener, NULL);
	stage_turn(w.stage); /* every worker hears that there is a place */
	assert_true(w.listener->acceptor.accepting);
	assert_false(w.bound.waiting);
	come(&w, 1);
	assert_int_equal(taken, 3);
	end(&w);
}

static void an_idle_connection_makes_room(void **state)
{
	const struct stage_conf conf = {.listener = "max_connections = 2"};
	struct world w;
	struct idle_link link = {0};

	(void)state;
	begin(&w, &conf);
	come(&w, 2);
	idle = &link;
	come(&w, 1);
	assert_null(idle);
	stage_turn(w.stage);
	assert_int_equal(w.listener->again.at_ms, DEADLINE_NEVER);
	assert_true(w.listener->acceptor.accepting);
	come(&w, 1);
	assert_int_equal(taken, 3);
	end(&w);
}

/* A client in the backlog of a shared socket wakes them all. */
static void one_worker_makes_room_at_a_shared_socket(void **state)
{
	const struct stage_conf conf = {.listener = "max_connections = 2"};
	struct idle_link link = {0};
	struct world w;

	(void)state;
	begin(&w, &conf);
	come(&w, 2);
	w.binding.is_shared = true;
	idle = &link;
	w.binding.making_way = 2; /* the second worker's */
	come(&w, 1);
	assert_non_null(idle);
	assert_int_equal(w.listener->again.at_ms, STAGE_START_MS + 100);
	stage_pass(w.stage, &w.listener->again);
	w.binding.making_way = 0; /* which has accepted the client by now */
	fake.waiting = 0;
	fake.ready(&w.listener->acceptor);
	assert_non_null(idle);
	assert_int_equal(w.binding.making_way, 0);
	stage_pass(w.stage, &w.listener->again);
	come(&w, 1);
	assert_null(idle);
	assert_int_equal(w.binding.making_way, 1);
	stage_turn(w.stage);
	come(&w, 1);
	assert_int_equal(taken, 3);
	assert_int_equal(w.binding.making_way, 0);
	end(&w);
}

static void no_more_than_there_are_descriptors(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	w.stage->daemon.listening.clients_max = 1;
	w.stage->daemon.listening.descriptor_limit = 50;
	come(&w, 2);
	come(&w, 1);
	assert_int_equal(taken, 1);
	assert_int_equal(w.bound.connections, 1); /* the place there is given back */
	assert_false(w.listener->acceptor.accepting);
	assert_has(lines.text, "warn 1 clients are connected, as many as the limit of 50 ");
	lines_clear();
	stage_pass(w.stage, &w.listener->again);
	come(&w, 2);
	assert_int_equal(taken, 1);
	assert_lacks(lines.text, "clients are connected"); /* once */
	end(&w);
}

static void what_accept_fails_with(void **state)
{
	static const struct {
		int error;
		bool stops, has_line;
	} rows[] = {
		{EAGAIN, false, false},
		{ECONNABORTED, false, false},
		{EINTR, false, false},
		{EPROTO, false, false},
		{EPERM, false, true},
		{EMFILE, true, true},
		{ENFILE, true, true},
		{ENOBUFS, true, true},
		{ENOMEM, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w;
		begin(&w, &plain);
		fake.error = rows[i].error;
		come(&w, 1);
		assert_int_equal(w.bound.connections, 0);
		assert_int_equal(strstr(lines.text, "listener l: ") != NULL, rows[i].has_line);
		assert_int_equal(w.listener->acceptor.accepting, !rows[i].stops);
		assert_int_equal(atomic_load(&w.stage->daemon.listening.deaf), rows[i].stops);
		fake.error = 0;
		if (rows[i].stops) {
			assert_int_equal(w.listener->retry.at_ms, STAGE_START_MS + 500);
			listeners_resume(w.worker); /* a place does not help */
			assert_false(w.listener->acceptor.accepting);
			stage_pass(w.stage, &w.listener->retry);
		}
		assert_int_equal(atomic_load(&w.stage->daemon.listening.deaf), 0);
		come(&w, 1);
		assert_int_equal(taken, 1);
		end(&w);
	}
}

/* The system may refuse to watch a socket at any time: at first, and after each pause. */
static void deaf_ones_try_again(void **state)
{
	struct world w;
	atomic_uint *deaf;

	(void)state;
	begin(&w, &plain);
	deaf = &w.stage->daemon.listening.deaf;
	fake.error = ENOBUFS;
	come(&w, 1);
	fake.error = 0;
	fake.is_deaf = true;
	for (int i = 1; i <= 3; i++) {
		stage_pass(w.stage, &w.listener->retry);
		assert_false(w.listener->acceptor.accepting);
		assert_int_equal(atomic_load(deaf), 1);
		assert_int_not_equal(w.listener->retry.at_ms, DEADLINE_NEVER);
	}
	assert_non_null(strstr(lines.text, "listener l: can't wait for clients"));
	fake.is_deaf = false;
	stage_pass(w.stage, &w.listener->retry);
	assert_true(w.listener->acceptor.accepting);
	assert_int_equal(atomic_load(deaf), 0);
	come(&w, 1);
	assert_int_equal(taken, 1);
	end(&w);
}

/* It is not counted any more when it closes meanwhile. */
static void deaf_ones_may_close(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	fake.error = ENOBUFS;
	come(&w, 1);
	fake.error = 0;
	assert_int_equal(atomic_load(&w.stage->daemon.listening.deaf), 1);
	listeners_close(w.worker);
	assert_int_equal(atomic_load(&w.stage->daemon.listening.deaf), 0);
	end(&w);
}

/* Another worker's idle connections to servers may give one up: it looks soon, three times at
 * least. */
static void descriptors_of_other_workers(void **state)
{
	const struct stage_conf conf = {.two_workers = true};
	struct world w;

	(void)state;
	begin(&w, &conf);
	fake.error = EMFILE;
	fake.waiting = 1;
	fake.ready(&w.listener->acceptor);
	for (unsigned i = 0; i < 3; i++) {
		assert_false(w.listener->acceptor.accepting);
		assert_int_equal(w.listener->retry.at_ms, worker_now_ms(w.worker) + SPARE_LOOK_MS);
		assert_null(strstr(lines.text, "listener l: "));
		spare_answer(w.stage->workers[1]); /* it has none */
		stage_pass(w.stage, &w.listener->retry);
		fake.ready(&w.listener->acceptor);
	}
	assert_int_equal(w.listener->retry.at_ms, worker_now_ms(w.worker) + 500);
	assert_has(lines.text, "listener l: Too many open files; not accepting for now");
	fake.error = 0;
	stage_pass(w.stage, &w.listener->retry);
	fake.ready(&w.listener->acceptor);
	assert_int_equal(taken, 1);
	end(&w);
}

/* A descriptor that is given back is one to accept with. */
static void a_close_ends_the_lack_of_descriptors(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	come(&w, 1);
	fake.error = EMFILE;
	come(&w, 1);
	fake.error = 0;
	assert_false(w.listener->acceptor.accepting);
	listener_connection_closed(w.listener, NULL);
	assert_true(w.listener->acceptor.accepting);
	end(&w);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool look(struct world *w)
{
	stage_pass(w->stage, &w->listener->quiet);
	return listeners_are_closed(w->worker);
}

/* Two looks without a handshake, and an empty backlog. */
static void it_retires_when_nobody_is_on_the_way(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	listeners_retire(w.worker);
	assert_true(fake.kept_out);
	assert_true(w.listener->acceptor.accepting);
	assert_false(look(&w));
	assert_int_equal(w.listener->quiet.at_ms, STAGE_START_MS + 100);
	fake.waiting = 1; /* all that have come by then are accepted */
	assert_true(look(&w));
	assert_int_equal(taken, 1);
	assert_int_equal(fake.closes, 1);
	assert_ptr_equal(
		listen_part(w.worker)->listeners, w.listener); /* until its connection has gone */
	listener_connection_closed(w.listener, NULL);
	assert_null(listen_part(w.worker)->listeners);
	end(&w);
}

static void it_waits_for_handshakes_but_not_for_ever(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	fake.handshakes = HANDSHAKES_UNDER_WAY;
	listeners_retire(w.worker);
	assert_false(look(&w));
	assert_int_equal(w.listener->quiet.at_ms, STAGE_START_MS + 250);
	stage_at(w.stage, 3900);
	assert_false(look(&w)); /* it looks at the end of its time, not behind it */
	assert_int_equal(w.listener->quiet.at_ms, STAGE_START_MS + 4000);
	stage_pass(w.stage, &w.listener->quiet);
	assert_null(listen_part(w.worker)->listeners);
	assert_has(lines.text, "is closed although clients have not finished");
	end(&w);
}

static void where_handshakes_cannot_be_seen(void **state)
{
	struct world w;
	uint64_t looks = 0;

	(void)state;
	begin(&w, &plain);
	fake.handshakes = HANDSHAKES_UNKNOWN;
	fake.keeps_nothing_out = true;
	listeners_retire(w.worker);
	while (listen_part(w.worker)->listeners) {
		stage_pass(w.stage, &w.listener->quiet);
		looks++;
	}
	assert_int_equal(worker_now_ms(w.worker), STAGE_START_MS + 1500);
	assert_int_equal(looks, 16);
	end(&w);
}

static void a_unix_socket_knows_no_handshake(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	strcpy(w.text, "unix:/tmp/x");
	come(&w, 1); /* just now */
	listeners_retire(w.worker);
	assert_false(fake.kept_out);
	fake.waiting = 2;
	stage_pass(w.stage, &w.listener->quiet);
	assert_int_equal(taken, 3);
	assert_int_equal(fake.closes, 1);
	assert_int_equal(worker_now_ms(w.worker), STAGE_START_MS); /* with the first look */
	end(&w);
}

static void that_of_systemd_is_closed_at_once(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	strcpy(w.text, "systemd:x");
	listeners_retire(w.worker);
	assert_null(listen_part(w.worker)->listeners);
	assert_int_equal(fake.closes, 1);
	end(&w);
}

static void a_drain_leaves_them_half_of_its_time(void **state)
{
	const struct stage_conf conf = {.node = "shutdown_timeout = 3s"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	listeners_retire(w.worker);
	assert_int_equal(w.listener->retire_max_ms, STAGE_START_MS + 4000);
	w.worker->draining = true;
	stage_at(w.stage, 1000);
	listeners_retire(w.worker); /* the drain began meanwhile */
	assert_int_equal(w.listener->retire_max_ms, STAGE_START_MS + 2500);
	stage_at(w.stage, 2000);
	listeners_retire(w.worker);
	assert_int_equal(w.listener->retire_max_ms, STAGE_START_MS + 2500);
	w.worker->draining = false;
	end(&w);
}

static bool is_woken(struct worker *worker)
{
	uint64_t count = 0;

	return read(worker->loop.wake_fd, &count, sizeof(count)) == sizeof(count) && count > 0;
}

static void workers_that_wait_for_the_last_client_are_woken(void **state)
{
	const struct stage_conf conf = {.two_workers = true};
	struct world w;

	(void)state;
	begin(&w, &conf);
	struct worker *other = w.stage->workers[1];
	is_woken(other);
	come(&w, 1);
	atomic_store(&w.stage->daemon.node.clients, 1);
	other->draining = true;
	listener_client_gone(
		w.listener, NULL); /* the other one waits for this, and we do not drain yet */
	is_woken(other);
	w.worker->draining = true;
	listeners_retire(w.worker);
	assert_true(is_woken(other));
	atomic_store(&w.stage->daemon.node.clients, 1);
	listeners_retire(w.worker);
	assert_false(is_woken(other));
	come(&w, 1);
	listener_client_gone(w.listener, NULL);
	assert_true(is_woken(other));
	w.worker->draining = other->draining = false;
	end(&w);
}

static void a_bind_that_is_gone_retires(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	strcpy(w.text, "127.0.0.1:99");
	listeners_update(w.worker, protocols);
	assert_true(w.listener->retiring);
	assert_null(w.listener->next);
	strcpy(w.text, "127.0.0.1:1"); /* and back: it is another one that is opened */
	fake.backlog = 0;
	listeners_update(w.worker, protocols);
	assert_true(w.listener->retiring);
	assert_int_equal(fake.backlog, 0);
	end(&w);
}

static void what_another_process_has_is_closed(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	listeners_hand_over(w.worker);
	assert_false(listeners_are_closed(w.worker));
	w.binding.handed_over = true;
	come(&w, 1);
	listeners_hand_over(w.worker);
	assert_true(listeners_are_closed(w.worker));
	listeners_hand_over(w.worker);
	listeners_close(w.worker);
	assert_int_equal(fake.closes, 1);
	end(&w);
}

static void in_a_drain_none_is_opened(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	listeners_close(w.worker);
	assert_null(listen_part(w.worker)->listeners);
	w.sockets[0] = 77;
	w.listeners[0] = w.listener = calloc(1, sizeof(struct listener));
	w.worker->draining = true;
	listeners_update(w.worker, protocols);
	assert_null(listen_part(w.worker)->listeners);
	w.worker->draining = false;
	listeners_update(w.worker, protocols);
	assert_ptr_equal(listen_part(w.worker)->listeners, w.listener);
	come(&w, 2);
	listeners_free(w.worker); /* with connections that nobody closed */
	assert_null(listen_part(w.worker)->listeners);
	w.bound.connections = w.stage->daemon.listening.descriptors.connections = 0;
	end(&w);
}

UNIT_SUITE(test_listener)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_who_come_are_accepted),
		cmocka_unit_test(a_second_look_opens_none),
		cmocka_unit_test(which_bindings_are_opened),
		cmocka_unit_test(no_more_than_max_connections),
		cmocka_unit_test(an_idle_connection_makes_room),
		cmocka_unit_test(one_worker_makes_room_at_a_shared_socket),
		cmocka_unit_test(no_more_than_there_are_descriptors),
		cmocka_unit_test(what_accept_fails_with),
		cmocka_unit_test(deaf_ones_try_again),
		cmocka_unit_test(deaf_ones_may_close),
		cmocka_unit_test(descriptors_of_other_workers),
		cmocka_unit_test(a_close_ends_the_lack_of_descriptors),
		cmocka_unit_test(it_retires_when_nobody_is_on_the_way),
		cmocka_unit_test(it_waits_for_handshakes_but_not_for_ever),
		cmocka_unit_test(where_handshakes_cannot_be_seen),
		cmocka_unit_test(a_unix_socket_knows_no_handshake),
		cmocka_unit_test(that_of_systemd_is_closed_at_once),
		cmocka_unit_test(a_drain_leaves_them_half_of_its_time),
		cmocka_unit_test(workers_that_wait_for_the_last_client_are_woken),
		cmocka_unit_test(a_bind_that_is_gone_retires),
		cmocka_unit_test(what_another_process_has_is_closed),
		cmocka_unit_test(in_a_drain_none_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
