/* Heads that break RFC 9112: what is forgiven comes out clean, all else as it came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/lenient.h"
#include "http/out.h"
#include "tests/unit/suite.h"

#define LF      HTTP_LENIENT_BARE_LF
#define LENGTHS HTTP_LENIENT_EQUAL_LENGTHS
#define MINOR   HTTP_LENIENT_HTTP_1_2
#define FOLDED  HTTP_LENIENT_FOLDED_LINES
#define SPACE   HTTP_LENIENT_SPACE_BEFORE_COLON
#define TWICE   HTTP_LENIENT_CHUNKED_TWICE
#define BOTH    HTTP_LENIENT_LENGTH_AND_CHUNKED
#define OLD     HTTP_LENIENT_CHUNKED_HTTP_1_0
#define ALL     (LF | LENGTHS | MINOR | FOLDED | SPACE | TWICE | BOTH | OLD)
#define CODED   "Transfer-Encoding: chunked\r\n"
#define OK      "HTTP/1.1 200 OK\r\n"

static void ends(void **state)
{
	static const struct {
		const char *text;
		size_t end;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\n\r\nbody", 19},
		{"HTTP/1.1 200 OK\n\nbody", 17},
		{"HTTP/1.1 200 OK\n\r\nbody", 18},
		{"HTTP/1.1 200 OK\r\n\nbody", 18},
		{"HTTP/1.1 200 OK\r\nA: b\n\n\n", 23},
		{"HTTP/1.1 200 OK\r\nA: b\r\n\r", 0},
		{"HTTP/1.1 200 OK\r\nA: b\r\n \n", 0},
		{"HTTP/1.1 200 OK", 0},
		{"", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = strlen(cases[i].text), looked = 0, found = 0;
		assert_int_equal(http_lenient_end(cases[i].text, len, 0), cases[i].end);
		/* The same when it comes byte by byte. */
		for (size_t come = 1; come <= len && !found; looked = come++)
			found = http_lenient_end(cases[i].text, come, looked);
		assert_int_equal(found, cases[i].end);
	}
}

/* What of `forgiven` was found, and the clean head. */
static unsigned clean(const char *head, unsigned forgiven, char *text, size_t size)
{
	struct http_out out = http_out_over(text, size - 1);
	unsigned found = http_lenient_clean((struct slice){head, strlen(head)}, forgiven, &out);

	*out.at = '\0';
	return found;
}

