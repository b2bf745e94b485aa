#include "gate/identity.h"

#include "conf_of.h"
#include "http/forwarded.h"
#include "../http/head.h"
#include "tests/unit/suite.h"

static const struct throttle_seed seed = {0x0123456789abcdef, 0xfedcba9876543210};

/* A request with these fields, asked of one key expression. */
struct asked {
	const struct conf *conf;
	const struct conf_key *key;
	struct http_head head;
	struct identity_input input;
};

static struct asked *ask(const char *key, const char *address, const char *fields)
{
	static struct asked asked;
	char ini[512];

	if (asked.conf)
		conf_release(asked.conf);
	snprintf(ini, sizeof(ini),
		"[limit l]\nkey = %s\nrate = 1 per 1s\n[route r]\nupstream = u\nlimits = l\n", key);
	asked.conf = conf_of(ini);
	asked.key = asked.conf->limits[0].key;
	head_of(&asked.head, fields);
	asked.input = (struct identity_input){
		.head = &asked.head,
		.host = SLICE("h.example"),
		.path = SLICE("/a/b"),
		.query = SLICE("q=1&key=a%62+c&empty=&x;long2=3&keys=2"),
		.method = SLICE("GET"),
		.route = SLICE("r"),
	};
	assert_true(forwarded_address_parse(slice_of(address), asked.input.address));
	return &asked;
}

static bool same(struct throttle_key a, struct throttle_key b)
{
	return a.hi == b.hi && a.lo == b.lo;
}

/* Found once for two seeds, it is what each of them makes of it. */
static void is_the_same_twice(struct asked *asked, struct throttle_key found)
{
	const struct throttle_seed other_seed = {seed.k0 + 1, seed.k1 + 1};
	const struct key_alternative *by, *other_by;
	struct identity_input input = asked->input;
	struct throttle_key other;

	assert_true(same(
		identity_hash_twice(asked->key, &input, &seed, &other_seed, &other, &by), found));
	assert_int_equal(input.ambiguous, asked->input.ambiguous);
	assert_true(same(identity_hash_by(asked->key, &input, &other_seed, &other_by), other));
	assert_ptr_equal(by, other_by);
}

static struct throttle_key hash(const char *key, const char *address, const char *fields)
{
	struct asked *asked = ask(key, address, fields);
	const struct throttle_key found = identity_hash(asked->key, &asked->input, &seed);

	is_the_same_twice(asked, found);
	return found;
}

static const char *text(const char *key, const char *address, const char *fields)
{
	static char copy[IDENTITY_TEXT_BYTES + 1];
	char scratch[IDENTITY_TEXT_BYTES];
	struct asked *asked = ask(key, address, fields);
	struct slice found = identity_text(asked->key, &asked->input, scratch);

	snprintf(copy, sizeof(copy), "%.*s", SLICE_ARGS(found));
	return copy;
}

#define A "192.0.2.1"
#define B "192.0.2.2"

static void values(void **state)
{
	(void)state;
	assert_string_equal(text("header:X-Api-Key", A, "x-api-key: k\n"), "k");
	assert_string_equal(text("header:X-Api-Key", A, "X-Api-Key:\n"), A);
	assert_string_equal(text("header:A | header:B", A, "B: k\n"), "k");
	assert_string_equal(text("header:A + header:B", A, "A: a\nB: b\n"), "");
	assert_string_equal(text("header:A + header:B | header:B", A, "B: b\n"), "b");
	assert_string_equal(text("cookie:sid", A, "Cookie: a=b; sid=1; sid=2\n"), "1");
	assert_string_equal(text("cookie:sid", A, "Cookie: xsid=0;sid=\"q\"\n"), "q");
	assert_string_equal(text("cookie:sid", A, "Cookie: a\nCookie: sid=z\n"), "z");
	assert_string_equal(text("cookie:sid", A, "Cookie: sid=%7a%20+%2B%\n"), "z ++%");
	assert_string_equal(text("cookie:sid", A, "Cookie: sid=; SID=9\n"), A);
	assert_string_equal(text("query:key", A, ""), "ab c");
	assert_string_equal(text("query:empty", A, ""), A);
	assert_string_equal(text("query:none", A, ""), A);
	assert_string_equal(text("query:q", A, ""), "1");
	assert_string_equal(text("host", A, ""), "h.example");
	assert_string_equal(text("path", A, ""), "/a/b");
	assert_string_equal(text("method", A, ""), "GET");
	assert_string_equal(text("route", A, ""), "r");
	assert_string_equal(text("all", A, ""), "all");
	assert_string_equal(text("header:K | all", A, ""), "all");
	assert_string_equal(text("ip/24", A, ""), "192.0.2.0");
	assert_string_equal(text("ip/48", A, ""), A);
	assert_string_equal(text("ip/48", "2001:db8:1:2::3", ""), "2001:db8:1::");
	assert_string_equal(text("ip/61", "2001:db8:1:ffff::3", ""), "2001:db8:1:fff8::");
}

