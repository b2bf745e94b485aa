/* Bodies through a pump, from socket to socket: what comes out is what went in, framed again,
 * however the bytes arrive and however slowly they are taken; and each way a body can go wrong. */
#include "body/pump.h"

#include "http1/http1_sink.h"
#include "http1/http1_source.h"

#include "net/socket_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/random.h"
#include "tests/unit/spool/broken_reads.h"
#include "tests/unit/suite.h"

enum { BLOCK = 512, LONGEST = 60000 };

/* One socket pair: our end, and the end of a peer whom the test plays. */
struct line {
	struct stream stream;
	int peer;
};

struct fixture {
	struct loop turn;
	struct stream_loop loop;
	struct buffer_pool pool;
	struct line source, sink;
	struct buffer in;
	struct flow flow;
	struct http_parser parser;
	struct http_head head;
	struct http1_source from;
	struct http1_sink to;
	struct pump pump;
	struct spool_store store;
	bool collects; /* into the pump's spool, until it is full or the body over */
	char out[4 * LONGEST];
	size_t out_len;
};

static void on_notify(struct stream *stream)
{
	(void)stream;
}

static const struct stream_calls calls = {NULL, on_notify};

static void open_line(struct fixture *f, struct line *line, int bytes)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	/* Small, so that few bytes fit: the pump has to wait often. */
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	line->peer = pair[1];
	assert_true(socket_stream_open(&line->stream, &f->loop, pair[0], true, &calls));
}

static struct fixture *begin(enum http_body body, uint64_t length, bool encode_chunked)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(loop_init(&f->turn), 0);
	stream_loop_init(&f->loop, &f->turn);
	buffer_pool_init(&f->pool, BLOCK, 8);
	assert_true(store_init(&f->store, "/tmp"));
	f->store.files_max = 1;
	store_set_bounds(&f->store, 1 << 20, 1 << 20);
	open_line(f, &f->source, 4096);
	open_line(f, &f->sink, 1);
	http_head_init(&f->head);
	if (body == HTTP_BODY_CHUNKED) {
		static const char text[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
		static const struct http_parser_limits limits = {0};
		http_parser_begin_response(&f->parser, &f->head, &limits);
		assert_int_equal(http_parser_head(&f->parser, text, strlen(text)), HTTP_PARSE_DONE);
	}
	f->pump = (struct pump){
		.source = &f->from.source,
		.sink = &f->to.sink,
		.store = &f->store,
		.kept = {4096, 16384},
		.ended = body == HTTP_BODY_LENGTH && length == 0,
	};
	const struct http_framing framing = {.body = body, .length = length};
	http1_source_init(&f->from, &f->source.stream, &f->in, &f->pool, &f->parser);
	http1_source_open(&f->from, &framing);
	http1_sink_init(&f->to, &f->sink.stream, &f->flow, &f->pool);
	f->to.chunked = encode_chunked;
	return f;
}

static void close_peer(int *peer)
{
	if (*peer >= 0)
		close(*peer);
	*peer = -1;
}

static void end(struct fixture *f)
{
	stream_close(&f->source.stream);
	stream_close(&f->sink.stream);
	close_peer(&f->source.peer);
	close_peer(&f->sink.peer);
	flow_clear(&f->flow, &f->pool);
	spool_free(f->pump.spool);
	assert_int_equal(f->store.memory + f->store.disk + f->store.files, 0);
	store_end(&f->store);
	buffer_release(&f->in, &f->pool);
	buffer_pool_clear(&f->pool);
	http_head_clear(&f->head);
	http_parser_end(&f->parser);
	loop_end(&f->turn);
	free(f);
}

static void look(struct fixture *f)
{
	event_base_loop(f->turn.base, EVLOOP_NONBLOCK);
	while (stream_round(&f->loop))
		;
}

