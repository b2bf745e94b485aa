/* The list of errors: nothing is left out of it, each has its line, and it has an end. */
#include "text.h"
#include "tests/unit/suite.h"

/* Each in its place, none hiding another. */
static void ten_mistakes_are_ten_errors(void **state)
{
	static const char text[] = "[sluce]\n"             /* 1 */
				   "[listener l]\n"        /* 2 */
				   "bind = 127.0.0.1:80\n" /* 3 */
				   "bind = 127.0.0.1:80\n" /* 4 */
				   "heder_timeout = 1s\n"  /* 5 */
				   "[upstream u]\n"        /* 6 */
				   "[limit a]\n"           /* 7 */
				   "rate = 100 pr 10s\n"   /* 8 */
				   "[limit a]\n"           /* 9 */
				   "rate = 1 per 1s\n"     /* 10 */
				   "[limit b]\n"           /* 11 */
				   "[route r]\n"           /* 12 */
				   "upstream = v\n"        /* 13 */
				   "limits = a, a\n"       /* 14 */
				   "path = ~(\n"           /* 15 */
				   "no setting\n";         /* 16 */
	static const unsigned lines[] = {1, 4, 5, 6, 8, 9, 11, 13, 14, 15, 16};
	struct conf_errors errors;

	(void)state;
	assert_null(conf_parse(text, sizeof(text) - 1, "t.ini", NULL, &errors));
	if (errors.count != sizeof(lines) / sizeof(lines[0]))
		print_errors(&errors);
	assert_int_equal(errors.count, sizeof(lines) / sizeof(lines[0]));
	for (size_t i = 0; i < errors.count; i++) {
		char front[32];

		assert_int_equal(errors.items[i].line, lines[i]);
		snprintf(front, sizeof(front), "t.ini:%u: ", lines[i]);
		assert_memory_equal(errors.items[i].text, front, strlen(front));
	}
	conf_errors_free(&errors);
}

/* A file of another kind is distinguished from one with a slip, and is not reported for ever. */
static void garbage_has_an_end(void **state)
{
	struct conf_errors errors;
	char *text = malloc(20000);

	(void)state;
	memset(text, '\n', 20000);
	for (size_t i = 0; i < 20000; i += 2)
		text[i] = 'x';
	assert_null(conf_parse(text, 20000, "t", NULL, &errors));
	assert_int_equal(errors.count, 1001);
	assert_string_equal(
		errors.items[0].text, "t: there are more errors than can be listed; fix some");
	conf_errors_free(&errors);
	free(text);
}

