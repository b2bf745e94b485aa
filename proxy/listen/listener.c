#include "listen/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "listen/accepted.h"
#include "listen/give_way.h"
#include "listen/listener_places.h"
#include "site/certificates.h"
#include "site/site_use.h"
#include "site/spare.h"
#include "worker/worker.h"

/* Connections taken in one go, so that those there are get their turn. */
#define ACCEPT_BATCH 64
/* A retiring listener closes when it has found no handshake twice, so far apart: one that was over
 * just before the first look has reached the backlog by then. */
#define QUIET_MS 100
/* How often it looks while there are handshakes. Each look walks the system's connections. */
#define LOOK_MS 250
/* How long no client may have connected if the state of handshakes is unknown: the kernel repeats
 * its part of one after 1 s. */
#define BLIND_QUIET_MS 1500
/* How long it waits at most. The kernel repeats its part of a handshake after 1 s and after 3 s; a
 * client that answers none of these has gone, or never was (a SYN flood). */
#define RETIRE_MAX_MS 4000

static void retry(struct deadline *deadline)
{
	listener_start(CONTAINER_OF(deadline, struct listener, retry));
}

static void look_again(struct deadline *deadline)
{
	struct listener *listener = CONTAINER_OF(deadline, struct listener, again);

	if (listener->retry.at_ms == DEADLINE_NEVER)
		listener_start(listener);
}

/* Level-triggered readiness would spin: waits for a close of ours, or so long. */
static void pause_accepting(struct listener *listener, uint64_t for_ms)
{
	uint64_t now_ms = worker_now_ms(listener->worker);

	acceptor_stop(&listener->acceptor);
	deadline_set(&listener->retry, now_ms + for_ms, now_ms);
}

/* Connections to servers that are idle give way first. False: there are none. */
static bool accepts_soon(struct listener *listener)
{
	if (spare_own(listener->worker))
		return true;
	if (!spare_ask(listener->worker, &listener->spare))
		return false;
	pause_accepting(listener, SPARE_LOOK_MS);
	return true;
}

static void accept_failed(struct listener *listener, int error)
{
	bool lacks_descriptor = error == EMFILE || error == ENFILE;

	if (lacks_descriptor && accepts_soon(listener))
		return;
	if (lacks_descriptor || error == ENOBUFS || error == ENOMEM) {
		log_warn("listener %s: %s; not accepting for now", listener->conf->name,
			strerror(error));
		pause_accepting(listener, LISTENER_RETRY_MS);
		listener_set_deaf(listener, true);
		give_way(listener, &node_listening(listener->worker->node)->descriptors);
	} else if (error != EAGAIN && error != EWOULDBLOCK && error != ECONNABORTED &&
		   error != EINTR && error != EPROTO) {
		log_warn("listener %s: accept: %s", listener->conf->name, strerror(error));
	}
}

/* One of the workers that a client wakes at a shared socket makes room for it. False: another one
 * does, or has, and the client was accepted. */
static bool is_to_make_room(struct listener *listener)
{
	struct binding *binding = listener->binding;
	unsigned none = 0, self = listener->worker->index + 1;

	if (!binding->is_shared)
		return true;
	/* seq_cst: a worker that accepts does so before it stores 0, we look behind that */
	if (!atomic_compare_exchange_strong(&binding->making_way, &none, self) && none != self)
		return false;
	if (acceptor_has_client(&listener->acceptor))
		return true;
	atomic_store(&binding->making_way, 0);
	return false;
}

/* The one that room was made for has come; the next one's room is any worker's to make. */
static void end_making_room(struct listener *listener)
{
	if (listener->binding->is_shared)
		atomic_store(&listener->binding->making_way, 0);
}

/* A connection that carries nothing makes room, which lets this listener accept again. */
static void make_room(struct listener *listener, struct connection_bound *full)
{
	uint64_t now_ms = worker_now_ms(listener->worker);

	if (!is_to_make_room(listener) || !give_way(listener, full))
		deadline_set(&listener->again, now_ms + GIVE_WAY_IDLE_MS, now_ms);
}

/* It begins by its PROXY header, by its handshake, or as a client. */
static void begin_connection(struct listener *listener, struct accepted *accepted)
{
	bool has_header = listener->conf->proxy_protocol != CONF_PROXY_PROTOCOL_OFF;

	if (!has_header && (!accepted_is_admitted(listener, accepted) ||
				   !accepted_begin_tls(listener, accepted)))
		return;
	if (has_header || stream_export_has_handshake(&accepted->stream))
		handshake_begin(listener, accepted);
	else
		accepted_take_plain(listener, accepted);
}

