#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define SIGNATURE       "\r\n\r\n\0\r\nQUIT\n"
#define SIGNATURE_BYTES 12
#define FIXED_BYTES     16 /* of version 2, before the addresses */
#define PORT_MOST       65535
/* The lower half of the byte with the family. */
#define TRANSPORT_STREAM 1

/* Section 2.2.1: types of values behind the addresses, and those within PP2_TYPE_SSL. */
enum {
	TYPE_AUTHORITY = 0x02,
	TYPE_CRC32C = 0x03,
	TYPE_SSL = 0x20,
	SUBTYPE_SSL_VERSION = 0x21,
	SUBTYPE_SSL_CN = 0x22,
	SUBTYPE_SSL_CLIENT_CERT = 0x28,
};

/* Section 2.2.6: bits of the client's connection. */
enum { CLIENT_SSL = 0x01, CLIENT_CERT_CONN = 0x02, CLIENT_CERT_SESS = 0x04 };

static enum proxy_header_result bad(const char **why, const char *text)
{
	*why = text;
	return PROXY_HEADER_BAD;
}

uint32_t proxy_header_crc(uint32_t crc, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= at[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

/* ---- version 1 ------------------------------------------------------------------------------- */

/* The next word of a line in which one blank separates words. */
static struct slice take_word(struct slice *rest)
{
	const char *blank = rest->len > 0 ? memchr(rest->at, ' ', rest->len) : NULL;
	struct slice word = {rest->at, blank ? (size_t)(blank - rest->at) : rest->len};

	rest->at += word.len + (blank != NULL);
	rest->len -= word.len + (blank != NULL);
	return word;
}

static bool read_address(int family, struct slice text, void *address)
{
	char copy[INET6_ADDRSTRLEN];

	if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.at, '\0', text.len))
		return false;
	memcpy(copy, text.at, text.len);
	copy[text.len] = '\0';
	return inet_pton(family, copy, address) == 1;
}

static bool read_port(struct slice text, in_port_t *port)
{
	unsigned number = 0;

	if (text.len == 0 || text.len > 5 || (text.len > 1 && text.at[0] == '0'))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		number = number * 10 + (unsigned)(text.at[i] - '0');
	}
	*port = htons((uint16_t)number);
	return number <= PORT_MOST;
}

static void set_ipv4(struct proxy_header *header, const void *address, in_port_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

	memcpy(&in.sin_addr, address, sizeof(in.sin_addr));
	memcpy(&header->source, &in, sizeof(in));
	header->source_len = sizeof(in);
}

static void set_ipv6(struct proxy_header *header, const void *address, in_port_t port)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};

	memcpy(&in6.sin6_addr, address, sizeof(in6.sin6_addr));
	memcpy(&header->source, &in6, sizeof(in6));
	header->source_len = sizeof(in6);
}

/* `SOURCE DESTINATION PORT PORT` */
static bool read_line(int family, struct slice rest, struct proxy_header *header)
{
	uint8_t source[16], destination[16];
	in_port_t from, to;

	if (!read_address(family, take_word(&rest), source) ||
		!read_address(family, take_word(&rest), destination) ||
		!read_port(take_word(&rest), &from))
		return false;
	if (memchr(rest.at, ' ', rest.len) || !read_port(rest, &to))
		return false;
	if (family == AF_INET)
		set_ipv4(header, source, from);
	else
		set_ipv6(header, source, from);
	return true;
}

static const struct slice v1_begin = {"PROXY ", 6};

static enum proxy_header_result read_v1(
	struct slice bytes, struct proxy_header *header, const char **why)
{
	size_t most = bytes.len < PROXY_V1_BYTES ? bytes.len : PROXY_V1_BYTES;
	const char *end = memmem(bytes.at, most, "\r\n", 2);
	struct slice rest, family;

	/* A line feed alone ends no line, and no line of the protocol has one. */
	const char *feed = memchr(bytes.at, '\n', most);
	if (feed && (!end || feed < end))
		return bad(why, "a line without CR");
	if (!end)
		return bytes.len < PROXY_V1_BYTES ? PROXY_HEADER_MORE
						  : bad(why, "a line of more than 107 bytes");
	header->len = (size_t)(end - bytes.at) + 2;
	rest = (struct slice){bytes.at + v1_begin.len, header->len - 2 - v1_begin.len};
	family = take_word(&rest);
	header->subject = PROXY_OF_CLIENT;
	if (slice_equal(family, SLICE("UNKNOWN"))) {
		header->subject = PROXY_OF_UNKNOWN;
		return PROXY_HEADER_WHOLE;
	}
	if (slice_equal(family, SLICE("TCP4")) && read_line(AF_INET, rest, header))
		return PROXY_HEADER_WHOLE;
	if (slice_equal(family, SLICE("TCP6")) && read_line(AF_INET6, rest, header))
		return PROXY_HEADER_WHOLE;
	return bad(why, "not TCP4, TCP6 or UNKNOWN with two addresses and two ports");
}

