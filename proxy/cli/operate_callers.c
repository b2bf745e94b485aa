/* See operate_callers.h. */
#include "cli/operate_callers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "conf/value.h"

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

/* ---- operate keys --------------------------------------------------------------------------- */

/* See operate_callers.h. */

static void print_members(const json_t *answer)
{
	table_print_members(stdout, answer);
}

/* A key on the command line is seen by all users of the machine, so `-` reads it from stdin. To be
 * freed; NULL with a line on stderr. */
static char *read_key(const char *word)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t len;

	if (strcmp(word, "-") != 0)
		return strdup(word);
	len = getline(&line, &room, stdin);
	if (len > 0 && line[len - 1] == '\n')
		line[--len] = '\0';
	if (len > 0)
		return line;
	fprintf(stderr, "sluice keys: expected a key on the standard input\n");
	free(line);
	return NULL;
}

static int ask(struct call *call, const char *method, json_t *body)
{
	char *key = read_key(call->words[1]);
	struct query query;

	if (!key) {
		json_decref(body);
		return 2;
	}
	query_begin(&query, "/api/v1/keys");
	query_add_segment(&query, key);
	free(key);
	return body || strcmp(method, "DELETE") == 0
		       ? query_change(&query, call, method, body, print_members)
		       : query_ask(&query, call, method, NULL, print_members);
}

int cli_keys(struct call *call)
{
	const char *word = call->words[0];

	if (call->word_count == 2 && strcmp(word, "show") == 0)
		return ask(call, "GET", NULL);
	if (call->word_count == 2 && strcmp(word, "delete") == 0)
		return ask(call, "DELETE", NULL);
	if (call->word_count == 2 && strcmp(word, "revoke") == 0)
		return ask(call, "PUT", json_pack("{s:b}", "revoked", 1));
	if (call->word_count == 3 && strcmp(word, "set") == 0)
		return ask(call, "PUT",
			json_pack("{s:s, s:b}", "plan", call->words[2], "hashed", call->is_hashed));
	fprintf(stderr, "sluice keys: expected show KEY, set KEY PLAN, revoke KEY or delete KEY\n");
	return 2;
}

static bool is_duration(const char *word)
{
	uint64_t ms;

	if (scan_duration_ms(slice_of(word), &ms) && ms > 0)
		return true;
	fprintf(stderr,
		"sluice override: invalid duration \"%s\"; expected one such as 90s or 1h\n", word);
	return false;
}

int cli_override(struct call *call)
{
	const char *kind = call->words[1];
	bool is_plan = call->word_count == 4 && strcmp(kind, "plan") == 0;
	bool is_end = call->word_count == 2 && strcmp(kind, "end") == 0;
	struct query query;
	json_t *body = NULL;

	if (!is_plan && !is_end &&
		(call->word_count != 3 ||
			(strcmp(kind, "exempt") != 0 && strcmp(kind, "deny") != 0))) {
		fprintf(stderr, "sluice override: expected HASH, then plan NAME DURATION, exempt "
				"DURATION, deny DURATION or end\n");
		return 2;
	}
	if (!is_end && !is_duration(call->words[call->word_count - 1]))
		return 2;
	if (is_plan)
		body = json_pack("{s:s, s:s}", "plan", call->words[2], "for", call->words[3]);
	else if (!is_end)
		body = json_pack("{s:b, s:s}", kind, 1, "for", call->words[2]);
	query_begin(&query, "/api/v1/callers");
	query_add_segment(&query, call->words[0]);
	query_add_segment(&query, "override");
	return query_change(&query, call, is_end ? "DELETE" : "PUT", body, print_members);
}

/* ---- operate change ------------------------------------------------------------------------- */

/* See operate_callers.h. */

static void operate_change_print_members(const json_t *answer)
{
	table_print_members(stdout, answer);
}

