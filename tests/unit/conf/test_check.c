/* What only the whole file shows: sections, references, keys that need or exclude each other. */
#include "config.h"

#include "text.h"
#include "tests/unit/suite.h"

static void sections(void **state)
{
	(void)state;
	parse_bad(TEXT_BASE "[limt x]\n", 10, "did you mean [limit NAME]?");
	parse_bad(TEXT_BASE "[nothing]\n", 10, "expected sluice, admin, listener");
	parse_bad(TEXT_BASE "[]\n", 10, "unknown section []");
	parse_bad(TEXT_BASE "[sluice x]\n", 10, "has a name; expected [sluice]");
	parse_bad(TEXT_BASE "[limit]\nrate = 1 per 1s\n", 10, "has no name");
	parse_bad(TEXT_BASE "[limit a/b]\nrate = 1 per 1s\n", 10, "can't be one");
	parse_bad(TEXT_BASE "[limit base]\nrate = 1 per 1s\n", 10, "the first is in line 5");
	parse_bad(TEXT_BASE "[sluice]\n[sluice]\n", 11, "the first is in line 10");
	parse_bad(TEXT_BASE "[limit plan]\nrate = 1 per 1s\n", 10, "expected another");
	parse_bad("a = b\n" TEXT_BASE, 1, "precedes every section; expected [section] first");
	parse_bad("workers = 1\n" TEXT_BASE, 1,
		"workers = 1 precedes every section; expected [sluice] first");
	parse_bad("queue_depth = 1\n" TEXT_BASE, 1, "expected [route NAME] first");
	/* inih would have cut both to the same. */
	conf_release(parse_good(
		TEXT_BASE "[limit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1]\n"
			  "rate = 1 per 1s\n"
			  "[limit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2]\n"
			  "rate = 1 per 1s\n"));
}

static void keys_of_sections(void **state)
{
	(void)state;
	bad("sluice", "rate = 1 per 1s", "it belongs in [limit NAME]");
	bad("sluice", "bind = 127.0.0.1:3", "it belongs in [admin] or [listener NAME]");
	bad("sluice", "weight = 1", "it belongs in [plan NAME]");
	bad("sluice", "wrokers = 1", "did you mean \"workers\"?");
	bad("sluice", "colour = red", "unknown key; expected one that");
	bad("sluice", "workers", "invalid setting");
	parse_bad(TEXT_BASE "[sluice]\nworkers = 1\nworkers = 2\n", 12, "the first is in line 11");
	parse_bad(TEXT_BASE "[admin]\n", 10, "has no bind");
	parse_bad(TEXT_BASE "[listener m]\n", 10, "has no bind");
	parse_bad(TEXT_BASE "[upstream v]\n", 10, "has no server");
	parse_bad(TEXT_BASE "[limit m]\n", 10, "has no rate");
	parse_bad(TEXT_BASE "[route r]\n", 10, "has no upstream; expected upstream = NAME");
}

/* What a slip leaves out is not told to be missing as well. */
static void one_error_a_cause(void **state)
{
	static const char rest[] = "[upstream u]\nserver = a:1\n";
	struct conf_errors errors;

	(void)state;
	bad_text(1, "has no \"]\"", "[listener l\nbind = 127.0.0.1:1\n%s[route r]\nupstream = u\n",
		rest);
	parse_bad(TEXT_BASE "[\n", 10, "has no \"]\"");
	bad_text(1, "did you mean [listener NAME]?",
		"[listner l]\nbind = 127.0.0.1:1\n%s[route r]\nupstream = u\n", rest);
	bad_text(5, "has a name that can't be one",
		"[listener l]\nbind = 127.0.0.1:1\n%s[route a/b]\nupstream = u\n", rest);
	bad_text(5, "byte 0x01", "[listener l]\nbind = 127.0.0.1:1\n%s[route \1]\nupstream = u\n",
		rest);
	parse_bad(TEXT_BASE "[listener m]\nBind = 127.0.0.1:3\n", 11, "did you mean \"bind\"?");
	parse_bad(TEXT_BASE "[listener m]\nbind: 127.0.0.1:3\n", 11, "invalid setting");
	parse_bad(TEXT_BASE "[limit m]\nRate = 1 per 1s\n", 11, "did you mean \"rate\"?");
	parse_bad(TEXT_BASE "[limit m]\nconcurency = 1\n", 11, "did you mean \"concurrency\"?");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan p]\ncaller = file:x\n", 13,
		"did you mean \"callers\"?");

	/* A slip in another key is another cause. */
	char *text = text_with("listener m", "backlok = 1");
	assert_null(conf_parse(text, strlen(text), "t", NULL, &errors));
	assert_int_equal(errors.count, 2);
	conf_errors_free(&errors);
	free(text);
}

