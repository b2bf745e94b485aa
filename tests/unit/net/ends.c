#include "ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory_stream.h"
#include "net/socket_stream.h"
#include "net/tls_server.h"
#include "net/tls_stream.h"
#include "tls_files.h"
#include "tls_peer.h"

#define MEMORY_ROOM 5000

static void on_notify(struct stream *stream)
{
	((struct ends *)stream)->told++;
}

const struct stream_calls ends_calls = {NULL, on_notify};

/* ---- sockets --------------------------------------------------------------------------------- */

static void take_socket(struct ends *ends, int ours, int peer)
{
	assert_int_equal(fcntl(ours, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(peer, F_SETFL, O_NONBLOCK), 0);
	ends->fd = peer;
	assert_true(socket_stream_open(&ends->stream, ends->streams, ours, true, &ends_calls));
}

static void tcp_connect(struct ends *ends)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), ours = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(connect(ours, (struct sockaddr *)&address, len), 0);
	int peer = accept(listener, NULL, NULL);
	assert_true(peer >= 0);
	close(listener);
	int one = 1; /* what the peer sends comes at once */
	assert_int_equal(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	take_socket(ends, ours, peer);
}

static void unix_connect(struct ends *ends)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	take_socket(ends, pair[0], pair[1]);
}

static size_t socket_send(struct ends *ends, const void *bytes, size_t len)
{
	ssize_t n = send(ends->fd, bytes, len, MSG_NOSIGNAL);

	assert_true(n > 0 || (n < 0 && errno == EAGAIN));
	return n > 0 ? (size_t)n : 0;
}

static long socket_receive(struct ends *ends, void *bytes, size_t room)
{
	ssize_t n = recv(ends->fd, bytes, room, 0);

	if (n > 0)
		return (long)n;
	return n == 0 ? -1 : errno == EAGAIN ? -3 : -2;
}

static void socket_end_output(struct ends *ends)
{
	assert_int_equal(shutdown(ends->fd, SHUT_WR), 0);
}

static void socket_close(struct ends *ends)
{
	if (ends->fd >= 0)
		close(ends->fd);
	ends->fd = -1;
}

