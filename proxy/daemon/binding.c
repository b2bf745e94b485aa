/* Opening listening sockets: by address, or as systemd handed them in. */
#include "daemon/binding.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/handover.h"
#include "daemon/daemon.h"
#include "listen/listener.h"
#include "net/listen.h"

#define SYSTEMD_FIRST_FD 3 /* sd_listen_fds(3) */

static struct listen_options options_of(const struct conf_listener *conf)
{
	return (struct listen_options){
		.backlog = (int)conf->backlog, .reuse_port = true, .v6only = conf->v6only};
}

static bool is_systemd(const struct conf_address *address)
{
	return strncmp(address->text, "systemd:", 8) == 0;
}

static bool is_taken(const struct conf_listener *conf, const struct conf_address *address)
{
	struct listen_options options = options_of(conf);

	return !is_systemd(address) && listen_is_taken((const struct sockaddr *)&address->socket,
					       address->socket_len, &options);
}

/* `systemd:NAME` or `systemd:` for the first: LISTEN_FDS sockets, named by LISTEN_FDNAMES. */
static int systemd_socket(const char *name)
{
	const char *pid = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	int count = count_text ? atoi(count_text) : 0;

	errno = ENOENT;
	if (count <= 0 || (pid && atoi(pid) != (int)getpid()))
		return -1;
	for (int i = 0; i < count; i++) {
		size_t len = names ? strcspn(names, ":") : 0;
		bool fits = name[0] == '\0' ||
			    (names && strlen(name) == len && strncmp(names, name, len) == 0);
		if (fits) {
			int fd = fcntl(SYSTEMD_FIRST_FD + i, F_DUPFD_CLOEXEC, 16);
			if (fd >= 0)
				fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
			return fd;
		}
		if (names)
			names += names[len] == ':' ? len + 1 : len;
	}
	return -1;
}

/* Why systemd_socket found none of that name: what was passed instead. */
static void explain_systemd(const char *name, char *text, size_t size)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES"), *quote = names ? "\"" : "";

	if (!count || atoi(count) <= 0)
		snprintf(text, size, "systemd passed no sockets (LISTEN_FDS is %s)",
			count ? count : "not set");
	else if (pid && atoi(pid) != (int)getpid())
		snprintf(text, size, "systemd passed no sockets to this process (LISTEN_PID is %s)",
			pid);
	else
		snprintf(text, size,
			"systemd passed no socket of the name \"%s\" (LISTEN_FDNAMES is "
			"%s%s%s, LISTEN_FDS %s)",
			name, quote, names ? names : "not set", quote, count);
}

static bool open_all(struct binding *binding, const struct conf_listener *conf,
	const struct conf_address *address)
{
	bool is_handed_in = is_systemd(address);
	bool is_unix = !is_handed_in && address->kind == CONF_ADDRESS_UNIX;
	struct listen_options options = options_of(conf);
	char *path = is_unix ? strdup(address->host) : NULL;

	if (is_unix && !path)
		return false;
	binding->is_shared = is_unix || is_handed_in;
	for (unsigned i = 0; i < binding->workers; i++) {
		if (i > 0 && (is_unix || is_handed_in))
			binding->sockets[i] = fcntl(binding->sockets[0], F_DUPFD_CLOEXEC, 0);
		else if (is_handed_in)
			binding->sockets[i] = systemd_socket(address->text + 8);
		else
			binding->sockets[i] = listen_open((const struct sockaddr *)&address->socket,
				address->socket_len, &options);
		if (binding->sockets[i] < 0) {
			free(path);
			return false;
		}
		if (path)
			binding->unix_path = path; /* it is ours to remove from now on */
		path = NULL;
		if (i == 0 || (!is_unix && !is_handed_in))
			binding->given[i] = binding->sockets[i];
	}
	return true;
}

/* Those that the process before had. Of one socket for all, and for more workers than it had,
 * descriptors are shared. False with errno. */
static bool adopt(
	struct binding *binding, struct handover *inherited, const struct conf_address *address)
{
	unsigned adopted = 0;

	while (adopted < binding->workers) {
		int fd = handover_take(inherited, "listener", address->text);
		if (fd < 0)
			break;
		binding->given[adopted] = binding->sockets[adopted] = fd;
		adopted++;
	}
	binding->is_shared = adopted < binding->workers;
	for (unsigned i = adopted; i < binding->workers; i++) {
		binding->sockets[i] = fcntl(binding->sockets[i % adopted], F_DUPFD_CLOEXEC, 0);
		if (binding->sockets[i] < 0)
			return false;
	}
	if (address->kind == CONF_ADDRESS_UNIX)
		binding->unix_path = strdup(address->host);
	binding->is_borrowed = true;
	return true;
}

