/* The admin server: libmicrohttpd's callbacks, who may call what, and the life of it all. */
#include "config.h"

#include "admin/admin.h"

#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/ask.h"
#include "admin/background.h"
#include "admin/browser.h"
#include "admin/doorman.h"
#include "admin/events.h"
#include "admin/pending.h"
#include "admin/publish_token.h"
#include "admin/request.h"
#include "admin/socket_calls.h"
#include "admin/tokens.h"
#include "base/clock.h"
#include "base/log.h"
#include "conf/conf.h"
#include "daemon/handover.h"
#include "daemon/relay.h"
#include "http/path.h"
#include "net/listen.h"
#include "site/site.h"

#define BACKLOG         64
#define MAX_CONNECTIONS 256 /* of a daemon; with room for those that are being cut: */
#define MAX_VISITORS    192
#define IDLE_SECONDS    30
#define MAX_DAEMONS     16
#define RETRY_AFTER_S   10

struct admin {
	struct relay *relay;
	struct asker *asker;
	struct background *background;
	struct events *events;
	struct pending *pending;
	struct socket_calls *socket_calls;
	struct admin_tokens *tokens; /* NULL: none are asked for */
	size_t count;                /* of the sockets, and of the daemons that are started */
	int sockets[MAX_DAEMONS];
	const char *unix_paths[MAX_DAEMONS]; /* NULL where it is none */
	bool is_borrowed[MAX_DAEMONS];       /* the path is still that of the process before */
	struct MHD_Daemon *daemons[MAX_DAEMONS];
	struct doorman doormen[MAX_DAEMONS];
	bool is_quiet[MAX_DAEMONS]; /* another process has the socket, too, and answers there */
	const struct conf *conf;    /* a hold */
};

