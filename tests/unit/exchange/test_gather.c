/* A request's body before its turn: what is read of it, when it is ready, how it is sent then, and
 * each way in which it can't be had. */
#include "exchange/gather.h"

#include <dirent.h>
#include <unistd.h>

#include "fakes/flight.h"
#include "exchange/respond.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

static const struct stage_conf buffered = {.route = "request_buffering = 4k"};

/* A request that is framed and has its route, on its way through the gate. */
static struct exchange *given(struct stage *stage, const char *bytes)
{
	struct exchange *x = stage_request(stage, bytes);

	assert_int_equal(http_frame_request(&x->request, &x->framing), 0);
	x->request_progress = x->framing.body == HTTP_BODY_NONE ? REQUEST_READ : REQUEST_READING;
	x->route = &stage->daemon.site->conf->routes[0];
	x->upstream = stage->daemon.site->upstreams[0];
	return x;
}

static struct exchange *gathering(struct stage *stage, const char *bytes)
{
	struct exchange *x = given(stage, bytes);

	assert_true(gather_begin(x));
	assert_int_equal(x->gathering, GATHERING_READING);
	exchange_enter(x, EXCHANGE_HELD);
	return x;
}

#define LENGTH(n) "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: " #n "\r\n\r\n"
#define CHUNKED   "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
#define EXPECTS(n)                                                                                 \
	"PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: " #n "\r\n\r\n"

/* All that its spool holds. */
static const char *kept(const struct exchange *x)
{
	static char text[8192];
	size_t len = 0;
	struct slice run;

	while (x->body && (run = spool_front(x->body)).len > 0) {
		assert_true(len + run.len < sizeof(text));
		memcpy(text + len, run.at, run.len);
		len += run.len;
		assert_true(spool_drop(x->body, run.len));
	}
	text[len] = '\0';
	return text;
}

static bool begins(const struct stage_conf *conf, const char *bytes)
{
	struct stage *stage = stage_begin(conf);
	struct exchange *x = given(stage, bytes);
	bool waits = gather_begin(x);

	assert_int_equal(waits, x->body != NULL);
	assert_int_equal(x->gathering, waits ? GATHERING_READING : GATHERING_NONE);
	stage_end(stage);
	return waits;
}

static void what_is_waited_for(void **state)
{
	const struct stage_conf off = {.route = "request_buffering = off"};

	(void)state;
	assert_false(begins(&buffered, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
	assert_false(begins(&off, LENGTH(5)));
	assert_true(begins(&buffered, LENGTH(5)));
	assert_true(begins(&buffered, LENGTH(5) "abcd"));
	assert_false(begins(&buffered, LENGTH(5) "abcde"));
	assert_false(begins(&buffered, LENGTH(5) "abcdeGET"));
	assert_true(begins(&buffered, CHUNKED));
	assert_true(begins(&buffered, CHUNKED "3\r\nabc\r\n0\r\n"));
	assert_false(begins(&buffered, CHUNKED "3\r\nabc\r\n0\r\n\r\n"));
}

static void a_body_comes_in_pieces(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, LENGTH(6) "ab");

	(void)state;
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READING);
	stage_client_sends(stage, "cdefGET");
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_true(exchange_has_request(x));
	assert_true(stage->client.client.again); /* its turn may have come */
	assert_string_equal(stage->client.trace, "read ");
	assert_string_equal(kept(x), "abcdef");
	assert_int_equal(buffer_used(&stage->client.in), 3); /* the next request is still there */
	gather_run(x);                                       /* does nothing more */
	assert_string_equal(stage->client.trace, "read ");
	stage_end(stage);
}

static void chunks_are_decoded_and_trailers_kept(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, CHUNKED "3\r\nabc\r\n");

	(void)state;
	gather_run(x);
	stage_client_sends(stage, "2\r\nde\r\n0\r\nX-Checksum: 5\r\n\r\n");
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_true(slice_equal(x->up.end.trailers, SLICE("X-Checksum: 5\r\n")));
	assert_null(x->up.source); /* it reads the next request */
	assert_string_equal(kept(x), "abcde");
	stage_end(stage);
}

static void what_exceeds_it_is_sent_as_it_comes(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, LENGTH(100000));
	char block[4097];

	(void)state;
	memset(block, 'x', sizeof(block) - 1);
	block[sizeof(block) - 1] = '\0';
	for (unsigned i = 0; i < 10 && x->gathering == GATHERING_READING; i++) {
		stage_client_sends(stage, block);
		gather_run(x);
	}
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_false(exchange_has_request(x));
	assert_string_equal(stage->client.trace, "");
	assert_int_equal(spool_bytes(x->body), 4096);
	stage_end(stage);
}

