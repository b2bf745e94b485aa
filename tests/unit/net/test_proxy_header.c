/* Headers of the PROXY protocol: what is read of them at every cut, what is refused, and that what
 * is written is read again. */
#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"
/* A header of that command and family, with `rest` behind it. */
#define HEADER(command, family, len, rest) SLICE(V2 command family "\0" len rest)
/* 192.0.2.1:258 to 198.51.100.2:443 */
#define FOUR "\xc0\0\2\1\xc6\x33\x64\2\1\2\1\xbb"

static struct proxy_header header;
static bool is_begun;
static const char *why;

static enum proxy_header_result read_header(struct slice bytes)
{
	return proxy_header_read(bytes, &header, &is_begun, &why);
}

static const char *source(void)
{
	static char text[64];
	char address[INET6_ADDRSTRLEN];
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (header.source.ss_family == AF_INET) {
		memcpy(&in, &header.source, sizeof(in));
		inet_ntop(AF_INET, &in.sin_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "%s %u", address, ntohs(in.sin_port));
	} else {
		memcpy(&in6, &header.source, sizeof(in6));
		inet_ntop(AF_INET6, &in6.sin6_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "%s %u", address, ntohs(in6.sin6_port));
	}
	return text;
}

/* Any part of it may still be one, and all of it is, whatever follows. */
static void reads_whole(struct slice bytes, enum proxy_subject subject)
{
	char more[512];

	for (size_t len = 0; len < bytes.len; len++)
		assert_int_equal(read_header((struct slice){bytes.at, len}), PROXY_HEADER_MORE);
	memcpy(more, bytes.at, bytes.len);
	memset(more + bytes.len, 'G', sizeof(more) - bytes.len);
	assert_int_equal(read_header((struct slice){more, sizeof(more)}), PROXY_HEADER_WHOLE);
	assert_int_equal(header.len, bytes.len);
	assert_int_equal(read_header(bytes), PROXY_HEADER_WHOLE);
	assert_int_equal(header.len, bytes.len);
	assert_int_equal(header.subject, subject);
	assert_true(is_begun);
}

static void lines_of_version_1(void **state)
{
	(void)state;
	reads_whole(SLICE("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"), PROXY_OF_CLIENT);
	assert_string_equal(source(), "192.0.2.1 56324");
	assert_int_equal(header.source_len, sizeof(struct sockaddr_in));
	reads_whole(SLICE("PROXY TCP6 2001:db8::1 2001:db8::2 0 65535\r\n"), PROXY_OF_CLIENT);
	assert_string_equal(source(), "2001:db8::1 0");
	reads_whole(SLICE("PROXY UNKNOWN\r\n"), PROXY_OF_UNKNOWN);
	reads_whole(SLICE("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), PROXY_OF_UNKNOWN);
	/* The longest that there can be. */
	char line[PROXY_V1_BYTES + 1];
	memset(line, 'x', sizeof(line));
	memcpy(line, "PROXY UNKNOWN ", 14);
	memcpy(line + PROXY_V1_BYTES - 2, "\r\n", 2);
	reads_whole((struct slice){line, PROXY_V1_BYTES}, PROXY_OF_UNKNOWN);
}

static void malformed_lines(void **state)
{
	static const char *const lines[] = {
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 \r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 1\r\n",
		"PROXY TCP4  192.0.2.1 198.51.100.1 56324 443\r\n",
		"PROXY TCP4 192.0.2.256 198.51.100.1 56324 443\r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.1 056 443\r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.1 -1 443\r\n",
		"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
		"PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
		"PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n",
		"PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n",
		"PROXY \r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n",
		"PROXY / HTTP/1.1\r\n",
	};
	char line[PROXY_V1_BYTES + 8];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(read_header(slice_of(lines[i])), PROXY_HEADER_BAD);
		assert_true(is_begun && strlen(why) > 0);
	}
	memset(line, ' ', sizeof(line));
	memcpy(line, "PROXY TCP4", 10);
	assert_int_equal(read_header((struct slice){line, PROXY_V1_BYTES - 1}), PROXY_HEADER_MORE);
	assert_int_equal(read_header((struct slice){line, PROXY_V1_BYTES}), PROXY_HEADER_BAD);
}

static void other_beginnings(void **state)
{
	static const char *const others[] = {"GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "P GET",
		"\x16\3\1", "\r\n\r\nGET", "\r\r", "PROX\r\n", "PROXYING"};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(read_header(slice_of(others[i])), PROXY_HEADER_NONE);
		assert_false(is_begun);
	}
	/* Whether it is one is known at the end of what all have. */
	assert_int_equal(read_header(SLICE("PROXY")), PROXY_HEADER_MORE);
	assert_false(is_begun);
	assert_int_equal(read_header(SLICE("PROXY ")), PROXY_HEADER_MORE);
	assert_true(is_begun);
	assert_int_equal(read_header((struct slice){V2, 11}), PROXY_HEADER_MORE);
	assert_false(is_begun);
	assert_int_equal(read_header((struct slice){V2, 12}), PROXY_HEADER_MORE);
	assert_true(is_begun);
}