/* One request while it is read and answered. */
struct call {
	struct admin *admin;
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

static const char *field(const struct admin_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* No browser connects to a unix socket. */
static bool may_be_a_page(const struct admin_request *request)
{
	const union MHD_ConnectionInfo *peer =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	if (peer && peer->client_addr && peer->client_addr->sa_family == AF_UNIX)
		return false;
	return admin_is_from_elsewhere(field(request, MHD_HTTP_HEADER_HOST),
		field(request, MHD_HTTP_HEADER_ORIGIN), field(request, "Sec-Fetch-Site"));
}

/* What is_signed asks the main thread, which has the key in effect. */
struct signed_question {
	const struct relay *relay;
	const char *authorization;
	bool good;
};

static void look_at_signature(void *ctx)
{
	struct signed_question *question = ctx;
	const struct conf_secret *key = &question->relay->site->conf->grip.key;

	question->good = publish_token_is_good((struct slice){key->at, key->len},
		question->authorization, clock_wall_ns() / CLOCK_NS_PER_S);
}

/* Has a publisher signed its token? */
static bool is_signed(struct call *call)
{
	struct signed_question question = {.relay = call->admin->relay,
		.authorization = field(&call->request, MHD_HTTP_HEADER_AUTHORIZATION)};

	return question.authorization &&
	       asker_run(call->admin->asker, look_at_signature, &question) && question.good;
}

/* True if the request may go on; else it is answered. */
static bool is_allowed(struct call *call)
{
	const struct admin_tokens *tokens = call->admin->tokens;
	struct admin_request *request = &call->request;

	if (call->endpoint->role == ADMIN_ANYONE)
		return true;
	if (!tokens && !may_be_a_page(request))
		return true;
	if (!tokens) {
		admin_respond_problem(request, 403,
			"Without a token, only requests to an address or localhost are answered, "
			"and none of another site's page.");
		return false;
	}
	enum admin_role role =
		admin_tokens_role(tokens, field(request, MHD_HTTP_HEADER_AUTHORIZATION));
	if (role >= call->endpoint->role ||
		(call->endpoint->role == ADMIN_PUBLISH && is_signed(call)))
		return true;
	if (role == ADMIN_ANYONE && call->endpoint->role == ADMIN_PUBLISH)
		admin_respond_problem(request, 401,
			"A bearer token is needed: one of the file that token = names, or a JSON "
			"web token signed with grip_key (HS256) that has not expired.");
	else if (role == ADMIN_ANYONE)
		admin_respond_problem(
			request, 401, "A bearer token of the file that token = names is needed.");
	else
		admin_respond_problem(request, 403, "This token may only read.");
	return false;
}

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
		admin_respond_problem(request, 405, "This path has other methods; see Allow.");
	else if (!call->endpoint)
		admin_respond_problem(request, 404, "There is no such path.");
	else if (is_allowed(call))
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
	} else if (!asker_run(call->admin->asker, run_handler, call)) {
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
		call->admin->background, request->connection, run_later, request, &request->job);
	if (request->job)
		return true;
	request->retry_after_s = RETRY_AFTER_S;
	admin_respond_problem(request, 503,
		"Too many such requests are being answered, or sluice is stopping; retry after the "
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

static struct call *begin_call(struct admin *admin, struct MHD_Connection *connection,
	const char *path, const char *method)
{
	struct call *call = calloc(1, sizeof(*call));
	const char *accept =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

	if (!call)
		return NULL;
	call->admin = admin;
	call->request = (struct admin_request){.method = method,
		.path = path,
		.accept = accept ? accept : "",
		.body = calloc(1, 1),
		.connection = connection,
		.relay = admin->relay,
		.events = admin->events,
		.sockets = admin->socket_calls,
		.status = 200};
	if (call->request.body)
		return call;
	free(call);
	return NULL;
}

/* Decodes %XX in place, but for %00: a NUL would end the text, and something else be meant by it.
 */
static size_t unescape(void *ctx, struct MHD_Connection *connection, char *text)
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

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
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
		return pending_is_answered(call->admin->pending, &call->request)
			       ? send_response(connection, call)
			       : MHD_YES;
	answer(call);
	if (call->request.is_pending)
		return pending_suspend(call->admin->pending, &call->request)
			       ? MHD_YES
			       : send_response(connection, call);
	return is_made_later(call) ? MHD_YES : send_response(connection, call);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **visitor,
	enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *socket =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*visitor = doorman_enter(ctx, socket->connect_fd);
		return;
	}
	doorman_leave(ctx, *visitor);
	*visitor = NULL;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **call_at,
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

/* ---- life ------------------------------------------------------------------------------------ */

static bool open_sockets(struct admin *admin, const struct conf *conf, struct handover *inherited)
{
	for (size_t i = 0; i < conf->admin.bind_count; i++) {
		const struct conf_address *bind = &conf->admin.binds[i];
		struct listen_options options = {.backlog = BACKLOG, .mode = 0660};
		if (admin->count == MAX_DAEMONS) {
			log_error("%s:%u: [admin] bind: more than %u addresses",
				CONF_PLACE_ARGS(conf, bind->line), MAX_DAEMONS);
			return false;
		}
		int fd = handover_take(inherited, "admin", bind->text);
		admin->is_borrowed[admin->count] = fd >= 0;
		if (fd < 0)
			fd = listen_open(
				(const struct sockaddr *)&bind->socket, bind->socket_len, &options);
		if (fd < 0) {
			log_error("%s:%u: [admin] bind = %s: %s", CONF_PLACE_ARGS(conf, bind->line),
				bind->text, strerror(errno));
			return false;
		}
		if (bind->kind == CONF_ADDRESS_UNIX)
			admin->unix_paths[admin->count] = bind->host;
		admin->sockets[admin->count++] = fd;
	}
	return true;
}

bool admin_open(const struct conf *conf, struct handover *inherited, struct admin **admin_at)
{
	char why[512];

	*admin_at = NULL;
	if (conf->admin.bind_count == 0)
		return true;
	struct admin *admin = calloc(1, sizeof(*admin));
	if (!admin) {
		log_error("[admin]: no memory");
		return false;
	}
	admin->conf = conf_hold(conf);
	if (conf->admin.token_path) {
		admin->tokens = admin_tokens_load(conf->admin.token_path, why, sizeof(why));
		if (!admin->tokens)
			log_error("%s:%u: [admin] token: %s",
				CONF_PLACE_ARGS(conf, conf->admin.line), why);
	}
	if ((conf->admin.token_path && !admin->tokens) || !open_sockets(admin, conf, inherited)) {
		admin_close(admin);
		return false;
	}
	*admin_at = admin;
	return true;
}

/* Its messages are about connections that end early. */
static void on_message(void *ctx, const char *format, va_list arguments)
{
	char text[256];

	(void)ctx;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_debug("admin: %s", text);
}

static struct MHD_Daemon *start_daemon(struct admin *admin, size_t i)
{
	struct doorman *doorman = &admin->doormen[i];

