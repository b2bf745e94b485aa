/* A Redis is made ready, takes calls and may be lost: by commands and answers, without a socket. */
#include "store/store_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"
#include "store/function_texts.h"
#include "tests/unit/exchange/fakes/lines.h"
#include "tests/unit/store/fake_redis.h"
#include "tests/unit/suite.h"

struct world {
	struct store_server server;
	unsigned changed;
	bool was_ready;
};

struct call {
	struct store_call call;
	unsigned answered;
	bool has;
	char bytes[64];
};

static struct world world;
static struct store_where where;

static void on_changed(struct store_server *server)
{
	assert_ptr_equal(server, &world.server);
	world.changed++;
	world.was_ready = server->is_ready;
}

static void on_answered(struct store_call *store_call, const char *bytes, size_t len)
{
	struct call *call = CONTAINER_OF(store_call, struct call, call);

	call->answered++;
	call->has = bytes != NULL;
	assert_true(len < sizeof(call->bytes));
	memset(call->bytes, 0, sizeof(call->bytes));
	if (bytes)
		memcpy(call->bytes, bytes, len);
}

static struct call call_of(const char *command)
{
	return (struct call){
		.call = {.command = command, .len = strlen(command), .answered = on_answered}};
}

static int begin(void **state)
{
	(void)state;
	fake_begin();
	lines_clear();
	memset(&world, 0, sizeof(world));
	where = (struct store_where){.quorum_ms = 50};
	store_server_init(&world.server, NULL, NULL, on_changed);
	return 0;
}

static int end(void **state)
{
	(void)state;
	store_server_end(&world.server);
	assert_null(world.server.held);
	return 0;
}

static void connect_server(void)
{
	store_server_open(&world.server, "h", 7, &where);
	fake_connect();
}

static void answer_primary(void)
{
	fake_answer(reply_array(1, reply_text("master")));
	fake_answer(reply_error("ERR This instance has cluster support disabled"));
}

static void make_ready(void)
{
	connect_server();
	answer_primary();
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++)
		fake_answer(reply_text("loaded"));
	assert_true(world.server.is_ready);
	store_server_flush(&world.server);
	fake.flushed = 0;
	fake.count = fake.answered = 0;
}

static void assert_dropped(const char *why)
{
	assert_false(world.server.peer.is_open);
	assert_string_equal(world.server.peer.why, why);
	assert_int_equal(world.changed, 1);
	assert_false(world.was_ready);
}

/* ---- calls that are refused ------------------------------------------------------------------ */

static struct {
	unsigned count;
	bool is_well; /* again */
	char why[TROUBLE_BYTES];
} refusals;

static void on_refused(struct store_server *server, const char *why)
{
	assert_ptr_equal(server, &world.server);
	refusals.count++;
	refusals.is_well = why == NULL;
	server->refusals.is_set = why != NULL;
	snprintf(refusals.why, sizeof(refusals.why), "%s", why ? why : "");
}

static void watch_refusals(void)
{
	memset(&refusals, 0, sizeof(refusals));
	world.server.refused = on_refused;
}

static void refusals_are_reported_until_it_answers(void **state)
{
	struct call call = call_of("x"), info = call_of("INFO");

	(void)state;
	make_ready();
	watch_refusals();
	info.call.may_fail = true;
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_bytes("ok", 2));
	assert_int_equal(refusals.count, 0);
	assert_true(store_server_send(&world.server, &info.call));
	fake_answer(reply_error("NOPERM to run 'info'"));
	assert_int_equal(refusals.count, 0);
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_error("NOPERM to run 'fcall'"));
	assert_string_equal(refusals.why, "NOPERM to run 'fcall'");
	assert_true(store_server_send(&world.server, &info.call));
	fake_answer(reply_bytes("# Memory", 8)); /* says nothing of calls */
	assert_int_equal(refusals.count, 1);
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_number(1));
	assert_string_equal(refusals.why, "not an answer");
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_bytes("ok", 2));
	assert_true(refusals.is_well);
	assert_int_equal(refusals.count, 3);
}

static void refusals_end_with_the_connection(void **state)
{
	struct call call = call_of("x");

	(void)state;
	make_ready();
	watch_refusals();
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_error("OOM"));
	assert_false(refusals.is_well);
	redis_peer_drop(&world.server.peer, "lost");
	assert_true(refusals.is_well);
}

