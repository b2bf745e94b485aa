#include "http/forwarded.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <cmocka.h>

#include "../random.h"
#include "conf/conf.h"
#include "head.h"
#include "tests/unit/suite.h"

static struct conf_cidr network(const char *address, unsigned prefix)
{
	struct conf_cidr cidr = {.prefix = (uint8_t)prefix};

	assert_true(forwarded_address_parse(slice_of(address), cidr.address));
	return cidr;
}

/* 10/8, 192.168.0.0/20 and 2001:db8::/33 are trusted. */
static struct conf_cidrs trusted_list(void)
{
	static struct conf_cidr items[3];

	items[0] = network("10.0.0.0", 8 + 96);
	items[1] = network("192.168.0.0", 20 + 96);
	items[2] = network("2001:db8::", 33);
	return (struct conf_cidrs){items, 3};
}

static struct forwarded_peer peer_at(const char *text, const struct conf_cidrs *trusted)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct forwarded_peer peer;

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
		forwarded_peer_init(&peer, (struct sockaddr *)&in, sizeof(in), trusted);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
		forwarded_peer_init(&peer, (struct sockaddr *)&in6, sizeof(in6), trusted);
	}
	return peer;
}

static void peers(void **state)
{
	struct conf_cidrs trusted = trusted_list(), none = {0};
	struct forwarded_peer peer = peer_at("10.1.2.3", &trusted);

	(void)state;
	assert_true(peer.trusted);
	assert_true(slice_equal(forwarded_peer_text(&peer), SLICE("10.1.2.3")));
	assert_memory_equal(peer.node, "10.1.2.3", peer.node_len);
	assert_false(peer_at("10.1.2.3", &none).trusted);
	assert_false(peer_at("11.0.0.1", &trusted).trusted);
	assert_true(peer_at("192.168.15.255", &trusted).trusted);
	assert_false(peer_at("192.168.16.0", &trusted).trusted);
	assert_true(peer_at("2001:db8:7fff::1", &trusted).trusted);
	assert_false(peer_at("2001:db8:8000::1", &trusted).trusted);
	/* An IPv4 address is one, however the socket writes it. */
	peer = peer_at("::ffff:10.0.0.1", &trusted);
	assert_true(peer.trusted);
	assert_true(slice_equal(forwarded_peer_text(&peer), SLICE("10.0.0.1")));
	/* And in no network of IPv6. */
	struct conf_cidr all = network("::", 0);
	struct conf_cidrs everywhere = {&all, 1};
	assert_true(peer_at("2001:db8::1", &everywhere).trusted);
	assert_false(peer_at("10.1.2.3", &everywhere).trusted);
	assert_false(peer_at("::ffff:10.1.2.3", &everywhere).trusted);
	peer = peer_at("2001:DB8:0::1", &trusted);
	assert_true(
		slice_equal((struct slice){peer.node, peer.node_len}, SLICE("\"[2001:db8::1]\"")));
}

/* As inet_ntop writes them. */
static void texts(void **state)
{
	struct random random = random_begin("texts");

	(void)state;
	for (unsigned i = 0; i < 4 * 256 + 10000; i++) {
		uint8_t address[16] = {[10] = 0xff, [11] = 0xff};
		char text[FORWARDED_ADDRESS_BYTES], expected[FORWARDED_ADDRESS_BYTES];
		bool is_random = i >= 4 * 256, is_ipv4 = i % 2 == 0 || !is_random;
		for (unsigned j = is_ipv4 ? 12 : 0; is_random && j < 16; j++)
			address[j] = (uint8_t)random_below(&random, 256);
		if (!is_random)
			address[12 + i / 256] = (uint8_t)(i % 256);
		inet_ntop(is_ipv4 ? AF_INET : AF_INET6, address + (is_ipv4 ? 12 : 0), expected,
			sizeof(expected));
		assert_int_equal(forwarded_address_text(address, text), strlen(expected));
		assert_string_equal(text, expected);
	}
}

