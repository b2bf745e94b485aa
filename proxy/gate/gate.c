#include "gate/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "conf/throttle_limit.h"
#include "gate/gate_internal.h"

static int make_routes(struct gate *gate)
{
	const struct conf *conf = gate->conf;

	gate->access = calloc(conf->route_count + 1, sizeof(struct access_list *));
	gate->session_salt = calloc(conf->route_count + 1, sizeof(*gate->session_salt));
	if (!gate->access || !gate->session_salt)
		return ENOMEM;
	for (size_t i = 0; i < conf->route_count; i++) {
		const struct conf_route *route = &conf->routes[i];
		gate->session_salt[i] =
			throttle_hash(&gate->seed, route->name, strlen(route->name));
		gate->access[i] = access_list_new(route);
		if (!gate->access[i] && errno != 0)
			return errno;
	}
	return 0;
}

static int find_numbers(struct gate *gate)
{
	const struct conf *conf = gate->conf;

	gate->numbers = calloc(conf->limit_count + 1, sizeof(*gate->numbers));
	if (!gate->numbers)
		return ENOMEM;
	for (size_t i = 0; i < conf->limit_count; i++) {
		int number = throttle_table_number(gate->throttles, conf->limits[i].name);
		if (number < 0)
			return ENOENT;
		gate->numbers[i] = (uint32_t)number;
	}
	return 0;
}

/* All nodes whose keys at the store begin alike have it. It is no secret, and need be none: 128
 * bits of two callers do not meet by chance, and the store has its own seed for its tables. */
static struct throttle_seed make_shared_seed(const char *prefix)
{
	unsigned char digest[DIGEST_BYTES];
	struct throttle_seed seed;

	digest_make(slice_of(prefix), digest);
	memcpy(&seed, digest, sizeof(seed));
	return seed;
}

struct gate *gate_new(const struct conf *conf, struct throttle_table *throttles)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	if (!gate)
		return NULL;
	gate->conf = conf;
	gate->throttles = throttles;
	gate->seed = throttle_table_seed(throttles);
	if (conf->fleet.prefix)
		gate->shared_seed = make_shared_seed(conf->fleet.prefix);
	gate->plans = plan_table_new(conf);
	gate->matches = match_table_new(conf);
	for (size_t i = 0; i < conf->plan_count; i++)
		gate->has_plan_conditions |= conf_when_is_set(&conf->plans[i].when);
	int error = gate->plans && gate->matches ? limit_sets_init(&gate->sets, conf, throttles)
						 : ENOMEM;
	if (error == 0)
		error = find_numbers(gate);
	if (error == 0)
		error = make_routes(gate);
	if (error == 0)
		return gate;
	gate_free(gate);
	errno = error;
	return NULL;
}

void gate_free(struct gate *gate)
{
	if (!gate)
		return;
	for (size_t i = 0; gate->access && i < gate->conf->route_count; i++)
		access_list_free(gate->access[i]);
	free(gate->access);
	free(gate->roster_plans);
	free(gate->session_salt);
	free(gate->numbers);
	limit_sets_free(&gate->sets);
	match_table_free(gate->matches);
	plan_table_free(gate->plans);
	free(gate);
}

bool gate_use_roster(struct gate *gate, struct roster *roster)
{
	const struct conf *conf = gate->conf;
	uint32_t count = 0;

	for (size_t i = 0; i < conf->plan_count; i++) {
		uint32_t number = roster_plan_number(roster, conf->plans[i].name);
		if (number == 0)
			return false;
		count = number > count ? number : count;
	}
	gate->roster_plans = calloc(count + 1, sizeof(*gate->roster_plans));
	if (!gate->roster_plans)
		return false;
	for (size_t i = 0; i < conf->plan_count; i++)
		gate->roster_plans[roster_plan_number(roster, conf->plans[i].name) - 1] =
			&conf->plans[i];
	gate->roster_plan_count = count;
	gate->roster = roster;
	return true;
}

bool gate_use_authority(
	struct gate *gate, const struct conf_limit *limit, struct authority *authority)
{
	return limit_sets_use(&gate->sets, limit, authority);
}

struct slice gate_challenge(const struct gate *gate)
{
	const struct conf_key *key = gate->conf->plans_key;

	for (size_t i = 0; key && i < key->alternative_count; i++) {
		if (key->alternatives[i].parts[0].is_credentials)
			return SLICE("Bearer");
	}
	return SLICE("ApiKey");
}

const struct conf_plan *gate_listed_plan(const struct gate *gate, struct slice key)
{
	return plan_find(gate->plans, key);
}

const struct match_table *gate_matches(const struct gate *gate)
{
	return gate->matches;
}

uint32_t gate_limit_number(const struct gate *gate, const struct conf_limit *limit)
{
	return gate->numbers[limit->index];
}

bool gate_find_shared_caller(const struct gate *gate, const struct conf_limit *limit,
	struct slice text, struct throttle_key *caller)
{
	return identity_hash_text(limit->key, text, &gate->shared_seed, caller);
}

bool gate_find_caller(const struct gate *gate, const struct conf_limit *limit, struct slice text,
	struct throttle_key *caller, uint32_t *number)
{
	int found = throttle_table_find(gate->throttles, limit->name);

	if (found < 0)
		return false;
	*number = (uint32_t)found;
	return identity_hash_text(limit->key, text, &gate->seed, caller);
}

struct throttle_limit *gate_throttle_limits(const struct conf *conf, uint64_t guard_ns)
{
	struct throttle_limit *limits = calloc(conf->limit_count + 1, sizeof(*limits));

	for (size_t i = 0; limits && i < conf->limit_count; i++) {
		if (!conf_throttle_limit(&conf->limits[i], guard_ns, &limits[i])) {
			free(limits);
			errno = ENAMETOOLONG;
			return NULL;
		}
	}
	return limits;
}