/* ---- 100 (Continue) -------------------------------------------------------------------------- */

static void it_gets_its_100_from_here(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, EXPECTS(2));

	(void)state;
	gather_run(x);
	assert_string_equal(stage_client_got(stage), "HTTP/1.1 100 Continue\r\n\r\n");
	assert_true(x->interim.to_continue >= CONTINUE_SENT);
	stage_client_sends(stage, "ab");
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_false(x->framing.expects_continue); /* its server is not asked for one */
	assert_string_equal(stage_client_got(stage), "");
	stage_end(stage);
}

static void it_gets_none_before_it_is_the_first(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *first = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	struct exchange *x = gathering(stage, EXPECTS(2));

	(void)state;
	gather_run(x);
	assert_string_equal(stage_client_got(stage), "");
	assert_true(x->interim.to_continue == CONTINUE_DUE);
	exchange_end(first);
	gather_run(x);
	assert_has(stage_client_got(stage), "100 Continue");
	assert_false(x->interim.to_continue == CONTINUE_DUE);
	stage_end(stage);
}

static void none_is_due_for_a_body_that_came_without(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *first = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	struct exchange *x = gathering(stage, EXPECTS(2) "a");

	(void)state;
	stage_client_sends(stage, "b");
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_false(x->interim.to_continue == CONTINUE_DUE);
	exchange_end(first);
	stage_end(stage);
}

/* ---- what can't be had ----------------------------------------------------------------------- */

static void a_client_that_leaves_is_cut(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, LENGTH(6) "ab");

	(void)state;
	memory_peer_end_output(stage->client.wire);
	gather_run(x);
	assert_string_equal(stage->client.trace, "close(client left during its request) ");
	assert_int_equal(stage_count(stage, STATS_CLIENT_GONE), 1);
	stage_end(stage);
}

static void a_malformed_body_is_refused(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, CHUNKED "zz\r\n");

	(void)state;
	gather_run(x);
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 400 ");
	assert_has(got, "Connection: close\r\n");
	assert_int_equal(stage_count(stage, STATS_MALFORMED), 1);
	stage_end(stage);
}

static void too_large(const char *bytes)
{
	const struct stage_conf conf = {.route = "request_buffering = 4k\nmax_body_size = 3"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = gathering(stage, bytes);

	gather_run(x);
	assert_has(stage_client_got(stage), "HTTP/1.1 413 ");
	stage_end(stage);
}

static void a_body_beyond_its_bound_is_refused(void **state)
{
	(void)state;
	too_large(CHUNKED "4\r\nabcd\r\n");
	too_large(CHUNKED "3\r\nabc\r\n1\r\nd\r\n");
}

static void without_room_it_is_sent_as_it_comes(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = given(stage, LENGTH(6) "ab");

	(void)state;
	store_set_bounds(&stage->daemon.node.store, 0, 0);
	if (gather_begin(x)) {
		exchange_enter(x, EXCHANGE_HELD);
		gather_run(x);
		assert_int_equal(x->gathering, GATHERING_READY);
	}
	assert_false(exchange_has_request(x));
	stage_end(stage);
}

/* ---- sending it ------------------------------------------------------------------------------ */

/* Runs what was gathered into a connection of its own. */
static const char *sent(struct stage *stage, struct exchange *x)
{
	const struct server_calls *protocol = upstream_part(stage->worker)->calls;
	struct server_connection *connection = calloc(1, protocol->bytes);
	static char text[8192];
	struct memory_peer *wire;

	assert_non_null(connection);
	connection->calls = protocol;
	connection->worker = stage->worker;
	wire = memory_stream_open(&connection->stream, &stage->worker->streams, STAGE_ROOM,
		stage->client.stream.calls);
	x->connection = connection;
	assert_true(exchange_open_response(x));
	gather_resume(x);
	http1_sink_of(x->up.sink)->chunked = x->framing.body == HTTP_BODY_CHUNKED;
	enum pump_result result = pump_run(&x->up, 16);
	assert_true(result == PUMP_DONE || result == PUMP_WANTS_READ);
	long len = memory_peer_receive(wire, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	x->up.sink = NULL;
	x->connection = NULL;
	protocol->end(connection);
	stream_close(&connection->stream);
	stage_turn(stage);
	memory_peer_close(wire);
	free(connection);
	return text;
}

static void it_is_sent_as_it_was_framed(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, LENGTH(3) "ab");

	(void)state;
	stage_client_sends(stage, "c");
	gather_run(x);
	assert_string_equal(sent(stage, x), "abc");
	stage_end(stage);
}

static void chunked_again_with_its_trailers(void **state)
{
	const struct stage_conf conf = {
		.route = "request_buffering = 4k\nrequest_trailers = X-Checksum"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = gathering(stage, CHUNKED);

	(void)state;
	stage_client_sends(stage, "3\r\nabc\r\n0\r\nX-Checksum: 5\r\nX-Other: 1\r\n\r\n");
	gather_run(x);
	assert_string_equal(sent(stage, x), "3\r\nabc\r\n0\r\nX-Checksum: 5\r\n\r\n");
	stage_end(stage);
}

/* A chunked body of no bytes, whose end nothing but the last chunk tells. */
static void an_empty_body_has_its_end(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, CHUNKED);

	(void)state;
	stage_client_sends(stage, "0\r\n\r\n");
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_int_equal(x->framing.body, HTTP_BODY_NONE);
	assert_true(x->framing.has_length && x->framing.length == 0);
	assert_string_equal(sent(stage, x), "");
	stage_end(stage);
}

/* What it is sent as. */
static void assert_framed(
	const struct exchange *x, enum http_body body, bool has_length, uint64_t length)
{
	assert_int_equal(x->framing.body, body);
	assert_int_equal(x->framing.has_length, has_length);
	assert_int_equal(x->framing.length, length);
}

static void a_whole_chunked_body_has_a_length(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, CHUNKED);

	(void)state;
	stage_client_sends(stage, "3\r\nabc\r\n");
	gather_run(x);
	assert_framed(x, HTTP_BODY_CHUNKED, false, 0);
	stage_client_sends(stage, "2\r\nde\r\n0\r\n\r\n");
	gather_run(x);
	assert_framed(x, HTTP_BODY_LENGTH, true, 5);
	assert_string_equal(sent(stage, x), "abcde");
	stage_end(stage);

	stage = stage_begin(&buffered);
	x = gathering(stage, CHUNKED);
	stage_client_sends(stage, "3\r\nabc\r\n0\r\nDigest: x\r\n\r\n");
	gather_run(x);
	assert_framed(x, HTTP_BODY_CHUNKED, false, 0);
	stage_end(stage);
}