/* What the library would refuse at the start is refused here. */
static void limits_that_cannot_be_kept(void **state)
{
	(void)state;
	parse_bad(TEXT_BASE "[limit m]\nrate = 5k per 1s\nprecision = exact\n", 12,
		"[limit m] precision: exact remembers each of at most 4095, the rate has 5000; "
		"expected a number of times, 1 to 4095, or auto");
	conf_release(parse_good(TEXT_BASE "[limit m]\nrate = 4095 per 1s\nprecision = exact\n"));
	bad("limit m", "concurrency = 8192", "out of bounds; expected 1 to 8191");
	bad("limit m", "precision = 4096\nrate = 1 per 1s", "out of bounds; expected 1 to 4095");
	/* 64 characters are a section's name, but no limit's */
	parse_bad(TEXT_BASE
		"[limit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n"
		"rate = 1 per 1s\n",
		10, "too long; expected at most 63 and 47 characters");
	/* Counted in larger units, with its burst: nothing is wrong with it. */
	conf_release(parse_good(TEXT_BASE "[limit m]\nrate = 10GB per 1s\nalgorithm = gcra\n"));
	conf_release(parse_good(TEXT_BASE "[limit m]\nrate = 1125899GB per 366d\n"));
	/* One error a cause. */
	parse_bad(TEXT_BASE "[limit m]\nrate = 0 per 1s\nprecision = exact\n", 11, "out of bounds");
}

/* A cost that can never be admitted is a mistake, not a route that refuses everybody. */
static void costs_that_never_fit(void **state)
{
	static const char route[] = "[route r]\nupstream = u\nlimits = m\ncost = 5\n";
	static const struct {
		const char *limit;
		bool fits;
	} some[] = {
		{"rate = 5 per 1s", true},
		{"rate = 4 per 1s", false},
		{"rate = 4 per day", false},
		{"rate = 4 per 1s\nalgorithm = gcra\nburst = 5", true},
		{"rate = 9 per 1s\nalgorithm = gcra\nburst = 4", false},
		{"rate = 4 per 1s\nmode = shadow", true},
		{"rate = 4B per 1s", true},
		{"concurrency = 4", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		char *text = NULL;
		assert_true(
			asprintf(&text, TEXT_BASE "%s[limit m]\n%s\n", route, some[i].limit) > 0);
		if (some[i].fits)
			conf_release(parse_good(text));
		else
			parse_bad(text, 13,
				"[route r] cost: 5 never fits in [limit m], which has 4; expected "
				"at most "
				"that");
		free(text);
	}
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan default]\nlimits = m\n"
			    "[route r]\nupstream = u\nlimits = plan\ncost = 5\n"
			    "[limit m]\nrate = 4 per 1s\n",
		17, "cost: 5 never fits in [limit m]");
}

static void former_names(void **state)
{
	(void)state;
	conf_release(parse_good(TEXT_BASE "[route r]\nupstream = u\nlimits = m\n"
					  "[limit m]\nrate = 4 per 1s\nwas = n\n"));
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = m\n"
			    "[limit n]\nrate = 4 per 1s\n"
			    "[limit m]\nrate = 4 per 1s\nwas = n\n",
		17, "[limit m] was: [limit n] is there; expected the name that this one had");
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = m\n"
			    "[limit n]\nrate = 4 per 1s\nwas = o\n"
			    "[limit m]\nrate = 4 per 1s\nwas = o\n",
		18, "[limit m] was: [limit n] was that; expected the name that this one had");
}