static void a_function_that_may_not_be_loaded_is_named_so(void **state)
{
	struct call call = call_of("x");

	(void)state;
	connect_server();
	watch_refusals();
	answer_primary();
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++)
		fake_answer(reply_error("NOPERM of FUNCTION"));
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_error("ERR Function not found"));
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++)
		fake_answer(reply_error("NOPERM of FUNCTION"));
	assert_int_equal(refusals.count, 0);
	fake_answer(reply_error("ERR Function not found"));
	assert_string_equal(refusals.why,
		"a function is not there, and its user may not load it: ERR Function not found");
}

static void too_few_replicas_are_counted(void **state)
{
	struct call call = call_of("x");

	(void)state;
	where.quorum = 2;
	make_ready();
	watch_refusals();
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_bytes("ok", 2));
	fake_answer(reply_number(1));
	assert_string_equal(
		refusals.why, "1 replicas have confirmed the last writes, 2 are needed");
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_error("NOPERM"));
	fake_answer(reply_number(2));
	assert_string_equal(refusals.why, "NOPERM");
	assert_true(store_server_send(&world.server, &call.call));
	fake_answer(reply_bytes("ok", 2));
	fake_answer(reply_number(2));
	assert_true(refusals.is_well);
}

/* ---- before it is ready ---------------------------------------------------------------------- */

static void it_is_ready_when_all_functions_are_there(void **state)
{
	char user[] = "u", password[] = "p";
	struct call call = call_of("x");

	(void)state;
	where.user = user;
	where.password = password;
	where.database = 3;
	connect_server();
	assert_string_equal(fake.peer->host, "h");
	assert_int_equal(fake.peer->port, 7);
	assert_string_equal(fake.peer->user, "u");
	assert_string_equal(fake.peer->password, "p");
	assert_string_equal(fake_waiting(0), "SELECT 3");
	assert_string_equal(fake_waiting(1), "ROLE");
	assert_string_equal(fake_waiting(2), "CLUSTER INFO");
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++) {
		char text[160] = "FUNCTION LOAD ";
		strncat(text, function_texts[i].text, sizeof(text) - strlen(text) - 1);
		assert_string_equal(fake_waiting(3 + i), text);
	}
	fake_answer(reply_status("OK"));
	answer_primary();
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++) {
		assert_false(store_server_send(&world.server, &call.call));
		assert_int_equal(fake.entered + world.changed, 0);
		fake_answer(i == 0 ? reply_error("NOPERM of FUNCTION") : reply_text("loaded"));
	}
	assert_int_equal(fake.entered, 1);
	assert_int_equal(world.changed, 1);
	assert_true(world.was_ready);
	assert_true(store_server_send(&world.server, &call.call));
	store_server_close(&world.server);
	assert_int_equal(call.answered, 1);
}

static void the_first_database_is_not_selected(void **state)
{
	(void)state;
	connect_server();
	assert_string_equal(fake_waiting(0), "ROLE");
}

static void a_wrong_database_is_refused(void **state)
{
	(void)state;
	where.database = 99;
	connect_server();
	fake_answer(reply_error("ERR DB index is out of range"));
	assert_dropped("ERR DB index is out of range");
}

static void only_a_primary_is_taken(void **state)
{
	(void)state;
	redisReply *wrong[] = {
		reply_array(1, reply_text("slave")),
		reply_array(1, reply_number(1)),
		reply_array(0),
		reply_text("master"),
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		world.changed = 0;
		connect_server();
		fake_answer(wrong[i]);
		assert_dropped("it is not a primary");
	}
	world.changed = 0;
	connect_server();
	fake_answer(reply_error("ERR of ROLE"));
	assert_dropped("ERR of ROLE");
	connect_server();
	fake_answer(reply_error("NOPERM of ROLE"));
	assert_true(world.server.peer.is_open);
}

static void a_function_that_cannot_be_loaded(void **state)
{
	(void)state;
	connect_server();
	answer_primary();
	fake_answer(reply_error("ERR of the function"));
	assert_dropped("ERR of the function");
}

/* ---- of a cluster ---------------------------------------------------------------------------- */

static struct {
	const char *wrong; /* with the node */
	char error[64];
	unsigned redirected;
	bool takes;
} node;

