/*
 * Calls to the admin API of a running sluice, by libcurl.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <jansson.h>
#include <stdbool.h>

/* Where it listens, and as whom we ask. All zeroes is none. */
struct remote {
	char *base; /* `http://127.0.0.1:8081`; with a socket file its host is of no meaning */
	char *socket_path; /* NULL: TCP */
	char *token;       /* NULL: none */
	char *pin;         /* https of the configuration's certificate: its key, as curl has it */
	const char *ca;   /* PEM file of the authorities for https, not owned; NULL: the system's */
	unsigned waits_s; /* by so much an answer may be late */
	bool is_quiet;    /* an error that it answers is not written to stderr */
};

/*
 * `admin`: `http://HOST:PORT` or `unix:/PATH`; NULL: the first bind of [admin] in the configuration
 * at `conf_path`, with the first token of its file that is not hashed. `token_path`: a file whose
 * first token that is not hashed is sent; NULL: the environment's SLUICE_TOKEN, if set. Returns 0,
 * or with lines on stderr the exit status: 1 when the configuration has errors, 2 when --token-file
 * is wrong. remote_clear is due in either case.
 */
int remote_find(
	struct remote *remote, const char *admin, const char *conf_path, const char *token_path);
void remote_clear(struct remote *remote);

enum remote_result {
	REMOTE_OK,
	REMOTE_REFUSED,     /* it answered with an error; exit status 1 */
	REMOTE_UNREACHABLE, /* exit status 3 */
};

/* Calls `path`, which begins with '/' and may have a query, with `body` as JSON (NULL: none).
 * `*answer` is what it sent, owned by the caller; an error is written to stderr, and `*answer` is
 * NULL then. */
enum remote_result remote_call(const struct remote *remote, const char *method, const char *path,
	const json_t *body, json_t **answer);

/* `text` as a part of a path or query, percent-encoded; to be freed. NULL without memory. */
char *remote_escape(const char *text);

#endif