/* At least one is known to wait, or perhaps none. */
static void accept_some(struct listener *listener, bool one_waits)
{
	struct acceptor *acceptor = &listener->acceptor;
	struct connection_bound *full;
	struct accepted accepted;

	for (int i = 0; i < ACCEPT_BATCH && acceptor->accepting; i++) {
		full = listener_take_places(listener);
		if (full && one_waits)
			make_room(listener, full);
		else if (full)
			listener_start(listener); /* which tells whether another one waits */
		if (full)
			return;
		one_waits = false;
		int error = acceptor_take(
			acceptor, &accepted.stream, &accepted.peer, &accepted.peer_len);
		listener->is_empty = error != 0;
		if (error != 0) {
			listener_give_places(listener);
			accept_failed(listener, error);
			return;
		}
		accepted.entry = NULL;
		listener->spare = (struct spare_question){0};
		end_making_room(listener);
		listener->connections++;
		listener->came_ms = worker_now_ms(listener->worker);
		begin_connection(listener, &accepted);
	}
}

static void on_ready(struct acceptor *acceptor)
{
	accept_some(CONTAINER_OF(acceptor, struct listener, acceptor), true);
}

static void listener_close(struct listener *listener)
{
	if (listener->closed)
		return;
	acceptor_close(&listener->acceptor);
	deadline_clear(&listener->retry);
	listener->closed = true;
	listener_set_deaf(listener, false);
	end_making_room(listener); /* it may have been this one's */
	listener_release(listener);
}

/* Is nobody on the way any more, as far as the system shows it? */
static bool is_quiet(struct listener *listener, uint64_t now_ms)
{
	enum handshakes found = acceptor_handshakes(&listener->acceptor);

	if (found == HANDSHAKES_UNKNOWN && listener->quiet_ms != BLIND_QUIET_MS) {
		log_debug("listener %s: can't read the state of handshakes: %s",
			listener->conf->name, strerror(errno));
		listener->quiet_ms = BLIND_QUIET_MS;
	}
	if (found == HANDSHAKES_UNDER_WAY || listener->had_handshakes)
		listener->came_ms = now_ms;
	listener->had_handshakes = found == HANDSHAKES_UNDER_WAY;
	return now_ms >= listener->came_ms + listener->quiet_ms;
}

static void on_quiet(struct deadline *deadline)
{
	struct listener *listener = CONTAINER_OF(deadline, struct listener, quiet);
	struct worker *worker = listener->worker;
	uint64_t now_ms = worker_now_ms(worker);
	bool quiet = is_quiet(listener, now_ms);

	/* After the look: all that had come by then are accepted before it closes. */
	listener->is_empty = false;
	if (listener->acceptor.accepting)
		accept_some(listener, false);
	/* Clients that wait for a descriptor or a place keep waiting. */
	if (listener->acceptor.accepting && listener->is_empty &&
		(quiet || now_ms >= listener->retire_max_ms)) {
		if (listener->had_handshakes)
			log_info("listener %s: %s is closed although clients have not finished "
				 "their handshakes",
				listener->conf->name, listener->binding->text);
		listener_close(listener);
		loop_wake(&worker->loop); /* it may have been the last to wait for */
		return;
	}
	uint64_t next_ms = now_ms + (listener->had_handshakes ? LOOK_MS : QUIET_MS);
	if (next_ms > listener->retire_max_ms && now_ms < listener->retire_max_ms)
		next_ms = listener->retire_max_ms;
	deadline_set(deadline, next_ms, now_ms);
}

/* A drain leaves those that come late half of its time to be served. */
static uint64_t retire_max_ms(const struct worker *worker)
{
	uint64_t half_ms = site_part(worker)->use->site->conf->shutdown_timeout_ms / 2;

	return worker->draining && half_ms < RETIRE_MAX_MS ? half_ms : RETIRE_MAX_MS;
}

static void listener_retire(struct listener *listener)
{
	const struct binding *binding = listener->binding;
	uint64_t now_ms = worker_now_ms(listener->worker);
	uint64_t max_ms = now_ms + retire_max_ms(listener->worker);

	if (listener->closed)
		return;
	if (strncmp(binding->text, "systemd:", 8) == 0) {
		listener_close(listener); /* systemd has it, too, with all that waits */
		return;
	}
	if (listener->retiring) {
		if (max_ms < listener->retire_max_ms)
			listener->retire_max_ms = max_ms; /* a drain began meanwhile */
		return;
	}
	/* The path of a unix socket is gone already, and it knows no handshake. */
	bool is_unix = strncmp(binding->text, "unix:", 5) == 0;

	listener->retiring = true;
	listener->retire_max_ms = max_ms;
	listener->had_handshakes = !is_unix;
	listener->quiet_ms = is_unix ? 0 : QUIET_MS;
	if (!is_unix && !acceptor_keep_out(&listener->acceptor))
		log_debug("listener %s: can't stop new connections: %s", listener->conf->name,
			strerror(errno));
	deadline_set(&listener->quiet, now_ms, now_ms);
}

static struct listener *find(struct worker *worker, const struct binding *binding)
{
	for (struct listener *l = listen_part(worker)->listeners; l; l = l->next) {
		if (l->binding == binding && !l->closed && !l->retiring)
			return l;
	}
	return NULL;
}

