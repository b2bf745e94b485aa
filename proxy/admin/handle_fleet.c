/* The fleet: its store, and the nodes that share it. */
#include "config.h"

#ifdef HAVE_REDIS

#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "daemon/relay.h"
#include "fleet/fleet.h"

/* Of join.lua's lines: those whose lease has not ended since. */
static json_t *list_nodes(const struct fleet_nodes *nodes)
{
	json_t *list = json_array();
	char *rest = nodes->lines, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *name = strsep(&line, " ");
		uint64_t left_ms = line ? strtoull(line, NULL, 10) : 0;
		if (left_ms <= nodes->age_ms)
			continue;
		json_array_append_new(
			list, json_pack("{s:o, s:I, s:b}", "name", admin_json_text(name),
				      "lease_ms", (json_int_t)(left_ms - nodes->age_ms), "self",
				      strcmp(name, nodes->name) == 0));
	}
	return list;
}

void admin_get_fleet(struct admin_request *request)
{
	struct relay *relay = request->relay;
	const struct conf_fleet *conf = &relay->site->conf->fleet;
	struct fleet_nodes nodes;

	if (!conf->store.text) {
		admin_respond_problem(request, 404, "There is no [fleet].");
		return;
	}
	fleet_look(relay->node.fleet, &nodes);
	admin_respond_json(request, 200,
		json_pack("{s:s, s:s, s:I, s:I, s:s, s:o}", "store", conf->store.text, "node",
			nodes.name, "connected_workers",
			(json_int_t)atomic_load(&relay->node.store_links), "workers",
			(json_int_t)relay->node.worker_count, "store_down",
			conf->store_down == CONF_STORE_DOWN_ADMIT ? "admit" : "refuse", "nodes",
			list_nodes(&nodes)));
	free(nodes.lines);
}

#endif
