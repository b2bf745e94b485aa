/*
 * How streams share a loop, each test over each transport (ends.c): one that has much takes turns
 * with the others, and a connection moves from one loop to another.
 */
#include "net/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../random.h"
#include "memory_stream.h"
#include "net/tls_wire.h"
#include "stream_fixture.h"
#include "tests/unit/suite.h"
#include "tls_peer.h"

/* ---- yielding -------------------------------------------------------------------------------- */

static struct ends *served[4];
static unsigned served_count;
static bool yields_on;

static void on_served(struct stream *stream)
{
	if (served_count < 4)
		served[served_count++] = (struct ends *)stream;
	if (yields_on)
		stream_yield(stream);
	yields_on = false;
}

static const struct stream_calls serving = {NULL, on_served};

/* A peer that sends nothing else would keep the loop from all others. */
static void much_that_is_no_data_takes_turns(void **state)
{
	struct fixture *f = fixture_begin(state);
	enum stream_result result;
	unsigned turns = 0;

	if (f->ends.tls && !f->ends.kind->is_faulty) {
		for (unsigned i = 0; i < 3000; i++)
			tls_peer_update_key(f->ends.tls, false);
		fixture_send(&f->ends, "x", 1);
		do {
			turns++;
			fixture_await(f);
			result = fixture_read_once(f);
			assert_true(result == STREAM_OK || !f->ends.stream.readable);
		} while (result == STREAM_AGAIN);
		assert_int_equal(result, STREAM_OK);
		assert_int_equal(buffer_used(&f->buffer), 1);
		assert_true(turns > 2);
	}
	fixture_end(f);
}

static void a_peer_that_takes_no_answers_is_not_read(void **state)
{
	struct fixture *f = fixture_begin(state);
	const struct kind *kind = f->ends.kind;
	unsigned sent = 0;
	bool has_room = true;
	char bytes[256];

	while (f->ends.tls && kind->is_faulty && has_room && sent < 10000) {
		tls_peer_update_key(f->ends.tls, true);
		size_t len = tls_peer_take(f->ends.tls, bytes, sizeof(bytes));
		has_room = kind->below->send(&f->ends, bytes, len) == len;
		sent++;
		ends_settle(&f->ends);
		while (f->ends.stream.readable)
			assert_int_equal(fixture_read_once(f), STREAM_AGAIN);
	}
	assert_true(sent < 10000);
	fixture_end(f);
}

static void what_has_left_takes_no_memory(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct tls_wire wire = {.pending = NULL};
	char bytes[100] = {0};

	if (f->ends.memory && !f->ends.kind->is_faulty) {
		struct memory_peer *peer =
			memory_stream_open(&wire.under, &f->streams, sizeof(bytes), &serving);
		BIO_METHOD *method = tls_wire_method_new();
		BIO *bio = BIO_new(method);
		BIO_set_data(bio, &wire);
		BIO_set_init(bio, 1);
		assert_int_equal(BIO_write(bio, bytes, sizeof(bytes)), sizeof(bytes));
		assert_int_equal(BIO_write(bio, bytes, sizeof(bytes)), sizeof(bytes));
		for (unsigned i = 0; i < 100; i++) {
			assert_int_equal(BIO_write(bio, bytes, sizeof(bytes)), sizeof(bytes));
			memory_peer_receive(peer, bytes, sizeof(bytes));
			tls_wire_flush(&wire);
			assert_true(tls_wire_has_pending(&wire));
		}
		assert_true(wire.room <= 5 * sizeof(bytes));
		stream_close(&wire.under);
		memory_peer_close(peer);
		tls_wire_discard(&wire);
		BIO_free(bio);
		BIO_meth_free(method);
	}
	fixture_end(f);
}