/* The peer of the sink takes so much at most. */
static void take(struct fixture *f, size_t most)
{
	ssize_t n = recv(f->sink.peer, f->out + f->out_len, most, 0);

	if (n > 0)
		f->out_len += (size_t)n;
	assert_true(f->out_len < sizeof(f->out));
}

/* Plays both peers at random until the pump is done with `input` (and the end, if it ends there).
 */
static enum pump_result run(
	struct fixture *f, struct random *random, const char *input, size_t len, bool ends)
{
	enum pump_result result = PUMP_WANTS_READ;
	size_t given = 0;

	for (unsigned step = 0; step < 1000000; step++) {
		size_t n = 1 + random_below(random, random_below(random, 3) ? 50 : 3000);
		if (given < len) {
			n = n < len - given ? n : len - given;
			ssize_t sent = send(f->source.peer, input + given, n, MSG_NOSIGNAL);
			given += sent > 0 ? (size_t)sent : 0;
		} else if (ends && f->source.peer >= 0) {
			assert_int_equal(shutdown(f->source.peer, SHUT_WR), 0);
			ends = false;
		}
		look(f);
		if (random_below(random, 10) == 0)
			f->pump.spills = !f->pump.spills;
		unsigned turns = 1 + (unsigned)random_below(random, 4);
		result = f->collects ? pump_collect(&f->pump, turns) : pump_run(&f->pump, turns);
		if (f->collects && (result == PUMP_DONE || result == PUMP_WANTS_WRITE)) {
			assert_int_equal(result == PUMP_DONE, f->pump.ended);
			assert_int_equal(f->out_len, 0);
			f->collects = false;
			f->pump.sink = &f->to.sink;
			f->pump.end_due = f->pump.ended && !pump_has_content(&f->pump);
			continue;
		}
		/* One block beside what is on its way at most, whatever the body's size. */
		assert_true(f->in.capacity <= BLOCK && f->flow.prefix.capacity <= BLOCK);
		if (result != PUMP_WANTS_READ && result != PUMP_WANTS_WRITE)
			break;
		if (random_below(random, 2))
			take(f, 1 + random_below(random, 2000));
	}
	for (size_t before = SIZE_MAX; before != f->out_len && f->sink.peer >= 0;) {
		before = f->out_len;
		take(f, sizeof(f->out) - f->out_len - 1);
	}
	return result;
}

static size_t make_content(struct random *random, char *content)
{
	size_t len = random_below(random, random_below(random, 4) ? 2000 : LONGEST);

	for (size_t i = 0; i < len; i++)
		content[i] = "ab\r\n0;:"[random_below(random, 7)];
	return len;
}

static size_t make_chunks(struct random *random, const char *content, size_t len, char *text)
{
	size_t at = 0;

	while (len > 0) {
		size_t n = 1 + random_below(random, random_below(random, 3) ? 40 : 5000);
		n = n < len ? n : len;
		at += (size_t)sprintf(
			text + at, random_below(random, 8) ? "%zx\r\n" : "%zx;e=f\r\n", n);
		memcpy(text + at, content, n);
		at += n;
		at += (size_t)sprintf(text + at, "\r\n");
		content += n;
		len -= n;
	}
	return at + (size_t)sprintf(text + at, "0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n");
}

/* Reads chunks back. Returns where the trailer section begins. */
static size_t read_chunks(const char *text, size_t len, char *content, size_t *content_len)
{
	size_t at = 0;

	*content_len = 0;
	for (;;) {
		char *rest;
		size_t n = strtoul(text + at, &rest, 16);
		assert_memory_equal(rest, "\r\n", 2);
		at = (size_t)(rest - text) + 2;
		if (n == 0)
			return at;
		assert_true(at + n + 2 <= len);
		memcpy(content + *content_len, text + at, n);
		*content_len += n;
		at += n;
		assert_memory_equal(text + at, "\r\n", 2);
		at += 2;
	}
}

