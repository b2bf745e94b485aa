/* What `sluice top` prints of two looks at a running sluice, a second apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "cli/operate.h"
#include "fake_remote.h"
#include "printed.h"
#include "tests/unit/suite.h"

#define STATUS                                                                                     \
	"{'version': '1', 'uptime_ms': 3661000, 'workers': 2, 'client_connections': 7,"            \
	" 'draining': false, 'queue': {'in_flight': 3, 'queued': 4, 'sessions': 5}}"
#define NO_CALLERS "{'span_ms': 500, 'sort': 'admitted', 'callers': []}"

/* What is answered in the first look and in the second, with ' for ". */
static struct {
	const char *status, *limits[2], *callers;
	const char *refused_path; /* is refused */
	enum remote_result refusal;
	unsigned calls;
	char callers_path[128];
} fake;

static uint64_t now_ms;

uint64_t __real_clock_monotonic_ms(void);
uint64_t __wrap_clock_monotonic_ms(void);
uint64_t __wrap_clock_monotonic_ms(void)
{
	return unit_runs("test_top") ? now_ms : __real_clock_monotonic_ms();
}

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!unit_runs("test_top"))
		return __real_nanosleep(time, left);
	now_ms += 2 * (uint64_t)time->tv_sec * 1000; /* the machine is busy */
	return 0;
}

static json_t *json_of(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	json_t *value = json_loads(copy, 0, NULL);
	free(copy);
	assert_non_null(value);
	return value;
}

static enum remote_result call(const struct remote *remote, const char *method, const char *path,
	const json_t *body, json_t **answer)
{
	unsigned look = fake.calls++ / 3;

	(void)remote;
	assert_null(body);
	assert_string_equal(method, "GET");
	*answer = NULL;
	if (fake.refused_path && strcmp(path, fake.refused_path) == 0)
		return fake.refusal;
	if (strcmp(path, "/api/v1/status") == 0) {
		*answer = json_of(fake.status);
	} else if (strcmp(path, "/api/v1/limits") == 0) {
		*answer = json_of(fake.limits[look]);
	} else {
		snprintf(fake.callers_path, sizeof(fake.callers_path), "%s", path);
		*answer = json_of(fake.callers);
	}
	return REMOTE_OK;
}

static int begin(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.status = STATUS;
	fake.limits[0] = fake.limits[1] = "{'limits': []}";
	fake.callers = NO_CALLERS;
	now_ms = 1000;
	return 0;
}

static struct printed top(void)
{
	return printed_by(cli_operate, WORDS("top"));
}

static void assert_has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no \"%s\" in:\n%s", line, text);
}

static void the_head_has_the_counts_of_now(void **state)
{
	struct printed printed = top();

	(void)state;
	assert_int_equal(printed.status, 0);
	assert_int_equal(fake.calls, 6);
	assert_has(printed.out, "sluice 1, up 1h 1m, 2 workers\n");
	assert_has(printed.out, "7 connections, 3 requests in flight, 4 queued, 5 sessions\n");
	assert_has(printed.out, "Callers most admitted in the last 500ms\n");
	assert_has(printed.out, "nobody\n");
	assert_null(strchr(printed.out, '\033'));
	assert_string_equal(fake.callers_path, "/api/v1/callers?count=100");
	begin(state);
	fake.status = "{'version': '1', 'draining': true}";
	assert_has(top().out, "0 workers, draining\n");
}

/* Two seconds have passed between the looks. */
static void rates_are_differences_over_time(void **state)
{
	(void)state;
	fake.limits[0] = "{'limits': [{'name': 'a', 'callers': 12345, 'verdicts':"
			 " {'admitted': 100, 'refused': 7, 'shadow_refused': 0}},"
			 " {'name': 'b', 'callers': 0, 'verdicts': {'admitted': 90}}]}";
	fake.limits[1] = "{'limits': [{'name': 'b', 'callers': 1, 'verdicts': {'admitted': 40}},"
			 " {'name': 'a', 'callers': 12345, 'verdicts':"
			 " {'admitted': 150, 'refused': 27, 'shadow_refused': 8000000}},"
			 " {'name': 'new', 'callers': 1, 'verdicts': {'admitted': 1000}}]}";
	const char *out = top().out;
	assert_has(
		out, "a                                    25         10       4.0M      12.3k\n");
	assert_has(
		out, "b                                     0          0          0          1\n");
	assert_has(
		out, "new                                   0          0          0          1\n");
}

static void counts_have_five_characters_at_most(void **state)
{
	static const struct {
		const char *count, *shown;
	} some[] = {{"9999", " 9999"}, {"10000", "10.0k"}, {"999949", "999.9k"},
		{"999950", " 1.0M"}, {"1234567890", " 1.2G"}};
	char limits[256];

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		begin(state);
		snprintf(limits, sizeof(limits), "{'limits': [{'name': 'a', 'callers': %s}]}",
			some[i].count);
		fake.limits[0] = fake.limits[1] = limits;
		assert_has(top().out, some[i].shown);
	}
}

