#include "daemon/resolve.h"

#include <event2/dns.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/log.h"

struct lookup {
	struct lookup *next;
	struct resolver *resolver;
	struct server *server;
	struct event *timer;
	struct evdns_getaddrinfo_request *request;
	bool answered;
	unsigned failed; /* times in a row, of which the first has a line */
	bool fresh;      /* prepared, not committed */
	bool cancelled;  /* the callback that is still to come only frees it */
};

struct resolver {
	struct event_base *base;
	struct evdns_base *dns;
	void (*known)(void *ctx);
	void *ctx;
	struct site *site; /* in force; NULL: none yet */
	struct lookup *lookups;
	unsigned unanswered; /* fresh ones */
};

struct resolver *resolver_new(struct event_base *base, void (*known)(void *ctx), void *ctx)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		return NULL;
	resolver->base = base;
	resolver->known = known;
	resolver->ctx = ctx;
	return resolver;
}

static void take_addresses(struct lookup *lookup, const struct evutil_addrinfo *list)
{
	struct server_address addresses[SERVER_ADDRESSES];
	unsigned count = 0;

	for (const struct evutil_addrinfo *a = list; a && count < SERVER_ADDRESSES;
		a = a->ai_next) {
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
	if (count > 0)
		server_state_set_addresses(lookup->server->state, addresses, count);
}

static void note_answer(struct lookup *lookup)
{
	struct resolver *resolver = lookup->resolver;

	if (lookup->fresh && !lookup->answered && --resolver->unanswered == 0)
		resolver->known(resolver->ctx);
	lookup->answered = true;
}

/* One line for a run of them. */
static void note_failure(struct lookup *lookup, int error)
{
	const struct server *server = lookup->server;

	if (lookup->failed++ > 0)
		return;
	/* The count is this thread's to change: the lock is for the workers. */
	log_warn("upstream %s: server %s: %s; %s", server->upstream->conf->name,
		server->conf->address.text, evutil_gai_strerror(error),
		server->state->address_count ? "its addresses stay"
					     : "it has no address until it is found");
}

static void take_answer(struct lookup *lookup, const struct evutil_addrinfo *list)
{
	const struct server *server = lookup->server;

	if (lookup->failed > 0)
		log_info("upstream %s: server %s: its name is found again after %u look-ups that "
			 "failed",
			server->upstream->conf->name, server->conf->address.text, lookup->failed);
	lookup->failed = 0;
	take_addresses(lookup, list);
}

static void answered(int error, struct evutil_addrinfo *list, void *arg)
{
	struct lookup *lookup = arg;

	lookup->request = NULL;
	if (lookup->cancelled) {
		free(lookup);
	} else {
		const struct conf_upstream *conf = lookup->server->upstream->conf;
		struct timeval interval = {.tv_sec = (time_t)(conf->resolve_interval_ms / 1000),
			.tv_usec = (suseconds_t)(conf->resolve_interval_ms % 1000) * 1000};
		if (error)
			note_failure(lookup, error);
		else
			take_answer(lookup, list);
		event_add(lookup->timer, &interval);
		note_answer(lookup);
	}
	if (list)
		evutil_freeaddrinfo(list);
}

static void look_up(evutil_socket_t fd, short what, void *arg)
{
	struct lookup *lookup = arg;
	struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = EVUTIL_AI_ADDRCONFIG};

	(void)fd;
	(void)what;
	/* May call back before it returns; then it returns NULL. */
	struct evdns_getaddrinfo_request *request = evdns_getaddrinfo(lookup->resolver->dns,
		lookup->server->conf->address.host, NULL, &hints, answered, lookup);
	if (request)
		lookup->request = request;
}

static void lookup_end(struct lookup *lookup)
{
	if (lookup->fresh && !lookup->answered)
		lookup->resolver->unanswered--;
	event_free(lookup->timer);
	lookup->timer = NULL;
	if (lookup->request) {
		lookup->cancelled = true;
		evdns_getaddrinfo_cancel(lookup->request);
	} else {
		free(lookup);
	}
}

static bool is_looked_up(const struct resolver *resolver, const struct server_state *state)
{
	for (const struct lookup *l = resolver->lookups; l; l = l->next) {
		if (l->server->state == state)
			return true;
	}
	return false;
}

static bool make_dns(struct resolver *resolver)
{
	if (!resolver->dns)
		resolver->dns = evdns_base_new(resolver->base,
			EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	if (!resolver->dns)
		resolver->dns = evdns_base_new(resolver->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	return resolver->dns != NULL;
}

static bool watch_server(struct resolver *resolver, struct server *server)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup || !make_dns(resolver) ||
		!(lookup->timer = evtimer_new(resolver->base, look_up, lookup))) {
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
	if (resolver->dns)
		evdns_base_free(resolver->dns, 0);
	free(resolver);
}
