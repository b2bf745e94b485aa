/* Matches against requests, and what conditions do to limits, plans, lists and routes. */
#include "gate/matches.h"

#include "gate/limit_sets.h"
#include "gate/route.h"
#include "gate_fixture.h"
#include "input_of.h"
#include "tests/unit/suite.h"

/* Does the test hold for a request with these fields? */
static bool holds_for(const char *test, const char *fields, void (*change)(struct identity_input *))
{
	char ini[1024];
	struct http_head head;

	snprintf(ini, sizeof(ini), "[route r]\nupstream = u\n[match m]\nall = %s\n", test);
	const struct conf *conf = conf_of(ini);
	struct match_table *table = match_table_new(conf);
	struct route_scratch *scratch = route_scratch_new();
	struct identity_input input = input_of(&head, "r", fields);
	input.scratch = scratch;
	if (change)
		change(&input);
	bool holds = matches_find(table, 1, &input) == 1;
	assert_int_equal(input.matches.known, 1);
	assert_false(input.matches.undecided);
	route_scratch_free(scratch);
	match_table_free(table);
	conf_release(conf);
	return holds;
}

static void fields(void **state)
{
	static const struct {
		const char *test, *fields;
		bool holds;
	} rows[] = {
		{"header:X-Key", "X-Key: a\n", true},
		{"header:x-key", "X-KEY: a\n", true},
		{"header:X-Key", "X-Key:\n", false},
		{"header:X-Key", "X-Keys: a\n", false},
		{"!header:X-Key", "", true},
		{"header:A = b, c", "A: c\n", true},
		{"header:A = b, c", "A: C\n", false},
		{"header:A = b, c", "A: b, c\n", false},
		{"header:A = b, c", "A: x\nA: b\n", true},
		{"!header:A = b", "A: x\nA: b\n", false},
		{"!header:A = b", "A: x\n", true},
		{"header:A ^= b, cd", "A: cde\n", true},
		{"header:A ^= b, cd", "A: c\n", false},
		{"header:A $= b, cd", "A: acd\n", true},
		{"header:A $= b, cd", "A: cda\n", false},
		{"header:User-Agent ~ (?i)bot|crawl", "User-Agent: GoogleBOT/2\n", true},
		{"header:User-Agent ~ ^curl/", "User-Agent: xcurl/1\n", false},
		{"cookie:sid = a", "Cookie: x=1; sid=a\n", true},
		{"cookie:sid = a", "Cookie: sid=b\nCookie: sid=\"a\"\n", true},
		{"cookie:sid = a", "Cookie: SID=a; xsid=a\n", false},
		{"cookie:sid = a b", "Cookie: sid=a%20b\n", true},
		{"cookie:sid = a", "Cookie: sid =a\n", true},
		{"cookie:sid = a", "Cookie: x=1; sid= \"a\"\n", true},
		{"cookie:sid = a", "Cookie: %73id=a\n", true},
		{"method = POST, GET", "", true},
		{"method = POST", "", false},
		{"host = H", "", true},
		{"path = /", "", true},
		{"route = r", "", true},
		{"ip in 192.0.2.0/24, ::/1", "", true},
		{"ip in 192.0.3.0/24", "", false},
		{"!ip in 192.0.3.0/24", "", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (holds_for(rows[i].test, rows[i].fields, NULL) != rows[i].holds)
			fail_msg("%s with %s", rows[i].test, rows[i].fields);
	}
}

static void a_query(struct identity_input *input)
{
	input->query = SLICE("b=2&%71=a+b%21&q=&c");
}

static const char *spelled;

static void spell(struct identity_input *input)
{
	input->query = slice_of(spelled);
}

/* Some server takes each for q. */
static void spellings_of_parameters(void **state)
{
	static const char *const alike[] = {"q=x", "Q=x", "%71=x", "q[]=x", "a=1;q=x", "q=x;y",
		"q=y;q=x", "q=1&q%00=x", "a;q=x&b"};
	static const char *const others[] = {"qq=x", "a=q=x", "q", "q=xx", "", ";", "q=y;z=x"};

	(void)state;
	for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
		spelled = alike[i];
		assert_true(holds_for("query:q = x", "", spell));
		assert_false(holds_for("!query:q = x", "", spell));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		spelled = others[i];
		assert_false(holds_for("query:q = x", "", spell));
	}
	spelled = "q=x;y";
	assert_true(holds_for("query:q = x;y", "", spell));
}

