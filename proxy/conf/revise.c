#include "conf/revise.h"

#include <string.h>

#include "conf/build.h"
#include "conf/errors.h"

struct replay {
	const struct conf *base;
	const struct conf_revision *revisions;
	size_t count;
	struct conf_errors *errors;
};

static bool is_of(const struct conf_revision *revision, const struct instance *instance)
{
	return strcmp(revision->kind, instance->section->kind) == 0 &&
	       strcmp(revision->name, instance->name) == 0;
}

static const struct conf_revision *revision_of(
	const struct replay *replay, const struct instance *instance, const char *key)
{
	for (size_t i = 0; i < replay->count; i++) {
		if (is_of(&replay->revisions[i], instance) &&
			strcmp(replay->revisions[i].key, key) == 0)
			return &replay->revisions[i];
	}
	return NULL;
}

static void give_settings(const struct replay *replay, const struct instance *instance,
	const struct reader_handler *handler)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next) {
		if (!revision_of(replay, instance, setting->option->name))
			handler->setting(
				handler->user, setting->line, setting->option->name, setting->text);
	}
	for (size_t i = 0; i < replay->count; i++) {
		const struct conf_revision *revision = &replay->revisions[i];
		if (is_of(revision, instance) && revision->text)
			handler->setting(handler->user, 0, revision->key, revision->text);
	}
}

/* Lines keep their numbers and files. */
static void copy_lines(struct build *build, const struct conf_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++) {
		const struct line_run *run = &lines->runs[i];
		build->lines.last = run->first - 1;
		lines_begin(&build->lines, build->arena,
			arena_text(build->arena, slice_of(run->place.path)), run->place.line);
	}
	build->lines.last = lines->last;
}

static void give_sections(struct build *build, const struct reader_handler *handler, void *ctx)
{
	const struct replay *replay = ctx;
	const struct instance *instance = replay->base->source->instances;
	struct instance sluice = {.section = &option_sections[SECTION_SLUICE], .name = ""};
	bool has_sluice = true;

	for (size_t i = 0; i < replay->count; i++)
		has_sluice &= !is_of(&replay->revisions[i], &sluice);

	build->is_revision = true;
	copy_lines(build, &replay->base->source->lines);
	for (; instance; instance = instance->next) {
		build->folder = instance->folder
					? arena_text(build->arena, slice_of(instance->folder))
					: NULL;
		handler->section(handler->user, instance->line, slice_of(instance->section->kind),
			slice_of(instance->name));
		give_settings(replay, instance, handler);
		has_sluice |= instance->section->id == SECTION_SLUICE;
	}
	if (!has_sluice) {
		handler->section(handler->user, 0, slice_of(sluice.section->kind), SLICE(""));
		give_settings(replay, &sluice, handler);
	}
}

/* [sluice] is there also when the file does not have it. */
static const struct option_section *section_of(
	const struct conf *conf, const struct conf_revision *revision)
{
	const struct instance *instance = conf->source->instances;

	while (instance && !is_of(revision, instance))
		instance = instance->next;
	if (instance)
		return instance->section;
	return strcmp(revision->kind, "sluice") == 0 ? &option_sections[SECTION_SLUICE] : NULL;
}

/* One line, without control characters, that no comment cuts short. Nor with variables: messages
 * about a value show it. */
static bool is_value(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > 4096 || strstr(text, "${") || text[0] == ';' || text[0] == '#' ||
		strchr(" \t", text[0]) || strchr(" \t", text[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f ||
			(i > 0 && text[i] == ';' && strchr(" \t", text[i - 1])))
			return false;
	}
	return true;
}

/* Warns of a revision without effect, or with one that was hardly meant. */
static void check_revision(const struct replay *replay, const struct conf_revision *revision)
{
	const struct option_section *section = section_of(replay->base, revision);
	const struct option *option;

	if (!section) {
		conf_errors_add(replay->errors, replay->base->path, 0, "there is no [%s%s%s]",
			revision->kind, *revision->name ? " " : "", revision->name);
		return;
	}
	option = option_find(section, slice_of(revision->key));
	if (!option)
		conf_errors_add(replay->errors, replay->base->path, 0, "[%s%s%s] has no key \"%s\"",
			revision->kind, *revision->name ? " " : "", revision->name, revision->key);
	else if (option->flags & OPTION_REPEATABLE)
		conf_errors_add(replay->errors, replay->base->path, 0,
			"%s is repeatable; only the file can change it", revision->key);
	else if (revision->text && !is_value(revision->text))
		conf_errors_add(replay->errors, replay->base->path, 0,
			"%s: the value is not one that a line of a file can have", revision->key);
}

/* Sections in which the file says something else. Both lists have the same order. */
static void mark_revised(const struct replay *replay, struct conf *conf)
{
	const struct instance *before = replay->base->source->instances;

	for (struct instance *now = conf->source->instances; now; now = now->next) {
		now->revised = before && before->revised;
		for (size_t i = 0; i < replay->count; i++)
			now->revised |= is_of(&replay->revisions[i], now);
		before = before ? before->next : NULL;
	}
}

struct conf *conf_revise(const struct conf *base, const struct conf_revision *revisions,
	size_t count, struct conf_errors *errors)
{
	struct replay replay = {base, revisions, count, errors};
	struct conf *conf = NULL;

	*errors = (struct conf_errors){0};
	for (size_t i = 0; i < count; i++)
		check_revision(&replay, &revisions[i]);
	if (errors->count == 0 && !errors->incomplete)
		conf = conf_build(base->path, base->source->folder, give_sections, &replay, errors);
	if (conf)
		mark_revised(&replay, conf);
	return conf;
}

bool conf_is_revised(const struct conf *conf, const char *kind, const char *name)
{
	const struct conf_revision section = {.kind = kind, .name = name};
	const struct instance *instance = conf->source->instances;

	while (instance && !is_of(&section, instance))
		instance = instance->next;
	return instance && instance->revised;
}
