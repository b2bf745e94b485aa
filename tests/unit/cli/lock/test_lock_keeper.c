/* The process that has the command of `sluice lock`: by orders of the test's, and by a clock that
 * the test sets for it. */
#include "cli/lock/lock_keeper.h"

#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cli/lock/descendants.h"
#include "tests/unit/base/fake_clock.h"
#include "tests/unit/suite.h"

#define BEGIN_NS  (1000 * CLOCK_NS_PER_S)
#define LEASE_NS  (10 * CLOCK_NS_PER_S)
#define LATEST_MS 60000 /* for what must come, however slow the machine */

/* Of the test and the keeper. */
static struct shared {
	_Atomic uint64_t now_ns;
	atomic_uint frozen, resumed; /* so many times */
	atomic_bool loses_stops;     /* no process gets a SIGSTOP */
} * shared;

static struct {
	int orders;
	pid_t pid;
} keeper;

static uint64_t boot_ns(void)
{
	return shared->now_ns;
}

bool __real_descendants_signal(int number);
bool __wrap_descendants_signal(int number);
bool __wrap_descendants_signal(int number)
{
	if (number == SIGSTOP)
		shared->frozen++;
	if (number == SIGCONT)
		shared->resumed++;
	if (number == SIGSTOP && shared->loses_stops)
		return true;
	return __real_descendants_signal(number);
}

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
	return shared && number == SIGSTOP && shared->loses_stops ? 0 : __real_kill(pid, number);
}

static int begin(void **state)
{
	static char program[] = "sleep", long_time[] = "3600";
	static char *command[] = {program, long_time, NULL};

	(void)state;
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->now_ns = BEGIN_NS;
	fake_clock_boot_ns = boot_ns;
	keeper.orders = keeper_start(command, &keeper.pid);
	return keeper.orders < 0;
}

static int end(void **state)
{
	(void)state;
	close(keeper.orders); /* it kills the command, and ends */
	assert_int_equal(waitpid(keeper.pid, NULL, 0), keeper.pid);
	int error = munmap(shared, sizeof(*shared));
	shared = NULL;
	return error;
}

static void order(enum keeper_order_kind kind, uint64_t number, uint64_t until_ns)
{
	const struct keeper_order order = {.kind = kind, .number = number, .until_ns = until_ns};

	assert_int_equal(send(keeper.orders, &order, sizeof(order), MSG_NOSIGNAL), sizeof(order));
}

/* Until it has taken all orders, and done with all but one that changes nothing. */
static void until_done(void)
{
	int unread = 1;

	order(KEEPER_SIGNAL, 0, 0);
	for (int i = 0; i < LATEST_MS && unread > 0; i++) {
		assert_int_equal(ioctl(keeper.orders, SIOCOUTQ, &unread), 0);
		if (unread > 0)
			poll(NULL, 0, 1);
	}
	assert_int_equal(unread, 0);
}

static int64_t next_report(enum keeper_report_kind kind)
{
	struct pollfd fd = {.fd = keeper.orders, .events = POLLIN};
	struct keeper_report report;

	assert_int_equal(poll(&fd, 1, LATEST_MS), 1);
	assert_int_equal(recv(keeper.orders, &report, sizeof(report), 0), sizeof(report));
	assert_int_equal(report.kind, kind);
	return report.number;
}

