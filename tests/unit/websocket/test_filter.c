/* What a socket is found by, what an operator sees of it, and what is done to it. */
#include "opened.h"

#include "websocket/survey.h"
#include "websocket/filter.h"
#include "tests/unit/suite.h"

static const struct stage_conf typed = {.route = OPENED_ROUTE "socket_type = order\n"},
			       plain = {.route = OPENED_ROUTE};

static struct opened o;

static enum filter_result add(struct socket_filter *filter, const char *name, const char *value)
{
	*filter = (struct socket_filter){0};
	return filter_add(filter, name, value);
}

static bool fits(const char *name, const char *value)
{
	struct socket_filter filter;

	assert_int_equal(add(&filter, name, value), FILTER_OK);
	return filter_fits(&filter, o.socket);
}

static void terms(void **state)
{
	struct socket_view view;
	char caller[17], session[33];

	(void)state;
	opened_begin(&o, &typed);
	stage_at(o.stage, 90 * 1000);
	opened_client(&o, FRAME_TEXT, "hello");
	stage_at(o.stage, 100 * 1000);
	socket_view(o.socket, &view);
	assert_string_equal(view.type, "order");
	assert_string_equal(view.state, "open");
	assert_int_equal(view.received.messages, 1);
	assert_int_equal(view.received.bytes, 5);
	assert_int_equal(view.age_ms, 100 * 1000);
	assert_int_equal(view.idle_ms, 10 * 1000);
	snprintf(caller, sizeof(caller), "%016llx", (unsigned long long)view.caller);
	snprintf(session, sizeof(session), "%016llx%016llx", (unsigned long long)view.session[0],
		(unsigned long long)view.session[1]);
	assert_true(fits("type", "order"));
	assert_false(fits("type", "orde"));
	assert_true(fits("route", view.route));
	assert_false(fits("route", "order"));
	assert_true(fits("caller", caller));
	assert_false(fits("caller", "0123456789abcdef"));
	assert_true(fits("session", session));
	assert_false(fits("session", "0123456789abcdef0123456789abcdef"));
	assert_true(fits("min_age", "100s"));
	assert_false(fits("min_age", "101s"));
	assert_true(fits("max_age", "100s"));
	assert_false(fits("max_age", "99s"));
	assert_true(fits("min_idle", "10s"));
	assert_false(fits("min_idle", "11s"));
	assert_true(fits("max_idle", "10s"));
	assert_false(fits("max_idle", "9s"));
	opened_end(&o);
}

static void addresses(void **state)
{
	static const uint8_t address[16] = {[10] = 0xff, 0xff, 192, 0, 2, 7};

	(void)state;
	opened_begin(&o, &plain);
	memcpy(o.passage->request->facts.address, address, sizeof(address));
	assert_true(fits("address", "192.0.2.7"));
	assert_true(fits("address", "192.0.2.0/24"));
	assert_false(fits("address", "192.0.2.8"));
	assert_false(fits("address", "2001:db8::/32"));
	assert_true(fits("type", o.passage->account.route->name));
	assert_false(fits("meta.a", "b")); /* no gateway's */
	assert_false(fits("connection", "x"));
	opened_end(&o);
}

/* All of them must fit. */
static void several_terms(void **state)
{
	struct socket_filter filter = {0};

	(void)state;
	opened_begin(&o, &typed);
	assert_true(filter_fits(&filter, o.socket));
	filter_add(&filter, "type", "order");
	filter_add(&filter, "max_age", "1m");
	assert_true(filter_fits(&filter, o.socket));
	filter_add(&filter, "min_idle", "30s");
	assert_false(filter_fits(&filter, o.socket));
	opened_end(&o);
}