static void others_are_served_before_one_that_yielded(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct ends other;

	ends_open(&other, *state, &f->streams);
	f->ends.stream.calls = other.stream.calls = &serving;
	served_count = 0;
	yields_on = true;
	stream_wake(&f->ends.stream);
	loop_finish_turn(&f->turn); /* it yields */
	assert_int_equal(served_count, 1);
	assert_false(f->ends.stream.readable);
	loop_finish_turn(&f->turn); /* not before the next turn */
	assert_int_equal(served_count, 1);
	stream_wake(&other.stream);
	loop_finish_turn(&f->turn);
	assert_int_equal(served_count, 2);
	assert_ptr_equal(served[1], &other);
	/* The next turn waits for nothing, and serves it once. */
	stream_yield(&f->ends.stream);
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(served_count, 3);
	assert_ptr_equal(served[2], &f->ends);
	assert_true(f->ends.stream.readable);
	loop_hurry(&f->turn);
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(served_count, 3);
	ends_close(&other);
	fixture_end(f);
}

static void one_that_yielded_may_close(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct ends others[3];

	for (int i = 0; i < 3; i++) {
		ends_open(&others[i], *state, &f->streams);
		others[i].stream.calls = &serving;
	}
	for (int i = 0; i < 3; i++)
		stream_yield(&others[i].stream);
	served_count = 0;
	ends_close(&others[1]);
	memset(&others[1], 0xEE, sizeof(others[1])); /* its memory is gone */
	ends_close(&others[2]);
	memset(&others[2], 0xEE, sizeof(others[2]));
	stream_yield(&f->ends.stream); /* at the list's end */
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(served_count, 1);
	assert_ptr_equal(served[0], &others[0]);
	assert_int_equal(f->ends.told, 1);
	ends_close(&others[0]);
	fixture_end(f);
}

/* ---- from one loop to another ---------------------------------------------------------------- */

static void an_exported_one_goes_on_elsewhere(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;
	char text[8];

	fixture_write_whole(f, s, "first");
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 5);
	stream_yield(s); /* which is forgotten with it */
	unsigned told = f->ends.told;
	struct stream_export exported = stream_export(s);
	assert_false(s->open);
	memset(s, 0xEE, sizeof(*s)); /* its memory is of no use any more */
	assert_true(stream_export_is_silent(&exported));
	fixture_send(&f->ends, "hello", 5);
	assert_false(stream_export_is_silent(&exported));
	loop_hurry(&f->turn);
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(f->ends.told, told); /* it is of this loop no more */
	f->ends.loop = &f->other_turn;
	assert_true(stream_import(s, &f->other_streams, &exported, &ends_calls));
	assert_true(s->open && s->writable);
	assert_int_equal(s->sent, 5); /* what isn't taken of it is known by that */
	fixture_await(f);             /* the event of what came meanwhile */
	fixture_read_bytes(f, 5);
	fixture_write_whole(f, s, "back");
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 4);
	fixture_end(f);
}

static void an_exported_one_may_be_closed(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream_export exported = stream_export(&f->ends.stream);
	char text[8];

	f->ends.kind->end_output(&f->ends);
	assert_false(stream_export_is_silent(&exported)); /* an end is something to read */
	stream_export_close(&exported);
	long n = ends_receive(&f->ends, text, sizeof(text));
	/* The peer's close_notify was not read, which makes a reset of it. */
	assert_true(n == -1 || (n == -2 && f->ends.kind->below));
	fixture_end(f);
}

static void an_exported_one_leaves_the_others_woken(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct ends others[2];

	for (int i = 0; i < 2; i++) {
		ends_open(&others[i], *state, &f->streams);
		others[i].stream.calls = &serving;
	}
	served_count = 0;
	stream_wake(&others[0].stream);
	stream_wake(&f->ends.stream);
	struct stream_export exported = stream_export(&f->ends.stream);
	memset(&f->ends.stream, 0xEE, sizeof(f->ends.stream));
	f->ends.stream.open = false;
	stream_wake(&others[1].stream);
	loop_finish_turn(&f->turn);
	assert_int_equal(served_count, 2);
	stream_export_close(&exported);
	for (int i = 0; i < 2; i++)
		ends_close(&others[i]);
	fixture_end(f);
}

