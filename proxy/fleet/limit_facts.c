#include "fleet/limit_facts.h"

#include <stdlib.h>
#include <string.h>

#include "fleet/ladder.h"
#include "fleet/question.h"
#include "fleet/way.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker.h"

void limit_facts_take_site(struct limits_known *known, const struct conf *conf)
{
	unsigned sites = known->sites + 1;

	limit_facts_free(known);
	known->sites = sites;
	known->all = calloc(conf->limit_count + 1, sizeof(*known->all));
	known->count = known->all ? conf->limit_count : 0;
}

void limit_facts_free(struct limits_known *known)
{
	free(known->all);
	*known = (struct limits_known){0};
}

static __attribute__((noinline)) const struct limit_facts *fill(
	struct fleet_worker *fleet, struct limit_facts *facts, const struct conf_limit *limit)
{
	*facts = (struct limit_facts){
		.rule = rule_of(limit),
		.name = fleet_name_of(fleet, limit->name),
		.name_hash = limit_hash_name(limit->name),
		.way = way_for(limit),
		.down = ladder_down(site_part(fleet->worker)->use->site->conf, limit),
	};
	if (!facts->name)
		return NULL;
	facts->limit = limit;
	return facts;
}

const struct limit_facts *limit_facts_of(struct fleet_worker *fleet, const struct conf_limit *limit)
{
	struct limits_known *known = &fleet->limits;
	struct limit_facts *facts =
		limit->index < known->count ? &known->all[limit->index] : &known->other;

	if (facts->limit == limit && facts != &known->other)
		return facts;
	return fill(fleet, facts, limit);
}

const struct limit_facts *limit_facts_named(struct fleet_worker *fleet, const char *name)
{
	const struct conf *conf = site_part(fleet->worker)->use->site->conf;

	for (size_t i = 0; i < conf->limit_count; i++) {
		const struct conf_limit *limit = &conf->limits[i];
		if (limit->of_fleet && strcmp(limit->name, name) == 0)
			return limit_facts_of(fleet, limit);
	}
	return NULL;
}
