/*
 * What every transport must do, each test over each of them (ends.c): which events come, when they
 * come again, and how each end shows. Turns and loops are in test_stream_turns.c.
 */
#include "net/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../random.h"
#include "memory_stream.h"
#include "stream_fixture.h"
#include "tests/unit/suite.h"
#include "tls_peer.h"

/* ---- reading --------------------------------------------------------------------------------- */

static void bytes_are_told_once(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;
	char text[200];

	memset(text, 'x', sizeof(text));
	assert_true(s->open && s->writable && !s->readable && !s->peer_closed);
	assert_false(stream_is_stale(s));
	assert_int_equal(fixture_read_once(f), STREAM_AGAIN);
	fixture_send(&f->ends, text, 10);
	fixture_await(f);
	ends_settle(&f->ends);
	assert_true(f->ends.told == 1 || fixture_comes_in_parts(f));
	assert_true(fixture_knows(f, stream_is_stale));
	fixture_read_bytes(f, 10);
	assert_int_equal(s->received, 10);
	if (s->readable)
		assert_int_equal(fixture_read_once(f), STREAM_AGAIN);
	assert_false(s->readable || stream_is_stale(s));
	ends_settle(&f->ends);
	unsigned told = f->ends.told;
	ends_settle(&f->ends);
	assert_int_equal(f->ends.told, told);
	/* As much as there was room for: there may be more, and nobody tells of it again. */
	fixture_send(&f->ends, text, sizeof(text));
	fixture_await(f);
	assert_int_equal(fixture_read(f), STREAM_OK);
	assert_true(buffer_used(&f->buffer) == BUFFER_BYTES || f->ends.kind->is_faulty);
	assert_true(s->readable);
	fixture_end(f);
}

/* Whatever the sizes are: a reader that reads only while it is readable gets all, in order. */
static void no_byte_is_left_behind(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct random random = random_begin("no_byte_is_left_behind");
	struct stream *s = &f->ends.stream;
	uint8_t next_sent = 0, next_read = 0;
	char text[500];

	for (int i = 0; i < 300; i++) {
		size_t bytes = 1 + random_below(&random, sizeof(text)), left = bytes;
		for (size_t j = 0; j < bytes; j++)
			text[j] = (char)next_sent++;
		fixture_send(&f->ends, text, bytes);
		while (left > 0) {
			fixture_await(f);
			if (fixture_read_once(f) != STREAM_OK)
				continue;
			for (uint32_t j = 0; j < f->buffer.end; j++)
				assert_int_equal((uint8_t)f->buffer.at[j], next_read++);
			assert_true(f->buffer.end <= left);
			left -= f->buffer.end;
			if (random_below(&random, 4) == 0)
				ends_settle(&f->ends);
		}
	}
	assert_int_equal(next_read, next_sent);
	assert_true(fixture_read_once(f) == STREAM_AGAIN && !s->read_ended);
	fixture_end(f);
}

static void the_end_is_told_behind_the_last_bytes(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;
	char text[8];

	fixture_send(&f->ends, "last", 4);
	f->ends.kind->end_output(&f->ends);
	while (!s->peer_closed)
		ends_await(&f->ends);
	assert_true(s->readable);
	/* A short read, but the end is known to come: it stays readable until it was read. */
	fixture_read_bytes(f, 4);
	assert_true(s->readable && !s->read_ended);
	assert_int_equal(fixture_read(f), STREAM_END);
	assert_true(s->read_ended && !s->readable && !s->failed);
	assert_int_equal(fixture_read_once(f), STREAM_END); /* and stays so */
	assert_true(fixture_knows(f, stream_is_stale));
	assert_false(stream_is_cut(s));
	/* The other way is open still. */
	fixture_write_whole(f, s, "bye");
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 3);
	fixture_end(f);
}

static void send_close_notify(struct ends *ends)
{
	char bytes[256];

	tls_peer_end(ends->tls);
	size_t len = tls_peer_take(ends->tls, bytes, sizeof(bytes));
	assert_int_equal(ends->kind->below->send(ends, bytes, len), len);
}

static void a_fetched_end_is_told_again(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;
	struct buffer fetched = {0};

	if (f->ends.tls)
		send_close_notify(&f->ends); /* and the end of TCP later */
	else
		f->ends.kind->end_output(&f->ends);
	do {
		fixture_await(f);
		stream_fetch(s, &fetched, &f->pool);
		assert_null(fetched.at); /* nothing came, so no block is held */
	} while (f->ends.kind->is_faulty && !s->read_ended);
	assert_true(s->readable && s->read_ended);
	/* Its owner may write first. */
	fixture_write(s, "x");
	assert_true(s->readable);
	assert_int_equal(fixture_read_once(f), STREAM_END);
	fixture_end(f);
}