/* Another thread takes the connection over, or ends it where that can't be. */
static void a_copy_outlives_the_stream_or_is_cut(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream *s = &f->ends.stream;
	struct stream taker;
	struct stream_export copy;
	char text[8];

	if (stream_copy(s, &copy)) {
		stream_close(s);
		assert_true(stream_export_is_silent(&copy));
		assert_true(stream_import(&taker, &f->other_streams, &copy, &serving));
		fixture_write_whole(f, &taker, "on");
		assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 2);
		stream_close(&taker);
	} else {
		stream_cut(s);
		fixture_await(f);
		assert_int_equal(
			fixture_read(f), f->ends.kind->cut_fails ? STREAM_FAILED : STREAM_END);
	}
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
	fixture_end(f);
}

/* Before the thread that had the connection closes its own stream. */
static void a_copy_that_is_closed_ends_the_connection(void **state)
{
	for (int carried = 0; carried < 2; carried++) {
		struct fixture *f = fixture_begin(state);
		struct stream taker;
		struct stream_export copy;
		char text[8];

		if (!stream_copy(&f->ends.stream, &copy)) {
			fixture_end(f);
			return;
		}
		if (carried) {
			stream_export_close(&copy);
		} else {
			assert_true(stream_import(&taker, &f->other_streams, &copy, &serving));
			stream_close(&taker);
		}
		assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
		fixture_end(f);
	}
}

static void a_copy_of_a_copy_outlives_it(void **state)
{
	struct fixture *f = fixture_begin(state);
	struct stream taker;
	struct stream_export copy;
	char text[8];

	if (stream_copy(&f->ends.stream, &copy)) {
		assert_true(stream_import(&taker, &f->other_streams, &copy, &serving));
		assert_true(stream_copy(&taker, &copy));
		stream_close(&taker);
		stream_close(&f->ends.stream);
		assert_true(stream_import(&taker, &f->other_streams, &copy, &serving));
		fixture_write_whole(f, &taker, "on");
		assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 2);
		stream_close(&taker);
	}
	fixture_end(f);
}

static void a_cut_ends_both_directions(void **state)
{
	struct fixture *f = fixture_begin(state);
	char text[8];

	stream_cut(&f->ends.stream);
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
	fixture_await(f);
	assert_true(stream_is_cut(&f->ends.stream));
	assert_int_equal(fixture_read(f), f->ends.kind->cut_fails ? STREAM_FAILED : STREAM_END);
	assert_int_equal(fixture_write(&f->ends.stream, "x"), STREAM_FAILED);
	fixture_end(f);
}

UNIT_SUITE(test_stream_turns)
{
	static const struct fixture_case cases[] = {
		FIXTURE_CASE(much_that_is_no_data_takes_turns),
		FIXTURE_CASE(a_peer_that_takes_no_answers_is_not_read),
		FIXTURE_CASE(what_has_left_takes_no_memory),
		FIXTURE_CASE(others_are_served_before_one_that_yielded),
		FIXTURE_CASE(one_that_yielded_may_close),
		FIXTURE_CASE(an_exported_one_goes_on_elsewhere),
		FIXTURE_CASE(an_exported_one_may_be_closed),
		FIXTURE_CASE(an_exported_one_leaves_the_others_woken),
		FIXTURE_CASE(a_copy_outlives_the_stream_or_is_cut),
		FIXTURE_CASE(a_copy_that_is_closed_ends_the_connection),
		FIXTURE_CASE(a_copy_of_a_copy_outlives_it),
		FIXTURE_CASE(a_cut_ends_both_directions),
	};

	return fixture_run(cases, sizeof(cases) / sizeof(cases[0]));
}