static const char *on_informed(struct store_server *server, const char *info)
{
	assert_ptr_equal(server, &world.server);
	assert_string_equal(info, "of the cluster");
	return node.wrong;
}

static bool on_redirected(struct store_server *server, struct store_call *call, const char *error)
{
	assert_ptr_equal(server, &world.server);
	assert_non_null(call);
	snprintf(node.error, sizeof(node.error), "%s", error);
	node.redirected++;
	return node.takes;
}

static void be_of_cluster(bool takes)
{
	static const struct store_server_cluster calls = {on_informed, on_redirected};

	memset(&node, 0, sizeof(node));
	node.takes = takes;
	world.server.cluster = &calls;
	connect_server();
	fake_answer(reply_array(1, reply_text("master")));
	fake_answer(reply_text("of the cluster"));
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++)
		fake_answer(reply_text("loaded"));
	assert_true(world.server.is_ready);
}

static void a_node_of_a_cluster_is_none_without_it(void **state)
{
	(void)state;
	connect_server();
	fake_answer(reply_array(1, reply_text("master")));
	fake_answer(reply_text("cluster_state:ok"));
	assert_dropped("it is a node of a Redis Cluster; expected cluster = on");
	world.changed = 0;
	connect_server();
	fake_answer(reply_array(1, reply_text("master")));
	fake_answer(reply_error("NOPERM of CLUSTER"));
	assert_true(world.server.peer.is_open);
}

static void a_node_may_be_wrong(void **state)
{
	(void)state;
	be_of_cluster(true);
	store_server_close(&world.server);
	node.wrong = "it is down";
	world.changed = 0;
	connect_server();
	fake_answer(reply_array(1, reply_text("master")));
	fake_answer(reply_text("of the cluster"));
	assert_dropped("it is down");
	world.changed = 0;
	connect_server();
	fake_answer(reply_array(1, reply_text("master")));
	fake_answer(reply_error("ERR of it"));
	assert_dropped("it is not a node of a Redis Cluster: ERR of it");
}

static void a_redirected_call_stays_unanswered(void **state)
{
	struct call one = call_of("one"), two = call_of("two");

	(void)state;
	be_of_cluster(true);
	one.call.is_asking = true;
	assert_true(store_server_send(&world.server, &one.call));
	assert_true(store_server_send(&world.server, &two.call));
	assert_string_equal(fake_waiting(0), "ASKING");
	assert_string_equal(fake_waiting(1), "one");
	assert_string_equal(fake_waiting(2), "two");
	assert_ptr_equal(world.server.unanswered, &one.call);
	fake_answer(reply_status("OK"));
	fake_answer(reply_error("MOVED 1 h:2"));
	assert_string_equal(node.error, "MOVED 1 h:2");
	assert_int_equal(one.answered, 0);
	assert_ptr_equal(world.server.unanswered, &two.call);
	node.takes = false;
	fake_answer(reply_error("ERR of it"));
	assert_int_equal(two.answered, 1);
	assert_null(world.server.unanswered);
	assert_int_equal(node.redirected, 2);
}

/* Not before the answer to its WAIT, which would be taken for another call's. */
static void a_redirected_call_waits_for_its_wait(void **state)
{
	struct call one = call_of("one"), two = call_of("two");

	(void)state;
	where.quorum = 1;
	be_of_cluster(true);
	assert_true(store_server_send(&world.server, &one.call));
	assert_true(store_server_send(&world.server, &two.call));
	fake_answer(reply_error("MOVED 1 h:2"));
	assert_int_equal(node.redirected, 0);
	fake_answer(reply_number(1));
	assert_int_equal(node.redirected, 1);
	assert_int_equal(one.answered, 0);
	fake_answer(reply_text("done"));
	fake_answer(reply_number(1));
	assert_true(two.has);
	assert_int_equal(node.redirected, 1);
	assert_null(world.server.unanswered);
}

/* ---- a function that is there already -------------------------------------------------------- */

