/*
 * One request to the admin API as its handlers see it, and the table of them.
 */
#ifndef ADMIN_REQUEST_H
#define ADMIN_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct MHD_Response;
struct background_job;
struct events;
struct fleet_calls;
struct daemon;
struct socket_calls;

#define ADMIN_BODY_MAX (1024 * 1024) /* of a request; 413 beyond */

/* Of one whose answer comes later (admin/background.h), guarded by that. */
struct admin_pending {
	struct admin_request *next;
	bool is_answered, is_suspended;
};

struct admin_request {
	const char *method, *path; /* the path decoded, without its query */
	const char *tail;          /* what of the path follows the endpoint's own; "" if nothing */
	const char *accept;        /* the Accept field, or "" */
	const char *body;          /* NUL-terminated */
	size_t body_bytes;
	struct MHD_Connection *connection; /* for admin_argument */
	struct daemon *daemon;
	struct events *events;
	struct socket_calls *sockets;
	struct fleet_calls *fleet_calls;

	/* the response */
	unsigned status;
	const char *media_type;
	char *text; /* malloc'ed; freed by the server */
	size_t text_bytes;
	struct MHD_Response *response; /* in place of the text, or NULL; destroyed by the server */
	unsigned retry_after_s;        /* 0: no Retry-After */
	/* The rest of the handler's work, where it takes long: it runs on a thread of its own, as
	 * `job`, and has the response at its end (admin/background.h). NULL: there is none. */
	void (*later)(struct admin_request *request);
	struct background_job *job;
	/* Set by a handler that has left the answer to others: admin/background.h. */
	bool is_pending;
	struct admin_pending pending;
};

/* The value of a query parameter, decoded, or NULL. Valid as long as the request. */
const char *admin_argument(const struct admin_request *request, const char *name);

/* Responds with a JSON value, whose reference it takes over; NULL: 503, no memory. */
void admin_respond_json(struct admin_request *request, unsigned status, json_t *value);

/* Responds with application/problem+json (RFC 9457). `detail` is a sentence for people. */
void admin_respond_problem(struct admin_request *request, unsigned status, const char *detail);

/* The same with one member more, whose reference it takes over. */
void admin_respond_problem_with(struct admin_request *request, unsigned status, const char *detail,
	const char *name, json_t *value);

/* The role that it requires. */
enum admin_role {
	ADMIN_ANYONE, /* without a token */
	ADMIN_READ,
	ADMIN_PUBLISH, /* also by a token that grip_key signed */
	ADMIN_WRITE,
};

struct admin_endpoint {
	const char *method;
	const char *path; /* one that ends with '/' has a tail behind it, which may contain a '/'
			     only if `deep` is set */
	bool deep;
	enum admin_role role;
	bool on_main; /* runs on the main thread */
	void (*handle)(struct admin_request *request);
};

extern const struct admin_endpoint admin_endpoints[];
extern const size_t admin_endpoint_count;

/* The endpoint of a method and path, with the tail. NULL: `*path_known` says whether another
 * method would find one (405) or not (404). */
const struct admin_endpoint *admin_find(
	const char *method, const char *path, const char **tail, bool *path_known);

#endif
