#include "site/certificates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/tls_server.h"
#include "site/site.h"

#define WHY_BYTES 512

static struct tls_server *read_listener(const struct conf_listener *listener,
	const char *const *protocols, const struct tls_server *before, char why[static WHY_BYTES])
{
	const struct conf_text_list *keys = &listener->certificate_keys;
	struct tls_pair *pairs = calloc(listener->certificates.count, sizeof(*pairs));

	snprintf(why, WHY_BYTES, "no memory");
	if (!pairs)
		return NULL;
	for (size_t i = 0; i < listener->certificates.count; i++) {
		pairs[i].certificate = listener->certificates.items[i];
		pairs[i].key = keys->count > 0 ? keys->items[i] : pairs[i].certificate;
	}
	struct tls_settings settings = {.pairs = pairs,
		.pair_count = listener->certificates.count,
		.tls12 = (listener->tls_versions & CONF_TLS_1_2) != 0,
		.tls13 = (listener->tls_versions & CONF_TLS_1_3) != 0,
		.ciphers = listener->tls_ciphers,
		.protocols = protocols};
	struct tls_server *server = tls_server_new(&settings, before, why, WHY_BYTES);
	free(pairs);
	return server;
}

static struct tls_server *of_name(const struct site *site, const char *name)
{
	for (size_t i = 0; site && i < site->conf->listener_count; i++) {
		if (strcmp(site->conf->listeners[i].name, name) == 0)
			return site->tls[i];
	}
	return NULL;
}

/* Fills servers[i] for each listener. `report` gets a line for each that can't be read. */
static bool read_all(const struct conf *conf, const struct site *before,
	const char *const *protocols, struct tls_server **servers, void (*report)(const char *line))
{
	char why[WHY_BYTES], line[2 * WHY_BYTES];
	bool all = true;

	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		if (listener->certificates.count == 0)
			continue;
		struct tls_server *old = of_name(before, listener->name);
		servers[i] = read_listener(listener, protocols, old, why);
		if (servers[i])
			continue;
		snprintf(line, sizeof(line), "%s:%u: listener %s: %s%s",
			CONF_PLACE_ARGS(conf, listener->line), listener->name, why,
			old ? "; it keeps the certificates that it had before" : "");
		report(line);
		if (old)
			servers[i] = tls_server_hold(old);
		all &= old != NULL;
	}
	return all;
}

static void log_line_of(const char *line)
{
	log_error("%s", line);
}

bool certificates_prepare(
	struct site *site, const struct site *before, const char *const *protocols)
{
	return read_all(site->conf, before, protocols, site->tls, log_line_of);
}

static void print_line(const char *line)
{
	fprintf(stderr, "%s\n", line);
}

bool certificates_check(const struct conf *conf)
{
	static const char *const none[] = {NULL};
	struct site site = {
		.conf = conf, .tls = calloc(conf->listener_count + 1, sizeof(site.tls[0]))};
	bool all = site.tls && read_all(conf, NULL, none, site.tls, print_line);

	certificates_release(&site);
	return all;
}

void certificates_release(struct site *site)
{
	for (size_t i = 0; site->tls && i < site->conf->listener_count; i++)
		tls_server_release(site->tls[i]);
	free(site->tls);
	site->tls = NULL;
}