/* ---- version 2 ------------------------------------------------------------------------------- */

static unsigned read_16(const char *at)
{
	return (unsigned)(uint8_t)at[0] << 8 | (uint8_t)at[1];
}

static uint32_t read_32(const char *at)
{
	return (uint32_t)read_16(at) << 16 | read_16(at + 2);
}

/* Takes a value off the front. False: it is longer than what is there. */
static bool take_value(struct slice *rest, unsigned *type, struct slice *value)
{
	if (rest->len < 3)
		return false;
	*type = (uint8_t)rest->at[0];
	*value = (struct slice){rest->at + 3, read_16(rest->at + 1)};
	if (value->len > rest->len - 3)
		return false;
	rest->at += 3 + value->len;
	rest->len -= 3 + value->len;
	return true;
}

static bool read_ssl(struct slice value, struct proxy_header *header)
{
	struct slice rest = {value.at + 5, value.len - 5}, inner;
	struct slice common_name = SLICE_NONE, certificate = SLICE_NONE;
	unsigned client = (uint8_t)value.at[0], type;
	bool is_good = read_32(value.at + 1) == 0;

	while (rest.len > 0) {
		if (!take_value(&rest, &type, &inner))
			return false;
		if (type == SUBTYPE_SSL_VERSION)
			header->tls_version = inner;
		else if (type == SUBTYPE_SSL_CN)
			common_name = inner;
		else if (type == SUBTYPE_SSL_CLIENT_CERT)
			certificate = inner;
	}
	header->is_tls = (client & CLIENT_SSL) != 0;
	header->is_verified =
		header->is_tls && is_good && (client & (CLIENT_CERT_CONN | CLIENT_CERT_SESS)) != 0;
	if (header->is_verified) {
		header->common_name = common_name;
		header->certificate = certificate;
	}
	return true;
}

/* Over all of the header, with the sum itself taken for zero. */
static bool is_sum(struct slice whole, struct slice sum)
{
	static const char zero[4];
	size_t before = (size_t)(sum.at - whole.at);
	uint32_t crc = proxy_header_crc(0, whole.at, before);

	crc = proxy_header_crc(crc, zero, sizeof(zero));
	crc = proxy_header_crc(crc, sum.at + 4, whole.len - before - 4);
	return crc == read_32(sum.at);
}

static enum proxy_header_result read_values(
	struct slice whole, struct slice rest, struct proxy_header *header, const char **why)
{
	struct slice value;
	bool has_ssl = false;
	unsigned type;

	while (rest.len > 0) {
		if (!take_value(&rest, &type, &value))
			return bad(why, "a value that is longer than the header");
		if (type == TYPE_SSL && has_ssl)
			return bad(why, "facts about TLS twice");
		has_ssl |= type == TYPE_SSL;
		if (type == TYPE_CRC32C && (value.len != 4 || !is_sum(whole, value)))
			return bad(why, "a wrong checksum (CRC32C)");
		if (type == TYPE_AUTHORITY)
			header->authority = value;
		if (type == TYPE_SSL && (value.len < 5 || !read_ssl(value, header)))
			return bad(why, "malformed facts about TLS");
	}
	return PROXY_HEADER_WHOLE;
}

/* The bytes of the addresses of a family: the upper half of its byte. */
static const uint8_t address_bytes[] = {0, 12, 36, 216};

static void set_source(struct proxy_header *header, unsigned family, const char *at)
{
	in_port_t port;

	header->subject = PROXY_OF_CLIENT;
	if (family == 1) {
		memcpy(&port, at + 8, sizeof(port));
		set_ipv4(header, at, port);
	} else if (family == 2) {
		memcpy(&port, at + 32, sizeof(port));
		set_ipv6(header, at, port);
	} else {
		header->subject = family == 3 ? PROXY_OF_UNIX : PROXY_OF_UNKNOWN;
	}
}

/* LOCAL has no family, no address and no value that counts. */
static enum proxy_header_result read_v2(
	struct slice bytes, struct proxy_header *header, const char **why)
{
	unsigned command, family, transport;
	size_t len;

