/* Command lines of `sluice protect` as ini, and errors by their options. */
#include "cli/protect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static const struct protect_home user_home = {"/run/user/1000", 1000};

/* The value that the ini has for one option. */
static void expect(enum protect_setting setting, const char *given, struct protect_home home,
	const char *value)
{
	struct protect protect = {.given[PROTECT_SERVER] = ":1"};

	protect.given[setting] = given;
	assert_true(protect_settle(&protect, home));
	assert_string_equal(protect.values[setting], value);
	protect_clear(&protect);
}

static void a_server_has_a_host_and_a_port(void **state)
{
	(void)state;
	static const char *const servers[][2] = {{"10.0.0.5:80", "10.0.0.5:80"},
		{":9000", "127.0.0.1:9000"}, {"http://api:81", "api:81"}, {"http://api", "api:80"},
		{"HTTP://api/", "api:80"}, {"http://[::1]:9", "[::1]:9"},
		{"http://[::1]", "[::1]:80"}, {"unix:/run/api", "unix:/run/api"},
		{"http://api/v1", "http://api/v1"}, {"http://", "http://"},
		{"https://api", "https://api"}};

	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++)
		expect(PROTECT_SERVER, servers[i][0], user_home, servers[i][1]);
}

static void a_port_alone_is_of_all_or_of_this_machine(void **state)
{
	(void)state;
	expect(PROTECT_LISTEN, ":80", user_home, "0.0.0.0:80");
	expect(PROTECT_LISTEN, "[::]:80", user_home, "[::]:80");
	expect(PROTECT_LISTEN, NULL, user_home, "127.0.0.1:8080");
	expect(PROTECT_ADMIN, ":8081", user_home, "127.0.0.1:8081");
	expect(PROTECT_ADMIN, "unix:/a", user_home, "unix:/a");
}

static void the_admin_socket_is_the_users(void **state)
{
	(void)state;
	expect(PROTECT_ADMIN, NULL, user_home, "unix:/run/user/1000/sluice-8080.sock");
	expect(PROTECT_ADMIN, NULL, (struct protect_home){NULL, 0}, "unix:/run/sluice-8080.sock");
	expect(PROTECT_ADMIN, NULL, (struct protect_home){"relative", 7},
		"unix:/tmp/sluice-7/sluice-8080.sock");
}

static void its_name_has_the_listeners_port(void **state)
{
	static const char *const listens[][2] = {{":80", "-80"}, {"[::1]:81", "-81"},
		{"unix:/a:b", ""}, {"127.0.0.1:1, 127.0.0.1:2", "-2"}, {"none", ""}};
	char wanted[64];

	(void)state;
	for (size_t i = 0; i < sizeof(listens) / sizeof(listens[0]); i++) {
		struct protect protect = {
			.given[PROTECT_SERVER] = ":1", .given[PROTECT_LISTEN] = listens[i][0]};
		assert_true(protect_settle(&protect, user_home));
		snprintf(
			wanted, sizeof(wanted), "unix:/run/user/1000/sluice%s.sock", listens[i][1]);
		assert_string_equal(protect.values[PROTECT_ADMIN], wanted);
		protect_clear(&protect);
	}
}

static void a_value_adds_no_line(void **state)
{
	static const char *const values[] = {"ip\n[admin]", "ip\r", "\x1b[2J", "", "  "};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct protect protect = {
			.given[PROTECT_SERVER] = ":1", .given[PROTECT_KEY] = values[i]};
		assert_false(protect_settle(&protect, user_home));
		protect_clear(&protect);
	}
}

static void the_ini_repeats_the_command(void **state)
{
	struct protect protect = {.given = {[PROTECT_SERVER] = ":9000",
					  [PROTECT_RATE] = "10 per 1s",
					  [PROTECT_KEY] = "header:X'Y"}};
	char *text = NULL;
	size_t len = 0;

	(void)state;
	assert_true(protect_settle(&protect, user_home));
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	protect_write_ini(out, &protect);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text,
		"# sluice protect :9000 --rate '10 per 1s' --key 'header:X'\\''Y'\n"
		"\n[admin]\nbind = unix:/run/user/1000/sluice-8080.sock\n"
		"\n[listener public]\nbind = 127.0.0.1:8080\n"
		"\n[upstream protected]\nserver = 127.0.0.1:9000\n"
		"\n[limit burst]\nkey = header:X'Y\nrate = 10 per 1s\n"
		"\n[route all]\nupstream = protected\nlimits = burst\n");
	free(text);
	protect_clear(&protect);
}

/* What is on stderr for the errors of an ini with these values. */
static char *errors_of(const char *server, const char *listen, const char *admin, const char *rate)
{
	struct protect protect = {.given = {[PROTECT_SERVER] = server,
					  [PROTECT_LISTEN] = listen,
					  [PROTECT_ADMIN] = admin,
					  [PROTECT_RATE] = rate}};
	struct conf_errors errors;
	char *ini = NULL, *text = NULL;
	size_t len = 0, text_len = 0;

	assert_true(protect_settle(&protect, user_home));
	FILE *out = open_memstream(&ini, &len);
	assert_non_null(out);
	protect_write_ini(out, &protect);
	assert_int_equal(fclose(out), 0);
	conf_release(conf_parse(ini, len, "sluice protect", NULL, &errors));
	out = open_memstream(&text, &text_len);
	assert_non_null(out);
	protect_print_errors(out, &errors);
	assert_int_equal(fclose(out), 0);
	conf_errors_free(&errors);
	protect_clear(&protect);
	free(ini);
	return text;
}

static void an_error_names_its_option(void **state)
{
	char *text = errors_of("9000", NULL, NULL, NULL);

	(void)state;
	assert_ptr_equal(
		strstr(text, "sluice protect: SERVER: \"9000\" has no address; expected HOST:PORT"),
		text);
	free(text);
	text = errors_of(":1", "x", "0.0.0.0:9", "10 pr 1s");
	assert_non_null(strstr(text, "sluice protect: --listen: \"x\" has no port; expected"));
	assert_non_null(
		strstr(text, "sluice protect: --rate: invalid rate \"10 pr 1s\"; expected"));
	assert_non_null(strstr(text, "sluice protect: --admin: 0.0.0.0:9 can be reached by other "
				     "machines; expected a port of "
				     "127.0.0.1, or unix:/PATH\n"));
	free(text);
	text = errors_of(":1", NULL, NULL, NULL);
	assert_string_equal(text, "");
	free(text);
}

UNIT_SUITE(test_protect_ini)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_has_a_host_and_a_port),
		cmocka_unit_test(a_port_alone_is_of_all_or_of_this_machine),
		cmocka_unit_test(the_admin_socket_is_the_users),
		cmocka_unit_test(its_name_has_the_listeners_port),
		cmocka_unit_test(a_value_adds_no_line),
		cmocka_unit_test(the_ini_repeats_the_command),
		cmocka_unit_test(an_error_names_its_option),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
