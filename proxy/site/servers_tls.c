#include "site/servers_tls.h"

#include <stdio.h>

#include "base/log.h"
#include "site/site.h"

#define WHY_BYTES 512

struct tls_client_settings servers_tls_settings(
	const struct conf_tls *tls, const char *name, const char *protocol)
{
	return (struct tls_client_settings){.name = name,
		.ca = tls->ca,
		.crl = tls->crl,
		.certificate = tls->certificate,
		.key = tls->key ? tls->key : tls->certificate,
		.verifies = tls->verifies,
		.tls12 = (tls->versions & CONF_TLS_1_2) != 0,
		.tls13 = (tls->versions & CONF_TLS_1_3) != 0,
		.protocol = protocol};
}

static struct tls_client_settings settings_of_server(
	const struct conf_upstream *conf, const struct conf_server *server)
{
	return servers_tls_settings(&conf->tls, conf_server_tls_name(conf, server),
		conf->protocol == CONF_PROTOCOL_HTTP2 ? "h2" : "http/1.1");
}

struct tls_client *servers_tls_of_store(
	const struct conf_fleet *conf, struct tls_client *before, char *why, size_t size)
{
	struct tls_client_settings settings =
		servers_tls_settings(&conf->tls, conf->tls.name, NULL);

	return tls_client_new(&settings, before, why, size);
}

static struct tls_client *tls_before(const struct site *before, const struct server *server)
{
	const struct server *old = before ? site_server_of(before, server->state) : NULL;

	return old ? old->tls : NULL;
}

/* Each server keeps what it has. False: one has nothing. */
static bool keep_all(struct upstream *upstream, const struct site *before)
{
	bool all = true;

	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		struct tls_client *old = tls_before(before, server);
		if (!conf_server_has_tls(upstream->conf, server->conf))
			continue;
		tls_client_release(server->tls);
		server->tls = old ? tls_client_hold(old) : NULL;
		all &= old != NULL;
	}
	return all;
}

static bool read_all(
	struct upstream *upstream, const struct site *before, char why[static WHY_BYTES])
{
	const struct conf_upstream *conf = upstream->conf;
	const struct tls_client *first = NULL;

	snprintf(why, WHY_BYTES, "no memory");
	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		struct tls_client_settings settings = settings_of_server(conf, server->conf);
		struct tls_client *old = tls_before(before, server);
		if (!conf_server_has_tls(conf, server->conf))
			continue;
		server->tls = first ? tls_client_for(first, settings.name, old)
				    : tls_client_new(&settings, old, why, WHY_BYTES);
		if (!server->tls)
			return false;
		first = server->tls;
	}
	return true;
}

/* Settings of [fleet] that could not be read are the `old` ones. False: there are none. */
static bool keep_old(const struct site *site, struct tls_client **settings, struct tls_client *old,
	const char *whose, const char *why)
{
	log_error("%s: [fleet]: %s%s%s", site->conf->path, why, old ? whose : "",
		old ? " the authorities and certificates from before" : "");
	*settings = old ? tls_client_hold(old) : NULL;
	return old != NULL;
}

static bool prepare_store(struct site *site, const struct site *before)
{
	const struct conf_fleet *conf = &site->conf->fleet;
	struct tls_client *old = before ? before->store_tls : NULL;
	char why[WHY_BYTES];

	if (!conf->store.text || !conf->store.has_tls)
		return true;
	site->store_tls = servers_tls_of_store(conf, old, why, sizeof(why));
	return site->store_tls || keep_old(site, &site->store_tls, old, "; the store keeps", why);
}

/* ---- other nodes ----------------------------------------------------------------------------- */

static struct tls_client *read_links(
	const struct conf_fleet *conf, struct tls_client *before, char why[static WHY_BYTES])
{
	struct tls_client_settings settings = servers_tls_settings(&conf->links, NULL, "http/1.1");

	snprintf(why, WHY_BYTES, "no memory");
	return tls_client_new(&settings, before, why, WHY_BYTES);
}

