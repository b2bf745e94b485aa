/*
 * What every transport must do, each test over each of them (ends.c): which events come, and when
 * they come again, how each end shows, and how a connection moves from one loop to another.
 */
#include "net/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "../random.h"
#include "ends.h"
#include "memory_stream.h"
#include "net/tls_wire.h"
#include "tests/unit/suite.h"
#include "tls_peer.h"

#define BUFFER_BYTES 64

struct fixture {
	struct loop turn, other_turn;
	struct stream_loop streams, other_streams;
	struct buffer_pool pool;
	struct buffer buffer;
	struct ends ends;
};

static struct fixture *begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(loop_init(&f->turn), 0);
	assert_int_equal(loop_init(&f->other_turn), 0);
	buffer_pool_init(&f->pool, BUFFER_BYTES, 2);
	assert_true(buffer_acquire(&f->buffer, &f->pool));
	stream_loop_init(&f->streams, &f->turn);
	stream_loop_init(&f->other_streams, &f->other_turn);
	ends_open(&f->ends, *state, &f->streams);
	return f;
}

static void end(struct fixture *f)
{
	ends_close(&f->ends);
	buffer_release(&f->buffer, &f->pool);
	buffer_pool_clear(&f->pool);
	loop_end(&f->turn);
	loop_end(&f->other_turn);
	free(f);
}

static void send_all(struct ends *ends, const char *bytes, size_t len)
{
	assert_int_equal(ends->kind->send(ends, bytes, len), len);
}

static enum stream_result read_once(struct fixture *f)
{
	f->buffer.start = f->buffer.end = 0;
	return stream_read(&f->ends.stream, &f->buffer);
}

static enum stream_result write_text(struct stream *stream, const char *text)
{
	struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};
	size_t written;

	return stream_write(stream, &piece, 1, &written);
}

static void await_readable(struct fixture *f)
{
	while (!f->ends.stream.readable)
		ends_await(&f->ends);
}

/* Reads once; a faulty transport may need more than one try to say what it has. */
static enum stream_result read_some(struct fixture *f)
{
	enum stream_result result = read_once(f);

	while (result == STREAM_AGAIN && f->ends.kind->is_faulty) {
		await_readable(f);
		result = read_once(f);
	}
	return result;
}

/* The next bytes are there, and no others; all come in one read where there are no faults. */
static void read_bytes(struct fixture *f, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		assert_int_equal(read_some(f), STREAM_OK);
		got += buffer_used(&f->buffer);
		assert_true(got == bytes || f->ends.kind->is_faulty);
	}
	assert_int_equal(got, bytes);
}

/* Bytes may come in parts of a record: then nothing is known before the last one. */
static bool comes_in_parts(const struct fixture *f)
{
	return f->ends.kind->is_faulty && f->ends.kind->below;
}

static bool is_known(struct fixture *f, bool (*claim)(struct stream *stream))
{
	while (!claim(&f->ends.stream)) {
		if (!comes_in_parts(f))
			return false;
		ends_await(&f->ends);
	}
	return true;
}