static void unix_peers(void **state)
{
	struct conf_cidrs trusted = trusted_list(), none = {0};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct forwarded_peer peer;
	struct http_head head;
	uint8_t caller[16];
	char text[FORWARDED_ADDRESS_BYTES];

	(void)state;
	head_of(&head, "X-Forwarded-For: 203.0.113.9\n");
	forwarded_peer_init(&peer, (struct sockaddr *)&un, sizeof(sa_family_t), &none);
	assert_true(peer.is_unix && !peer.trusted);
	forwarded_caller(&head, &peer, &none, caller);
	forwarded_address_text(caller, text);
	assert_string_equal(text, "::");
	forwarded_peer_init(&peer, (struct sockaddr *)&un, sizeof(sa_family_t), &trusted);
	assert_true(peer.trusted);
	forwarded_caller(&head, &peer, &trusted, caller);
	forwarded_address_text(caller, text);
	assert_string_equal(text, "203.0.113.9");
}

static void walks(void **state)
{
	static const struct {
		const char *peer, *fields, *caller;
	} cases[] = {
		{"203.0.113.1", "X-Forwarded-For: 1.1.1.1\n", "203.0.113.1"},
		{"10.0.0.1", "", "10.0.0.1"},
		{"10.0.0.1", "X-Forwarded-For:\n", "10.0.0.1"},
		{"10.0.0.1", "X-Forwarded-For: 1.1.1.1\n", "1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: 6.6.6.6, 1.1.1.1\n", "1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: 1.1.1.1, 10.0.0.2\n", "1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: 10.0.0.3, 10.0.0.2\n", "10.0.0.3"},
		{"10.0.0.1", "X-Forwarded-For: 6.6.6.6, junk, 10.0.0.2\n", "10.0.0.2"},
		{"10.0.0.1", "X-Forwarded-For: 6.6.6.6, unknown\n", "10.0.0.1"},
		{"10.0.0.1", "X-Forwarded-For: 1.1.1.1:4711\n", "1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: [2001:db9::1]:4711\n", "2001:db9::1"},
		{"10.0.0.1", "X-Forwarded-For: 2001:db9::1\n", "2001:db9::1"},
		{"10.0.0.1", "X-Forwarded-For: [2001:db9::1\n", "10.0.0.1"},
		{"10.0.0.1", "X-Forwarded-For: [2001:db9::1]x\n", "10.0.0.1"},
		{"10.0.0.1", "X-Forwarded-For: [1.1.1.1]\n", "10.0.0.1"},
		{"10.0.0.1", "X-Forwarded-For: ::ffff:1.1.1.1\n", "1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: 1.1.1.1,,  ,10.0.0.2,\n", "1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: 6.6.6.6\nA: b\nX-Forwarded-For: 1.1.1.1\n",
			"1.1.1.1"},
		{"10.0.0.1", "X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: 10.0.0.2\n", "1.1.1.1"},
		{"2001:db8::1", "X-Forwarded-For: 1.1.1.1, 2001:db8::2\n", "1.1.1.1"},
		{"10.0.0.1", "Forwarded: for=1.1.1.1\n", "1.1.1.1"},
		{"10.0.0.1", "Forwarded: for=6.6.6.6, For=\"1.1.1.1:80\";proto=https\n", "1.1.1.1"},
		{"10.0.0.1", "Forwarded: proto=http;for=\"[2001:db9::1]:80\";by=x\n",
			"2001:db9::1"},
		{"10.0.0.1", "Forwarded: for=\"[2001:db9::1]\", for=10.0.0.2\n", "2001:db9::1"},
		{"10.0.0.1", "Forwarded: for=1.1.1.1;by=\"a,b;for=6.6.6.6\\\",\"\n", "1.1.1.1"},
		{"10.0.0.1", "Forwarded: for=6.6.6.6, for=_hidden\n", "10.0.0.1"},
		{"10.0.0.1", "Forwarded: for=6.6.6.6, for=unknown, for=10.0.0.2\n", "10.0.0.2"},
		{"10.0.0.1", "Forwarded: for=6.6.6.6, proto=http\n", "10.0.0.1"},
		{"10.0.0.1", "Forwarded: for=6.6.6.6;for=1.1.1.1\n", "10.0.0.1"},
		{"10.0.0.1", "Forwarded: for=1.1.1.1, for=\"10.0.0.2\n", "10.0.0.1"},
		{"10.0.0.1", "Forwarded: for=1.1.1.1 x\n", "10.0.0.1"},
		{"10.0.0.1", "Forwarded: for\n", "10.0.0.1"},
		{"10.0.0.1", "Forwarded: ,; ;for=1.1.1.1;,\n", "1.1.1.1"},
		{"10.0.0.1", "Forwarded: for=1.1.1.1\nForwarded: for=10.0.0.2\n", "1.1.1.1"},
		{"10.0.0.1", "Forwarded: for=6.6.6.6\nX-Forwarded-For: 1.1.1.1\n", "1.1.1.1"},
		{"203.0.113.1", "Forwarded: for=1.1.1.1\n", "203.0.113.1"},
	};
	struct conf_cidrs trusted = trusted_list();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct forwarded_peer peer = peer_at(cases[i].peer, &trusted);
		struct http_head head;
		uint8_t caller[16];
		char text[FORWARDED_ADDRESS_BYTES];
		head_of(&head, cases[i].fields);
		forwarded_caller(&head, &peer, &trusted, caller);
		text[forwarded_address_text(caller, text)] = '\0';
		if (strcmp(text, cases[i].caller) != 0)
			fail_msg("%s: %s, not %s", cases[i].fields, text, cases[i].caller);
	}
}

