/* See operate_change.h. */
#include "cli/operate_change.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"

static void print_members(const json_t *answer)
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
	return query_change(&query, call, is_weight ? "PUT" : "POST", body, print_members);
}

int cli_set_log_level(struct call *call)
{
	struct query query;

	query_begin(&query, "/api/v1/log-level");
	return query_change(
		&query, call, "PUT", json_pack("{s:s}", "level", call->words[0]), print_members);
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
