/* From the reader's lines to sections' structs, by the table. See build.h. */
#include "conf/foreign.h"
#include "conf/build.h"

#include <stdio.h>
#include <string.h>

#include "conf/environment.h"
#include "conf/value.h"

enum { WARNINGS_AT_MOST = 1000 };

/* Names of sections: they stand in header fields, metrics and log lines. */
static bool is_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';

		if (!letter && !digit && c != '-' && c != '_' && c != '.')
			return false;
	}
	return name.len > 0 && name.len <= 64;
}

const char *instance_title(struct build *build, const struct instance *instance)
{
	return arena_format(build->arena, "[%s%s%s]", instance->section->kind,
		*instance->name ? " " : "", instance->name);
}

const struct setting *instance_setting(const struct instance *instance, const char *key)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		if (strcmp(setting->option->name, key) == 0)
			return setting;
	return NULL;
}

unsigned instance_setting_line(const struct instance *instance, const char *key)
{
	const struct setting *setting = instance_setting(instance, key);

	return setting ? setting->line : instance->line;
}

/* The number of an option's row. */
static size_t row_of(const struct instance *instance, const char *key)
{
	const struct option_section *section = instance->section;

	return (size_t)(option_find(section, slice_of(key)) - section->options);
}

bool instance_lacks(const struct instance *instance, const char *key)
{
	size_t n = row_of(instance, key);
	bool is_meant = instance->meant[n / 64] & UINT64_C(1) << n % 64;

	return !instance->unclear && !is_meant && !instance_setting(instance, key);
}

void build_fail(struct build *build, const struct instance *instance, unsigned line,
	const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	conf_errors_add(
		build->errors, build->name, line, "%s %s", instance_title(build, instance), text);
}

const char *build_where(struct build *build, unsigned line, unsigned from)
{
	struct conf_place place = lines_place(&build->lines, line);

	if (place.path == lines_place(&build->lines, from).path)
		return arena_format(build->arena, "line %u", place.line);
	return arena_format(build->arena, "%s:%u", place.path, place.line);
}

void build_warn(struct build *build, const struct instance *instance, unsigned line,
	const char *format, ...)
{
	struct conf *conf = build->conf;
	size_t at = conf->warning_count;
	char text[1280], *whole;
	va_list args;

	if (at > WARNINGS_AT_MOST)
		return;
	if (at == WARNINGS_AT_MOST)
		format = "there are more warnings than can be listed; fix some";
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	whole = arena_format(build->arena, "%s %s", instance_title(build, instance), text);
	conf_disarm(whole);
	conf->warnings = arena_grow(
		build->arena, conf->warnings, conf->warning_count++, sizeof(*conf->warnings));
	for (; at > 0 && conf->warnings[at - 1].line > line; at--)
		conf->warnings[at] = conf->warnings[at - 1];
	conf->warnings[at] = (struct conf_warning){line, whole};
}

/* Bytes that a node adds at most to a head that it forwards to another one. */
#define HOP_FIELDS_BYTES  2048
#define CLIENT_CERT_BYTES (32 << 10) /* Client-Cert and Client-Cert-Chain */

/* ---- values ---- */

static bool set_value(struct value *value, void *object, const char *text, size_t len)
{
	value->text = (struct slice){text, len};
	value->at = (char *)object + value->option->offset;
	return value->option->type->parse(value);
}

/* A list that the file writes replaces the default. */
static void clear_list(const struct option *option, void *object)
{
	if (option->type->adds)
		memset((char *)object + option->offset, 0, option->size);
}

void value_set_defaults(struct value *value, const struct option_section *section, void *object)
{
	for (size_t i = 0; i < *section->option_count; i++) {
		const struct option *option = &section->options[i];
		struct value one = *value;

		if (!option->fallback)
			continue;
		one.option = option;
		set_value(&one, object, option->fallback, strlen(option->fallback));
	}
}

static const char *near_option(const struct option_section *section, struct slice name)
{
	struct near_miss near = {.word = name};

	for (size_t i = 0; i < *section->option_count; i++)
		near_miss_offer(&near, section->options[i].name);
	return near.best;
}

bool value_set_option(struct value *value, const struct option_section *section, void *object,
	struct slice name, struct slice text)
{
	struct value one = *value;
	const char *near;

	one.option = option_find(section, name);
	if (one.option && text.len > 0) {
		clear_list(one.option, object);
		return set_value(&one, object, text.at, text.len);
	}
	if (one.option)
		return value_fail(value, "%s has no value", one.option->name);
	near = near_option(section, name);
	if (near)
		return value_fail(
			value, "unknown %.*s=, did you mean %s=?", SLICE_ARGS(name), near);
	return value_fail(value, "unknown %.*s=", SLICE_ARGS(name));
}