	doorman->most = MAX_VISITORS;
	/* ITC: admin_hand_over needs it. */
	return MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG |
					MHD_ALLOW_SUSPEND_RESUME,
		0, NULL, NULL, on_request, admin, MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL,
		MHD_OPTION_LISTEN_SOCKET, admin->sockets[i], MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, doorman, MHD_OPTION_NOTIFY_COMPLETED, on_completed, doorman,
		MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
		MHD_OPTION_END);
}

/* Without WebSockets nothing is asked of them. */
static bool begin_socket_calls(struct admin *admin)
{
#ifdef HAVE_WEBSOCKET
	admin->socket_calls = socket_calls_new(admin->relay, admin->pending);
	return admin->socket_calls;
#else
	(void)admin;
	return true;
#endif
}

static void end_socket_calls(struct admin *admin)
{
#ifdef HAVE_WEBSOCKET
	socket_calls_free(admin->socket_calls);
#else
	(void)admin;
#endif
}

bool admin_start(struct admin *admin, struct relay *relay)
{
	if (!admin)
		return true;
	admin->relay = relay;
	admin->asker = asker_new(&relay->node.loop);
	admin->events = events_new(relay);
	admin->background = background_new();
	admin->pending = pending_new();
	bool good = admin->asker && admin->events && admin->background && admin->pending &&
		    begin_socket_calls(admin);
	for (size_t i = 0; good && i < admin->count; i++) {
		admin->daemons[i] = start_daemon(admin, i);
		if (!admin->daemons[i]) {
			log_error("[admin] bind = %s: the server can't start",
				admin->conf->admin.binds[i].text);
			return false;
		}
		log_info("admin: listening on %s%s", admin->conf->admin.binds[i].text,
			admin->tokens ? ", tokens are required" : "");
	}
	if (!good)
		log_error("[admin]: no memory");
	for (size_t i = 0; good && i < admin->count; i++)
		admin->is_borrowed[i] = false;
	return good;
}

bool admin_give(const struct admin *admin, struct handover *to)
{
	for (size_t i = 0; admin && i < admin->count; i++) {
		if (!handover_add_socket(
			    to, "admin", admin->conf->admin.binds[i].text, admin->sockets[i]))
			return false;
	}
	return true;
}

void admin_hand_over(struct admin *admin, const char *address)
{
	for (size_t i = 0; admin && i < admin->count; i++) {
		if (strcmp(admin->conf->admin.binds[i].text, address) != 0)
			continue;
		admin->unix_paths[i] = NULL; /* its file is the new process's */
		admin->is_quiet[i] = MHD_quiesce_daemon(admin->daemons[i]) != MHD_INVALID_SOCKET;
		if (!admin->is_quiet[i])
			log_error("[admin] bind = %s: the server can't leave its socket", address);
		events_close(admin->events); /* who listens on finds the new process */
	}
}

void admin_close(struct admin *admin)
{
	if (!admin)
		return;
	if (admin->asker)
		asker_close(admin->asker);
	if (admin->events)
		events_close(admin->events);
	if (admin->background)
		background_close(admin->background);
	if (admin->pending)
		pending_close(admin->pending);
	for (size_t i = 0; i < admin->count; i++) {
		if (admin->daemons[i])
			MHD_stop_daemon(admin->daemons[i]);   /* closes the socket, too, */
		if (!admin->daemons[i] || admin->is_quiet[i]) /* but one that it has left */
			close(admin->sockets[i]);
		if (admin->unix_paths[i] && !admin->is_borrowed[i])
			unlink(admin->unix_paths[i]);
	}
	asker_free(admin->asker);
	events_free(admin->events);
	background_free(admin->background);
	end_socket_calls(admin);
	pending_free(admin->pending);
	admin_tokens_free(admin->tokens);
	conf_release(admin->conf);
	free(admin);
}
