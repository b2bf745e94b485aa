/*
 * The asker's side of a hop's greeting, by bytes: it continues only with one that has the secret.
 * At random, too: SEED=7 ANSWERS=1 tests/unit/upstream/test_greeting
 */
#include "upstream/greeting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "tests/unit/net/memory_stream.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define B "ffeeddccbbaa99887766554433221100"

static const struct conf_secret ours = {"of the fleet", 12};

struct world {
	struct loop loop;
	struct stream_loop streams;
	struct stream stream;
	struct memory_peer *peer;
	struct greeting *greeting;
	char theirs[HOP_NONCE_BYTES]; /* the nonce that it has sent */
};

static void on_notify(struct stream *stream)
{
	(void)stream;
}

static const struct stream_calls calls = {NULL, on_notify};

/* What it has sent since the last call. */
static const char *sent(struct world *w)
{
	static char text[4096];
	long len = memory_peer_receive(w->peer, text, sizeof(text) - 1);

	text[len > 0 ? len : 0] = '\0';
	return text;
}

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	assert_int_equal(loop_init(&w->loop), 0);
	loop_enter(&w->loop);
	stream_loop_init(&w->streams, &w->loop);
	w->peer = memory_stream_open(&w->stream, &w->streams, 8192, &calls);
	w->greeting = greeting_begin(&w->stream);
	assert_non_null(w->greeting);
	const char *at = strstr(sent(w), "\r\nSluice-Hop: hello ");
	assert_non_null(at);
	memcpy(w->theirs, at + strlen("\r\nSluice-Hop: hello "), HOP_NONCE_BYTES - 1);
	assert_true(hop_is_nonce(slice_of(w->theirs)));
}

static void end(struct world *w)
{
	free(w->greeting);
	stream_close(&w->stream);
	memory_peer_close(w->peer);
	loop_finish_turn(&w->loop);
	loop_enter(NULL);
	loop_end(&w->loop);
}

/* The owner answers so, in pieces of so many bytes. */
static enum greeting_progress hear_in_pieces(struct world *w, const char *bytes, size_t piece)
{
	enum greeting_progress progress = GREETING_GOES_ON;
	size_t len = strlen(bytes);

	for (size_t at = 0; at < len && progress == GREETING_GOES_ON; at += piece) {
		size_t n = piece < len - at ? piece : len - at;
		assert_int_equal(memory_peer_send(w->peer, bytes + at, n), n);
		progress = greeting_run(w->greeting, &w->stream, &ours);
	}
	return progress;
}

static enum greeting_progress hear(struct world *w, const char *bytes)
{
	return hear_in_pieces(w, bytes, SIZE_MAX);
}

static const char *answer(const char *status, const char *field)
{
	static char text[2048];

	snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 0\r\n%s%sX: y\r\n\r\n", status,
		field, field[0] ? "\r\n" : "");
	return text;
}

#define GOOD_CHALLENGE "Sluice-Hop: challenge " B

/* `Sluice-Hop: welcome PROOF`, by one with this secret that takes that side. */
static const char *welcome(const struct world *w, struct slice secret, enum hop_side side)
{
	static char field[HOP_PROOF_BYTES + 100];
	char proof[HOP_PROOF_BYTES];
	int len = (int)hop_prove(secret, side, w->theirs, B, proof);

	snprintf(field, sizeof(field), "Sluice-Hop: welcome %.*s", len, proof);
	return field;
}

static const char *good_welcome(const struct world *w)
{
	return answer("200 OK", welcome(w, SLICE("of the fleet"), HOP_OWNER));
}

static void begin_proven(struct world *w)
{
	begin(w);
	assert_int_equal(hear(w, answer("200 OK", GOOD_CHALLENGE)), GREETING_GOES_ON);
	sent(w);
}

/* ---- the reason ------------------------------------------------------------------------------ */

static void the_reason(void **state)
{
	static const struct {
		const char *status, *why;
	} rows[] = {{"400 Bad Request", "it answers 400, as one whose [fleet] has a certificate"},
		{"403 Forbidden", "it has another secret"}, {"404 Not Found", NULL}};
	struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(&w);
		assert_null(greeting_why(w.greeting));
		assert_int_equal(hear(&w, answer(rows[i].status, "")), GREETING_FAILED);
		const char *why = greeting_why(w.greeting);
		assert_true(rows[i].why ? why && strcmp(why, rows[i].why) == 0 : !why);
		end(&w);
	}
}

/* ---- both have it ---------------------------------------------------------------------------- */

