/*
 * A site: one configuration snapshot made ready to serve. Workers hold it as long as an exchange of
 * theirs began under it. A reload makes a new one, all of it from the new snapshot, so that no
 * setting can be forgotten; state (places, connections, addresses, the throttles) is
 * in states that all sites share.
 *
 *   site_new (prepare: may fail, changes nothing) --> site_commit (can't fail) --> in force
 */
#ifndef SITE_SITE_H
#define SITE_SITE_H

#include <stdatomic.h>

#include "conf/conf.h"
#include "gate/gate.h"
#include "gate/ratelimit_fields.h"
#include "gate/route.h"
#include "queue/queue.h"
#include "site/lookalikes.h"
#include "upstream/upstream.h"

struct stats;

/* Where one snapshot's routes, limits, plans and upstreams are counted (stats/stats.h): each array
 * is indexed as conf's own. */
struct account_rows {
	unsigned *routes, *limits, *plans, *upstreams;
};

struct site {
	atomic_uint holders;
	uint64_t
		serial; /* counts the sites that came into effect: one in the same memory differs */
	const struct conf *conf;
	struct slice via, request_id_field; /* conf's; empty when off */
	char *via_text;                     /* owned; NULL when off */
	struct slice via_1_1; /* the value for a message of HTTP/1.1: `1.1 sluice`; of via_text */
	enum http_field_id request_id_field_id;
	struct route_table *routes;
	struct lookalikes *lookalikes;
	struct gate *gate;
	struct ratelimit_texts *texts;
	struct upstream **upstreams;   /* by conf_upstream.index */
	struct queue_policy *policies; /* by conf_route.index */
	struct account_rows rows;      /* of the counters */
	struct tls_client *store_tls;  /* settings for the fleet's store; NULL: plain */
	struct tls_client *links_tls;  /* the same towards other nodes */
	/* By the conf's listeners; NULL: plain. And those of a site that is not committed yet: */
	struct certificates **certificates;
	struct tls_server **prepared;
};

/* Takes over the caller's hold on `conf` when it succeeds. The throttles must have the limits of
 * `conf`, or a prepared change that brings them. `serial` is that of the site before, and one more.
 * `fleet` judges by the limits of the fleet; NULL only where there are none.
 * NULL with a line in the error log. */
struct site *site_new(const struct conf *conf, uint64_t serial, struct upstream_states *states,
	struct throttle_table *throttles, struct roster *roster, struct stats *stats,
	struct authority *fleet);
/* The bounds of its upstreams take effect. Main thread. */
void site_commit(struct site *site);
struct site *site_hold(struct site *site);
void site_release(struct site *site);

/* Its upstream of that state, or NULL; its server. */
struct upstream *site_upstream_of(const struct site *site, const struct upstream_state *state);
struct server *site_server_of(const struct site *site, const struct server_state *state);

/* Registers the names of `conf`. False without memory; account_rows_clear is due in either case. */
bool account_rows_fill(struct account_rows *rows, const struct conf *conf, struct stats *stats);
void account_rows_clear(struct account_rows *rows);

#endif