/* `rate=200 per 10s`, or `burst=` for the default. */
static bool add_change(json_t *body, const char *word)
{
	const char *equals = strchr(word, '=');
	char *key = equals ? strndup(word, (size_t)(equals - word)) : NULL;

	if (!key || !*key) {
		fprintf(stderr, "sluice limits set: \"%s\" is not a setting; expected KEY=VALUE\n",
			word);
		free(key);
		return false;
	}
	json_object_set_new(body, key, equals[1] ? json_string(equals + 1) : json_null());
	free(key);
	return true;
}

int cli_set_limit(struct call *call, call_print *print)
{
	json_t *body;
	struct query query;
	bool good = true;

	if (call->word_count < 3 || strcmp(call->words[0], "set") != 0) {
		fprintf(stderr, "sluice limits: expected no words, or set NAME KEY=VALUE...\n");
		return 2;
	}
	body = json_object();
	for (int i = 2; i < call->word_count; i++)
		good &= add_change(body, call->words[i]);
	if (!good) {
		json_decref(body);
		return 2;
	}
	query_begin(&query, "/api/v1/limits");
	query_add_segment(&query, call->words[1]);
	return query_change(&query, call, "PATCH", body, print);
}

/* A number, or `file`. NULL with a line on standard error. */
static json_t *weight_of(const char *word)
{
	char *end;
	long weight = strtol(word, &end, 10);

	if (strcmp(word, "file") == 0)
		return json_pack("{s:n}", "weight");
	if (*word >= '0' && *word <= '9' && *end == '\0')
		return json_pack("{s:I}", "weight", (json_int_t)weight);
	fprintf(stderr, "sluice upstreams weight: \"%s\" is neither a number nor file\n", word);
	return NULL;
}

int cli_set_server(struct call *call)
{
	struct query query;
	bool is_weight = strcmp(call->words[0], "weight") == 0;
	json_t *body = NULL;

	if (call->word_count != (is_weight ? 4 : 3)) {
		fprintf(stderr,
			"sluice upstreams: expected no words, or drain, disable or enable, "
			"an upstream and a server's address; or weight, these and a number\n");
		return 2;
	}
	if (is_weight && !(body = weight_of(call->words[3])))
		return 2;
	query_begin(&query, "/api/v1/upstreams");
	query_add_segment(&query, call->words[1]);
	query_add_segment(&query, "servers");
	query_add_segment(&query, call->words[2]);
	query_add_segment(&query, call->words[0]);
	return query_change(
		&query, call, is_weight ? "PUT" : "POST", body, operate_change_print_members);
}

int cli_set_log_level(struct call *call)
{
	struct query query;

	query_begin(&query, "/api/v1/log-level");
	return query_change(&query, call, "PUT", json_pack("{s:s}", "level", call->words[0]),
		operate_change_print_members);
}

/* As lines of a file. */
static void print_settings(const json_t *settings)
{
	const char *key;
	json_t *value, *line;
	size_t index;

	json_object_foreach((json_t *)(uintptr_t)settings, key, value)
	{
		if (json_is_string(value))
			printf("%s = %s\n", key, json_string_value(value));
		json_array_foreach(value, index, line)
			printf("%s = %s\n", key, json_string_value(line));
	}
}

static void print_config(const json_t *answer)
{
	const json_t *section;
	size_t index;

	json_array_foreach(json_object_get(answer, "sections"), index, section)
	{
		const char *name = json_string_value(json_object_get(section, "name"));
		printf("%s[%s%s%s]%s\n", index > 0 ? "\n" : "",
			json_string_value(json_object_get(section, "section")),
			name && *name ? " " : "", name ? name : "",
			json_is_true(json_object_get(section, "changed"))
				? " ; changed by the admin interface"
				: "");
		print_settings(json_object_get(section, "settings"));
	}
}

int cli_print_config(struct call *call)
{
	return call_ask(call, "GET", "/api/v1/config", NULL, print_config);
}
