/* The use of limits: which hours are asked for, and their sums as JSON and CSV, in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "admin/background.h"
#include "admin/handlers.h"
#include "admin/request.h"
#include "daemon/usage.h"
#include "fake_mhd.h"
#include "tests/unit/suite.h"

static char folder[] = "/tmp/sluice-unit-XXXXXX";
static bool is_recorded, goes_on;

/* ---- in the place of others ------------------------------------------------------------------ */

const char *__wrap_usage_folder(const struct daemon *daemon);
const char *__wrap_usage_folder(const struct daemon *daemon)
{
	(void)daemon;
	return is_recorded ? folder : NULL;
}

bool __wrap_background_goes_on(struct background_job *job);
bool __wrap_background_goes_on(struct background_job *job)
{
	(void)job;
	return goes_on;
}

static size_t sent_bytes;

void __wrap_background_sends(struct background_job *job, size_t bytes);
void __wrap_background_sends(struct background_job *job, size_t bytes)
{
	(void)job;
	sent_bytes += bytes;
}

static struct {
	MHD_ContentReaderCallback read;
	void *ctx;
	MHD_ContentReaderFreeCallback free;
} response;

struct MHD_Response *__wrap_MHD_create_response_from_callback(uint64_t size, size_t block_size,
	MHD_ContentReaderCallback read, void *ctx, MHD_ContentReaderFreeCallback free);
struct MHD_Response *__wrap_MHD_create_response_from_callback(uint64_t size, size_t block_size,
	MHD_ContentReaderCallback read, void *ctx, MHD_ContentReaderFreeCallback free)
{
	assert_true(size == MHD_SIZE_UNKNOWN && block_size > 0);
	response.read = read;
	response.ctx = ctx;
	response.free = free;
	return (struct MHD_Response *)&response;
}

/* ---- a request ------------------------------------------------------------------------------- */

static char *answer;
static const char *media_type;

/* The status; `answer` has the content, read in pieces of `piece` bytes. */
static unsigned ask_in(size_t piece, const char *const *arguments)
{
	struct admin_request request = {.status = 200};
	size_t len = 0;

	free(answer);
	answer = NULL;
	sent_bytes = 0;
	fake_mhd_arguments = arguments;
	admin_get_usage(&request);
	if (request.later)
		request.later(&request);
	media_type = request.media_type;
	if (!request.response) {
		answer = request.text;
		return request.status;
	}
	for (ssize_t got = 0; got >= 0; len += (size_t)got) {
		answer = realloc(answer, len + piece + 1);
		got = response.read(response.ctx, len, answer + len, piece);
		assert_true(got <= (ssize_t)piece && got != MHD_CONTENT_READER_END_WITH_ERROR);
		if (got < 0)
			break;
	}
	answer[len] = '\0';
	assert_int_equal(sent_bytes, len);
	response.free(response.ctx);
	return request.status;
}

#define ASK(...) ask_in(4096, (const char *const[]){__VA_ARGS__, NULL})
#define CSV      "format", "csv"

static void write_hour(const char *hour, const char *rows)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, hour);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(rows, file);
	fclose(file);
}

static int begin(void **state)
{
	(void)state;
	is_recorded = goes_on = true;
	write_hour("2026112209", "00000000000000aa 1 2 gold\n00000000000000bb 10 0 "
				 "gold\n00000000000000aa 5 0 free\n");
	write_hour("2026112210", "00000000000000aa 100 200 gold\n");
	write_hour("2026112300", "00000000000000aa 7000 0 gold\n00000000000000cc 1 1 cut");
	return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define HEAD "limit,caller,admitted,refused\r\n"

static void hours_are_added_up(void **state)
{
	(void)state;
	assert_int_equal(ASK("from", "2026-11-22", "to", "2026-11-23", CSV), 200);
	assert_string_equal(media_type, "text/csv; charset=utf-8; header=present");
	assert_string_equal(answer,
		HEAD "free,00000000000000aa,5,0\r\ngold,00000000000000aa,101,202\r\n"
		     "gold,00000000000000bb,10,0\r\n");
}

/* The hour of `to` is not included. */
static void an_hour_has_its_begin_and_end(void **state)
{
	static const char ten[] = HEAD "gold,00000000000000aa,100,200\r\n";

	(void)state;
	assert_int_equal(ASK("from", "2026-11-22T10", "to", "2026-11-22T11", CSV), 200);
	assert_string_equal(answer, ten);
	assert_int_equal(ASK("from", "2026-11-22T10:00", "to", "2026-11-23T00:00:00Z", CSV), 200);
	assert_string_equal(answer, ten);
	assert_int_equal(ASK("from", "2026-11-23Z", "to", "2026-11-24", CSV), 200);
	assert_string_equal(
		answer, HEAD "gold,00000000000000aa,7000,0\r\n"); /* the cut one is not */
	assert_int_equal(ASK("from", "2026-11-22T11", "to", "2026-11-23", CSV), 200);
	assert_string_equal(answer, HEAD);
}

static void as_json(void **state)
{
	(void)state;
	assert_int_equal(
		ASK("from", "2026-11-22T10", "to", "2026-11-22T11", "format", "json"), 200);
	assert_string_equal(media_type, "application/json");
	assert_string_equal(answer,
		"{\n  \"from\": \"2026-11-22T10:00:00Z\",\n  \"to\": \"2026-11-22T11:00:00Z\",\n"
		"  \"usage\": [\n    {\"limit\": \"gold\", \"caller\": \"00000000000000aa\", "
		"\"admitted\": 100, \"refused\": 200}\n  ]\n}");
	assert_int_equal(ASK("from", "2026-11-22T11", "to", "2026-11-22T12"), 200);
	json_t *empty = json_loads(answer, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(empty, "usage")), 0);
	assert_true(json_is_array(json_object_get(empty, "usage")));
	json_decref(empty);
}