/* All but the first are loaded, of which the store says that it has one already. */
static void find_one_there(void)
{
	connect_server();
	answer_primary();
	fake_answer(reply_error("ERR Library 'x' already exists"));
	for (unsigned i = 1; i < FUNCTION_TEXTS; i++)
		fake_answer(reply_text("loaded"));
	assert_int_equal(world.changed, 0);
	size_t len = strcspn(function_texts[0].text, "\n") - strlen("#!lua name=");
	char text[160];
	snprintf(text, sizeof(text), "FUNCTION LIST LIBRARYNAME %.*s WITHCODE", (int)len,
		function_texts[0].text + strlen("#!lua name="));
	assert_string_equal(fake_waiting(0), text);
	fake.flushed = 0;
	store_server_flush(&world.server);
	assert_int_equal(fake.flushed, 1);
}

static redisReply *library(const char *name, redisReply *code)
{
	return reply_array(
		1, reply_array(4, reply_text("engine"), reply_text("LUA"), reply_text(name), code));
}

static void the_same_function_is_taken(void **state)
{
	redisReply code = {.type = REDIS_REPLY_STRING,
		.str = (char *)(uintptr_t)function_texts[0].text,
		.len = function_texts[0].len};

	(void)state;
	find_one_there();
	fake_answer(library("library_code", &code));
	assert_true(world.server.is_ready);
	store_server_close(&world.server);
	world.changed = 0;
	find_one_there();
	fake_answer(reply_error("NOPERM of FUNCTION"));
	assert_true(world.server.is_ready);
}

static void another_function_of_its_name_is_refused(void **state)
{
	char *changed = strdup(function_texts[0].text);
	redisReply code = {.type = REDIS_REPLY_STRING, .str = changed};

	(void)state;
	changed[function_texts[0].len - 2] ^= 1;
	code.len = function_texts[0].len;
	redisReply same = code, shorter = code, number = code;
	same.str = shorter.str = number.str = (char *)(uintptr_t)function_texts[0].text;
	shorter.len--;
	number.type = REDIS_REPLY_STATUS;
	redisReply *wrong[] = {
		library("library_code", &code),
		library("library_code", &shorter),
		library("library_code", &number),
		library("library_text", &same),
		reply_array(1, reply_array(1, reply_text("library_code"))),
		reply_array(1, reply_text("library_code")),
		reply_array(0),
		reply_error("ERR of FUNCTION"),
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		world.changed = 0;
		find_one_there();
		fake_answer(wrong[i]);
		assert_dropped("it has another function under the name of one of this sluice's");
	}
	free(changed);
}