static void many_limits_are_counted(void **state)
{
	(void)state;
	fake.limits[0] = fake.limits[1] =
		"{'limits': [{'name': 'l1'}, {'name': 'l2'}, {'name': 'l3'}, {'name': 'l4'},"
		" {'name': 'l5'}, {'name': 'l6'}, {'name': 'l7'}]}";
	struct printed printed = top();
	assert_has(printed.out, "\nl5 ");
	assert_null(strstr(printed.out, "\nl6 "));
	assert_has(printed.out, "\n... 2 more: sluice limits\n");
}

static void a_bar_is_full_with_the_quota(void **state)
{
	static const struct {
		const char *quota, *used, *bar;
	} some[] = {{"100", "0", " .....\n"}, {"100", "1", " #....\n"}, {"100", "20", " #....\n"},
		{"100", "21", " ##...\n"}, {"100", "99", " #####\n"}, {"100", "100", " #####\n"},
		{"100", "150", " #####\n"}, {"0", "0", " .....\n"}};
	char callers[256];

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		begin(state);
		snprintf(callers, sizeof(callers),
			"{'sort': 'admitted', 'callers': [{'caller': 'c', 'limit': 'l', 'quota': "
			"%s,"
			" 'used': %s}]}",
			some[i].quota, some[i].used);
		fake.callers = callers;
		assert_has(top().out, some[i].bar);
	}
}

static void a_caller_has_a_line(void **state)
{
	(void)state;
	fake.callers =
		"{'span_ms': 2000, 'sort': 'refused', 'callers': [{'caller':"
		" '0123456789abcdef', 'address': '2001:db8::1234:5678', 'limit': 'l',"
		" 'quota': 10, 'used': 10, 'admitted': 1, 'refused': 22, 'shadow_refused': 3,"
		" 'banned': true}]}";
	struct printed printed = printed_by(cli_operate, WORDS("top", "--refused"));
	assert_int_equal(printed.status, 0);
	assert_has(printed.out, "Callers most refused in the last 2.0s\n");
	assert_has(printed.out, "0123456789abcdef 2001:db8::1234: l                   1      22"
				"       3 ##### ban\n");
	assert_string_equal(fake.callers_path, "/api/v1/callers?count=100&sort=refused");
}

static void a_screen_has_room_for_so_many_callers(void **state)
{
	char callers[4096] = "{'sort': 'admitted', 'callers': [{'caller': 'c0'}";
	unsigned lines = 0;

	(void)state;
	for (int i = 1; i < 40; i++)
		sprintf(callers + strlen(callers), ", {'caller': 'c%d'}", i);
	strcat(callers, "]}");
	fake.callers = callers;
	struct printed printed = top();
	for (const char *c = printed.out; *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 24 - 1); /* the cursor is in the last */
}

static void programs_get_the_answers(void **state)
{
	struct printed printed = printed_by(cli_operate, WORDS("top", "--json"));
	json_t *all = json_loads(printed.out, 0, NULL);

	(void)state;
	assert_int_equal(printed.status, 0);
	assert_int_equal(fake.calls, 3);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(all, "status"), "workers")), 2);
	assert_true(json_is_array(json_object_get(all, "limits")));
	assert_true(json_is_object(json_object_get(all, "callers")));
	json_decref(all);
}

static void an_error_ends_it(void **state)
{
	fake.refused_path = "/api/v1/limits";
	fake.refusal = REMOTE_REFUSED;
	struct printed printed = top();
	assert_int_equal(printed.status, 1);
	assert_string_equal(printed.out, "");
	assert_int_equal(fake.calls, 2);
	begin(state);
	fake.refused_path = "/api/v1/callers?count=100";
	fake.refusal = REMOTE_UNREACHABLE;
	assert_int_equal(top().status, 3);
	assert_int_equal(printed_by(cli_operate, WORDS("top", "--json")).status, 3);
}

UNIT_SUITE(test_top)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_head_has_the_counts_of_now, begin),
		cmocka_unit_test_setup(rates_are_differences_over_time, begin),
		cmocka_unit_test_setup(counts_have_five_characters_at_most, begin),
		cmocka_unit_test_setup(many_limits_are_counted, begin),
		cmocka_unit_test_setup(a_bar_is_full_with_the_quota, begin),
		cmocka_unit_test_setup(a_caller_has_a_line, begin),
		cmocka_unit_test_setup(a_screen_has_room_for_so_many_callers, begin),
		cmocka_unit_test_setup(programs_get_the_answers, begin),
		cmocka_unit_test_setup(an_error_ends_it, begin),
	};

	fake_remote_call = call;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
