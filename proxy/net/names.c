#include "net/names.h"

#include <event2/dns.h>
#include <event2/util.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Identifies a version of a file. Zeroed: there is none. */
struct file_mark {
	dev_t device;
	ino_t number;
	off_t bytes;
	struct timespec changed;
};

/* The results of reading the files once. */
struct sources {
	struct sources *next; /* older ones, that look-ups still use */
	struct evdns_base *dns;
	struct file_mark servers, hosts;
	bool is_whole; /* else something could not be read, or no socket was to be had */
	unsigned used; /* by look-ups */
	struct names *names;
	struct event *unused; /* its callback frees older ones that no look-up uses */
};

struct names {
	struct event_base *base;
	struct sources *sources; /* the newest first; NULL until the first look-up */
	const char *servers, *hosts;
	uint64_t timeout_ms; /* 0: as configured */
};

struct name_lookup {
	struct names *names;
	struct sources *sources; /* NULL until it asks */
	struct event *begin;     /* its callback asks */
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

	if (!names)
		return NULL;
	names->base = base;
	names_set_files(names, "/etc/resolv.conf", "/etc/hosts");
	return names;
}

void names_set_timeout(struct names *names, uint64_t timeout_ms)
{
	names->timeout_ms = timeout_ms;
}

void names_set_files(struct names *names, const char *servers, const char *hosts)
{
	names->servers = servers;
	names->hosts = hosts;
}

/* ---- what the files say ---------------------------------------------------------------------- */

static void apply_timeout(const struct names *names, struct evdns_base *dns)
{
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "%llu.%03u",
		(unsigned long long)(names->timeout_ms / 1000),
		(unsigned)(names->timeout_ms % 1000));
	evdns_base_set_option(dns, "timeout:", seconds);
}

static struct file_mark mark_of(const char *path)
{
	struct stat stat_;

	if (stat(path, &stat_) != 0)
		return (struct file_mark){0};
	return (struct file_mark){stat_.st_dev, stat_.st_ino, stat_.st_size, stat_.st_ctim};
}

static bool is_same(const struct file_mark *a, const struct file_mark *b)
{
	return a->device == b->device && a->number == b->number && a->bytes == b->bytes &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static bool is_there(const struct file_mark *mark)
{
	return mark->number != 0;
}

/* A file that is not there, or names no server, is no failure: libevent has defaults then. */
static bool read_files(const struct names *names, const struct sources *sources)
{
	enum { NO_SERVER_NAMED = 6 }; /* of evdns_base_resolv_conf_parse */
	bool has_hosts = evdns_base_load_hosts(sources->dns, names->hosts) == 0;
	int error = evdns_base_resolv_conf_parse(
		sources->dns, DNS_OPTIONS_ALL & ~DNS_OPTION_HOSTSFILE, names->servers);

	return (has_hosts || !is_there(&sources->hosts)) &&
	       (error == 0 || error == NO_SERVER_NAMED || !is_there(&sources->servers)) &&
	       evdns_base_count_nameservers(sources->dns) > 0;
}

static void sources_free(struct sources *sources)
{
	if (sources->unused)
		event_free(sources->unused);
	if (sources->dns)
		evdns_base_free(sources->dns, 0);
	free(sources);
}

static void on_unused(evutil_socket_t fd, short what, void *arg)
{
	struct sources *sources = arg;
	struct sources **at = &sources->names->sources;

	(void)fd;
	(void)what;
	if (sources->used > 0 || *at == sources)
		return;
	while (*at != sources)
		at = &(*at)->next;
	*at = sources->next;
	sources_free(sources);
}

/* Later: where one half of a question has no answer, libevent still has a callback to make of it
 * when it has reported the other half. */
static void free_if_unused(struct sources *sources)
{
	static const struct timeval next_turn = {0};

	if (sources->used == 0)
		event_add(sources->unused, &next_turn);
}

/* NULL without memory. */
static struct sources *sources_new(struct names *names)
{
	struct sources *sources = calloc(1, sizeof(*sources));

	if (!sources)
		return NULL;
	sources->names = names;
	sources->unused = evtimer_new(names->base, on_unused, sources);
	sources->dns = evdns_base_new(names->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	if (!sources->unused || !sources->dns) {
		sources_free(sources);
		return NULL;
	}
	/* Before they are read: what changes meanwhile is read again. */
	sources->servers = mark_of(names->servers);
	sources->hosts = mark_of(names->hosts);
	sources->is_whole = read_files(names, sources);
	if (names->timeout_ms > 0)
		apply_timeout(names, sources->dns);
	return sources;
}

static bool is_current(const struct names *names)
{
	const struct sources *sources = names->sources;
	struct file_mark servers, hosts;

	if (!sources || !sources->is_whole)
		return false;
	servers = mark_of(names->servers);
	hosts = mark_of(names->hosts);
	return is_same(&sources->servers, &servers) && is_same(&sources->hosts, &hosts);
}

/* Reads the files again where they have changed, or could not be read: a process runs for months,
 * and may begin before its network does. NULL without memory. */
static struct sources *read_sources(struct names *names)
{
	struct sources *sources;

	if (is_current(names))
		return names->sources;
	sources = sources_new(names);
	if (!sources)
		return NULL;
	if (names->sources)
		free_if_unused(names->sources);
	sources->next = names->sources;
	names->sources = sources;
	return sources;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	while (names->sources) {
		struct sources *sources = names->sources;
		names->sources = sources->next;
		sources_free(sources);
	}
	free(names);
}

/* ---- look-ups -------------------------------------------------------------------------------- */

static void lookup_free(struct name_lookup *lookup)
{
	if (lookup->begin)
		event_free(lookup->begin);
	free(lookup);
}

/* The look-up is over. */
static void report(struct name_lookup *lookup, const char *why, const struct addrinfo *list)
{
	if (lookup->sources) {
		lookup->sources->used--;
		free_if_unused(lookup->sources);
	}
	if (!lookup->cancelled)
		lookup->found(lookup->ctx, why, list);
	lookup_free(lookup);
}

static void answered(int error, struct evutil_addrinfo *list, void *arg)
{
	struct name_lookup *lookup = arg;

	report(lookup,
		error  ? evutil_gai_strerror(error)
		: list ? NULL
		       : "it has no address",
		error ? NULL : list);
	if (list)
		evutil_freeaddrinfo(list);
}

/* A question to no server at all would wait for ever. */
static const char *failure_of(const struct sources *sources)
{
	if (!sources)
		return "no memory";
	return evdns_base_count_nameservers(sources->dns) > 0
		       ? NULL
		       : "there is no socket for a name server";
}

static void ask(evutil_socket_t fd, short what, void *arg)
{
	struct name_lookup *lookup = arg;
	struct evutil_addrinfo hints = {.ai_family = lookup->family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = EVUTIL_AI_ADDRCONFIG};

	(void)fd;
	(void)what;
	lookup->sources = read_sources(lookup->names);
	const char *failure = failure_of(lookup->sources);
	if (lookup->sources)
		lookup->sources->used++;
	if (failure) {
		report(lookup, failure, NULL);
		return;
	}
	/* May call back, which frees the look-up, before it returns; then it returns NULL. */
	struct evdns_getaddrinfo_request *request = evdns_getaddrinfo(
		lookup->sources->dns, lookup->name, NULL, &hints, answered, lookup);
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

	if (!lookup || !(lookup->begin = evtimer_new(names->base, ask, lookup))) {
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