/* All framings into all framings. */
static void bodies_come_out_as_they_went_in(void **state)
{
	struct random random = random_begin("bodies through a pump");
	static char content[LONGEST], text[4 * LONGEST], back[4 * LONGEST];
	static const enum http_body kinds[] = {
		HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE};

	(void)state;
	for (unsigned round = 0; round < 120; round++) {
		enum http_body kind = kinds[round % 3];
		bool encode = round / 3 % 2;
		size_t len = make_content(&random, content), text_len = len, back_len;
		struct fixture *f = begin(kind, len, encode);
		if (round / 6 % 2 && len > 0) {
			struct spool_limits limits = {1 + random_below(&random, 20000),
				random_below(&random, 2) * random_below(&random, LONGEST),
				SPOOL_REQUEST};
			f->pump.spool = spool_new(&f->store, limits);
			f->pump.sink = NULL;
			f->collects = true;
		}
		memcpy(text, content, len);
		if (kind == HTTP_BODY_CHUNKED)
			text_len = make_chunks(&random, content, len, text);
		if (kind == HTTP_BODY_LENGTH && len == 0)
			f->pump.end_due = encode;
		/* What comes behind the body is not of it. */
		if (kind != HTTP_BODY_UNTIL_CLOSE)
			text_len += (size_t)sprintf(text + text_len, "GET / HTTP/1.1\r\n");
		enum pump_result result =
			run(f, &random, text, text_len, kind == HTTP_BODY_UNTIL_CLOSE);
		assert_int_equal(result, PUMP_DONE);
		assert_true(f->pump.ended && flow_is_empty(&f->flow));
		assert_int_equal(f->pump.content_bytes, len);
		assert_int_equal(f->pump.written, f->out_len);
		f->out[f->out_len] = '\0';
		if (encode) {
			size_t at = read_chunks(f->out, f->out_len, back, &back_len);
			/* A trailer that would say something of the framing does not pass. */
			assert_string_equal(f->out + at,
				kind == HTTP_BODY_CHUNKED ? "X-Sum: 1\r\n\r\n" : "\r\n");
		} else {
			back_len = f->out_len;
			memcpy(back, f->out, back_len);
		}
		assert_int_equal(back_len, len);
		assert_memory_equal(back, content, len);
		assert_true(
			f->in.at == NULL || buffer_used(&f->in) > 0); /* an empty block goes back */
		assert_null(f->flow.prefix.at);
		end(f);
	}
}

static void what_goes_wrong(void **state)
{
	struct random random = random_begin("bodies that go wrong");
	static const struct {
		enum http_body body;
		uint64_t length, max_bytes;
		const char *text;
		bool ends;
		enum pump_result result;
	} cases[] = {
		{HTTP_BODY_LENGTH, 10, 0, "12345", true, PUMP_SOURCE_ENDED},
		{HTTP_BODY_LENGTH, 10, 0, "", true, PUMP_SOURCE_ENDED},
		{HTTP_BODY_CHUNKED, 0, 0, "5\r\n123", true, PUMP_SOURCE_ENDED},
		{HTTP_BODY_CHUNKED, 0, 0, "5\r\n12345\r\n0\r\n", true, PUMP_SOURCE_ENDED},
		{HTTP_BODY_CHUNKED, 0, 0, "5\r\n12345x", false, PUMP_SOURCE_BROKEN},
		{HTTP_BODY_CHUNKED, 0, 0, "no chunk", false, PUMP_SOURCE_BROKEN},
		{HTTP_BODY_CHUNKED, 0, 4, "5\r\n12345\r\n0\r\n\r\n", false, PUMP_TOO_LARGE},
		{HTTP_BODY_CHUNKED, 0, 5, "5\r\n12345\r\n0\r\n\r\n", false, PUMP_DONE},
		{HTTP_BODY_UNTIL_CLOSE, 0, 4, "12345", true, PUMP_TOO_LARGE},
	};

	(void)state;
	for (unsigned i = 0; i < 10 * sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned n = i / 10;
		struct fixture *f = begin(cases[n].body, cases[n].length, i % 2);
		f->pump.max_bytes = cases[n].max_bytes;
		enum pump_result result =
			run(f, &random, cases[n].text, strlen(cases[n].text), cases[n].ends);
		if (result != cases[n].result)
			fail_msg("%d, not %d: %s", result, cases[n].result, cases[n].text);
		end(f);
	}
}

