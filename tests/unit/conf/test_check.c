/* What only the whole file shows, and files that are none. */
#include "text.h"

#include <sys/stat.h>
#include <unistd.h>

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

/* A file of another kind is told from one with a slip, and is not told of for ever. */
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
	parse_bad("a = b\n" TEXT_BASE, 1, "stands before any section");
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
	bad("sluice", "wrokers = 1", "did you mean \"workers\"?");
	bad("sluice", "colour = red", "unknown key; expected one that");
	bad("sluice", "workers", "is no setting");
	parse_bad(TEXT_BASE "[sluice]\nworkers = 1\nworkers = 2\n", 12, "the first is in line 11");
	parse_bad(TEXT_BASE "[admin]\n", 10, "has no bind");
	parse_bad(TEXT_BASE "[listener m]\n", 10, "has no bind");
	parse_bad(TEXT_BASE "[upstream v]\n", 10, "has no server");
	parse_bad(TEXT_BASE "[limit m]\n", 10, "has no rate");
	parse_bad(TEXT_BASE "[route r]\n", 10, "has no upstream");
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
		"\"base\" stands there twice");
	parse_bad(TEXT_BASE "[route r]\nupstream = u\nlimits = plan\n", 12, "there is no [plans]");
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
	assert_ptr_equal(conf->plans[0].limits[0], &conf->limits[1]);
	assert_ptr_equal(conf->default_plan, &conf->plans[1]);
	assert_string_equal(a->name, "a");
	assert_true(a->plan_limits);
	assert_int_equal(a->plan_position, 1);
	assert_int_equal(a->limit_count, 2);
	assert_string_equal(a->session->text, "path");
	assert_int_equal(b->limit_count, 0);
	assert_string_equal(b->session->text, "header:K");
	conf_release(conf);

	parse_bad(TEXT_BASE "[plan gold]\ncallers = file:k\n", 10, "is there without [plans]");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n", 10, "is there without a plan");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan gold]\n", 12, "has no callers");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan default]\ncallers = file:k\n", 13,
		"for those on no list");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan gold]\ncallers = gold.keys\n", 13,
		"expected file:PATH");
	parse_bad(TEXT_BASE "[plans]\nkey = ip\n[plan default]\nlimits = plan\n", 13,
		"there is no [limit plan]");
}

/* ---- files ---- */

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/sluice-conf-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static char *write_file(const char *name, const char *text)
{
	char *path = NULL;
	FILE *file;

	assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return path;
}

static void remove_file(char *path)
{
	unlink(path);
	free(path);
}

#define TEXT_PLAN                                                                                  \
	TEXT_BASE "[plans]\nkey = header:K\n[plan gold]\ncallers = file:gold.keys\n"               \
		  "[plan silver]\ncallers = file:silver.keys\n"

static void files_of_callers(void **state)
{
	char *ini = write_file("t.ini", TEXT_PLAN), *gold, *silver;
	struct conf_errors errors;
	const struct conf *conf = conf_load(ini, &errors);

	(void)state;
	assert_null(conf);
	assert_int_equal(errors.count, 2);
	assert_int_equal(errors.items[0].line, 13);
	assert_non_null(strstr(errors.items[0].text, "gold.keys can't be read: No such file"));
	conf_errors_free(&errors);

	gold = write_file("gold.keys", "# who\n\n  one \r\ntwo\n");
	silver = write_file("silver.keys", "three");
	conf = conf_load(ini, &errors);
	print_errors(&errors);
	assert_non_null(conf);
	conf_errors_free(&errors);
	assert_int_equal(conf->plans[0].callers.count, 2);
	assert_string_equal(conf->plans[0].callers.items[0], "one");
	assert_string_equal(conf->plans[0].callers.items[1], "two");
	assert_string_equal(conf->plans[1].callers.items[0], "three");
	conf_release(conf);

	/* A key in two plans; the message does not give the secret away. */
	free(silver);
	silver = write_file("silver.keys", "secret-key\n");
	free(gold);
	gold = write_file("gold.keys", "secret-key\n");
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.items[0].line, 14);
	assert_non_null(strstr(errors.items[0].text, "\"secr\" is in [plan gold] too"));
	assert_null(strstr(errors.items[0].text, "secret-key"));
	conf_errors_free(&errors);

	free(gold);
	gold = write_file("gold.keys", "a\nb\001c\n");
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 1);
	assert_non_null(strstr(errors.items[0].text, "gold.keys:2: byte 0x01"));
	conf_errors_free(&errors);
	remove_file(gold);
	remove_file(silver);
	remove_file(ini);
}