static void addresses_of_version_2(void **state)
{
	static const char zeroes[216];
	char unix_header[16 + 216];

	(void)state;
	reads_whole(HEADER("\x21", "\x11", "\x0c", FOUR), PROXY_OF_CLIENT);
	assert_string_equal(source(), "192.0.2.1 258");
	reads_whole(HEADER("\x21", "\x21", "\x24",
			    "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
			    "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2\1\2\1\xbb"),
		PROXY_OF_CLIENT);
	assert_string_equal(source(), "2001:db8::1 258");
	reads_whole(HEADER("\x21", "\0", "\0", ""), PROXY_OF_UNKNOWN);
	reads_whole(HEADER("\x21", "\0", "\3", "\4\0\0"), PROXY_OF_UNKNOWN);
	reads_whole(HEADER("\x21", "\1", "\0", ""), PROXY_OF_UNKNOWN);
	memcpy(unix_header, V2 "\x21\x31\0\xd8", 16);
	memcpy(unix_header + 16, zeroes, sizeof(zeroes));
	reads_whole((struct slice){unix_header, sizeof(unix_header)}, PROXY_OF_UNIX);
	/* Of the proxy's own, nothing else counts. */
	reads_whole(HEADER("\x20", "\0", "\0", ""), PROXY_OF_ITSELF);
	reads_whole(HEADER("\x20", "\x11", "\x0c", FOUR), PROXY_OF_ITSELF);
	reads_whole(HEADER("\x20", "\xff", "\3", "abc"), PROXY_OF_ITSELF);
}

static void values_of_version_2(void **state)
{
	(void)state;
	reads_whole(HEADER("\x21", "\x11", "\x3a",
			    FOUR "\2\0\x08"
				 "Api.Test"
				 "\x20\0\x1d\3\0\0\0\0\x21\0\7TLSv1.3\x22\0\5alice\x23\0\3xyz"
				 "\xe0\0\0"),
		PROXY_OF_CLIENT);
	assert_true(slice_equal(header.authority, SLICE("Api.Test")));
	assert_true(header.is_tls && header.is_verified);
	assert_true(slice_equal(header.tls_version, SLICE("TLSv1.3")));
	assert_true(slice_equal(header.common_name, SLICE("alice")));
	/* A certificate that did not verify, or none, is nobody's. */
	reads_whole(HEADER("\x21", "\x11", "\x1c", FOUR "\x20\0\x0d\3\0\0\0\1\x22\0\5alice"),
		PROXY_OF_CLIENT);
	assert_true(header.is_tls && !header.is_verified);
	assert_int_equal(header.common_name.len, 0);
	reads_whole(HEADER("\x21", "\x11", "\x1c", FOUR "\x20\0\x0d\1\0\0\0\0\x22\0\5alice"),
		PROXY_OF_CLIENT);
	assert_int_equal(header.common_name.len, 0);
	reads_whole(HEADER("\x21", "\x11", "\x14", FOUR "\x20\0\5\0\0\0\0\0"), PROXY_OF_CLIENT);
	assert_false(header.is_tls);
}

