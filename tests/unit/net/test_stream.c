/* Streams over real sockets: what the loop tells, when it is told again, and how each end shows. */
#include "net/stream.h"

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
#include <sys/socket.h>
#include <unistd.h>

struct end {
	struct stream stream;
	unsigned told;
};

struct fixture {
	struct loop turn;
	struct stream_loop loop;
	struct buffer_pool pool;
	struct buffer buffer;
	struct end end;
	int peer; /* the other end, plain and blocking */
};

static void on_notify(struct stream *stream)
{
	((struct end *)stream)->told++;
}

static const struct stream_calls calls = {NULL, on_notify};

static void serve(struct fixture *f)
{
	while (stream_round(&f->loop))
		;
}

static void make_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void open_end(struct fixture *f, int fd, bool connected)
{
	make_nonblocking(fd);
	assert_int_equal(loop_init(&f->turn), 0);
	buffer_pool_init(&f->pool, 64, 2);
	assert_true(buffer_acquire(&f->buffer, &f->pool));
	stream_loop_init(&f->loop, &f->turn);
	assert_true(stream_open(&f->end.stream, &f->loop, fd, connected, &calls));
}

/* Two ends of a TCP connection over loopback. */
static struct fixture *begin(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), ours = socket(AF_INET, SOCK_STREAM, 0);

	assert_non_null(f);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(connect(ours, (struct sockaddr *)&address, len), 0);
	f->peer = accept(listener, NULL, NULL);
	assert_true(f->peer >= 0);
	close(listener);
	open_end(f, ours, true);
	return f;
}

static void end(struct fixture *f)
{
	stream_close(&f->end.stream);
	assert_int_equal(f->end.stream.fd, -1);
	stream_close(&f->end.stream); /* twice is once */
	if (f->peer >= 0)
		close(f->peer);
	buffer_release(&f->buffer, &f->pool);
	buffer_pool_clear(&f->pool);
	loop_end(&f->turn);
	free(f);
}

/* The loop, until it has told something. */
static void await(struct fixture *f)
{
	unsigned before = f->end.told;

	while (f->end.told == before) {
		assert_true(event_base_loop(f->turn.base, EVLOOP_ONCE) >= 0);
		serve(f);
	}
}

/* The loop, as long as it has something to tell now. */
static void settle(struct fixture *f)
{
	unsigned before;

	do {
		before = f->end.told;
		event_base_loop(f->turn.base, EVLOOP_NONBLOCK);
		serve(f);
	} while (f->end.told != before);
}

static void send_all(int fd, const char *text, size_t len)
{
	assert_int_equal(send(fd, text, len, 0), (ssize_t)len);
}

static void reading(void **state)
{
	struct fixture *f = begin();
	struct stream *s = &f->end.stream;
	char text[200];

	(void)state;
	assert_true(s->writable && !s->readable);
	assert_int_equal(stream_read(s, &f->buffer), STREAM_AGAIN);
	memset(text, 'x', sizeof(text));
	send_all(f->peer, text, 10);
	while (!s->readable)
		await(f);
	assert_true(stream_is_stale(s)); /* who should be silent was not */
	/* Less than there was room for: nothing is left. */
	assert_int_equal(stream_read(s, &f->buffer), STREAM_OK);
	assert_int_equal(buffer_used(&f->buffer), 10);
	assert_false(s->readable);
	assert_false(stream_is_stale(s));
	settle(f);
	assert_false(s->readable); /* edge-triggered: told once */
	send_all(f->peer, text, sizeof(text));
	while (!s->readable)
		await(f);
	/* Exactly as much as there was room for: there may be more, and nobody will tell again. */
	assert_int_equal(stream_read(s, &f->buffer), STREAM_OK);
	assert_int_equal(buffer_room(&f->buffer), 0);
	assert_true(s->readable);
	size_t rest = sizeof(text) - 54;
	while (rest > 0) {
		f->buffer.start = f->buffer.end = 0;
		assert_int_equal(stream_read(s, &f->buffer), STREAM_OK);
		rest -= buffer_used(&f->buffer);
	}
	assert_false(s->readable);
	end(f);
}

