/* The callers' use of each limit, added up over the files that usage = writes, on a thread of its
 * own (admin/background.h), and then sent piece by piece. */
#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/background.h"
#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "daemon/daemon.h"
#include "daemon/usage.h"
#include "gate/identity.h"
#include "stats/usage_file.h"
#include "stats/usage_sums.h"

#define ROWS_MAX    1000000
#define PIECE_ROWS  256
#define BLOCK_BYTES 16384

struct question {
	uint64_t from_s, to_s;
	bool is_csv;
};

/* One answer while it is made and sent. */
struct usage_export {
	struct background_job *job;
	struct usage_sums sums;
	struct question question;
	bool has_begun;  /* its first lines are in a piece */
	size_t next_row; /* table.count + 1: its last line, too */
	char *piece;     /* or NULL */
	size_t piece_bytes, piece_sent;
};

/* ---- the question ---------------------------------------------------------------------------- */

/* A number of `digits` digits below `end`. */
static bool read_digits(const char **at, unsigned digits, int end, int *number)
{
	*number = 0;
	for (; digits > 0; digits--, (*at)++) {
		if (!isdigit((unsigned char)**at))
			return false;
		*number = *number * 10 + (**at - '0');
	}
	return *number < end;
}

static bool skip(const char **at, const char *text)
{
	size_t len = strlen(text);

	if (strncmp(*at, text, len) != 0)
		return false;
	*at += len;
	return true;
}

/* `2026-11-22` or `2026-11-22T09`, also with `:00`, `:00:00` and `Z` behind it; UTC. */
static bool read_time(const char *text, uint64_t *time_s)
{
	struct tm tm = {0};
	int year, month, day;

	if (!read_digits(&text, 4, 10000, &year) || year < 2000 || !skip(&text, "-") ||
		!read_digits(&text, 2, 13, &month) || !skip(&text, "-") ||
		!read_digits(&text, 2, 32, &day))
		return false;
	if (skip(&text, "T") && !read_digits(&text, 2, 24, &tm.tm_hour))
		return false;
	if (skip(&text, ":00"))
		skip(&text, ":00");
	skip(&text, "Z");
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	*time_s = (uint64_t)timegm(&tm);
	/* timegm makes 3 March of 31 February. */
	return *text == '\0' && tm.tm_mon == month - 1 && tm.tm_mday == day;
}