static void equal_callers(void **state)
{
	(void)state;
	assert_true(same(hash("ip", A, ""), hash("header:A", A, "")));
	assert_true(same(hash("ip", A, ""), hash("ip", "::ffff:" A, "")));
	assert_true(same(hash("ip/64", "2001:db8::1", ""), hash("ip/64", "2001:db8::2", "")));
	/* A key is one caller wherever it is put. */
	assert_true(
		same(hash("header:K | query:q", A, "K: 1\n"), hash("header:K | query:q", B, "")));
	assert_true(same(hash("query:key", A, ""), hash("header:K", A, "K: ab c\n")));
	assert_true(
		same(hash("header:A + path", A, "A: x\n"), hash("header:A + path", B, "A: x\n")));
}

static void different_callers(void **state)
{
	(void)state;
	assert_false(same(hash("ip", A, ""), hash("ip", B, "")));
	assert_false(same(hash("header:K", A, "K: x\n"), hash("header:K", A, "K: X\n")));
	assert_false(same(hash("header:A + header:B", A, "A: a\nB: bc\n"),
		hash("header:A + header:B", A, "A: ab\nB: c\n")));
	assert_false(
		same(hash("header:A + path", A, "A: x\n"), hash("path + header:A", A, "A: x\n")));
	/* A header that spells an address, as text or as bytes, is not the address. */
	assert_false(same(hash("header:K", B, "K: " A "\n"), hash("header:K", A, "")));
	assert_false(same(hash("ip/128", A, ""), hash("ip", A, "")));
	assert_false(same(hash("header:K", A, "K: r\n"), hash("route", A, "")));
	/* All are one caller, which no field spells. */
	assert_true(same(hash("all", A, ""), hash("header:K | all", B, "")));
	assert_false(same(hash("header:K", A, "K: all\n"), hash("all", A, "")));
}

static void overlong_values_are_whole(void **state)
{
	static char query[3][16384], fields[2][9000];
	struct asked *asked = ask("query:key", A, "");
	struct throttle_key hashes[3];

	(void)state;
	/* The same but for the last byte; and %XX all the way. */
	for (unsigned i = 0; i < 3; i++) {
		strcpy(query[i], "key=");
		for (unsigned j = 0; j < 4999; j++)
			strcat(query[i] + 4 + 3 * j, "%41");
		strcat(query[i], i == 0 ? "%42" : "%43");
		asked->input.query = slice_of(query[i]);
		hashes[i] = identity_hash(asked->key, &asked->input, &seed);
	}
	assert_false(same(hashes[0], hashes[1]));
	assert_true(same(hashes[1], hashes[2]));
	char scratch[IDENTITY_TEXT_BYTES];
	assert_null(identity_text(asked->key, &asked->input, scratch).at);

	for (unsigned i = 0; i < 2; i++) {
		size_t len = (size_t)sprintf(fields[i], "K: ");
		memset(fields[i] + len, 'x', 8000);
		fields[i][len + 8000] = (char)('0' + i);
	}
	assert_false(same(hash("header:K", A, fields[0]), hash("header:K", A, fields[1])));
}

