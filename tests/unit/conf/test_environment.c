/* Values from the environment: ${NAME}, ${NAME:-DEFAULT}, and $${ for a text that only looks so. */
#include "text.h"
#include "tests/unit/suite.h"

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* The value of a response field, which takes any text. */
static void field_is(const char *written, const char *expected)
{
	char *setting = NULL;
	const struct conf *conf;

	assert_true(
		asprintf(&setting, "response_header_set = X: %s\nbind = 127.0.0.1:3", written) > 0);
	conf = good("listener e", setting);
	assert_string_equal(conf->listeners[1].response_set.items[0].value, expected);
	conf_release(conf);
	free(setting);
}

static void variables(void **state)
{
	(void)state;
	set("SLUICE_A", "one");
	set("SLUICE_b2", "two");
	set("SLUICE_EMPTY", "");
	set("SLUICE_NONE", NULL);
	field_is("${SLUICE_A}", "one");
	field_is("a ${SLUICE_A}${SLUICE_b2} z", "a onetwo z");
	field_is("a${SLUICE_EMPTY}z", "az");
	field_is("${SLUICE_A:-other}", "one");
	field_is("${SLUICE_NONE:-other}", "other");
	field_is("${SLUICE_EMPTY:-other}", "other");
	field_is("a${SLUICE_NONE:-}z", "az");
	field_is("${SLUICE_NONE:-a:-b}", "a:-b");
}

/* What was legal as a literal before stays one, or has an escape. */
static void literals(void **state)
{
	(void)state;
	set("SLUICE_A", "one");
	field_is("$${SLUICE_A}", "${SLUICE_A}");
	field_is("$${SLUICE_A} ${SLUICE_A} $${SLUICE_A}", "${SLUICE_A} one ${SLUICE_A}");
	field_is("$$${SLUICE_A}", "$${SLUICE_A}");
	field_is("$SLUICE_A", "$SLUICE_A");
	field_is("costs $5, $$, ${}, ${5}, ${ SLUICE_A }, $",
		"costs $5, $$, ${}, ${5}, ${ SLUICE_A }, $");
	field_is("$${}", "$${}");
}

/* Nothing that a variable holds is read again: no comment, no variable, no further line. */
static void contents_are_literal(void **state)
{
	(void)state;
	set("SLUICE_A", "x ; y # ${SLUICE_B} $${SLUICE_B}");
	field_is("${SLUICE_A}", "x ; y # ${SLUICE_B} $${SLUICE_B}");
	set("SLUICE_A", "  x\t");
	field_is("a${SLUICE_A}", "a  x");
	set("SLUICE_A", "x\nbind = 127.0.0.1:9");
	bad("sluice", "via = ${SLUICE_A}", "the environment's SLUICE_A holds byte 0x0a");
	set("SLUICE_A", "x\x7f");
	bad("sluice", "via = ${SLUICE_A}", "the environment's SLUICE_A holds byte 0x7f");
}

static void every_type_of_value(void **state)
{
	const struct conf *conf;

	(void)state;
	set("SLUICE_N", "3");
	set("SLUICE_T", "7s");
	conf = good("upstream e",
		"server = 127.0.0.1:${SLUICE_N} weight=${SLUICE_N}\nconnect_timeout = ${SLUICE_T}\n"
		"max_in_flight = ${SLUICE_N}\nbalance = ${SLUICE_B:-hash}");
	assert_int_equal(conf->upstreams[1].servers[0].weight, 3);
	assert_string_equal(conf->upstreams[1].servers[0].address.text, "127.0.0.1:3");
	assert_int_equal(conf->upstreams[1].connect_timeout_ms, 7000);
	assert_int_equal(conf->upstreams[1].max_in_flight, 3);
	assert_int_equal(conf->upstreams[1].balance, CONF_BALANCE_HASH);
	conf_release(conf);
}

static void errors_name_the_variable(void **state)
{
	(void)state;
	set("SLUICE_NONE", NULL);
	set("SLUICE_EMPTY", "");
	set("SLUICE_A", "many");
	bad("sluice", "workers = ${SLUICE_NONE}",
		"t:11: [sluice] workers: the environment variable SLUICE_NONE is not set; "
		"set it, or write a default as in ${SLUICE_NONE:-DEFAULT}");
	bad("sluice", "workers = ${SLUICE_A}", "the line has ${SLUICE_A}");
	bad("sluice", "workers = ${SLUICE_EMPTY}", "there is no value");
	bad("sluice", "workers = ${SLUICE_A", "\"${SLUICE_A\" has no \"}\"");
	bad("sluice", "workers = ${SLUICE-A}", "expected ${NAME} or ${NAME:-DEFAULT}, or $${");
	bad("sluice", "workers = ${SLUICE_A:=1}", "expected ${NAME} or ${NAME:-DEFAULT}");
	bad("sluice", "workers = ${SLUICE_A:-${B}}", "expected ${NAME} or ${NAME:-DEFAULT}");
	bad("upstream e", "server = ${SLUICE_NONE}:80",
		"[upstream e] server: the environment variable");
}

static void what_is_too_long(void **state)
{
	static char text[40001];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	set("SLUICE_A", text);
	bad("sluice", "via = ${SLUICE_A}${SLUICE_A}", "the value has more than 65535 bytes");
	set("SLUICE_A", NULL);
}

UNIT_SUITE(test_environment)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables),
		cmocka_unit_test(literals),
		cmocka_unit_test(contents_are_literal),
		cmocka_unit_test(every_type_of_value),
		cmocka_unit_test(errors_name_the_variable),
		cmocka_unit_test(what_is_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
