/*
 * Checks after the whole file has been read: references, required keys, keys that need or exclude
 * each other. Also fills in what follows from them.
 */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "conf/value.h"
#include "http/path_readings.h"

/* ---- required keys ---- */

static void check_required(struct build *build, const struct instance *instance)
{
	const struct option_section *section = instance->section;

	for (size_t i = 0; i < *section->option_count; i++) {
		const struct option *option = &section->options[i];

		if ((option->flags & OPTION_REQUIRED) && instance_lacks(instance, option->name))
			build_fail(build, instance, instance->line, "has no %s; expected %s = %s",
				option->name, option->name, option->type->expected);
	}
}

/* ---- options that others need ---- */

/* Is this the word's value? */
static bool has_word(const struct option *option, const void *object, const char *word)
{
	const char *at = (const char *)object + option->offset;
	unsigned value = option->type == &type_flag ? *(const bool *)at : 0;

	if (option->type == &type_flag)
		return value == (strcmp(word, "on") == 0);
	memcpy(&value, at, option->size < sizeof(value) ? option->size : sizeof(value));
	for (const struct option_word *known = option->words; known->word; known++)
		if (strcmp(known->word, word) == 0)
			return option->type == &type_words ? (known->value & value) != 0
							   : known->value == value;
	return false;
}

static bool is_met(const struct instance *instance, const char *key, const char *word)
{
	const struct option *other = option_find(instance->section, slice_of(key));
	const struct setting *setting = instance_setting(instance, key);

	if (setting && setting->wrong)
		return true; /* it may have been meant so */
	if (other->words || other->type == &type_flag)
		return has_word(other, instance->object, word);
	return !instance_lacks(instance, key);
}

/* A flag, or an option with the word off, that is not off. */
static bool is_on(const struct instance *instance, const char *key)
{
	const struct option *option = option_find(instance->section, slice_of(key));
	const struct setting *setting = instance_setting(instance, key);

	return (setting && setting->wrong) || !has_word(option, instance->object, "off");
}

bool check_has_effect(const struct instance *instance, const struct option *option)
{
	const struct option_need *needs = &option->needs;

	return !needs->key || is_met(instance, needs->key, needs->value) ||
	       (needs->or_value && is_met(instance, needs->key, needs->or_value)) ||
	       (needs->or_flag && is_on(instance, needs->or_flag));
}

/* An option that is off is meant to have no effect. */
static bool is_off(const struct instance *instance, const struct option *option)
{
	return (option->type == &type_flag || option->words) &&
	       has_word(option, instance->object, "off");
}

static void check_needs(struct build *build, const struct instance *instance)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next) {
		const struct option *option = setting->option;
		const struct option_need *needs = &option->needs;

		if (setting->wrong || setting != instance_setting(instance, option->name) ||
			is_off(instance, option) || check_has_effect(instance, option))
			continue;
		(needs->fails ? build_fail : build_warn)(build, instance, setting->line,
			"%s: has no effect without %s = %s%s%s%s", option->name, needs->key,
			needs->value, needs->or_value ? " or " : "",
			needs->or_value ? needs->or_value : "",
			needs->fails ? "; expected that as well" : "");
	}
}

/* ---- required sections ---- */

static void check_present(struct build *build)
{
	const struct conf *conf = build->conf;

	if (build->section_wrong || build->incomplete) /* it may be the one */
		return;
	if (build->source->instances == NULL && build->errors->count == 0)
		conf_errors_add(build->errors, build->name, 0,
			"the file is empty; expected at least a listener, an upstream and a route");
	else if (conf->listener_count == 0)
		conf_errors_add(build->errors, build->name, 0,
			"there is no [listener NAME]; expected one, with bind = ADDRESS:PORT");
	if (build->source->instances && conf->route_count == 0)
		conf_errors_add(build->errors, build->name, 0,
			"there is no [route NAME]; expected one, with upstream = NAME");
}

