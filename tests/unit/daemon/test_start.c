/* A process that can't start accepts nobody: in an upgrade, another one serves those that wait at
 * the same sockets. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/daemon.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

static struct {
	char folder[64], socket[128], ini[128];
	unsigned workers; /* threads so far */
	unsigned fails;   /* the thread that can't be made; 0: none */
	bool starts;      /* what the service says */
	bool was_started, was_answered;
	int client;
} world;

int __real_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	if (run == worker_main && ++world.workers == world.fails)
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}

static bool open_service(void *ctx, const struct conf *conf, struct handover *inherited)
{
	(void)ctx;
	(void)conf;
	(void)inherited;
	return true;
}

/* A client is there by now. Is it served before this says that all is well? */
static bool start_service(void *ctx, struct daemon *daemon)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct pollfd poll_fd = {.events = POLLIN};

	(void)ctx;
	world.was_started = true;
	strcpy(address.sun_path, world.socket);
	world.client = poll_fd.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(world.client, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(world.client, REQUEST, strlen(REQUEST), 0), strlen(REQUEST));
	world.was_answered = poll(&poll_fd, 1, 300) != 0;
	if (world.starts)
		raise(SIGTERM); /* held until all has started */
	(void)daemon;
	return world.starts;
}

static void close_service(void *ctx)
{
	(void)ctx;
}

static const struct daemon_service service = {
	.open = open_service, .start = start_service, .close = close_service};

/* The exit status. */
static int run(void)
{
	struct conf_errors errors;
	struct conf *conf = conf_load(world.ini, &errors);

	assert_non_null(conf);
	conf_errors_free(&errors);
	world.workers = 0;
	world.was_started = world.was_answered = false;
	return daemon_run(conf, &service);
}

static int begin(void **state)
{
	(void)state;
	strcpy(world.folder, "/tmp/sluice-start-XXXXXX");
	assert_non_null(mkdtemp(world.folder));
	snprintf(world.socket, sizeof(world.socket), "%s/socket", world.folder);
	snprintf(world.ini, sizeof(world.ini), "%s/ini", world.folder);
	FILE *ini = fopen(world.ini, "w");
	assert_non_null(ini);
	fprintf(ini,
		"[sluice]\nworkers = 3\nlog_level = error\ncallers = 1k\naccess_log = off\n"
		"[listener l]\nbind = unix:%s\n[upstream u]\nserver = 127.0.0.1:1\n"
		"[route r]\nupstream = u\n",
		world.socket);
	fclose(ini);
	world.fails = 0;
	world.starts = false;
	world.client = -1;
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (world.client >= 0)
		close(world.client);
	unlink(world.socket);
	unlink(world.ini);
	return rmdir(world.folder);
}

static void nobody_is_served_before_all_has_started(void **state)
{
	(void)state;
	assert_int_equal(run(), 1);
	assert_true(world.was_started);
	assert_false(world.was_answered);
}

static void then_those_that_waited_are(void **state)
{
	char response[256] = "";

	(void)state;
	world.starts = true;
	assert_int_equal(run(), 0);
	assert_false(world.was_answered);
	assert_true(recv(world.client, response, sizeof(response) - 1, 0) > 0);
	assert_non_null(strstr(response, "HTTP/1.1 502 "));
}

static void a_worker_that_is_missing_ends_it(void **state)
{
	(void)state;
	for (world.fails = 1; world.fails <= 3; world.fails++) {
		world.starts = true;
		assert_int_equal(run(), 1);
		assert_false(world.was_started);
	}
}

UNIT_SUITE(test_start)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			nobody_is_served_before_all_has_started, begin, end),
		cmocka_unit_test_setup_teardown(then_those_that_waited_are, begin, end),
		cmocka_unit_test_setup_teardown(a_worker_that_is_missing_ends_it, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
