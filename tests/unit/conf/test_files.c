/* What stands outside the file: other files, folders, users; and files that are none. */
#include "conf/compare.h"
#include "text.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

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
	assert_non_null(
		strstr(errors.items[0].text, ": can't be read: it is a folder; expected a file"));
	conf_errors_free(&errors);
	snprintf(path, sizeof(path), "%s/none.ini", folder);
	assert_null(conf_load(path, &errors));
	assert_int_equal(errors.count, 1);
	assert_non_null(strstr(errors.items[0].text, "none.ini: can't be read: No such file"));
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

static void oddities_in_files_of_callers(void **state)
{
	char *ini = write_file("t.ini",
		TEXT_BASE "limits = plan, base\n[plans]\nkey = header:K\n[plan gold]\ncallers = "
			  "file:gold.keys\n");
	char *gold = write_file("gold.keys", "\xef\xbb\xbfone\ntwo # who\nth#ree\nfour  #\n");
	struct conf_errors errors;
	const struct conf *conf = conf_load(ini, &errors);

	(void)state;
	print_errors(&errors);
	assert_non_null(conf);
	assert_string_equal(conf->plans[0].callers.items[0], "one");
	assert_string_equal(conf->plans[0].callers.items[1], "two # who");
	assert_int_equal(conf->warning_count, 1);
	assert_int_equal(conf->warnings[0].line, 14);
	assert_non_null(
		strstr(conf->warnings[0].text, "/gold.keys:2: a '#' after a blank is part "
					       "of the entry; a comment is a line of its own "
					       "(2 such lines)"));
	conf_release(conf);
	conf_errors_free(&errors);

	/* All bad lines are reported, but a file of another kind in few. */
	free(gold);
	gold = write_file("gold.keys", "a\1\nb\nc\1\n");
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 2);
	conf_errors_free(&errors);
	free(gold);
	gold = write_file("gold.keys", "\1\n\1\n\1\n\1\n\1\n\1\n\1\n\1\n\1\n\1\n\1\n\1\n\1\n");
	assert_null(conf_load(ini, &errors));
	assert_int_equal(errors.count, 10);
	conf_errors_free(&errors);
	remove_file(gold);
	remove_file(ini);
}

/* A line of such a file that is no network is a key, but one that was meant to be is reported. */
static void networks_in_files(void **state)
{
	char *ini = write_file(
		"t.ini", TEXT_BASE "limits = base\n[route r]\nupstream = u\ndeny = file:nets\n");
	char *nets = write_file("nets", "10.0.0.0/8\n# x\n10.0.0.1/8\n::1/64\n");
	struct conf_errors errors;
	const struct conf *conf;

	(void)state;
	assert_null(conf_load(ini, &errors));
	print_errors(&errors);
	assert_int_equal(errors.count, 2);
	assert_int_equal(errors.items[0].line, 13);
	assert_non_null(strstr(errors.items[0].text,
		"/nets:3: \"10.0.0.1/8\" has bits set after its prefix; expected a network"));
	assert_non_null(strstr(errors.items[1].text, "/nets:4: \"::1/64\" has bits set"));
	conf_errors_free(&errors);

	free(nets);
	nets = write_file(
		"nets", "10.0.0.0/33\na/b\n1234\n10.0.0\n300.1.1.1/8\n12/ab\nfe80::/129\n");
	conf = conf_load(ini, &errors);
	print_errors(&errors);
	assert_non_null(conf);
	assert_int_equal(conf->warning_count, 3);
	assert_non_null(strstr(conf->warnings[0].text,
		"/nets:1: \"10.0.0.0/33\" is not a network and is taken for a caller's key"));
	assert_non_null(strstr(conf->warnings[1].text, "/nets:5: \"300.1.1.1/8\" is no"));
	assert_non_null(strstr(conf->warnings[2].text, "/nets:7: \"fe80::/129\" is no"));
	assert_int_equal(
		conf->routes[1].access.deny_keys.count + conf->routes[0].access.deny_keys.count, 7);
	conf_release(conf);
	conf_errors_free(&errors);
	remove_file(nets);
	remove_file(ini);
}

/* A user that is not there is reported by `check` already. */
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
	bad("sluice", "user = no user", "invalid value \"no user\"");
	/* Of a text that names no folder, nothing outside is looked at. */
	conf_release(good("sluice", "user = no-such-user-here"));
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static void note_option(const void *user, const struct conf_change *change)
{
	char *text = *(char *const *)user;

	strcat(text, change->option->name);
	strcat(text, " ");
}

/* The list that a reload reads from the same file may be another. */
static void changed_files_are_reported(void **state)
{
	static const char *const options[] = {"allow", "deny", "callers"};
	static const char *const contents[] = {"a\n", "d\n", "c\n"};
	char *ini = write_file("t.ini",
		TEXT_BASE "[plans]\nkey = header:K\n[plan gold]\ncallers = file:callers\n"
			  "[route r]\nupstream = u\npath = /r\nlimits = base\n"
			  "allow = file:allow\ndeny = file:deny\n");
	char *files[3];
	struct conf_errors errors;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		files[i] = write_file(options[i], contents[i]);
	for (size_t i = 0; i < 3; i++) {
		const struct conf *before = conf_load(ini, &errors), *now;
		char text[200] = "", *at = text, wanted[40];

		conf_errors_free(&errors);
		assert_non_null(before);
		free(write_file(options[i], "other\n"));
		now = conf_load(ini, &errors);
		conf_errors_free(&errors);
		assert_non_null(now);
		conf_compare(before, now, CONF_COMPARE_LIVE, note_option, &at);
		snprintf(wanted, sizeof(wanted), "%s ", options[i]);
		assert_string_equal(text, wanted);
		conf_release(before);
		conf_release(now);
		free(write_file(options[i], contents[i]));
	}
	for (size_t i = 0; i < 3; i++)
		remove_file(files[i]);
	remove_file(ini);
}

UNIT_SUITE(test_files)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_callers),
		cmocka_unit_test(files_that_are_none),
		cmocka_unit_test(places_to_write),
		cmocka_unit_test(files_in_lists_tell_too),
		cmocka_unit_test(oddities_in_files_of_callers),
		cmocka_unit_test(networks_in_files),
		cmocka_unit_test(changed_files_are_reported),
		cmocka_unit_test(users),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