static void parameters(void **state)
{
	(void)state;
	assert_true(holds_for("query:q = a b!", "", a_query));
	assert_true(holds_for("query:q", "", a_query));
	assert_true(holds_for("query:b = 2", "", a_query));
	assert_false(holds_for("query:c", "", a_query));
	assert_false(holds_for("query:q = a+b", "", a_query));
}

static void matches_of_matches(void **state)
{
	const struct conf *conf = conf_of("[route r]\nupstream = u\n"
					  "[match both]\nall = a\nall = !b\n"
					  "[match either]\nany = a\nany = b\nall = !c\n"
					  "[match a]\nall = header:A\n[match b]\nall = header:B\n"
					  "[match c]\nall = header:C\n");
	static const struct {
		const char *fields;
		uint64_t holds; /* both, either */
	} rows[] = {{"", 0}, {"A: 1\n", 3}, {"A: 1\nB: 1\n", 2}, {"B: 1\n", 2}, {"A: 1\nC: 1\n", 1},
		{"C: 1\n", 0}};
	struct match_table *table = match_table_new(conf);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_head head;
		struct identity_input input = input_of(&head, "r", rows[i].fields);
		assert_int_equal(matches_find(table, 3, &input), rows[i].holds);
	}
	match_table_free(table);
	conf_release(conf);
}

/* A request that can't be decided must not pass by: neither a deny list nor a limit. */
static void what_is_too_costly_is_undecided(void **state)
{
	static char fields[8192];
	struct fixture f = begin("[match m]\nall = header:A ~ ^(a+)+$\n"
				 "[match long]\nall = cookie:c = x\n"
				 "[limit l]\nrate = 1 per 1s\nwhen = m\n"
				 "[route r]\nupstream = u\nlimits = l\ndeny = match:long\n");
	struct route_scratch *scratch = route_scratch_new();
	struct http_head head;

	(void)state;
	snprintf(fields, sizeof(fields), "A: %0*dx\n", 3000, 0);
	for (char *c = fields + 3; *c == '0'; c++)
		*c = 'a';
	for (int i = 0; i < 2; i++) {
		struct identity_input input = input_of(&head, "r", fields);
		input.scratch = scratch;
		gate_check(f.gate, &f.conf->routes[0], &input, f.now_ns, 0, &f.verdict, &f.receipt);
		assert_int_equal(f.verdict.outcome, GATE_UNDECIDED);
		snprintf(fields, sizeof(fields), "Cookie: c=%0*d%%41\n", 2000, 0);
	}
	route_scratch_free(scratch);
	end(&f);
}

/* Servers may read another path than keys know. */
static void each_reading_of_a_path_must_agree(void **state)
{
	const struct conf *conf =
		conf_of("[match m]\nall = path ^= /admin\n[route r]\nupstream = u\n");
	static const struct {
		const char *odd, *path;
		bool undecided;
	} rows[] = {
		{"/admin%2f..%2fpublic", "/public", true},
		{"//admin", "/admin", true},
		{"/public//x", "/public/x", false},
		{"/admin//x", "/admin/x", false},
	};
	struct match_table *table = match_table_new(conf);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_head head;
		struct identity_input input = input_of(&head, "r", "");
		input.path = slice_of(rows[i].path);
		input.odd_path = slice_of(rows[i].odd);
		matches_find(table, 1, &input);
		assert_int_equal(input.matches.undecided, rows[i].undecided);
	}
	match_table_free(table);
	conf_release(conf);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static enum gate_outcome ask(struct fixture *f, const char *fields)
{
	struct http_head head;
	struct identity_input input = input_of(&head, f->conf->routes[0].name, fields);

	gate_check(f->gate, &f->conf->routes[0], &input, f->now_ns, 0, &f->verdict, &f->receipt);
	return f->verdict.outcome;
}

