/* A snapshot with changed settings: all else as it was, all checks made, nothing half changed. */
#include "text.h"

#include <sys/stat.h>
#include <unistd.h>

#include "conf/reference.h"
#include "conf/revise.h"
#include "tests/unit/suite.h"

#define TEXT TEXT_BASE "[limit slow]\nrate = 100 per 10s\nmode = shadow\n"

static char *dump_of(const struct conf *conf)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	reference_dump(conf, out);
	fclose(out);
	return text;
}

/* TEXT's second limit. */
static const struct conf_limit *slow_of(const struct conf *conf)
{
	assert_int_equal(conf->limit_count, 2);
	assert_string_equal(conf->limits[1].name, "slow");
	return &conf->limits[1];
}

static const struct conf *revise(const struct conf *base, struct conf_revision revision)
{
	struct conf_errors errors;
	const struct conf *conf = conf_revise(base, &revision, 1, &errors);

	print_errors(&errors);
	assert_int_equal(errors.count, 0);
	conf_errors_free(&errors);
	assert_non_null(conf);
	return conf;
}

static void revise_bad(const struct conf *base, struct conf_revision revision, const char *what)
{
	struct conf_errors errors;

	assert_null(conf_revise(base, &revision, 1, &errors));
	assert_int_equal(errors.count, 1);
	if (!strstr(errors.items[0].text, what))
		fail_msg("wanted \"%s\", got \"%s\"", what, errors.items[0].text);
	conf_errors_free(&errors);
}

static void only_that(void **state)
{
	const struct conf *base = parse_good(TEXT);
	const struct conf *conf =
		revise(base, (struct conf_revision){"limit", "slow", "rate", "200 per 1m"});
	const struct conf *file =
		parse_good(TEXT_BASE "[limit slow]\nrate = 200 per 1m\nmode = shadow\n");

	(void)state;
	assert_int_equal(slow_of(base)->amount, 100);
	assert_int_equal(slow_of(conf)->amount, 200);
	assert_int_equal(slow_of(conf)->per_ns, UINT64_C(60000000000));
	assert_true(slow_of(conf)->shadow);
	assert_string_equal(conf->path, base->path);
	conf_release(base); /* need not outlive it */

	char *after = dump_of(conf), *wanted = dump_of(file);
	assert_string_equal(after, wanted);
	free(wanted);
	free(after);
	conf_release(conf);
	conf_release(file);
}

static void again_and_back(void **state)
{
	const struct conf *base = parse_good(TEXT);
	const struct conf *first =
		revise(base, (struct conf_revision){"limit", "slow", "rate", "7 per 1s"});
	const struct conf *second =
		revise(first, (struct conf_revision){"limit", "slow", "mode", NULL});
	const struct conf *third =
		revise(second, (struct conf_revision){"sluice", "", "log_level", "debug"});

	(void)state;
	assert_int_equal(slow_of(third)->amount, 7);
	assert_false(slow_of(third)->shadow);
	assert_int_equal(third->logs.level, LOG_LEVEL_DEBUG);
	assert_int_equal(base->logs.level, LOG_LEVEL_INFO);
	assert_false(conf_is_revised(base, "limit", "slow"));
	assert_true(conf_is_revised(first, "limit", "slow"));
	assert_true(conf_is_revised(third, "limit", "slow"));
	assert_true(conf_is_revised(third, "sluice", ""));
	assert_false(conf_is_revised(third, "limit", "base"));
	assert_false(conf_is_revised(second, "sluice", ""));
	conf_release(base);
	conf_release(first);
	conf_release(second);
	conf_release(third);
}

/* [sluice] is there without being in the file. */
static void absent_section(void **state)
{
	const struct conf *base = parse_good("[sluice]\ncallers = 5k\n" TEXT);
	const struct conf *conf =
		revise(base, (struct conf_revision){"sluice", "", "callers", "6k"});

	(void)state;
	assert_int_equal(conf->totals.callers, 6000);
	conf_release(conf);
	conf_release(base);
}

static void errors(void **state)
{
	const struct conf *base = parse_good(TEXT);

	(void)state;
	revise_bad(base, (struct conf_revision){"limit", "slow", "rate", "many"}, "rate");
	revise_bad(base, (struct conf_revision){"limit", "none", "rate", "1 per 1s"},
		"no [limit none]");
	revise_bad(base, (struct conf_revision){"limit", "slow", "rat", "1 per 1s"}, "no key");
	revise_bad(base, (struct conf_revision){"limit", "slow", "concurrency", "5"}, "rate");
	revise_bad(base, (struct conf_revision){"limit", "slow", "rate", NULL}, "rate");
	revise_bad(
		base, (struct conf_revision){"listener", "l", "bind", "127.0.0.1:9"}, "repeatable");
	const char *const texts[] = {"", " 1 per 1s", "1 per 1s\nmode = shadow", "1 per 1s ; x",
		"1 per 1s\x7f", "; x", "${HOME}"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		revise_bad(base, (struct conf_revision){"limit", "slow", "rate", texts[i]},
			"not one that a line");
	conf_release(base);
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

/* Included sections stay, once each, with their lines and with paths from their own folder, also
 * when the files that included them are gone. */
static void included(void **state)
{
	char folder[] = "/tmp/sluice-revise-XXXXXX", path[256];
	struct conf_errors errors;
	const struct conf_revision good = {"limit", "base", "rate", "5 per 1s"},
				   bad = {"limit", "base", "burst", "5"};

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/d", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(folder, "main.ini", "include = d/*.ini\n" TEXT_BASE);
	write_file(folder, "d/a.ini",
		"[plans]\nkey = ip\n[plan gold]\nlimits = base\ncallers = file:k\n");
	write_file(folder, "d/k", "one\ntwo\n");
	snprintf(path, sizeof(path), "%s/main.ini", folder);
	const struct conf *base = conf_load(path, &errors);
	print_errors(&errors);
	conf_errors_free(&errors);
	assert_non_null(base);

	write_file(folder, "main.ini", "what\n");
	write_file(folder, "d/a.ini", "what\n");
	const struct conf *conf = revise(base, good), *again = revise(conf, good);
	assert_int_equal(again->plan_count, 1);
	assert_int_equal(again->plans[0].callers.count, 2);
	assert_int_equal(again->limits[0].amount, 5);
	assert_string_equal(conf_place(again, again->plans[0].line).path,
		conf_place(base, base->plans[0].line).path);
	assert_int_equal(conf_place(again, again->plans[0].line).line, 3);
	assert_null(conf_revise(again, &bad, 1, &errors));
	conf_errors_free(&errors);
	conf_release(base);
	conf_release(conf);
	conf_release(again);
	snprintf(path, sizeof(path), "rm -r %s", folder);
	assert_int_equal(system(path), 0);
}

UNIT_SUITE(test_revise)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_that),
		cmocka_unit_test(again_and_back),
		cmocka_unit_test(absent_section),
		cmocka_unit_test(errors),
		cmocka_unit_test(included),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