static bool prepare_links(struct site *site, const struct site *before)
{
	struct tls_client *old = before ? before->links_tls : NULL;
	char why[WHY_BYTES];

	if (!site->conf->fleet.links.certificate)
		return true;
	site->links_tls = read_links(&site->conf->fleet, old, why);
	return site->links_tls ||
	       keep_old(site, &site->links_tls, old, "; connections to other nodes keep", why);
}

void servers_tls_commit_links(const struct site *site, struct tls_client_slot *links)
{
	tls_client_slot_set(links, site->links_tls ? tls_client_hold(site->links_tls) : NULL);
}

void servers_tls_look_at_links(struct site *site, struct tls_client_slot *links)
{
	struct tls_client *old = site->links_tls;
	char why[WHY_BYTES];
	struct tls_client *now = old ? read_links(&site->conf->fleet, old, why) : NULL;

	if (!now)
		return;
	site->links_tls = now;
	tls_client_release(old);
	servers_tls_commit_links(site, links);
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool servers_tls_prepare(struct site *site, const struct site *before)
{
	const struct conf *conf = site->conf;
	char why[WHY_BYTES];
	bool all = prepare_store(site, before);

	all &= prepare_links(site, before);

	for (size_t i = 0; i < conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		if (read_all(upstream, before, why))
			continue;
		bool keeps = keep_all(upstream, before);
		log_error("%s:%u: upstream %s: %s%s", CONF_PLACE_ARGS(conf, upstream->conf->line),
			upstream->conf->name, why,
			keeps ? "; it keeps the authorities and certificates that it had before"
			      : "");
		all &= keeps;
	}
	return all;
}

static bool check_broker(const struct conf *conf, const struct conf_semaphore *semaphore)
{
	struct tls_client_settings settings = servers_tls_settings(&semaphore->tls, NULL, NULL);
	char why[WHY_BYTES];

	if (!semaphore->broker.has_tls)
		return true;
	struct tls_client *client = tls_client_new(&settings, NULL, why, sizeof(why));
	if (!client)
		fprintf(stderr, "%s:%u: semaphore %s: %s\n", CONF_PLACE_ARGS(conf, semaphore->line),
			semaphore->name, why);
	tls_client_release(client);
	return client != NULL;
}

static bool check(const struct conf *conf, const struct conf_upstream *upstream)
{
	char why[WHY_BYTES];

	for (size_t i = 0; i < upstream->server_count; i++) {
		if (!conf_server_has_tls(upstream, &upstream->servers[i]))
			continue;
		struct tls_client_settings settings =
			settings_of_server(upstream, &upstream->servers[i]);
		struct tls_client *client = tls_client_new(&settings, NULL, why, sizeof(why));
		tls_client_release(client);
		if (client)
			return true;
		fprintf(stderr, "%s:%u: upstream %s: %s\n", CONF_PLACE_ARGS(conf, upstream->line),
			upstream->name, why);
		return false;
	}
	return true;
}

static bool check_store(const struct conf *conf)
{
	char why[WHY_BYTES];

	if (!conf->fleet.store.text || !conf->fleet.store.has_tls)
		return true;
	struct tls_client *client = servers_tls_of_store(&conf->fleet, NULL, why, sizeof(why));
	if (!client)
		fprintf(stderr, "%s: [fleet]: %s\n", conf->path, why);
	tls_client_release(client);
	return client != NULL;
}

bool servers_tls_check(const struct conf *conf)
{
	bool all = check_store(conf);

	for (size_t i = 0; i < conf->fleet.semaphores.count; i++)
		all &= check_broker(conf, &conf->fleet.semaphores.items[i]);
	for (size_t i = 0; i < conf->upstream_count; i++)
		all &= check(conf, &conf->upstreams[i]);
	return all;
}