static void wrong_terms(void **state)
{
	static const char *const wrong[][2] = {{"type", ""}, {"caller", "0123456789abcde"},
		{"caller", "0123456789abcdeg"}, {"session", "0123456789abcdef"},
		{"session", "0123456789abcdef0123456789abcdeg"}, {"address", "here"},
		{"address", "10.0.0.0/33"}, {"min_age", "1"}, {"max_age", ""}, {"min_idle", "-1s"},
		{"max_idle", "99999999999999999999s"}};
	char text[FILTER_NAME_BYTES + 1];
	struct socket_filter filter;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(add(&filter, wrong[i][0], wrong[i][1]), FILTER_INVALID);
		assert_non_null(filter_expects(wrong[i][0]));
	}
	memset(text, 'x', FILTER_NAME_BYTES);
	text[FILTER_NAME_BYTES] = '\0';
	assert_int_equal(add(&filter, "type", text), FILTER_INVALID);
	text[FILTER_NAME_BYTES - 1] = '\0';
	assert_int_equal(add(&filter, "type", text), FILTER_OK);
	assert_int_equal(add(&filter, "meta.", "x"), FILTER_INVALID);
	filter = (struct socket_filter){0};
	for (unsigned i = 0; i < FILTER_META; i++)
		assert_int_equal(filter_add(&filter, "meta.a", "b"), FILTER_OK);
	assert_int_equal(filter_add(&filter, "meta.a", "b"), FILTER_INVALID);
	assert_int_equal(add(&filter, "meta.a", text), FILTER_OK);
	text[FILTER_NAME_BYTES - 1] = 'x';
	assert_int_equal(add(&filter, "meta.a", text), FILTER_INVALID);
	assert_non_null(filter_expects("meta.a"));
	assert_int_equal(add(&filter, "colour", "red"), FILTER_UNKNOWN);
	assert_null(filter_expects("colour"));
	unsigned count = 0;
	while (filter_name(count))
		assert_non_null(filter_expects(filter_name(count++)));
	assert_true(count >= 9);
}

/* ---- commands -------------------------------------------------------------------------------- */

static enum socket_command_result command(enum socket_command_kind kind, const char *text)
{
	struct socket_command given = {.kind = kind, .code = 4000, .reason_len = 3};

	memcpy(given.reason, "why", 3);
	if (text)
		given.frame =
			shared_frame_new(&o.stage->worker->node->sends, FRAME_TEXT, slice_of(text));
	enum socket_command_result result = socket_run_command(o.socket, &given);
	shared_frame_release(given.frame);
	return result;
}

static void messages_are_queued(void **state)
{
	struct socket_view view;

	(void)state;
	opened_begin(&o, &plain);
	assert_int_equal(command(SOCKET_POST, "posted"), SOCKET_COMMAND_DONE);
	assert_int_equal(command(SOCKET_SEND, "sent"), SOCKET_COMMAND_DONE);
	socket_view(o.socket, &view);
	assert_int_equal(view.queued, 2);
	assert_int_equal(view.queued_bytes, 2 + 6 + 2 + 4);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(sent) text(posted) ");
	opened_end(&o);
}

static void a_full_queue_drops(void **state)
{
	static const struct stage_conf full = {
		.route = OPENED_ROUTE "socket_queue_messages = 1\non_socket_queue_full = drop\n"};

	(void)state;
	opened_begin(&o, &full);
	assert_int_equal(command(SOCKET_SEND, "sent"), SOCKET_COMMAND_DONE);
	assert_int_equal(command(SOCKET_SEND, "more"), SOCKET_COMMAND_DROPPED);
	opened_end(&o);
}

static void a_close_goes_both_ways(void **state)
{
	struct socket_view view;

	(void)state;
	opened_begin(&o, &plain);
	command(SOCKET_POST, "dropped");
	assert_int_equal(command(SOCKET_CLOSE, NULL), SOCKET_COMMAND_DONE);
	socket_view(o.socket, &view);
	assert_string_equal(view.state, "closing");
	assert_int_equal(command(SOCKET_CLOSE, NULL), SOCKET_COMMAND_GONE);
	assert_int_equal(command(SOCKET_POST, "late"), SOCKET_COMMAND_GONE);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "close(4000 why) ");
	assert_string_equal(opened_to_server(&o), "close(4000 why) ");
	opened_end(&o);
}

static void a_drain_delivers(void **state)
{
	struct socket_view view;

	(void)state;
	opened_begin(&o, &plain);
	command(SOCKET_POST, "posted");
	assert_int_equal(command(SOCKET_DRAIN, NULL), SOCKET_COMMAND_DONE);
	socket_view(o.socket, &view);
	assert_string_equal(view.state, "draining");
	assert_int_equal(command(SOCKET_DRAIN, NULL), SOCKET_COMMAND_GONE);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(posted) ");
	assert_string_equal(opened_to_server(&o), "close(1001 drained) ");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 drained) ");
	opened_end(&o);
}

static void an_abort_cuts(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	assert_int_equal(command(SOCKET_ABORT, NULL), SOCKET_COMMAND_DONE);
	assert_false(opened_is_open(&o));
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "cut");
	opened_end(&o);
}

UNIT_SUITE(test_filter)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terms),
		cmocka_unit_test(addresses),
		cmocka_unit_test(several_terms),
		cmocka_unit_test(wrong_terms),
		cmocka_unit_test(messages_are_queued),
		cmocka_unit_test(a_full_queue_drops),
		cmocka_unit_test(a_close_goes_both_ways),
		cmocka_unit_test(a_drain_delivers),
		cmocka_unit_test(an_abort_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