static void malformed_headers(void **state)
{
	static const struct slice headers[] = {
		HEADER("\x11", "\x11", "\x0c", FOUR), /* version 1 in binary */
		HEADER("\x22", "\x11", "\x0c", FOUR), /* neither LOCAL nor PROXY */
		HEADER("\x21", "\x41", "\x0c", FOUR),
		HEADER("\x21", "\x13", "\x0c", FOUR),
		HEADER("\x21", "\x12", "\x0c", FOUR), /* datagrams */
		HEADER("\x21", "\x02", "\0", ""),
		HEADER("\x21", "\x10", "\x0c", FOUR),
		HEADER("\x21", "\x11", "\x0b", FOUR),
		HEADER("\x21", "\x21", "\x0c", FOUR),
		HEADER("\x21", "\x31", "\x0c", FOUR),
		HEADER("\x21", "\x11", "\x0d", FOUR "\2"),
		HEADER("\x21", "\x11", "\x10", FOUR "\2\0\2x"),
		HEADER("\x21", "\x11", "\x13", FOUR "\x20\0\4\1\0\0\0"),
		HEADER("\x21", "\x11", "\x18", FOUR "\x20\0\x09\1\0\0\0\0\x21\0\2x"),
		/* Two sets of facts: the name of the first would be the second's. */
		HEADER("\x21", "\x11", "\x24",
			FOUR "\x20\0\x0d\3\0\0\0\0\x22\0\5alice"
			     "\x20\0\5\1\0\0\0\0"),
		HEADER("\x21", "\x11", "\x12", FOUR "\3\0\3\1\2\3"),
		HEADER("\x21", "\x11", "\x13", FOUR "\3\0\4\1\2\3\4"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		assert_int_equal(read_header(headers[i]), PROXY_HEADER_BAD);
		assert_true(is_begun && strlen(why) > 0);
	}
	/* Longer than is read; that is known before all of it has come. */
	assert_int_equal(read_header(SLICE(V2 "\x20\0\x40\0")), PROXY_HEADER_BAD);
	assert_int_equal(read_header(SLICE(V2 "\x20\0\x3f\xf0")), PROXY_HEADER_MORE);
}

/* The checksum is over all of the header, itself taken for zero. */
static void checksums(void **state)
{
	char bytes[] = V2 "\x21\x11\0\x16" FOUR "\3\0\4\0\0\0\0"
			  "\2\0\0";
	struct slice whole = {bytes, sizeof(bytes) - 1};

	(void)state;
	/* RFC 3720 section B.4 */
	static const char zeroes[32];
	assert_int_equal(proxy_header_crc(0, zeroes, sizeof(zeroes)), 0x8a9136aa);
	assert_int_equal(proxy_header_crc(0, "123456789", 9), 0xe3069283);
	uint32_t crc = htonl(proxy_header_crc(0, whole.at, whole.len));
	memcpy(bytes + 16 + 12 + 3, &crc, sizeof(crc));
	reads_whole(whole, PROXY_OF_CLIENT);
	for (size_t i = 16; i < whole.len; i++) {
		if (i == 16 + 12)
			continue; /* its type: then there is none */
		bytes[i] ^= 1;
		assert_int_not_equal(read_header(whole), PROXY_HEADER_WHOLE);
		bytes[i] ^= 1;
	}
}

static struct proxy_end end_of(const char *text, uint16_t port)
{
	struct proxy_end end = {.address = {[10] = 0xff, 0xff}, .port = port};

	if (strchr(text, ':'))
		inet_pton(AF_INET6, text, end.address);
	else
		inet_pton(AF_INET, text, end.address + 12);
	return end;
}

static void what_is_written_is_read(void **state)
{
	struct proxy_end four = end_of("192.0.2.1", 5000), six = end_of("2001:db8::1", 65535),
			 here = end_of("198.51.100.1", 443), here6 = end_of("2001:db8::2", 80);
	char out[PROXY_WRITTEN_BYTES];

	(void)state;
	for (enum proxy_version v = PROXY_VERSION_1; v <= PROXY_VERSION_2; v++) {
		size_t len = proxy_header_write(v, false, &four, &here, out);
		reads_whole((struct slice){out, len}, PROXY_OF_CLIENT);
		assert_string_equal(source(), "192.0.2.1 5000");
		len = proxy_header_write(v, false, &six, &here6, out);
		reads_whole((struct slice){out, len}, PROXY_OF_CLIENT);
		assert_string_equal(source(), "2001:db8::1 65535");
		/* Both ends are of one family. */
		len = proxy_header_write(v, false, &four, &here6, out);
		reads_whole((struct slice){out, len}, PROXY_OF_CLIENT);
		assert_string_equal(source(), "::ffff:192.0.2.1 5000");
		len = proxy_header_write(v, false, NULL, &here, out);
		reads_whole((struct slice){out, len}, PROXY_OF_UNKNOWN);
		len = proxy_header_write(v, true, NULL, NULL, out);
		reads_whole((struct slice){out, len},
			v == PROXY_VERSION_1 ? PROXY_OF_UNKNOWN : PROXY_OF_ITSELF);
	}
	size_t len = proxy_header_write(PROXY_VERSION_1, false, &four, &here, out);
	assert_int_equal(len, 44);
	assert_memory_equal(out, "PROXY TCP4 192.0.2.1 198.51.100.1 5000 443\r\n", 44);
}

UNIT_SUITE(test_proxy_header)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_version_1),
		cmocka_unit_test(malformed_lines),
		cmocka_unit_test(other_beginnings),
		cmocka_unit_test(addresses_of_version_2),
		cmocka_unit_test(values_of_version_2),
		cmocka_unit_test(malformed_headers),
		cmocka_unit_test(checksums),
		cmocka_unit_test(what_is_written_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
