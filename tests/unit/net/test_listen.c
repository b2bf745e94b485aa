/* Listening sockets as they are opened, and the calls that move their connections' bytes. */
#include "net/listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/transfer.h"
#include "tests/unit/suite.h"

static char folder[] = "/tmp/sluice-listen-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static struct sockaddr_un unix_at(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, name);
	return address;
}

static int open_unix(const struct sockaddr_un *address, mode_t mode)
{
	const struct listen_options options = {.backlog = 5, .mode = mode};

	return listen_open((const struct sockaddr *)address, sizeof(*address), &options);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port)};
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	return ntohs(address.sin_port);
}

static void a_unix_socket(void **state)
{
	const struct sockaddr_un address = unix_at("s");
	struct stat file;

	(void)state;
	int fd = open_unix(&address, 0600);
	assert_true(fd >= 0);
	assert_int_equal(stat(address.sun_path, &file), 0);
	assert_int_equal(file.st_mode & 0777, 0600);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	/* Somebody answers there. */
	assert_int_equal(open_unix(&address, 0), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(stat(address.sun_path, &file), 0);
	close(fd); /* and now nobody does: as after a crash */
	fd = open_unix(&address, 0);
	assert_true(fd >= 0);
	close(fd);
	unlink(address.sun_path);
}

/* What is no socket is nobody's to remove. */
static void another_file_is_not_replaced(void **state)
{
	const struct sockaddr_un address = unix_at("file");
	int file = open(address.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	(void)state;
	assert_true(file >= 0);
	close(file);
	assert_int_equal(open_unix(&address, 0), -1);
	assert_int_equal(access(address.sun_path, F_OK), 0);
	unlink(address.sun_path);
	const struct sockaddr_un none = unix_at("none/s");
	assert_int_equal(open_unix(&none, 0), -1);
	assert_int_equal(errno, ENOENT);
}

static void sockets_that_share_a_port(void **state)
{
	const struct listen_options shares = {.backlog = 5, .reuse_port = true},
				    alone = {.backlog = 5};
	struct sockaddr_in address = loopback(0);

	(void)state;
	int fd = listen_open((struct sockaddr *)&address, sizeof(address), &shares);
	assert_true(fd >= 0);
	address = loopback(port_of(fd));
	assert_true(listen_is_taken((struct sockaddr *)&address, sizeof(address), &shares));
	int other = listen_open((struct sockaddr *)&address, sizeof(address), &shares);
	assert_true(other >= 0);
	assert_int_equal(listen_open((struct sockaddr *)&address, sizeof(address), &alone), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
	close(other);
	assert_false(listen_is_taken((struct sockaddr *)&address, sizeof(address), &shares));
	const struct sockaddr_un file = unix_at("s");
	fd = open_unix(&file, 0);
	assert_false(listen_is_taken((const struct sockaddr *)&file, sizeof(file), &alone));
	close(fd);
	unlink(file.sun_path);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_pass(void **state)
{
	struct iovec pieces[] = {{(char[]){"ab"}, 2}, {(char[]){"cde"}, 3}};
	const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
	int pair[2];
	char got[16];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(transfer_receive(pair[1], got, sizeof(got)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(transfer_send(pair[0], "xyz", 3), 3);
	assert_int_equal(transfer_send_pieces(pair[0], &message), 5);
	assert_int_equal(transfer_receive(pair[1], got, 4), 4);
	assert_int_equal(transfer_receive(pair[1], got + 4, sizeof(got) - 4), 4);
	assert_memory_equal(got, "xyzabcde", 8);
	close(pair[0]);
	assert_int_equal(transfer_receive(pair[1], got, sizeof(got)), 0);
	/* A peer that is gone is an error, and no signal ends the process. */
	assert_int_equal(transfer_send(pair[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(transfer_send_pieces(pair[1], &message), -1);
	assert_int_equal(errno, EPIPE);
	close(pair[1]);
}

UNIT_SUITE(test_listen)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_unix_socket),
		cmocka_unit_test(another_file_is_not_replaced),
		cmocka_unit_test(sockets_that_share_a_port),
		cmocka_unit_test(bytes_pass),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