/* ---- sections ---- */

static struct instance *add_instance(
	struct build *build, const struct option_section *section, unsigned line, struct slice name)
{
	struct instance *instance = arena_alloc(build->arena, sizeof(*instance));
	struct value value = {.build = build, .instance = instance, .line = line};

	instance->section = section;
	instance->name = arena_text(build->arena, name);
	instance->line = line;
	instance->folder = build->folder;
	instance->settings_tail = &instance->settings;
	instance->object = section->inside_conf ? (void *)build->conf
						: arena_alloc(build->arena, section->size);
	value_set_defaults(&value, section, instance->object);
	return instance;
}

static void unknown_section(struct build *build, unsigned line, struct slice kind)
{
	struct near_miss near = {.word = kind};

	for (size_t i = 0; i < SECTIONS; i++)
		if (i != SECTION_SERVER)
			near_miss_offer(&near, option_sections[i].kind);
	if (near.best)
		conf_errors_add(build->errors, build->name, line,
			"unknown section [%.*s], did you mean [%s%s]?", SLICE_ARGS(kind), near.best,
			option_section_find(slice_of(near.best))->named ? " NAME" : "");
	else
		conf_errors_add(build->errors, build->name, line,
			"unknown section [%.*s]; expected sluice, admin, listener, upstream, "
			"match, limit, plans, plan, fleet, semaphore or route",
			SLICE_ARGS(kind));
}

static void begin_section(void *user, unsigned line, struct slice kind, struct slice name)
{
	struct build *build = user;
	const struct option_section *section = option_section_find(kind);
	const struct instance *first;
	struct instance *instance;

	build->outside = false;
	build->current = NULL;
	if (build->only_admin &&
		(!section || (section->id != SECTION_ADMIN && section->id != SECTION_SLUICE)))
		return;
	if (!section) {
		build->section_wrong = true;
		unknown_section(build, line, kind);
		return;
	}
	/* Its settings are looked at even when the name is not right: all errors at once. */
	first = name_index_find(&build->names, section->id, section->named ? name : SLICE(""));
	instance = add_instance(build, section, line, name);
	build->current = instance;
	if (first)
		conf_errors_add(build->errors, build->name, line,
			"%s is given twice; the first is in %s", instance_title(build, instance),
			build_where(build, first->line, line));
	else if (!section->named && name.len > 0)
		conf_errors_add(build->errors, build->name, line,
			"[%.*s %.*s] has a name; expected [%.*s]", SLICE_ARGS(kind),
			SLICE_ARGS(name), SLICE_ARGS(kind));
	else if (section->named && !is_name(name))
		conf_errors_add(build->errors, build->name, line,
			"%s %s; expected [%s NAME] with at most 64 letters, digits and -_.",
			instance_title(build, instance),
			name.len ? "has a name that can't be one" : "has no name", section->kind);
	else {
		*build->source->instances_tail = instance;
		build->source->instances_tail = &instance->next;
		name_index_add(&build->names, build->arena, instance);
		return;
	}
	build->section_wrong = true;
}

/* ---- settings ---- */

/* The sections that have the key, `[kind NAME] or [kind]`; NULL when there is none. */
static const char *homes_of(struct build *build, struct slice key)
{
	const char *homes = NULL;

	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];

		if (i != SECTION_SERVER && option_find(section, key))
			homes = arena_format(build->arena, "%s%s[%s%s]", homes ? homes : "",
				homes ? " or " : "", section->kind, section->named ? " NAME" : "");
	}
	return homes;
}

static void unknown_key(
	struct build *build, struct instance *instance, unsigned line, struct slice key)
{
	const struct option_section *section = instance->section;
	const char *near = near_option(section, key), *homes = homes_of(build, key);
	const char *pointer = homes ? NULL : foreign_word(key);

	if (pointer) {
		build_fail(
			build, instance, line, "%.*s: unknown key; %s", SLICE_ARGS(key), pointer);
	} else if (near) {
		size_t n = row_of(instance, near);
		instance->meant[n / 64] |= UINT64_C(1) << n % 64;
		build_fail(build, instance, line, "%.*s: unknown key, did you mean \"%s\"?",
			SLICE_ARGS(key), near);
	} else if (homes) {
		build_fail(build, instance, line, "%.*s: unknown key here; it belongs in %s",
			SLICE_ARGS(key), homes);
	} else {
		build_fail(build, instance, line,
			"%.*s: unknown key; expected one that `sluice check --keys` lists",
			SLICE_ARGS(key));
	}
}

