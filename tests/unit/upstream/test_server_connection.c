/* A connection to a server through its life: made, used, kept, used again, moved, closed. */
#include "upstream/server_connection.h"

#include <errno.h>

#include "linked.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};

static void one_is_made(void **state)
{
	struct http_head response;
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	assert_int_equal(linked_open(&l), 1);
	assert_true(server_is_connected(connection));
	assert_false(server_is_reused(connection));
	assert_false(server_is_stale(connection));
	assert_ptr_equal(server_state_of(connection), l.server->state);
	assert_string_equal(l.stage->servers[0].address, "127.0.0.1:2");
	memory_peer_send(l.stage->servers[0].wire, "x", 1);
	stage_turn(l.stage);
	assert_string_equal(linked_heard(&l), "event "); /* no head is awaited */
	server_expect_head(connection, &response);
	memory_peer_send(l.stage->servers[0].wire, "y", 1);
	stage_turn(l.stage);
	assert_string_equal(linked_heard(&l), "fetch event ");
	assert_true(server_has_bytes(connection));
	server_connection_close(connection);
	server_connection_close(connection); /* nothing more */
	assert_int_equal(linked_open(&l), 0);
	stage_turn(l.stage);
	assert_string_equal(linked_heard(&l), "");
	linked_end(&l);
}

static void one_takes_its_time(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	l.stage->connects_later = true;
	struct server_connection *connection = linked_get(&l);
	assert_false(server_is_connected(connection));
	stream_wake(&connection->stream);
	stage_turn(l.stage);
	assert_string_equal(linked_heard(&l), ""); /* nothing is decided yet */
	stage_server_connected(l.stage, 0);
	assert_string_equal(linked_heard(&l), "connected(0) ");
	assert_true(server_is_connected(connection));
	server_connection_close(connection);
	linked_end(&l);
}

static void one_is_refused_later(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	l.stage->connects_later = true;
	struct server_connection *connection = linked_get(&l);
	memory_peer_reset(l.stage->servers[0].wire);
	stage_turn(l.stage);
	assert_has(linked_heard(&l), "connected(1");
	assert_false(server_is_connected(connection));
	assert_int_equal(server_connection_failed(connection, ECONNREFUSED), CONNECT_SERVER);
	assert_int_equal(server_connection_failed(connection, EADDRNOTAVAIL), CONNECT_LOCAL);
	server_connection_close(connection);
	linked_end(&l);
}

static void whose_fault_it_is(void **state)
{
	static const struct {
		int error;
		enum connect_fault fault;
	} rows[] = {
		{ECONNREFUSED, CONNECT_SERVER},
		{EHOSTUNREACH, CONNECT_SERVER},
		{ETIMEDOUT, CONNECT_SERVER},
		{EMFILE, CONNECT_NO_DESCRIPTOR},
		{ENFILE, CONNECT_NO_DESCRIPTOR},
		{ENOBUFS, CONNECT_LOCAL},
		{ENOMEM, CONNECT_LOCAL},
		{EADDRNOTAVAIL, CONNECT_LOCAL},
		{EAGAIN, CONNECT_LOCAL},
	};
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *why = NULL;
		enum connect_fault fault;
		l.stage->connect_error = rows[i].error;
		assert_null(server_connection_get(
			l.stage->worker, l.server, linked_user(&l), false, &why, &fault));
		assert_int_equal(fault, rows[i].fault);
		assert_string_equal(why, strerror(rows[i].error));
		assert_int_equal(linked_open(&l), 0);
	}
	const struct server_address none = {0};
	server_addresses_set(&l.server->state->addresses, &none, 0);
	const char *why = NULL;
	enum connect_fault fault;
	assert_null(server_connection_get(
		l.stage->worker, l.server, linked_user(&l), false, &why, &fault));
	assert_int_equal(fault, CONNECT_SERVER);
	assert_has(why, "no address");
	linked_end(&l);
}