static void more_parts_than_are_kept(void **state)
{
	const char *key = "header:A + path + host + method + route + header:B";

	(void)state;
	assert_false(same(hash(key, A, "A: 1\nB: 2\n"), hash(key, A, "A: 1\nB: 3\n")));
	assert_false(same(hash(key, A, "A: 1\nB: 2\n"), hash(key, A, "A: 2\nB: 2\n")));
	assert_true(same(hash(key, A, "A: 1\nB: 2\n"), hash(key, B, "B: 2\nA: 1\n")));
}

static bool by_text(const char *key, const char *value, struct throttle_key *found)
{
	struct asked *asked = ask(key, A, "");

	return identity_hash_text(asked->key, slice_of(value), &seed, found);
}

static void callers_by_text(void **state)
{
	struct throttle_key found;

	(void)state;
	assert_true(by_text("header:K | ip", "k", &found));
	assert_true(same(found, hash("header:K | ip", A, "K: k\n")));
	assert_true(by_text("header:K | ip", A, &found));
	assert_true(same(found, hash("header:K | ip", A, "")));
	assert_true(by_text("query:key", "ab c", &found));
	assert_true(same(found, hash("query:key", A, "")));
	assert_true(by_text("ip/64", "2001:db8::77", &found));
	assert_true(same(found, hash("ip/64", "2001:db8::1", "")));
	assert_true(by_text("header:K + path", B, &found));
	assert_true(same(found, hash("header:K + path", B, "")));
	assert_false(by_text("header:K + path", "k", &found));
	assert_false(by_text("ip", "k", &found));
}

/* With these fields and this query: may the server find another key than we do? */
static bool ambiguous(const char *key, const char *fields, const char *query)
{
	struct asked *asked = ask(key, A, fields);

	asked->input.query = slice_of(query);
	identity_hash(asked->key, &asked->input, &seed);
	return asked->input.ambiguous;
}

static void ambiguous_keys(void **state)
{
	static const char *const queries[] = {"key=1&key=2", "key=&key=2", "key=1&KEY=2", "KEY=2",
		"%6Bey=2", "key=1&k%65y=2", "key[]=2", "key%5b%5d=2", "key=1;x=2", "x=1;key=2",
		"key&key=2", "key", "key=1&key=1", "+key=2", "%20key=2", "key=1&%20%20+key=2"};
	static const char *const good[] = {"key=1", "a=2&key=1&b=3", "", "keys=1", "akey=2", "ke=y",
		"x=key=1", "a;b", "key=%6Bey", "%6=1"};

	(void)state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		if (!ambiguous("query:key", "", queries[i]))
			fail_msg("%s is taken", queries[i]);
		assert_false(ambiguous("query:other", "", queries[i]));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (ambiguous("query:key", "", good[i]))
			fail_msg("%s is refused", good[i]);
	}
	assert_true(ambiguous("header:K", "K: 1\nk: 2\n", ""));
	assert_true(ambiguous("header:K | ip", "K:\nk: 2\n", ""));
	assert_true(ambiguous("header:K", "K: 1\nK: 1\n", ""));
	assert_false(ambiguous("header:J", "K: 1\nK: 2\n", ""));
	assert_false(ambiguous("header:J | header:K", "J: 1\nK: 2\nK: 3\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid=1; sid=2\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid=1\nCookie: a=b; sid=2\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid=; sid=2\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: a=\"x; sid=1\"; sid=2\n", ""));
	assert_false(ambiguous("cookie:sid", "Cookie: sid=1; sid=\"1\"; a=2; a=3\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid = 1\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: a=b; sid =1\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid=1; sid= 2\n", ""));
	assert_false(ambiguous("cookie:sid", "Cookie: asid = 1; sid2 = 3; sid; =sid\n", ""));
	/* Cookies' names are case-sensitive. PHP finds a cookie by any of the names below; Python
	 * decodes a quoted value. */
	assert_false(ambiguous("cookie:sid", "Cookie: SID=1\n", ""));
	assert_false(ambiguous("cookie:sid", "Cookie: sid=1; Sid=2; S%49D=3\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: s%69d=1\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid[a]=1\n", ""));
	assert_true(ambiguous("cookie:s_id", "Cookie: s.id=1\n", ""));
	assert_true(ambiguous("cookie:sid", "Cookie: sid=\"\\141bc\"\n", ""));
	assert_false(ambiguous("cookie:sid", "Cookie: sid=a\\141bc\n", ""));
	assert_false(ambiguous(
		"cookie:sid", "Cookie: sid=%41+%2b; sids=1; xsid=2; a=sid; a[sid]=3\n", ""));
	assert_true(ambiguous("query:key", "", "key%00x=2"));
	assert_true(ambiguous("query:key", "", "key%00=2"));
	assert_false(ambiguous("query:key", "", "key%20=2&key%01=3"));
	assert_true(ambiguous("query:api_key", "", "api[key=2"));
	assert_true(ambiguous("query:api_key", "", "api.key=2"));
	assert_true(ambiguous("query:api_key", "", "api+key=2"));
	assert_false(ambiguous("query:api_key", "", "api-key=2&api_key=1"));
	assert_false(ambiguous("query:api.key", "", "api_key=2"));
	struct asked *asked = ask("header:K", A, "K: 1\n");
	asked->head.fields[0].hop = true;
	identity_hash(asked->key, &asked->input, &seed);
	assert_true(asked->input.ambiguous);
}

