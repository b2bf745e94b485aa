/* The admin server: its sockets, the daemons of libmicrohttpd on them, and the life of it all. */
#include "config.h"

#include "admin/admin.h"

#include <errno.h>
#include <fcntl.h>
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
#include "base/clock.h"
#include "base/container.h"
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
#define MAX_LEFT        32 /* with connections; beyond it, a new certificate waits */
#define LEFT_MS         5000
#define WHY_BYTES       512
#define NO_PAIR         "are certificate and key PEM, and a pair?"
#define PEM_BYTES       (1 << 20)
#define TLS_PRIORITIES  "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* A certificate in PEM, and its key, which is wiped at the end. */
struct pem {
	char *certificate, *key; /* NULL: http */
	size_t certificate_bytes, key_bytes;
};

/* A daemon of libmicrohttpd at an address. */
struct front {
	struct front *next; /* of those that are left */
	struct MHD_Daemon *daemon;
	struct doorman doorman;
	int socket;       /* a descriptor of its own */
	bool is_quiet;    /* it has left its socket, which another one answers at, */
	uint64_t left_ms; /* at this time, by the monotonic clock */
};

/*
 *   sockets --> front --new certificate--> front of the same socket
 *                 `--> left: answers the connections that it has, and ends behind the last
 */
struct admin {
	struct admin_services services;
	size_t count; /* of the sockets, and of the fronts that are started */
	int sockets[MAX_DAEMONS];
	const char *unix_paths[MAX_DAEMONS]; /* NULL where it is none */
	bool is_borrowed[MAX_DAEMONS];       /* the path is still that of the process before */
	struct front *fronts[MAX_DAEMONS];
	struct front *left;
	size_t left_count;
	struct pem pem;
	char why[WHY_BYTES];     /* "": the files could be used when they were read last */
	struct message looked;   /* of the watch of certificates */
	const struct conf *conf; /* a hold */
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

static void pem_clear(struct pem *pem)
{
	free(pem->certificate);
	if (pem->key)
		explicit_bzero(pem->key, pem->key_bytes);
	free(pem->key);
	*pem = (struct pem){.certificate = NULL};
}

/* False: `why` says why, and names the file. */
static bool read_pem(const struct conf_admin *conf, struct pem *pem, char why[static WHY_BYTES])
{
	const char *path = conf->certificate, *reason;

	pem->certificate = reader_file(path, PEM_BYTES, true, &pem->certificate_bytes, &reason);
	if (pem->certificate) {
		path = conf->certificate_key ? conf->certificate_key : path;
		pem->key = reader_file(path, PEM_BYTES, true, &pem->key_bytes, &reason);
	}
	if (pem->key)
		return true;
	snprintf(why, WHY_BYTES, "%s: %s", path, reason);
	pem_clear(pem);
	return false;
}

static bool read_certificate(struct admin *admin, const struct conf *conf)
{
	char why[WHY_BYTES];

	if (!conf->admin.certificate)
		return true;
	if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
		log_error("%s:%u: [admin] certificate: this libmicrohttpd was built without TLS",
			CONF_PLACE_ARGS(conf, conf->admin.certificate_line));
		return false;
	}
	if (read_pem(&conf->admin, &admin->pem, why))
		return true;
	log_error("%s:%u: [admin] certificate: %s",
		CONF_PLACE_ARGS(conf, conf->admin.certificate_line), why);
	return false;
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
	return admin->pem.certificate && admin->conf->admin.binds[i].kind != CONF_ADDRESS_UNIX;
}

static struct MHD_Daemon *start_daemon(
	struct admin *admin, struct front *front, bool is_https, const struct pem *pem)
{
	struct doorman *doorman = &front->doorman;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, pem->certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, pem->key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (char[]){TLS_PRIORITIES}},
		{MHD_OPTION_END, 0, NULL}};
	struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};

	doorman->most = MAX_VISITORS;
	/* ITC: admin_hand_over needs it. With epoll, the library does not rest as long as a
	 * handshake of TLS lacks bytes. */
	return MHD_start_daemon(MHD_USE_ITC | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
					(is_https ? MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_TLS
						  : MHD_USE_AUTO_INTERNAL_THREAD),
		0, NULL, NULL, admin_on_request, &admin->services, MHD_OPTION_EXTERNAL_LOGGER,
		on_message, NULL, MHD_OPTION_LISTEN_SOCKET, front->socket,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, doorman, MHD_OPTION_NOTIFY_COMPLETED,
		admin_on_completed, doorman, MHD_OPTION_UNESCAPE_CALLBACK, admin_unescape, NULL,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)MAX_CONNECTIONS, MHD_OPTION_ARRAY, is_https ? tls : plain,
		MHD_OPTION_END);
}

/* At the socket of that number, by a descriptor of its own: the library closes it when it ends, and
 * when it does not start. NULL: it does not, or there is no memory or descriptor. */
