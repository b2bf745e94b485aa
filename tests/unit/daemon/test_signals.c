/* Signals as events: a few a turn, none lost, none kills, a flood holds nothing up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <event2/event.h>

#include "daemon/signals.h"
#include "tests/unit/suite.h"

struct world {
	struct event_base *base;
	struct signals signals;
	unsigned taken[65];
	char order[64];
};

static void note(int number, void *context)
{
	struct world *w = context;
	size_t length = strlen(w->order);

	w->taken[number]++;
	snprintf(w->order + length, sizeof(w->order) - length, "%d ", number);
}

static int begin(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->base = event_base_new();
	signals_block();
	*state = w;
	return signals_begin(&w->signals, w->base, note, w) ? 0 : -1;
}

static int end(void **state)
{
	struct world *w = *state;

	signals_end(&w->signals);
	event_base_free(w->base);
	free(w);
	return 0;
}

static void turn(struct world *w)
{
	event_base_loop(w->base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
}

static void each_is_taken_once_a_turn(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++) {
		kill(getpid(), SIGTERM);
		kill(getpid(), SIGHUP);
	}
	turn(w);
	assert_string_equal(w->order, "1 15 ");
	turn(w);
	assert_string_equal(w->order, "1 15 ");
	kill(getpid(), SIGHUP);
	turn(w);
	assert_string_equal(w->order, "1 15 1 ");
}

/* As under nohup. */
static void an_ignored_one_is_taken(void **state)
{
	struct world *w = *state;
	void (*usual)(int) = signal(SIGHUP, SIG_IGN);

	kill(getpid(), SIGHUP);
	turn(w);
	signal(SIGHUP, usual);
	assert_string_equal(w->order, "1 ");
}

static void all_six_are_taken(void **state)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
	struct world *w = *state;

	for (size_t i = 0; i < 6; i++)
		kill(getpid(), numbers[i]);
	turn(w);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(w->taken[numbers[i]], 1);
}

static void they_wait_before_and_behind(void **state)
{
	struct world *w = *state;

	signals_end(&w->signals);
	signals_end(&w->signals);
	kill(getpid(), SIGUSR1); /* with its default it would kill */
	turn(w);
	assert_string_equal(w->order, "");
	assert_true(signals_begin(&w->signals, w->base, note, w));
	turn(w);
	assert_string_equal(w->order, "10 ");
}

static void give_up(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* While a process starts: what they are about is not there yet. */
static void a_held_one_ends_a_wait_and_is_taken_later(void **state)
{
	const struct timeval long_time = {.tv_sec = 60};
	struct world *w = *state;
	bool has_waited = false;

	signals_end(&w->signals);
	assert_true(signals_hold(&w->signals, w->base, note, w));
	assert_int_equal(
		event_base_once(w->base, -1, EV_TIMEOUT, give_up, &has_waited, &long_time), 0);
	kill(getpid(), SIGTERM);
	event_base_dispatch(w->base);
	assert_false(has_waited);
	kill(getpid(), SIGHUP);
	turn(w);
	assert_string_equal(w->order, "");
	assert_true(signals_take(&w->signals));
	turn(w);
	assert_string_equal(w->order, "1 15 ");
	kill(getpid(), SIGHUP);
	turn(w);
	assert_string_equal(w->order, "1 15 1 ");
}

/* A child that is executed while one waits has it blocked from the first instruction on. */
static void children_begin_with_them_blocked(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		kill(getpid(), SIGTERM);
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

/* With handlers, a loop that reads what they wrote continues for as long as the flood does. */
static void a_flood_holds_nothing_up(void **state)
{
	struct world *w = *state;
	pid_t flood[3], parent = getpid();

	for (size_t i = 0; i < 3; i++) {
		flood[i] = fork();
		while (flood[i] == 0) {
			if (kill(parent, SIGHUP) != 0 || kill(parent, SIGUSR1) != 0)
				_exit(0);
		}
	}
	while (w->taken[SIGHUP] < 100 || w->taken[SIGUSR1] < 100) {
		unsigned before = w->taken[SIGHUP] + w->taken[SIGUSR1];
		turn(w);
		assert_true(w->taken[SIGHUP] + w->taken[SIGUSR1] - before <= 6);
		memset(w->order, 0, sizeof(w->order));
	}
	for (size_t i = 0; i < 3; i++) {
		kill(flood[i], SIGKILL);
		waitpid(flood[i], NULL, 0);
	}
	turn(w);
}

UNIT_SUITE(test_signals)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_is_taken_once_a_turn, begin, end),
		cmocka_unit_test_setup_teardown(an_ignored_one_is_taken, begin, end),
		cmocka_unit_test_setup_teardown(all_six_are_taken, begin, end),
		cmocka_unit_test_setup_teardown(
			a_held_one_ends_a_wait_and_is_taken_later, begin, end),
		cmocka_unit_test_setup_teardown(they_wait_before_and_behind, begin, end),
		cmocka_unit_test_setup_teardown(children_begin_with_them_blocked, begin, end),
		cmocka_unit_test_setup_teardown(a_flood_holds_nothing_up, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
