/* A listening socket on a loop: it reports those that wait as long as it accepts. */
#include "net/acceptor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "net/listen.h"
#include "tests/unit/suite.h"

struct world {
	struct loop loop;
	struct acceptor acceptor;
	struct sockaddr_in address;
	int listening;
};

static unsigned told;

static void ready(struct acceptor *acceptor)
{
	(void)acceptor;
	told++;
}

static void begin(struct world *w)
{
	const struct listen_options options = {.backlog = 5};
	socklen_t len = sizeof(w->address);

	memset(w, 0, sizeof(*w));
	told = 0;
	w->address = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = listen_open((struct sockaddr *)&w->address, len, &options);
	assert_true(fd >= 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&w->address, &len), 0);
	w->listening = fd;
	assert_int_equal(loop_init(&w->loop), 0);
	loop_enter(&w->loop);
	acceptor_open(&w->acceptor, &w->loop, fd, ready);
}

static void end(struct world *w)
{
	acceptor_close(&w->acceptor);
	acceptor_close(&w->acceptor);
	loop_enter(NULL);
	loop_end(&w->loop);
}

/* A client whose connection waits to be taken, a moment after the client knows of it. */
static int come(struct world *w)
{
	struct pollfd waits = {w->listening, POLLIN, 0};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&w->address, sizeof(w->address)), 0);
	assert_int_equal(poll(&waits, 1, -1), 1);
	return fd;
}

/* A turn that does not sleep. */
static void turn(struct world *w)
{
	loop_wake(&w->loop);
	assert_int_equal(loop_run_turn(&w->loop), 0);
}

static void it_reports_those_that_wait_while_it_accepts(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	int client = come(&w);
	turn(&w);
	assert_int_equal(told, 0); /* it does not accept yet */
	acceptor_start(&w.acceptor);
	acceptor_start(&w.acceptor);
	assert_true(w.acceptor.accepting);
	for (unsigned i = 1; i <= 3; i++) { /* in each turn, until it is taken */
		turn(&w);
		assert_int_equal(told, i);
	}
	acceptor_stop(&w.acceptor);
	acceptor_stop(&w.acceptor);
	turn(&w);
	assert_int_equal(told, 3);
	acceptor_start(&w.acceptor);
	turn(&w);
	assert_int_equal(told, 4);
	close(client);
	end(&w);
}

static void each_is_taken_once(void **state)
{
	struct world w;
	struct stream_export taken;
	struct sockaddr_storage peer;
	struct sockaddr_in own;
	socklen_t len, own_len = sizeof(own);

	(void)state;
	begin(&w);
	acceptor_start(&w.acceptor);
	assert_int_equal(acceptor_take(&w.acceptor, &taken, &peer, &len), EAGAIN);
	int client = come(&w);
	assert_int_equal(acceptor_take(&w.acceptor, &taken, &peer, &len), 0);
	assert_int_equal(getsockname(client, (struct sockaddr *)&own, &own_len), 0);
	assert_int_equal(len, sizeof(own));
	assert_memory_equal(&peer, &own, sizeof(own));
	assert_true(stream_export_is_silent(&taken));
	assert_int_equal(write(client, "x", 1), 1);
	assert_false(stream_export_is_silent(&taken));
	stream_export_close(&taken);
	assert_int_equal(acceptor_take(&w.acceptor, &taken, &peer, &len), EAGAIN);
	close(client);
	end(&w);
}

static void its_backlog_changes(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	assert_int_equal(acceptor_set_backlog(&w.acceptor, 9), 0);
	int client = come(&w);
	close(client);
	end(&w);
	assert_int_not_equal(acceptor_set_backlog(&w.acceptor, 9), 0); /* it is closed */
}

UNIT_SUITE(test_acceptor)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_reports_those_that_wait_while_it_accepts),
		cmocka_unit_test(each_is_taken_once),
		cmocka_unit_test(its_backlog_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