/* ---- the walk against a plain one ----------------------------------------------------------- */

enum hop { GARBAGE, STRANGER, TRUSTED };

struct chain {
	size_t count;
	enum hop kinds[40];
	const char *hops[40]; /* [0] is the nearest */
};

static struct chain random_chain(struct random *random)
{
	static const char *const texts[3][5] = {
		[GARBAGE] = {"unknown", "_x", "10.0.0", "10.0.0.1x", "a.b:c"},
		[STRANGER] = {"1.2.3.4", "2001:db9::9", "192.168.99.1", "::1", "11.0.0.0"},
		[TRUSTED] = {"10.1.1.1", "192.168.3.4", "2001:db8::7", "10.0.0.0", "10.9.9.9"},
	};
	struct chain chain = {.count = random_below(random, 40)};

	for (size_t i = 0; i < chain.count; i++) {
		size_t kind = random_below(random, 20);
		chain.kinds[i] = kind < 2 ? (enum hop)kind : TRUSTED;
		chain.hops[i] = texts[chain.kinds[i]][random_below(random, 5)];
	}
	return chain;
}

/* Only so many elements of a Forwarded line are looked at. */
static const char *caller_of(const struct chain *chain, const char *peer, size_t bound)
{
	const char *caller = peer;

	for (size_t i = 0; i < chain->count && i < bound; i++) {
		if (chain->kinds[i] == GARBAGE)
			break;
		caller = chain->hops[i];
		if (chain->kinds[i] == STRANGER)
			break;
	}
	return caller;
}

static void write_chain(const struct chain *chain, bool is_forwarded, char *fields)
{
	fields += sprintf(fields, is_forwarded ? "Forwarded: " : "X-Forwarded-For: ");
	for (size_t i = chain->count; i > 0; i--) {
		const char *hop = chain->hops[i - 1];
		bool is_ipv6 = strchr(hop, ':') && !strchr(hop, '.');
		if (is_forwarded)
			fields += sprintf(fields, is_ipv6 ? "for=\"[%s]\"" : "for=\"%s\"", hop);
		else
			fields += sprintf(fields, "%s", hop);
		fields += sprintf(fields, i > 1 ? "," : "\n");
	}
}

/* Chains are made up and written in either header; the caller is known from how they were made. */
static void random_chains(void **state)
{
	struct conf_cidrs trusted = trusted_list();
	struct forwarded_peer peer = peer_at("10.0.0.1", &trusted);
	struct random random = random_begin("chains");

	(void)state;
	for (unsigned round = 0; round < 50000; round++) {
		struct chain chain = random_chain(&random);
		bool is_forwarded = random_below(&random, 2);
		const char *expected = caller_of(&chain, "10.0.0.1", is_forwarded ? 32 : 40);
		char fields[2048], text[FORWARDED_ADDRESS_BYTES];
		struct http_head head;
		uint8_t caller[16];
		write_chain(&chain, is_forwarded, fields);
		head_of(&head, fields);
		forwarded_caller(&head, &peer, &trusted, caller);
		text[forwarded_address_text(caller, text)] = '\0';
		if (strcmp(text, expected) != 0)
			fail_msg("round %u: %s: %s, not %s", round, fields, text, expected);
	}
}

/* ---- composing ------------------------------------------------------------------------------ */

static const char *composed(struct http_out *out, char *buffer)
{
	*out->at = '\0';
	*out = http_out_over(buffer, 199);
	return buffer;
}