static void check_usage(struct build *build, const struct instance *sluice)
{
	const struct conf *conf = build->conf;
	const struct setting *setting = instance_setting(sluice, "usage");

	if (!setting || conf->usage.interval_ms == 0)
		return;
	if (conf->usage.interval_ms < 1000)
		build_fail(
			build, sluice, setting->line, "usage is below 1s; expected 0, or 1s to 1h");
	if (!conf->state)
		build_fail(build, sluice, setting->line,
			"usage needs a folder for its files; expected state = FOLDER as well");
}

/* ---- references ---- */

static void *find_named(struct build *build, enum section_id id, const char *name)
{
	const struct instance *instance = name_index_find(&build->names, id, slice_of(name));

	return instance ? instance->object : NULL;
}

static void *resolve(struct build *build, const struct instance *instance,
	const struct reference *reference, enum section_id id)
{
	struct near_miss near = {.word = slice_of(reference->name)};
	const char *kind = option_sections[id].kind, *hint = value_hint(near.word);
	void *found = find_named(build, id, reference->name);

	if (found)
		return found;
	for (struct instance *other = build->source->instances;
		other && !conf_errors_are_many(build->errors); other = other->next)
		if (other->section->id == id)
			near_miss_offer(&near, other->name);
	if (strpbrk(reference->name, " \t"))
		build_fail(build, instance, reference->line,
			"%s: \"%s\" has a blank in it; expected names with commas, as in a, b%s",
			reference->option->name, reference->name, hint);
	else if (build->incomplete)
		return NULL;
	else if (near.best)
		build_fail(build, instance, reference->line,
			"%s: there is no [%s %s], did you mean \"%s\"?%s", reference->option->name,
			kind, reference->name, near.best, hint);
	else
		build_fail(build, instance, reference->line,
			"%s: there is no [%s %s]; expected the name of one%s",
			reference->option->name, kind, reference->name, hint);
	return NULL;
}

/* Does a plan have a condition, so that callers get it without a key? */
static bool has_plan_with_condition(const struct build *build)
{
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		if (instance->section->id == SECTION_PLAN && instance_setting(instance, "when"))
			return true;
	}
	return false;
}

/* The word `plan` in a route's key. */
static void add_plan(struct build *build, const struct instance *instance,
	const struct reference *reference, struct conf_limits *limits)
{
	const char *key = reference->option->name;

	if (limits->plan)
		build_fail(build, instance, reference->line,
			"%s: \"plan\" is given twice; expected it once", key);
	else if (!find_named(build, SECTION_PLANS, "") && !has_plan_with_condition(build))
		build_fail(build, instance, reference->line,
			"%s: \"plan\" has no effect without [plans]; expected that section, with "
			"key = KEY, or a plan with when",
			key);
	if (!limits->plan)
		limits->plan_position = limits->count;
	limits->plan = true;
}

/* The limits that a key of a route or plan names, each once. */
static void resolve_limits(struct build *build, const struct instance *instance, const char *key,
	struct conf_limits *limits)
{
	*limits = (struct conf_limits){0};
	for (size_t i = 0; i < instance->reference_count; i++) {
		const struct reference *reference = &instance->references[i];
		const struct conf_limit *limit;

		if (strcmp(reference->option->name, key) != 0)
			continue;
		if (instance->section->id == SECTION_ROUTE &&
			strcmp(reference->name, "plan") == 0) {
			add_plan(build, instance, reference, limits);
			continue;
		}
		limit = resolve(build, instance, reference, SECTION_LIMIT);
		if (limit && check_limits_have(limits, limit)) {
			build_fail(build, instance, reference->line,
				"%s: \"%s\" is given twice; expected each limit once", key,
				reference->name);
		} else if (limit) {
			limits->items = arena_grow(build->arena, limits->items, limits->count,
				sizeof(limits->items[0]));
			limits->items[limits->count++] = limit;
		}
	}
}

/* ---- sections ---- */