/* Writes [limit l1] to [limit lN], and their names in a list. */
static size_t write_limits(char *text, char *names, unsigned count)
{
	size_t at = 0, name_at = 0;

	for (unsigned i = 1; i <= count; i++) {
		at += (size_t)sprintf(text + at, "[limit l%u]\nrate = 1 per 1s\n", i);
		name_at += (size_t)sprintf(names + name_at, "%sl%u", i > 1 ? ", " : "", i);
	}
	return at;
}

static void too_many_limits(void **state)
{
	static char text[100000], names[10000];
	char *end = text + sprintf(text, "%s", TEXT_BASE);

	(void)state;
	end += write_limits(end, names, 17);
	sprintf(end, "[route r]\nupstream = u\nlimits = %s\n", names);
	parse_bad(text, 46, "[route r] limits: there are 17; expected at most 16");

	end = text + sprintf(text, "%s", TEXT_BASE);
	end += write_limits(end, names, 9);
	end += sprintf(
		end, "[plans]\nkey = ip\n[route r]\nupstream = u\nlimits = plan, %s\n", names);
	/* Those that stand in both count once. */
	end += sprintf(end, "[plan default]\nlimits = base, l1, l2\n");
	conf_release(parse_good(text));
	end = strstr(text, "[plan default]");
	end += sprintf(end, "[plan default]\nlimits = base, l1");
	for (unsigned i = 10; i <= 17; i++)
		end += sprintf(end, ", l%u", i);
	end += sprintf(end, "\n");
	for (unsigned i = 10; i <= 17; i++)
		end += sprintf(end, "[limit l%u]\nrate = 1 per 1s\n", i);
	parse_bad(text, 32,
		"[route r] limits: there are 18 with those of [plan default]; expected at most 16 "
		"together");

	end = text + sprintf(text, "%s", TEXT_BASE);
	write_limits(end, names, 1024);
	parse_bad(text, 10 + 2 * 1023, "there are 1025 limits; expected at most 1024");
}

static void nothing_to_do(void **state)
{
	(void)state;
	parse_bad("", 0, "the file is empty");
	parse_bad("# nothing\n", 0, "the file is empty");
	parse_bad("[upstream u]\nserver = a:1\n[route r]\nupstream = u\n", 0, "no [listener NAME]");
	parse_bad("[listener l]\nbind = 1.1.1.1:1\n", 0, "no [route NAME]");
}

static void references(void **state)
{
	(void)state;
	bad("route r", "upstream = v", "there is no [upstream v]; expected the name of one");
	parse_bad(TEXT_BASE "[upstream vault]\nserver = a:1\n[route r]\nupstream = valut\n", 13,
		"did you mean \"vault\"?");
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = bsae\n", 12,
		"there is no [limit bsae], did you mean \"base\"?");
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = base\nlimits = base\n", 13,
		"\"base\" is given twice");
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = plan\n", 12,
		"has no effect without [plans]");
}

static void too_many_servers(void **state)
{
	char text[4096] = TEXT_BASE "[upstream v]\n";
	size_t at = strlen(text);
	unsigned line = 10;

	(void)state;
	for (int i = 0; i < 65; i++, line++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "server = a:%d\n", i + 1);
	parse_bad(text, line, "the upstream has 64 servers already; expected no more");
}

