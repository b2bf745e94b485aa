/* The admin server: its sockets, the daemons of libmicrohttpd on them, and the life of it all. */
#include "config.h"

#include "admin/admin.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/ask.h"
#include "admin/background.h"
#include "admin/serve.h"
#include "admin/handle_events.h"
#include "admin/socket_calls.h"
#include "admin/tokens.h"
#include "base/log.h"
#include "conf/conf.h"
#include "conf/reader.h"
#include "daemon/binding.h"
#include "daemon/handover.h"
#include "daemon/daemon.h"
#include "net/listen.h"

#ifdef HAVE_REDIS
#include "admin/fleet_calls.h"
#endif

#define BACKLOG         64
#define MAX_CONNECTIONS 256 /* of a daemon; with room for those that are being cut: */
#define MAX_VISITORS    192
#define IDLE_SECONDS    30
#define MAX_DAEMONS     16
#define PEM_BYTES       (1 << 20)
#define TLS_PRIORITIES  "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct admin {
	struct admin_services services;
	size_t count; /* of the sockets, and of the daemons that are started */
	int sockets[MAX_DAEMONS];
	const char *unix_paths[MAX_DAEMONS]; /* NULL where it is none */
	bool is_borrowed[MAX_DAEMONS];       /* the path is still that of the process before */
	struct MHD_Daemon *daemons[MAX_DAEMONS];
	struct doorman doormen[MAX_DAEMONS];
	char *certificate, *key; /* PEM; NULL: http. The key is wiped at the end */
	size_t key_bytes;
	bool is_quiet[MAX_DAEMONS]; /* another process has the socket, too, and answers there */
	const struct conf *conf;    /* a hold */
};

/* ---- sockets --------------------------------------------------------------------------------- */

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
			int error = errno;
			log_error("%s:%u: [admin] bind = %s: %s%s",
				CONF_PLACE_ARGS(conf, bind->line), bind->text, strerror(error),
				binding_advice(bind, error));
			return false;
		}
		if (bind->kind == CONF_ADDRESS_UNIX)
			admin->unix_paths[admin->count] = bind->host;
		admin->sockets[admin->count++] = fd;
	}
	return true;
}

/* NULL with a line in the log. */
static char *read_pem(const struct conf *conf, const char *path, size_t *len)
{
	const char *why;
	char *text = reader_file(path, PEM_BYTES, true, len, &why);

	if (!text)
		log_error("%s:%u: [admin] certificate: %s: %s",
			CONF_PLACE_ARGS(conf, conf->admin.certificate_line), path, why);
	return text;
}

static bool read_certificate(struct admin *admin, const struct conf *conf)
{
	const char *key = conf->admin.certificate_key;
	size_t len;

	if (!conf->admin.certificate)
		return true;
	if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
		log_error("%s:%u: [admin] certificate: this libmicrohttpd was built without TLS",
			CONF_PLACE_ARGS(conf, conf->admin.certificate_line));
		return false;
	}
	admin->certificate = read_pem(conf, conf->admin.certificate, &len);
	admin->key = read_pem(conf, key ? key : conf->admin.certificate, &admin->key_bytes);
	return admin->certificate && admin->key;
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
		admin->services.tokens =
			admin_tokens_load(conf->admin.token_path, why, sizeof(why));
		if (!admin->services.tokens)
			log_error("%s:%u: [admin] token: %s",
				CONF_PLACE_ARGS(conf, conf->admin.token_line), why);
	}
	if ((conf->admin.token_path && !admin->services.tokens) || !read_certificate(admin, conf) ||
		!open_sockets(admin, conf, inherited)) {
		admin_close(admin);
		return false;
	}
	*admin_at = admin;
	return true;
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

/* Its messages are about connections that end early. */
static void on_message(void *ctx, const char *format, va_list arguments)
{
	char text[256];

	(void)ctx;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_debug("admin: %s", text);
}

/* A unix socket is of this machine: nobody between its ends reads it. */
static bool has_tls(const struct admin *admin, size_t i)
{
	return admin->certificate && !admin->unix_paths[i];
}

