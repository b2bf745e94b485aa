/* See operate_sockets.h. */
#include "cli/operate_sockets.h"

#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "frames/messages.h"

#define WAIT_MAX_S   60 /* of the interface's timeout */
#define COUNT(items) (sizeof(items) / sizeof((items)[0]))

static void print_members(const json_t *answer)
{
	table_print_members(stdout, answer);
}

static void print_sockets(const json_t *answer)
{
	static const struct table_column columns[] = {{"SOCKET", "id", TABLE_TEXT},
		{"TYPE", "type", TABLE_TEXT}, {"STATE", "state", TABLE_TEXT},
		{"CALLER", "caller", TABLE_TEXT}, {"ADDRESS", "address", TABLE_TEXT},
		{"AGE", "age_ms", TABLE_MS}, {"IDLE", "idle_ms", TABLE_MS},
		{"RECEIVED", "messages_received", TABLE_NUMBER},
		{"SENT", "messages_sent", TABLE_NUMBER}, {"QUEUED", "queued", TABLE_NUMBER}};
	const char *next = json_string_value(json_object_get(answer, "next"));

	table_print(stdout, json_object_get(answer, "sockets"), columns, COUNT(columns));
	if (next)
		printf("there are more: --after %s\n", next);
}

/* ---- the query ------------------------------------------------------------------------------- */

/* NAME=VALUE of each --find. False with a line on stderr. */
static bool add_terms(struct call *call, struct query *query)
{
	for (size_t i = 0; i < call->term_count; i++) {
		const char *equals = strchr(call->terms[i], '=');
		char *name =
			equals ? strndup(call->terms[i], (size_t)(equals - call->terms[i])) : NULL;
		if (!name) {
			fprintf(stderr,
				"sluice sockets: --find \"%s\" has no value; expected NAME=VALUE\n",
				call->terms[i]);
			return false;
		}
		query_add(query, "", name, equals + 1);
		free(name);
	}
	query_add(query, "", "channel", call->channel);
	return true;
}

static int ask(
	struct call *call, struct query *query, const char *method, json_t *body, call_print *print)
{
	if (add_terms(call, query))
		return query_ask(query, call, method, body, print);
	json_decref(body);
	query_drop(query);
	return 2;
}

static int list(struct call *call)
{
	struct query query;

	query_begin(&query, "/api/v1/sockets");
	query_add(&query, "", "count", call->count);
	query_add(&query, "", "after", call->after);
	return ask(call, &query, "GET", NULL, print_sockets);
}

static int show(struct call *call)
{
	struct query query;

	query_begin(&query, "/api/v1/sockets");
	query_add_segment(&query, call->words[0]);
	return ask(call, &query, "GET", NULL, print_members);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* A text that is not UTF-8 is none of JSON. NULL with a line on stderr. */
static json_t *text_of(const char *option, const char *text)
{
	json_t *string = json_string(text);

	if (!string)
		fprintf(stderr, "sluice sockets: %s is not UTF-8\n", option);
	return string;
}

static json_t *message_body(const struct call *call)
{
	json_t *text = text_of("the text", call->words[2]);

	return text ? json_pack("{s:o}", call->is_binary ? "binary" : "text", text) : NULL;
}

static json_t *close_body(const struct call *call)
{
	json_t *body = json_object(), *reason;
	char *end;

	if (call->code) {
		long code = strtol(call->code, &end, 10);
		if (*end || end == call->code) {
			fprintf(stderr,
				"sluice sockets: --code %s is not a number; "
				"expected " CLOSE_CODES_VALID "\n",
				call->code);
			json_decref(body);
			return NULL;
		}
		json_object_set_new(body, "code", json_integer(code));
	}
	if (!call->reason)
		return body;
	reason = text_of("--reason", call->reason);
	if (reason) {
		json_object_set_new(body, "reason", reason);
		return body;
	}
	json_decref(body);
	return NULL;
}

struct operation {
	const char *word;
	int words;
	json_t *(*body)(const struct call *call); /* NULL: none */
};

static const struct operation operations[] = {{"post", 3, message_body}, {"send", 3, message_body},
	{"close", 2, close_body}, {"abort", 2, NULL}, {"drain", 2, NULL}};

/* Or `all`, which only an operation has. */
static bool is_operation(const char *word)
{
	bool is_found = strcmp(word, "all") == 0;

	for (size_t i = 0; i < COUNT(operations); i++)
		is_found |= strcmp(operations[i].word, word) == 0;
	return is_found;
}

static const struct operation *find_operation(const struct call *call)
{
	for (size_t i = 0; i < COUNT(operations); i++) {
		if (strcmp(operations[i].word, call->words[0]) == 0 &&
			operations[i].words == call->word_count)
			return &operations[i];
	}
	return NULL;
}

/* An option of another operation would have no effect. */
static bool fits(const struct call *call, const struct operation *operation)
{
	bool sends = operation->body == message_body, closes = operation->body == close_body;
	const char *wrong = NULL;

	if ((call->code || call->reason) && !closes)
		wrong = call->code ? "--code" : "--reason";
	else if (call->is_binary && !sends)
		wrong = "--binary";
	else if (call->count || call->after)
		wrong = call->count ? "--count" : "--after";
	if (wrong)
		fprintf(stderr, "sluice sockets %s: unexpected option %s\n", operation->word,
			wrong);
	return !wrong;
}

static int operate(struct call *call, const struct operation *operation)
{
	struct query query;
	json_t *body = operation->body ? operation->body(call) : NULL;

	if (operation->body && !body)
		return 2;
	query_begin(&query, "/api/v1/sockets");
	query_add_segment(&query, call->words[1]);
	query_add_segment(&query, operation->word);
	if (call->wait) {
		query_add(&query, "", "wait", operation->body == message_body ? "sent" : "closed");
		query_add(&query, "", "timeout", call->wait);
		call->remote.waits_s = WAIT_MAX_S;
	}
	return ask(call, &query, "POST", body, print_members);
}

int cli_sockets(struct call *call)
{
	bool begins_operation = call->word_count == 1 && is_operation(call->words[0]);

	if (call->word_count > 1 || begins_operation) {
		const struct operation *operation = find_operation(call);
		if (operation)
			return fits(call, operation) ? operate(call, operation) : 2;
		fprintf(stderr,
			"sluice sockets: expected nothing, an id, post or send ID TEXT, or close, "
			"abort or drain ID; all selects those that --find and --channel match\n");
		return 2;
	}
	if (call->code || call->reason || call->wait || call->is_binary) {
		fprintf(stderr, "sluice sockets: --code, --reason, --wait and --binary are of an "
				"operation\n");
		return 2;
	}
	return call->word_count == 1 ? show(call) : list(call);
}
