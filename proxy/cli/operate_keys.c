/* See operate_keys.h. */
#include "cli/operate_keys.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "conf/value.h"

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