/* Whose reader left: told, at the latest when there is more to write. */
static void the_reader_leaves(void **state)
{
	struct random random = random_begin("a reader that leaves");
	static char text[LONGEST];

	(void)state;
	memset(text, 'x', sizeof(text));
	struct fixture *f = begin(HTTP_BODY_LENGTH, sizeof(text), false);
	close_peer(&f->sink.peer);
	assert_int_equal(run(f, &random, text, sizeof(text), false), PUMP_SINK_FAILED);
	end(f);
}

/* A pump without a sink reads a body away and counts it; it holds no block when it waits. */
static void thrown_away(void **state)
{
	struct random random = random_begin("bodies thrown away");
	static char text[LONGEST];

	(void)state;
	memset(text, 'x', sizeof(text));
	struct fixture *f = begin(HTTP_BODY_LENGTH, sizeof(text), false);
	f->pump.sink = NULL;
	assert_int_equal(run(f, &random, text, 1000, false), PUMP_WANTS_READ);
	assert_int_equal(f->pump.content_bytes, 1000);
	assert_null(f->in.at);
	assert_int_equal(run(f, &random, text + 1000, sizeof(text) - 1000, false), PUMP_DONE);
	assert_int_equal(f->pump.content_bytes, sizeof(text));
	assert_int_equal(f->out_len, 0);
	end(f);
}

/* Other connections get their turn: after so many reads it says so, and continues when asked again.
 */
static void turns(void **state)
{
	static char text[8 * BLOCK];
	struct fixture *f = begin(HTTP_BODY_LENGTH, sizeof(text), false);

	(void)state;
	f->pump.sink = NULL;
	assert_int_equal(send(f->source.peer, text, sizeof(text), 0), sizeof(text));
	look(f);
	for (uint64_t rounds = 1; rounds < 4; rounds++) {
		assert_int_equal(pump_run(&f->pump, 2), PUMP_WANTS_READ);
		assert_true(f->source.stream.readable);
		assert_true(f->pump.content_bytes == rounds * 2 * BLOCK);
	}
	assert_int_equal(pump_run(&f->pump, 2), PUMP_DONE);
	end(f);
}

/* A sink that takes nothing more: what is left of a body spills when it fits, and only then; the
 * source is free, and its trailers are behind the content in time. */
static void spills(void **state)
{
	static char text[64 * BLOCK];

	(void)state;
	for (int fits = 0; fits < 2; fits++) {
		struct fixture *f = begin(HTTP_BODY_LENGTH, sizeof(text), false);
		f->pump.spills = true;
		f->sink.stream.writable = false;
		f->pump.kept =
			(struct spool_limits){1024, fits ? sizeof(text) : 1024, SPOOL_REQUEST};
		size_t given = 0;
		enum pump_result result = PUMP_WANTS_READ;
		for (int i = 0; i < 200 && result == PUMP_WANTS_READ; i++) {
			ssize_t n = send(f->source.peer, text, sizeof(text) - given, MSG_NOSIGNAL);
			given += n > 0 ? (size_t)n : 0;
			look(f);
			f->sink.stream.writable = false;
			result = pump_run(&f->pump, 16);
		}
		assert_int_equal(result, PUMP_WANTS_WRITE);
		assert_int_equal(f->pump.ended, fits);
		assert_int_equal(f->flow.spool != NULL, fits);
		end(f);
	}
}