/* Without from and to: this day (UTC), up to the end of this hour. False with the problem sent. */
static bool read_question(struct admin_request *request, struct question *question)
{
	const char *from = admin_argument(request, "from"), *to = admin_argument(request, "to");
	const char *format = admin_argument(request, "format");
	uint64_t now_s = (uint64_t)time(NULL);

	question->is_csv = format && strcmp(format, "csv") == 0;
	if (format && strcmp(format, "json") != 0 && !question->is_csv) {
		admin_respond_problem(request, 400, "Invalid format; expected json or csv.");
		return false;
	}
	question->from_s = now_s / 86400 * 86400;
	question->to_s = (now_s / USAGE_HOUR_S + 1) * USAGE_HOUR_S;
	if ((!from || read_time(from, &question->from_s)) &&
		(!to || read_time(to, &question->to_s)) && question->from_s < question->to_s)
		return true;
	admin_respond_problem(request, 400,
		"Invalid from or to; expected hours in UTC such as 2026-11-22T09 or 2026-11-22, "
		"and to after from. The hour of to is not included.");
	return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* A CSV field (RFC 4180). */
static void put_field(FILE *out, const char *text)
{
	if (!strpbrk(text, "\",\r\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

/* False without memory. */
static bool put_json_row(
	FILE *out, const char *limit, const char *caller, const struct usage_row *row)
{
	json_t *value = json_pack("{s:o, s:s, s:I, s:I}", "limit", admin_json_text(limit), "caller",
		caller, "admitted", (json_int_t)row->admitted, "refused", (json_int_t)row->refused);
	bool is_put = value && json_dumpf(value, out, JSON_PRESERVE_ORDER) == 0;

	json_decref(value);
	return is_put;
}

static bool put_row(struct usage_export *export, FILE *out, size_t i)
{
	const struct usage_row *row = &export->sums.table.rows[i];
	const char *limit = usage_sums_limit(&export->sums, row);
	const struct throttle_key key = {.lo = row->caller};
	char caller[IDENTITY_SHORT_BYTES + 1];

	identity_short(&key, caller);
	caller[IDENTITY_SHORT_BYTES] = '\0';
	if (!export->question.is_csv) {
		fputs(i == 0 ? "\n    " : ",\n    ", out);
		return put_json_row(out, limit, caller, row);
	}
	put_field(out, limit);
	fprintf(out, ",%s,%llu,%llu\r\n", caller, (unsigned long long)row->admitted,
		(unsigned long long)row->refused);
	return true;
}

static void put_time(FILE *out, const char *name, uint64_t time_s)
{
	time_t time = (time_t)time_s;
	char text[32];
	struct tm tm;

	gmtime_r(&time, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fprintf(out, "\n  \"%s\": \"%s\",", name, text);
}

static void put_first(struct usage_export *export, FILE *out)
{
	if (export->has_begun)
		return;
	export->has_begun = true;
	if (export->question.is_csv) {
		fputs("limit,caller,admitted,refused\r\n", out);
		return;
	}
	fputc('{', out);
	put_time(out, "from", export->question.from_s);
	put_time(out, "to", export->question.to_s);
	fputs("\n  \"usage\": [", out);
}

/* The next lines. False without memory. */
static bool compose(struct usage_export *export)
{
	size_t count = export->sums.table.count;
	bool good = true;

	free(export->piece);
	export->piece = NULL;
	export->piece_sent = 0;
	FILE *out = open_memstream(&export->piece, &export->piece_bytes);
	if (!out)
		return false;
	put_first(export, out);
	for (unsigned i = 0; good && i < PIECE_ROWS && export->next_row < count; i++)
		good = put_row(export, out, export->next_row++);
	if (export->next_row == count) {
		if (!export->question.is_csv)
			fputs(count > 0 ? "\n  ]\n}" : "]\n}", out);
		export->next_row++;
	}
	return fclose(out) == 0 && good;
}

/* libmicrohttpd wants up to `most` bytes. */
static ssize_t on_read(void *ctx, uint64_t position, char *to, size_t most)
{
	struct usage_export *export = ctx;

	(void)position;
	if (export->piece_sent == export->piece_bytes) {
		if (export->next_row > export->sums.table.count)
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (!compose(export))
			return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	size_t rest = export->piece_bytes - export->piece_sent, size = rest < most ? rest : most;
	memcpy(to, export->piece + export->piece_sent, size);
	export->piece_sent += size;
	background_sends(export->job, size);
	return (ssize_t)size;
}

static void free_export(void *ctx)
{
	struct usage_export *export = ctx;

	usage_sums_clear(&export->sums);
	free(export->piece);
	free(export);
}

/* ---- the work -------------------------------------------------------------------------------- */

static bool take(void *ctx, const char *limit, uint64_t caller, uint64_t admitted, uint64_t refused)
{
	struct usage_export *export = ctx;

	return usage_sums_add(&export->sums, limit, caller, admitted, refused);
}

static bool goes_on(void *ctx)
{
	const struct usage_export *export = ctx;

	return background_goes_on(export->job);
}

/* Reads the files. False with the problem sent. */
static bool add_up(struct admin_request *request, struct usage_export *export)
{
	const struct usage_reader reader = {.take = take, .goes_on = goes_on, .ctx = export};
	int error = usage_file_read(usage_folder(request->daemon), export->question.from_s,
		export->question.to_s, &reader);
	char why[256];

	if (export->sums.fault == USAGE_SUMS_ROWS)
		admin_respond_problem(
			request, 422, "There are more than a million rows; ask for fewer hours.");
	else if (export->sums.fault == USAGE_SUMS_LIMITS_FULL)
		admin_respond_problem(
			request, 422, "There are more than 4096 limits; ask for fewer hours.");
	else if (export->sums.fault == USAGE_SUMS_NO_MEMORY || error == ENOMEM)
		admin_respond_problem(request, 503, "No memory.");
	else if (error == ECANCELED)
		admin_respond_problem(request, 503, "sluice is stopping.");
	else if (error != 0) {
		snprintf(why, sizeof(why), "The files can't be read: %s.", strerror(error));
		admin_respond_problem(request, 503, why);
	}
	return error == 0;
}

/* On the job's thread. */
static void answer(struct admin_request *request)
{
	struct usage_export *export = calloc(1, sizeof(*export));

	if (!export) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	export->job = request->job;
	export->sums.most_rows = ROWS_MAX;
	if (!read_question(request, &export->question) || !add_up(request, export)) {
		free_export(export);
		return;
	}
	usage_sums_sort(&export->sums);
	request->media_type = export->question.is_csv ? "text/csv; charset=utf-8; header=present"
						      : "application/json";
	request->response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, export, free_export);
	if (request->response)
		return;
	free_export(export);
	admin_respond_problem(request, 503, "No memory.");
}

void admin_get_usage(struct admin_request *request)
{
	struct question question;

	if (!usage_folder(request->daemon))
		admin_respond_problem(
			request, 404, "usage in [sluice] is 0: no usage is recorded.");
	else if (read_question(request, &question))
		request->later = answer;
}
