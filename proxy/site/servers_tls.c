#include "site/servers_tls.h"

#include <stdio.h>

#include "base/log.h"
#include "net/tls_client.h"
#include "site/site.h"

#define WHY_BYTES 512

static struct tls_client_settings settings_of(
	const struct conf_upstream *conf, const struct conf_server *server)
{
	const struct conf_tls *tls = &conf->tls;

	return (struct tls_client_settings){.name = conf_server_tls_name(conf, server),
		.ca = tls->ca,
		.crl = tls->crl,
		.certificate = tls->certificate,
		.key = tls->key ? tls->key : tls->certificate,
		.verifies = tls->verifies,
		.tls12 = (tls->versions & CONF_TLS_1_2) != 0,
		.tls13 = (tls->versions & CONF_TLS_1_3) != 0,
		.protocol = "http/1.1"};
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
		struct tls_client_settings settings = settings_of(conf, server->conf);
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

bool servers_tls_prepare(struct site *site, const struct site *before)
{
	const struct conf *conf = site->conf;
	char why[WHY_BYTES];
	bool all = true;

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

static bool check(const struct conf *conf, const struct conf_upstream *upstream)
{
	char why[WHY_BYTES];

	for (size_t i = 0; i < upstream->server_count; i++) {
		if (!conf_server_has_tls(upstream, &upstream->servers[i]))
			continue;
		struct tls_client_settings settings = settings_of(upstream, &upstream->servers[i]);
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

bool servers_tls_check(const struct conf *conf)
{
	bool all = true;

	for (size_t i = 0; i < conf->upstream_count; i++)
		all &= check(conf, &conf->upstreams[i]);
	return all;
}
