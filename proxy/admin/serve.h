/* One request to the admin API while libmicrohttpd reads it and answers it: its callbacks. */
#ifndef ADMIN_SERVE_H
#define ADMIN_SERVE_H

#include <microhttpd.h>

/* MHD_AccessHandlerCallback; `ctx` is the struct admin_services. Called for a request's head, then
 * for each piece of its content, then until there is a response. */
enum MHD_Result admin_on_request(void *ctx, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *data, size_t *data_size,
	void **call_at);

/* MHD_RequestCompletedCallback; `ctx` is the struct doorman of its daemon. Frees the call. */
void admin_on_completed(void *ctx, struct MHD_Connection *connection, void **call_at,
	enum MHD_RequestTerminationCode code);

/* UnescapeCallback. Decodes %XX in place, but for %00: a NUL would end the text, and something else
 * be meant by it. Returns the length that is left. */
size_t admin_unescape(void *ctx, struct MHD_Connection *connection, char *text);

/* ---- services ------------------------------------------------------------------------------- */

/* The objects that the requests to the admin API share. One for all daemons of libmicrohttpd; it is
 * set before they are started. */

struct admin_tokens;
struct asker;
struct background;
struct events;
struct fleet_calls;
struct pending;
struct daemon;
struct socket_calls;

struct admin_services {
	struct daemon *daemon;
	struct asker *asker;
	struct background *background;
	struct events *events;
	struct pending *pending;
	struct fleet_calls *fleet_calls;   /* NULL: built without a store */
	struct socket_calls *socket_calls; /* NULL: built without WebSockets */
	struct admin_tokens *tokens;       /* NULL: no token is needed */
};

/* ---- doorman -------------------------------------------------------------------------------- */

/*
 * Keeps the admin server reachable: when many are connected, the one that has waited longest since
 * its last complete request (or since it connected) is cut for the next. So half requests, however
 * many and however slowly they continue, lock no other client out.
 *
 * One a daemon of libmicrohttpd, whose single thread calls all of it.
 */

struct visitor;

struct doorman {
	struct visitor *first, *last; /* who waited longest comes first */
	unsigned count;
	unsigned most; /* beyond which one is cut */
};

/* A connection on the socket `fd`, which stays the caller's. NULL without memory: not counted. */
struct visitor *doorman_enter(struct doorman *doorman, int fd);
/* It has made a complete request. NULL is ignored. */
void doorman_served(struct doorman *doorman, struct visitor *visitor);
/* It is closed; the socket not yet. Frees it. NULL is ignored. */
void doorman_leave(struct doorman *doorman, struct visitor *visitor);

#endif