static void check_upstream(struct build *build, const struct instance *instance)
{
	struct conf_upstream *upstream = instance->object;
	const struct setting *setting;

	for (size_t i = 0; i < instance->reference_count; i++)
		upstream->semaphore =
			resolve(build, instance, &instance->references[i], SECTION_SEMAPHORE);
	check_health_shared(build, instance);
	check_upstream_tls(build, instance);
	if (upstream->protocol == CONF_PROTOCOL_HTTP2 &&
		upstream->send_proxy != CONF_SEND_PROXY_OFF)
		build_fail(build, instance, instance_setting_line(instance, "send_proxy"),
			"send_proxy: it needs connections to the servers that carry one client "
			"each, and those of protocol = h2 are shared; expected protocol = "
			"http/1.1");
#ifndef HAVE_HTTP2
	if (upstream->protocol == CONF_PROTOCOL_HTTP2)
		build_fail(build, instance, instance_setting_line(instance, "protocol"),
			"protocol: this sluice was built without HTTP/2; expected http/1.1, or a "
			"build with libnghttp2");
#endif
	if (upstream->max_in_flight_floor > upstream->max_in_flight_ceiling) {
		const char *key = "max_in_flight_floor";
		if (!instance_setting(instance, key))
			key = "max_in_flight_ceiling";
		build_fail(build, instance, instance_setting_line(instance, key),
			"%s: the floor, %u, is above the ceiling, %u; expected it below", key,
			upstream->max_in_flight_floor, upstream->max_in_flight_ceiling);
	}
	setting = instance_setting(instance, "fail_timeout");
	if (setting && upstream->fail_timeout_ms > upstream->fail_timeout_max_ms)
		build_fail(build, instance, setting->line,
			"fail_timeout: it is above fail_timeout_max; expected at most %llums",
			(unsigned long long)upstream->fail_timeout_max_ms);
	for (size_t i = 0; i < upstream->server_count; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(upstream->servers[i].address.text,
				    upstream->servers[j].address.text) == 0) {
				build_fail(build, instance, upstream->servers[i].line,
					"server: %s is given twice; the first is in %s",
					upstream->servers[i].address.text,
					build_where(build, upstream->servers[j].line,
						upstream->servers[i].line));
				break;
			}
}

static void check_plan(struct build *build, const struct instance *instance)
{
	struct conf_plan *plan = instance->object;
	const struct setting *callers = instance_setting(instance, "callers");

	resolve_limits(build, instance, "limits", &plan->limits);
	check_when(build, instance, "when", &plan->when);
	if (strcmp(plan->name, "default") == 0) {
		build->conf->default_plan = plan;
		if (callers)
			build_fail(build, instance, callers->line,
				"callers: this plan is for callers on no list; expected none");
	} else if (instance_lacks(instance, "callers") && instance_lacks(instance, "when") &&
		   !find_named(build, SECTION_ADMIN, "")) {
		build_fail(build, instance, instance->line,
			"has no callers; expected callers = file:PATH, when = MATCH, or [admin], "
			"through which keys can be added");
	}
}

/* Can a path that the route matches begin with `front`? */
static bool can_begin_with(const struct conf_route *route, const char *front)
{
	size_t len, path_len;

	if (!front || !route->path || route->path_kind == CONF_PATH_REGEX)
		return true;
	len = strlen(front);
	path_len = strlen(route->path);
	if (route->path_kind == CONF_PATH_PREFIX && path_len < len)
		len = path_len;
	return strncmp(route->path, front, len) == 0;
}

/* A path that servers read in several ways, as requests for it are refused where that makes a
 * difference. */
static void check_path_is_plain(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;
	const struct setting *setting = instance_setting(instance, "path");
	unsigned differ = HTTP_PATH_DECODED | HTTP_PATH_MERGED | HTTP_PATH_CUT;

	if (!setting || !route->path || route->path_kind == CONF_PATH_REGEX ||
		route->allows_ambiguous_path ||
		!(http_path_features(slice_of(route->path)) & differ))
		return;
	build_warn(build, instance, setting->line,
		"path: servers read \"%s\" in several ways; requests for it get 400 where one of "
		"these ways is a route with restrictions, unless ambiguous_path = allow",
		route->path);
}

