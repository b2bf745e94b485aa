/* See operate_callers.h. */
#include "cli/operate_callers.h"

#include <string.h>

#include "cli/table.h"

#define COUNT(items) (sizeof(items) / sizeof((items)[0]))

static void print_callers(const json_t *answer)
{
	static const struct table_column columns[] = {{"LIMIT", "limit", TABLE_TEXT},
		{"USED", "used", TABLE_NUMBER}, {"REMAINING", "remaining", TABLE_NUMBER},
		{"QUOTA", "quota", TABLE_NUMBER}, {"MORE IN", "more_ms", TABLE_MS},
		{"CLEAR IN", "clear_ms", TABLE_MS}, {"BANNED", "banned", TABLE_TEXT},
		{"BANNED FOR", "banned_ms", TABLE_MS}, {"CALLER", "caller", TABLE_TEXT}};

	table_print(stdout, json_object_get(answer, "limits"), columns, COUNT(columns));
}

static void print_reset(const json_t *answer)
{
	const json_t *limits = json_object_get(answer, "reset"), *limit;
	size_t index;

	if (json_array_size(limits) == 0)
		puts("nothing was used");
	json_array_foreach(limits, index, limit) printf("reset: %s\n", json_string_value(limit));
}

static void print_busiest(const json_t *answer)
{
	static const struct table_column columns[] = {{"CALLER", "caller", TABLE_TEXT},
		{"ADDRESS", "address", TABLE_TEXT}, {"LIMIT", "limit", TABLE_TEXT},
		{"ADMITTED", "admitted", TABLE_NUMBER}, {"REFUSED", "refused", TABLE_NUMBER},
		{"SHADOW", "shadow_refused", TABLE_NUMBER}, {"USED", "used", TABLE_NUMBER},
		{"QUOTA", "quota", TABLE_NUMBER}, {"BANNED", "banned", TABLE_TEXT},
		{"BANNED FOR", "banned_ms", TABLE_MS}};
	char span[TABLE_MS_BYTES];

	table_print(stdout, json_object_get(answer, "callers"), columns, COUNT(columns));
	table_format_ms(
		(unsigned long long)json_integer_value(json_object_get(answer, "span_ms")), span);
	printf("in the last %s\n", span);
}

static int ask_busiest(struct call *call)
{
	struct query query;

	query_begin(&query, "/api/v1/callers");
	query_add(&query, "", "limit", call->limit);
	query_add(&query, "", "count", call->count);
	query_add(&query, "", "sort", call->sort_refused ? "refused" : NULL);
	return query_ask(&query, call, "GET", NULL, print_busiest);
}

static int ask_caller(struct call *call, const char *method, call_print *print)
{
	struct query query;

	query_begin(&query, "/api/v1/callers");
	if (call->hash)
		query_add_segment(&query, call->hash);
	else
		query_add(&query, "", "key", call->words[0]);
	query_add(&query, "", "limit", call->limit);
	return query_ask(&query, call, method, NULL, print);
}

/* A key or a hash, not both. */
static bool names_caller(const struct call *call, const char *command)
{
	if ((call->word_count == 1) != (call->hash != NULL))
		return true;
	fprintf(stderr, "sluice %s: too %s words; expected a key, or --hash and a hash\n", command,
		call->hash ? "many" : "few");
	return false;
}

int cli_callers(struct call *call)
{
	if (call->word_count == 0 && !call->hash)
		return ask_busiest(call);
	return names_caller(call, "callers") ? ask_caller(call, "GET", print_callers) : 2;
}

int cli_reset(struct call *call)
{
	return names_caller(call, "reset") ? ask_caller(call, "DELETE", print_reset) : 2;
}

static void print_usage(const json_t *answer)
{
	static const struct table_column columns[] = {{"LIMIT", "limit", TABLE_TEXT},
		{"CALLER", "caller", TABLE_TEXT}, {"ADMITTED", "admitted", TABLE_NUMBER},
		{"REFUSED", "refused", TABLE_NUMBER}};

	table_print(stdout, json_object_get(answer, "usage"), columns, COUNT(columns));
	printf("from %s to %s\n", json_string_value(json_object_get(answer, "from")),
		json_string_value(json_object_get(answer, "to")));
}

/* A field of RFC 4180. */
static void print_csv_field(const char *text)
{
	if (!strpbrk(text, "\",\r\n")) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static void print_csv(const json_t *answer)
{
	const json_t *row;
	size_t index;

	puts("limit,caller,admitted,refused");
	json_array_foreach(json_object_get(answer, "usage"), index, row)
	{
		print_csv_field(json_string_value(json_object_get(row, "limit")));
		printf(",%s,%" JSON_INTEGER_FORMAT ",%" JSON_INTEGER_FORMAT "\n",
			json_string_value(json_object_get(row, "caller")),
			json_integer_value(json_object_get(row, "admitted")),
			json_integer_value(json_object_get(row, "refused")));
	}
}

int cli_usage(struct call *call)
{
	struct query query;

	query_begin(&query, "/api/v1/usage");
	query_add(&query, "", "from", call->word_count > 0 ? call->words[0] : NULL);
	query_add(&query, "", "to", call->word_count > 1 ? call->words[1] : NULL);
	return query_ask(&query, call, "GET", NULL, call->as_csv ? print_csv : print_usage);
}
