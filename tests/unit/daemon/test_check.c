/* Active health checks: what takes a server out, and what brings it back. */
#include "daemon/check.h"

#include <errno.h>

#include "main_turn.h"

static const struct stage_conf checked = {
	.more = "[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = /up?x\n"
		"health_interval = 100ms\nhealth_timeout = 10ms\n"};

struct world {
	struct stage *stage;
	struct checks *checks;
	struct server *servers;
};

static void begin(struct world *w)
{
	w->stage = stage_begin(&checked);
	w->servers = w->stage->relay.site->upstreams[1]->servers;
	w->checks = checks_new(&w->stage->relay.node.loop);
	assert_non_null(w->checks);
	assert_true(checks_prepare(w->checks, w->stage->relay.site));
}

static void end(struct world *w)
{
	checks_free(w->checks);
	stage_end(w->stage);
}

/* Turns until so many probes were begun. */
static void await_probes(struct world *w, unsigned count)
{
	struct loop *loop = &w->stage->relay.node.loop;

	loop_enter(loop);
	while (w->stage->server_count < count)
		assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&w->stage->worker->loop);
	main_turn(w->stage);
}

static struct server *server_of_probe(struct world *w, unsigned n)
{
	return strcmp(w->stage->servers[n].address, "127.0.0.1:4") == 0 ? &w->servers[0]
									: &w->servers[1];
}

/* The n-th probe's server says this, or nothing but its end. */
static void answer(struct world *w, unsigned n, const char *bytes)
{
	if (bytes)
		memory_peer_send(w->stage->servers[n].wire, bytes, strlen(bytes));
	else
		memory_peer_end_output(w->stage->servers[n].wire);
	main_turn(w->stage);
}

static void what_is_asked(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	main_turn(w.stage);
	assert_int_equal(w.stage->server_count, 0); /* not before it is committed */
	checks_commit(w.checks, w.stage->relay.site);
	await_probes(&w, 2);
	const char *got = stage_server_got(w.stage, 0);
	char host[80];
	snprintf(host, sizeof(host), "\r\nHost: %s\r\n", w.stage->servers[0].address);
	assert_has(got, "GET /up?x HTTP/1.1\r\n");
	assert_has(got, host);
	assert_has(got, "\r\nConnection: close\r\n");
	end(&w);
}

/* Two failures in a row take it out, one success brings it back. */
static void which_answers_are_good(void **state)
{
	static const struct {
		const char *bytes;
		bool is_good;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\n", true},
		{"HTTP/1.0 302 Moved\r\n", true},
		{"HTTP/1.1 404 No\r\n", false},
		{"HTTP/1.1 500 No\r\n", false},
		{"HTTP/1.1 101 No\r\n", false},
		{"SSH-2.0-OpenSSH\r\n", false},
		{"JUNK/1.1 200 OK\r\n", false},
		{NULL, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w;
		begin(&w);
		checks_commit(w.checks, w.stage->relay.site);
		await_probes(&w, 2);
		struct server *server = server_of_probe(&w, 0);
		server->state->unhealthy = rows[i].is_good;
		server->state->fails = 3;
		answer(&w, 0, rows[i].bytes);
		assert_int_equal(server->state->unhealthy, false); /* once is not enough */
		assert_int_equal(server->state->fails, rows[i].is_good ? 0 : 3);
		if (rows[i].is_good)
			assert_has(lines.text, " is healthy again");
		end(&w);
	}
}

static void two_failures_take_it_out(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	checks_commit(w.checks, w.stage->relay.site);
	await_probes(&w, 2);
	struct server *server = server_of_probe(&w, 0);
	answer(&w, 0, NULL);
	answer(&w, 1, "HTTP/1.1 200 OK\r\n");
	assert_false(server->state->unhealthy);
	assert_lacks(lines.text, "unhealthy");
	await_probes(&w, 4);
	unsigned again = server_of_probe(&w, 2) == server ? 2 : 3;
	answer(&w, again, "HTTP/1.1 2");
	assert_false(server->state->unhealthy); /* not all of the line */
	answer(&w, again, NULL);
	assert_true(server->state->unhealthy);
	assert_has(lines.text, " is unhealthy: closed without an answer");
	end(&w);
}

static void those_that_can_not_be_asked(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	w.stage->connect_error = ECONNREFUSED;
	checks_commit(w.checks, w.stage->relay.site);
	main_turn_until(w.stage, "is unhealthy: ");
	assert_has(lines.text, strerror(ECONNREFUSED));
	end(&w);
	begin(&w);
	checks_commit(w.checks, w.stage->relay.site); /* they take it and say nothing */
	main_turn_until(w.stage, "is unhealthy: timeout");
	end(&w);
}

/* What was prepared and not committed changes nothing; without checks a verdict is forgotten. */
static void prepared_and_dropped(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	checks_discard(w.checks);
	checks_commit(w.checks, w.stage->relay.site);
	main_turn(w.stage);
	assert_int_equal(w.stage->server_count, 0);
	w.servers[0].state->unhealthy = true;
	flight_server(w.stage)->unhealthy = true; /* it has no health_path */
	assert_true(checks_prepare(w.checks, w.stage->relay.site));
	checks_commit(w.checks, w.stage->relay.site);
	assert_true(w.servers[0].state->unhealthy);
	assert_false(flight_server(w.stage)->unhealthy);
	assert_true(checks_prepare(w.checks, w.stage->relay.site)); /* they are checked already */
	checks_commit(w.checks, w.stage->relay.site);
	await_probes(&w, 2);
	main_turn(w.stage);
	assert_int_equal(w.stage->server_count, 2);
	checks_free(NULL);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked),
		cmocka_unit_test(which_answers_are_good),
		cmocka_unit_test(two_failures_take_it_out),
		cmocka_unit_test(those_that_can_not_be_asked),
		cmocka_unit_test(prepared_and_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