	if (bytes.len <= SIGNATURE_BYTES)
		return PROXY_HEADER_MORE;
	command = (uint8_t)bytes.at[12];
	if (command != 0x20 && command != 0x21)
		return bad(why, "neither version 2 nor LOCAL or PROXY");
	if (bytes.len < FIXED_BYTES)
		return PROXY_HEADER_MORE;
	family = (uint8_t)bytes.at[13] >> 4;
	transport = (uint8_t)bytes.at[13] & 15;
	len = FIXED_BYTES + read_16(bytes.at + 14);
	if (len > PROXY_HEADER_BYTES)
		return bad(why, "a header of more than 16384 bytes");
	if (command == 0x21 && family > 3)
		return bad(why, "an unknown family of addresses");
	/* A connection carries no datagrams; an unknown family has any transport but these. */
	if (command == 0x21 && transport != TRANSPORT_STREAM && (family != 0 || transport != 0))
		return bad(why, "addresses of another transport than a stream");
	if (command == 0x21 && len < FIXED_BYTES + (size_t)address_bytes[family])
		return bad(why, "addresses that are cut short");
	if (bytes.len < len)
		return PROXY_HEADER_MORE;
	header->len = len;
	header->subject = PROXY_OF_ITSELF;
	if (command == 0x20)
		return PROXY_HEADER_WHOLE;
	set_source(header, family, bytes.at + FIXED_BYTES);
	size_t values = FIXED_BYTES + (size_t)address_bytes[family];
	return read_values((struct slice){bytes.at, len},
		(struct slice){bytes.at + values, len - values}, header, why);
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool begins(struct slice bytes, const char *with, size_t len)
{
	return memcmp(bytes.at, with, bytes.len < len ? bytes.len : len) == 0;
}

enum proxy_header_result proxy_header_read(
	struct slice bytes, struct proxy_header *header, bool *is_begun, const char **why)
{
	*header = (struct proxy_header){0};
	*why = "";
	*is_begun = false;
	if (bytes.len == 0)
		return PROXY_HEADER_MORE;
	if (begins(bytes, SIGNATURE, SIGNATURE_BYTES)) {
		*is_begun = bytes.len >= SIGNATURE_BYTES;
		return *is_begun ? read_v2(bytes, header, why) : PROXY_HEADER_MORE;
	}
	if (begins(bytes, v1_begin.at, v1_begin.len)) {
		*is_begun = bytes.len >= v1_begin.len;
		return *is_begun ? read_v1(bytes, header, why) : PROXY_HEADER_MORE;
	}
	return PROXY_HEADER_NONE;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool is_ipv4(const struct proxy_end *end)
{
	return memcmp(end->address, mapped, sizeof(mapped)) == 0;
}

static size_t write_v1(const struct proxy_end *source, const struct proxy_end *destination,
	char out[static PROXY_WRITTEN_BYTES])
{
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];

	if (!source || !destination)
		return (size_t)snprintf(out, PROXY_WRITTEN_BYTES, "PROXY UNKNOWN\r\n");
	/* One family for both: IPv4 in IPv6 where they differ. */
	bool is_4 = is_ipv4(source) && is_ipv4(destination);
	int family = is_4 ? AF_INET : AF_INET6;
	inet_ntop(family, source->address + (is_4 ? 12 : 0), from, sizeof(from));
	inet_ntop(family, destination->address + (is_4 ? 12 : 0), to, sizeof(to));
	return (size_t)snprintf(out, PROXY_WRITTEN_BYTES, "PROXY %s %s %s %u %u\r\n",
		is_4 ? "TCP4" : "TCP6", from, to, source->port, destination->port);
}

static char *put_16(char *at, unsigned number)
{
	at[0] = (char)(number >> 8);
	at[1] = (char)number;
	return at + 2;
}

static char *put_bytes(char *at, const void *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

static size_t write_v2(bool is_local, const struct proxy_end *source,
	const struct proxy_end *destination, char out[static PROXY_WRITTEN_BYTES])
{
	char *at = put_bytes(out, SIGNATURE, SIGNATURE_BYTES);

	*at++ = is_local ? 0x20 : 0x21;
	if (!source || !destination) {
		*at++ = 0;
		return (size_t)(put_16(at, 0) - out);
	}
	bool is_4 = is_ipv4(source) && is_ipv4(destination);
	unsigned skip = is_4 ? 12 : 0;
	*at++ = is_4 ? 0x11 : 0x21;
	at = put_16(at, address_bytes[is_4 ? 1 : 2]);
	at = put_bytes(at, source->address + skip, 16 - skip);
	at = put_bytes(at, destination->address + skip, 16 - skip);
	at = put_16(at, source->port);
	return (size_t)(put_16(at, destination->port) - out);
}

size_t proxy_header_write(enum proxy_version version, bool is_local, const struct proxy_end *source,
	const struct proxy_end *destination, char out[static PROXY_WRITTEN_BYTES])
{
	if (version == PROXY_VERSION_1)
		return write_v1(source, destination, out);
	return write_v2(is_local, source, destination, out);
}