/* All of it, in one write where there are no faults. */
static void write_whole(struct fixture *f, struct stream *stream, const char *text)
{
	struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};
	size_t written;

	while (stream_write(stream, &piece, 1, &written) != STREAM_OK) {
		assert_true(f->ends.kind->is_faulty && !stream->failed);
		piece.iov_base = (char *)piece.iov_base + written;
		piece.iov_len -= written;
		while (!stream->writable)
			assert_int_equal(loop_run_turn(stream->loop->loop), 0);
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

static void bytes_are_told_once(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;
	char text[200];

	memset(text, 'x', sizeof(text));
	assert_true(s->open && s->writable && !s->readable && !s->peer_closed);
	assert_false(stream_is_stale(s));
	assert_int_equal(read_once(f), STREAM_AGAIN);
	send_all(&f->ends, text, 10);
	await_readable(f);
	ends_settle(&f->ends);
	assert_true(f->ends.told == 1 || comes_in_parts(f));
	assert_true(is_known(f, stream_is_stale));
	read_bytes(f, 10);
	assert_int_equal(s->received, 10);
	if (s->readable)
		assert_int_equal(read_once(f), STREAM_AGAIN);
	assert_false(s->readable || stream_is_stale(s));
	ends_settle(&f->ends);
	unsigned told = f->ends.told;
	ends_settle(&f->ends);
	assert_int_equal(f->ends.told, told);
	/* As much as there was room for: there may be more, and nobody tells of it again. */
	send_all(&f->ends, text, sizeof(text));
	await_readable(f);
	assert_int_equal(read_some(f), STREAM_OK);
	assert_true(buffer_used(&f->buffer) == BUFFER_BYTES || f->ends.kind->is_faulty);
	assert_true(s->readable);
	end(f);
}

/* Whatever the sizes are: a reader that reads only while it is readable gets all, in order. */
static void no_byte_is_left_behind(void **state)
{
	struct fixture *f = begin(state);
	struct random random = random_begin("no_byte_is_left_behind");
	struct stream *s = &f->ends.stream;
	uint8_t next_sent = 0, next_read = 0;
	char text[500];

	for (int i = 0; i < 300; i++) {
		size_t bytes = 1 + random_below(&random, sizeof(text)), left = bytes;
		for (size_t j = 0; j < bytes; j++)
			text[j] = (char)next_sent++;
		send_all(&f->ends, text, bytes);
		while (left > 0) {
			await_readable(f);
			if (read_once(f) != STREAM_OK)
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
	assert_true(read_once(f) == STREAM_AGAIN && !s->read_ended);
	end(f);
}

static void the_end_is_told_behind_the_last_bytes(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;
	char text[8];

	send_all(&f->ends, "last", 4);
	f->ends.kind->end_output(&f->ends);
	while (!s->peer_closed)
		ends_await(&f->ends);
	assert_true(s->readable);
	/* A short read, but the end is known to come: it stays readable until it was read. */
	read_bytes(f, 4);
	assert_true(s->readable && !s->read_ended);
	assert_int_equal(read_some(f), STREAM_END);
	assert_true(s->read_ended && !s->readable && !s->failed);
	assert_int_equal(read_once(f), STREAM_END); /* and stays so */
	assert_true(is_known(f, stream_is_stale));
	assert_false(stream_is_cut(s));
	/* The other way is open still. */
	write_whole(f, s, "bye");
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 3);
	end(f);
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
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;
	struct buffer fetched = {0};

	if (f->ends.tls)
		send_close_notify(&f->ends); /* and the end of TCP later */
	else
		f->ends.kind->end_output(&f->ends);
	do {
		await_readable(f);
		stream_fetch(s, &fetched, &f->pool);
		assert_null(fetched.at); /* nothing came, so no block is held */
	} while (f->ends.kind->is_faulty && !s->read_ended);
	assert_true(s->readable && s->read_ended);
	/* Its owner may write first. */
	write_text(s, "x");
	assert_true(s->readable);
	assert_int_equal(read_once(f), STREAM_END);
	end(f);
}

static void a_reset_fails_both_ways(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;

	f->ends.kind->reset(&f->ends);
	await_readable(f);
	assert_true(stream_is_cut(s));
	assert_int_equal(read_once(f), STREAM_FAILED);
	assert_true(s->failed && s->read_ended && !s->readable);
	assert_int_equal(read_once(f), STREAM_END);
	/* No signal (SIGPIPE) ends us. */
	struct iovec pieces[2] = {{(void *)(uintptr_t) "a", 1}, {(void *)(uintptr_t) "b", 1}};
	size_t written = 77;
	assert_int_equal(stream_write(s, pieces, 2, &written), STREAM_FAILED);
	assert_int_equal(written, 0);
	end(f);
}

/* One wake tells of both, and the short read of the bytes shows nothing of the reset. */
static void a_reset_behind_bytes_is_told(void **state)
{
	const struct kind *kind = *state;
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;

	f->streams.look_ms = 1;
	send_all(&f->ends, "last", 4);
	f->ends.kind->reset(&f->ends);
	await_readable(f);
	if (kind->keeps_bytes) { /* else they are lost with the reset */
		read_bytes(f, 4);
	}
	await_readable(f);
	assert_int_equal(read_once(f), STREAM_FAILED);
	assert_true(s->failed);
	end(f);
}

/* Nor is a stream woken that has nothing, or the loop, again and again. */
static void a_stream_that_rests_is_looked_at_once(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;

	f->streams.look_ms = 1;
	send_all(&f->ends, "some", 4);
	await_readable(f);
	read_bytes(f, 4);
	ends_settle(&f->ends);
	unsigned told = f->ends.told;
	while (f->streams.doubtful)
		assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(f->streams.look.at_ms, DEADLINE_NEVER);
	assert_int_equal(f->ends.told, told);
	assert_false(s->readable || s->unsure);
	end(f);
}

/* Those that leave the loop meanwhile are not looked at, and one that is read meanwhile is later.
 */
static void a_doubtful_stream_may_leave(void **state)
{
	struct fixture *f = begin(state);
	struct ends others[3];

	f->streams.look_ms = 1;
	for (int i = 0; i < 3; i++) {
		ends_open(&others[i], *state, &f->streams);
		send_all(&others[i], "some", 4);
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
	end(f);
}

/* ---- writing --------------------------------------------------------------------------------- */

static char pattern(size_t at)
{
	return (char)(at % 251);
}

static void what_is_not_taken_is_told_when_there_is_room(void **state)
{
	struct fixture *f = begin(state);
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
	write_whole(f, s, "more");
	end(f);
}

static void ending_our_output_leaves_the_input(void **state)
{
	struct fixture *f = begin(state);
	char text[8];

	write_whole(f, &f->ends.stream, "bye");
	stream_end_output(&f->ends.stream);
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 3);
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
	send_all(&f->ends, "yes", 3);
	await_readable(f);
	read_bytes(f, 3);
	end(f);
}

/* Whoever closes leaves what was written to the system, or to the loop. */
static void what_was_written_arrives_behind_the_close(void **state)
{
	struct fixture *f = begin(state);
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
	end(f);
}

static void a_close_is_an_end_or_a_reset(void **state)
{
	const struct kind *kind = *state;
	char text[8];

	for (int resets = 0; resets < 2; resets++) {
		struct fixture *f = begin(state);
		if (resets)
			stream_reset_at_close(&f->ends.stream);
		stream_close(&f->ends.stream);
		assert_int_equal(ends_receive(&f->ends, text, sizeof(text)),
			resets && kind->resets ? -2 : -1);
		end(f);
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void state_is_known_before_it_is_told(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;

	assert_false(stream_has_input(s));
	assert_false(stream_is_cut(s));
	assert_int_equal(stream_error(s), 0);
	send_all(&f->ends, "x", 1);
	assert_true(is_known(f, stream_has_input)); /* no turn of the loop so far */
	assert_false(stream_is_cut(s));
	f->ends.kind->end_output(&f->ends);
	assert_true(is_known(f, stream_has_input));
	assert_false(stream_is_cut(s)); /* half of it is open */
	assert_true(f->ends.told == 0 || comes_in_parts(f));
	f->ends.kind->reset(&f->ends);
	assert_true(stream_is_cut(s));
	end(f);
}

/* A session ticket that comes on an idle connection is nothing that its owner could read. */
static void bytes_that_are_no_data_leave_it_fresh(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;

	if (f->ends.kind->send_noise) {
		f->ends.kind->send_noise(&f->ends);
		await_readable(f);
		assert_false(stream_is_stale(s));
		assert_false(s->readable || s->read_ended);
		f->ends.kind->send_noise(&f->ends);
		assert_false(stream_has_input(s));
		assert_int_equal(s->received, 0);
		/* Data behind them is. */
		f->ends.kind->send_noise(&f->ends);
		send_all(&f->ends, "x", 1);
		assert_true(is_known(f, stream_has_input));
		await_readable(f);
		assert_true(is_known(f, stream_is_stale));
		read_bytes(f, 1);
		/* And so is an end. */
		f->ends.kind->send_noise(&f->ends);
		f->ends.kind->end_output(&f->ends);
		while (!s->peer_closed)
			ends_await(&f->ends);
		assert_true(is_known(f, stream_is_stale));
		assert_int_equal(read_some(f), STREAM_END);
	}
	end(f);
}

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
	struct fixture *f = begin(state);
	enum stream_result result;
	unsigned turns = 0;

	if (f->ends.tls && !f->ends.kind->is_faulty) {
		for (unsigned i = 0; i < 3000; i++)
			tls_peer_update_key(f->ends.tls, false);
		send_all(&f->ends, "x", 1);
		do {
			turns++;
			await_readable(f);
			result = read_once(f);
			assert_true(result == STREAM_OK || !f->ends.stream.readable);
		} while (result == STREAM_AGAIN);
		assert_int_equal(result, STREAM_OK);
		assert_int_equal(buffer_used(&f->buffer), 1);
		assert_true(turns > 2);
	}
	end(f);
}

static void a_peer_that_takes_no_answers_is_not_read(void **state)
{
	struct fixture *f = begin(state);
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
			assert_int_equal(read_once(f), STREAM_AGAIN);
	}
	assert_true(sent < 10000);
	end(f);
}

static void what_has_left_takes_no_memory(void **state)
{
	struct fixture *f = begin(state);
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
	end(f);
}

static void others_are_served_before_one_that_yielded(void **state)
{
	struct fixture *f = begin(state);
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
	end(f);
}

static void one_that_yielded_may_close(void **state)
{
	struct fixture *f = begin(state);
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
	end(f);
}

/* ---- from one loop to another ---------------------------------------------------------------- */

static void an_exported_one_goes_on_elsewhere(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;
	char text[8];

	write_whole(f, s, "first");
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 5);
	stream_yield(s); /* which is forgotten with it */
	unsigned told = f->ends.told;
	struct stream_export exported = stream_export(s);
	assert_false(s->open);
	memset(s, 0xEE, sizeof(*s)); /* its memory is of no use any more */
	assert_true(stream_export_is_silent(&exported));
	send_all(&f->ends, "hello", 5);
	assert_false(stream_export_is_silent(&exported));
	loop_hurry(&f->turn);
	assert_int_equal(loop_run_turn(&f->turn), 0);
	assert_int_equal(f->ends.told, told); /* it is of this loop no more */
	f->ends.loop = &f->other_turn;
	assert_true(stream_import(s, &f->other_streams, &exported, &ends_calls));
	assert_true(s->open && s->writable);
	assert_int_equal(s->sent, 5); /* what isn't taken of it is known by that */
	await_readable(f);            /* the event of what came meanwhile */
	read_bytes(f, 5);
	write_whole(f, s, "back");
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 4);
	end(f);
}