static void set_conf(struct listener *listener, const struct conf_listener *conf)
{
	struct site_use *old = listener->use;

	listener->conf = conf;
	listener->use = site_use_hold(site_part(listener->worker)->use);
	const struct site *site = listener->use->site;
	listener->certificates = site->certificates[conf - site->conf->listeners];
	if (old)
		site_use_release(old);
}

/* The main thread has prepared all that it takes. */
static void listener_open(struct worker *worker, struct binding *binding,
	const struct conf_listener *conf, const struct protocol *const *protocols)
{
	struct listener *listener = binding->listeners[worker->index];

	binding->listeners[worker->index] = NULL;
	listener->worker = worker;
	listener->binding = binding;
	listener->protocols = protocols;
	/* relaxed: with bindings_lock, by which bindings_collect sees it */
	atomic_fetch_add_explicit(&binding->holders, 1, memory_order_relaxed);
	acceptor_open(
		&listener->acceptor, &worker->loop, binding->sockets[worker->index], on_ready);
	binding->sockets[worker->index] = -1;
	set_conf(listener, conf);
	deadline_init(&listener->retry, worker->loop.base, retry);
	deadline_init(&listener->again, worker->loop.base, look_again);
	deadline_init(&listener->quiet, worker->loop.base, on_quiet);
	handshakes_init(listener);
	listener->next = listen_part(worker)->listeners;
	listen_part(worker)->listeners = listener;
	listener_start(listener);
}

/* A socket that listens takes another backlog. That of systemd's is systemd's. */
static void set_backlog(const struct listener *listener)
{
	if (strncmp(listener->binding->text, "systemd:", 8) == 0)
		return;
	int error = acceptor_set_backlog(&listener->acceptor, (int)listener->conf->backlog);
	if (error != 0)
		log_warn("listener %s: backlog: %s", listener->conf->name, strerror(error));
}

static const struct conf_listener *conf_of(const struct conf *conf, const char *text)
{
	for (size_t i = 0; i < conf->listener_count; i++) {
		for (size_t j = 0; j < conf->listeners[i].bind_count; j++) {
			if (strcmp(conf->listeners[i].binds[j].text, text) == 0)
				return &conf->listeners[i];
		}
	}
	return NULL;
}

void listeners_update(struct worker *worker, const struct protocol *const *protocols)
{
	const struct conf *conf = site_part(worker)->use->site->conf;
	struct listener *next;

	for (struct listener *l = listen_part(worker)->listeners; l; l = next) {
		const struct conf_listener *now = conf_of(conf, l->binding->text);
		next = l->next;
		if (!now || l->closed || l->retiring) {
			listener_retire(l);
			continue;
		}
		set_conf(l, now);
		set_backlog(l);
	}
	if (worker->draining)
		return;
	pthread_mutex_lock(&node_listening(worker->node)->lock);
	for (struct binding *b = node_listening(worker->node)->bindings; b; b = b->next) {
		const struct conf_listener *now = b->closed ? NULL : conf_of(conf, b->text);
		if (now && !find(worker, b) && b->sockets[worker->index] >= 0)
			listener_open(worker, b, now, protocols);
	}
	pthread_mutex_unlock(&node_listening(worker->node)->lock);
}

void listeners_retire(struct worker *worker)
{
	struct listener *next;

	for (struct listener *l = listen_part(worker)->listeners; l; l = next) {
		next = l->next;
		handshakes_drain(l);
		listener_retire(l);
	}
	/* The node's last client may have left here before this worker drained: others that drain
	 * already, and sleep until there is none, have not been woken by that. */
	if (atomic_load(&worker->node->clients) == 0)
		node_wake_workers(worker->node);
}

void listeners_hand_over(struct worker *worker)
{
	struct listener *next;

	for (struct listener *l = listen_part(worker)->listeners; l; l = next) {
		next = l->next;
		if (l->binding->handed_over)
			listener_close(l);
	}
}

bool listeners_are_closed(const struct worker *worker)
{
	for (const struct listener *l = listen_part(worker)->listeners; l; l = l->next) {
		if (!l->closed || l->handshakes.count > 0)
			return false;
	}
	return true;
}

void listeners_close(struct worker *worker)
{
	struct listener *next;

	for (struct listener *l = listen_part(worker)->listeners; l; l = next) {
		next = l->next;
		bool is_last = l->closed && l->connections == l->handshakes.count;
		handshakes_end(l);
		if (!is_last) /* else it is freed */
			listener_close(l);
	}
}

void listeners_resume(struct worker *worker)
{
	for (struct listener *l = listen_part(worker)->listeners; l; l = l->next) {
		if (l->retry.at_ms == DEADLINE_NEVER)
			listener_start(l);
	}
}

void listeners_free(struct worker *worker)
{
	while (listen_part(worker)->listeners) {
		struct listener *listener = listen_part(worker)->listeners;
		listener->connections = 0;
		if (listener->closed)
			listener_release(listener);
		else
			listener_close(listener);
	}
}