static void a_reset_fails_both_ways(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;

	f->ends.kind->reset(&f->ends);
	fixture_await(f);
	assert_true(stream_is_cut(s));
	assert_int_equal(fixture_read_once(f), STREAM_FAILED);
	assert_true(s->failed && s->read_ended && !s->readable);
	assert_int_equal(fixture_read_once(f), STREAM_END);
	/* No signal (SIGPIPE) ends us. */
	struct iovec pieces[2] = {{(void *)(uintptr_t) "a", 1}, {(void *)(uintptr_t) "b", 1}};
	size_t written = 77;
	assert_int_equal(stream_write(s, pieces, 2, &written), STREAM_FAILED);
	assert_int_equal(written, 0);
	fixture_end(f);
}

/* One wake tells of both, and the short read of the bytes shows nothing of the reset. */
static void a_reset_behind_bytes_is_told(void **state)
{
	const struct kind *kind = *state;
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;

	f->streams.look_ms = 1;
	fixture_send(&f->ends, "last", 4);
	f->ends.kind->reset(&f->ends);
	fixture_await(f);
	if (kind->keeps_bytes) { /* else they are lost with the reset */
		fixture_read_bytes(f, 4);
	}
	fixture_await(f);
	assert_int_equal(fixture_read_once(f), STREAM_FAILED);
	assert_true(s->failed);
	fixture_end(f);
}

/* Nor is a stream woken that has nothing, or the loop, again and again. */
static void a_stream_that_rests_is_looked_at_once(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;

	f->streams.look_ms = 1;
	fixture_send(&f->ends, "some", 4);
	fixture_await(f);
	fixture_read_bytes(f, 4);
	ends_settle(&f->ends);
	unsigned told = f->ends.told;
	while (f->streams.doubtful)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(f->streams.look.at_ms, DEADLINE_NEVER);
	assert_int_equal(f->ends.told, told);
	assert_false(s->readable || s->unsure);
	fixture_end(f);
}

/* Those that leave the loop meanwhile are not looked at, and one that is read meanwhile is later.
 */
static void a_doubtful_stream_may_leave(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct ends others[3];

	f->streams.look_ms = 1;
	for (int i = 0; i < 3; i++) {
		ends_open(&others[i], *state, &f->streams);
		fixture_send(&others[i], "some", 4);
		while (!others[i].stream.readable)
			ends_await(&others[i]);
		f->buffer.start = f->buffer.end = 0;
		assert_true(stream_read(&others[i].stream, &f->buffer) == STREAM_OK ||
			    f->ends.kind->is_faulty);
	}
	ends_close(&others[1]);
	memset(&others[1], 0xEE, sizeof(others[1])); /* its memory is gone */
	ends_close(&others[2]);
	memset(&others[2], 0xEE, sizeof(others[2]));
	while (f->streams.doubtful)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_false(others[0].stream.unsure);
	ends_close(&others[0]);
	fixture_end(f);
}

/* ---- writing --------------------------------------------------------------------------------- */

static char pattern(size_t at)
{
	return (char)(at % 251);
}

static void what_is_not_taken_is_told_when_there_is_room(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;
	static char text[60000], copy[65536];
	size_t sent = 0, received = 0, written;
	unsigned tries = f->ends.kind->is_faulty ? 50 : 1; /* it may refuse before it is full */
	enum stream_result result;

	do {
		for (size_t i = 0; i < sizeof(text); i++)
			text[i] = pattern(sent + i);
		struct iovec pieces[3] = {
			{text, 4}, {text + 4, sizeof(text) - 8}, {text + sizeof(text) - 4, 4}};
		result = stream_write(s, pieces, 3, &written);
		sent += written;
		assert_int_equal(s->sent, sent);
	} while (result == STREAM_OK || --tries > 0);
	assert_int_equal(result, STREAM_AGAIN);
	assert_true(written < sizeof(text) && !s->writable);
	if (!f->ends.kind->is_faulty) { /* which has room, and says so late */
		ends_settle(&f->ends);
		assert_false(s->writable);
	}
	assert_true(stream_taken(s) < sent + !f->ends.kind->counts); /* the last are here still */
	while (received < sent) {
		long n = ends_receive(&f->ends, copy, sizeof(copy));
		assert_true(n > 0);
		for (long i = 0; i < n; i++)
			assert_int_equal(copy[i], pattern(received + (size_t)i));
		received += (size_t)n;
	}
	while (!s->writable)
		ends_await(&f->ends);
	while (stream_taken(s) != sent) /* until the peer's system has said so */
		usleep(1000);
	fixture_write_whole(f, s, "more");
	fixture_end(f);
}

static void ending_our_output_leaves_the_input(void **state)
{
	struct fixture *f = fixture_begin(state);
	char text[8];

	fixture_write_whole(f, &f->ends.stream, "bye");
	stream_end_output(&f->ends.stream);
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 3);
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
	fixture_send(&f->ends, "yes", 3);
	fixture_await(f);
	fixture_read_bytes(f, 3);
	fixture_end(f);
}