static void one_that_is_here_with_its_head_has_it_too(void **state)
{
	static const struct stage_conf bounded = {
		.route = "request_buffering = 4k\nmax_body_size = 4"};
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = given(stage, CHUNKED "3;a\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET");

	(void)state;
	assert_false(gather_begin(x));
	assert_framed(x, HTTP_BODY_LENGTH, true, 5);
	assert_true(slice_equal(client_body_here(x->client), SLICE("abcdeGET")));
	stage_end(stage);

	stage = stage_begin(&buffered); /* with trailers */
	x = given(stage, CHUNKED "1\r\na\r\n0\r\nDigest: x\r\n\r\n");
	assert_false(gather_begin(x));
	assert_framed(x, HTTP_BODY_CHUNKED, false, 0);
	assert_true(slice_equal(
		client_body_here(x->client), SLICE("1\r\na\r\n0\r\nDigest: x\r\n\r\n")));
	stage_end(stage);

	stage = stage_begin(&bounded); /* longer than it may be, found where it is sent */
	x = given(stage, CHUNKED "5\r\nabcde\r\n0\r\n\r\n");
	assert_false(gather_begin(x));
	assert_framed(x, HTTP_BODY_CHUNKED, false, 0);
	stage_end(stage);

	stage = stage_begin(&buffered); /* malformed, found there too */
	x = given(stage, CHUNKED "3\r\nabcd\r\n0\r\n\r\n");
	assert_false(gather_begin(x));
	assert_framed(x, HTTP_BODY_CHUNKED, false, 0);
	stage_end(stage);
}

static void what_is_still_to_come_follows(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = gathering(stage, LENGTH(5) "ab");

	(void)state;
	gather_run(x);
	stage_client_sends(stage, "cde");
	assert_string_equal(sent(stage, x), "abcde");
	assert_int_equal(x->up.content_bytes, 5);
	stage_end(stage);
}

/* ---- keeping it ------------------------------------------------------------------------------ */

static struct exchange *ready(struct stage *stage, const char *head, const char *body)
{
	struct exchange *x = gathering(stage, head);

	stage_client_sends(stage, body);
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	return x;
}

static void a_short_body_is_kept_in_one_piece(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = ready(stage, LENGTH(5), "abcde");

	(void)state;
	gather_keep(x);
	assert_null(x->body);
	assert_int_equal(x->gathering, GATHERING_NONE);
	assert_memory_equal(x->memory.body, "abcde", 5);
	stage_end(stage);
}

