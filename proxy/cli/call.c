/* See call.h. */
#include "cli/call.h"

#include <stdlib.h>

int call_ask(
	struct call *call, const char *method, const char *path, json_t *body, call_print *print)
{
	json_t *answer;
	enum remote_result result = remote_call(&call->remote, method, path, body, &answer);

	json_decref(body);
	if (result == REMOTE_OK && (call->json || !print)) {
		json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
	} else if (result == REMOTE_OK) {
		print(answer);
	}
	json_decref(answer);
	return result == REMOTE_OK ? 0 : result == REMOTE_REFUSED ? 1 : 3;
}

void query_begin(struct query *query, const char *path)
{
	*query = (struct query){0};
	query->out = open_memstream(&query->text, &query->bytes);
	if (query->out)
		fputs(path, query->out);
}

void query_add_segment(struct query *query, const char *text)
{
	char *escaped = remote_escape(text);

	if (query->out && escaped)
		fprintf(query->out, "/%s", escaped);
	free(escaped);
}

void query_add(struct query *query, const char *prefix, const char *name, const char *value)
{
	char *escaped_name = remote_escape(name), *escaped = value ? remote_escape(value) : NULL;

	if (query->out && escaped && escaped_name) {
		fprintf(query->out, "%c%s%s=%s", query->begun ? '&' : '?', prefix, escaped_name,
			escaped);
		query->begun = true;
	}
	free(escaped_name);
	free(escaped);
}

void query_drop(struct query *query)
{
	if (query->out)
		fclose(query->out);
	free(query->text);
}

int query_ask(
	struct query *query, struct call *call, const char *method, json_t *body, call_print *print)
{
	int status = 1;

	if (!query->out || fclose(query->out) != 0 || !query->text) {
		fprintf(stderr, "sluice: no memory\n");
		json_decref(body);
	} else {
		status = call_ask(call, method, query->text, body, print);
	}
	free(query->text);
	return status;
}

static void note_other_nodes(struct call *call)
{
	json_t *answer;

	call->remote.is_quiet = true; /* 404: there is no [fleet] */
	if (remote_call(&call->remote, "GET", "/api/v1/fleet", NULL, &answer) == REMOTE_OK)
		fprintf(stderr, "sluice: changed at this node only; "
				"repeat the command at each other node of the fleet\n");
	call->remote.is_quiet = false;
	json_decref(answer);
}

int query_change(
	struct query *query, struct call *call, const char *method, json_t *body, call_print *print)
{
	int status = query_ask(query, call, method, body, print);

	if (status == 0)
		note_other_nodes(call);
	return status;
}