static void the_end_of_data(void **state)
{
	struct fixture *f = begin();
	struct stream *s = &f->end.stream;

	(void)state;
	send_all(f->peer, "last", 4);
	assert_int_equal(shutdown(f->peer, SHUT_WR), 0);
	while (!s->peer_closed)
		await(f);
	assert_true(s->readable);
	/* A short read, but the end is known to come: it stays readable until it was read. */
	assert_int_equal(stream_read(s, &f->buffer), STREAM_OK);
	assert_int_equal(buffer_used(&f->buffer), 4);
	assert_true(s->readable && !s->read_ended);
	assert_int_equal(stream_read(s, &f->buffer), STREAM_END);
	assert_true(s->read_ended && !s->readable && !s->failed);
	assert_int_equal(stream_read(s, &f->buffer), STREAM_END); /* and stays so */
	assert_true(stream_is_stale(s));
	/* The other way is open still. */
	struct iovec piece = {(void *)(uintptr_t) "bye", 3};
	size_t written;
	char text[8];
	assert_int_equal(stream_write(s, &piece, 1, &written), STREAM_OK);
	assert_int_equal(recv(f->peer, text, sizeof(text), 0), 3);
	end(f);
}

static void resets(void **state)
{
	struct fixture *f = begin();
	struct stream *s = &f->end.stream;
	struct linger linger = {.l_onoff = 1};
	struct iovec pieces[2] = {{(void *)(uintptr_t) "a", 1}, {(void *)(uintptr_t) "b", 1}};
	size_t written = 77;

	(void)state;
	assert_int_equal(setsockopt(f->peer, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	close(f->peer);
	f->peer = -1;
	while (!s->readable)
		await(f);
	assert_int_equal(stream_read(s, &f->buffer), STREAM_FAILED);
	assert_true(s->failed && s->read_ended && !s->readable);
	assert_int_equal(stream_read(s, &f->buffer), STREAM_END);
	/* No signal (SIGPIPE) kills us. */
	assert_int_equal(stream_write(s, pieces, 2, &written), STREAM_FAILED);
	assert_int_equal(written, 0);
	end(f);
}

static void writing(void **state)
{
	struct fixture *f = begin();
	struct stream *s = &f->end.stream;
	size_t sent = 0, received = 0, written;
	static char text[60000], copy[65536];
	char head[] = "head", tail[] = "tail";

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i % 251);
	struct iovec pieces[3] = {{head, 4}, {text, sizeof(text)}, {tail, 4}};
	while (stream_write(s, pieces, 3, &written) == STREAM_OK) {
		assert_int_equal(written, sizeof(text) + 8);
		sent += written;
	}
	/* The kernel took a part or nothing, and is believed until it tells otherwise. */
	assert_true(written < sizeof(text) + 8);
	sent += written;
	assert_false(s->writable);
	settle(f);
	assert_false(s->writable);
	while (received < sent) {
		ssize_t n = recv(f->peer, copy, sizeof(copy), 0);
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++) {
			size_t at = (received + (size_t)i) % (sizeof(text) + 8);
			char expected = at < 4                  ? head[at]
					: at < 4 + sizeof(text) ? text[at - 4]
								: tail[at - 4 - sizeof(text)];
			if (copy[i] != expected)
				fail_msg("byte %zu is another", received + (size_t)i);
		}
		received += (size_t)n;
	}
	while (!s->writable)
		await(f);
	assert_int_equal(stream_write(s, pieces, 1, &written), STREAM_OK);
	assert_int_equal(written, 4);
	end(f);
}

