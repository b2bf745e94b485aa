/* An exchange's states: it ends once, and a worker that checks stops at a change that is not in
 * their table. */
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

static void each_may_end_once(void **state)
{
	(void)state;
	for (unsigned from = 0; from < STATES; from++) {
		assert_int_equal(exchange_may_change(from, EXCHANGE_ENDED), from != EXCHANGE_ENDED);
		assert_false(exchange_may_change(EXCHANGE_ENDED, from));
		assert_false(exchange_may_change(from, EXCHANGE_HEAD));
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

UNIT_SUITE(test_exchange_states)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_may_end_once),
		cmocka_unit_test(a_worker_that_checks_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