static void tcp_reset(struct ends *ends)
{
	struct linger linger = {.l_onoff = 1};

	assert_int_equal(setsockopt(ends->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	socket_close(ends);
}

/* A unix socket's reset is a close that leaves something unread. */
static void unix_reset(struct ends *ends)
{
	struct iovec piece = {(void *)(uintptr_t) "x", 1};
	size_t written;

	assert_int_equal(stream_write(&ends->stream, &piece, 1, &written), STREAM_OK);
	socket_close(ends);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_connect(struct ends *ends)
{
	ends->memory = memory_stream_open(&ends->stream, ends->streams, MEMORY_ROOM, &ends_calls);
}

static void faulty_connect(struct ends *ends)
{
	memory_connect(ends);
	memory_peer_set_faults(ends->memory, random_begin("faulty memory"));
}

static void memory_noise(struct ends *ends)
{
	memory_peer_send_noise(ends->memory);
}

static size_t memory_send(struct ends *ends, const void *bytes, size_t len)
{
	return memory_peer_send(ends->memory, bytes, len);
}

static long memory_receive(struct ends *ends, void *bytes, size_t room)
{
	long n = memory_peer_receive(ends->memory, bytes, room);

	return n == 0 ? -3 : n;
}

static void memory_end(struct ends *ends)
{
	memory_peer_end_output(ends->memory);
}

static void memory_close(struct ends *ends)
{
	if (ends->memory)
		memory_peer_close(ends->memory);
	ends->memory = NULL;
}

static void memory_reset(struct ends *ends)
{
	memory_peer_reset(ends->memory);
	memory_close(ends);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* Carries what the peer wants to send; all of it, as the test has made room. */
static void carry_out(struct ends *ends)
{
	char bytes[32768];
	size_t len;

	while ((len = tls_peer_take(ends->tls, bytes, sizeof(bytes))) > 0)
		assert_int_equal(ends->kind->below->send(ends, bytes, len), len);
}

/* What there is for it now, as the kind below says. */
static long carry_in(struct ends *ends)
{
	char bytes[32768];
	long n = ends->kind->below->receive(ends, bytes, sizeof(bytes));

	if (n > 0)
		tls_peer_give(ends->tls, bytes, (size_t)n);
	return n;
}

static struct tls_server *test_server(void)
{
	static const char *const protocols[] = {"http/1.1", NULL};
	char path[] = "/tmp/ends.XXXXXX", why[256];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	tls_files_make(path, NULL, "ends.test", false);
	struct tls_pair pair = {path, path, NULL};
	struct tls_settings settings = {.name = "ends",
		.pairs = &pair,
		.pair_count = 1,
		.tls12 = true,
		.tls13 = true,
		.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256",
		.protocols = protocols};
	struct tls_server *server = tls_server_new(&settings, why, sizeof(why));
	unlink(path);
	assert_non_null(server);
	return server;
}

/* Both sides, until both are done; session tickets that come behind are taken in. */
static void shake_hands(struct ends *ends)
{
	enum stream_result result = STREAM_AGAIN;
	bool peer_done = false;
	const char *why;

	while (result != STREAM_OK || !peer_done) {
		peer_done = peer_done || tls_peer_shakes(ends->tls);
		carry_out(ends);
		ends_settle(ends);
		if (result != STREAM_OK)
			result = stream_handshake(&ends->stream, &why);
		assert_true(result == STREAM_OK || result == STREAM_AGAIN);
		while (carry_in(ends) > 0)
			;
	}
	while (!ends->stream.writable) {
		carry_in(ends);
		ends_settle(ends);
	}
}

static void connect_tls(struct ends *ends)
{
	struct tls_server *server = test_server();

	ends->kind->below->connect(ends);
	struct stream_export carried = stream_export(&ends->stream);
	assert_true(tls_accept(server, &carried));
	tls_server_release(server); /* the connection holds it */
	assert_true(stream_export_has_handshake(&carried));
	assert_true(stream_import(&ends->stream, ends->streams, &carried, &ends_calls));
	ends->tls = tls_peer_new("ends.test", NULL, NULL);
	shake_hands(ends);
	char byte;
	while (carry_in(ends) > 0)
		;
	assert_int_equal(tls_peer_read(ends->tls, &byte, 1), -3);
	/* From OpenSSL 3.2 on, a handshake is read without a look at what is behind it. */
	struct buffer rest = {.at = &byte, .capacity = 1};
	if (ends->stream.readable)
		assert_int_equal(stream_read(&ends->stream, &rest), STREAM_AGAIN);
}

static size_t tls_send(struct ends *ends, const void *bytes, size_t len)
{
	tls_peer_write(ends->tls, bytes, len);
	carry_out(ends);
	return len;
}

static long tls_receive(struct ends *ends, void *bytes, size_t room)
{
	long n = tls_peer_read(ends->tls, bytes, room), below = 1;

	while (n == -3 && below > 0) {
		below = carry_in(ends);
		n = tls_peer_read(ends->tls, bytes, room);
	}
	return n == -3 ? below : n;
}

static void tls_noise(struct ends *ends)
{
	tls_peer_update_key(ends->tls, false);
	carry_out(ends);
}

static void tls_end(struct ends *ends)
{
	tls_peer_end(ends->tls);
	carry_out(ends);
	ends->kind->below->end_output(ends);
}

static void tls_reset(struct ends *ends)
{
	ends->kind->below->reset(ends);
}

static void tls_close(struct ends *ends)
{
	ends->kind->below->close(ends);
	if (ends->tls)
		tls_peer_free(ends->tls);
	ends->tls = NULL;
	tls_end_leaving(ends->streams);
}

const struct kind kinds[KINDS] = {
	{"tcp", true, true, true, false, false, NULL, tcp_connect, socket_send, socket_receive,
		NULL, socket_end_output, tcp_reset, socket_close},
	{"unix", false, true, false, false, false, NULL, unix_connect, socket_send, socket_receive,
		NULL, socket_end_output, unix_reset, socket_close},
	{"memory", true, false, true, false, false, NULL, memory_connect, memory_send,
		memory_receive, memory_noise, memory_end, memory_reset, memory_close},
	{"faulty memory", true, false, true, true, false, NULL, faulty_connect, memory_send,
		memory_receive, memory_noise, memory_end, memory_reset, memory_close},
	{"TLS over tcp", true, true, true, false, true, &kinds[0], connect_tls, tls_send,
		tls_receive, tls_noise, tls_end, tls_reset, tls_close},
	{"TLS over faulty memory", true, false, true, true, true, &kinds[3], connect_tls, tls_send,
		tls_receive, tls_noise, tls_end, tls_reset, tls_close},
};

/* ---- both ------------------------------------------------------------------------------------ */

void ends_open(struct ends *ends, const struct kind *kind, struct stream_loop *streams)
{
	*ends = (struct ends){.kind = kind, .streams = streams, .loop = streams->loop, .fd = -1};
	kind->connect(ends);
	ends_settle(ends);
	ends->told = 0;
}

void ends_close(struct ends *ends)
{
	stream_close(&ends->stream);
	assert_false(ends->stream.open);
	stream_close(&ends->stream); /* twice is once */
	ends->kind->close(ends);
}

void ends_await(struct ends *ends)
{
	unsigned before = ends->told;

	while (ends->told == before)
		assert_int_equal(loop_run_turn(ends->loop), 0);
}

void ends_settle(struct ends *ends)
{
	unsigned before;

	do {
		before = ends->told;
		loop_hurry(ends->loop);
		assert_int_equal(loop_run_turn(ends->loop), 0);
	} while (ends->told != before);
}

long ends_receive(struct ends *ends, void *bytes, size_t room)
{
	for (;;) {
		long n = ends->kind->receive(ends, bytes, room);
		if (n != -3)
			return n;
		/* What is still to leave the stream does so in its loop. */
		loop_hurry(ends->loop);
		assert_int_equal(loop_run_turn(ends->loop), 0);
		struct pollfd poll_fd = {.fd = ends->fd, .events = POLLIN};
		if (ends->fd >= 0)
			poll(&poll_fd, 1, 10);
	}
}