static bool has(const struct fixture *f, const char *name)
{
	for (unsigned i = 0; i < f->verdict.limit_count; i++) {
		if (strcmp(f->verdict.limits[i].limit->name, name) == 0)
			return true;
	}
	return false;
}

/* Against a plain reading of the file: which limits apply with which fields. */
static void limits_apply_by_their_conditions(void **state)
{
	struct fixture f = begin("[match a]\nall = header:A\n[match b]\nall = header:B\n"
				 "[limit always]\nrate = 1000 per 1s\n"
				 "[limit when_a]\nrate = 1000 per 1s\nwhen = a\n"
				 "[limit not_b]\nrate = 1000 per 1s\nwhen = !b\nkey = header:K\n"
				 "[limit both]\nrate = 1000 per 1s\nwhen = a, b\n"
				 "[limit again]\nrate = 1000 per 1s\nwhen = a\n"
				 "[route r]\nupstream = u\n"
				 "limits = when_a, always, not_b, both, again\n");
	struct throttle_key caller = {0};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		char fields[64];
		bool a = i & 1, b = i & 2;
		snprintf(
			fields, sizeof(fields), "K: k\n%s%s", a ? "A: 1\n" : "", b ? "B: 1\n" : "");
		assert_int_equal(ask(&f, fields), GATE_ADMIT);
		assert_true(has(&f, "always"));
		assert_int_equal(has(&f, "when_a"), a);
		assert_int_equal(has(&f, "again"), a);
		assert_int_equal(has(&f, "not_b"), !b);
		assert_int_equal(has(&f, "both"), a && b);
		assert_int_equal(f.verdict.limit_count, 1u + 2 * a + !b + (a && b));
		/* Logs name one caller, whatever applies. */
		if (i > 0)
			assert_memory_equal(&f.verdict.caller, &caller, sizeof(caller));
		caller = f.verdict.caller;
	}
	end(&f);
}