static const char *forwarded_of(const char *fields, char *buffer, size_t capacity)
{
	struct conf_cidrs trusted = trusted_list();
	struct forwarded_peer proxy = peer_at("2001:db8::1", &trusted);
	struct http_out out = http_out_over(buffer, capacity - 1);
	struct http_head head;

	head_of(&head, fields);
	forwarded_append_forwarded(&out, &head, &proxy, SLICE("h"), false);
	assert_false(out.overflow);
	*out.at = '\0';
	return buffer;
}

/* Lines beyond the nearest 32 hops are left out, as hops of a line are. */
static void hops_of_all_lines_have_one_bound(void **state)
{
	struct conf_cidrs trusted = trusted_list();
	struct forwarded_peer proxy = peer_at("10.0.0.1", &trusted);
	char fields[2000], expected[2000], list[2000];
	size_t len = 0, wanted = 0;
	struct http_head head;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		len += (size_t)snprintf(fields + len, sizeof(fields) - len,
			"Forwarded: for=192.0.2.%u, for=198.51.100.%u\n", i, i);
	for (unsigned i = 4; i < 20; i++)
		wanted += (size_t)snprintf(expected + wanted, sizeof(expected) - wanted,
			"192.0.2.%u, 198.51.100.%u, ", i, i);
	snprintf(expected + wanted, sizeof(expected) - wanted, "10.0.0.1");
	struct http_out out = http_out_over(list, sizeof(list) - 1);
	head_of(&head, fields);
	forwarded_append_for(&out, &head, &proxy);
	assert_false(out.overflow);
	*out.at = '\0';
	assert_string_equal(list, expected);
}

/* Both dialects tell of the same hops. */
static void one_view(void **state)
{
#define OURS "for=\"[2001:db8::1]\";host=h;proto=http"
	static const struct {
		const char *fields, *forwarded;
	} cases[] = {
		{"", OURS},
		{"X-Forwarded-For: 1.1.1.1\nX-Forwarded-Proto: https\nX-Forwarded-Host: a:80\n",
			"for=1.1.1.1;host=\"a:80\";proto=https, " OURS},
		{"X-Forwarded-For: 1.1.1.1:99, junk, 2001:db9::1\n",
			"for=1.1.1.1, for=unknown, for=\"[2001:db9::1]\", " OURS},
		{"X-Forwarded-For: 1.1.1.1\nForwarded: for=2.2.2.2;proto=http\n",
			"for=1.1.1.1, " OURS},
		{"Forwarded: for=2.2.2.2;proto=https\n", "for=2.2.2.2;proto=https, " OURS},
		{"X-Forwarded-Proto: https, http\n", "for=unknown;proto=https, " OURS},
		{"X-Forwarded-Host: a\nForwarded: for=\"\n", "for=unknown;host=a, " OURS},
		{"X-Forwarded-Proto:\nX-Forwarded-Host: ,\n", OURS},
		{"Forwarded: for=2.2.2.2;=\n", OURS},
		{"Forwarded: for=\"2.2.2.2\n", OURS},
		{"Forwarded: for=2.2.2.2\nForwarded: for=\"\n", OURS},
	};
	char buffer[8192], many[4000] = "X-Forwarded-For: x";

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			forwarded_of(cases[i].fields, buffer, sizeof(buffer)), cases[i].forwarded);
	/* What a client can make grow has an end. */
	for (unsigned i = 0; i < 1000; i++)
		strcat(many, ",a");
	strcat(many, "\n");
	assert_true(strlen(forwarded_of(many, buffer, sizeof(buffer))) < 1000);
}

