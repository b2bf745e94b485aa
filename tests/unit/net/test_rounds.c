/* How streams are served: in rounds, read before they are acted on; over real sockets. */
#include "net/socket_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static void send_all(int fd, const char *text, size_t len)
{
	assert_int_equal(send(fd, text, len, 0), (ssize_t)len);
}

#define MANY (2 * STREAM_ROUND + 7)

struct member {
	struct stream stream;
	struct buffer in;
	int peer;
	unsigned fetched, told;
	unsigned fetched_at, told_at; /* counts of the journal */
	struct member *closes;        /* when it gets an event */
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
		assert_true(
			socket_stream_open(&members[i].stream, loop, pair[0], true, &member_calls));
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

UNIT_SUITE(test_rounds)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_read_before_they_act),
		cmocka_unit_test(rounds_pass_over_the_closed),
		cmocka_unit_test(rounds_read_only_so_much_ahead),
		cmocka_unit_test(fetching_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
