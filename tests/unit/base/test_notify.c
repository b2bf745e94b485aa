/* Messages to a service manager: where they go, that they are whole, that they never block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <cmocka.h>

#include "base/notify.h"
#include "tests/unit/suite.h"

/* A manager's socket at `address`; `len` bytes of its name count. */
static int listen_at(const char *name, size_t len)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	memcpy(address.sun_path, name, len);
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
		0);
	return fd;
}

static void receives(int fd, const char *expected)
{
	char text[4096];
	ssize_t len = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

	assert_true(len >= 0);
	text[len] = '\0';
	assert_string_equal(text, expected);
}

static void by_path(void **state)
{
	char path[] = "/tmp/sluice-notify-XXXXXX";
	struct notify notify;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	unlink(path);
	fd = listen_at(path, strlen(path));
	assert_true(notify_open(&notify, path));
	notify_send(&notify, "READY=1\nSTATUS=%s", "serving");
	receives(fd, "READY=1\nSTATUS=serving");
	/* The manager is gone: nothing happens. */
	close(fd);
	unlink(path);
	notify_send(&notify, "STOPPING=1");
	notify_close(&notify);
	notify_send(&notify, "STOPPING=1");
}

static void by_abstract_name(void **state)
{
	struct notify notify;
	char name[64], path[64];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "@sluice-notify-%ld", (long)getpid());
	memcpy(name, path, sizeof(name));
	name[0] = '\0';
	fd = listen_at(name, strlen(path));
	assert_true(notify_open(&notify, path));
	notify_send(&notify, "WATCHDOG=1");
	receives(fd, "WATCHDOG=1");
	notify_close(&notify);
	close(fd);
}

static void what_is_no_socket(void **state)
{
	struct notify notify;
	char path[256];

	(void)state;
	assert_true(notify_open(&notify, NULL));
	notify_send(&notify, "READY=1");
	assert_true(notify_open(&notify, ""));
	notify_send(&notify, "READY=1");
	assert_false(notify_open(&notify, "relative"));
	assert_int_equal(errno, EINVAL);
	assert_false(notify_open(&notify, "@"));
	notify_send(&notify, "READY=1");
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[255] = '\0';
	assert_false(notify_open(&notify, path));
	assert_int_equal(errno, ENAMETOOLONG);
	notify_send(&notify, "READY=1");
}

/* A manager that reads nothing fills its socket; sends end all the same. */
static void a_manager_that_reads_nothing(void **state)
{
	char name[64] = "", path[64];
	struct notify notify;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "@sluice-full-%ld", (long)getpid());
	memcpy(name + 1, path + 1, strlen(path) - 1);
	fd = listen_at(name, strlen(path));
	assert_true(notify_open(&notify, path));
	for (int fill = 0; fill < 10000; fill++)
		if (sendto(notify.fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&notify.address,
			    notify.address_len) < 0)
			break;
	notify_send(&notify, "WATCHDOG=1");
	notify_close(&notify);
	close(fd);
}

static void the_watchdog_of_this_process(void **state)
{
	(void)state;
	assert_int_equal(notify_watchdog_us(NULL, NULL, 7), 0);
	assert_int_equal(notify_watchdog_us("30000000", NULL, 7), 30000000);
	assert_int_equal(notify_watchdog_us("30000000", "7", 7), 30000000);
	assert_int_equal(notify_watchdog_us("30000000", "8", 7), 0);
	assert_int_equal(notify_watchdog_us("30000000", "", 7), 0);
	assert_int_equal(notify_watchdog_us("0", NULL, 7), 0);
	assert_int_equal(notify_watchdog_us("30s", NULL, 7), 0);
	assert_int_equal(notify_watchdog_us("-1", NULL, 7), 0);
	assert_int_equal(notify_watchdog_us("18446744073709551615", NULL, 7), 0);
	assert_int_equal(notify_watchdog_us("99999999999999999999", NULL, 7), 0);
}

UNIT_SUITE(test_notify)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_path),
		cmocka_unit_test(by_abstract_name),
		cmocka_unit_test(what_is_no_socket),
		cmocka_unit_test(a_manager_that_reads_nothing),
		cmocka_unit_test(the_watchdog_of_this_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