static void one_that_is_lost_while_it_is_asked(void **state)
{
	(void)state;
	find_one_there();
	redis_peer_drop(&world.server.peer, "gone");
	assert_dropped("gone");
	connect_server();
	redis_peer_drop(&world.server.peer, "gone");
	assert_false(world.server.peer.is_open);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void calls_are_answered(void **state)
{
	struct call one = call_of("one"), two = call_of("two");

	(void)state;
	make_ready();
	assert_true(store_server_send(&world.server, &one.call));
	assert_true(store_server_send(&world.server, &two.call));
	assert_string_equal(fake_waiting(0), "one");
	assert_string_equal(fake_waiting(1), "two");
	store_server_flush(&world.server);
	store_server_flush(&world.server);
	assert_int_equal(fake.flushed, 1);
	fake_answer(reply_bytes("a\0b", 3));
	assert_true(one.has);
	assert_memory_equal(one.bytes, "a\0b", 4);
	assert_int_equal(two.answered, 0);
	fake_answer(reply_error("ERR of it"));
	assert_int_equal(two.answered, 1);
	assert_false(two.has);
	assert_string_equal(world.server.peer.why, "ERR of it");
	assert_true(store_server_send(&world.server, &one.call));
	fake_answer(reply_number(1));
	assert_false(one.has);
	assert_string_equal(world.server.peer.why, "not an answer");
	assert_true(world.server.peer.is_open);
	fake.is_full = true;
	assert_false(store_server_send(&world.server, &one.call));
}

static void one_that_became_a_replica_is_left(void **state)
{
	static const char *const errors[] = {
		"READONLY You can't write", "MASTERDOWN Link is down", "LOADING Redis is loading"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct call one = call_of("one"), two = call_of("two");
		make_ready();
		world.changed = 0;
		store_server_send(&world.server, &one.call);
		store_server_send(&world.server, &two.call);
		fake_answer(reply_error(errors[i]));
		assert_dropped(errors[i]);
		assert_int_equal(one.answered, 1);
		assert_int_equal(two.answered, 1);
		assert_false(one.has || two.has);
		assert_false(store_server_send(&world.server, &one.call));
	}
}

static void a_function_that_was_flushed_is_loaded_again_once(void **state)
{
	static const char *const errors[] = {"ERR Function not found", "NOFUNCTION x"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct call call = call_of("one");
		make_ready();
		world.changed = fake.entered = 0;
		store_server_send(&world.server, &call.call);
		fake_answer(reply_error(errors[i]));
		assert_int_equal(call.answered, 0);
		for (unsigned n = 0; n < FUNCTION_TEXTS; n++) {
			assert_int_equal(strncmp(fake_waiting(0), "FUNCTION LOAD", 13), 0);
			fake_answer(reply_text("loaded"));
		}
		assert_int_equal(world.changed + fake.entered, 0);
		assert_string_equal(fake_waiting(0), "one");
		fake_answer(i == 0 ? reply_text("done") : reply_error(errors[i]));
		assert_int_equal(call.answered, 1);
		assert_int_equal(call.has, i == 0);
		assert_true(world.server.is_ready);
		store_server_close(&world.server);
	}
}

static void what_waits_fails_when_it_is_lost_or_closed(void **state)
{
	struct call one = call_of("one");

	(void)state;
	make_ready();
	store_server_send(&world.server, &one.call);
	world.changed = 0;
	redis_peer_drop(&world.server.peer, "gone");
	assert_dropped("gone");
	assert_int_equal(one.answered, 1);
	assert_false(one.has);
	store_server_flush(&world.server);
	assert_int_equal(fake.flushed, 0);
	make_ready();
	store_server_send(&world.server, &one.call);
	world.changed = 0;
	store_server_close(&world.server);
	assert_int_equal(one.answered, 2);
	assert_int_equal(world.changed, 0);
	assert_false(store_server_send(&world.server, &one.call));
	store_server_flush(&world.server);
	assert_int_equal(fake.flushed, 0);
}

/* ---- a quorum -------------------------------------------------------------------------------- */

static void an_answer_counts_when_enough_replicas_have_it(void **state)
{
	struct call one = call_of("one"), two = call_of("two"), three = call_of("three");

	(void)state;
	where.quorum = 2;
	make_ready();
	store_server_send(&world.server, &one.call);
	store_server_send(&world.server, &two.call);
	three.call.is_lone = true;
	store_server_send(&world.server, &three.call);
	assert_string_equal(fake_waiting(1), "WAIT 2 50");
	assert_string_equal(fake_waiting(4), "three");
	fake_answer(reply_text("a"));
	assert_int_equal(one.answered, 0);
	fake_answer(reply_number(2));
	assert_true(one.has);
	assert_string_equal(one.bytes, "a");
	fake_answer(reply_text("a longer one"));
	fake_answer(reply_number(1));
	assert_int_equal(two.answered, 1);
	assert_false(two.has);
	assert_true(world.server.lacks_replicas);
	fake_answer(reply_text("c"));
	assert_true(three.has);
	store_server_send(&world.server, &one.call);
	fake_answer(reply_text("the longest of all answers"));
	fake_answer(reply_number(3));
	assert_string_equal(one.bytes, "the longest of all answers");
	assert_string_equal(lines.text,
		"warn store h:7: 1 replicas have confirmed the last writes, 2 are needed\n"
		"info store h:7: enough replicas confirm writes again\n");
	for (unsigned i = 0; i < 4; i++) {
		lines_clear();
		store_server_send(&world.server, &one.call);
		fake_answer(reply_text("a"));
		fake_answer(reply_number(i < 2 ? 1 : 2));
		assert_int_equal(lines.text[0] != '\0', i % 2 == 0);
	}
}

static void an_error_stays_one_with_a_quorum(void **state)
{
	struct call one = call_of("one");

	(void)state;
	where.quorum = 1;
	make_ready();
	store_server_send(&world.server, &one.call);
	fake_answer(reply_text("of another call"));
	fake_answer(reply_number(1));
	assert_true(one.has);
	store_server_send(&world.server, &one.call);
	fake_answer(reply_error("ERR of it"));
	fake_answer(reply_number(1));
	assert_false(one.has);
	assert_string_equal(world.server.peer.why, "ERR of it");
	store_server_send(&world.server, &one.call);
	fake_answer(reply_text("a"));
	fake_answer(reply_error("ERR of WAIT"));
	assert_false(one.has);
	world.changed = 0;
	store_server_send(&world.server, &one.call);
	fake_answer(reply_error("READONLY x"));
	assert_dropped("READONLY x");
	assert_int_equal(one.answered, 4);
}

static void a_call_that_is_sent_again_waits_for_its_own_quorum(void **state)
{
	struct call one = call_of("one");

	(void)state;
	where.quorum = 1;
	make_ready();
	store_server_send(&world.server, &one.call);
	fake_answer(reply_error("ERR Function not found"));
	fake_answer(reply_number(1)); /* of the first time's WAIT */
	assert_int_equal(one.answered, 0);
	for (unsigned i = 0; i < FUNCTION_TEXTS; i++)
		fake_answer(reply_text("loaded"));
	fake_answer(reply_text("done"));
	assert_int_equal(one.answered, 0);
	fake_answer(reply_number(1));
	assert_int_equal(one.answered, 1);
	assert_string_equal(one.bytes, "done");
	/* lost between: it is answered once */
	one = call_of("one");
	store_server_send(&world.server, &one.call);
	fake_answer(reply_error("ERR Function not found"));
	redis_peer_drop(&world.server.peer, "gone");
	assert_int_equal(one.answered, 1);
	assert_false(one.has);
}

static void a_call_that_cannot_be_sent_again_fails_once(void **state)
{
	struct call one = call_of("one");

	(void)state;
	make_ready();
	store_server_send(&world.server, &one.call);
	fake.is_full = true;
	fake_answer(reply_error("ERR Function not found"));
	assert_int_equal(one.answered, 1);
	assert_false(one.has);
	fake.is_full = false;
	store_server_close(&world.server);
	one = call_of("one");
	where.quorum = 1;
	make_ready();
	store_server_send(&world.server, &one.call);
	fake.is_full = true;
	fake_answer(reply_error("ERR Function not found"));
	assert_int_equal(one.answered, 0);
	fake_answer(reply_number(1));
	assert_int_equal(one.answered, 1);
	assert_false(one.has);
}

UNIT_SUITE(test_store_server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(refusals_are_reported_until_it_answers, begin, end),
		cmocka_unit_test_setup_teardown(refusals_end_with_the_connection, begin, end),
		cmocka_unit_test_setup_teardown(
			a_function_that_may_not_be_loaded_is_named_so, begin, end),
		cmocka_unit_test_setup_teardown(too_few_replicas_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(
			it_is_ready_when_all_functions_are_there, begin, end),
		cmocka_unit_test_setup_teardown(the_first_database_is_not_selected, begin, end),
		cmocka_unit_test_setup_teardown(a_wrong_database_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(only_a_primary_is_taken, begin, end),
		cmocka_unit_test_setup_teardown(a_function_that_cannot_be_loaded, begin, end),
		cmocka_unit_test_setup_teardown(a_node_of_a_cluster_is_none_without_it, begin, end),
		cmocka_unit_test_setup_teardown(a_node_may_be_wrong, begin, end),
		cmocka_unit_test_setup_teardown(a_redirected_call_stays_unanswered, begin, end),
		cmocka_unit_test_setup_teardown(a_redirected_call_waits_for_its_wait, begin, end),
		cmocka_unit_test_setup_teardown(the_same_function_is_taken, begin, end),
		cmocka_unit_test_setup_teardown(
			another_function_of_its_name_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(one_that_is_lost_while_it_is_asked, begin, end),
		cmocka_unit_test_setup_teardown(calls_are_answered, begin, end),
		cmocka_unit_test_setup_teardown(one_that_became_a_replica_is_left, begin, end),
		cmocka_unit_test_setup_teardown(
			a_function_that_was_flushed_is_loaded_again_once, begin, end),
		cmocka_unit_test_setup_teardown(
			what_waits_fails_when_it_is_lost_or_closed, begin, end),
		cmocka_unit_test_setup_teardown(
			an_answer_counts_when_enough_replicas_have_it, begin, end),
		cmocka_unit_test_setup_teardown(an_error_stays_one_with_a_quorum, begin, end),
		cmocka_unit_test_setup_teardown(
			a_call_that_is_sent_again_waits_for_its_own_quorum, begin, end),
		cmocka_unit_test_setup_teardown(
			a_call_that_cannot_be_sent_again_fails_once, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
