/*
 * A command that asks a running sluice: what its command line says, and how it asks.
 */
#ifndef CLI_CALL_H
#define CLI_CALL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/remote.h"

#define FIELDS_MAX 32

struct call {
	const char *conf, *admin, *ca, *token_file, *limit, *method, *host, *address, *listener,
		*route;
	const char *hash, *count, *wait_nodes;
	const char *after, *code, *reason, *wait, *channel; /* of sockets */
	const char *terms[FIELDS_MAX];
	size_t term_count;
	bool sort_refused, is_hashed, as_csv, is_binary;
	const char *fields[FIELDS_MAX];
	size_t field_count;
	bool json;
	char **words; /* what is left of the command line */
	int word_count;
	struct remote remote;
};

/* How a command prints a good answer; not with --json. */
typedef void call_print(const json_t *answer);

/* Asks and prints: an exit status. NULL prints JSON. `body`, whose reference is taken over, is sent
 * as JSON; NULL: none. */
int call_ask(
	struct call *call, const char *method, const char *path, json_t *body, call_print *print);

/* A path with its query, put together part by part. */
struct query {
	char *text;
	size_t bytes;
	FILE *out;
	bool begun;
};

void query_begin(struct query *query, const char *path);
/* One more segment of the path, escaped. */
void query_add_segment(struct query *query, const char *text);
/* `prefix` and `name` are the parameter's; without a value (NULL) nothing is added. */
void query_add(struct query *query, const char *prefix, const char *name, const char *value);
/* Frees it without asking. */
void query_drop(struct query *query);
/* Asks, and frees the query. */
int query_ask(struct query *query, struct call *call, const char *method, json_t *body,
	call_print *print);
/* The same of a change, which a line on stderr then says is one node's if the node has a [fleet].
 */
int query_change(struct query *query, struct call *call, const char *method, json_t *body,
	call_print *print);

#endif