static void resolve_names(struct build *build, const struct instance *instance)
{
	struct conf_route *route = instance->object;

	for (size_t i = 0; i < instance->reference_count; i++) {
		const struct reference *reference = &instance->references[i];
		if (strcmp(reference->option->name, "upstream") == 0)
			route->upstream = resolve(build, instance, reference, SECTION_UPSTREAM);
		if (strcmp(reference->option->name, "max_sockets") == 0)
			route->websocket.max_sockets =
				resolve(build, instance, reference, SECTION_LIMIT);
	}
	check_when(build, instance, "when", &route->when);
	check_when(build, instance, "allow", &route->access.allow_when);
	check_when(build, instance, "deny", &route->access.deny_when);
	resolve_limits(build, instance, "limits", &route->limits);
	resolve_limits(build, instance, "message_limits", &route->websocket.limits);
}

static void note_restrictions(const struct instance *instance)
{
	struct conf_route *route = instance->object;

	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		if (setting->option->route == ROUTE_RESTRICTS)
			route->restricts = !route->allows_ambiguous_path;
}

static void refuse_with_http2(
	struct build *build, const struct instance *instance, const char *key, const char *value)
{
	build_fail(build, instance, instance_setting_line(instance, key),
		"%s: %s needs connections to the servers that carry one session each, and those of "
		"protocol = h2 are shared; expected an [upstream] with protocol = http/1.1",
		key, value);
}

static void check_shared_connections(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;

	if (!route->upstream || route->upstream->protocol != CONF_PROTOCOL_HTTP2)
		return;
	if (route->sessions.affinity)
		refuse_with_http2(build, instance, "upstream_affinity", "session");
	if (route->sessions.of_fleet)
		refuse_with_http2(build, instance, "session_scope", "fleet");
}

static void check_route(struct build *build, const struct instance *instance)
{
	static struct key_part ip = {.kind = KEY_IP};
	static struct key_alternative alternative = {&ip, 1};
	static const struct conf_key ip_key = {"ip", &alternative, 1};
	struct conf_route *route = instance->object;
	const struct setting *strip = instance_setting(instance, "strip_prefix");

	resolve_names(build, instance);
	note_restrictions(instance);
	check_path_is_plain(build, instance);
	check_websocket(build, instance);
	check_session_scope(build, instance);
	check_shared_connections(build, instance);
	if (!route->sessions.key && route->limits.count > 0)
		route->sessions.key = route->limits.items[0]->key;
	else if (!route->sessions.key && route->limits.plan)
		route->sessions.key = build->conf->plans_key;
	if (!route->sessions.key)
		route->sessions.key = &ip_key;
	if (route->unknown == CONF_UNKNOWN_REFUSE && !find_named(build, SECTION_PLANS, ""))
		build_fail(build, instance, instance_setting_line(instance, "unknown_callers"),
			"unknown_callers: without [plans] all callers are unknown; expected that "
			"section, with key = KEY");
	if (route->sessions.affinity && route->upstream &&
		route->upstream->send_proxy != CONF_SEND_PROXY_OFF)
		build_fail(build, instance, instance_setting_line(instance, "upstream_affinity"),
			"upstream_affinity: with send_proxy a connection of [upstream %s] is one "
			"client's for one request; expected none",
			route->upstream->name);
	if (strip && !can_begin_with(route, route->strip_prefix))
		build_fail(build, instance, strip->line,
			"strip_prefix: no path of %s begins with %s; expected the front of the "
			"route's path",
			route->path, route->strip_prefix);
}

/* ---- over sections ---- */

/* Is it a plan that callers get by their key, or by having none? */
static bool needs_key(const struct instance *instance, bool has_condition)
{
	return instance->section->id == SECTION_PLAN && !instance_setting(instance, "when") &&
	       !(has_condition && strcmp(instance->name, "default") == 0);
}

