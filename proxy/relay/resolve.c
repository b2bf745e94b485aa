#include "relay/resolve.h"

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
	bool cancelled; /* the callback that is still to come only frees it */
};

struct resolver {
	struct event_base *base;
	struct evdns_base *dns;
	struct site *site;
	struct lookup *lookups;
	unsigned unanswered;
};

struct resolver *resolver_new(struct event_base *base)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		return NULL;
	resolver->base = base;
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
		server_set_addresses(lookup->server, addresses, count);
}

static void answered(int error, struct evutil_addrinfo *list, void *arg)
{
	struct lookup *lookup = arg;
	struct resolver *resolver = lookup->resolver;

	lookup->request = NULL;
	if (lookup->cancelled) {
		free(lookup);
	} else {
		const struct conf_upstream *conf = lookup->server->upstream->conf;
		struct timeval interval = {.tv_sec = (time_t)(conf->resolve_interval_ms / 1000),
			.tv_usec = (suseconds_t)(conf->resolve_interval_ms % 1000) * 1000};
		if (error)
			/* The count is this thread's to change: the lock is for the workers. */
			log_warn("upstream %s: server %s: %s; %s", conf->name,
				lookup->server->conf->address.text, evutil_gai_strerror(error),
				lookup->server->address_count
					? "its addresses stay"
					: "it has no address until it is found");
		else
			take_addresses(lookup, list);
		if (!lookup->answered && --resolver->unanswered == 0)
			event_base_loopbreak(resolver->base); /* for resolver_wait */
		lookup->answered = true;
		event_add(lookup->timer, &interval);
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

static void forget(struct resolver *resolver)
{
	while (resolver->lookups) {
		struct lookup *lookup = resolver->lookups;
		resolver->lookups = lookup->next;
		event_free(lookup->timer);
		lookup->timer = NULL;
		if (lookup->request) {
			lookup->cancelled = true;
			evdns_getaddrinfo_cancel(lookup->request);
		} else {
			free(lookup);
		}
	}
	resolver->unanswered = 0;
	if (resolver->site)
		site_release(resolver->site);
	resolver->site = NULL;
}

static void watch_server(struct resolver *resolver, struct server *server)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!resolver->dns) {
		resolver->dns = evdns_base_new(resolver->base,
			EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
		if (!resolver->dns)
			resolver->dns =
				evdns_base_new(resolver->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	}
	if (!lookup || !resolver->dns ||
		!(lookup->timer = evtimer_new(resolver->base, look_up, lookup))) {
		log_error("upstream %s: %s can't be looked up", server->upstream->conf->name,
			server->conf->address.text);
		free(lookup);
		return;
	}
	lookup->resolver = resolver;
	lookup->server = server;
	lookup->next = resolver->lookups;
	resolver->lookups = lookup;
	resolver->unanswered++;
	event_active(lookup->timer, EV_TIMEOUT, 0);
}

void resolver_watch(struct resolver *resolver, struct site *site)
{
	forget(resolver);
	resolver->site = site_hold(site);
	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			if (upstream->servers[j].conf->address.kind == CONF_ADDRESS_NAME)
				watch_server(resolver, &upstream->servers[j]);
		}
	}
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
	forget(resolver);
	if (resolver->dns)
		evdns_base_free(resolver->dns, 0);
	free(resolver);
}