static void connecting(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int closed = socket(AF_INET, SOCK_STREAM, 0), ours = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_non_null(f);
	/* Bound, but nobody listens there. */
	assert_int_equal(bind(closed, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(closed, (struct sockaddr *)&address, &len), 0);
	f->peer = -1;
	make_nonblocking(ours);
	open_end(f, ours, false);
	assert_false(f->end.stream.writable);
	if (connect(ours, (struct sockaddr *)&address, len) != 0 && errno == EINPROGRESS)
		await(f);
	int error = stream_error(&f->end.stream);
	assert_true(error == ECONNREFUSED || error == 0); /* told at once by connect itself */
	close(closed);
	end(f);
}

static void letting_go(void **state)
{
	struct fixture *f = begin();
	char text[4];

	(void)state;
	settle(f);
	int fd = stream_let_go(&f->end.stream);
	assert_true(fd >= 0);
	assert_int_equal(f->end.stream.fd, -1);
	unsigned told = f->end.told;
	send_all(f->peer, "x", 1);
	event_base_loop(f->turn.base, EVLOOP_NONBLOCK);
	serve(f);
	assert_int_equal(f->end.told, told); /* it is not ours any more */
	assert_int_equal(recv(fd, text, sizeof(text), 0), 1);
	close(fd);
	end(f);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

#define MANY (2 * STREAM_ROUND + 7)

struct member {
	struct stream stream;
	struct buffer in;
	int peer;
	unsigned fetched, told;
	unsigned fetched_at, told_at; /* counts of the journal */
	struct member *closes;        /* when it is told something */
	bool wakes_itself;
};

static unsigned journal;
static struct buffer_pool member_pool;

static void on_member_fetch(struct stream *stream)
{
	struct member *member = (struct member *)stream;

	member->fetched++;
	member->fetched_at = ++journal;
	if (!member->in.at)
		stream_fetch(stream, &member->in, &member_pool);
}

static void on_member_notify(struct stream *stream)
{
	struct member *member = (struct member *)stream;

	member->told++;
	member->told_at = ++journal;
	if (member->closes)
		stream_close(&member->closes->stream);
	if (member->wakes_itself) {
		member->wakes_itself = false;
		stream_wake(stream);
	}
}

static const struct stream_calls member_calls = {on_member_fetch, on_member_notify};

static struct loop many_turn;

static struct member *begin_many(struct stream_loop *loop)
{
	struct member *members = calloc(MANY, sizeof(*members));

	assert_non_null(members);
	journal = 0;
	buffer_pool_init(&member_pool, 64, 4);
	assert_int_equal(loop_init(&many_turn), 0);
	stream_loop_init(loop, &many_turn);
	for (int i = 0; i < MANY; i++) {
		int pair[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		members[i].peer = pair[1];
		assert_true(stream_open(&members[i].stream, loop, pair[0], true, &member_calls));
	}
	/* That they may be written is news as well. */
	event_base_loop(loop->loop->base, EVLOOP_NONBLOCK);
	while (stream_round(loop))
		;
	for (int i = 0; i < MANY; i++)
		members[i].fetched = members[i].told = 0;
	return members;
}

static void end_many(struct member *members)
{
	for (int i = 0; i < MANY; i++) {
		stream_close(&members[i].stream);
		buffer_release(&members[i].in, &member_pool);
		close(members[i].peer);
	}
	buffer_pool_clear(&member_pool);
	loop_end(&many_turn);
	free(members);
}

/* Until the kernel has told of all of them: nothing is served meanwhile. */
static void await_readable(struct stream_loop *loop, struct member *members, int count)
{
	for (int i = 0; i < count;) {
		if (members[i].stream.readable)
			i++;
		else
			assert_true(event_base_loop(loop->loop->base, EVLOOP_ONCE) >= 0);
	}
}

static void rounds_read_before_they_act(void **state)
{
	struct stream_loop loop;
	struct member *members = begin_many(&loop);
	int served = 0;

	(void)state;
	for (int i = 0; i < MANY; i++)
		send_all(members[i].peer, "hello", 5);
	await_readable(&loop, members, MANY);
	while (served < MANY) {
		int size = MANY - served < STREAM_ROUND ? MANY - served : STREAM_ROUND;
		unsigned before = journal;
		assert_true(stream_round(&loop));
		/* As many as a round has, each read once, then each told once. */
		assert_int_equal(journal, before + 2 * (unsigned)size);
		int in_round = 0;
		for (int i = 0; i < MANY; i++) {
			struct member *m = &members[i];
			if (m->told_at <= before)
				continue;
			in_round++;
			assert_int_equal(m->fetched, 1);
			assert_int_equal(m->told, 1);
			assert_true(m->fetched_at <= before + (unsigned)size);
			assert_true(m->told_at > before + (unsigned)size);
			assert_int_equal(buffer_used(&m->in), 5);
			assert_false(m->stream.readable);
		}
		assert_int_equal(in_round, size);
		served += size;
	}
	assert_false(stream_round(&loop));
	end_many(members);
}

static void rounds_pass_over_the_closed(void **state)
{
	struct stream_loop loop;
	struct member *members = begin_many(&loop);
	struct member *last_woken = &members[2];

	(void)state;
	for (int i = 0; i < 4; i++)
		stream_wake(&members[i].stream);
	stream_wake(&members[0].stream);  /* twice is once */
	members[0].closes = last_woken;   /* within the round */
	stream_close(&members[3].stream); /* before it */
	assert_true(stream_round(&loop));
	assert_int_equal(members[0].told, 1);
	assert_int_equal(members[1].told, 1);
	assert_int_equal(members[2].told, 0);
	assert_int_equal(members[3].told, 0);
	assert_int_equal(members[0].fetched, 0); /* there was nothing to read */
	assert_false(stream_round(&loop));
	/* Only closed ones: nothing was served, and nothing is left. */
	stream_wake(&members[5].stream);
	stream_close(&members[5].stream);
	assert_false(stream_round(&loop));
	/* Woken while it is served: once more, in the next round. */
	members[4].wakes_itself = true;
	stream_wake(&members[4].stream);
	assert_true(stream_round(&loop));
	assert_int_equal(members[4].told, 1);
	assert_true(stream_round(&loop));
	assert_int_equal(members[4].told, 2);
	assert_false(stream_round(&loop));
	end_many(members);
}

static void rounds_read_only_so_much_ahead(void **state)
{
	static char text[STREAM_ROUND_BYTES / 4];
	struct stream_loop loop;
	struct member *members = begin_many(&loop);
	unsigned fetched = 0, told = 0;

	(void)state;
	buffer_pool_clear(&member_pool);
	buffer_pool_init(&member_pool, sizeof(text), 4);
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < STREAM_ROUND; i++)
		send_all(members[i].peer, text, sizeof(text));
	await_readable(&loop, members, STREAM_ROUND);
	assert_true(stream_round(&loop));
	for (int i = 0; i < STREAM_ROUND; i++) {
		fetched += members[i].fetched;
		told += members[i].told;
	}
	assert_int_equal(fetched, 4);
	assert_int_equal(told, STREAM_ROUND); /* the others read for themselves */
	end_many(members);
}

static void fetching_an_end(void **state)
{
	struct stream_loop loop;
	struct member *members = begin_many(&loop);
	struct member *m = &members[0];
	struct buffer buffer;

	(void)state;
	assert_int_equal(shutdown(m->peer, SHUT_WR), 0);
	await_readable(&loop, members, 1);
	assert_true(stream_round(&loop));
	assert_null(m->in.at); /* nothing came, so no block is held */
	assert_true(m->stream.readable && m->stream.read_ended);
	assert_true(buffer_acquire(&buffer, &member_pool));
	assert_int_equal(stream_read(&m->stream, &buffer), STREAM_END); /* told to who acts */
	buffer_release(&buffer, &member_pool);
	/* Nothing there at all. */
	members[1].stream.readable = true;
	stream_wake(&members[1].stream);
	assert_true(stream_round(&loop));
	assert_int_equal(members[1].fetched, 1);
	assert_null(members[1].in.at);
	assert_false(members[1].stream.readable);
	end_many(members);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reading),
		cmocka_unit_test(the_end_of_data),
		cmocka_unit_test(resets),
		cmocka_unit_test(writing),
		cmocka_unit_test(connecting),
		cmocka_unit_test(letting_go),
		cmocka_unit_test(rounds_read_before_they_act),
		cmocka_unit_test(rounds_pass_over_the_closed),
		cmocka_unit_test(rounds_read_only_so_much_ahead),
		cmocka_unit_test(fetching_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