static void exclusions(void **state)
{
	(void)state;
	parse_bad(TEXT_BASE "[limit m]\nrate = 1 per 1s\nconcurrency = 1\n", 12,
		"the limit has a rate too, in line 11");
	parse_bad(TEXT_BASE "[limit m]\nconcurrency = 1\nalgorithm = gcra\n", 12,
		"algorithm: it has no effect with concurrency");
	parse_bad(TEXT_BASE "[limit m]\nconcurrency = 1\non_exceed = delay 1s\n", 12, "on_exceed");
	parse_bad(TEXT_BASE "[limit m]\nrate = 1 per day\nalgorithm = gcra\n", 12,
		"a rate by the calendar");
	parse_bad(TEXT_BASE "[limit m]\nrate = 1 per day\nprecision = 5\n", 12, "precision");
	parse_bad(TEXT_BASE "[upstream v]\nserver = a:1\nhash_key = ip\n", 12, "balance = hash");
	parse_bad(TEXT_BASE "[upstream v]\nserver = a:1\nmax_in_flight_floor = 2000\n", 12,
		"is above the ceiling");
	parse_bad(TEXT_BASE "[upstream v]\nserver = a:1\nfail_timeout = 2m\n", 12,
		"above fail_timeout_max");
	parse_bad(TEXT_BASE "[upstream v]\nserver = a:1\nserver = a:1 weight=2\n", 12,
		"the first is in line 11");
	parse_bad(TEXT_BASE "[listener m]\nbind = 127.0.0.1:1\n", 11,
		"the first is in line 2, in [listener l]");
	parse_bad(TEXT_BASE "[admin]\nbind = 127.0.0.1:1\n", 11, "the first is in line 2");
}

#define CONNECTIONS "[limit m]\nunit = connections\n"

/* Limits of connections know an address only, and are for listeners. */
static void limits_of_connections(void **state)
{
	(void)state;
	parse_bad(TEXT_BASE CONNECTIONS "rate = 1MB per 1s\n", 12, "not their bytes");
	parse_bad(TEXT_BASE CONNECTIONS "rate = 1 per 1s\nkey = ip | header:X-Key\n", 13,
		"only the address is known of a connection; expected ip, ip/BITS or all");
	parse_bad(TEXT_BASE CONNECTIONS "rate = 1 per 1s\non_exceed = delay 1s\n", 13,
		"connections are not delayed");
	parse_bad(TEXT_BASE CONNECTIONS "rate = 1 per 1s\nscope = fleet\n", 13,
		"connections are counted by each node for itself");
	parse_bad(TEXT_BASE CONNECTIONS "rate = 1 per 1s\nwhen = b\n[match a]\nall = method = GET\n"
					"[match b]\nall = ip in 10.0.0.0/8\nany = !a\n",
		13, "when: [match b] tests more than the address");
	parse_bad(TEXT_BASE "limits = m\n" CONNECTIONS "rate = 1 per 1s\n", 10,
		"limits: [limit m] counts connections; expected a limit of requests");
	parse_bad(TEXT_BASE "[listener m]\nbind = 127.0.0.1:9\nlimits = base\n", 12,
		"limits: [limit base] counts requests; expected a limit of connections");
}

static void proxies(void **state)
{
	(void)state;
	parse_bad(TEXT_BASE "[listener m]\nbind = 127.0.0.1:9\nproxy_protocol = required\n", 12,
		"proxy_protocol: has no effect without trusted_proxies = NETWORKS; expected that "
		"as "
		"well");
	parse_bad(TEXT_BASE "[upstream p]\nserver = 127.0.0.1:9\nsend_proxy = v2\n[route p]\n"
			    "upstream = p\npath = /p\nupstream_affinity = session\n",
		16, "upstream_affinity: with send_proxy a connection of [upstream p]");
}

/* An operator's interface that other machines reach needs tokens. */
static void admin(void **state)
{
	static const char *const far[] = {
		"0.0.0.0:9", "[::]:9", "10.0.0.1:9", "[::ffff:127.0.0.1]:9", "126.255.255.255:9"};
	static const char *const near[] = {
		"127.0.0.1:9", "127.255.0.1:9", "[::1]:9", "unix:/run/a.sock"};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		snprintf(text, sizeof(text), TEXT_BASE "[admin]\nbind = %s\n", far[i]);
		parse_bad(text, 11, "can be reached by other machines; expected a token");
		snprintf(text, sizeof(text), TEXT_BASE "[admin]\nbind = %s\ntoken = file:t\n",
			far[i]);
		conf_release(parse_good(text));
	}
	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		snprintf(text, sizeof(text), TEXT_BASE "[admin]\nbind = %s\n", near[i]);
		conf_release(parse_good(text));
	}
	parse_bad(TEXT_BASE "[admin]\nbind = systemd:x\n", 11, "is not possible here");
	parse_bad(TEXT_BASE "[admin]\nbind = 127.0.0.1:9\ntoken = secret\n", 12,
		"a secret belongs in a file of its own; expected file:PATH");
	const struct conf *conf = parse_good(
		TEXT_BASE "[admin]\nbind = 127.0.0.1:9, [::1]:9\nbind = unix:/run/a.sock\n");
	assert_int_equal(conf->admin.bind_count, 3);
	conf_release(conf);
}

