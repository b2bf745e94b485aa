#include "admin/serve.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "admin/ask.h"
#include "admin/authorize.h"
#include "admin/background.h"
#include "admin/request.h"
#include "http/path.h"
#include "config.h"
#include "admin/handlers.h"
#include "base/list.h"

#define RETRY_AFTER_S 10

/* One request while it is read and answered. */
struct call {
	struct admin_services *services;
	const struct admin_endpoint *endpoint;
	struct admin_request request;
	size_t received; /* bytes of its content, kept or not */
	bool answered;   /* by its head: what follows is not kept */
	bool keeps_body;
	bool too_large;
};

/* ---- responses ------------------------------------------------------------------------------- */

/* The methods of a path that another method was used on. */
static void add_allow(struct MHD_Response *response, const char *path)
{
	char allow[64] = "";
	const char *tail;
	bool known;

	for (size_t i = 0; i < admin_endpoint_count; i++) {
		const char *method = admin_endpoints[i].method;
		if (admin_find(method, path, &tail, &known) == &admin_endpoints[i] &&
			strlen(allow) + strlen(method) + 3 < sizeof(allow)) {
			if (allow[0])
				strcat(allow, ", ");
			strcat(allow, method);
		}
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
}

/* The handler's, or of its text, which is the response's then. NULL without memory. */
static struct MHD_Response *take_response(struct admin_request *request)
{
	struct MHD_Response *response = request->response;

	if (!response)
		response = MHD_create_response_from_buffer(
			request->text_bytes, request->text, MHD_RESPMEM_MUST_FREE);
	if (response && !request->response)
		request->text = NULL;
	request->response = NULL;
	return response;
}

/* For the dashboard's page: what it shows comes from others, and none of it is a script, a style or
 * an address to go to. */
static const char content_policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
				     "connect-src 'self'; img-src data:; "
				     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
				     "require-trusted-types-for 'script'; trusted-types 'none'";

static enum MHD_Result send_response(struct MHD_Connection *connection, struct call *call)
{
	struct admin_request *request = &call->request;
	struct MHD_Response *response = take_response(request);
	char seconds[16];

	if (!response)
		return MHD_NO;
	if (request->media_type)
		MHD_add_response_header(
			response, MHD_HTTP_HEADER_CONTENT_TYPE, request->media_type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy", content_policy);
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	if (request->status == 401)
		MHD_add_response_header(
			response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"sluice\"");
	if (request->status == 405)
		add_allow(response, request->path);
	if (request->retry_after_s > 0) {
		snprintf(seconds, sizeof(seconds), "%u", request->retry_after_s);
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
	}
	enum MHD_Result result = MHD_queue_response(connection, request->status, response);
	MHD_destroy_response(response);
	return result;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void run_handler(void *ctx)
{
	struct call *call = ctx;

	call->endpoint->handle(&call->request);
}

/* By its head. Content is kept of what may change something, and only then. */
static void judge(struct call *call)
{
	struct admin_request *request = &call->request;
	bool path_known;

	call->endpoint = admin_find(request->method, request->path, &request->tail, &path_known);
	call->answered = true;
	if (!call->endpoint && path_known)
		admin_respond_problem(
			request, 405, "The method is not allowed for this path; see Allow.");
	else if (!call->endpoint)
		admin_respond_problem(request, 404, "There is no such path.");
	else if (admin_authorize(call->services, request, call->endpoint->role))
		call->answered = false;
	call->keeps_body = !call->answered && call->endpoint->role >= ADMIN_PUBLISH;
}

static void answer(struct call *call)
{
	struct admin_request *request = &call->request;

	if (call->answered) {
		return;
	} else if (call->too_large) {
		admin_respond_problem(request, 413, "The content is larger than 1 MiB.");
	} else if (!call->endpoint->on_main) {
		run_handler(call);
	} else if (!asker_run(call->services->asker, run_handler, call)) {
		admin_respond_problem(request, 503, "sluice is stopping.");
	}
}

static void run_later(void *ctx)
{
	struct admin_request *request = ctx;

	request->later(request);
}

/* True: the answer comes when a thread of its own has made it, and the connection is suspended. */
static bool is_made_later(struct call *call)
{
	struct admin_request *request = &call->request;

	if (!request->later)
		return false;
	background_start(
		call->services->background, request->connection, run_later, request, &request->job);
	if (request->job)
		return true;
	request->retry_after_s = RETRY_AFTER_S;
	admin_respond_problem(request, 503,
		"Too many such requests are in progress, or sluice is stopping; retry after the "
		"time in Retry-After.");
	return false;
}

static void add_body(struct call *call, const char *data, size_t size)
{
	struct admin_request *request = &call->request;

	call->received += size;
	call->too_large |= call->received > ADMIN_BODY_MAX;
	if (call->too_large || !call->keeps_body)
		return;
	char *body = realloc((char *)(uintptr_t)request->body, request->body_bytes + size + 1);
	if (!body) {
		call->too_large = true;
		return;
	}
	memcpy(body + request->body_bytes, data, size);
	request->body_bytes += size;
	body[request->body_bytes] = '\0';
	request->body = body;
}

static struct call *begin_call(struct admin_services *services, struct MHD_Connection *connection,
	const char *path, const char *method)
{
	struct call *call = calloc(1, sizeof(*call));
	const char *accept =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

	if (!call)
		return NULL;
	call->services = services;
	call->request = (struct admin_request){.method = method,
		.path = path,
		.accept = accept ? accept : "",
		.body = calloc(1, 1),
		.connection = connection,
		.daemon = services->daemon,
		.events = services->events,
		.sockets = services->socket_calls,
		.fleet_calls = services->fleet_calls,
		.status = 200};
	if (call->request.body)
		return call;
	free(call);
	return NULL;
}

size_t admin_unescape(void *ctx, struct MHD_Connection *connection, char *text)
{
	char *to = text;

	(void)ctx;
	(void)connection;
	for (const char *from = text; *from; to++) {
		bool is_escaped = from[0] == '%' && isxdigit((unsigned char)from[1]) &&
				  isxdigit((unsigned char)from[2]) &&
				  (from[1] != '0' || from[2] != '0');
		*to = is_escaped ? (char)http_path_hex(from + 1) : *from;
		from += is_escaped ? 3 : 1;
	}
	*to = '\0';
	return (size_t)(to - text);
}

enum MHD_Result admin_on_request(void *ctx, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *data, size_t *data_size,
	void **call_at)
{
	struct call *call = *call_at;

	(void)version;
	if (!call) {
		*call_at = call = begin_call(ctx, connection, path, method);
		if (!call)
			return MHD_NO;
		judge(call);
		/* Content that waits to be asked for does not come. */
		return call->answered && MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
						 MHD_HTTP_HEADER_EXPECT)
			       ? send_response(connection, call)
			       : MHD_YES;
	}
	if (*data_size > 0) {
		add_body(call, data, *data_size);
		*data_size = 0;
		/* Far beyond what is too much already, nobody reads the answer. */
		return call->received > 2 * ADMIN_BODY_MAX ? MHD_NO : MHD_YES;
	}
	if (call->request.job)
		return background_has_run(call->request.job) ? send_response(connection, call)
							     : MHD_YES;
	if (call->request.is_pending)
		return pending_is_answered(call->services->pending, &call->request)
			       ? send_response(connection, call)
			       : MHD_YES;
	answer(call);
	if (call->request.is_pending)
		return pending_suspend(call->services->pending, &call->request)
			       ? MHD_YES
			       : send_response(connection, call);
	return is_made_later(call) ? MHD_YES : send_response(connection, call);
}

void admin_on_completed(void *ctx, struct MHD_Connection *connection, void **call_at,
	enum MHD_RequestTerminationCode code)
{
	struct call *call = *call_at;
	const union MHD_ConnectionInfo *visitor =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		doorman_served(ctx, visitor->socket_context);
	if (!call)
		return;
	background_end(call->request.job);
	if (call->request.response)
		MHD_destroy_response(call->request.response);
	free(call->request.text);
	free((char *)(uintptr_t)call->request.body);
	free(call);
	*call_at = NULL;
}

/* ---- endpoints ------------------------------------------------------------------------------ */

/* The table of endpoints, and finding one. */

#define API "/api/v1/"

/* A path that ends with '/', but for the root, is followed by one segment, or with `deep` by
 * several. Where the method is POST, others may have a '/' behind them. */
const struct admin_endpoint admin_endpoints[] = {
	{"GET", "/", false, ADMIN_ANYONE, true, admin_get_dashboard},
	{"GET", "/dashboard/", false, ADMIN_ANYONE, true, admin_get_dashboard},
	{"GET", "/healthz", false, ADMIN_ANYONE, false, admin_get_health},
	{"GET", "/readyz", false, ADMIN_ANYONE, true, admin_get_ready},
	{"GET", "/metrics", false, ADMIN_READ, true, admin_get_metrics},
	{"GET", API "status", false, ADMIN_READ, true, admin_get_status},
	{"GET", API "limits", false, ADMIN_READ, true, admin_get_limits},
	{"GET", API "limits/", false, ADMIN_READ, true, admin_get_limit},
	{"PATCH", API "limits/", false, ADMIN_WRITE, true, admin_patch_limit},
	{"GET", API "callers", false, ADMIN_READ, true, admin_get_callers},
	{"DELETE", API "callers", false, ADMIN_WRITE, true, admin_delete_caller},
	{"GET", API "callers/", false, ADMIN_READ, true, admin_get_caller},
	{"DELETE", API "callers/", true, ADMIN_WRITE, true, admin_delete_caller},
	{"PUT", API "callers/", true, ADMIN_WRITE, true, admin_put_override},
	{"GET", API "keys/", true, ADMIN_READ, true, admin_get_key},
	{"PUT", API "keys/", true, ADMIN_WRITE, true, admin_put_key},
	{"DELETE", API "keys/", true, ADMIN_WRITE, true, admin_delete_key},
	{"GET", API "explain", false, ADMIN_READ, true, admin_get_explain},
	{"GET", API "upstreams", false, ADMIN_READ, true, admin_get_upstreams},
	{"PUT", API "upstreams/", true, ADMIN_WRITE, true, admin_put_server},
	{"POST", API "upstreams/", true, ADMIN_WRITE, true, admin_post_server},
	{"GET", API "sessions", false, ADMIN_READ, true, admin_get_sessions},
	{"GET", API "sessions/", false, ADMIN_READ, true, admin_get_session},
	{"POST", API "sessions/", true, ADMIN_WRITE, true, admin_post_session},
#ifdef HAVE_WEBSOCKET
	{"GET", API "sockets", false, ADMIN_READ, true, admin_get_sockets},
	{"GET", API "sockets/", false, ADMIN_READ, true, admin_get_socket},
	{"POST", API "sockets/", true, ADMIN_WRITE, true, admin_post_socket},
#endif
#ifdef HAVE_REDIS
	{"GET", API "fleet", false, ADMIN_READ, true, admin_get_fleet},
#endif
	{"GET", API "usage", false, ADMIN_READ, false, admin_get_usage},
	{"GET", API "events", false, ADMIN_READ, true, admin_get_events},
	{"POST", API "publish", false, ADMIN_PUBLISH, false, admin_post_publish},
	{"POST", API "reload", false, ADMIN_WRITE, true, admin_post_reload},
	{"GET", API "config", false, ADMIN_READ, true, admin_get_config},
	{"PUT", API "log-level", false, ADMIN_WRITE, true, admin_put_log_level},
};
const size_t admin_endpoint_count = sizeof(admin_endpoints) / sizeof(admin_endpoints[0]);

/* GRIP's libraries publish to publish/. */
static bool is_with_slash(const struct admin_endpoint *endpoint, const char *path)
{
	size_t len = strlen(endpoint->path);

	return strcmp(endpoint->method, "POST") == 0 && strncmp(path, endpoint->path, len) == 0 &&
	       strcmp(path + len, "/") == 0;
}

static bool fits_path(const struct admin_endpoint *endpoint, const char *path, const char **tail)
{
	size_t len = strlen(endpoint->path);

	if (endpoint->path[len - 1] != '/' || len == 1) {
		*tail = "";
		return strcmp(path, endpoint->path) == 0 || is_with_slash(endpoint, path);
	}
	*tail = path + len;
	return strncmp(path, endpoint->path, len) == 0 && path[len] != '\0' &&
	       (endpoint->deep || !strchr(path + len, '/'));
}

const struct admin_endpoint *admin_find(
	const char *method, const char *path, const char **tail, bool *path_known)
{
	/* HEAD is GET without the content, which the server leaves out. */
	if (strcmp(method, "HEAD") == 0)
		method = "GET";
	*path_known = false;
	for (size_t i = 0; i < admin_endpoint_count; i++) {
		if (!fits_path(&admin_endpoints[i], path, tail))
			continue;
		if (strcmp(method, admin_endpoints[i].method) == 0)
			return &admin_endpoints[i];
		*path_known = true;
	}
	return NULL;
}

/* ---- doorman -------------------------------------------------------------------------------- */

struct visitor {
	struct visitor *prev, *next;
	int fd; /* -1: cut, and no longer in the list */
};

static void append(struct doorman *doorman, struct visitor *visitor)
{
	LIST_APPEND(doorman->first, doorman->last, visitor, prev, next);
	doorman->count++;
}

static void take_out(struct doorman *doorman, struct visitor *visitor)
{
	LIST_REMOVE(doorman->first, doorman->last, visitor, prev, next);
	doorman->count--;
}

struct visitor *doorman_enter(struct doorman *doorman, int fd)
{
	struct visitor *visitor = malloc(sizeof(*visitor)), *cut = doorman->first;

	if (!visitor)
		return NULL;
	visitor->fd = fd;
	append(doorman, visitor);
	if (doorman->count > doorman->most) {
		/* The server sees its end and closes it. */
		take_out(doorman, cut);
		shutdown(cut->fd, SHUT_RDWR);
		cut->fd = -1;
	}
	return visitor;
}

void doorman_served(struct doorman *doorman, struct visitor *visitor)
{
	if (!visitor || visitor->fd < 0)
		return;
	take_out(doorman, visitor);
	append(doorman, visitor);
}

void doorman_leave(struct doorman *doorman, struct visitor *visitor)
{
	if (!visitor)
		return;
	if (visitor->fd >= 0)
		take_out(doorman, visitor);
	free(visitor);
}
