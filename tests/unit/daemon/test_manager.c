/* What the service manager hears, and that the watchdog is fed only while all workers answer. */
#include "daemon/manager.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "main_turn.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {.two_workers = true};

static char address[64];

/* The manager's end. */
static int listen_as_manager(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(address, sizeof(address), "@sluice-test-%ld", (long)getpid());
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s", address + 1);
	assert_int_equal(
		bind(fd, (struct sockaddr *)&name,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address))),
		0);
	setenv("NOTIFY_SOCKET", address, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return fd;
}

/* The next message; "" for none. */
static const char *heard(int fd)
{
	static char text[512];
	ssize_t len = recv(fd, text, sizeof(text) - 1, 0);

	text[len > 0 ? len : 0] = '\0';
	return text;
}

static void each_step_has_its_message(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct daemon *daemon = &stage->daemon;
	int fd = listen_as_manager();

	(void)state;
	manager_ready(daemon);
	assert_string_equal(heard(fd), "READY=1\nSTATUS=Serving by test.ini, 2 workers");
	assert_null(daemon->manager.watchdog);
	manager_reloading(daemon);
	const char *text = heard(fd);
	assert_has(text, "RELOADING=1\nMONOTONIC_USEC=");
	assert_has(text, "\nSTATUS=Reading test.ini");
	manager_reloaded(daemon, true);
	assert_has(heard(fd), "READY=1\nSTATUS=Serving by test.ini");
	manager_reloaded(daemon, false);
	assert_has(heard(fd), "READY=1\nSTATUS=Serving by the last good configuration: test.ini");
	manager_stopping(30000);
	assert_has(heard(fd), "STOPPING=1\nEXTEND_TIMEOUT_USEC=45000000\nSTATUS=Draining");
	manager_handed_over(daemon, 4711);
	assert_string_equal(
		heard(fd), "MAINPID=4711\nREADY=1\nSTATUS=Process 4711 serves by test.ini");
	manager_close(daemon);
	close(fd);
	stage_end(stage);
}

/* One turn of the main loop in which the watchdog's quarter is over. */
static void quarter(struct stage *stage)
{
	event_active(stage->daemon.manager.watchdog, EV_TIMEOUT, 0);
	main_turn(stage);
}

static void the_watchdog_is_fed_while_all_answer(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct daemon *daemon = &stage->daemon;
	int fd = listen_as_manager();

	(void)state;
	setenv("WATCHDOG_USEC", "4000000000", 1);
	manager_ready(daemon);
	assert_non_null(daemon->manager.watchdog);
	heard(fd);
	assert_int_equal(daemon->manager.pings, 1);
	quarter(stage);
	assert_string_equal(heard(fd), ""); /* nobody has answered yet */
	manager_answer(stage->workers[0]);
	quarter(stage);
	assert_string_equal(heard(fd), "");
	assert_int_equal(daemon->manager.pings, 1);
	manager_answer(stage->workers[1]);
	quarter(stage);
	assert_string_equal(heard(fd), "WATCHDOG=1");
	assert_int_equal(daemon->manager.pings, 2);
	for (unsigned i = 0; i < 2; i++)
		manager_answer(stage->workers[i]);
	quarter(stage);
	assert_string_equal(heard(fd), "WATCHDOG=1");
	manager_answer_all(stage->workers[0]); /* it has ended */
	manager_answer(stage->workers[1]);
	for (unsigned i = 0; i < 9; i++) {
		quarter(stage);
		assert_string_equal(heard(fd), "WATCHDOG=1");
		manager_answer(stage->workers[1]);
	}
	manager_close(daemon);
	assert_null(daemon->manager.watchdog);
	unsetenv("WATCHDOG_USEC");
	close(fd);
	stage_end(stage);
}

static void without_a_manager_nobody_hears(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct daemon *daemon = &stage->daemon;

	(void)state;
	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "4000000", 1);
	manager_ready(daemon);
	assert_null(daemon->manager.watchdog);
	assert_string_equal(lines.text, "");
	manager_close(daemon);
	setenv("NOTIFY_SOCKET", "no-path", 1);
	manager_ready(daemon);
	assert_has(lines.text, "warn NOTIFY_SOCKET is \"no-path\": ");
	assert_null(daemon->manager.watchdog);
	manager_close(daemon);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	stage_end(stage);
}

UNIT_SUITE(test_manager)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_step_has_its_message),
		cmocka_unit_test(the_watchdog_is_fed_while_all_answer),
		cmocka_unit_test(without_a_manager_nobody_hears),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