static void an_exported_one_may_be_closed(void **state)
{
	struct fixture *f = begin(state);
	struct stream_export exported = stream_export(&f->ends.stream);
	char text[8];

	f->ends.kind->end_output(&f->ends);
	assert_false(stream_export_is_silent(&exported)); /* an end is something to read */
	stream_export_close(&exported);
	long n = ends_receive(&f->ends, text, sizeof(text));
	/* The peer's close_notify was not read, which makes a reset of it. */
	assert_true(n == -1 || (n == -2 && f->ends.kind->below));
	end(f);
}

static void an_exported_one_leaves_the_others_woken(void **state)
{
	struct fixture *f = begin(state);
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
	end(f);
}

/* Another thread takes the connection over, or ends it where that can't be. */
static void a_copy_outlives_the_stream_or_is_cut(void **state)
{
	struct fixture *f = begin(state);
	struct stream *s = &f->ends.stream;
	struct stream taker;
	struct stream_export copy;
	char text[8];

	if (stream_copy(s, &copy)) {
		stream_close(s);
		assert_true(stream_export_is_silent(&copy));
		assert_true(stream_import(&taker, &f->other_streams, &copy, &serving));
		write_whole(f, &taker, "on");
		assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), 2);
		stream_close(&taker);
	} else {
		stream_cut(s);
		await_readable(f);
		assert_int_equal(
			read_some(f), f->ends.kind->cut_fails ? STREAM_FAILED : STREAM_END);
	}
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
	end(f);
}

