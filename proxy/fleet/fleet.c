#include "fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "fleet/fleet_calls.h"
#include "fleet/hand.h"
#include "fleet/health.h"
#include "fleet/ladder.h"
#include "fleet/split.h"
#include "store/store_server.h"

/* Callers with a lease at a time; memory is taken as they come. */
#define HANDS 131072

struct fleet {
	struct authority authority;
	struct throttle_table *throttles;
	struct members members;
	struct hands hands;
	struct shares shares;
	struct ladder ladder;
	struct health health;
	struct trouble trouble;
};

struct authority *fleet_new(struct throttle_table *throttles)
{
	struct fleet *fleet = calloc(1, sizeof(*fleet));

	if (!fleet)
		return NULL;
	fleet->authority.calls = &fleet_calls;
	fleet->authority.timeout_ms = AUTHORITY_TIMEOUT_MS;
	fleet->throttles = throttles;
	bool has_hands = hands_init(&fleet->hands, HANDS);
	members_init(&fleet->members);
	shares_init(&fleet->shares);
	health_init(&fleet->health);
	trouble_init(&fleet->trouble);
	if (!ladder_init(&fleet->ladder) || !has_hands) {
		fleet_free(&fleet->authority);
		return NULL;
	}
	return &fleet->authority;
}

void fleet_free(struct authority *authority)
{
	if (!authority)
		return;
	struct fleet *fleet = CONTAINER_OF(authority, struct fleet, authority);
	members_end(&fleet->members);
	hands_end(&fleet->hands);
	shares_end(&fleet->shares);
	ladder_end(&fleet->ladder);
	health_end(&fleet->health);
	trouble_end(&fleet->trouble);
	free(fleet);
}

struct throttle_table *fleet_throttles(const struct authority *authority)
{
	const char *at = (const char *)authority - offsetof(struct fleet, authority);

	return ((const struct fleet *)(const void *)at)->throttles;
}

struct health *fleet_health(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->health;
}

struct trouble *fleet_trouble(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->trouble;
}

struct ladder *fleet_ladder(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->ladder;
}

const struct ladder *fleet_ladder_of(const struct authority *authority)
{
	const char *at = (const char *)authority - offsetof(struct fleet, authority);

	return &((const struct fleet *)(const void *)at)->ladder;
}

struct debts *fleet_debts(struct authority *authority)
{
	return &fleet_ladder(authority)->debts;
}

struct hands *fleet_hands(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->hands;
}

struct shares *fleet_shares(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->shares;
}

struct members *fleet_members(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->members;
}

void fleet_look(struct authority *authority, struct fleet_nodes *nodes)
{
	struct members *members = fleet_members(authority);

	pthread_mutex_lock(&members->lock);
	memcpy(nodes->name, members->name, sizeof(nodes->name));
	nodes->lines = members->lines ? strdup(members->lines) : NULL;
	nodes->primaries = members->primaries ? strdup(members->primaries) : NULL;
	nodes->age_ms = (clock_monotonic_ns() - members->answered_ns) / CLOCK_NS_PER_MS;
	pthread_mutex_unlock(&members->lock);
}