/* Of several addresses one that fails leaves others to try. */
static void another_address_may_do(void **state)
{
	static const struct stage_conf named = {.upstream = "server = api.example:2"};
	struct server_address two[2];
	struct linked l;
	const char *why;
	enum connect_fault fault;

	(void)state;
	linked_begin(&l, &named);
	assert_true(server_addresses_get(&l.server->state->addresses, 0, &two[0]));
	l.server++; /* only a name has several */
	two[1] = two[0];
	((struct sockaddr_in *)&two[1].socket)->sin_port = htons(3);
	server_addresses_set(&l.server->state->addresses, two, 2);
	l.stage->connect_error = ECONNREFUSED;
	for (unsigned i = 0; i < 2; i++) {
		assert_null(server_connection_get(
			l.stage->worker, l.server, linked_user(&l), false, &why, &fault));
		assert_int_equal(fault, i == 0 ? CONNECT_ADDRESS : CONNECT_SERVER);
	}
	linked_end(&l);
}

/* A descriptor of one that is idle is given up for it, as long as there are any. */
static void room_is_made_for_it(void **state)
{
	struct linked l;

	(void)state;
	for (unsigned rooms = 0; rooms < 3; rooms++) {
		linked_begin(&l, &plain);
		l.stage->connect_error = rooms == 2 ? ENFILE : EMFILE;
		l.rooms = rooms;
		struct server_connection *connection = linked_get_of(&l, 0, false);
		assert_int_equal(connection != NULL, rooms > 0);
		assert_int_equal(l.rooms, 0);
		if (connection)
			server_connection_close(connection);
		linked_end(&l);
	}
}

/* ---- kept ------------------------------------------------------------------------------------ */

static void one_is_kept_and_used_again(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	server_connection_keep(connection);
	assert_int_equal(linked_idle(&l, 0), 1);
	assert_int_equal(linked_open(&l), 1);
	assert_int_equal(server_awaited(connection), WAIT_REUSE);
	stage_at(l.stage, 50);
	assert_ptr_equal(linked_get(&l), connection);
	assert_true(server_is_reused(connection));
	assert_int_equal(server_awaited(connection), WAIT_NONE);
	assert_int_equal(connection->requests, 2);
	server_connection_keep(connection);
	struct server_connection *fresh = linked_get_of(&l, 0, true);
	assert_ptr_not_equal(fresh, connection);
	assert_int_equal(linked_open(&l), 2);
	server_connection_close(fresh);
	linked_end(&l);
}

static void which_are_not_kept(void **state)
{
	static const struct {
		const char *upstream;
		bool draining, stale;
		unsigned uses, kept;
	} rows[] = {
		{"", false, false, 1, 1},
		{"keepalive = 0", false, false, 1, 0},
		{"keepalive_requests = 2", false, false, 1, 1},
		{"keepalive_requests = 2", false, false, 2, 0},
		{"keepalive_requests = 0", false, false, 9, 1},
		{"", true, false, 1, 0},
		{"", false, true, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct stage_conf conf = {.upstream = rows[i].upstream};
		struct linked l;
		linked_begin(&l, &conf);
		for (unsigned use = 1; use < rows[i].uses; use++)
			server_connection_keep(linked_get(&l));
		struct server_connection *connection = linked_get(&l);
		l.stage->worker->draining = rows[i].draining;
		if (rows[i].stale)
			memory_peer_end_output(l.stage->servers[0].wire);
		server_connection_keep(connection);
		l.stage->worker->draining = false;
		assert_int_equal(linked_idle(&l, 0), rows[i].kept);
		assert_int_equal(linked_open(&l), rows[i].kept);
		linked_end(&l);
	}
}

/* Beyond `keepalive` the oldest is closed. */
static void so_many_are_kept(void **state)
{
	const struct stage_conf conf = {.upstream = "keepalive = 2"};
	struct linked l;
	struct server_connection *all[3];

	(void)state;
	linked_begin(&l, &conf);
	for (unsigned i = 0; i < 3; i++)
		all[i] = linked_get(&l);
	for (unsigned i = 0; i < 3; i++)
		server_connection_keep(all[i]);
	assert_int_equal(linked_idle(&l, 0), 2);
	assert_ptr_equal(linked_get(&l), all[2]);
	assert_ptr_equal(linked_get(&l), all[1]);
	assert_int_equal(linked_open(&l), 2);
	server_connection_close(all[1]);
	server_connection_close(all[2]);
	linked_end(&l);
}

static void an_idle_one_that_ends_is_closed(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		const struct stage_conf conf = {.upstream = "keepalive_timeout = 7s"};
		struct linked l;
		linked_begin(&l, &conf);
		struct server_connection *connection = linked_get(&l);
		server_connection_keep(connection);
		assert_int_equal(connection->wait.deadline.at_ms, STAGE_START_MS + 7000);
		if (how == 0)
			memory_peer_end_output(l.stage->servers[0].wire);
		else if (how == 1)
			memory_peer_send(l.stage->servers[0].wire, "HTTP", 4);
		else if (how == 2)
			memory_peer_reset(l.stage->servers[0].wire);
		else
			stage_pass(l.stage, &connection->wait.deadline);
		stage_turn(l.stage);
		assert_int_equal(linked_idle(&l, 0), 0);
		assert_int_equal(linked_open(&l), 0);
		assert_string_equal(linked_heard(&l), "");
		linked_end(&l);
	}
}