static void forgiven(void **state)
{
	static const struct {
		unsigned found;
		const char *head, *clean;
	} cases[] = {
		{0, OK "A: b\r\n\r\n", OK "A: b\r\n\r\n"},
		{LF, "HTTP/1.1 200 OK\nA: b\nC:d\n\n", OK "A: b\r\nC:d\r\n\r\n"},
		{LF, OK "A: b\n\r\n", OK "A: b\r\n\r\n"},
		{LF, OK "A: b\r\n\n", OK "A: b\r\n\r\n"},
		{MINOR, "HTTP/1.2 200 OK\r\n\r\n", OK "\r\n"},
		{MINOR, "HTTP/1.9 404 \r\nA: b\r\n\r\n", "HTTP/1.1 404 \r\nA: b\r\n\r\n"},
		{0, "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"},
		{LENGTHS, OK "Content-Length: 5\r\nA: b\r\ncontent-length:5 \r\n\r\n",
			OK "Content-Length: 5\r\nA: b\r\n\r\n"},
		{LENGTHS, OK "Content-Length: 5, 5,5\r\n\r\n", OK "Content-Length: 5\r\n\r\n"},
		{LENGTHS, OK "Content-Length: 05\r\nContent-Length: 05, 05\r\n\r\n",
			OK "Content-Length: 05\r\n\r\n"},
		{0, OK "Content-Length: 5\r\n\r\n", OK "Content-Length: 5\r\n\r\n"},
		{FOLDED, OK "A: b\r\n c\r\n\t  d \r\nE: f\r\n\r\n", OK "A: b c d\r\nE: f\r\n\r\n"},
		{FOLDED, OK "A:\r\n b\r\n\r\n", OK "A: b\r\n\r\n"},
		{FOLDED, OK "A: b\r\n \r\n\r\n", OK "A: b \r\n\r\n"},
		{SPACE, OK "A : b\r\nC \t:d\r\n\r\n", OK "A: b\r\nC:d\r\n\r\n"},
		{SPACE, OK "Transfer-Encoding : chunked\r\n\r\n",
			OK "Transfer-Encoding: chunked\r\n\r\n"},
		{TWICE, OK CODED "A: b\r\n" CODED "\r\n", OK CODED "A: b\r\n\r\n"},
		{TWICE, OK "transfer-encoding:Chunked,,chunked \r\n\r\n", OK CODED "\r\n"},
		{0, OK CODED "\r\n", OK CODED "\r\n"},
		{BOTH, OK "Content-Length: 7\r\n" CODED "\r\n", OK CODED "\r\n"},
		{BOTH, OK CODED "Content-Length: 7\r\nA: b\r\n\r\n", OK CODED "A: b\r\n\r\n"},
		{BOTH | LENGTHS, OK "Content-Length: 7\r\n" CODED "Content-Length: 7, 7\r\n\r\n",
			OK CODED "\r\n"},
		{OLD, "HTTP/1.0 200 OK\r\n" CODED "\r\n", OK CODED "\r\n"},
		{OLD | TWICE | BOTH, "HTTP/1.0 200 OK\r\n" CODED CODED "Content-Length: 7\r\n\r\n",
			OK CODED "\r\n"},
		{0, OK "Transfer-Encoding: gzip\r\nContent-Length: 7\r\n\r\n",
			OK "Transfer-Encoding: gzip\r\nContent-Length: 7\r\n\r\n"},
		{0, "HTTP/1.0 200 OK\r\n" CODED "Transfer-Encoding: gzip\r\n\r\n",
			"HTTP/1.0 200 OK\r\n" CODED "Transfer-Encoding: gzip\r\n\r\n"},
		{ALL & ~(TWICE | BOTH | OLD),
			"HTTP/1.3 200 OK\nContent-Length : 1\nContent-Length: 1\nA: b\n c\n\n",
			OK "Content-Length: 1\r\nA: b c\r\n\r\n"},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(clean(cases[i].head, ALL, text, sizeof(text)), cases[i].found);
		assert_string_equal(text, cases[i].clean);
		/* With nothing but what is in it; and not without any one of that. */
		assert_int_equal(
			clean(cases[i].head, cases[i].found, text, sizeof(text)), cases[i].found);
		for (unsigned bit = 1; bit < ALL; bit <<= 1) {
			if (!(cases[i].found & bit))
				continue;
			unsigned found = clean(cases[i].head, ALL & ~bit, text, sizeof(text));
			assert_true(found == 0 || (bit & (MINOR | LENGTHS | TWICE | BOTH | OLD)));
		}
	}
}

static void not_forgiven(void **state)
{
	static const char *const cases[] = {
		OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		OK "Content-Length: 5, 6\r\n\r\n",
		OK "Content-Length: 5\r\nContent-Length: 05\r\n\r\n",
		OK "Content-Length: 5\r\nContent-Length: \r\n\r\n",
		OK "Content-Length: +5\r\nContent-Length: +5\r\n\r\n",
		OK "Content-Length: 5 5\r\n\r\n",
		/* Folds of what says how long the message is. */
		OK "Content-Length: 5\r\n 0\r\n\r\n",
		OK "Content-Length: 5\r\nContent-Length: 5\r\n 0\r\n\r\n",
		OK "Content-Length: 5\r\nA: b\r\nContent-Length: 5\r\n\t0\r\n\r\n",
		OK "Transfer-Encoding:\r\n chunked\r\n\r\n",
		OK CODED "Transfer-Encoding:\r\n chunked\r\n\r\n",
		OK CODED "Content-Length: x\r\n\r\n",
		OK CODED "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		OK " A: b\r\n\r\n",
		OK "no colon\r\n\r\n",
		OK ": b\r\n\r\n",
		OK "\t: b\r\n\r\n",
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(clean(cases[i], ALL, text, sizeof(text)), 0);
	/* Without room. */
	assert_int_equal(clean("HTTP/1.1 200 OK\nA: b\n\n", ALL, text, 20), 0);
}

UNIT_SUITE(test_lenient)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends),
		cmocka_unit_test(forgiven),
		cmocka_unit_test(not_forgiven),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