static void composing(void **state)
{
	struct conf_cidrs trusted = trusted_list();
	struct forwarded_peer stranger = peer_at("203.0.113.1", &trusted);
	struct forwarded_peer proxy = peer_at("2001:db8::1", &trusted);
	struct http_head head;
	char buffer[200];
	struct http_out out = http_out_over(buffer, 199);

	(void)state;
	head_of(&head, "X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: 10.0.0.2\n"
		       "X-Forwarded-Proto: https\nX-Forwarded-Host: a.b\nVia: 1.0 x\n"
		       "Forwarded: for=1.1.1.1\n");
	forwarded_append_for(&out, &head, &stranger);
	assert_string_equal(composed(&out, buffer), "203.0.113.1");
	forwarded_append_for(&out, &head, &proxy);
	assert_string_equal(composed(&out, buffer), "1.1.1.1, 10.0.0.2, 2001:db8::1");
	forwarded_append_proto(&out, &head, &stranger, &trusted, false);
	assert_string_equal(composed(&out, buffer), "http");
	forwarded_append_proto(&out, &head, &proxy, &trusted, false);
	assert_string_equal(composed(&out, buffer), "https");
	forwarded_append_host(&out, &head, &stranger, &trusted, SLICE("c.d:80"));
	assert_string_equal(composed(&out, buffer), "c.d:80");
	forwarded_append_host(&out, &head, &proxy, &trusted, SLICE("c.d:80"));
	assert_string_equal(composed(&out, buffer), "a.b");
	forwarded_append_forwarded(&out, &head, &stranger, SLICE("c.d"), true);
	assert_string_equal(composed(&out, buffer), "for=203.0.113.1;host=c.d;proto=https");
	forwarded_append_forwarded(&out, &head, &proxy, SLICE("c.d:80"), false);
	assert_string_equal(composed(&out, buffer),
		"for=1.1.1.1;host=a.b;proto=https, for=10.0.0.2, "
		"for=\"[2001:db8::1]\";host=\"c.d:80\";proto=http");
	forwarded_append_via(&out, &head, SLICE("sluice"));
	assert_string_equal(composed(&out, buffer), "1.0 x, 1.1 sluice");
	out.end = out.at + 5;
	forwarded_append_via(&out, &head, SLICE("sluice"));
	assert_true(out.overflow);
}

/* Which protocol the client spoke, where only Forwarded says so. */
static void protocols(void **state)
{
	static const struct {
		const char *fields, *expected;
	} cases[] = {
		{"", "http"},
		{"Forwarded: for=1.2.3.4;proto=https\n", "https"},
		{"Forwarded: for=1.2.3.4;proto=HTTPS;host=a\n", "https"},
		{"Forwarded: for=1.2.3.4;Proto=\"https\"\n", "https"},
		{"Forwarded: for=1.2.3.4\n", "http"},
		{"Forwarded: for=1.2.3.4;proto=ftp\n", "http"},
		{"Forwarded: proto=https\n", "https"},
		{"Forwarded: for=unknown;proto=https\n", "https"},
		/* the farthest that is believed: a trusted proxy wrote it */
		{"Forwarded: for=1.2.3.4;proto=https, for=10.0.0.2;proto=http\n", "https"},
		{"Forwarded: for=1.2.3.4;proto=https\nForwarded: for=10.0.0.2;proto=http\n",
			"https"},
		{"Forwarded: for=1.2.3.4, for=10.0.0.2;proto=https\n", "https"},
		/* what a stranger wrote is not */
		{"Forwarded: for=6.6.6.6;proto=https, for=1.2.3.4;proto=http\n", "http"},
		{"Forwarded: for=6.6.6.6;proto=http, for=1.2.3.4;proto=https\n", "https"},
		{"Forwarded: proto=https;proto=http\n", "http"},
		{"Forwarded: proto=\"https\n", "http"},
		/* X-Forwarded-* go first; proxies that maintain them pass Forwarded on as it came
		 */
		{"Forwarded: proto=https\nX-Forwarded-Proto: http\n", "http"},
		{"Forwarded: proto=https\nX-Forwarded-For: 1.2.3.4\n", "http"},
	};
	struct conf_cidrs trusted = trusted_list();
	struct forwarded_peer stranger = peer_at("203.0.113.1", &trusted);
	struct forwarded_peer proxy = peer_at("10.0.0.1", &trusted);
	struct http_head head;
	char buffer[200];
	struct http_out out = http_out_over(buffer, 199);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		head_of(&head, cases[i].fields);
		forwarded_append_proto(&out, &head, &proxy, &trusted, false);
		const char *found = composed(&out, buffer);
		if (strcmp(found, cases[i].expected) != 0)
			fail_msg("%s: %s", cases[i].fields, found);
		forwarded_append_proto(&out, &head, &stranger, &trusted, true);
		assert_string_equal(composed(&out, buffer), "https");
	}
}

/* What a trusted proxy says in Forwarded only is said in the other dialect, too; the host and port
 * are those of the client's URL. */