static bool take_value(struct value *value, const char *text)
{
	if (environment_is_named(slice_of(text))) {
		value->written = text;
		text = environment_expand(value, slice_of(text));
		if (!text)
			return false;
	}
	if (!*text)
		return value_fail(value, "there is no value");
	return set_value(value, value->instance->object, text, strlen(text));
}

static bool is_skipped(const struct build *build, const char *key)
{
	bool in_admin = build->current && build->current->section->id == SECTION_ADMIN;

	return build->only_admin && !in_admin && strcmp(key, "include") != 0;
}

static void take_setting(void *user, unsigned line, const char *key, const char *text)
{
	struct build *build = user;
	struct instance *instance = build->current;
	struct value value = {.build = build, .instance = instance, .line = line};
	const struct setting *before;
	struct setting *setting;

	if (is_skipped(build, key))
		return;
	if (build->outside && strcmp(key, "include") == 0) {
		instance = build->top;
		value.instance = instance;
	} else if (build->outside) {
		const char *homes = homes_of(build, slice_of(key));

		conf_errors_add(build->errors, build->name, line,
			"%s = %s precedes every section; expected %s first", key, text,
			homes ? homes : "[section]");
	}
	if (!instance)
		return;
	value.option = option_find(instance->section, slice_of(key));
	if (!value.option) {
		unknown_key(build, instance, line, slice_of(key));
		return;
	}
	before = instance_setting(instance, key);
	if (before && !(value.option->flags & OPTION_REPEATABLE)) {
		build_fail(build, instance, line, "%s is given twice; the first is in %s", key,
			build_where(build, before->line, line));
		return;
	}
	if (!before)
		clear_list(value.option, instance->object);
	setting = arena_alloc(build->arena, sizeof(*setting));
	*setting = (struct setting){
		value.option, arena_text(build->arena, slice_of(text)), line, false, NULL};
	*instance->settings_tail = setting;
	instance->settings_tail = &setting->next;
	setting->wrong = !take_value(&value, setting->text);
}

static void skip_line(void *user, unsigned line, bool section)
{
	struct build *build = user;

	(void)line;
	if (section) {
		build->section_wrong = true;
		build->outside = false;
		build->current = NULL;
	} else if (build->current) {
		build->current->unclear = true;
	}
}

/* ---- all of it ---- */

static size_t count_instances(const struct build *build, enum section_id id)
{
	size_t count = 0;

	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next)
		count += instance->section->id == id;
	return count;
}

/* The sections' structs in one array, in file order; instances point into it from now on. */
static void *collect(struct build *build, enum section_id id, size_t *count)
{
	size_t size = option_sections[id].size;
	char *array = arena_alloc(build->arena, (*count = count_instances(build, id)) * size);
	char *next = array;

	for (struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		if (instance->section->id != id)
			continue;
		memcpy(next, instance->object, size);
		instance->object = next;
		next += size;
	}
	return array;
}

/* Both roles of TLS between nodes. */
static void set_links_tls(struct build *build, struct conf_tls *links, struct conf_listener *own)
{
	struct conf_listener_tls *tls = &own->tls;
	const char **files = arena_alloc(build->arena, 2 * sizeof(*files));

	links->verifies = true;
	tls->versions = links->versions = CONF_TLS_1_3;
	files[0] = links->certificate;
	files[1] = links->key ? links->key : links->certificate;
	tls->certificates = (struct conf_text_list){&files[0], 1};
	tls->certificate_keys = (struct conf_text_list){&files[1], 1};
	tls->client_ca = links->ca;
	tls->client_crl = links->crl;
}