/* A long value, with a letter of it encoded, is the same caller. */
static void long_values(void **state)
{
	static const size_t lens[] = {IDENTITY_TEXT_BYTES - 2, IDENTITY_TEXT_BYTES - 1,
		IDENTITY_TEXT_BYTES, IDENTITY_TEXT_BYTES + 1, 3 * IDENTITY_TEXT_BYTES, 5000};
	static char plain[6000], encoded[6000];

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		char text[5001];
		memset(text, 'x', lens[i]);
		text[lens[i]] = '\0';
		snprintf(plain, sizeof(plain), "Cookie: sid=%s\n", text);
		snprintf(
			encoded, sizeof(encoded), "Cookie: sid=%.*s%%78\n", (int)lens[i] - 1, text);
		struct throttle_key one = hash("cookie:sid", A, plain);
		assert_true(same(one, hash("cookie:sid", A, encoded)));
		plain[12 + lens[i] - 1] = 'y';
		assert_false(same(one, hash("cookie:sid", A, plain)));
	}
}

static void credentials_in_base64(void **state)
{
	static const char *const good[] = {
		"Basic dXNlcjpwYXNzMQ==", "basic   dXNlcjpwYXNzMTI=", "BASIC dXNlcjpwYXNz",
		"Basic +/+/", "Bearer a-b_c.d", "Digest username=\"a\"", "dXNl", "Basics dXN",
		"Basi dXN", "Bearer eyJh.eyI.c2ln", "Bearer eyJh.eyI.c2k", "bearer ewog.e30.c2lnbg",
		"Bearer eyJh..c2ln.c2k.c2k", "Bearer eyJh.eyI", "Bearer eyJ+.e==", "Bearer eB.a.b",
		"Bearer xyJh.eyJ.c2l", "Bearers eyJh.eyI.c2l", "eyJh.eyI.c2l"};
	static const char *const wrong[] = {"Basic dXNlcjpwYXNzMQ",
		"Basic dXNlcjpwYXNzMQ=", "Basic dXNlcjpwYXNzMQ===", "Basic dXNlcjpwYXNzMR==",
		"basic dXNlcjpwYXNzMTJ=", "Basic dXNl cjpwYXNz", "Basic dXNl-jpwYXNz",
		"BASIC  dXNlcjpwYXNzMQ==A", "Basic ====",
		"Basic dX=="
		"lcjp",
		"Bearer eyJh.eyI.c2l", "bearer  eyJh.eyI.c2lnbh",
		"Bearer eyJh.eyI.c2ln=", "Bearer eyJh.eyI.c2+n", "Bearer eyJh.eyI.c2 ln",
		"Bearer eyJh.eyI.c2lnb", "Bearer eyJh.eyI.c2l.c2ln.c2ln", "Bearer ewog.e31.c2ln",
		"BEARER eyJh.eyI.c2ln\t="};
	char line[128];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(line, sizeof(line), "Authorization: %s\n", good[i]);
		if (ambiguous("header:Authorization", line, ""))
			fail_msg("%s is refused", good[i]);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(line, sizeof(line), "Authorization: %s\n", wrong[i]);
		if (!ambiguous("header:Authorization", line, ""))
			fail_msg("%s is taken", wrong[i]);
		assert_false(ambiguous("header:X-Key", line, ""));
	}
}

