/* What callers have used of each limit, summed up from the files that usage = writes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "gate/identity.h"
#include "relay/relay.h"
#include "relay/usage.h"
#include "stats/usage_file.h"

#define ROWS_MAX  1000000
#define LIMIT_MAX 4096

/* The sums, while they are read. */
struct sums {
	struct usage_table table;
	char *limits[LIMIT_MAX]; /* names; a row's limit is an index */
	unsigned limit_count, last;
};

/* The span of the question. */
struct span {
	uint64_t from_s, to_s;
};

/* `2026-11-22` or `2026-11-22T09`, also with `:00`, `:00:00` and `Z` behind it; UTC. */
static bool read_time(const char *text, uint64_t *time_s)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%d", &tm);

	if (rest && *rest == 'T')
		rest = strptime(rest, "T%H", &tm);
	if (!rest || tm.tm_year < 100)
		return false;
	for (int i = 0; i < 2 && strncmp(rest, ":00", 3) == 0; i++)
		rest += 3;
	*time_s = (uint64_t)timegm(&tm);
	return strcmp(rest, *rest == 'Z' ? "Z" : "") == 0;
}

/* Without them: this day (UTC), up to the end of this hour. False with the problem sent. */
static bool read_span(struct admin_request *request, struct span *span)
{
	const char *from = admin_argument(request, "from"), *to = admin_argument(request, "to");
	uint64_t now_s = (uint64_t)time(NULL);

	span->from_s = now_s / 86400 * 86400;
	span->to_s = (now_s / USAGE_HOUR_S + 1) * USAGE_HOUR_S;
	if ((!from || read_time(from, &span->from_s)) && (!to || read_time(to, &span->to_s)) &&
		span->from_s < span->to_s)
		return true;
	admin_respond_problem(request, 400,
		"from and to are hours in UTC, as 2026-11-22T09 or 2026-11-22; to is the first "
		"that "
		"is not counted, and behind from.");
	return false;
}

static unsigned limit_of(struct sums *sums, const char *name)
{
	/* The lines of a caller's limits follow each other, but those of one limit often, too. */
	if (sums->limit_count > 0 && strcmp(sums->limits[sums->last], name) == 0)
		return sums->last;
	for (unsigned i = 0; i < sums->limit_count; i++) {
		if (strcmp(sums->limits[i], name) == 0)
			return sums->last = i;
	}
	if (sums->limit_count == LIMIT_MAX || !(sums->limits[sums->limit_count] = strdup(name)))
		return LIMIT_MAX;
	return sums->last = sums->limit_count++;
}

static bool add(void *ctx, const char *name, uint64_t caller, uint64_t admitted, uint64_t refused)
{
	struct sums *sums = ctx;
	unsigned limit = limit_of(sums, name);

	/* A sum without some callers would be a wrong invoice. */
	return limit < LIMIT_MAX && sums->table.count < ROWS_MAX &&
	       usage_table_add(&sums->table, SIZE_MAX, limit, caller, admitted, refused);
}

static int by_caller(const void *a, const void *b, void *ctx)
{
	const struct usage_row *one = a, *other = b;
	const struct sums *sums = ctx;

	if (one->is_used != other->is_used)
		return one->is_used ? -1 : 1;
	if (one->limit != other->limit)
		return strcmp(sums->limits[one->limit], sums->limits[other->limit]);
	return (one->caller > other->caller) - (one->caller < other->caller);
}

static void caller_text(uint64_t caller, char text[static IDENTITY_SHORT_BYTES + 1])
{
	const struct throttle_key key = {.lo = caller};

	identity_short(&key, text);
	text[IDENTITY_SHORT_BYTES] = '\0';
}

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

static void respond_csv(struct admin_request *request, const struct sums *sums)
{
	char caller[IDENTITY_SHORT_BYTES + 1];
	FILE *out = open_memstream(&request->text, &request->text_bytes);

	if (!out) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	fputs("limit,caller,admitted,refused\r\n", out);
	for (size_t i = 0; i < sums->table.count; i++) {
		const struct usage_row *row = &sums->table.rows[i];
		caller_text(row->caller, caller);
		put_field(out, sums->limits[row->limit]);
		fprintf(out, ",%s,%llu,%llu\r\n", caller, (unsigned long long)row->admitted,
			(unsigned long long)row->refused);
	}
	fclose(out);
	request->media_type = "text/csv; charset=utf-8; header=present";
}

static json_t *time_of(uint64_t time_s)
{
	time_t time = (time_t)time_s;
	char text[32];
	struct tm tm;

	gmtime_r(&time, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static void respond_json(
	struct admin_request *request, const struct sums *sums, const struct span *span)
{
	char caller[IDENTITY_SHORT_BYTES + 1];
	json_t *list = json_array();

	for (size_t i = 0; list && i < sums->table.count; i++) {
		const struct usage_row *row = &sums->table.rows[i];
		caller_text(row->caller, caller);
		json_array_append_new(
			list, json_pack("{s:o, s:s, s:I, s:I}", "limit",
				      admin_json_text(sums->limits[row->limit]), "caller", caller,
				      "admitted", (json_int_t)row->admitted, "refused",
				      (json_int_t)row->refused));
	}
	admin_respond_json(request, 200,
		json_pack("{s:o, s:o, s:o}", "from", time_of(span->from_s), "to",
			time_of(span->to_s), "usage", list));
}

static void respond(struct admin_request *request, struct sums *sums, const struct span *span)
{
	const char *format = admin_argument(request, "format");

	if (sums->table.room > 0)
		qsort_r(sums->table.rows, sums->table.room, sizeof(*sums->table.rows), by_caller,
			sums);
	if (format && strcmp(format, "csv") == 0)
		respond_csv(request, sums);
	else
		respond_json(request, sums, span);
}

static void answer(struct admin_request *request, const struct span *span)
{
	struct sums *sums = calloc(1, sizeof(*sums));
	int error = sums ? usage_file_read(usage_folder(request->relay), span->from_s, span->to_s,
				   add, sums)
			 : ENOMEM;

	if (error == ECANCELED)
		admin_respond_problem(
			request, 422, "There are more than a million rows; ask for fewer hours.");
	else if (error != 0)
		admin_respond_problem(request, 503, "The files can't be read.");
	else
		respond(request, sums, span);
	if (!sums)
		return;
	for (unsigned i = 0; i < sums->limit_count; i++)
		free(sums->limits[i]);
	usage_table_clear(&sums->table);
	free(sums);
}

/* On the server's thread: reading takes long, and the main thread has other work. */
void admin_get_usage(struct admin_request *request)
{
	const char *format = admin_argument(request, "format");
	struct span span;

	if (format && strcmp(format, "json") != 0 && strcmp(format, "csv") != 0)
		admin_respond_problem(request, 400, "format is json or csv.");
	else if (!usage_folder(request->relay))
		admin_respond_problem(request, 404, "usage in [sluice] is 0: nothing is kept.");
	else if (read_span(request, &span))
		answer(request, &span);
}