static void the_other_dialect(void **state)
{
	static const struct {
		const char *fields, *list, *host, *port;
	} cases[] = {
		{"", "10.0.0.1", "h.test:81", "81"},
		{"Forwarded: for=1.2.3.4;proto=https;host=a.test\n", "1.2.3.4, 10.0.0.1", "a.test",
			"443"},
		{"Forwarded: for=\"1.2.3.4:99\";host=\"a.test:8443\";proto=https\n",
			"1.2.3.4, 10.0.0.1", "a.test:8443", "8443"},
		{"Forwarded: for=\"[2001:db9::1]:7\", for=_hidden, for=unknown;proto=http\n",
			"2001:db9::1, unknown, unknown, 10.0.0.1", "h.test:81", "81"},
		{"Forwarded: proto=https;by=_x, ;, for=\"\", for=1.2.3.4\n",
			"unknown, unknown, unknown, 1.2.3.4, 10.0.0.1", "h.test:81", "81"},
		{"Forwarded: for=1.2.3.4;host=x\nForwarded: for=10.0.0.2;host=y\n",
			"1.2.3.4, 10.0.0.2, 10.0.0.1", "x", "80"},
		/* A stranger's host is not believed, nor anything malformed. */
		{"Forwarded: for=6.6.6.6;host=x, for=1.2.3.4;host=y\n",
			"6.6.6.6, 1.2.3.4, 10.0.0.1", "y", "80"},
		{"Forwarded: for=1.2.3.4;host=\"x\\y\"\n", "1.2.3.4, 10.0.0.1", "h.test:81", "81"},
		{"Forwarded: for=1.2.3.4;=\n", "10.0.0.1", "h.test:81", "81"},
		{"Forwarded: for=1.2.3.4\nForwarded: for=\"\n", "10.0.0.1", "h.test:81", "81"},
		/* What is said in X-Forwarded-* goes first. */
		{"X-Forwarded-For: 5.5.5.5\nForwarded: for=1.2.3.4;host=x;proto=https\n",
			"5.5.5.5, 10.0.0.1", "h.test:81", "81"},
		{"X-Forwarded-Port: 8443\nX-Forwarded-Proto: https\n", "10.0.0.1", "h.test:81",
			"8443"},
		{"X-Forwarded-Port: 8443, 80\n", "10.0.0.1", "h.test:81", "8443"},
		{"X-Forwarded-Host: a.test\nX-Forwarded-Proto: https\n", "10.0.0.1", "a.test",
			"443"},
		{"X-Forwarded-Host: a.test\nX-Forwarded-Proto: wss, http\n", "10.0.0.1", "a.test",
			"443"},
		{"X-Forwarded-Host: [2001:db9::1]\n", "10.0.0.1", "[2001:db9::1]", "80"},
		{"X-Forwarded-Host: [2001:db9::1]:82, b\n", "10.0.0.1", "[2001:db9::1]:82, b",
			"82"},
		{"X-Forwarded-Port: 0\n", "10.0.0.1", "h.test:81", "81"},
		{"X-Forwarded-Port: 65536\n", "10.0.0.1", "h.test:81", "81"},
		{"X-Forwarded-Port: x\n", "10.0.0.1", "h.test:81", "81"},
	};
	struct conf_cidrs trusted = trusted_list();
	struct forwarded_peer stranger = peer_at("203.0.113.1", &trusted);
	struct forwarded_peer proxy = peer_at("10.0.0.1", &trusted);
	struct slice host = SLICE("h.test:81");
	struct http_head head;
	char buffer[200];
	struct http_out out = http_out_over(buffer, 199);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		head_of(&head, cases[i].fields);
		forwarded_append_for(&out, &head, &proxy);
		assert_string_equal(composed(&out, buffer), cases[i].list);
		forwarded_append_host(&out, &head, &proxy, &trusted, host);
		assert_string_equal(composed(&out, buffer), cases[i].host);
		forwarded_append_port(&out, &head, &proxy, &trusted, host, false);
		assert_string_equal(composed(&out, buffer), cases[i].port);
		forwarded_append_for(&out, &head, &stranger);
		assert_string_equal(composed(&out, buffer), "203.0.113.1");
		forwarded_append_port(&out, &head, &stranger, &trusted, host, true);
		assert_string_equal(composed(&out, buffer), "81");
		forwarded_append_port(&out, &head, &stranger, &trusted, SLICE("h"), true);
		assert_string_equal(composed(&out, buffer), "443");
	}
}

UNIT_SUITE(test_forwarded)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers),
		cmocka_unit_test(texts),
		cmocka_unit_test(unix_peers),
		cmocka_unit_test(walks),
		cmocka_unit_test(random_chains),
		cmocka_unit_test(one_view),
		cmocka_unit_test(hops_of_all_lines_have_one_bound),
		cmocka_unit_test(composing),
		cmocka_unit_test(protocols),
		cmocka_unit_test(the_other_dialect),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
