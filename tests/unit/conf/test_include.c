/* include = PATTERN: other files, their order, and where errors in them are. */
#include "text.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/sluice-include-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *walk)
{
	(void)about;
	(void)type;
	(void)walk;
	return remove(path);
}

static int remove_folder(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void make(const char *name, const char *text)
{
	FILE *file;

	for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		char parent[256];

		snprintf(parent, sizeof(parent), "%s/%.*s", folder, (int)(slash - name), name);
		assert_true(mkdir(parent, 0700) == 0 || errno == EEXIST);
	}
	file = fopen(path_of(name), "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static const struct conf *load_good(void)
{
	struct conf_errors errors;
	const struct conf *conf = conf_load(path_of("main.ini"), &errors);

	print_errors(&errors);
	assert_non_null(conf);
	assert_int_equal(errors.count, 0);
	conf_errors_free(&errors);
	return conf;
}

/* Exactly these errors, in this order; each a part of a text that begins in the folder. */
static void load_bad(const char *first, const char *second)
{
	const char *parts[] = {first, second};
	size_t count = second ? 2 : 1;
	struct conf_errors errors;

	assert_null(conf_load(path_of("main.ini"), &errors));
	if (errors.count != count || !strstr(errors.items[0].text, first) ||
		(second && !strstr(errors.items[1].text, second)))
		print_errors(&errors);
	assert_int_equal(errors.count, count);
	for (size_t i = 0; i < count; i++)
		assert_non_null(strstr(errors.items[i].text, parts[i]));
	conf_errors_free(&errors);
}

#define REST                                                                                       \
	"[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n[route r]\n"        \
	"upstream = u\nlimits = a, b, c\n"

static void files_in_their_order(void **state)
{
	const struct conf *conf;

	(void)state;
	make("main.ini", "include = conf.d/*.ini\n" REST);
	make("conf.d/20-b.ini", "[limit b]\nrate = 2 per 1s\n");
	make("conf.d/10-c.ini", "[limit c]\nrate = 3 per 1s\n");
	make("conf.d/B.ini", "[limit a]\nrate = 1 per 1s\n");
	make("conf.d/ignored.ini~", "[limit a]\nrate = 1 per 1s\n");
	conf = load_good();
	assert_int_equal(conf->limit_count, 3);
	assert_string_equal(conf->limits[0].name, "c");
	assert_string_equal(conf->limits[1].name, "b");
	assert_string_equal(conf->limits[2].name, "a");
	assert_string_equal(
		conf_place(conf, conf->limits[1].line).path, path_of("conf.d/20-b.ini"));
	assert_int_equal(conf_place(conf, conf->limits[1].line).line, 1);
	assert_string_equal(conf_place(conf, conf->routes[0].line).path, path_of("main.ini"));
	assert_int_equal(conf_place(conf, conf->routes[0].line).line, 6);
	conf_release(conf);
}

/* In [sluice], the section continues after it; in an included file a path begins at its folder. */
static void inside_of_sluice(void **state)
{
	const struct conf *conf;

	(void)state;
	make("main.ini", "[sluice]\ninclude = one/b.ini\nworkers = 3\n" REST);
	load_bad("main.ini:2: [sluice] include: there is no file", NULL);
	make("main.ini", "[sluice]\ninclude = one/a.ini\nworkers = 3\n" REST);
	make("one/a.ini",
		"include = two/b.ini\n[limit a]\nrate = 1 per 1s\n[limit c]\nrate = 1 per 1s\n");
	make("one/two/b.ini", "[limit b]\nrate = 1 per 1s\n[plans]\nkey = header:K\n"
			      "[plan p]\nlimits = a\ncallers = file:p.keys\n");
	make("one/two/p.keys", "secret\n");
	conf = load_good();
	assert_int_equal(conf->workers, 3);
	assert_int_equal(conf->limit_count, 3);
	assert_string_equal(conf->limits[0].name, "b");
	assert_int_equal(conf->plans[0].callers.count, 1);
	conf_release(conf);
}

/* Each error is in the file and the line where it is. */
static void errors_in_included_files(void **state)
{
	(void)state;
	make("main.ini",
		"include = conf.d/*.ini\n[limit a]\nrate = 1 per 1s\n\n" REST "colour = green\n");
	make("conf.d/10-c.ini", "[limit c]\nrate = 3 per 1s\n");
	make("conf.d/20-b.ini", "\n[limit b]\nrate = 2 per fortnight\n");
	load_bad("/conf.d/20-b.ini:3: [limit b] rate:", "/main.ini:12: [route r] colour:");

	make("main.ini", "include = conf.d/*.ini\n[limit a]\nrate = 1 per 1s\n" REST);
	make("conf.d/20-b.ini", "[limit b]\nrate = 2 per 1s\n[limit c]\nrate = 1 per 1s\n");
	load_bad("/conf.d/20-b.ini:3: [limit c] is given twice; the first is in ", NULL);
	load_bad("/conf.d/10-c.ini:1", NULL);

	/* What is checked at the end is found as well. */
	make("conf.d/20-b.ini", "[limit b]\nrate = 2 per 1s\n[listener m]\nbind = 127.0.0.1:1\n");
	load_bad("/main.ini:5: [listener l] bind: 127.0.0.1:1 is given twice; the first is in ",
		NULL);
	make("conf.d/20-b.ini", "nothing\n[limit b]\nrate = 2 per 1s\n");
	load_bad("/conf.d/20-b.ini:1: invalid setting \"nothing\"", NULL);
}

static void loops(void **state)
{
	(void)state;
	make("main.ini", "include = x.ini\n" REST);
	make("x.ini", "include = y.ini\n[limit a]\nrate = 1 per 1s\n");
	make("y.ini", "[limit b]\nrate = 1 per 1s\n[limit c]\nrate = 1 per 1s\n[sluice]\ninclude = "
		      "x.ini\n");
	load_bad("/y.ini:6: [sluice] include: ", NULL);
	load_bad("/x.ini includes itself, by way of this line", NULL);
	make("y.ini", "include = y*.ini\n[limit b]\nrate = 1 per 1s\n[limit c]\nrate = 1 per 1s\n");
	load_bad("/y.ini includes itself, by way of this line", NULL);
	/* By another name. */
	assert_int_equal(symlink("x.ini", path_of("z.link")), 0);
	make("y.ini", "include = z.link\n[limit b]\nrate = 1 per 1s\n[limit c]\nrate = 1 per 1s\n");
	load_bad("/x.ini includes itself", NULL);
}

/* Files that include many each can't hold up a start for ever. */
static void too_many(void **state)
{
	char name[64], text[64];
	struct conf_errors errors;

	(void)state;
	make("main.ini", "include = level1.ini\n" REST);
	for (int i = 1; i <= 17; i++) {
		snprintf(name, sizeof(name), "level%d.ini", i);
		snprintf(text, sizeof(text), "include = level%d.ini\n", i + 1);
		make(name, text);
	}
	assert_null(conf_load(path_of("main.ini"), &errors));
	print_errors(&errors);
	assert_non_null(strstr(errors.items[0].text, "/level15.ini:1: [sluice] include: "));
	assert_non_null(strstr(errors.items[0].text, "expected at most 16"));
	conf_errors_free(&errors);

	make("main.ini", "include = fan1.ini\n" REST);
	for (int i = 1; i < 10; i++) {
		FILE *file;

		snprintf(name, sizeof(name), "fan%d.ini", i);
		make(name, "");
		file = fopen(path_of(name), "w");
		for (int j = 0; j < 20; j++)
			fprintf(file, "include = fan%d.ini\n", i + 1);
		fclose(file);
	}
	make("fan10.ini", "");
	assert_null(conf_load(path_of("main.ini"), &errors));
	assert_true(errors.count < 50);
	assert_non_null(strstr(errors.items[0].text, "is one file more than the 1000"));
	conf_errors_free(&errors);
}

static void what_is_not_there(void **state)
{
	const struct conf *conf;

	(void)state;
	make("main.ini",
		"include = none.ini\n[limit a]\nrate = 1 per 1s\n[limit b]\nrate = 1 per 1s\n"
		"[limit c]\nrate = 1 per 1s\n" REST);
	load_bad("/main.ini:1: [sluice] include: there is no file", NULL);
	make("main.ini", "include = none.d/*.ini\n[limit a]\nrate = 1 per 1s\n[limit b]\n"
			 "rate = 1 per 1s\n[limit c]\nrate = 1 per 1s\n" REST);
	load_bad("none.d/*.ini can't be searched: No such file or directory", NULL);
	assert_int_equal(mkdir(path_of("none.d"), 0700), 0);
	conf = load_good();
	conf_release(conf);
	assert_int_equal(mkdir(path_of("none.d/f.ini"), 0700), 0);
	load_bad("none.d/f.ini can't be read: it is a folder", NULL);
	assert_int_equal(rmdir(path_of("none.d/f.ini")), 0);
	assert_int_equal(mkfifo(path_of("none.d/f.ini"), 0600), 0);
	load_bad("none.d/f.ini can't be read: not a regular file", NULL);
}

/* Elsewhere it is no key, so that nobody asks which section the next line is in. */
static void in_other_sections(void **state)
{
	(void)state;
	make("main.ini", "[limit a]\nrate = 1 per 1s\n[limit b]\nrate = 1 per 1s\n[limit c]\n"
			 "rate = 1 per 1s\n" REST "include = conf.d/*.ini\n");
	load_bad("/main.ini:14: [route r] include: unknown key here; it belongs in [sluice]", NULL);
}

UNIT_SUITE(test_include)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_in_their_order, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(inside_of_sluice, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			errors_in_included_files, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(loops, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(too_many, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(what_is_not_there, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(in_other_sections, make_folder, remove_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