static void only_limited_when_it_holds(void **state)
{
	struct fixture f = begin("[match bots]\nall = header:A\n"
				 "[limit l]\nrate = 2 per 10s\nwhen = bots\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(ask(&f, ""), GATE_ADMIT);
	assert_int_equal(ask(&f, "A: 1\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, "A: 1\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, "A: 1\n"), GATE_REFUSE);
	assert_int_equal(ask(&f, ""), GATE_ADMIT);
	end(&f);
}

/* Hundreds of plans and routes with conditions would take gigabytes otherwise. */
static void sets_of_the_same_limits_share_their_variants(void **state)
{
	struct fixture f = begin("[match a]\nall = header:A\n"
				 "[limit l]\nrate = 2 per 10s\nwhen = a\n"
				 "[route first]\nupstream = u\npath = /1\nlimits = l\n"
				 "[route same]\nupstream = u\npath = /2\nlimits = l\n"
				 "[route dear]\nupstream = u\npath = /3\nlimits = l\ncost = 2\n"
				 "[route keyed]\nupstream = u\npath = /4\nlimits = l\n"
				 "session = header:S\n");
	struct limit_sets sets = {0};
	const struct limit_variants *of[4];

	(void)state;
	assert_int_equal(limit_sets_init(&sets, f.conf, f.table), 0);
	for (unsigned i = 0; i < 4; i++)
		of[i] = limit_sets_get(&sets, GATE_REQUEST, i, sets.plan_count)->variants;
	assert_non_null(of[0]);
	assert_ptr_equal(of[1], of[0]);
	assert_ptr_not_equal(of[2], of[0]);
	assert_int_equal(of[2]->sets[1].costs[0], 2);
	assert_ptr_not_equal(of[3], of[0]);
	assert_string_equal(of[3]->sets[1].keys[0]->text, "header:S");
	limit_sets_free(&sets);
	end(&f);
}

static void plans_by_condition(void **state)
{
	struct fixture f = begin("[match a]\nall = header:A\n[match b]\nall = header:B\n"
				 "[limit l]\nrate = 9 per 1s\n"
				 "[plan default]\nlimits = l\n"
				 "[plan both]\nlimits = l\nwhen = a, b\n"
				 "[plan first]\nlimits = l\nwhen = a\n"
				 "[route r]\nupstream = u\nlimits = plan\n");

	(void)state;
	ask(&f, "");
	assert_string_equal(f.verdict.plan->name, "default");
	ask(&f, "A: 1\n");
	assert_string_equal(f.verdict.plan->name, "first");
	ask(&f, "A: 1\nB: 1\n");
	assert_string_equal(f.verdict.plan->name, "both");
	end(&f);
}

static void lists_by_condition(void **state)
{
	struct fixture f = begin("[match a]\nall = header:A\n[match b]\nall = header:B\n"
				 "[limit l]\nrate = 1 per 1h\n"
				 "[route r]\nupstream = u\nlimits = l\nallow = match:a\n"
				 "deny = match:b, 198.51.100.0/24\n");

	(void)state;
	assert_int_equal(ask(&f, ""), GATE_ADMIT);
	assert_int_equal(ask(&f, ""), GATE_REFUSE);
	assert_int_equal(ask(&f, "A: 1\n"), GATE_ADMIT);
	assert_true(f.verdict.exempt);
	assert_int_equal(ask(&f, "A: 1\nB: 1\n"), GATE_DENY);
	end(&f);
}

static void routes_by_condition(void **state)
{
	const struct conf *conf = conf_of("[match a]\nall = header:A\n"
					  "[route x]\nupstream = u\npath = /p\nwhen = a\n"
					  "method = GET\n"
					  "[route y]\nupstream = u\npath = /p\nmethod = GET\n"
					  "[route z]\nupstream = u\npath = /q\nwhen = !a\n"
					  "method = PUT\n");
	struct match_table *matches = match_table_new(conf);
	struct route_table *routes = route_table_new(conf);
	struct route_scratch *scratch = route_scratch_new();

	(void)state;
	assert_true(route_table_has_conditions(routes));
	for (int i = 0; i < 2; i++) {
		struct http_head head;
		struct identity_input input = input_of(&head, "", i ? "A: 1\n" : "");
		input.scratch = scratch;
		route_scratch_ask(scratch, matches, &input);
		struct route_match found =
			route_match(routes, scratch, SLICE("h"), SLICE("/p"), HTTP_METHOD_GET);
		assert_int_equal(found.outcome, ROUTE_FOUND);
		assert_string_equal(found.route->name, i ? "x" : "y");
		/* 405 names methods that would be served, 404 is what is there without any. */
		found = route_match(routes, scratch, SLICE("h"), SLICE("/q"), HTTP_METHOD_GET);
		assert_int_equal(found.outcome, i ? ROUTE_NONE : ROUTE_METHOD);
	}
	route_scratch_ask(scratch, NULL, NULL);
	route_scratch_free(scratch);
	route_table_free(routes);
	match_table_free(matches);
	conf_release(conf);
}

UNIT_SUITE(test_matches)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields),
		cmocka_unit_test(parameters),
		cmocka_unit_test(spellings_of_parameters),
		cmocka_unit_test(matches_of_matches),
		cmocka_unit_test(what_is_too_costly_is_undecided),
		cmocka_unit_test(each_reading_of_a_path_must_agree),
		cmocka_unit_test(limits_apply_by_their_conditions),
		cmocka_unit_test(only_limited_when_it_holds),
		cmocka_unit_test(sets_of_the_same_limits_share_their_variants),
		cmocka_unit_test(plans_by_condition),
		cmocka_unit_test(lists_by_condition),
		cmocka_unit_test(routes_by_condition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