/* Whoever closes leaves what was written to the system, or to the loop. */
static void what_was_written_arrives_behind_the_close(void **state)
{
	struct fixture *f = fixture_begin(state);
	static char text[60000];
	size_t sent = 0, received = 0, written;
	unsigned tries = f->ends.kind->is_faulty ? 50 : 1;
	enum stream_result result;
	long n;

	do {
		struct iovec piece = {text, sizeof(text)};
		result = stream_write(&f->ends.stream, &piece, 1, &written);
		sent += written;
	} while (result == STREAM_OK || --tries > 0);
	stream_close(&f->ends.stream);
	memset(&f->ends.stream, 0xEE, sizeof(f->ends.stream)); /* its memory is gone */
	f->ends.stream.open = false;
	while ((n = f->ends.kind->receive(&f->ends, text, sizeof(text))) != -1) {
		assert_true(n > 0 || n == -3);
		received += n > 0 ? (size_t)n : 0;
		loop_hurry(&f->turn);
		assert_int_equal(loop_run_turn(&f->turn), 0);
	}
	assert_int_equal(received, sent);
	assert_int_equal(f->streams.leaving_count, 0);
	fixture_end(f);
}

static void a_close_is_an_end_or_a_reset(void **state)
{
	const struct kind *kind = *state;
	char text[8];

	for (int resets = 0; resets < 2; resets++) {
		struct fixture *f = fixture_begin(state);
		if (resets)
			stream_reset_at_close(&f->ends.stream);
		stream_close(&f->ends.stream);
		assert_int_equal(ends_receive(&f->ends, text, sizeof(text)),
			resets && kind->resets ? -2 : -1);
		fixture_end(f);
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void state_is_known_before_it_is_told(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;

	assert_false(stream_has_input(s));
	assert_false(stream_is_cut(s));
	assert_int_equal(stream_error(s), 0);
	fixture_send(&f->ends, "x", 1);
	assert_true(fixture_knows(f, stream_has_input)); /* no turn of the loop so far */
	assert_false(stream_is_cut(s));
	f->ends.kind->end_output(&f->ends);
	assert_true(fixture_knows(f, stream_has_input));
	assert_false(stream_is_cut(s)); /* half of it is open */
	assert_true(f->ends.told == 0 || fixture_comes_in_parts(f));
	f->ends.kind->reset(&f->ends);
	assert_true(stream_is_cut(s));
	fixture_end(f);
}

/* A session ticket that comes on an idle connection is nothing that its owner could read. */
static void bytes_that_are_no_data_leave_it_fresh(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;

	if (f->ends.kind->send_noise) {
		f->ends.kind->send_noise(&f->ends);
		fixture_await(f);
		assert_false(stream_is_stale(s));
		assert_false(s->readable || s->read_ended);
		f->ends.kind->send_noise(&f->ends);
		assert_false(stream_has_input(s));
		assert_int_equal(s->received, 0);
		/* Data behind them is. */
		f->ends.kind->send_noise(&f->ends);
		fixture_send(&f->ends, "x", 1);
		assert_true(fixture_knows(f, stream_has_input));
		fixture_await(f);
		assert_true(fixture_knows(f, stream_is_stale));
		fixture_read_bytes(f, 1);
		/* And so is an end. */
		f->ends.kind->send_noise(&f->ends);
		f->ends.kind->end_output(&f->ends);
		while (!s->peer_closed)
			ends_await(&f->ends);
		assert_true(fixture_knows(f, stream_is_stale));
		assert_int_equal(fixture_read(f), STREAM_END);
	}
	fixture_end(f);
}

UNIT_SUITE(test_stream)
{
	static const struct fixture_case cases[] = {
		FIXTURE_CASE(bytes_are_told_once),
		FIXTURE_CASE(no_byte_is_left_behind),
		FIXTURE_CASE(the_end_is_told_behind_the_last_bytes),
		FIXTURE_CASE(a_fetched_end_is_told_again),
		FIXTURE_CASE(a_reset_fails_both_ways),
		FIXTURE_CASE(a_reset_behind_bytes_is_told),
		FIXTURE_CASE(a_stream_that_rests_is_looked_at_once),
		FIXTURE_CASE(a_doubtful_stream_may_leave),
		FIXTURE_CASE(what_is_not_taken_is_told_when_there_is_room),
		FIXTURE_CASE(ending_our_output_leaves_the_input),
		FIXTURE_CASE(a_close_is_an_end_or_a_reset),
		FIXTURE_CASE(what_was_written_arrives_behind_the_close),
		FIXTURE_CASE(state_is_known_before_it_is_told),
		FIXTURE_CASE(bytes_that_are_no_data_leave_it_fresh),
	};

	return fixture_run(cases, sizeof(cases) / sizeof(cases[0]));
}