/* Where other nodes connect is a listener of its own, which takes what any of the others takes. */
static void add_internal_listener(struct build *build)
{
	struct conf *conf = build->conf;
	struct value value = {.build = build};
	struct conf_listener *all;

	if (!conf->fleet.bind)
		return;
	all = arena_alloc(build->arena, (conf->listener_count + 1) * sizeof(*all));
	if (conf->listener_count > 0)
		memcpy(all, conf->listeners, conf->listener_count * sizeof(*all));
	struct conf_listener *own = &all[conf->listener_count];
	value_set_defaults(&value, &option_sections[SECTION_LISTENER], own);
	own->name = "[fleet]";
	own->line = conf->fleet.bind->line;
	own->binds = conf->fleet.bind;
	own->bind_count = 1;
	own->is_internal = true;
	own->pipeline_depth = 1;
	own->protocols = CONF_PROTOCOL_HTTP1;
	if (conf->fleet.links.certificate)
		set_links_tls(build, &conf->fleet.links, own);
	for (size_t i = 0; i < conf->listener_count; i++) {
		if (own->max_header_bytes < all[i].max_header_bytes + HOP_FIELDS_BYTES)
			own->max_header_bytes = all[i].max_header_bytes + HOP_FIELDS_BYTES;
		if (all[i].tls.client_ca)
			own->max_header_bytes += CLIENT_CERT_BYTES;
		if (own->max_uri_bytes < all[i].max_uri_bytes)
			own->max_uri_bytes = all[i].max_uri_bytes;
		if (own->max_fields < all[i].max_fields + 10)
			own->max_fields = all[i].max_fields + 10;
	}
	conf->listeners = all;
	conf->listener_count++;
}

static void collect_all(struct build *build)
{
	struct conf *conf = build->conf;

	conf->listeners = collect(build, SECTION_LISTENER, &conf->listener_count);
	conf->upstreams = collect(build, SECTION_UPSTREAM, &conf->upstream_count);
	conf->matches.items = collect(build, SECTION_MATCH, &conf->matches.count);
	conf->limits = collect(build, SECTION_LIMIT, &conf->limit_count);
	conf->plans = collect(build, SECTION_PLAN, &conf->plan_count);
	conf->fleet.semaphores.items =
		collect(build, SECTION_SEMAPHORE, &conf->fleet.semaphores.count);
	conf->routes = collect(build, SECTION_ROUTE, &conf->route_count);
	for (struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		switch (instance->section->id) {
		case SECTION_LISTENER:
			((struct conf_listener *)instance->object)->name = instance->name;
			((struct conf_listener *)instance->object)->line = instance->line;
			break;
		case SECTION_UPSTREAM:
			((struct conf_upstream *)instance->object)->name = instance->name;
			((struct conf_upstream *)instance->object)->line = instance->line;
			break;
		case SECTION_MATCH:
			((struct conf_match *)instance->object)->name = instance->name;
			((struct conf_match *)instance->object)->line = instance->line;
			break;
		case SECTION_LIMIT:
			((struct conf_limit *)instance->object)->name = instance->name;
			((struct conf_limit *)instance->object)->line = instance->line;
			break;
		case SECTION_PLAN:
			((struct conf_plan *)instance->object)->name = instance->name;
			((struct conf_plan *)instance->object)->line = instance->line;
			break;
		case SECTION_SEMAPHORE:
			((struct conf_semaphore *)instance->object)->name = instance->name;
			((struct conf_semaphore *)instance->object)->line = instance->line;
			break;
		case SECTION_ROUTE:
			((struct conf_route *)instance->object)->name = instance->name;
			((struct conf_route *)instance->object)->line = instance->line;
			break;
		case SECTION_SLUICE:
		case SECTION_ADMIN:
		case SECTION_SERVER:
		case SECTION_PLANS:
		case SECTION_FLEET:
		case SECTIONS:
			break;
		}
	}
	add_internal_listener(build);
	for (unsigned i = 0; i < conf->upstream_count; i++)
		conf->upstreams[i].index = i;
	for (unsigned i = 0; i < conf->matches.count; i++)
		conf->matches.items[i].index = i;
	for (unsigned i = 0; i < conf->limit_count; i++)
		conf->limits[i].index = i;
}

/* A client of [admin] reads past what is wrong in other sections. */
static bool ignores_section(void *user)
{
	const struct build *build = user;

	return build->only_admin &&
	       !(build->current && build->current->section->id == SECTION_ADMIN);
}

static const struct reader_handler build_handler = {
	begin_section, take_setting, skip_line, NULL, ignores_section};

void build_read_file(struct build *build, const char *path, struct slice text)
{
	struct reader_handler handler = build_handler;

	handler.user = build;
	lines_begin(&build->lines, build->arena, path, 1);
	reader_run(text, path, &build->lines.last, &handler, build->errors);
}

void build_take(struct build *build, build_feed *feed, void *ctx)
{
	struct reader_handler handler = build_handler;

	handler.user = build;
	build->outside = true;
	/* A file need not have [sluice] for its defaults to count. */
	build->top = add_instance(build, &option_sections[SECTION_SLUICE], 0, SLICE(""));
	feed(build, &handler, ctx);
	collect_all(build);
}