static void a_cut_ends_both_directions(void **state)
{
	struct fixture *f = begin(state);
	char text[8];

	stream_cut(&f->ends.stream);
	assert_int_equal(ends_receive(&f->ends, text, sizeof(text)), -1);
	await_readable(f);
	assert_true(stream_is_cut(&f->ends.stream));
	assert_int_equal(read_some(f), f->ends.kind->cut_fails ? STREAM_FAILED : STREAM_END);
	assert_int_equal(write_text(&f->ends.stream, "x"), STREAM_FAILED);
	end(f);
}

#define TEST(function)                                                                             \
	{                                                                                          \
#function, function                                                                \
	}
static const struct {
	const char *name;
	void (*run)(void **state);
} cases[] = {
	TEST(bytes_are_told_once),
	TEST(no_byte_is_left_behind),
	TEST(the_end_is_told_behind_the_last_bytes),
	TEST(a_fetched_end_is_told_again),
	TEST(a_reset_fails_both_ways),
	TEST(a_reset_behind_bytes_is_told),
	TEST(a_stream_that_rests_is_looked_at_once),
	TEST(a_doubtful_stream_may_leave),
	TEST(what_is_not_taken_is_told_when_there_is_room),
	TEST(ending_our_output_leaves_the_input),
	TEST(a_close_is_an_end_or_a_reset),
	TEST(what_was_written_arrives_behind_the_close),
	TEST(state_is_known_before_it_is_told),
	TEST(bytes_that_are_no_data_leave_it_fresh),
	TEST(much_that_is_no_data_takes_turns),
	TEST(a_peer_that_takes_no_answers_is_not_read),
	TEST(what_has_left_takes_no_memory),
	TEST(others_are_served_before_one_that_yielded),
	TEST(one_that_yielded_may_close),
	TEST(an_exported_one_goes_on_elsewhere),
	TEST(an_exported_one_may_be_closed),
	TEST(an_exported_one_leaves_the_others_woken),
	TEST(a_copy_outlives_the_stream_or_is_cut),
	TEST(a_cut_ends_both_directions),
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

UNIT_SUITE(test_stream)
{
	static struct CMUnitTest tests[KINDS * CASES];
	static char names[KINDS * CASES][80];

	for (size_t i = 0; i < KINDS * CASES; i++) {
		const struct kind *kind = &kinds[i / CASES];
		snprintf(names[i], sizeof(names[i]), "%s: %s", kind->name, cases[i % CASES].name);
		tests[i] = (struct CMUnitTest){.name = names[i],
			.test_func = cases[i % CASES].run,
			.initial_state = (void *)(uintptr_t)kind};
	}
	alarm(120); /* a lost wake-up is a failure, not a wait for ever */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
