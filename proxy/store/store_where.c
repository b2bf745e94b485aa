#include "store/store_where.h"

#include <stdlib.h>
#include <string.h>

#include "net/tls_client.h"

static const char *password_of(const struct conf_fleet *conf)
{
	return conf->password ? conf->password : conf->store.password;
}

static bool copy(char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	return *to || !text;
}

static bool copy_hosts(struct store_where *where, const struct conf_store *store)
{
	where->hosts = calloc(store->count, sizeof(*where->hosts));
	if (!where->hosts)
		return false;
	for (size_t i = 0; i < store->count; i++) {
		where->host_count = i + 1;
		where->hosts[i].port = store->addresses[i].port;
		if (!copy(&where->hosts[i].name, store->addresses[i].host))
			return false;
	}
	return true;
}

struct store_where *store_where_new(const struct conf_fleet *conf, struct tls_client *tls)
{
	struct store_where *where = calloc(1, sizeof(*where));

	if (!where)
		return NULL;
	where->database = conf->store.database;
	where->tls = tls ? tls_client_hold(tls) : NULL;
	where->tls_has_name = conf->tls.name != NULL;
	where->is_cluster = conf->cluster;
	where->timeout_ms = conf->store_timeout_ms;
	where->quorum = conf->store_quorum;
	where->quorum_ms = (unsigned)conf->store_timeout_ms;
	if (!copy_hosts(where, &conf->store) || !copy(&where->user, conf->store.user) ||
		!copy(&where->password, password_of(conf)) ||
		!copy(&where->sentinel, conf->sentinel) ||
		!copy(&where->sentinel_user, conf->sentinel_user) ||
		!copy(&where->sentinel_password, conf->sentinel_password)) {
		store_where_free(where);
		return NULL;
	}
	return where;
}

void store_where_free(struct store_where *where)
{
	if (!where)
		return;
	for (size_t i = 0; i < where->host_count; i++)
		free(where->hosts[i].name);
	free(where->hosts);
	free(where->user);
	free(where->password);
	free(where->sentinel);
	free(where->sentinel_user);
	free(where->sentinel_password);
	tls_client_release(where->tls);
	free(where);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool store_where_is(const struct store_where *where, const struct conf_fleet *conf,
	const struct tls_client *tls)
{
	const struct conf_store *store = &conf->store;
	bool is = store->text && where->host_count == store->count && where->tls == tls;

	for (size_t i = 0; is && i < store->count; i++)
		is = same(where->hosts[i].name, store->addresses[i].host) &&
		     where->hosts[i].port == store->addresses[i].port;
	return is && where->is_cluster == conf->cluster && where->database == store->database &&
	       where->quorum == conf->store_quorum &&
	       (where->quorum == 0 || where->quorum_ms == conf->store_timeout_ms) &&
	       same(where->user, store->user) && same(where->password, password_of(conf)) &&
	       same(where->sentinel, conf->sentinel) &&
	       same(where->sentinel_user, conf->sentinel_user) &&
	       same(where->sentinel_password, conf->sentinel_password);
}