static void check_plans(struct build *build)
{
	const struct conf *conf = build->conf;
	const struct instance *plans = NULL, *plan = NULL;
	bool has_condition = has_plan_with_condition(build);

	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		if (instance->section->id == SECTION_PLANS)
			plans = instance;
		if (needs_key(instance, has_condition) && !plan)
			plan = instance;
	}
	if (plan && !plans)
		build_fail(build, plan, plan->line,
			"has no effect without [plans]; expected that section, with key = KEY");
	if (plans && !conf->plan_count)
		build_fail(build, plans, plans->line,
			"has no effect without a plan; expected [plan NAME] or [plan default]");
}

static bool key_has_part(const struct conf_key *key, const struct key_part *part)
{
	for (size_t i = 0; i < key->alternative_count; i++)
		for (size_t j = 0; j < key->alternatives[i].part_count; j++) {
			const struct key_part *own = &key->alternatives[i].parts[j];
			if (own->kind == part->kind && own->name &&
				strcmp(own->name, part->name) == 0)
				return true;
		}
	return false;
}

/* Does the key contain a part that the plans' key has, too, and whose value the client chooses? */
static bool follows_plans_key(const struct conf *conf, const struct conf_key *key)
{
	for (size_t i = 0; i < key->alternative_count; i++)
		for (size_t j = 0; j < key->alternatives[i].part_count; j++)
			if (key->alternatives[i].parts[j].name &&
				key_has_part(conf->plans_key, &key->alternatives[i].parts[j]))
				return true;
	return false;
}

/* Is the client's choice of a key a choice of its caller, whichever limit of the route applies? */
static bool gives_each_key_a_quota(const struct conf *conf, const struct conf_route *route)
{
	const struct conf_plan *plan = conf->default_plan;
	enum conf_unknown unknown =
		route->unknown == CONF_UNKNOWN_INHERIT ? conf->unknown : route->unknown;

	if (!route->limits.plan || unknown == CONF_UNKNOWN_REFUSE || plan->limits.count == 0)
		return false;
	for (size_t i = 0; i < plan->limits.count; i++)
		if (!follows_plans_key(conf, plan->limits.items[i]->key))
			return false;
	for (size_t i = 0; i < route->limits.count; i++)
		if (!follows_plans_key(conf, route->limits.items[i]->key))
			return false;
	return true;
}

/* An unknown key selects the plan `default`, so limits of that plan by the same key bound nobody
 * who invents a key for each request. */
static void check_unknown_keys(struct build *build)
{
	const struct conf *conf = build->conf;

	if (!conf->plans_key || !conf->default_plan)
		return;
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		if (instance->section->id != SECTION_ROUTE ||
			!gives_each_key_a_quota(conf, instance->object))
			continue;
		build_warn(build, instance, instance_setting_line(instance, "limits"),
			"limits: each unknown key gets a quota of its own, as [plan default] "
			"limits "
			"callers by the key that selects the plan; expected a limit with key = ip "
			"as well, or unknown = refuse in [plans]");
		return;
	}
}

struct caller {
	const char *key;
	const struct conf_plan *plan;
};

static int compare_callers(const void *a, const void *b)
{
	const struct caller *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	if (order == 0 && x->plan != y->plan)
		order = x->plan < y->plan ? -1 : 1;
	return order;
}

