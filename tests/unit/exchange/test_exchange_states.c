/* The table of an exchange's states: what may follow what, and that a worker that checks stops at
 * a change that is not in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange/exchange.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define STATES (EXCHANGE_ENDED + 1)

/* The states in which nothing has been asked of a server yet. */
static bool waits(enum exchange_state state)
{
	return state == EXCHANGE_HELD || state == EXCHANGE_SEEKING || state == EXCHANGE_ASKING ||
	       state == EXCHANGE_DELAYED || state == EXCHANGE_QUEUED;
}

static void each_may_end_once(void **state)
{
	(void)state;
	for (unsigned from = 0; from < STATES; from++) {
		assert_int_equal(exchange_may_change(from, EXCHANGE_ENDED), from != EXCHANGE_ENDED);
		assert_false(exchange_may_change(EXCHANGE_ENDED, from));
		assert_false(exchange_may_change(from, EXCHANGE_HEAD));
	}
}

static void a_server_is_asked_in_order(void **state)
{
	(void)state;
	for (unsigned from = 0; from < STATES; from++) {
		/* A request leaves only on a connection, which is made or taken before. */
		assert_int_equal(exchange_may_change(from, EXCHANGE_FORWARDING),
			from == EXCHANGE_CONNECTING);
		/* What comes of a response comes behind a request; that to a gateway is read
		 * before it switches. */
		assert_int_equal(
			exchange_may_change(from, EXCHANGE_RELAYING), from == EXCHANGE_FORWARDING);
		assert_int_equal(exchange_may_change(from, EXCHANGE_TUNNEL),
			from == EXCHANGE_FORWARDING || from == EXCHANGE_RELAYING);
		assert_int_equal(exchange_may_change(from, EXCHANGE_DRAINING),
			from == EXCHANGE_FORWARDING || from == EXCHANGE_RELAYING);
		assert_int_equal(exchange_may_change(from, EXCHANGE_CONNECTING),
			waits(from) || from == EXCHANGE_HEAD || from == EXCHANGE_FORWARDING);
		/* Once a server has been asked, no limit is; but a gateway's request is tried
		 * again after a while. */
		assert_int_equal(exchange_may_change(from, EXCHANGE_DELAYED),
			waits(from) || from == EXCHANGE_HEAD || from == EXCHANGE_CONNECTING ||
				from == EXCHANGE_FORWARDING);
		assert_int_equal(exchange_may_change(from, EXCHANGE_HELD),
			from == EXCHANGE_HEAD || from == EXCHANGE_HELD ||
				from == EXCHANGE_SEEKING || from == EXCHANGE_ASKING);
		/* One question at a time, also of one whose answer was old when it was read. */
		assert_int_equal(exchange_may_change(from, EXCHANGE_ASKING),
			from == EXCHANGE_HEAD || waits(from));
	}
}

static void an_answer_of_our_own(void **state)
{
	(void)state;
	for (unsigned from = 0; from < STATES; from++) {
		bool too_late = from == EXCHANGE_TUNNEL || from == EXCHANGE_DRAINING ||
				from == EXCHANGE_ENDED;
		assert_int_equal(exchange_may_change(from, EXCHANGE_REPLYING), !too_late);
	}
}

/* Enters the state in a child. Returns the signal that ended it; 0: none. */
static int enter(enum exchange_state from, enum exchange_state to, bool checks)
{
	static struct worker worker;
	static struct exchange exchange;
	int status;

	worker.checks_waits = checks;
	exchange.worker = &worker;
	exchange.state = from;
	pid_t child = fork();
	if (child == 0) {
		const struct rlimit no_core = {0, 0};
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		exchange_enter(&exchange, to);
		_exit(exchange.state == to ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_worker_that_checks_stops(void **state)
{
	(void)state;
	assert_int_equal(enter(EXCHANGE_HEAD, EXCHANGE_QUEUED, true), 0);
	assert_int_equal(enter(EXCHANGE_HEAD, EXCHANGE_RELAYING, true), SIGABRT);
	assert_int_equal(enter(EXCHANGE_ENDED, EXCHANGE_REPLYING, true), SIGABRT);
	assert_int_equal(enter(EXCHANGE_HEAD, EXCHANGE_RELAYING, false), 0);
}

static enum request_progress after(enum request_progress was, void (*event)(struct exchange *x))
{
	static struct exchange exchange;

	exchange.request_progress = was;
	event(&exchange);
	return exchange.request_progress;
}

static void stop(struct exchange *exchange)
{
	exchange_stop_sending(exchange);
}

/* It is over when it was read and nothing more is sent, whichever comes first. */
static void a_request_is_read_and_sent(void **state)
{
	(void)state;
	assert_int_equal(after(REQUEST_READING, exchange_request_read), REQUEST_READ);
	assert_int_equal(after(REQUEST_READ, stop), REQUEST_OVER);
	assert_int_equal(after(REQUEST_READING, stop), REQUEST_REFUSED);
	assert_int_equal(after(REQUEST_REFUSED, exchange_request_read), REQUEST_OVER);
	for (unsigned was = REQUEST_REFUSED; was <= REQUEST_OVER; was++) {
		if (was != REQUEST_READ)
			assert_int_equal(after(was, stop), was);
	}
	for (unsigned was = REQUEST_READ; was <= REQUEST_OVER; was++)
		assert_int_equal(after(was, exchange_request_read), was);
}

UNIT_SUITE(test_exchange_states)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_may_end_once),
		cmocka_unit_test(a_server_is_asked_in_order),
		cmocka_unit_test(an_answer_of_our_own),
		cmocka_unit_test(a_worker_that_checks_stops),
		cmocka_unit_test(a_request_is_read_and_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
