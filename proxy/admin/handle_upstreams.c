/* Upstreams and their servers. */
#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "base/clock.h"
#include "relay/relay.h"

static json_t *server_of(struct server *server, uint64_t now_ms)
{
	return json_pack("{s:o, s:b, s:b, s:I, s:I, s:I}", "address",
		admin_json_text(server->conf->address.text), "up", server_may_serve(server, now_ms),
		"failed_checks", atomic_load(&server->state->unhealthy), "in_flight",
		(json_int_t)atomic_load(&server->state->in_flight), "failures_in_a_row",
		(json_int_t)atomic_load(&server->state->fails), "weight",
		(json_int_t)server->conf->weight);
}

static json_t *upstream_of(const struct relay *relay, size_t index)
{
	const struct upstream *upstream = relay->site->upstreams[index];
	uint64_t slots[STATS_UPSTREAM_SLOTS], now_ms = clock_monotonic_ms();
	json_t *servers = json_array();

	for (size_t i = 0; i < upstream->server_count; i++)
		json_array_append_new(servers, server_of(&upstream->servers[i], now_ms));
	stats_sum(relay->stats, STATS_UPSTREAM, relay->site->rows.upstreams[index], slots);
	return json_pack("{s:s, s:I, s:I, s:o}", "name", upstream->conf->name, "responses",
		(json_int_t)slots[STATS_UPSTREAM_REQUESTS], "failures",
		(json_int_t)slots[STATS_UPSTREAM_FAILURES], "servers", servers);
}

void admin_get_upstreams(struct admin_request *request)
{
	const struct relay *relay = request->relay;
	json_t *list = json_array();

	for (size_t i = 0; i < relay->site->conf->upstream_count; i++)
		json_array_append_new(list, upstream_of(relay, i));
	admin_respond_json(request, 200, json_pack("{s:o}", "upstreams", list));
}