static void close_sockets(struct binding *binding)
{
	for (unsigned i = 0; i < binding->workers; i++) {
		if (binding->sockets[i] >= 0)
			close(binding->sockets[i]);
		binding->sockets[i] = -1;
	}
}

static void remove_path(struct binding *binding)
{
	if (binding->unix_path && !binding->is_borrowed)
		unlink(binding->unix_path);
	free(binding->unix_path);
	binding->unix_path = NULL;
}

static void bound_release(struct daemon *daemon, struct connection_bound *bound)
{
	struct connection_bound **at = &daemon->listening.bounds;

	if (!bound || --bound->holders > 0)
		return;
	while (*at != bound)
		at = &(*at)->next;
	*at = bound->next;
	free(bound->name);
	free(bound);
}

static void binding_free(struct daemon *daemon, struct binding *binding)
{
	if (!binding)
		return;
	bound_release(daemon, binding->bound);
	if (binding->sockets)
		close_sockets(binding);
	for (unsigned i = 0; binding->listeners && i < binding->workers; i++)
		free(binding->listeners[i]);
	remove_path(binding);
	free(binding->listeners);
	free(binding->given);
	free(binding->sockets);
	free(binding->text);
	free(binding);
}

static void free_all(struct daemon *daemon, struct binding **list)
{
	while (*list) {
		struct binding *binding = *list;
		*list = binding->next;
		binding_free(daemon, binding);
	}
}

static struct connection_bound *bound_for(struct daemon *daemon, const char *name)
{
	struct connection_bound *bound;

	for (bound = daemon->listening.bounds; bound; bound = bound->next) {
		if (strcmp(bound->name, name) == 0) {
			bound->holders++;
			return bound;
		}
	}
	bound = calloc(1, sizeof(*bound));
	if (!bound || !(bound->name = strdup(name))) {
		free(bound);
		return NULL;
	}
	bound->holders = 1;
	bound->next = daemon->listening.bounds;
	daemon->listening.bounds = bound;
	return bound;
}

static struct binding *find(const struct daemon *daemon, const char *text)
{
	for (struct binding *binding = daemon->listening.bindings; binding;
		binding = binding->next) {
		if (!binding->closed && strcmp(binding->text, text) == 0)
			return binding;
	}
	return NULL;
}

/* With what its workers need to listen, so that they take no memory for it. */
static struct binding *binding_new(
	struct daemon *daemon, const struct conf_listener *listener, const char *text)
{
	struct binding *binding = calloc(1, sizeof(*binding));
	unsigned workers = daemon->node.worker_count;

	if (!binding)
		return NULL;
	binding->text = strdup(text);
	binding->sockets = malloc(workers * sizeof(int));
	binding->given = malloc(workers * sizeof(int));
	binding->listeners = calloc(workers, sizeof(*binding->listeners));
	binding->bound = bound_for(daemon, listener->name);
	bool good = binding->text && binding->sockets && binding->given && binding->listeners &&
		    binding->bound;
	for (unsigned i = 0; good && i < workers; i++) {
		binding->sockets[i] = binding->given[i] = -1;
		binding->workers = i + 1;
		binding->listeners[i] = calloc(1, sizeof(struct listener));
		good = binding->listeners[i] != NULL;
	}
	if (good)
		return binding;
	binding_free(daemon, binding);
	errno = ENOMEM;
	return NULL;
}

const char *binding_advice(const struct conf_address *address, int error)
{
	if (error == EADDRINUSE && address->kind == CONF_ADDRESS_UNIX)
		return "; another program listens there (`ss -lxp` shows which): stop it, or "
		       "choose another path";
	if (error == EADDRINUSE)
		return "; another program listens there (`ss -ltnp` shows which): stop it, or "
		       "choose another address or port";
	if (error == EACCES && address->kind == CONF_ADDRESS_INET && address->port < 1024)
		return "; ports below 1024 need root or the capability CAP_NET_BIND_SERVICE, which "
		       "the "
		       "unit for systemd gives";
	if (error == EADDRNOTAVAIL)
		return "; no interface of this machine has that address";
	return "";
}

static bool open_one(struct daemon *daemon, const struct conf *conf,
	const struct conf_listener *listener, const struct conf_address *address)
{
	struct binding *binding = binding_new(daemon, listener, address->text);
	char why[512];
	int error;

	bool is_inherited = handover_has(daemon->inherited, "listener", address->text);
	if (binding && (is_inherited ? adopt(binding, daemon->inherited, address)
				     : open_all(binding, listener, address))) {
		binding->next = daemon->listening.prepared;
		daemon->listening.prepared = binding;
		return true;
	}
	error = errno;
	snprintf(why, sizeof(why), "%s", strerror(error));
	if (address->kind == CONF_ADDRESS_SYSTEMD && errno == ENOENT)
		explain_systemd(address->host, why, sizeof(why));
	log_error("%s:%u: listener %s: can't listen on %s: %s%s",
		CONF_PLACE_ARGS(conf, address->line), listener->name, address->text, why,
		binding_advice(address, error));
	binding_free(daemon, binding);
	return false;
}