static void credentials_in_one_form(void **state)
{
	static char longer[2][3000];
	struct throttle_key one = hash("header:Authorization", A, "Authorization: Bearer aB\n"),
			    found;

	(void)state;
	assert_true(same(one, hash("header:Authorization", A, "Authorization: bearer aB\n")));
	assert_true(same(one, hash("header:Authorization", A, "Authorization: BEARER \t  aB\n")));
	assert_false(same(one, hash("header:Authorization", A, "Authorization: Bearer ab\n")));
	assert_false(same(one, hash("header:Authorization", A, "Authorization: Basic aB\n")));
	assert_false(same(hash("header:Authorization", A, "Authorization: aB\n"),
		hash("header:Authorization", A, "Authorization: Ab\n")));
	assert_false(same(hash("header:X-Key", A, "X-Key: Bearer aB\n"),
		hash("header:X-Key", A, "X-Key: bearer aB\n")));
	assert_string_equal(
		text("header:Authorization", A, "Authorization: bEARER  aB\n"), "Bearer aB");
	assert_true(by_text("header:Authorization", "bearer aB", &found));
	assert_true(same(found, one));
	for (unsigned i = 0; i < 2; i++) {
		memset(longer[i], 'x', sizeof(longer[i]) - 1);
		memcpy(longer[i], i ? "Authorization: bearer   " : "Authorization: Bearer ",
			i ? 24 : 22);
		longer[i][2022 + 2 * i] = '\0';
	}
	assert_true(same(hash("header:Authorization", A, longer[0]),
		hash("header:Authorization", A, longer[1])));
}