/* Before the loop has told of an end, it is seen when it is taken. */
static void one_that_has_just_ended_is_not_used_again(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *first = linked_get(&l);
	server_connection_keep(first);
	memory_peer_end_output(l.stage->servers[0].wire);
	struct server_connection *second = linked_get(&l);
	assert_ptr_not_equal(second, first);
	assert_false(server_is_reused(second));
	assert_int_equal(linked_open(&l), 1);
	server_connection_close(second);
	linked_end(&l);
}

static void all_idle_ones_of_a_server_are_closed(void **state)
{
	struct linked l;
	struct server_connection *all[3];

	(void)state;
	linked_begin(&l, &plain);
	for (unsigned i = 0; i < 3; i++)
		all[i] = linked_get(&l);
	server_connection_keep(all[0]);
	server_connection_keep(all[1]);
	server_close_idle(l.server->state, l.stage->worker);
	assert_int_equal(linked_idle(&l, 0), 0);
	assert_int_equal(linked_open(&l), 1); /* the one that is busy */
	server_close_idle(l.server->state, l.stage->worker);
	server_connection_close(all[2]);
	linked_end(&l);
}

/* ---- moved ----------------------------------------------------------------------------------- */

static void one_moves_to_another_worker(void **state)
{
	const struct stage_conf conf = {.two_workers = true};
	struct linked l;

	(void)state;
	linked_begin(&l, &conf);
	server_connection_keep(linked_get(&l));
	struct passed_connection carried = server_connection_export(linked_get(&l));
	assert_int_equal(carried.requests, 2);
	assert_int_equal(linked_open(&l), 1); /* it counts all the while */
	struct server_connection *moved =
		server_connection_import(l.stage->workers[1], l.server, linked_user(&l), &carried);
	assert_non_null(moved);
	assert_true(server_is_connected(moved));
	assert_true(server_is_reused(moved));
	assert_int_equal(moved->requests, 3);
	stage_server_sends(l.stage, 0, "x");
	assert_string_equal(linked_heard(&l), "event ");
	server_connection_keep(moved);
	assert_int_equal(linked_idle(&l, 0), 0); /* with a byte unasked it is of no use */
	assert_int_equal(linked_idle(&l, 1), 0);
	assert_int_equal(linked_open(&l), 0);
	linked_end(&l);
}

UNIT_SUITE(test_server_connection)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_made),
		cmocka_unit_test(one_takes_its_time),
		cmocka_unit_test(one_is_refused_later),
		cmocka_unit_test(whose_fault_it_is),
		cmocka_unit_test(another_address_may_do),
		cmocka_unit_test(room_is_made_for_it),
		cmocka_unit_test(one_is_kept_and_used_again),
		cmocka_unit_test(which_are_not_kept),
		cmocka_unit_test(so_many_are_kept),
		cmocka_unit_test(an_idle_one_that_ends_is_closed),
		cmocka_unit_test(one_that_has_just_ended_is_not_used_again),
		cmocka_unit_test(all_idle_ones_of_a_server_are_closed),
		cmocka_unit_test(one_moves_to_another_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
