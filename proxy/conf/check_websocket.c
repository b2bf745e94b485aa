/* Checks of a route's WebSockets after the whole file has been read. */
#include "config.h"

#include <string.h>

#include "conf/build.h"
#include "http/method.h"

static bool has_websocket(const struct conf_text_list *upgrades)
{
	for (size_t i = 0; i < upgrades->count; i++)
		if (strcmp(upgrades->items[i], "websocket") == 0)
			return true;
	return false;
}

static bool names_content_type(const struct setting *setting)
{
	struct slice rest = slice_of(setting->text), name;
	const char *colon = memchr(rest.at, ':', rest.len);

	if (setting->option->type == &type_field && colon)
		rest.len = (size_t)(colon - rest.at);
	while (slice_next_element(&rest, &name))
		if (slice_equal_nocase(slice_trim(name), SLICE("Content-Type")) ||
			slice_equal_nocase(slice_trim(name), SLICE("Accept")))
			return true;
	return false;
}

/* The type of its requests is what a backend knows a gateway by. */
static void refuse_content_types(struct build *build, const struct instance *instance)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		if (strncmp(setting->option->name, "request_header_", 15) == 0 &&
			names_content_type(setting))
			build_fail(build, instance, setting->line,
				"%s: the gateway sets Content-Type and Accept of its requests; "
				"expected another field",
				setting->option->name);
}

/* A node that forwards a request cannot tell a held response from a slow one. */
static void warn_of_held_turns(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;
	const struct setting *hold = instance_setting(instance, "grip_hold");

	if (hold && route->holds_responses && route->sessions.of_fleet &&
		route->sessions.ordering == CONF_ORDERING_STRICT)
		build_warn(build, instance, hold->line,
			"grip_hold: with session_scope = fleet and ordering = strict, a held "
			"response delays its client's other requests at a node that forwards "
			"them; expected ordering = writes");
}

void check_websocket(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;
	const struct conf_websocket *websocket = &route->websocket;
	const struct setting *mode = instance_setting(instance, "websocket");
	const struct setting *method = instance_setting(instance, "method");
	const struct setting *notice = instance_setting(instance, "message_notice");

#ifndef HAVE_WEBSOCKET
	if (route->holds_responses)
		build_fail(build, instance, instance_setting(instance, "grip_hold")->line,
			"grip_hold: this sluice was built without WebSockets; expected off, or a "
			"build with libwslay");
#endif
	warn_of_held_turns(build, instance);
	if (websocket->mode == CONF_WEBSOCKET_TUNNEL)
		return;
	if (mode && !has_websocket(&route->upgrades))
		build_fail(build, instance, mode->line,
			"websocket: has no effect, as upgrade does not list websocket; expected "
			"upgrade = websocket");
	if (websocket->mode == CONF_WEBSOCKET_GATEWAY)
		refuse_content_types(build, instance);
	if (method && route->methods != 0 && !(route->methods & 1ULL << HTTP_METHOD_GET))
		build_fail(build, instance, method->line,
			"method: no WebSocket can be opened, as handshakes are GET requests; "
			"expected GET among the methods");
	if (notice && websocket->on_exceed != CONF_MESSAGE_DROP)
		build_fail(build, instance, notice->line,
			"message_notice: no message is dropped; expected on_message_exceed = drop "
			"with it");
}

void check_max_sockets(struct build *build, const struct instance *instance)
{
	const struct setting *setting = instance_setting(instance, "max_sockets");
	const struct conf_route *route = instance->object;
	const struct conf_limit *limit = route->websocket.max_sockets;

	if (setting && limit && route->websocket.mode != CONF_WEBSOCKET_TUNNEL &&
		limit->algorithm != CONF_LIMIT_CONCURRENCY)
		build_fail(build, instance, setting->line,
			"max_sockets: [limit %s] has a rate; expected a limit with concurrency",
			limit->name);
}

/* Each server is looked up once, whatever the number of routes. */
void check_servers_of_gateways(const struct build *build)
{
	const struct conf *conf = build->conf;
	bool *serves = arena_alloc(build->arena, conf->upstream_count * sizeof(*serves) + 1);
	bool *shares = arena_alloc(build->arena, conf->upstream_count * sizeof(*shares) + 1);
	struct text_index servers = {0};

	for (size_t i = 0; i < conf->route_count; i++)
		if (conf->routes[i].upstream &&
			(conf->routes[i].websocket.mode == CONF_WEBSOCKET_GATEWAY ||
				conf->routes[i].holds_responses))
			serves[conf->routes[i].upstream->index] = true;
	for (size_t i = 0; i < conf->upstream_count; i++) {
		const struct conf_upstream *upstream = &conf->upstreams[i];
		for (size_t j = 0; serves[i] && j < upstream->server_count; j++)
			text_index_add(
				&servers, build->arena, NULL, upstream->servers[j].address.text);
	}
	for (size_t i = 0; i < conf->upstream_count; i++) {
		const struct conf_upstream *upstream = &conf->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++)
			shares[i] |=
				text_index_has(&servers, NULL, upstream->servers[j].address.text);
	}
	for (size_t i = 0; i < conf->route_count; i++) {
		struct conf_route *route = &build->conf->routes[i];
		route->is_before_gateway = route->upstream && shares[route->upstream->index];
	}
}
