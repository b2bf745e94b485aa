/* Checks of a route's WebSockets after the whole file has been read. */
#include <string.h>

#include "conf/build.h"

/* The rows of the table behind `websocket` that are of WebSockets: by where they are stored. */
static bool is_of_messages(const struct option *option)
{
	size_t at = offsetof(struct conf_route, websocket);

	return option->offset >= at && option->offset < at + sizeof(struct conf_websocket) &&
	       option->offset != at + offsetof(struct conf_websocket, mode);
}

static bool is_of_gateways(const struct option *option)
{
	size_t at = offsetof(struct conf_route, websocket.gateway);

	return option->offset >= at && option->offset < at + sizeof(struct conf_gateway);
}

bool check_is_without_messages(const struct instance *instance, const struct option *option)
{
	const struct conf_route *route = instance->object;

	switch (route->websocket.mode) {
	case CONF_WEBSOCKET_TUNNEL:
		return is_of_messages(option);
	case CONF_WEBSOCKET_MESSAGES:
		return is_of_gateways(option);
	case CONF_WEBSOCKET_GATEWAY:
		break;
	}
	return false;
}

static void refuse_with_tunnel(struct build *build, const struct instance *instance)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		if (is_of_messages(setting->option))
			build_fail(build, instance, setting->line,
				"%s: the route's WebSockets are tunnels, which are not read; "
				"expected "
				"websocket = messages or gateway with it",
				setting->option->name);
}

static void refuse_with_messages(struct build *build, const struct instance *instance)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		if (is_of_gateways(setting->option))
			build_fail(build, instance, setting->line,
				"%s: has no effect without a gateway; expected websocket = gateway "
				"as well",
				setting->option->name);
}

static bool has_websocket(const struct conf_text_list *upgrades)
{
	for (size_t i = 0; i < upgrades->count; i++)
		if (strcmp(upgrades->items[i], "websocket") == 0)
			return true;
	return false;
}

void check_websocket(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;
	const struct conf_websocket *websocket = &route->websocket;
	const struct setting *mode = instance_setting(instance, "websocket");
	const struct setting *notice = instance_setting(instance, "message_notice");

	if (websocket->mode == CONF_WEBSOCKET_TUNNEL) {
		if (!mode || !mode->wrong)
			refuse_with_tunnel(build, instance);
		return;
	}
	if (websocket->mode == CONF_WEBSOCKET_MESSAGES)
		refuse_with_messages(build, instance);
	if (mode && !has_websocket(&route->upgrades))
		build_fail(build, instance, mode->line,
			"websocket: has no effect, as upgrade does not list websocket; expected "
			"upgrade = websocket");
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