static struct MHD_Daemon *start_daemon(struct admin *admin, size_t i)
{
	struct doorman *doorman = &admin->doormen[i];
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, admin->certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, admin->key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (char[]){TLS_PRIORITIES}},
		{MHD_OPTION_END, 0, NULL}};
	struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
	bool is_https = has_tls(admin, i);

	doorman->most = MAX_VISITORS;
	/* ITC: admin_hand_over needs it. With epoll, the library does not rest as long as a
	 * handshake of TLS lacks bytes. */
	return MHD_start_daemon(MHD_USE_ITC | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
					(is_https ? MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_TLS
						  : MHD_USE_AUTO_INTERNAL_THREAD),
		0, NULL, NULL, admin_on_request, &admin->services, MHD_OPTION_EXTERNAL_LOGGER,
		on_message, NULL, MHD_OPTION_LISTEN_SOCKET, admin->sockets[i],
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, doorman, MHD_OPTION_NOTIFY_COMPLETED,
		admin_on_completed, doorman, MHD_OPTION_UNESCAPE_CALLBACK, admin_unescape, NULL,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)MAX_CONNECTIONS, MHD_OPTION_ARRAY, is_https ? tls : plain,
		MHD_OPTION_END);
}

/* Without WebSockets nothing is asked of them. */
static bool begin_socket_calls(struct admin *admin)
{
#ifdef HAVE_WEBSOCKET
	admin->services.socket_calls =
		socket_calls_new(admin->services.daemon, admin->services.pending);
	return admin->services.socket_calls;
#else
	(void)admin;
	return true;
#endif
}

/* Without a store nothing is asked of it. */
static bool begin_fleet_calls(struct admin *admin)
{
#ifdef HAVE_REDIS
	admin->services.fleet_calls =
		fleet_calls_new(admin->services.daemon, admin->services.pending);
	return admin->services.fleet_calls;
#else
	(void)admin;
	return true;
#endif
}

bool admin_start(struct admin *admin, struct daemon *daemon)
{
	if (!admin)
		return true;
	admin->services.daemon = daemon;
	admin->services.asker = asker_new(&daemon->node.loop);
	admin->services.events = events_new(daemon);
	admin->services.background = background_new();
	admin->services.pending = pending_new();
	bool good = admin->services.asker && admin->services.events && admin->services.background &&
		    admin->services.pending && begin_socket_calls(admin) &&
		    begin_fleet_calls(admin);
	for (size_t i = 0; good && i < admin->count; i++) {
		admin->daemons[i] = start_daemon(admin, i);
		if (!admin->daemons[i]) {
			log_error("[admin] bind = %s: the server can't start%s",
				admin->conf->admin.binds[i].text,
				has_tls(admin, i) ? "; are certificate and key PEM, and a pair?"
						  : "");
			return false;
		}
		log_info("admin: listening on %s%s%s", admin->conf->admin.binds[i].text,
			has_tls(admin, i) ? ", https" : "",
			admin->services.tokens ? ", tokens are required" : "");
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
		events_close(admin->services.events); /* who listens on finds the new process */
	}
}

void admin_close(struct admin *admin)
{
	if (!admin)
		return;
	if (admin->services.asker)
		asker_close(admin->services.asker);
	if (admin->services.events)
		events_close(admin->services.events);
	if (admin->services.background)
		background_close(admin->services.background);
	if (admin->services.pending)
		pending_close(admin->services.pending);
	for (size_t i = 0; i < admin->count; i++) {
		if (admin->daemons[i])
			MHD_stop_daemon(admin->daemons[i]);   /* closes the socket, too, */
		if (!admin->daemons[i] || admin->is_quiet[i]) /* but one that it has left */
			close(admin->sockets[i]);
		if (admin->unix_paths[i] && !admin->is_borrowed[i])
			unlink(admin->unix_paths[i]);
	}
	asker_free(admin->services.asker);
	events_free(admin->services.events);
	background_free(admin->services.background);
#ifdef HAVE_WEBSOCKET
	socket_calls_free(admin->services.socket_calls);
#endif
#ifdef HAVE_REDIS
	fleet_calls_free(admin->services.fleet_calls);
#endif
	pending_free(admin->services.pending);
	admin_tokens_free(admin->services.tokens);
	free(admin->certificate);
	if (admin->key)
		explicit_bzero(admin->key, admin->key_bytes);
	free(admin->key);
	conf_release(admin->conf);
	free(admin);
}
