/* Checks of a [semaphore] after all of it has been read. */
#include "config.h"

#include <string.h>

#include "conf/build.h"

#ifdef HAVE_RABBITMQ
/* Is it as the queue of another semaphore's slot, NAME-3-A? */
static bool is_slot(const char *name)
{
	size_t len = strlen(name), digits = 0;

	if (len < 4 || name[len - 2] != '-' || (name[len - 1] != 'A' && name[len - 1] != 'B'))
		return false;
	len -= 2;
	while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9') {
		len--;
		digits++;
	}
	return digits > 0 && len > 1 && name[len - 1] == '-';
}

/* Its name is that of a queue. */
static void check_name(struct build *build, const struct instance *instance)
{
	if (is_slot(instance->name))
		build_fail(build, instance, instance->line,
			"the name ends as the queues of another semaphore's slots do; expected one "
			"without -NUMBER-%c at its end",
			instance->name[strlen(instance->name) - 1]);
	if (strncmp(instance->name, "amq.", 4) == 0)
		build_fail(build, instance, instance->line,
			"the broker keeps names that begin with amq. for itself; expected another");
}
#endif

void check_semaphore(struct build *build, const struct instance *instance)
{
#ifndef HAVE_RABBITMQ
	build_fail(build, instance, instance->line,
		"needs RabbitMQ; this sluice was built without it (configure --without-rabbitmq)");
#else
	const struct conf_semaphore *semaphore = instance->object;
	const struct setting *password = instance_setting(instance, "password");
	const struct setting *heartbeat = instance_setting(instance, "heartbeat");

	check_name(build, instance);
	check_tls_effects(build, instance, &semaphore->tls, semaphore->broker.has_tls,
		"broker = amqps://HOST", "the broker");
	if (password && semaphore->broker.password)
		build_fail(build, instance, password->line,
			"password: the broker's URL has one too; expected one of them");
	if (heartbeat && !heartbeat->wrong && semaphore->heartbeat_ms % 1000 != 0)
		build_fail(build, instance, heartbeat->line,
			"heartbeat: \"%s\" is not in whole seconds; expected a duration such as "
			"10s",
			heartbeat->text);
#endif
}

void check_semaphore_nodes(const struct build *build)
{
	const struct conf *conf = build->conf;
	const struct conf_semaphores *semaphores = &conf->fleet.semaphores;
	uint64_t *users = arena_alloc(build->arena, semaphores->count * sizeof(*users) + 1);

	for (size_t i = 0; i < conf->upstream_count; i++)
		if (conf->upstreams[i].semaphore)
			users[conf->upstreams[i].semaphore - semaphores->items]++;
	for (size_t i = 0; i < semaphores->count; i++) {
		struct conf_semaphore *semaphore = &semaphores->items[i];
		uint64_t connections = semaphore->nodes * (users[i] > 1 ? users[i] : 1);
		semaphore->nodes = connections < UINT32_MAX ? (uint32_t)connections : UINT32_MAX;
	}
}
