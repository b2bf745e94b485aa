#include "net/names.h"

#include <event2/dns.h>
#include <event2/util.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
	struct event_base *base;
	struct evdns_base *dns; /* NULL until the first look-up */
	uint64_t timeout_ms;    /* 0: as configured */
};

struct name_lookup {
	struct names *names;
	struct event *begin; /* its callback asks */
	struct evdns_getaddrinfo_request *request;
	void (*found)(void *ctx, const char *why, const struct addrinfo *list);
	void *ctx;
	int family;
	bool cancelled; /* the callback that is still to come only frees it */
	char name[];
};

struct names *names_new(struct event_base *base)
{
	struct names *names = calloc(1, sizeof(*names));

	if (names)
		names->base = base;
	return names;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	if (names->dns)
		evdns_base_free(names->dns, 0);
	free(names);
}

void names_set_timeout(struct names *names, uint64_t timeout_ms)
{
	names->timeout_ms = timeout_ms;
}

static void apply_timeout(struct names *names)
{
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "%llu.%03u",
		(unsigned long long)(names->timeout_ms / 1000),
		(unsigned)(names->timeout_ms % 1000));
	evdns_base_set_option(names->dns, "timeout:", seconds);
}

static bool make_dns(struct names *names)
{
	if (names->dns)
		return true;
	names->dns = evdns_base_new(names->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	if (!names->dns)
		return false;
	/* That it is not there, or names no server, is no failure: /etc/hosts has been read. */
	evdns_base_resolv_conf_parse(names->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
	if (names->timeout_ms > 0)
		apply_timeout(names);
	return true;
}

static void lookup_free(struct name_lookup *lookup)
{
	if (lookup->begin)
		event_free(lookup->begin);
	free(lookup);
}

static void answered(int error, struct evutil_addrinfo *list, void *arg)
{
	struct name_lookup *lookup = arg;

	if (!lookup->cancelled)
		lookup->found(lookup->ctx,
			error  ? evutil_gai_strerror(error)
			: list ? NULL
			       : "it has no address",
			error ? NULL : list);
	lookup_free(lookup);
	if (list)
		evutil_freeaddrinfo(list);
}

static void ask(evutil_socket_t fd, short what, void *arg)
{
	struct name_lookup *lookup = arg;
	struct evutil_addrinfo hints = {.ai_family = lookup->family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = EVUTIL_AI_ADDRCONFIG};

	(void)fd;
	(void)what;
	/* May call back, which frees the look-up, before it returns; then it returns NULL. */
	struct evdns_getaddrinfo_request *request =
		evdns_getaddrinfo(lookup->names->dns, lookup->name, NULL, &hints, answered, lookup);
	if (request)
		lookup->request = request;
}

struct name_lookup *names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx)
{
	return names_look_up_family(names, name, AF_UNSPEC, found, ctx);
}

struct name_lookup *names_look_up_family(struct names *names, const char *name, int family,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx)
{
	size_t bytes = strlen(name) + 1;
	struct name_lookup *lookup = calloc(1, sizeof(*lookup) + bytes);

	if (!lookup || !make_dns(names) ||
		!(lookup->begin = evtimer_new(names->base, ask, lookup))) {
		free(lookup);
		return NULL;
	}
	lookup->names = names;
	lookup->found = found;
	lookup->ctx = ctx;
	lookup->family = family;
	memcpy(lookup->name, name, bytes);
	event_active(lookup->begin, EV_TIMEOUT, 0);
	return lookup;
}

void names_cancel(struct name_lookup *lookup)
{
	if (!lookup->request) {
		lookup_free(lookup);
		return;
	}
	event_free(lookup->begin);
	lookup->begin = NULL;
	lookup->cancelled = true;
	evdns_getaddrinfo_cancel(lookup->request);
}
