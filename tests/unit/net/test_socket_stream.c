/* Making connections: by connecting, and by accepting. */
#include "net/socket_stream.h"

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
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/container.h"
#include "net/acceptor.h"
#include "net/listen.h"
#include "tests/unit/suite.h"

struct end {
	struct stream stream;
	unsigned told;
};

struct fixture {
	struct loop turn;
	struct stream_loop streams;
	struct acceptor acceptor;
	struct stream_export accepted[8];
	unsigned accepted_count, ready, most;
	struct sockaddr_storage address;
	socklen_t len;
	char folder[32];
	struct end end;
};

static void on_notify(struct stream *stream)
{
	((struct end *)stream)->told++;
}

static const struct stream_calls calls = {NULL, on_notify};

static void on_ready(struct acceptor *acceptor)
{
	struct fixture *f = CONTAINER_OF(acceptor, struct fixture, acceptor);
	struct sockaddr_storage peer;
	socklen_t len;

	f->ready++;
	while (f->accepted_count < f->most && acceptor->accepting) {
		int error = acceptor_take(acceptor, &f->accepted[f->accepted_count], &peer, &len);
		if (error != 0) {
			assert_int_equal(error, EAGAIN);
			return;
		}
		assert_int_equal(peer.ss_family, f->address.ss_family);
		f->accepted_count++;
	}
	acceptor_stop(acceptor);
}

/* Somebody listens at f->address. */
static struct fixture *begin(bool is_unix)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct listen_options options = {.backlog = 8};

	assert_non_null(f);
	assert_int_equal(loop_init(&f->turn), 0);
	stream_loop_init(&f->streams, &f->turn);
	strcpy(f->folder, "/tmp/test_sockets.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	if (is_unix) {
		struct sockaddr_un *path = (struct sockaddr_un *)&f->address;
		path->sun_family = AF_UNIX;
		snprintf(path->sun_path, sizeof(path->sun_path), "%s/s", f->folder);
		f->len = sizeof(*path);
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)&f->address;
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		f->len = sizeof(*in);
	}
	int fd = listen_open((struct sockaddr *)&f->address, f->len, &options);
	assert_true(fd >= 0);
	if (!is_unix) {
		socklen_t len = f->len;
		assert_int_equal(getsockname(fd, (struct sockaddr *)&f->address, &len), 0);
	}
	f->most = 8;
	acceptor_open(&f->acceptor, &f->turn, fd, on_ready);
	return f;
}

static void end(struct fixture *f)
{
	char path[64];

	stream_close(&f->end.stream);
	for (unsigned i = 0; i < f->accepted_count; i++)
		stream_export_close(&f->accepted[i]);
	acceptor_close(&f->acceptor);
	acceptor_close(&f->acceptor); /* twice is once */
	loop_end(&f->turn);
	snprintf(path, sizeof(path), "%s/s", f->folder);
	unlink(path);
	assert_int_equal(rmdir(f->folder), 0);
	free(f);
}

static int connect_end(struct fixture *f, struct end *end)
{
	return socket_stream_connect(
		&end->stream, &f->streams, (struct sockaddr *)&f->address, f->len, &calls);
}

static void await_decision(struct fixture *f)
{
	while (!f->end.stream.writable && f->end.told == 0)
		assert_int_equal(loop_run_turn(&f->turn), 0);
}

static void connecting(void **state)
{
	(void)state;
	for (int is_unix = 0; is_unix < 2; is_unix++) {
		struct fixture *f = begin(is_unix);
		acceptor_start(&f->acceptor);
		assert_int_equal(connect_end(f, &f->end), 0);
		await_decision(f);
		assert_true(f->end.stream.writable);
		assert_int_equal(stream_error(&f->end.stream), 0);
		while (f->accepted_count == 0)
			assert_int_equal(loop_run_turn(&f->turn), 0);
		assert_true(stream_export_is_silent(&f->accepted[0]));
		stream_close(&f->end.stream);
		assert_false(stream_export_is_silent(&f->accepted[0]));
		end(f);
	}
}