static void files_that_are_none(void **state)
{
	struct conf_errors errors;
	char path[128];

	(void)state;
	assert_null(conf_load(folder, &errors));
	assert_int_equal(errors.count, 1);
	assert_non_null(strstr(errors.items[0].text, "it is a folder; expected a file"));
	conf_errors_free(&errors);
	snprintf(path, sizeof(path), "%s/none.ini", folder);
	assert_null(conf_load(path, &errors));
	assert_int_equal(errors.count, 1);
	assert_non_null(strstr(errors.items[0].text, "No such file"));
	conf_errors_free(&errors);
	assert_null(conf_load("/dev/null", &errors));
	assert_int_equal(errors.count, 1);
	conf_errors_free(&errors);
}

static void places_to_write(void **state)
{
	char *ini =
		write_file("t.ini", TEXT_BASE "[sluice]\nerror_log = file:none/e.log\n"
					      "access_log = file:../../tmp\npid_file = p.pid\n");
	struct conf_errors errors;

	(void)state;
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 2);
	assert_int_equal(errors.items[0].line, 11);
	assert_non_null(strstr(errors.items[0].text, "there is no folder"));
	assert_non_null(strstr(errors.items[1].text, "is a folder; expected a file"));
	conf_errors_free(&errors);
	remove_file(ini);
}

/* All bad items of a list, each an error of its own, in their order. */
static void lists_tell_all_their_mistakes(void **state)
{
	static const struct {
		const char *section, *setting, *items[4];
	} some[] = {
		{"route r", "upstream = u\nallow = 10.0.0.0/33, 10.0.0.0/8, nope, ::1, foo",
			{"10.0.0.0/33", "nope", "foo"}},
		{"route r", "upstream = u\nhost = a_b, a..b, c.d, [::z], c.d",
			{"a..b", "[::z]", "\"c.d\" stands there twice"}},
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

static void files_in_lists_tell_too(void **state)
{
	char *ini = write_file("t.ini",
		TEXT_BASE "[route r]\nupstream = u\nallow = 10.0.0.0/33, file:nope, foo, "
			  "file:other\n");
	static const char *const wanted[] = {"10.0.0.0/33", "/nope can't", "\"foo\"", "/other"};
	struct conf_errors errors;

	(void)state;
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(errors.items[i].line, 12);
		assert_non_null(strstr(errors.items[i].text, wanted[i]));
	}
	conf_errors_free(&errors);
	remove_file(ini);
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

/* '#' begins a comment at the beginning of a line only; who takes it for one is told. */
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

/* A user that is not there is told of by `check` already. */
static void users(void **state)
{
	char *ini = write_file("t.ini", TEXT_BASE "[sluice]\nuser = no-such-user-here\n");
	struct conf_errors errors;
	const struct conf *conf;

	(void)state;
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.items[0].line, 11);
	assert_non_null(strstr(errors.items[0].text,
		"[sluice] user: there is no user \"no-such-user-here\"; expected"));
	conf_errors_free(&errors);
	remove_file(ini);
	ini = write_file("t.ini", TEXT_BASE "[sluice]\nuser = root\n");
	conf = conf_load(ini, &errors);
	print_errors(&errors);
	assert_non_null(conf);
	assert_string_equal(conf->user, "root");
	conf_release(conf);
	remove_file(ini);
	bad("sluice", "user = no user", "is none");
	/* Of a text that names no folder, nothing outside is looked at. */
	conf_release(good("sluice", "user = no-such-user-here"));
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

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_mistakes_are_ten_errors),
		cmocka_unit_test(garbage_has_an_end),
		cmocka_unit_test(sections),
		cmocka_unit_test(keys_of_sections),
		cmocka_unit_test(limits_that_cannot_be_kept),
		cmocka_unit_test(too_many_limits),
		cmocka_unit_test(costs_that_never_fit),
		cmocka_unit_test(nothing_to_do),
		cmocka_unit_test(references),
		cmocka_unit_test(exclusions),
		cmocka_unit_test(plans),
		cmocka_unit_test(files_of_callers),
		cmocka_unit_test(files_that_are_none),
		cmocka_unit_test(places_to_write),
		cmocka_unit_test(lists_tell_all_their_mistakes),
		cmocka_unit_test(files_in_lists_tell_too),
		cmocka_unit_test(lists_of_garbage_have_an_end),
		cmocka_unit_test(comments_after_values),
		cmocka_unit_test(errors_without_comments),
		cmocka_unit_test(users),
		cmocka_unit_test(lines_of_keys),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