bool bindings_are_free(const struct conf *conf, const struct handover *inherited)
{
	bool all = true;

	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		for (size_t j = 0; j < listener->bind_count; j++) {
			if (handover_has(inherited, "listener", listener->binds[j].text) ||
				!is_taken(listener, &listener->binds[j]))
				continue;
			log_error("%s:%u: listener %s: can't listen on %s: %s%s; two sluice "
				  "processes can share it if both have the same state folder",
				CONF_PLACE_ARGS(conf, listener->binds[j].line), listener->name,
				listener->binds[j].text, strerror(EADDRINUSE),
				binding_advice(&listener->binds[j], EADDRINUSE));
			all = false;
		}
	}
	return all;
}

bool bindings_prepare(struct daemon *daemon, const struct conf *conf)
{
	bool all = true;

	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		for (size_t j = 0; j < listener->bind_count; j++) {
			const struct conf_address *address = &listener->binds[j];
			if (!find(daemon, address->text))
				all &= open_one(daemon, conf, listener, address);
			/* With fewer workers than the process before had: nobody may be left to
			 * wait in a socket that none of them serves. */
			while (all && handover_has(daemon->inherited, "listener", address->text))
				all &= open_one(daemon, conf, listener, address);
		}
	}
	if (!all)
		bindings_discard(daemon);
	return all;
}

void bindings_discard(struct daemon *daemon)
{
	free_all(daemon, &daemon->listening.prepared);
}

static bool is_bound(const struct conf *conf, const char *text)
{
	for (size_t i = 0; i < conf->listener_count; i++) {
		for (size_t j = 0; j < conf->listeners[i].bind_count; j++) {
			if (strcmp(conf->listeners[i].binds[j].text, text) == 0)
				return true;
		}
	}
	return false;
}

void bindings_commit(struct daemon *daemon, const struct conf *conf)
{
	pthread_mutex_lock(&daemon->listening.lock);
	while (daemon->listening.prepared) {
		struct binding *binding = daemon->listening.prepared;
		daemon->listening.prepared = binding->next;
		binding->next = daemon->listening.bindings;
		daemon->listening.bindings = binding;
	}
	for (struct binding *binding = daemon->listening.bindings; binding;
		binding = binding->next) {
		if (!binding->closed && !is_bound(conf, binding->text)) {
			binding->closed = true;
			close_sockets(binding);
			remove_path(binding);
		}
	}
	pthread_mutex_unlock(&daemon->listening.lock);
}

bool bindings_give(struct daemon *daemon, struct handover *to)
{
	for (struct binding *binding = daemon->listening.bindings; binding;
		binding = binding->next) {
		for (unsigned i = 0; !binding->closed && i < binding->workers; i++) {
			if (binding->given[i] >= 0 && !handover_add_socket(to, "listener",
							      binding->text, binding->given[i]))
				return false;
		}
	}
	return true;
}

void bindings_hand_over(struct daemon *daemon, const char *address)
{
	for (struct binding *binding = daemon->listening.bindings; binding;
		binding = binding->next) {
		if (binding->closed || strcmp(binding->text, address) != 0)
			continue;
		binding->handed_over = true;
		/* Its file is the new process's. */
		free(binding->unix_path);
		binding->unix_path = NULL;
	}
}

void bindings_take_over(struct daemon *daemon)
{
	for (struct binding *binding = daemon->listening.bindings; binding; binding = binding->next)
		binding->is_borrowed = false;
}

void bindings_remove_paths(struct daemon *daemon)
{
	for (struct binding *binding = daemon->listening.bindings; binding; binding = binding->next)
		remove_path(binding);
}

void bindings_collect(struct daemon *daemon)
{
	struct binding **at = &daemon->listening.bindings;

	pthread_mutex_lock(&daemon->listening.lock);
	while (*at) {
		struct binding *binding = *at;
		/* acquire: pairs with the release in listener_release */
		if (!binding->closed ||
			atomic_load_explicit(&binding->holders, memory_order_acquire) > 0) {
			at = &binding->next;
			continue;
		}
		*at = binding->next;
		binding_free(daemon, binding);
	}
	pthread_mutex_unlock(&daemon->listening.lock);
}

void bindings_free(struct daemon *daemon)
{
	free_all(daemon, &daemon->listening.prepared);
	free_all(daemon, &daemon->listening.bindings);
}