static void names_of_limits_are_quoted(void **state)
{
	(void)state;
	write_hour("2026120100", "00000000000000aa 1 0 a,b\"c\"\n");
	assert_int_equal(ASK("from", "2026-12-01", "to", "2026-12-02", CSV), 200);
	assert_string_equal(answer, HEAD "\"a,b\"\"c\"\"\",00000000000000aa,1,0\r\n");
}

/* Whatever the sizes in which it is read; more rows than a piece has. */
static void pieces_are_the_whole(void **state)
{
	static char rows[1000 * 32];
	size_t len = 0;
	char *whole;

	(void)state;
	for (int i = 0; i < 1000; i++)
		len += (size_t)sprintf(rows + len, "%016x 1 0 gold\n", (unsigned)i);
	write_hour("2026120200", rows);
	for (int as_csv = 0; as_csv < 2; as_csv++) {
		const char *const words[] = {"from", "2026-12-02", "to", "2026-12-03", "format",
			as_csv ? "csv" : "json", NULL};
		assert_int_equal(ask_in(1 << 20, words), 200);
		whole = strdup(answer);
		for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
			assert_int_equal(ask_in(piece, words), 200);
			assert_string_equal(answer, whole);
		}
		json_t *value = json_loads(whole, 0, NULL);
		assert_int_equal(value != NULL, !as_csv);
		assert_int_equal(
			json_array_size(json_object_get(value, "usage")), as_csv ? 0 : 1000);
		json_decref(value);
		free(whole);
	}
}

static void wrong_questions(void **state)
{
	static const char *const times[] = {"2026-11", "2026-13-01", "2026-02-29", "2026-11-31",
		"2026-00-01", "2026-11-00", "1999-12-31", "2026-11-22T24", "2026-11-22T9",
		"2026-11-22 09", "2026-11-22T09:30", "2026-11-22T09:00:00+01:00", "20261122", "",
		"x"};

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (ASK("from", times[i], "to", "2030-01-01") != 400 || ASK("to", times[i]) != 400)
			fail_msg("%s", times[i]);
	}
	assert_int_equal(ASK("from", "2024-02-29", "to", "2024-03-01"), 200);
	assert_int_equal(ASK("from", "2026-11-22", "to", "2026-11-22"), 400);
	assert_int_equal(ASK("from", "2026-11-23", "to", "2026-11-22"), 400);
	assert_int_equal(ASK("format", "xml"), 400);
	assert_non_null(strstr(answer, "Invalid format; expected json or csv."));
	is_recorded = false;
	assert_int_equal(ASK("format", "csv"), 404);
}

static void one_that_is_stopped_has_no_sums(void **state)
{
	(void)state;
	goes_on = false;
	assert_int_equal(ASK("from", "2026-11-22", "to", "2026-11-23"), 503);
	assert_non_null(strstr(answer, "sluice is stopping."));
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[64];

	(void)state;
	free(answer);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

UNIT_SUITE(test_handle_usage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(hours_are_added_up, begin),
		cmocka_unit_test_setup(an_hour_has_its_begin_and_end, begin),
		cmocka_unit_test_setup(as_json, begin),
		cmocka_unit_test_setup(names_of_limits_are_quoted, begin),
		cmocka_unit_test_setup(pieces_are_the_whole, begin),
		cmocka_unit_test_setup(wrong_questions, begin),
		cmocka_unit_test_setup(one_that_is_stopped_has_no_sums, begin),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
