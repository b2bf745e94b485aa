/* What a server has not confirmed of an owned session's request, when its connection is closed or
 * its lease ends. */
#include "ownership/parting.h"

#include "exchange/respond.h"
#include "exchange/reply.h"
#include "fakes/owned.h"
#include "http/problem.h"
#include "site/spare.h"
#include "tests/unit/suite.h"

/* A request of an owned session that has been sent, under the fence 5. */
static struct exchange *begin_held(struct stage **stage, const char *request)
{
	*stage = begin(&forwards);
	struct exchange *x = stage_ask(*stage, request);
	held(*stage, 5);
	return x;
}

/* Our system would send it in its own time, behind what the next owner has sent. */
static void what_has_not_arrived_ends_with_the_lease(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	lapse(stage);
	assert_has(stage_client_got(stage), "HTTP/1.1 502 ");
	assert_discarded(stage);
	end(stage);
}

static void nor_does_it_outlive_the_news_of_another_owner(void **state)
{
	struct stage *stage;

	(void)state;
	begin_held(&stage, GET);
	hear_of_another(stage);
	assert_has(stage_client_got(stage), "HTTP/1.1 502 ");
	assert_discarded(stage);
	end(stage);
}

/* Its client has left, and its answer is read on for the order's sake. */
static struct stage *begin_left(void)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, POST);

	stage->client.client.first = NULL;
	exchange_client_gone(x);
	assert_ptr_equal(exchange_part(stage->worker)->orphans, x);
	return stage;
}

static void nor_does_one_whose_client_has_left(void **state)
{
	struct stage *stage = begin_left();

	(void)state;
	lapse(stage);
	assert_null(exchange_part(stage->worker)->orphans);
	assert_discarded(stage);
	end(stage);
}

/* Its server has begun to answer, and has not taken it all yet. */
static void nor_does_one_that_is_being_answered(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, POST);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst");
	stage->client.client.first = NULL;
	exchange_client_gone(x);
	assert_int_equal(x->state, EXCHANGE_DRAINING);
	lapse(stage);
	assert_null(exchange_part(stage->worker)->orphans);
	assert_discarded(stage);
	end(stage);
}

static void nor_does_that_outlive_the_news(void **state)
{
	struct stage *stage = begin_left();

	(void)state;
	hear_of_another(stage);
	assert_null(exchange_part(stage->worker)->orphans);
	assert_discarded(stage);
	end(stage);
}

/* One that was closed before: the session stays in use until what it was sent has arrived. */
static void nor_does_a_connection_that_was_closed(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	struct owner_session *session = x->owner.use.session;
	exchange_drop_connection(x);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	stage_turn(stage);
	assert_has(stage_client_got(stage), "HTTP/1.1 504 ");
	assert_non_null(ownership_part(stage->worker)->partings);
	assert_int_equal(session->users, 1);
	lapse(stage);
	assert_discarded(stage);
	assert_int_equal(session->users, 0);
	end(stage);
}

/* Its server has answered all that it will, and reads on. */
static void one_whose_server_has_ended_its_output_arrives(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	memory_peer_end_unheard(stage->servers[0].wire);
	exchange_drop_connection(x);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	stage_turn(stage);
	assert_non_null(ownership_part(stage->worker)->partings);
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	end(stage);
}

/* One that is reset takes no more. */
static void one_that_its_server_resets_is_forgotten(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	exchange_drop_connection(x);
	assert_non_null(ownership_part(stage->worker)->partings);
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	assert_null(ownership_part(stage->worker)->partings);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

/* A server that answers before it has read the body: what is left of it may go on, and nothing else
 * leaves on that connection. */
static void one_that_is_answered_early_does_not_go_to_others(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, POST);

	(void)state;
	struct owner_session *session = x->owner.use.session;
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	assert_int_equal(flight_idle(stage), 0);
	assert_non_null(ownership_part(stage->worker)->partings);
	assert_int_equal(session->users, 1);
	lapse(stage);
	assert_discarded(stage);
	assert_int_equal(session->users, 0);
	end(stage);
}

/* Nor does one without a body, whose head is long. */
static void one_with_a_long_head_that_is_answered_early_does_not_either(void **state)
{
	struct stage *stage = begin(&forwards);
	char request[2100];

	(void)state;
	snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: h\r\nX-Long: %02000d\r\n\r\n",
		1);
	struct exchange *x = stage_ask(stage, request);
	held(stage, 5);
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	assert_int_equal(flight_idle(stage), 0);
	lapse(stage);
	assert_discarded(stage);
	end(stage);
}

static void one_that_has_arrived_leaves_its_connection_to_others(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, POST);

	(void)state;
	assert_has(stage_server_got(stage, 0), "\r\n\r\nab");
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	assert_null(ownership_part(stage->worker)->partings);
	assert_int_equal(flight_idle(stage), 1);
	end(stage);
}

/* There may be only so many. */
static void one_too_many_is_discarded(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	ownership_part(stage->worker)->parting_count = PARTINGS_MOST;
	exchange_drop_connection(x);
	assert_null(ownership_part(stage->worker)->partings);
	ownership_part(stage->worker)->parting_count = 0;
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

/* Nor do they keep their descriptors from others. */
static void one_gives_way_to_what_lacks_a_descriptor(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	exchange_drop_connection(x);
	assert_non_null(ownership_part(stage->worker)->partings);
	assert_true(spare_own(stage->worker));
	assert_discarded(stage);
	assert_false(spare_own(stage->worker));
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

/* Closed, it stays no longer than until it has arrived. */
static void one_that_was_closed_and_has_arrived_is_forgotten(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	exchange_drop_connection(x);
	assert_null(ownership_part(stage->worker)->partings);
	exchange_reply(x, 504, "no answer", HTTP_PROBLEM_NO_RETRY);
	end(stage);
}

static void what_has_arrived_does_not(void **state)
{
	struct stage *stage;
	struct exchange *x = begin_held(&stage, GET);

	(void)state;
	assert_has(stage_server_got(stage, 0), "\r\nSluice-Fence: 5\r\n");
	lapse(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	flight_answer(stage, x, DONE);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 ");
	end(stage);
}

UNIT_SUITE(test_parting)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_not_arrived_ends_with_the_lease),
		cmocka_unit_test(nor_does_it_outlive_the_news_of_another_owner),
		cmocka_unit_test(nor_does_one_whose_client_has_left),
		cmocka_unit_test(nor_does_one_that_is_being_answered),
		cmocka_unit_test(nor_does_that_outlive_the_news),
		cmocka_unit_test(nor_does_a_connection_that_was_closed),
		cmocka_unit_test(one_whose_server_has_ended_its_output_arrives),
		cmocka_unit_test(one_that_its_server_resets_is_forgotten),
		cmocka_unit_test(one_that_is_answered_early_does_not_go_to_others),
		cmocka_unit_test(one_with_a_long_head_that_is_answered_early_does_not_either),
		cmocka_unit_test(one_that_has_arrived_leaves_its_connection_to_others),
		cmocka_unit_test(one_too_many_is_discarded),
		cmocka_unit_test(one_gives_way_to_what_lacks_a_descriptor),
		cmocka_unit_test(one_that_was_closed_and_has_arrived_is_forgotten),
		cmocka_unit_test(what_has_arrived_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
