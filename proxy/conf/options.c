/* The sections, and looking things up in the table. The rows are in options_*.c. */
#include "conf/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"

/* clang-format off */
const struct option_section option_sections[SECTIONS] = {
	{SECTION_SLUICE, "sluice", false, true, 0, options_sluice, &options_sluice_count,
		"The process as a whole."},
	{SECTION_ADMIN, "admin", false, true, 0, options_admin, &options_admin_count,
		"The operator's interface and its addresses; without this section there is none."},
	{SECTION_LISTENER, "listener", true, false, sizeof(struct conf_listener),
		options_listener, &options_listener_count,
		"Addresses at which clients connect, and bounds on their requests."},
	{SECTION_UPSTREAM, "upstream", true, false, sizeof(struct conf_upstream),
		options_upstream, &options_upstream_count,
		"A group of servers to which requests are forwarded."},
	{SECTION_SERVER, "server", false, false, sizeof(struct conf_server),
		options_server, &options_server_count,
		"Options that may follow the address on a server line, as key=value without blanks."},
	{SECTION_MATCH, "match", true, false, sizeof(struct conf_match),
		options_match, &options_match_count,
		"A named condition on a request, for the when of limits, plans and routes, and for "
		"allow and deny."},
	{SECTION_LIMIT, "limit", true, false, sizeof(struct conf_limit),
		options_limit, &options_limit_count,
		"A quota: how much, per period, by which key."},
	{SECTION_PLANS, "plans", false, true, 0, options_plans, &options_plans_count,
		"How a caller's plan is determined; required if there is any plan."},
	{SECTION_PLAN, "plan", true, false, sizeof(struct conf_plan),
		options_plan, &options_plan_count,
		"A set of limits and a lane for callers, by their keys. "
		"The plan named default applies to callers on no list."},
	{SECTION_FLEET, "fleet", false, true, 0, options_fleet, &options_fleet_count,
		"How several nodes act as one; required by limits with scope = fleet."},
	{SECTION_SEMAPHORE, "semaphore", true, false, sizeof(struct conf_semaphore),
		options_semaphore, &options_semaphore_count,
		"A number of slots kept by a RabbitMQ for all nodes."},
	{SECTION_ROUTE, "route", true, false, sizeof(struct conf_route),
		options_route, &options_route_count,
		"Which requests get which upstream, limits and ordering."},
};
/* clang-format on */

const struct option_section *option_section_find(struct slice kind)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (i != SECTION_SERVER && slice_equal(kind, slice_of(option_sections[i].kind)))
			return &option_sections[i];
	return NULL;
}

const struct option *option_find(const struct option_section *section, struct slice name)
{
	for (size_t i = 0; i < *section->option_count; i++)
		if (slice_equal(name, slice_of(section->options[i].name)))
			return &section->options[i];
	return NULL;
}

void option_bound_text(const struct option *option, uint64_t bound, char *out, size_t size)
{
	static const struct unit {
		const char *unit;
		uint64_t scale;
	} durations[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}},
	  sizes[] = {{"G", 1 << 30}, {"M", 1 << 20}, {"k", 1 << 10}, {"", 1}, {"", 1}},
	  counts[] = {{"G", 1000000000}, {"M", 1000000}, {"k", 1000}, {"", 1}, {"", 1}};
	const struct unit *units = option->flags & OPTION_DURATION ? durations
				   : option->flags & OPTION_SIZE   ? sizes
								   : counts;
	size_t i = 0;

	while (i < 4 && (bound < units[i].scale || bound % units[i].scale != 0))
		i++;
	snprintf(out, size, "%" PRIu64 "%s", bound / units[i].scale, bound ? units[i].unit : "");
}