static struct front *front_new(struct admin *admin, size_t i, const struct pem *pem)
{
	struct front *front = calloc(1, sizeof(*front));

	if (!front)
		return NULL;
	front->socket = fcntl(admin->sockets[i], F_DUPFD_CLOEXEC, 0);
	if (front->socket >= 0)
		front->daemon = start_daemon(admin, front, has_tls(admin, i), pem);
	if (front->daemon)
		return front;
	free(front);
	return NULL;
}

/* False: it can't leave its socket. */
static bool front_leave(struct front *front)
{
	front->left_ms = clock_monotonic_ms();
	front->is_quiet = MHD_quiesce_daemon(front->daemon) != MHD_INVALID_SOCKET;
	return front->is_quiet;
}

static void front_free(struct front *front)
{
	MHD_stop_daemon(front->daemon); /* closes the socket, too, but one that it has left */
	if (front->is_quiet)
		close(front->socket);
	free(front);
}

/* ---- new certificates ------------------------------------------------------------------------ */

/* Ends those without connections. One that has just left may still accept one, whose request would
 * wait for this thread, which waits for the end of the front's. */
static void sweep_left(struct admin *admin)
{
	struct front **at = &admin->left, *front;
	uint64_t now_ms = clock_monotonic_ms();

	while ((front = *at) != NULL) {
		const union MHD_DaemonInfo *info =
			MHD_get_daemon_info(front->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
		if (!info || info->num_connections > 0 || now_ms < front->left_ms + LEFT_MS) {
			at = &front->next;
			continue;
		}
		*at = front->next;
		admin->left_count--;
		front_free(front);
	}
}

static bool is_same(const struct pem *a, const struct pem *b)
{
	return a->certificate_bytes == b->certificate_bytes && a->key_bytes == b->key_bytes &&
	       memcmp(a->certificate, b->certificate, a->certificate_bytes) == 0 &&
	       memcmp(a->key, b->key, a->key_bytes) == 0;
}

/* New connections get the certificate. False: it can't be used. */
static bool use(struct admin *admin, const struct pem *pem)
{
	for (size_t i = 0; i < admin->count; i++) {
		if (!has_tls(admin, i) || admin->fronts[i]->is_quiet)
			continue;
		struct front *front = front_new(admin, i, pem), *old = admin->fronts[i];
		if (!front)
			return false;
		admin->fronts[i] = front;
		front_leave(old);
		old->next = admin->left;
		admin->left = old;
		admin->left_count++;
	}
	return true;
}

static void report_unusable(struct admin *admin, const char *why)
{
	if (strcmp(admin->why, why) == 0)
		return;
	snprintf(admin->why, WHY_BYTES, "%s", why);
	log_error("%s:%u: [admin] certificate: %s; it keeps the certificate that it had before",
		CONF_PLACE_ARGS(admin->conf, admin->conf->admin.certificate_line), why);
}

/* The main thread runs this when files of certificates may have changed. */
static void on_looked(struct message *message)
{
	struct admin *admin = CONTAINER_OF(message, struct admin, looked);
	struct pem pem = {.certificate = NULL};
	char why[WHY_BYTES];

	sweep_left(admin);
	if (!admin->pem.certificate || admin->left_count + admin->count > MAX_LEFT)
		return;
	if (!read_pem(&admin->conf->admin, &pem, why)) {
		report_unusable(admin, why);
	} else if (is_same(&pem, &admin->pem)) {
		admin->why[0] = '\0';
	} else if (use(admin, &pem)) {
		struct pem old = admin->pem;
		admin->pem = pem;
		pem = old;
		admin->why[0] = '\0';
		log_info("[admin]: its certificate has changed and is in use");
	} else {
		report_unusable(admin, NO_PAIR);
	}
	pem_clear(&pem);
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
		admin->fronts[i] = front_new(admin, i, &admin->pem);
		if (!admin->fronts[i]) {
			log_error("[admin] bind = %s: the server can't start%s",
				admin->conf->admin.binds[i].text,
				has_tls(admin, i) ? "; " NO_PAIR : "");
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
	admin->looked.run = on_looked;
	daemon->watch.looked = &admin->looked;
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
		if (!front_leave(admin->fronts[i]))
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
	if (admin->services.daemon)
		admin->services.daemon->watch.looked = NULL;
	for (size_t i = 0; i < admin->count; i++) {
		if (admin->fronts[i])
			front_free(admin->fronts[i]);
		close(admin->sockets[i]);
		if (admin->unix_paths[i] && !admin->is_borrowed[i])
			unlink(admin->unix_paths[i]);
	}
	while (admin->left) {
		struct front *front = admin->left;
		admin->left = front->next;
		front_free(front);
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
	pem_clear(&admin->pem);
	conf_release(admin->conf);
	free(admin);
}
