/* Handshakes that a listening socket's kernel has not finished. A client drops all that it receives
 * by a filter, and so finishes none, until it gives the filter up: then the kernel's repetition of
 * its part, a second later, reaches it. No privilege is needed. */
#include "net/handshakes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/acceptor.h"
#include "net/listen.h"
#include "tests/unit/left_out.h"
#include "tests/unit/suite.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un path;
};

static union address v4_address(const char *text, in_port_t port)
{
	union address address = {.v4 = {.sin_family = AF_INET, .sin_port = port}};

	assert_int_equal(inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
	return address;
}

static union address v6_address(const char *text, in_port_t port)
{
	union address address = {.v6 = {.sin6_family = AF_INET6, .sin6_port = port}};

	assert_int_equal(inet_pton(AF_INET6, text, &address.v6.sin6_addr), 1);
	return address;
}

static socklen_t length(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

/* Its port, if it was 0, is filled in. */
static int listen_at(union address *address)
{
	struct listen_options options = {.backlog = 8, .reuse_port = true};
	socklen_t len = length(address);
	int fd = listen_open(&address->any, len, &options);

	assert_true(fd >= 0);
	assert_int_equal(getsockname(fd, &address->any, &len), 0);
	return fd;
}

/* A client that has sent its SYN and takes no answer. */
static int half_open(const union address *address)
{
	struct sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	struct sock_fprog program = {1, none};
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
		skip(); /* some systems leave that to root */
	assert_int_equal(connect(fd, &address->any, length(address)), -1);
	assert_int_equal(errno, EINPROGRESS);
	return fd;
}

static void finish(int client)
{
	struct pollfd writable = {client, POLLOUT, 0};
	int none = 0;

	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none)), 0);
	assert_int_equal(poll(&writable, 1, -1), 1);
	assert_int_equal(writable.revents, POLLOUT);
}

static void sees(union address listening, union address reached)
{
	int other = listen_at(&listening); /* shares the port */
	int fd = listen_at(&listening);

	assert_int_equal(handshakes_look(fd), HANDSHAKES_NONE);
	if (reached.any.sa_family == AF_INET)
		reached.v4.sin_port = listening.v4.sin_port;
	else
		reached.v6.sin6_port = listening.v6.sin6_port;
	int client = half_open(&reached);
	assert_int_equal(handshakes_look(fd), HANDSHAKES_UNDER_WAY);
	assert_int_equal(handshakes_look(other), HANDSHAKES_UNDER_WAY);
	close(client);
	close(fd);
	close(other);
}

static void of_an_ipv4_address(void **state)
{
	(void)state;
	sees(v4_address("127.0.0.1", 0), v4_address("127.0.0.1", 0));
}

static void of_any_ipv4_address(void **state)
{
	(void)state;
	sees(v4_address("0.0.0.0", 0), v4_address("127.0.0.1", 0));
}

static bool has_ipv6(void)
{
	union address loopback = v6_address("::1", 0);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, &loopback.any, sizeof(loopback.v6)) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

static void of_an_ipv6_address(void **state)
{
	(void)state;
	sees(v6_address("::1", 0), v6_address("::1", 0));
}

static void of_any_address_with_ipv6(void **state)
{
	(void)state;
	sees(v6_address("::", 0), v6_address("::1", 0));
}

static void of_any_address_with_ipv4(void **state)
{
	(void)state;
	sees(v6_address("::", 0), v4_address("127.0.0.1", 0));
}

static void another_port_has_none(void **state)
{
	union address address = v4_address("127.0.0.1", 0), another = address;
	int fd = listen_at(&address), other = listen_at(&another);
	int client = half_open(&address);

	(void)state;
	assert_int_equal(handshakes_look(fd), HANDSHAKES_UNDER_WAY);
	assert_int_equal(handshakes_look(other), HANDSHAKES_NONE);
	close(client);
	close(fd);
	close(other);
}

static void on_ready(struct acceptor *acceptor)
{
	acceptor_stop(acceptor);
}

/* Nobody new is let in, the handshake that had begun is finished, and there is none from then on.
 */
static void one_finishes_while_others_are_kept_out(void **state)
{
	union address address = v4_address("127.0.0.1", 0);
	struct acceptor acceptor;
	struct stream_export accepted;
	struct sockaddr_storage peer;
	socklen_t len;
	struct loop loop;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	acceptor_open(&acceptor, &loop, listen_at(&address), on_ready);
	int client = half_open(&address);
	if (!acceptor_keep_out(&acceptor))
		skip();
	assert_int_equal(acceptor_handshakes(&acceptor), HANDSHAKES_UNDER_WAY);
	assert_int_equal(acceptor_take(&acceptor, &accepted, &peer, &len), EAGAIN);
	finish(client);
	/* Its ACK is on its way as long as the handshake is listed. */
	while (acceptor_handshakes(&acceptor) == HANDSHAKES_UNDER_WAY)
		usleep(1000);
	assert_int_equal(acceptor_handshakes(&acceptor), HANDSHAKES_NONE);
	int error;
	while ((error = acceptor_take(&acceptor, &accepted, &peer, &len)) == EAGAIN)
		usleep(1000); /* from there it is put into the backlog */
	assert_int_equal(error, 0);
	close(half_open(&address));
	assert_int_equal(acceptor_handshakes(&acceptor), HANDSHAKES_NONE);
	stream_export_close(&accepted);
	close(client);
	acceptor_close(&acceptor);
	loop_end(&loop);
}

static void a_unix_socket_has_none(void **state)
{
	union address address = {.path = {.sun_family = AF_UNIX}};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &address.any, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(handshakes_look(fd), HANDSHAKES_NONE);
	close(fd);
}

static void failures_say_unknown(void **state)
{
	union address address = v4_address("127.0.0.1", 0);
	int fd = listen_at(&address);
	struct rlimit limit, full;

	(void)state;
	assert_int_equal(handshakes_look(-1), HANDSHAKES_UNKNOWN);
	assert_int_equal(errno, EBADF);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	full = limit;
	full.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0);
	enum handshakes found = handshakes_look(fd);
	int error = errno;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(found, HANDSHAKES_UNKNOWN);
	assert_int_equal(error, EMFILE);
	close(fd);
}

UNIT_SUITE(test_handshakes)
{
	const bool v6 = has_ipv6();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_an_ipv4_address),
		cmocka_unit_test(of_any_ipv4_address),
		UNIT_TEST_IF(v6, of_an_ipv6_address, "no IPv6"),
		UNIT_TEST_IF(v6, of_any_address_with_ipv6, "no IPv6"),
		UNIT_TEST_IF(v6, of_any_address_with_ipv4, "no IPv6"),
		cmocka_unit_test(another_port_has_none),
		cmocka_unit_test(one_finishes_while_others_are_kept_out),
		cmocka_unit_test(a_unix_socket_has_none),
		cmocka_unit_test(failures_say_unknown),
	};

	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
