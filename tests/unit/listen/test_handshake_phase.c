/* Connections whose transport has a handshake: when they become clients, and how they end before
 * that. The transport is in memory, and the listening socket a fake. */
#include "listen/handshake_phase.h"

#include <string.h>

#include "fake_acceptor.h"
#include "listen/give_way.h"
#include "listen/listener.h"
#include "tests/unit/exchange/fakes/stage.h"
#include "tests/unit/net/memory_stream.h"
#include "tests/unit/suite.h"

#define ROOM       64
#define TIMEOUT_MS 10000
#define MOST       50

struct world {
	struct stage *stage;
	struct worker *worker;
	struct binding binding;
	struct connection_bound bound;
	struct listener *listeners[1], *listener;
	struct stream_export export;
};

static unsigned first_taken, second_taken;
static struct stream_export client; /* the last one taken */

static void take_first(struct worker *worker, struct listener *listener,
	struct stream_export *taken, const struct sockaddr *peer, socklen_t len)
{
	assert_ptr_equal(listener->worker, worker);
	assert_true(len > 0 && peer->sa_family == AF_UNSPEC);
	first_taken++;
	client = *taken;
}

static void take_second(struct worker *worker, struct listener *listener,
	struct stream_export *taken, const struct sockaddr *peer, socklen_t len)
{
	take_first(worker, listener, taken, peer, len);
	first_taken--;
	second_taken++;
}

static bool none_lingers(struct listener *listener)
{
	(void)listener;
	return false;
}

static struct idle_link *none_is_idle(struct worker *worker, const struct connection_bound *bound)
{
	(void)worker;
	(void)bound;
	return NULL;
}

static const struct protocol first = {.name = "http/1.1",
	.bit = CONF_PROTOCOL_HTTP1,
	.plain_answer = "plain answer",
	.take_client = take_first,
	.give_way = none_lingers,
	.find_idle = none_is_idle};
static const struct protocol second = {.name = "h2",
	.bit = CONF_PROTOCOL_HTTP2,
	.take_client = take_second,
	.give_way = none_lingers,
	.find_idle = none_is_idle};
static const struct protocol *const protocols[] = {&first, &second, NULL};

static void begin(struct world *w, const struct stage_conf *conf)
{
	static int sockets[1];

	fake = (struct fake_acceptor){.handshakes = HANDSHAKES_NONE};
	first_taken = second_taken = 0;
	*w = (struct world){.stage = stage_begin(conf)};
	w->worker = w->stage->worker;
	/* Both, whatever this build speaks. */
	struct conf_listener *conf_listener =
		(struct conf_listener *)(uintptr_t)w->stage->daemon.site->conf->listeners;
	conf_listener->protocols = CONF_PROTOCOL_HTTP1 | CONF_PROTOCOL_HTTP2;
	w->listeners[0] = w->listener = calloc(1, sizeof(struct listener));
	assert_non_null(w->listener);
	sockets[0] = FAKE_DESCRIPTOR;
	w->binding = (struct binding){.text = (char[]){"127.0.0.1:1"},
		.sockets = sockets,
		.listeners = w->listeners,
		.workers = 1,
		.bound = &w->bound};
	w->stage->daemon.listening.bindings = &w->binding;
	pthread_mutex_init(&w->stage->daemon.listening.lock, NULL);
	listeners_update(w->worker, protocols);
}

static void end(struct world *w)
{
	w->stage->daemon.listening.bindings = NULL;
	listeners_close(w->worker);
	assert_null(listen_part(w->worker)->listeners);
	assert_int_equal(w->bound.connections, 0);
	assert_int_equal(w->stage->daemon.listening.descriptors.connections, 0);
	pthread_mutex_destroy(&w->stage->daemon.listening.lock);
	stage_turn(w->stage);
	stage_end(w->stage);
}

static struct memory_peer *come_with_room(
	struct world *w, size_t room, unsigned bytes, const char *protocol)
{
	struct memory_peer *peer = memory_handshake_new(&w->export, room, bytes, protocol);

	fake.next = &w->export;
	fake.waiting = 1;
	fake.ready(&w->listener->acceptor);
	stage_turn(w->stage);
	return peer;
}

static struct memory_peer *come(struct world *w, unsigned bytes, const char *protocol)
{
	return come_with_room(w, ROOM, bytes, protocol);
}

static void leave(struct world *w, struct memory_peer *peer)
{
	stream_export_close(&client);
	listener_connection_closed(w->listener);
	memory_peer_close(peer);
}

static bool is_closed(struct memory_peer *peer)
{
	char text[ROOM];

	return memory_peer_receive(peer, text, sizeof(text)) == -1;
}