/* A key in two plans has no plan. Keys are secrets, so the message does not tell it whole. */
static void check_callers(struct build *build)
{
	const struct conf *conf = build->conf;
	struct caller *callers;
	size_t count = 0, next = 0, reported = 0;

	for (size_t i = 0; i < conf->plan_count; i++)
		count += conf->plans[i].callers.count;
	if (count < 2)
		return;
	callers = arena_alloc(build->arena, count * sizeof(*callers));
	for (size_t i = 0; i < conf->plan_count; i++)
		for (size_t j = 0; j < conf->plans[i].callers.count; j++)
			callers[next++] =
				(struct caller){conf->plans[i].callers.items[j], &conf->plans[i]};
	qsort(callers, count, sizeof(*callers), compare_callers);
	for (size_t i = 1; i < count && reported < 10; i++) {
		if (callers[i].plan == callers[i - 1].plan ||
			strcmp(callers[i].key, callers[i - 1].key) != 0)
			continue;
		reported++;
		conf_errors_add(build->errors, build->name, callers[i].plan->line,
			"[plan %s] callers: the key that begins with \"%.4s\" is in [plan %s] too; "
			"expected it in one of them",
			callers[i].plan->name, callers[i].key, callers[i - 1].plan->name);
	}
}

struct bind {
	const struct conf_address *address;
	const struct instance *instance;
	size_t position; /* in the file */
};

static int compare_addresses(const struct conf_address *a, const struct conf_address *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind != CONF_ADDRESS_INET)
		return strcmp(a->host, b->host);
	if (a->socket_len != b->socket_len)
		return a->socket_len < b->socket_len ? -1 : 1;
	return memcmp(&a->socket, &b->socket, a->socket_len);
}

static int compare_binds(const void *a, const void *b)
{
	const struct bind *x = a, *y = b;
	int order = compare_addresses(x->address, y->address);

	return order ? order : x->position < y->position ? -1 : 1;
}

static struct bind *list_binds(struct build *build, size_t *count)
{
	struct bind *binds = NULL;

	*count = 0;
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_listener *listener = instance->object;
		const struct conf_address *addresses = NULL;
		size_t address_count = 0;

		if (instance->section->id == SECTION_LISTENER) {
			addresses = listener->binds;
			address_count = listener->bind_count;
		} else if (instance->section->id == SECTION_ADMIN) {
			addresses = build->conf->admin.binds;
			address_count = build->conf->admin.bind_count;
		} else if (instance->section->id == SECTION_FLEET) {
			addresses = build->conf->fleet.bind;
			address_count = addresses != NULL;
		}
		for (size_t i = 0; i < address_count; i++) {
			binds = arena_grow(build->arena, binds, *count, sizeof(*binds));
			binds[*count] = (struct bind){&addresses[i], instance, *count};
			++*count;
		}
	}
	return binds;
}

/* Sorted, those of one address stand side by side, the first in the file first. */
static void check_binds(struct build *build)
{
	size_t count, first = 0;
	struct bind *binds = list_binds(build, &count);

	if (count < 2)
		return;
	qsort(binds, count, sizeof(*binds), compare_binds);
	for (size_t i = 1; i < count; i++) {
		if (compare_addresses(binds[i].address, binds[first].address) != 0) {
			first = i;
			continue;
		}
		build_fail(build, binds[i].instance, binds[i].address->line,
			"bind: %s is given twice; the first is in %s, in %s",
			binds[i].address->text,
			build_where(build, binds[first].address->line, binds[i].address->line),
			instance_title(build, binds[first].instance));
	}
}

