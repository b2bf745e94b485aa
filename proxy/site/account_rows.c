#include "site/account_rows.h"

#include <stdlib.h>

#include "conf/conf.h"
#include "stats/stats.h"

bool account_rows_fill(struct account_rows *rows, const struct conf *conf, struct stats *stats)
{
	rows->routes = calloc(conf->route_count + 1, sizeof(unsigned));
	rows->limits = calloc(conf->limit_count + 1, sizeof(unsigned));
	rows->plans = calloc(conf->plan_count + 1, sizeof(unsigned));
	rows->upstreams = calloc(conf->upstream_count + 1, sizeof(unsigned));
	if (!rows->routes || !rows->limits || !rows->plans || !rows->upstreams)
		return false;
	for (size_t i = 0; i < conf->route_count; i++)
		rows->routes[i] = stats_register(stats, STATS_ROUTE, conf->routes[i].name);
	for (size_t i = 0; i < conf->limit_count; i++)
		rows->limits[i] = stats_register(stats, STATS_LIMIT, conf->limits[i].name);
	for (size_t i = 0; i < conf->plan_count; i++)
		rows->plans[i] = stats_register(stats, STATS_PLAN, conf->plans[i].name);
	for (size_t i = 0; i < conf->upstream_count; i++)
		rows->upstreams[i] = stats_register(stats, STATS_UPSTREAM, conf->upstreams[i].name);
	return true;
}

void account_rows_clear(struct account_rows *rows)
{
	free(rows->routes);
	free(rows->limits);
	free(rows->plans);
	free(rows->upstreams);
	*rows = (struct account_rows){0};
}