static const struct stage_conf plain = {0};

/* ---- what comes of it ------------------------------------------------------------------------ */

static void a_client_is_one_after_its_handshake(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL);
	assert_int_equal(w.listener->handshakes.count, 1);
	assert_int_equal(w.listener->connections, 1); /* it has its place already */
	assert_int_equal(w.bound.connections, 1);
	memory_peer_send(peer, "ab", 2);
	stage_turn(w.stage);
	assert_int_equal(first_taken, 0);
	memory_peer_send(peer, "cGET", 4);
	stage_turn(w.stage);
	assert_int_equal(first_taken, 1);
	assert_int_equal(w.listener->handshakes.count, 0);
	assert_int_equal(w.listener->connections, 1);
	assert_false(stream_export_is_silent(&client)); /* the request is still to be read */
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_DONE), 1);
	leave(&w, peer);
	end(&w);
}

/* Others get their turn between them. */
static void few_continue_in_one_turn(void **state)
{
	struct memory_peer *peers[3 * HANDSHAKES_A_TURN];
	struct world w;

	(void)state;
	begin(&w, &plain);
	for (unsigned i = 0; i < 3 * HANDSHAKES_A_TURN; i++)
		peers[i] = come(&w, 3, NULL);
	for (unsigned i = 0; i < 3 * HANDSHAKES_A_TURN; i++)
		memory_peer_close(peers[i]); /* each fails when it continues */
	for (unsigned turns = 1; turns <= 3; turns++) {
		stage_turn(w.stage);
		assert_int_equal(w.listener->handshakes.count, (3 - turns) * HANDSHAKES_A_TURN);
	}
	end(&w);
}

static void the_handshake_chooses_the_protocol(void **state)
{
	static const char *const names[] = {NULL, "http/1.1", "h2", "spdy/1"};
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		begin(&w, &plain);
		struct memory_peer *peer = come(&w, 0, names[i]);
		assert_int_equal(first_taken, i != 2);
		assert_int_equal(second_taken, i == 2);
		leave(&w, peer);
		end(&w);
	}
}

static void a_failed_one_is_no_client(void **state)
{
	struct world w;

	(void)state;
	for (unsigned ends = 0; ends < 3; ends++) {
		begin(&w, &plain);
		struct memory_peer *peer = come(&w, 3, NULL);
		if (ends == 0)
			memory_peer_send(peer, "aX", 2);
		else if (ends == 1)
			memory_peer_end_output(peer);
		else
			memory_peer_reset(peer);
		stage_turn(w.stage);
		assert_int_equal(w.listener->connections, 0);
		assert_int_equal(first_taken, 0);
		assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_FAILED), 1);
		memory_peer_close(peer);
		end(&w);
	}
}

static void one_that_speaks_without_it_is_told(void **state)
{
	struct world w;
	char text[ROOM];

	(void)state;
	for (unsigned leaves = 0; leaves < 2; leaves++) {
		begin(&w, &plain);
		struct memory_peer *peer = come(&w, 3, NULL);
		memory_peer_send(peer, "HEAD / and more", 15);
		stage_turn(w.stage);
		assert_int_equal(memory_peer_receive(peer, text, sizeof(text)), 12);
		assert_memory_equal(text, "plain answer", 12);
		assert_true(is_closed(peer));
		assert_int_equal(w.listener->connections, 1); /* it may still send */
		memory_peer_send(peer, "yet more", 8);
		stage_turn(w.stage);
		assert_int_equal(w.listener->connections, 1);
		if (leaves) {
			memory_peer_end_output(peer);
			stage_turn(w.stage);
		} else {
			assert_int_equal(w.listener->handshakes.deadline.at_ms,
				STAGE_START_MS + HANDSHAKE_ANSWER_MS);
			stage_pass(w.stage, &w.listener->handshakes.deadline);
		}
		assert_int_equal(w.listener->connections, 0);
		assert_int_equal(first_taken, 0);
		memory_peer_close(peer);
		end(&w);
	}
}

/* It sends faster than it is read. */
static void what_it_sends_has_its_turn_only(void **state)
{
	static char much[1024 * 1024] = "HEAD / and more";
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come_with_room(&w, sizeof(much), 3, NULL);
	assert_int_equal(memory_peer_send(peer, much, sizeof(much)), sizeof(much));
	stage_turn(w.stage);
	assert_in_range(memory_peer_send(peer, much, sizeof(much)), 1, 128 * 1024);
	for (unsigned turn = 0; turn < 64; turn++)
		stage_turn(w.stage);
	assert_int_equal(memory_peer_send(peer, much, sizeof(much)), sizeof(much));
	assert_int_equal(w.listener->connections, 1);
	memory_peer_close(peer);
	for (unsigned turn = 0; turn < 64; turn++)
		stage_turn(w.stage);
	assert_int_equal(w.listener->connections, 0);
	end(&w);
}

