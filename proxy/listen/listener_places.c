#include "listen/listener_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "listen/client_entry.h"
#include "listen/listener.h"
#include "site/site_use.h"
#include "worker/worker.h"

void listener_set_deaf(struct listener *listener, bool is_deaf)
{
	atomic_uint *deaf = &node_listening(listener->worker->node)->deaf;

	if (is_deaf && !listener->is_deaf)
		atomic_fetch_add(deaf, 1);
	else if (!is_deaf && listener->is_deaf)
		atomic_fetch_sub(deaf, 1);
	listener->is_deaf = is_deaf;
}

void listener_start(struct listener *listener)
{
	uint64_t now_ms = worker_now_ms(listener->worker);

	if (acceptor_start(&listener->acceptor)) {
		listener_set_deaf(listener, false);
		return;
	}
	log_warn("listener %s: can't wait for clients: %s; trying again in %d ms",
		listener->conf->name, strerror(errno), LISTENER_RETRY_MS);
	listener_set_deaf(listener, true);
	deadline_set(&listener->retry, now_ms + LISTENER_RETRY_MS, now_ms);
}

/* Takes a place within `max` (0: no bound), or stops accepting until one is free. */
static bool take_place(struct listener *listener, struct connection_bound *bound, uint32_t max)
{
	/* seq_cst on both sides: either we see the place that was given back, or who gave it
	 * back sees that we wait */
	if (atomic_fetch_add(&bound->connections, 1) < max || max == 0)
		return true;
	atomic_fetch_sub(&bound->connections, 1);
	acceptor_stop(&listener->acceptor);
	atomic_store(&bound->waiting, true);
	if (atomic_load(&bound->connections) < max)
		listener_start(listener);
	return false;
}

static void give_place(struct listener *listener, struct connection_bound *bound)
{
	atomic_fetch_sub(&bound->connections, 1);
	if (!atomic_load(&bound->waiting) || !atomic_exchange(&bound->waiting, false))
		return;
	node_command_workers(listener->worker->node, WORKER_ACCEPT);
}

/* 0: no bound but that of the descriptors. By default, one of several listeners leaves the others a
 * tenth of what these allow: a flood at one of them does not keep out the clients of another, and
 * not the fleet's nodes. */
static uint32_t max_connections(const struct listener *listener)
{
	uint32_t max = listener->conf->max_connections;
	unsigned clients_max = node_listening(listener->worker->node)->clients_max;

	if (max != CONF_CONNECTIONS_AUTO)
		return max;
	return listener->use->site->conf->listener_count > 1 ? clients_max - clients_max / 10 : 0;
}

struct connection_bound *listener_take_places(struct listener *listener)
{
	struct listening *listening = node_listening(listener->worker->node);
	struct connection_bound *bound = listener->binding->bound;

	if (!take_place(listener, bound, max_connections(listener)))
		return bound;
	if (take_place(listener, &listening->descriptors, listening->clients_max))
		return NULL;
	give_place(listener, bound);
	if (!listening->reported_descriptors &&
		!atomic_exchange(&listening->reported_descriptors, true))
		log_warn("%u clients are connected, as many as the limit of %u descriptors allows: "
			 "others wait in the backlog until one has closed or is idle",
			listening->clients_max, listening->descriptor_limit);
	return &listening->descriptors;
}

void listener_give_places(struct listener *listener)
{
	give_place(listener, listener->binding->bound);
	give_place(listener, &node_listening(listener->worker->node)->descriptors);
}

void listener_release(struct listener *listener)
{
	struct worker *worker = listener->worker;

	if (!listener->closed || listener->connections > 0)
		return;
	for (struct listener **at = &listen_part(worker)->listeners; *at; at = &(*at)->next) {
		if (*at == listener) {
			*at = listener->next;
			break;
		}
	}
	deadline_end(&listener->retry);
	deadline_end(&listener->again);
	deadline_end(&listener->quiet);
	deadline_end(&listener->handshakes.deadline);
	site_use_release(listener->use);
	/* release: pairs with the acquire in bindings_collect; it is not looked at any more */
	atomic_fetch_sub_explicit(&listener->binding->holders, 1, memory_order_release);
	free(listener);
}

void listener_connection_closed(struct listener *listener, struct client_entry *entry)
{
	client_entry_end(listener->worker, entry);
	listener->connections--;
	listener_give_places(listener);
	if (listener->retry.at_ms != DEADLINE_NEVER)
		listener_start(listener); /* a descriptor is free again */
	listener_release(listener);
}

void listener_client_gone(struct listener *listener, struct client_entry *entry)
{
	struct worker *worker = listener->worker;

	if (atomic_fetch_sub(&worker->node->clients, 1) == 1 && worker->draining)
		node_wake_workers(worker->node);
	listener_connection_closed(listener, entry);
}

const struct protocol *listener_protocol(const struct listener *listener, const char *name)
{
	for (const struct protocol *const *p = listener->protocols; *p; p++) {
		if ((listener->conf->protocols & (*p)->bit) &&
			(!name || strcmp((*p)->name, name) == 0))
			return *p;
	}
	return name ? NULL : listener->protocols[0];
}