static void both_have_it(void **state)
{
	static const size_t pieces[] = {1, 7, SIZE_MAX};
	struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		begin(&w);
		assert_int_equal(hear_in_pieces(&w, answer("200 OK", GOOD_CHALLENGE), pieces[i]),
			GREETING_GOES_ON);
		const char *at = strstr(sent(&w), "\r\nSluice-Hop: proof ");
		assert_non_null(at);
		at += strlen("\r\nSluice-Hop: proof ");
		assert_true(hop_is_proof(SLICE("of the fleet"), HOP_ASKER, w.theirs, B,
			(struct slice){at, strcspn(at, "\r")}));
		assert_int_equal(hear_in_pieces(&w, good_welcome(&w), pieces[i]), GREETING_DONE);
		end(&w);
	}
}

/* ---- it has not, or is no node --------------------------------------------------------------- */

static void assert_fails(struct world *w, const char *bytes)
{
	if (hear(w, bytes) != GREETING_FAILED)
		fail_msg("it goes on with: %s", bytes);
	assert_string_equal(sent(w), ""); /* nothing more is sent to it */
	end(w);
}

static void one_that_is_no_node_gets_no_proof(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	assert_fails(&w, answer("403 Forbidden", GOOD_CHALLENGE));
	begin(&w);
	assert_fails(&w, good_welcome(&w)); /* too early */
	begin(&w);
	assert_fails(&w, answer("200 OK", ""));
	begin(&w);
	assert_fails(&w, answer("200 OK", "Sluice-Hop: challenge"));
	begin(&w);
	assert_fails(&w, answer("200 OK", "Sluice-Hop: challenge x"));
	begin(&w);
	assert_fails(&w, answer("200 OK", GOOD_CHALLENGE "0"));
	begin(&w);
	assert_fails(&w, answer("200 OK", GOOD_CHALLENGE " "));
	begin(&w);
	assert_fails(&w, "SSH-2.0-x\r\n\r\n");
}

static void one_without_the_secret_gets_no_request(void **state)
{
	static const char *const answers[] = {GOOD_CHALLENGE, "Sluice-Hop: other", "",
		"Sluice-Hop: welcome", "Sluice-Hop: welcome ", "Sluice-Hop: welcome x.y.z"};
	struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		begin_proven(&w);
		assert_fails(&w, answer("200 OK", answers[i]));
	}
	begin_proven(&w);
	assert_fails(&w, answer("403 Forbidden", welcome(&w, SLICE("of the fleet"), HOP_OWNER)));
	begin_proven(&w);
	assert_fails(&w, answer("200 OK", welcome(&w, SLICE("x"), HOP_OWNER)));
	begin_proven(&w); /* the asker's own proof, sent back */
	assert_fails(&w, answer("200 OK", welcome(&w, SLICE("of the fleet"), HOP_ASKER)));
	begin_proven(&w); /* of another connection */
	strcpy(w.theirs, B);
	assert_fails(&w, good_welcome(&w));
}

static void one_that_never_ends_its_head(void **state)
{
	char much[4096];
	struct world w;

	(void)state;
	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	begin(&w);
	assert_fails(&w, much);
	begin(&w);
	assert_int_equal(hear(&w, "HTTP/1.1 200 OK\r\n"), GREETING_GOES_ON);
	memory_peer_end_output(w.peer);
	assert_int_equal(greeting_run(w.greeting, &w.stream, &ours), GREETING_FAILED);
	end(&w);
}

/* One byte of a good answer is another one: whoever's proof is not whole is not welcome. */
static void random_answers(void **state)
{
	struct random random = random_begin("greeting");
	const char *given = getenv("ANSWERS");
	unsigned count = given ? (unsigned)atoi(given) : 300;
	struct world w;

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		char bytes[2048];
		begin_proven(&w);
		snprintf(bytes, sizeof(bytes), "%s", good_welcome(&w));
		char *proof = strstr(bytes, "welcome ") + strlen("welcome ");
		size_t proof_len = strcspn(proof, "\r");
		size_t at = random_below(&random, strlen(bytes));
		char byte = (char)(1 + random_below(&random, 255));
		bool is_same = bytes[at] == byte;
		bool in_proof = bytes + at >= proof && bytes + at < proof + proof_len;
		bytes[at] = byte;
		enum greeting_progress progress = hear(&w, bytes);
		if (in_proof && !is_same)
			assert_int_not_equal(progress, GREETING_DONE);
		end(&w);
	}
}

UNIT_SUITE(test_greeting)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reason),
		cmocka_unit_test(both_have_it),
		cmocka_unit_test(one_that_is_no_node_gets_no_proof),
		cmocka_unit_test(one_without_the_secret_gets_no_request),
		cmocka_unit_test(one_that_never_ends_its_head),
		cmocka_unit_test(random_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
