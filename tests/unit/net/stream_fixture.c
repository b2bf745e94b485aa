#include "stream_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/tls_stream.h"

struct fixture *fixture_begin(void **state)
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

void fixture_end(struct fixture *f)
{
	ends_close(&f->ends);
	tls_end_leaving(&f->other_streams); /* the stream may have moved there */
	buffer_release(&f->buffer, &f->pool);
	buffer_pool_clear(&f->pool);
	loop_end(&f->turn);
	loop_end(&f->other_turn);
	free(f);
}

void fixture_send(struct ends *ends, const char *bytes, size_t len)
{
	assert_int_equal(ends->kind->send(ends, bytes, len), len);
}

enum stream_result fixture_read_once(struct fixture *f)
{
	f->buffer.start = f->buffer.end = 0;
	return stream_read(&f->ends.stream, &f->buffer);
}

enum stream_result fixture_write(struct stream *stream, const char *text)
{
	struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};
	size_t written;

	return stream_write(stream, &piece, 1, &written);
}

void fixture_await(struct fixture *f)
{
	while (!f->ends.stream.readable)
		ends_await(&f->ends);
}

enum stream_result fixture_read(struct fixture *f)
{
	enum stream_result result = fixture_read_once(f);

	while (result == STREAM_AGAIN && f->ends.kind->is_faulty) {
		fixture_await(f);
		result = fixture_read_once(f);
	}
	return result;
}

void fixture_read_bytes(struct fixture *f, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		assert_int_equal(fixture_read(f), STREAM_OK);
		got += buffer_used(&f->buffer);
		assert_true(got == bytes || f->ends.kind->is_faulty);
	}
	assert_int_equal(got, bytes);
}

bool fixture_comes_in_parts(const struct fixture *f)
{
	return f->ends.kind->is_faulty && f->ends.kind->below;
}

bool fixture_knows(struct fixture *f, bool (*claim)(struct stream *stream))
{
	while (!claim(&f->ends.stream)) {
		if (!fixture_comes_in_parts(f))
			return false;
		ends_await(&f->ends);
	}
	return true;
}

void fixture_write_whole(struct fixture *f, struct stream *stream, const char *text)
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

int fixture_run(const struct fixture_case *cases, size_t count)
{
	struct CMUnitTest *tests = calloc(KINDS * count, sizeof(*tests));
	char(*names)[80] = calloc(KINDS * count, sizeof(*names));

	assert_true(tests && names);
	for (size_t i = 0; i < KINDS * count; i++) {
		const struct kind *kind = &kinds[i / count];
		snprintf(names[i], sizeof(names[i]), "%s: %s", kind->name, cases[i % count].name);
		tests[i] = (struct CMUnitTest){.name = names[i],
			.test_func = cases[i % count].run,
			.initial_state = (void *)(uintptr_t)kind};
	}
	alarm(120); /* a lost wake-up is a failure, not a wait for ever */
	int failed = _cmocka_run_group_tests("tests", tests, KINDS * count, NULL, NULL);
	free(names);
	free(tests);
	return failed;
}