static void short_text(void **state)
{
	const struct throttle_key key = {1, 0x0123456789abcdef};
	struct throttle_key back;
	char out[IDENTITY_SHORT_BYTES];

	(void)state;
	identity_short(&key, out);
	assert_memory_equal(out, "0123456789abcdef", sizeof(out));
	assert_true(identity_of_short((struct slice){out, sizeof(out)}, &back));
	assert_int_equal(back.lo, key.lo);
	const char *const bad[] = {
		"", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", "0123456789abcde "};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(identity_of_short(slice_of(bad[i]), &back));
}

static void write_form(enum key_part_kind kind, char *out, size_t size)
{
	static const char *const arguments[] = {
		[KEY_PLAIN] = "", [KEY_NAMED] = ":k", [KEY_PREFIX] = "/64"};

	snprintf(out, size, "%s%s", key_forms[kind].word, arguments[key_forms[kind].argument]);
}

/* A request in which every form has the same value, but for those that are addresses. */
static struct throttle_key hash_alike(const char *key)
{
	struct asked *asked = ask(key, "2001:db8::1", "k: v\nCookie: k=v\n");
	struct slice value = SLICE("v");

	asked->input.host = asked->input.path = asked->input.method = asked->input.route = value;
	asked->input.scheme = value;
	struct tls_identity tls;
	for (unsigned i = 0; i < TLS_FACTS; i++)
		tls.facts[i] = value;
	asked->input.tls = &tls;
	asked->input.query = SLICE("k=v");
	return identity_hash(asked->key, &asked->input, &seed);
}

static bool is_text(unsigned kind)
{
	return kind == KEY_HEADER || kind == KEY_COOKIE || kind == KEY_QUERY;
}

/* Every form can be written and evaluated, and differs from each other one, alone and joined. */
static void each_form_is_of_its_own_class(void **state)
{
	struct throttle_key hashes[KEY_PART_KINDS][KEY_PART_KINDS + 1];
	char one[32], other[32], joined[80];

	(void)state;
	for (unsigned i = 0; i < KEY_PART_KINDS; i++) {
		write_form((enum key_part_kind)i, one, sizeof(one));
		assert_int_equal(ask(one, A, "")->key->alternatives[0].parts[0].kind, i);
		hashes[i][KEY_PART_KINDS] = hash_alike(one);
		for (unsigned j = 0; j < KEY_PART_KINDS; j++) {
			if (i == KEY_ALL || j == KEY_ALL) { /* joined with nothing */
				hashes[i][j] =
					(struct throttle_key){.hi = is_text(i) ? KEY_HEADER : i,
						.lo = is_text(j) ? KEY_HEADER : j};
				continue;
			}
			write_form((enum key_part_kind)j, other, sizeof(other));
			snprintf(joined, sizeof(joined), "%s + %s", one, other);
			hashes[i][j] = hash_alike(joined);
		}
	}
	struct throttle_key *all = &hashes[0][0];
	unsigned row = KEY_PART_KINDS + 1;
	for (unsigned a = 0; a < KEY_PART_KINDS * row; a++) {
		for (unsigned b = 0; b < a; b++) {
			unsigned a_then = a % row, b_then = b % row;
			bool alike =
				(a / row == b / row || (is_text(a / row) && is_text(b / row))) &&
				(a_then == b_then || (is_text(a_then) && is_text(b_then)));
			if (same(all[a], all[b]) != alike)
				fail_msg("%u + %u and %u + %u", a / row, a_then, b / row, b_then);
		}
	}
}

/* What a state folder holds is found by these: they never change. */
static void hashes_stay_as_they_are(void **state)
{
	static const struct {
		const char *key;
		struct throttle_key hash;
	} known[] = {
		{"ip", {0xda1a000516b659a1, 0x7c376bf26288bee6}},
		{"ip/64", {0xadbe2748fcf7d2de, 0x8a4786e8ed087daa}},
		{"header:k", {0x74f0936b364b33bd, 0x7cc77e3f1ee865c7}},
		{"query:k", {0x74f0936b364b33bd, 0x7cc77e3f1ee865c7}},
		{"host", {0x1d8eebd261144cb1, 0xc781ab7e0b5a73aa}},
		{"path", {0x194cd3c2f19bc1ef, 0xdeff638909c08269}},
		{"method", {0xc7f7907bbabc9665, 0x6aa8a03e0354e7c2}},
		{"route", {0x510789ca7bc76099, 0x4407f626bf6756ef}},
		{"header:k + path", {0x0fb998b237cf598a, 0x8a65dcbb5f49ab8e}},
		{"method + host + route", {0xee4a3b0b2497a438, 0x24f9366800efaa3f}},
		{"ip + header:k", {0x9cb5483ba3c3f7cd, 0xc6ed0caac8c14869}},
		{"ip/64 + route + path + method + host", {0xcf6f11be42efb717, 0x7dc0f5f7950601b6}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct throttle_key now = hash_alike(known[i].key);
		if (!same(now, known[i].hash))
			fail_msg("{\"%s\", {0x%016llx, 0x%016llx}},", known[i].key,
				(unsigned long long)now.hi, (unsigned long long)now.lo);
	}
}

static int end_asking(void **state)
{
	(void)state;
	conf_release(ask("ip", A, "")->conf);
	return 0;
}

UNIT_SUITE(test_identity)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(equal_callers),
		cmocka_unit_test(different_callers),
		cmocka_unit_test(overlong_values_are_whole),
		cmocka_unit_test(more_parts_than_are_kept),
		cmocka_unit_test(callers_by_text),
		cmocka_unit_test(ambiguous_keys),
		cmocka_unit_test(long_values),
		cmocka_unit_test(credentials_in_base64),
		cmocka_unit_test(credentials_in_one_form),
		cmocka_unit_test(short_text),
		cmocka_unit_test(each_form_is_of_its_own_class),
		cmocka_unit_test(hashes_stay_as_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, end_asking);
}