static void nobody_listens(void **state)
{
	(void)state;
	for (int is_unix = 0; is_unix < 2; is_unix++) {
		struct fixture *f = begin(is_unix);
		acceptor_close(&f->acceptor);
		int error = connect_end(f, &f->end);
		if (error == 0) { /* told later */
			await_decision(f);
			error = stream_error(&f->end.stream);
		} else {
			assert_false(f->end.stream.open);
		}
		assert_int_equal(error, ECONNREFUSED);
		end(f);
	}
}

static void no_descriptor_is_left(void **state)
{
	struct fixture *f = begin(false);
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int error = connect_end(f, &f->end);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(error, EMFILE);
	assert_false(f->end.stream.open);
	end(f);
}

/* Those that connect meanwhile wait. */
static void accepting_can_pause(void **state)
{
	struct fixture *f = begin(true);
	struct end ends[3] = {0};

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(connect_end(f, &ends[i]), 0);
	loop_hurry(&f->turn);
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(f->ready, 0); /* not started */
	f->most = 2;
	acceptor_start(&f->acceptor);
	acceptor_start(&f->acceptor);
	while (f->accepted_count < 2)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_false(f->acceptor.accepting);
	unsigned ready = f->ready;
	loop_hurry(&f->turn);
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(f->ready, ready);
	f->most = 8;
	acceptor_start(&f->acceptor);
	while (f->accepted_count < 3)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(acceptor_set_backlog(&f->acceptor, 1), 0);
	for (int i = 0; i < 3; i++)
		stream_close(&ends[i].stream);
	acceptor_close(&f->acceptor);
	acceptor_start(&f->acceptor); /* closed it stays */
	assert_false(f->acceptor.accepting);
	end(f);
}

/* A later SYN is dropped (by a filter) or refused; what had connected is accepted. */
static void new_ones_are_kept_out(void **state)
{
	struct fixture *f = begin(false);
	struct end late = {0};

	(void)state;
	assert_int_equal(connect_end(f, &f->end), 0);
	await_decision(f);
	if (!acceptor_keep_out(&f->acceptor)) {
		end(f);
		skip(); /* the system can't */
	}
	int begun = connect_end(f, &late);
	acceptor_start(&f->acceptor);
	while (f->accepted_count < 1)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	if (begun == 0) {
		int error = stream_error(&late.stream);
		assert_true(error == ECONNREFUSED || (error == 0 && !late.stream.writable));
		stream_close(&late.stream);
	} else {
		assert_int_equal(begun, ECONNREFUSED);
	}
	assert_int_equal(f->accepted_count, 1);
	end(f);
}

/* Bytes left behind a short read lead to an event, but for a reset that came with the bytes. */
static void a_short_read_may_hide_a_reset(void **state)
{
	struct fixture *f = begin(true);
	struct iovec piece = {(void *)(uintptr_t) "abc", 3};
	struct end peer = {0};
	struct buffer buffer = {.at = (char[8]){0}, .capacity = 8};
	size_t written;

	(void)state;
	assert_int_equal(connect_end(f, &f->end), 0);
	acceptor_start(&f->acceptor);
	while (f->accepted_count == 0)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_true(stream_import(&peer.stream, &f->streams, &f->accepted[0], &calls));
	f->accepted_count = 0;
	assert_int_equal(stream_write(&peer.stream, &piece, 1, &written), STREAM_OK);
	while (!f->end.stream.readable)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(stream_read(&f->end.stream, &buffer), STREAM_OK);
	assert_false(f->end.stream.readable);
	assert_true(stream_may_have_more(&f->end.stream));
	assert_int_equal(stream_read(&f->end.stream, &buffer), STREAM_AGAIN);
	assert_false(stream_may_have_more(&f->end.stream)); /* now it is known */
	stream_close(&peer.stream);
	end(f);
}

