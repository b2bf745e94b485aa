/* Secrets stand in files of their own or in the environment, and in no error text. */
#include "text.h"

#include "conf/reference.h"

#include <unistd.h>

#include "tests/unit/suite.h"

static char folder[64], ini[96], key[96];

static int begin(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/sluice-secret-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(ini, sizeof(ini), "%s/t.ini", folder);
	snprintf(key, sizeof(key), "%s/grip.key", folder);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(ini);
	unlink(key);
	return rmdir(folder);
}

static void write_file(const char *path, const void *bytes, size_t len)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	fclose(file);
}

static const struct conf *load(const char *setting, struct conf_errors *errors)
{
	char text[512];

	snprintf(text, sizeof(text), TEXT_BASE "[sluice]\n%s\n", setting);
	write_file(ini, text, strlen(text));
	return conf_load(ini, errors);
}

static void assert_key(const char *setting, const char *expected, size_t len)
{
	struct conf_errors errors;
	const struct conf *conf = load(setting, &errors);

	print_errors(&errors);
	assert_non_null(conf);
	conf_errors_free(&errors);
	assert_int_equal(conf->grip.key.len, len);
	if (len > 0)
		assert_memory_equal(conf->grip.key.at, expected, len);
	conf_release(conf);
}

/* NULL: of no secret. */
static void assert_warned(const char *setting, const char *what)
{
	struct conf_errors errors;
	const struct conf *conf = load(setting, &errors);
	const char *found = NULL;

	assert_non_null(conf);
	conf_errors_free(&errors);
	for (size_t i = 0; i < conf->warning_count; i++) {
		if (strstr(conf->warnings[i].text, "the secret has"))
			found = conf->warnings[i].text;
	}
	if (what)
		assert_string_equal(found, what);
	else
		assert_null(found);
	conf_release(conf);
}

static void assert_wrong(const char *setting, const char *what)
{
	struct conf_errors errors;

	assert_null(load(setting, &errors));
	assert_int_equal(errors.count, 1);
	if (!strstr(errors.items[0].text, what))
		fail_msg("%s", errors.items[0].text);
	assert_null(strstr(errors.items[0].text, "hush"));
	conf_errors_free(&errors);
}

static void from_files(void **state)
{
	static const struct {
		const char *file, *expected;
	} cases[] = {{"hush", "hush"}, {"hush\n", "hush"}, {"hush\r\n", "hush"},
		{"hush\n\n", "hush\n"}, {"base64:aHVzaA==\n", "hush"}, {" hush ", " hush "}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_file(key, cases[i].file, strlen(cases[i].file));
		assert_key(
			"grip_key = file:grip.key", cases[i].expected, strlen(cases[i].expected));
	}
	write_file(key, "a\0b", 3);
	assert_key("grip_key = file:grip.key", "a\0b", 3);
	write_file(key, "base64:AAEC/w==", 15);
	assert_key("grip_key = file:grip.key", "\0\1\2\xff", 4);
	assert_key("", "", 0);
}

static void from_the_environment(void **state)
{
	(void)state;
	setenv("TEST_GRIP_KEY", "hush", 1);
	assert_key("grip_key = ${TEST_GRIP_KEY}", "hush", 4);
	setenv("TEST_GRIP_KEY", "base64:AAEC", 1);
	assert_key("grip_key = ${TEST_GRIP_KEY}", "\0\1\2", 3);
	setenv("TEST_GRIP_KEY", "base64:hush!", 1);
	assert_wrong("grip_key = ${TEST_GRIP_KEY}", "expected base64 with padding");
	unsetenv("TEST_GRIP_KEY");
	assert_wrong("grip_key = ${TEST_GRIP_KEY}", "TEST_GRIP_KEY");
}

static void wrong_ones(void **state)
{
	static char long_key[4097];

	(void)state;
	assert_wrong("grip_key = hush", "expected file:PATH, or ${NAME} of the environment");
	assert_wrong("grip_key = file:", "expected file:PATH");
	assert_wrong("grip_key = file:none", "can't be read: No such file");
	assert_wrong("grip_key = file:.", "can't be read");
	write_file(key, "\n", 1);
	assert_wrong("grip_key = file:grip.key", "expected at least one byte");
	write_file(key, "base64:hush?", 12);
	assert_wrong("grip_key = file:grip.key", "expected base64 with padding");
	memset(long_key, 'x', sizeof(long_key));
	write_file(key, long_key, sizeof(long_key));
	assert_wrong("grip_key = file:grip.key", "expected a file of at most 4096 bytes");
}

static void a_dump_shows_no_password(void **state)
{
	static const struct {
		const char *written, *dumped; /* NULL: as written */
	} rows[] = {
		{"redis://a:pw1@h:1, redis://[::1]:2", "redis://a:***@h:1, redis://[::1]:2"},
		{"redis://a:p:w@h, redis://i", "redis://a:***@h, redis://i"},
		{"redis://h, redis://i:5", NULL},
		{"redis://a:${WORD}@h", NULL},
	};

	(void)state;
	setenv("WORD", "pw", 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char given[1024], expected[256], *text = NULL;
		size_t len = 0;
		FILE *out = open_memstream(&text, &len);

		snprintf(given, sizeof(given),
			"[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n"
			"[route r]\nupstream = u\n[fleet]\nstore = %s\nsentinel = main\n",
			rows[i].written);
		snprintf(expected, sizeof(expected), "\nstore = %s\n",
			rows[i].dumped ? rows[i].dumped : rows[i].written);
		const struct conf *conf = parse_good(given);
		reference_dump(conf, out);
		fclose(out);
		assert_non_null(strstr(text, expected));
		conf_release(parse_good(text));
		conf_release(conf);
		free(text);
	}
	unsetenv("WORD");
}

static void short_ones_are_warned_of(void **state)
{
	(void)state;
	write_file(key, "x\n", 2);
	assert_warned("grip_key = file:grip.key",
		"[sluice] grip_key: the secret has 1 bytes, and can be guessed from what is signed "
		"with it; expected at least 16");
	write_file(key, "0123456789abcde\n", 16);
	assert_warned("grip_key = file:grip.key",
		"[sluice] grip_key: the secret has 15 bytes, and can be guessed from what is "
		"signed with it; expected at least 16");
	write_file(key, "0123456789abcdef\n", 17);
	assert_warned("grip_key = file:grip.key", NULL);
#ifdef HAVE_REDIS
	write_file(key, "x\n", 2);
	assert_warned("[fleet]\nstore = redis://h\nbind = 127.0.0.1:9\nsecret = file:grip.key",
		"[fleet] secret: the secret has 1 bytes, and can be guessed from what is signed "
		"with it; expected at least 16");
#endif
}

UNIT_SUITE(test_secret)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_files),
		cmocka_unit_test(from_the_environment),
		cmocka_unit_test(wrong_ones),
		cmocka_unit_test(short_ones_are_warned_of),
		cmocka_unit_test(a_dump_shows_no_password),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