/* A collected body that can't be read back is never whole: not when it is collected, nor when it is
 * sent, with nothing of it in the memory, or some. */
static void lost_when_collected(void **state)
{
	static char text[8 * BLOCK];

	(void)state;
	memset(text, 'x', sizeof(text));
	for (int in_memory = 0; in_memory < 2; in_memory++) {
		struct fixture *f = begin(HTTP_BODY_LENGTH, sizeof(text), true);
		struct spool_limits limits = {in_memory ? BLOCK : 0, sizeof(text), SPOOL_REQUEST};
		f->pump.spool = spool_new(&f->store, limits);
		f->pump.sink = NULL;
		assert_int_equal(send(f->source.peer, text, sizeof(text), 0), sizeof(text));
		look(f);
		broken_reads = EIO;
		enum pump_result result = pump_collect(&f->pump, 100);
		assert_int_equal(result, in_memory ? PUMP_DONE : PUMP_SPOOL_FAILED);
		f->pump.sink = &f->to.sink;
		assert_int_equal(pump_run(&f->pump, 100), PUMP_SPOOL_FAILED);
		broken_reads = 0;
		assert_int_equal(pump_run(&f->pump, 100), PUMP_SPOOL_FAILED);
		assert_int_equal(pump_fill(&f->pump), PUMP_SPOOL_FAILED);
		take(f, 4 * sizeof(text));
		assert_true(f->out_len < sizeof(text)); /* no last chunk */
		end(f);
	}
}

/* The same of what a slow sink has left. */
static void lost_when_spilled(void **state)
{
	static char text[8 * BLOCK];

	(void)state;
	struct fixture *f = begin(HTTP_BODY_LENGTH, sizeof(text), false);
	f->pump.spills = true;
	f->pump.kept = (struct spool_limits){0, sizeof(text), SPOOL_RESPONSE};
	f->sink.stream.writable = false;
	assert_int_equal(send(f->source.peer, text, sizeof(text), 0), sizeof(text));
	look(f);
	f->sink.stream.writable = false;
	broken_reads = EIO;
	assert_int_equal(pump_run(&f->pump, 100), PUMP_SPOOL_FAILED);
	broken_reads = 0;
	f->sink.stream.writable = true;
	assert_int_equal(pump_run(&f->pump, 100), PUMP_SPOOL_FAILED);
	take(f, sizeof(text));
	assert_int_equal(f->out_len, 0);
	end(f);
}

/* The parser goes before the sink has taken the last of a body. */
static void finished_early(void **state)
{
	static const char text[] = "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n";
	struct fixture *f = begin(HTTP_BODY_CHUNKED, 0, true);

	(void)state;
	assert_int_equal(send(f->source.peer, text, strlen(text), 0), strlen(text));
	look(f);
	f->sink.stream.writable = false;
	assert_int_equal(pump_run(&f->pump, 16), PUMP_WANTS_WRITE);
	assert_true(f->pump.ended && f->pump.end_due);
	f->flow.kept = f->in; /* as when the source's connection goes */
	f->in = (struct buffer){0};
	pump_finish(&f->pump);
	assert_false(f->pump.end_due);
	http_parser_end(&f->parser);
	f->sink.stream.writable = true;
	assert_int_equal(pump_run(&f->pump, 16), PUMP_DONE);
	take(f, 1000);
	assert_int_equal(f->out_len, strlen(text));
	assert_memory_equal(f->out, text, strlen(text));
	end(f);
}

UNIT_SUITE(test_pump)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_come_out_as_they_went_in),
		cmocka_unit_test(what_goes_wrong),
		cmocka_unit_test(the_reader_leaves),
		cmocka_unit_test(thrown_away),
		cmocka_unit_test(turns),
		cmocka_unit_test(spills),
		cmocka_unit_test(lost_when_collected),
		cmocka_unit_test(lost_when_spilled),
		cmocka_unit_test(finished_early),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