static void plans(void **state)
{
	const struct conf *conf = parse_good(
		TEXT_BASE "[limit m]\nrate = 1 per 1s\nkey = path\n"
			  "[plans]\nkey = header:K\n[plan gold]\nlimits = m\nlane = high\n"
			  "callers = file:gold.keys\n[plan default]\nlimits = base\n"
			  "[route a]\npath = /a\nupstream = u\nlimits = m\nlimits = plan, base\n"
			  "[route b]\npath = /bb\nupstream = u\nlimits = plan\n");
	const struct conf_route *a = &conf->routes[2], *b = &conf->routes[1];

	(void)state;
	assert_string_equal(conf->plans[0].name, "gold");
	assert_int_equal(conf->plans[0].lane, CONF_LANE_HIGH);
	assert_ptr_equal(conf->plans[0].limits.items[0], &conf->limits[1]);
	assert_ptr_equal(conf->default_plan, &conf->plans[1]);
	assert_string_equal(a->name, "a");
	assert_true(a->limits.plan);
	assert_int_equal(a->limits.plan_position, 1);
	assert_int_equal(a->limits.count, 2);
	assert_string_equal(a->sessions.key->text, "path");
	assert_int_equal(b->limits.count, 0);
	assert_string_equal(b->sessions.key->text, "header:K");
	conf_release(conf);

	parse_bad(TEXT_BASE "[plan gold]\ncallers = file:k\n", 10, "has no effect without [plans]");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n", 10, "has no effect without a plan");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan gold]\n", 12, "has no callers");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan default]\ncallers = file:k\n", 13,
		"for callers on no list");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan gold]\ncallers = gold.keys\n", 13,
		"expected file:PATH");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan default]\nlimits = plan\n", 13,
		"there is no [limit plan]");
}

/* So many sections are found again by their names, and those that are there twice are reported. */
static void many_sections(void **state)
{
	enum { MANY = 25000 };
	size_t room = (size_t)MANY * 120, used = 0;
	char *text = malloc(room);
	const struct conf *conf;

	(void)state;
	used += (size_t)snprintf(text, room, "%s", TEXT_BASE);
	for (unsigned i = 0; i < MANY; i++)
		used += (size_t)snprintf(text + used, room - used,
			"[upstream u%u]\nserver = 127.0.0.1:2\n[route r%u]\npath = /%u\nupstream = "
			"u%u\n",
			i, i, i, i);
	conf = parse_good(text);
	assert_int_equal(conf->route_count, MANY + 1);
	for (size_t i = 0; i < conf->route_count; i++)
		if (conf->routes[i].name[0] == 'r')
			assert_string_equal(
				conf->routes[i].upstream->name + 1, conf->routes[i].name + 1);
	conf_release(conf);
	snprintf(text + used, room - used, "[upstream u17]\nserver = 127.0.0.1:3\n");
	parse_bad(text, 10 + 5 * MANY, "the first is in line 95");
	free(text);
}