static void others_stay_as_they_are(void **state)
{
	struct stage *stage = stage_begin(&buffered);
	struct exchange *x = ready(stage, CHUNKED, "3\r\nabc\r\n0\r\nDigest: x\r\n\r\n");

	(void)state;
	gather_keep(x);
	assert_null(x->memory.body);
	assert_string_equal(kept(x), "abc");
	stage_end(stage);

	stage = stage_begin(&buffered); /* no bytes, but chunked */
	x = ready(stage, CHUNKED, "0\r\n\r\n");
	gather_keep(x);
	assert_null(x->memory.body);
	assert_non_null(x->body);
	stage_end(stage);

	stage = stage_begin(&buffered); /* a part of it was sent */
	x = ready(stage, LENGTH(5), "abcde");
	assert_true(spool_drop(x->body, 1));
	gather_keep(x);
	assert_null(x->memory.body);
	assert_string_equal(kept(x), "bcde");
	stage_end(stage);

	stage = stage_begin(&buffered); /* it is still coming */
	x = gathering(stage, LENGTH(5) "abc");
	gather_run(x);
	gather_keep(x);
	assert_null(x->memory.body);
	assert_string_equal(kept(x), "abc");
	stage_end(stage);
}

/* The temporary files of this process lose their bytes. Were there any? */
static bool damage_files(const char *folder)
{
	DIR *fds = opendir("/proc/self/fd");
	bool found = false;
	char path[300], target[300];

	assert_non_null(fds);
	for (struct dirent *entry; (entry = readdir(fds));) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		if (strncmp(target, folder, strlen(folder)) == 0 && strstr(target, " (deleted)"))
			found |= ftruncate(atoi(entry->d_name), 0) == 0;
	}
	closedir(fds);
	return found;
}

/* On a connection that has served another request: then it would be kept in one piece. */
static void one_that_cannot_be_read_again_is_answered(void **state)
{
	const struct stage_conf conf = {
		.node = "buffering_folder = /tmp", .route = "request_buffering = 4k file 1M"};
	struct stage *stage = stage_begin(&conf);
	char *text = calloc(1, 6001);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 6000);
	flight_answer(
		stage, flight_begin(stage, GET), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(flight_idle(stage), 1);
	struct exchange *x = stage_ask(stage, LENGTH(6000));
	stage_client_sends(stage, text);
	gather_run(x);
	assert_int_equal(x->gathering, GATHERING_READY);
	assert_true(damage_files("/tmp/"));
	exchange_next(x);
	assert_string_equal(x->outcome, "temporary file failed");
	assert_int_equal(x->answer.status, 503);
	assert_int_equal(stage->server_count, 1); /* nothing of it has left */
	stage_end(stage);
	free(text);
}

static void up_to_64k(void **state)
{
	const struct stage_conf conf = {.route = "request_buffering = 128k"};
	char *text = malloc(65538);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 65537);
	for (unsigned more = 0; more < 2; more++) {
		struct stage *stage = stage_begin(&conf);
		struct exchange *x =
			more ? gathering(stage, LENGTH(65537)) : gathering(stage, LENGTH(65536));
		text[32768] = '\0';
		stage_client_sends(stage, text);
		gather_run(x);
		stage_client_sends(stage, text);
		gather_run(x);
		if (more)
			stage_client_sends(stage, "x");
		gather_run(x);
		assert_int_equal(x->gathering, GATHERING_READY);
		gather_keep(x);
		assert_int_equal(x->memory.body != NULL, !more);
		stage_end(stage);
	}
	free(text);
}

UNIT_SUITE(test_gather)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_waited_for),
		cmocka_unit_test(a_body_comes_in_pieces),
		cmocka_unit_test(chunks_are_decoded_and_trailers_kept),
		cmocka_unit_test(what_exceeds_it_is_sent_as_it_comes),
		cmocka_unit_test(it_gets_its_100_from_here),
		cmocka_unit_test(it_gets_none_before_it_is_the_first),
		cmocka_unit_test(none_is_due_for_a_body_that_came_without),
		cmocka_unit_test(a_client_that_leaves_is_cut),
		cmocka_unit_test(a_malformed_body_is_refused),
		cmocka_unit_test(a_body_beyond_its_bound_is_refused),
		cmocka_unit_test(without_room_it_is_sent_as_it_comes),
		cmocka_unit_test(it_is_sent_as_it_was_framed),
		cmocka_unit_test(chunked_again_with_its_trailers),
		cmocka_unit_test(an_empty_body_has_its_end),
		cmocka_unit_test(a_whole_chunked_body_has_a_length),
		cmocka_unit_test(one_that_is_here_with_its_head_has_it_too),
		cmocka_unit_test(what_is_still_to_come_follows),
		cmocka_unit_test(a_short_body_is_kept_in_one_piece),
		cmocka_unit_test(others_stay_as_they_are),
		cmocka_unit_test(one_that_cannot_be_read_again_is_answered),
		cmocka_unit_test(up_to_64k),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
