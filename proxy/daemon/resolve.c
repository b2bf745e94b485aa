#include "daemon/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/log.h"
#include "net/names.h"

/* Of a look-up; more than a server has, so that those that it has are not lost by their order. */
#define ADDRESSES_READ 64

struct lookup {
	struct lookup *next;
	struct resolver *resolver;
	struct server *server;
	struct event *timer;
	struct name_lookup *request;
	bool answered;
	unsigned failed; /* times in a row, of which the first has a line */
	bool fresh;      /* prepared, not committed */
};

struct resolver {
	struct event_base *base;
	struct names *names;
	const struct resolver_calls *calls;
	void *ctx;
	struct site *site; /* in force; NULL: none yet */
	struct lookup *lookups;
	unsigned unanswered; /* fresh ones */
};

struct resolver *resolver_new(
	struct event_base *base, const struct resolver_calls *calls, void *ctx)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		return NULL;
	resolver->names = names_new(base);
	if (!resolver->names) {
		free(resolver);
		return NULL;
	}
	resolver->base = base;
	resolver->calls = calls;
	resolver->ctx = ctx;
	return resolver;
}

static void take_addresses(struct lookup *lookup, const struct addrinfo *list)
{
	struct server_address addresses[ADDRESSES_READ];
	unsigned count = 0;

	for (const struct addrinfo *a = list; a && count < ADDRESSES_READ; a = a->ai_next) {
		struct server_address *address = &addresses[count];
		uint16_t port = htons(lookup->server->conf->address.port);
		if (a->ai_addrlen > sizeof(address->socket))
			continue;
		memset(address, 0, sizeof(*address));
		memcpy(&address->socket, a->ai_addr, a->ai_addrlen);
		address->len = (socklen_t)a->ai_addrlen;
		if (a->ai_family == AF_INET)
			((struct sockaddr_in *)&address->socket)->sin_port = port;
		else if (a->ai_family == AF_INET6)
			((struct sockaddr_in6 *)&address->socket)->sin6_port = port;
		else
			continue;
		count++;
	}
	if (count > 0 && server_addresses_set(&lookup->server->state->addresses, addresses, count))
		lookup->resolver->calls->left(lookup->resolver->ctx);
}

static void note_answer(struct lookup *lookup)
{
	struct resolver *resolver = lookup->resolver;

	if (lookup->fresh && !lookup->answered && --resolver->unanswered == 0)
		resolver->calls->known(resolver->ctx);
	lookup->answered = true;
}

/* One line for a run of them. */
static void note_failure(struct lookup *lookup, const char *why)
{
	const struct server *server = lookup->server;

	if (lookup->failed++ > 0)
		return;
	log_warn("upstream %s: server %s: %s; %s", server->upstream->conf->name,
		server->conf->address.text, why,
		server_addresses_count(&server->state->addresses)
			? "keeping its addresses"
			: "it has no address until its name resolves");
}

static void take_answer(struct lookup *lookup, const struct addrinfo *list)
{
	const struct server *server = lookup->server;

	if (lookup->failed > 0)
		log_info("upstream %s: server %s: its name resolves again after %u failed look-ups",
			server->upstream->conf->name, server->conf->address.text, lookup->failed);
	lookup->failed = 0;
	take_addresses(lookup, list);
}

static void ask_again_later(struct lookup *lookup)
{
	uint64_t interval_ms = lookup->server->upstream->conf->resolve_interval_ms;
	struct timeval interval = {.tv_sec = (time_t)(interval_ms / 1000),
		.tv_usec = (suseconds_t)(interval_ms % 1000) * 1000};

	if (event_add(lookup->timer, &interval) != 0)
		log_error("upstream %s: server %s: no memory: its name is looked up again at the "
			  "next reload",
			lookup->server->upstream->conf->name, lookup->server->conf->address.text);
}

static void answered(void *ctx, const char *why, const struct addrinfo *list)
{
	struct lookup *lookup = ctx;

	lookup->request = NULL;
	if (why)
		note_failure(lookup, why);
	else
		take_answer(lookup, list);
	ask_again_later(lookup);
	note_answer(lookup);
}

static void look_up(evutil_socket_t fd, short what, void *arg)
{
	struct lookup *lookup = arg;

	(void)fd;
	(void)what;
	lookup->request = names_look_up(
		lookup->resolver->names, lookup->server->conf->address.host, answered, lookup);
	if (!lookup->request)
		answered(lookup, strerror(ENOMEM), NULL);
}

static void lookup_end(struct lookup *lookup)
{
	if (lookup->fresh && !lookup->answered)
		lookup->resolver->unanswered--;
	event_free(lookup->timer);
	if (lookup->request)
		names_cancel(lookup->request);
	free(lookup);
}

static bool is_looked_up(const struct resolver *resolver, const struct server_state *state)
{
	for (const struct lookup *l = resolver->lookups; l; l = l->next) {
		if (l->server->state == state)
			return true;
	}
	return false;
}

static bool watch_server(struct resolver *resolver, struct server *server)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup || !(lookup->timer = evtimer_new(resolver->base, look_up, lookup))) {
		log_error("upstream %s: %s can't be looked up", server->upstream->conf->name,
			server->conf->address.text);
		free(lookup);
		return false;
	}
	lookup->resolver = resolver;
	lookup->server = server;
	lookup->fresh = true;
	lookup->next = resolver->lookups;
	resolver->lookups = lookup;
	resolver->unanswered++;
	event_active(lookup->timer, EV_TIMEOUT, 0);
	return true;
}

bool resolver_prepare(struct resolver *resolver, struct site *site)
{
	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			struct server *server = &upstream->servers[j];
			if (server->conf->address.kind == CONF_ADDRESS_NAME &&
				!is_looked_up(resolver, server->state) &&
				!watch_server(resolver, server))
				return false;
		}
	}
	return true;
}

void resolver_discard(struct resolver *resolver)
{
	struct lookup **at = &resolver->lookups;

	while (*at) {
		struct lookup *lookup = *at;
		if (!lookup->fresh) {
			at = &lookup->next;
			continue;
		}
		*at = lookup->next;
		lookup_end(lookup);
	}
}

void resolver_commit(struct resolver *resolver, struct site *site)
{
	struct lookup **at = &resolver->lookups;

	while (*at) {
		struct lookup *lookup = *at;
		lookup->server = site ? site_server_of(site, lookup->server->state) : NULL;
		if (lookup->fresh && !lookup->answered)
			resolver->unanswered--;
		if (lookup->server && !lookup->fresh && !lookup->request)
			event_active(lookup->timer, EV_TIMEOUT, 0);
		lookup->fresh = false;
		if (lookup->server) {
			at = &lookup->next;
		} else {
			*at = lookup->next;
			lookup_end(lookup);
		}
	}
	if (resolver->site)
		site_release(resolver->site);
	resolver->site = site ? site_hold(site) : NULL;
}

bool resolver_is_waiting(const struct resolver *resolver)
{
	return resolver->unanswered > 0;
}

void resolver_wait(struct resolver *resolver, unsigned timeout_ms)
{
	struct timeval timeout = {
		.tv_sec = timeout_ms / 1000, .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};

	if (resolver->unanswered == 0)
		return;
	event_base_loopexit(resolver->base, &timeout);
	event_base_dispatch(resolver->base);
}

void resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return;
	resolver_commit(resolver, NULL);
	names_free(resolver->names);
	free(resolver);
}