/* ---- its bounds ------------------------------------------------------------------------------ */

static void it_has_a_deadline_that_bytes_do_not_move(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL);
	stage_at(w.stage, TIMEOUT_MS - 1);
	memory_peer_send(peer, "a", 1);
	stage_turn(w.stage);
	assert_int_equal(w.listener->handshakes.count, 1);
	handshakes_drain(w.listener); /* which moves it to nearer ones only */
	assert_int_equal(w.listener->handshakes.deadline.at_ms, STAGE_START_MS + TIMEOUT_MS);
	stage_pass(w.stage, &w.listener->handshakes.deadline);
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_LATE), 1);
	assert_true(is_closed(peer));
	memory_peer_close(peer);
	end(&w);
}

static void the_oldest_leaves_beyond_the_bound(void **state)
{
	struct memory_peer *peers[MOST + 1];
	const struct stage_conf conf = {.listener = "max_handshakes = 50"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	unsigned most = (MOST + w.worker->node->worker_count - 1) / w.worker->node->worker_count;
	for (unsigned i = 0; i <= most; i++)
		peers[i] = come(&w, 3, NULL);
	assert_int_equal(w.listener->handshakes.count, most);
	assert_int_equal(w.listener->connections, most);
	assert_true(is_closed(peers[0]));
	assert_false(is_closed(peers[1]));
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_DISPLACED), 1);
	listeners_close(w.worker);
	for (unsigned i = 0; i <= most; i++)
		memory_peer_close(peers[i]);
	end(&w);
}

static void a_silent_one_makes_room(void **state)
{
	const struct stage_conf conf = {.listener = "max_connections = 2"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	struct memory_peer *silent = come(&w, 3, NULL), *slow = come(&w, 3, NULL);
	assert_false(handshake_give_way(w.listener));
	stage_at(w.stage, HANDSHAKE_SILENT_MS);
	memory_peer_send(silent, "a", 1);
	stage_turn(w.stage);
	assert_true(give_way(w.listener, &w.bound));
	assert_int_equal(w.listener->connections, 1);
	assert_true(is_closed(slow));
	assert_false(is_closed(silent));
	assert_false(handshake_give_way(w.listener));
	memory_peer_close(slow);
	listeners_close(w.worker);
	memory_peer_close(silent);
	end(&w);
}

/* ---- the end of its listener ----------------------------------------------------------------- */

static void a_drain_waits_for_it_a_moment(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL), *silent = come(&w, 3, NULL);
	w.worker->draining = true;
	fake.waiting = 0;
	listeners_retire(w.worker);
	while (!w.listener->closed)
		stage_pass(w.stage, &w.listener->quiet);
	assert_false(listeners_are_closed(w.worker));
	memory_peer_send(peer, "abc", 3);
	stage_turn(w.stage);
	assert_int_equal(first_taken, 1);
	assert_false(listeners_are_closed(w.worker));
	assert_int_equal(
		w.listener->handshakes.deadline.at_ms, STAGE_START_MS + HANDSHAKE_SILENT_MS);
	stage_pass(w.stage, &w.listener->handshakes.deadline);
	assert_true(listeners_are_closed(w.worker));
	leave(&w, peer); /* and frees the listener */
	memory_peer_close(silent);
	end(&w);
}

static void a_stop_ends_those_of_a_closed_listener(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL), *other = come(&w, 3, NULL);
	w.binding.handed_over = true;
	listeners_hand_over(w.worker);
	assert_true(w.listener->closed);
	listeners_close(w.worker);
	assert_null(listen_part(w.worker)->listeners);
	memory_peer_close(peer);
	memory_peer_close(other);
	end(&w);
}

UNIT_SUITE(test_handshake_phase)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_is_one_after_its_handshake),
		cmocka_unit_test(few_continue_in_one_turn),
		cmocka_unit_test(the_handshake_chooses_the_protocol),
		cmocka_unit_test(a_failed_one_is_no_client),
		cmocka_unit_test(one_that_speaks_without_it_is_told),
		cmocka_unit_test(what_it_sends_has_its_turn_only),
		cmocka_unit_test(it_has_a_deadline_that_bytes_do_not_move),
		cmocka_unit_test(the_oldest_leaves_beyond_the_bound),
		cmocka_unit_test(a_silent_one_makes_room),
		cmocka_unit_test(a_drain_waits_for_it_a_moment),
		cmocka_unit_test(a_stop_ends_those_of_a_closed_listener),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