/* All bad items of a list, each an error of its own, in their order. */
static void lists_tell_all_their_mistakes(void **state)
{
	static const struct {
		const char *section, *setting, *items[4];
	} some[] = {
		{"route r", "upstream = u\nallow = 10.0.0.0/33, 10.0.0.0/8, nope, ::1, foo",
			{"10.0.0.0/33", "nope", "foo"}},
		{"route r", "upstream = u\ndeny = 10.0.0.1/8, 10.0.0.1/32, ::1/64",
			{"\"10.0.0.1/8\" has bits set after its prefix",
				"\"::1/64\" has bits set after its prefix"}},
		{"route r", "upstream = u\nhost = a_b, a..b, c.d, [::z], c.d",
			{"a..b", "[::z]", "\"c.d\" is given twice"}},
		{"route r", "upstream = u\nmethod = get, GET, Post, PUSH",
			{"\"get\"", "\"Post\"", "\"PUSH\""}},
		{"route r", "upstream = u\nrefund = 5xx, 199, 6xx, 429, x",
			{"199", "6xx", "\"x\""}},
		{"route r", "upstream = u\nrequest_header_remove = A B, Via, Host, Upgrade",
			{"A B", "Host is", "Upgrade is"}},
		{"route r", "upstream = u\nlimits = base, bose, nope", {"bose", "nope"}},
		{"listener m", "bind = 127.0.0.1:3, 127.0.0.1, [::1]:4, ::1:5, [::1]:0",
			{"127.0.0.1\"", "::1", "\"0\""}},
		{"listener m", "bind = 127.0.0.1:3\ntrusted_proxies = 10.0.0.1/8, ::/0, x, 1",
			{"10.0.0.1/8", "\"x\"", "\"1\""}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		char *text = text_with(some[i].section, some[i].setting);
		struct conf_errors errors;
		size_t wanted = 0;

		assert_null(conf_parse(text, strlen(text), "t", NULL, &errors));
		print_errors(&errors);
		for (; some[i].items[wanted]; wanted++) {
			assert_true(wanted < errors.count);
			assert_non_null(strstr(errors.items[wanted].text, some[i].items[wanted]));
		}
		assert_int_equal(errors.count, wanted);
		conf_errors_free(&errors);
		free(text);
	}
}

/* As many lines as a file of garbage gets, and one that says so. */
static void lists_of_garbage_have_an_end(void **state)
{
	struct conf_errors errors;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	fputs(TEXT_BASE "[route r]\nupstream = u\n", out);
	for (unsigned i = 0; i < 100; i++)
		fputs("allow = a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z\n", out);
	fclose(out);
	assert_null(conf_parse(text, len, "t", NULL, &errors));
	assert_int_equal(errors.count, 1001);
	conf_errors_free(&errors);
	free(text);
}

/* '#' begins a comment at the beginning of a line only; taking it for one is an error. */
static void comments_after_values(void **state)
{
	static const char hint[] = "; only ';' begins a comment after a value";

	(void)state;
	bad("sluice", "workers = 1 # c", hint);
	bad("sluice", "workers = 1\t# c", hint);
	bad("sluice", "shutdown_timeout = 1s #c", hint);
	bad("sluice", "callers = 10 # out of bounds as well", hint);
	bad("listener m", "bind = 127.0.0.1:3 # c", hint);
	parse_bad(TEXT_BASE "[upstream v]\nserver = 127.0.0.1:3 # c\n", 11, hint);
	parse_bad(TEXT_BASE "[upstream v]\nserver = 127.0.0.1:3 weight=2 # c\n", 11, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u # c\n", 11, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = base # c\n", 12, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\npath = /r # c\n", 12, hint);
	parse_bad(TEXT_BASE "[limit m]\nrate = 1 per 1s # c\n", 11, hint);
	parse_bad(TEXT_BASE "[limit m]\nrate = 1 per 1s\nkey = ip # c\n", 12, hint);
	conf_release(good("sluice", "workers = 1 ; c"));
	conf_release(good("sluice", "# c\nworkers = 1"));
}

/* Where nearly any text would do, the comment would be part of the value without a word. */
static void comments_after_free_texts(void **state)
{
	static const char hint[] = "; only ';' begins a comment after a value";
	static const char in_path[] = "has a blank before '#'; expected a path without";
	static const char in_regex[] =
		"blank before '#', which no path has; expected a regular expression "
		"without, or (?x) in front";

	(void)state;
	bad("sluice", "state = /x # c", in_path);
	bad("sluice", "state = /x # c", hint);
	bad("sluice", "state = x\t#c", in_path);
	bad("sluice", "pid_file = /x.pid # c", in_path);
	bad("sluice", "error_log = file:/x.log # c", in_path);
	bad("sluice", "access_log = file:/x.log # c", in_path);
	bad("listener m", "bind = unix:/x # c", in_path);
	bad("listener m", "bind = 127.0.0.1:3, unix:/x # c", in_path);
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan p]\ncallers = file:x # c\n", 13, in_path);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nallow = file:x # c\n", 12, in_path);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\npath = ~^/r # c\n", 12, in_regex);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\npath = ~^/r # c\n", 12, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\npath = ~[^/][]x] # c\n", 12, in_regex);
	bad("sluice", "state = /x; c",
		"has a ';' at its end or before a blank; expected a path without");
	bad("sluice", "pid_file = /x.pid;", "has a ';' at its end or before a blank");
	bad("sluice", "access_log = file:/x.log;\tc", "has a ';' at its end or before a blank");
	bad("listener m", "bind = unix:/x;", "has a ';' at its end or before a blank");
	conf_release(good("sluice", "state = /x;y"));
	conf_release(good("sluice", "state = /x#y z"));
	conf_release(good("sluice", "state = #x"));
	conf_release(good("sluice", "pid_file = /x.pid ; # c"));
	conf_release(good("listener m", "bind = unix:/x#y z"));
}

/* A regular expression may say of a blank and a '#' what it likes where it does not mean both. */
static void expressions_with_signs(void **state)
{
	static const char *const some[] = {"~^/r#c", "~^/r[ #]", "~^/r[] #]", "~^/r[^] #]",
		"~^/r\\ #", "~(?x)^/r # c", "~(?ix)^/r # c"};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		char *text = NULL;

		assert_true(asprintf(&text, TEXT_BASE "[route r]\nupstream = u\npath = %s\n",
				    some[i]) > 0);
		conf_release(parse_good(text));
		free(text);
	}
}

