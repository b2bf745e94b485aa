/* Active health checks: what takes a server out, and what brings it back. */
#include "daemon/check.h"

#include <errno.h>

#include "main_turn.h"
#include "tests/unit/suite.h"

static const struct stage_conf hasty = {
	.more = "[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = /up?x\n"
		"health_interval = 100ms\nhealth_timeout = 10ms\n"};

/* Nothing of it ends by itself while the test runs, however slow that is. */
static const struct stage_conf patient = {
	.more = "[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = /up?x\n"
		"health_interval = 100ms\nhealth_timeout = 10m\n"};

struct world {
	struct stage *stage;
	struct checks *checks;
	struct server *servers;
};

static void begin_by(struct world *w, const struct stage_conf *conf)
{
	w->stage = stage_begin(conf);
	w->servers = w->stage->daemon.site->upstreams[1]->servers;
	w->checks = checks_new(&w->stage->daemon.node.loop);
	assert_non_null(w->checks);
	assert_true(checks_prepare(w->checks, w->stage->daemon.site));
}

static void begin(struct world *w)
{
	begin_by(w, &patient);
}

static void end(struct world *w)
{
	checks_free(w->checks);
	stage_end(w->stage);
}

/* Turns until so many probes were begun. */
static void await_probes(struct world *w, unsigned count)
{
	struct loop *loop = &w->stage->daemon.node.loop;

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
	checks_commit(w.checks, w.stage->daemon.site);
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
		checks_commit(w.checks, w.stage->daemon.site);
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
	checks_commit(w.checks, w.stage->daemon.site);
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
	checks_commit(w.checks, w.stage->daemon.site);
	main_turn_until(w.stage, "is unhealthy: ");
	assert_has(lines.text, strerror(ECONNREFUSED));
	end(&w);
	begin_by(&w, &hasty);
	checks_commit(w.checks, w.stage->daemon.site); /* they take it and say nothing */
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
	checks_commit(w.checks, w.stage->daemon.site);
	main_turn(w.stage);
	assert_int_equal(w.stage->server_count, 0);
	w.servers[0].state->unhealthy = true;
	flight_server(w.stage)->unhealthy = true; /* it has no health_path */
	assert_true(checks_prepare(w.checks, w.stage->daemon.site));
	checks_commit(w.checks, w.stage->daemon.site);
	assert_true(w.servers[0].state->unhealthy);
	assert_false(flight_server(w.stage)->unhealthy);
	assert_true(checks_prepare(w.checks, w.stage->daemon.site)); /* they are checked already */
	checks_commit(w.checks, w.stage->daemon.site);
	await_probes(&w, 2);
	main_turn(w.stage);
	assert_int_equal(w.stage->server_count, 2);
	checks_free(NULL);
	end(&w);
}

/* A reload: what was asked before the change does not count after it. */
static void another_question(void **state)
{
	static const char sections[] =
		"[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = /other\n";
	struct server_finding finding;
	struct world w;

	(void)state;
	begin(&w);
	checks_commit(w.checks, w.stage->daemon.site);
	await_probes(&w, 2);
	struct server_state *server = server_of_probe(&w, 0)->state;
	answer(&w, 0, "HTTP/1.1 200 OK\r\n");
	server_state_read_finding(server, &finding);
	assert_true(finding.is_known);
	main_reload(w.stage, sections);
	checks_commit(w.checks, w.stage->daemon.site);
	server_state_read_finding(server, &finding);
	assert_false(finding.is_known);
	await_probes(&w, 4); /* of both, although one was under way and the other one rested */
	assert_has(stage_server_got(w.stage, 2), "GET /other HTTP/1.1\r\n");
	assert_has(stage_server_got(w.stage, 3), "GET /other HTTP/1.1\r\n");
	checks_commit(w.checks, w.stage->daemon.site); /* the same question */
	main_turn(w.stage);
	assert_int_equal(w.stage->server_count, 4);
	end(&w);
}

/* ---- probes of several nodes ----------------------------------------------------------------- */

static struct sharing {
	struct check_sharing calls;
	bool is_mine;
	unsigned asked, probed, news;
} sharing;