/* Of each address the first in the file is named, wherever the others stand. */
static void binds_twice(void **state)
{
	struct conf_errors errors;
	const char *text =
		TEXT_BASE "[listener b]\nbind = 127.0.0.1:9\nbind = unix:/s\n"
			  "[listener c]\nbind = 127.0.0.1:9\nbind = 127.0.0.1:1, unix:/s\n"
			  "[listener d]\nbind = 127.0.0.1:9\n";
	static const char *const expected[] = {
		"t:14: [listener c] bind: 127.0.0.1:9 is given twice; the first is in line 11, "
		"in [listener b]",
		"t:15: [listener c] bind: 127.0.0.1:1 is given twice; the first is in line 2, "
		"in [listener l]",
		"t:15: [listener c] bind: unix:/s is given twice; the first is in line 12, in "
		"[listener b]",
		"t:17: [listener d] bind: 127.0.0.1:9 is given twice; the first is in line 11, "
		"in [listener b]",
	};

	(void)state;
	assert_null(conf_parse(text, strlen(text), "t", NULL, &errors));
	assert_int_equal(errors.count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(errors.items[i].text, expected[i]);
	conf_errors_free(&errors);
}

static void tls_between_nodes(void **state)
{
	(void)state;
#ifdef HAVE_REDIS
	static const char begin[] = "[fleet]\nstore = redis://h\n";
	static const char linked[] = "bind = 127.0.0.1:9\nsecret = ${TEST_SECRET}\n";
	setenv("TEST_SECRET", "0123456789abcdef", 1);
	bad_text(14,
		"certificate: nodes verify each other's; expected ca = FILE with the authorities "
		"that sign them",
		TEXT_BASE "%s%scertificate = /a.pem\n", begin, linked);
	bad_text(14, "ca: has no effect without certificate = FILE; expected that as well",
		TEXT_BASE "%s%sca = /a.pem\n", begin, linked);
	bad_text(14,
		"certificate_key: has no effect without certificate = FILE; expected that as well",
		TEXT_BASE "%s%scertificate_key = /a.pem\n", begin, linked);
	bad_text(12,
		"certificate: has no effect without bind = ADDRESS:PORT; expected that as well",
		TEXT_BASE "%scertificate = /a.pem\nca = /a.pem%s\n", begin, "");
	const struct conf *conf = parse_good(
		TEXT_BASE "[fleet]\nstore = redis://h\nbind = 127.0.0.1:9\n"
			  "secret = ${TEST_SECRET}\ncertificate = /a.pem\nca = /b.pem\n");
	const struct conf_listener *own = &conf->listeners[conf->listener_count - 1];
	assert_true(own->is_internal);
	assert_string_equal(own->tls.certificates.items[0], "/a.pem");
	assert_string_equal(own->tls.certificate_keys.items[0], "/a.pem");
	assert_string_equal(own->tls.client_ca, "/b.pem");
	assert_int_equal(own->tls.verify, CONF_VERIFY_REQUIRED);
	assert_int_equal(own->tls.versions, CONF_TLS_1_3);
	conf_release(conf);
#endif
}

static void shared_health_checks(void **state)
{
	(void)state;
#ifdef HAVE_REDIS
	bad_text(12,
		"health_shared: has no effect without health_path = PATH; expected that as well",
		TEXT_BASE "[upstream w]\nserver = 127.0.0.1:3\nhealth_shared = on\n%s",
		"[fleet]\nstore = redis://h\n");
#endif
	bad_text(12,
		"health_shared: on needs a store to share what is found; expected [fleet] with "
		"store = redis://HOST:PORT",
		TEXT_BASE "[upstream w]\nserver = 127.0.0.1:3\nhealth_shared = on\n%s",
		"health_path = /\n");
	conf_release(parse_good(TEXT_BASE "[upstream w]\nserver = 127.0.0.1:3\n"
					  "health_shared = off\n"));
}

UNIT_SUITE(test_check)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(former_names),
		cmocka_unit_test(many_sections),
		cmocka_unit_test(binds_twice),
		cmocka_unit_test(sections),
		cmocka_unit_test(keys_of_sections),
		cmocka_unit_test(one_error_a_cause),
		cmocka_unit_test(limits_that_cannot_be_kept),
		cmocka_unit_test(costs_that_never_fit),
		cmocka_unit_test(too_many_limits),
		cmocka_unit_test(nothing_to_do),
		cmocka_unit_test(references),
		cmocka_unit_test(too_many_servers),
		cmocka_unit_test(exclusions),
		cmocka_unit_test(limits_of_connections),
		cmocka_unit_test(proxies),
		cmocka_unit_test(admin),
		cmocka_unit_test(plans),
		cmocka_unit_test(tls_between_nodes),
		cmocka_unit_test(shared_health_checks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