/* ';' begins a comment after a blank only, and ends nothing. */
static void semicolons(void **state)
{
	static const char hint[] = "; ';' begins a comment only after a blank";

	(void)state;
	bad("sluice", "workers = 1; c", hint);
	bad("sluice", "workers = 1;", hint);
	bad("sluice", "state = /x;", hint);
	bad("sluice", "workers = 1;c", hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u; c\n", 11, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = base;\n", 12, hint);
	parse_bad(TEXT_BASE "[limit m]\nrate = 1 per 1s;\n", 11, hint);
}

/* Values are written without quotes; the error for a quoted one explains that. */
static void quotes(void **state)
{
	static const char hint[] = "; values are written without quotes";

	(void)state;
	bad("sluice", "workers = \"1\"", hint);
	bad("sluice", "via = \"x\"", hint);
	bad("listener m", "bind = \"127.0.0.1:3\"", hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = \"u\"\n", 11, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = \"base\"\n", 12, hint);
	parse_bad(TEXT_BASE "[route r]\nupstream = u\npath = \"/r\"\n", 12, hint);
	parse_bad(TEXT_BASE "[limit m]\nrate = \"1 per 1s\"\n", 11, hint);
	bad("sluice", "state = \"/x\"", "\"\"/x\"\" begins with a quote; expected a path without");
	bad("sluice", "state = '/x'", hint);
	bad("sluice", "error_log = \"file:/x\"", hint);
	bad("sluice", "error_log = file:\"/x\"", "begins with a quote; expected a path without");
	conf_release(good("sluice", "state = /x\"y"));
	conf_release(parse_good(
		TEXT_BASE "[route r]\nupstream = u\nrequest_header_set = If-Match: \"x\"\n"));
}

/* Without such a sign nothing is said of it. */
static void errors_without_comments(void **state)
{
	static const char *const values[] = {"workers = 1#", "workers = #1", "workers = many"};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char *text = text_with("sluice", values[i]);
		struct conf_errors errors;

		assert_null(conf_parse(text, strlen(text), "t", NULL, &errors));
		assert_int_equal(errors.count, 1);
		assert_null(strstr(errors.items[0].text, "comment"));
		conf_errors_free(&errors);
		free(text);
	}
}

static void lines_of_keys(void **state)
{
	const struct conf *conf = good("sluice", "user = root\nstate = /tmp");

	(void)state;
	assert_int_equal(conf_line(conf, "user"), 11);
	assert_int_equal(conf_line(conf, "state"), 12);
	assert_int_equal(conf_line(conf, "pid_file"), 0);
	conf_release(conf);
	conf = parse_good(TEXT_BASE);
	assert_int_equal(conf_line(conf, "state"), 0);
	conf_release(conf);
}

UNIT_SUITE(test_errors)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_mistakes_are_ten_errors),
		cmocka_unit_test(garbage_has_an_end),
		cmocka_unit_test(lists_tell_all_their_mistakes),
		cmocka_unit_test(lists_of_garbage_have_an_end),
		cmocka_unit_test(comments_after_values),
		cmocka_unit_test(comments_after_free_texts),
		cmocka_unit_test(expressions_with_signs),
		cmocka_unit_test(semicolons),
		cmocka_unit_test(quotes),
		cmocka_unit_test(errors_without_comments),
		cmocka_unit_test(lines_of_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
