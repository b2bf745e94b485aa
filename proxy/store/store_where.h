/* Where the store is and how to be let in: a copy of the configuration's values, as the
 * configuration may end before its connections. */
#ifndef STORE_STORE_WHERE_H
#define STORE_STORE_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"

struct store_host {
	char *name; /* or address */
	uint16_t port;
};

struct store_where {
	struct store_host *hosts;
	size_t host_count;
	char *user, *password; /* of the store; NULL: none */
	uint32_t database;
	struct tls_client *tls; /* its settings; held. NULL: without TLS */
	bool tls_has_name;
	struct stream_loop *streams;
	bool is_cluster;            /* the hosts are nodes of a Redis Cluster */
	uint64_t timeout_ms;        /* of a verdict */
	unsigned quorum, quorum_ms; /* replicas that must have each call, and in which time */
	char *sentinel; /* name of the primary at the hosts, which are Sentinels; NULL: they are not
			 */
	char *sentinel_user, *sentinel_password;
};

/* `tls` (NULL: none) has the settings of the conf's TLS. NULL without memory. */
struct store_where *store_where_new(const struct conf_fleet *conf, struct tls_client *tls);
/* NULL is ignored. */
void store_where_free(struct store_where *where);
/* Do `conf` and `tls` have the same? */
bool store_where_is(const struct store_where *where, const struct conf_fleet *conf,
	const struct tls_client *tls);

#endif