static void assert_no_report(void)
{
	struct pollfd fd = {.fd = keeper.orders, .events = POLLIN};

	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* Until so much is over, which it sees as it has an order to read. */
static void pass(uint64_t ns)
{
	shared->now_ns += ns;
	until_done();
	until_done(); /* it looks at the clock behind the first of the two */
}

/* Returns the command's process. */
static pid_t start(void)
{
	order(KEEPER_RUN, 7, BEGIN_NS + LEASE_NS);
	pid_t command = (pid_t)next_report(KEEPER_STARTED);
	assert_true(command > 0);
	return command;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_command_is_frozen_at_its_leases_end(void **state)
{
	(void)state;
	start();
	pass(LEASE_NS - 1);
	assert_int_equal(shared->frozen, 0);
	pass(1);
	assert_true(shared->frozen > 0);
	assert_int_equal(shared->resumed, 0);
	order(KEEPER_LIVE, 7, BEGIN_NS + 2 * LEASE_NS);
	until_done();
	assert_int_equal(shared->resumed, 1);
}

/* Whoever has the lock by now may be at work. */
static void a_lease_that_is_over_does_not_let_it_go_on(void **state)
{
	(void)state;
	start();
	pass(2 * LEASE_NS);
	assert_true(shared->frozen > 0);
	order(KEEPER_LIVE, 7, BEGIN_NS + 2 * LEASE_NS);
	until_done();
	assert_int_equal(shared->resumed, 0);
	order(KEEPER_LIVE, 7, BEGIN_NS + 2 * LEASE_NS + 1);
	until_done();
	assert_int_equal(shared->resumed, 1);
}

/* As a lock does whose command is a `sluice lock`: it continues all below it. */
static void one_that_somebody_continues_is_frozen_again(void **state)
{
	(void)state;
	pid_t command = start();
	pass(LEASE_NS);
	for (int i = 0; i < 3; i++) {
		unsigned before = shared->frozen;
		assert_int_equal(kill(command, SIGCONT), 0);
		for (int waited_ms = 0; waited_ms < LATEST_MS && shared->frozen == before;
			waited_ms++)
			poll(NULL, 0, 1);
		assert_true(shared->frozen > before);
		until_done();
	}
	order(KEEPER_LIVE, 7, BEGIN_NS + 2 * LEASE_NS);
	until_done();
	assert_int_equal(shared->resumed, 1);
	unsigned before = shared->frozen;
	until_done(); /* its own continuing is not taken for somebody else's */
	until_done();
	assert_int_equal(shared->frozen, before);
}

/* As one does that is continued before it has got to stopping: nothing is reported about that. */
static void one_that_did_not_stop_is_frozen_again(void **state)
{
	(void)state;
	start();
	shared->loses_stops = true;
	pass(LEASE_NS);
	assert_true(shared->frozen > 0);
	shared->loses_stops = false;
	unsigned before = shared->frozen;
	for (int waited_ms = 0; waited_ms < LATEST_MS && shared->frozen == before; waited_ms++)
		poll(NULL, 0, 1);
	assert_true(shared->frozen > before);
	order(KEEPER_LIVE, 7, BEGIN_NS + 2 * LEASE_NS);
	until_done();
	assert_int_equal(shared->resumed, 1);
}

static void nor_does_it_begin(void **state)
{
	(void)state;
	shared->now_ns += LEASE_NS;
	order(KEEPER_RUN, 7, BEGIN_NS + LEASE_NS);
	until_done();
	order(KEEPER_LIVE, 7, BEGIN_NS + LEASE_NS);
	until_done();
	until_done();
	assert_no_report();
	order(KEEPER_LIVE, 7, BEGIN_NS + 2 * LEASE_NS);
	assert_true(next_report(KEEPER_STARTED) > 0);
	until_done();
	assert_int_equal(shared->frozen, 0);
}

static void a_signal_ends_one_that_has_not_begun(void **state)
{
	(void)state;
	shared->now_ns += LEASE_NS;
	order(KEEPER_RUN, 7, BEGIN_NS + LEASE_NS);
	order(KEEPER_SIGNAL, SIGTERM, 0);
	int status = (int)next_report(KEEPER_ENDED);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void so_does_the_loss_of_its_lock(void **state)
{
	(void)state;
	shared->now_ns += LEASE_NS;
	order(KEEPER_RUN, 7, BEGIN_NS + LEASE_NS);
	order(KEEPER_END, 1000, 0);
	next_report(KEEPER_ENDED);
}

#define KEEPER_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

UNIT_SUITE(test_lock_keeper)
{
	const struct CMUnitTest tests[] = {
		KEEPER_TEST(a_command_is_frozen_at_its_leases_end),
		KEEPER_TEST(a_lease_that_is_over_does_not_let_it_go_on),
		KEEPER_TEST(one_that_somebody_continues_is_frozen_again),
		KEEPER_TEST(one_that_did_not_stop_is_frozen_again),
		KEEPER_TEST(nor_does_it_begin),
		KEEPER_TEST(a_signal_ends_one_that_has_not_begun),
		KEEPER_TEST(so_does_the_loss_of_its_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