static bool is_mine(void *ctx, const struct server *server)
{
	assert_ptr_equal(ctx, &sharing);
	assert_non_null(server);
	sharing.asked++;
	return sharing.is_mine;
}

static void probed(void *ctx, const struct server *server, bool is_news)
{
	struct server_finding finding;

	assert_ptr_equal(ctx, &sharing);
	server_state_read_finding(server->state, &finding);
	assert_true(finding.is_known && !*finding.by);
	sharing.probed++;
	sharing.news += is_news;
}

static void begin_shared(struct world *w, bool mine)
{
	begin(w);
	sharing = (struct sharing){.is_mine = mine, .calls = {is_mine, probed, &sharing}};
	checks_share(w->checks, &sharing.calls);
	checks_commit(w->checks, w->stage->daemon.site);
}

static void await_questions(struct world *w, unsigned count)
{
	struct loop *loop = &w->stage->daemon.node.loop;

	loop_enter(loop);
	while (sharing.asked < count)
		assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&w->stage->worker->loop);
}

static void those_of_another_node_are_not_probed(void **state)
{
	struct world w;

	(void)state;
	begin_shared(&w, false);
	await_questions(&w, 6); /* three times each */
	assert_int_equal(w.stage->server_count, 0);
	sharing.is_mine = true;
	checks_hurry(w.checks, w.servers[0].state->upstream);
	await_probes(&w, 2);
	assert_int_equal(w.servers[0].state->upstream->probes_sent, 2);
	answer(&w, 0, "HTTP/1.1 200 OK\r\n");
	assert_int_equal(sharing.probed, 1);
	assert_int_equal(sharing.news, 1);
	end(&w);
}

/* Another node has taken over while the probe was under way. */
static void what_comes_late_does_not_count(void **state)
{
	struct server_finding finding;
	struct world w;

	(void)state;
	begin_shared(&w, true);
	await_probes(&w, 2);
	struct server *server = server_of_probe(&w, 0);
	answer(&w, 0, NULL);
	assert_int_equal(sharing.probed, 1); /* one failure: not down yet */
	await_probes(&w, 3);
	assert_ptr_equal(server_of_probe(&w, 2), server); /* the other one's still waits */
	sharing.is_mine = false;
	unsigned before = sharing.probed;
	answer(&w, 2, NULL);
	assert_false(server->state->unhealthy);
	assert_int_equal(sharing.probed, before);
	server_state_read_finding(server->state, &finding);
	assert_true(finding.is_up);
	assert_lacks(lines.text, "unhealthy");
	end(&w);
}

static void what_another_node_found(void **state)
{
	struct server_finding finding = {
		.is_known = true, .is_up = false, .checked_ms = 5, .saw = "timeout", .by = "n7"};
	struct world w;

	(void)state;
	begin_shared(&w, false);
	struct server *server = &w.servers[0];
	server->state->fails = 2; /* by its traffic, which stays this node's to judge */
	checks_take(server, &finding);
	assert_true(server->state->unhealthy);
	assert_has(lines.text, "is unhealthy: timeout (probed by n7)");
	finding.is_up = true;
	checks_take(server, &finding);
	assert_false(server->state->unhealthy);
	assert_has(lines.text, "is healthy again (probed by n7)");
	assert_int_equal(server->state->fails, 2);
	server_state_read_finding(server->state, &finding);
	assert_string_equal(finding.by, "n7");
	checks_share(w.checks, NULL);
	checks_hurry(w.checks, server->state->upstream);
	await_probes(&w, 2); /* each for itself again */
	end(&w);
}

UNIT_SUITE(test_check)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked),
		cmocka_unit_test(which_answers_are_good),
		cmocka_unit_test(two_failures_take_it_out),
		cmocka_unit_test(those_that_can_not_be_asked),
		cmocka_unit_test(prepared_and_dropped),
		cmocka_unit_test(another_question),
		cmocka_unit_test(those_of_another_node_are_not_probed),
		cmocka_unit_test(what_comes_late_does_not_count),
		cmocka_unit_test(what_another_node_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