/* Without a limit the kernel holds megabytes. */
static void what_is_not_sent_is_limited(void **state)
{
	static char block[16 * 1024];
	enum { UNSENT = 64 * 1024 };
	struct iovec piece = {block, sizeof(block)};
	struct fixture *f = begin(false);
	int unsent = 0;
	size_t written;

	(void)state;
	assert_int_equal(connect_end(f, &f->end), 0);
	f->most = 1;
	acceptor_start(&f->acceptor);
	while (f->accepted_count == 0)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	stream_limit_unsent(&f->end.stream, UNSENT);
	while (stream_write(&f->end.stream, &piece, 1, &written) == STREAM_OK)
		;
	assert_false(f->end.stream.writable);
	assert_int_equal(ioctl(socket_stream_fd(&f->end.stream), SIOCOUTQNSD, &unsent), 0);
	assert_in_range(unsent, UNSENT / 2, 2 * UNSENT);
	end(f);
}

/* ---- a process that dies --------------------------------------------------------------------- */

static void carry(struct fixture *f, struct stream *s)
{
	struct stream_export carried = stream_export(s);

	assert_true(stream_import(s, &f->streams, &carried, &calls));
}

static void hand_a_copy_over(struct fixture *f, struct stream *s)
{
	struct stream_export copy;

	assert_true(stream_copy(s, &copy));
	stream_close(s);
	assert_true(stream_import(s, &f->streams, &copy, &calls));
}

static void stay(struct fixture *f, struct stream *s)
{
	(void)f;
	(void)s;
}

static void close_it(struct fixture *f, struct stream *s)
{
	(void)f;
	stream_close(s);
}

static void close_it_carried(struct fixture *f, struct stream *s)
{
	struct stream_export carried = stream_export(s);

	(void)f;
	stream_export_close(&carried);
}

static void send_and_die(
	struct fixture *f, bool is_bound, void (*then)(struct fixture *f, struct stream *s))
{
	static char block[16 * 1024];
	struct iovec piece = {block, sizeof(block)};
	struct stream *s = &f->end.stream;
	size_t written;

	assert_int_equal(event_reinit(f->turn.base), 0);
	assert_int_equal(connect_end(f, &f->end), 0);
	await_decision(f);
	if (is_bound)
		stream_reset_at_death(s);
	while (stream_write(s, &piece, 1, &written) == STREAM_OK)
		;
	then(f, s);
	raise(SIGKILL);
}

/* The peer does not read while a process sends more than there is room for, and dies. How many
 * bytes are there for it then? */
static size_t left_by_the_dead(struct fixture *f, bool is_bound,
	void (*then)(struct fixture *f, struct stream *s), int *error)
{
	static char block[16 * 1024];
	size_t received = 0;
	ssize_t n;
	int status;

	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		send_and_die(f, is_bound, then);
	f->most = 1;
	acceptor_start(&f->acceptor);
	while (f->accepted_count == 0)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	f->accepted_count = 0;
	assert_true(stream_import(&f->end.stream, &f->streams, &f->accepted[0], &calls));
	int fd = socket_stream_fd(&f->end.stream);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	while ((n = recv(fd, block, sizeof(block), 0)) > 0)
		received += (size_t)n;
	*error = n < 0 ? errno : 0;
	return received;
}

static void what_the_dead_have_sent_is_thrown_away_if_bound(void **state)
{
	static const struct {
		bool is_bound;
		void (*then)(struct fixture *f, struct stream *s);
		int error;
	} rows[] = {
		{false, stay, 0},
		{true, stay, ECONNRESET},
		{true, carry, ECONNRESET},
		{true, hand_a_copy_over, ECONNRESET},
		/* In order, all of it arrives. */
		{true, close_it, 0},
		{true, close_it_carried, 0},
	};
	size_t all = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture *f = begin(false);
		int error;
		size_t received = left_by_the_dead(f, rows[i].is_bound, rows[i].then, &error);
		assert_int_equal(error, rows[i].error);
		if (i == 0)
			all = received;
		if (rows[i].error == 0)
			assert_in_range(received, all / 2, SIZE_MAX);
		end(f);
	}
}

UNIT_SUITE(test_socket_stream)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connecting),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(no_descriptor_is_left),
		cmocka_unit_test(accepting_can_pause),
		cmocka_unit_test(new_ones_are_kept_out),
		cmocka_unit_test(a_short_read_may_hide_a_reset),
		cmocka_unit_test(what_is_not_sent_is_limited),
		cmocka_unit_test(what_the_dead_have_sent_is_thrown_away_if_bound),
	};
	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
