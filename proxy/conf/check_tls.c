/* Checks of TLS towards servers. See check.c. */
#include <string.h>

#include "conf/value.h"

static bool has_any(const struct conf_upstream *upstream)
{
	bool has = false;

	for (size_t i = 0; i < upstream->server_count; i++)
		has |= conf_server_has_tls(upstream, &upstream->servers[i]);
	return has;
}

void check_tls_effects(struct build *build, const struct instance *instance,
	const struct conf_tls *tls, bool has_tls, const char *of, const char *to)
{
	const struct setting *verify = instance_setting(instance, "tls_verify");

	for (const struct setting *setting = instance->settings; setting && !has_tls;
		setting = setting->next) {
		if (strncmp(setting->option->name, "tls_", 4) == 0)
			build_warn(build, instance, setting->line, "%s has no effect without %s",
				setting->option->name, of);
	}
	if (verify && has_tls && !tls->verifies)
		build_warn(build, instance, verify->line,
			"tls_verify = off: anybody on the way to %s can read and change all that "
			"is "
			"sent",
			to);
}

static void check_server_tls(struct build *build, const struct instance *instance,
	const struct conf_upstream *upstream, const struct conf_server *server)
{
	if (!conf_server_has_tls(upstream, server)) {
		if (server->tls_name)
			build_warn(build, instance, server->line,
				"server: tls_name of %s has no effect without tls=on",
				server->address.text);
		else if (server->address.port == 443 && server->tls != CONF_SERVER_TLS_OFF)
			build_warn(build, instance, server->line,
				"server: %s is spoken to without TLS; tls=off behind it says that "
				"this is intended, https:// before it turns TLS on",
				server->address.text);
	} else if (upstream->tls.verifies && !conf_server_tls_name(upstream, server)) {
		build_fail(build, instance, server->line,
			"server: %s has no name to verify; expected tls_name = NAME, or tls_verify "
			"= "
			"off",
			server->address.text);
	}
}

void check_upstream_tls(struct build *build, const struct instance *instance)
{
	const struct conf_upstream *upstream = instance->object;

	check_tls_effects(build, instance, &upstream->tls, has_any(upstream),
		"tls = on or a server = https://HOST", "the servers");
	for (size_t i = 0; i < upstream->server_count; i++)
		check_server_tls(build, instance, upstream, &upstream->servers[i]);
}