/* Is it an address that only this machine can connect to? */
static bool is_local(const struct conf_address *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->socket;

	if (address->kind == CONF_ADDRESS_UNIX)
		return true;
	if (address->kind != CONF_ADDRESS_INET)
		return false;
	return address->socket.ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
						    : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static void check_admin(struct build *build, const struct instance *instance)
{
	struct conf_admin *admin = &build->conf->admin;

	admin->token_line = instance_setting_line(instance, "token");
	admin->certificate_line = instance_setting_line(instance, "certificate");
	for (size_t i = 0; i < admin->bind_count; i++) {
		const struct conf_address *bind = &admin->binds[i];
		if (bind->kind == CONF_ADDRESS_SYSTEMD)
			build_fail(build, instance, bind->line,
				"bind: %s is not possible here; expected an address or unix:/PATH",
				bind->text);
		else if (!admin->token_path && !is_local(bind))
			build_fail(build, instance, bind->line,
				"bind: %s can be reached by other machines; expected a token as "
				"well: token = file:PATH",
				bind->text);
	}
}

/* response_header_set comes first where it names the field of hsts. */
static void join_fields_to_set(struct build *build, struct conf_listener *listener)
{
	struct conf_fields *all = &listener->all_set;
	bool has_hsts = listener->tls.certificates.count > 0 && listener->hsts.count > 0;

	*all = listener->response_set;
	for (size_t i = 0; has_hsts && i < all->count; i++)
		has_hsts = strcasecmp(all->items[i].name, listener->hsts.items[0].name) != 0;
	if (!has_hsts)
		return;
	all->items = arena_alloc(build->arena, (all->count + 1) * sizeof(*all->items));
	if (all->count > 0)
		memcpy(all->items, listener->response_set.items, all->count * sizeof(*all->items));
	all->items[all->count++] = listener->hsts.items[0];
}

/* Warns of a route whose min_rate clients evade by HTTP/2. */
static void check_rate_of_bodies(struct build *build, const struct instance *instance)
{
	const struct conf_listener *listener = instance->object;
	const struct conf *conf = build->conf;

	if (!(listener->protocols & CONF_PROTOCOL_HTTP2))
		return;
	for (size_t i = 0; i < conf->route_count; i++) {
		if (conf->routes[i].min_rate > 0) {
			build_warn(build, instance, instance_setting_line(instance, "protocols"),
				"protocols: min_rate of [route %s] does not apply to bodies over "
				"HTTP/2",
				conf->routes[i].name);
			return;
		}
	}
}

static void check_listener(struct build *build, const struct instance *instance)
{
	struct conf_listener *listener = instance->object;
	size_t keys = listener->tls.certificate_keys.count,
	       count = listener->tls.certificates.count;

	if (count > 0 && keys > 0 && keys != count)
		build_fail(build, instance, instance_setting_line(instance, "certificate_key"),
			"there are %zu certificate_key for %zu certificate; expected as many, or "
			"none",
			keys, count);
	if (count > 0 && listener->redirect_port > 0)
		build_warn(build, instance, instance_setting_line(instance, "redirect"),
			"redirect has no effect with a certificate");
#ifndef HAVE_HTTP2
	if (listener->protocols & CONF_PROTOCOL_HTTP2)
		build_fail(build, instance, instance_setting_line(instance, "protocols"),
			"protocols: this sluice was built without HTTP/2; expected http/1.1, or a "
			"build with libnghttp2");
#endif
	check_rate_of_bodies(build, instance);
	resolve_limits(build, instance, "limits", &listener->limits);
	join_fields_to_set(build, listener);
}

void check_snapshot(struct build *build)
{
	check_present(build);
	for (struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		check_required(build, instance);
		if (instance->section->id == SECTION_SLUICE)
			check_usage(build, instance);
		else if (instance->section->id == SECTION_LISTENER)
			check_listener(build, instance);
		else if (instance->section->id == SECTION_UPSTREAM)
			check_upstream(build, instance);
		else if (instance->section->id == SECTION_MATCH)
			check_match(build, instance);
		else if (instance->section->id == SECTION_LIMIT)
			check_limit(build, instance);
		else if (instance->section->id == SECTION_PLAN)
			check_plan(build, instance);
		else if (instance->section->id == SECTION_ROUTE)
			check_route(build, instance);
		else if (instance->section->id == SECTION_ADMIN)
			check_admin(build, instance);
		else if (instance->section->id == SECTION_FLEET)
			check_fleet(build, instance);
		else if (instance->section->id == SECTION_SEMAPHORE)
			check_semaphore(build, instance);
		check_needs(build, instance);
	}
	check_matches(build);
	check_semaphore_nodes(build);
	check_plans(build);
	check_limits_of_routes(build);
	check_routes_are_reached(build);
	check_servers_of_gateways(build);
	check_unknown_keys(build);
	check_callers(build);
	check_binds(build);
}
