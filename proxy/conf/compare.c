/* Comparing snapshots. See compare.h. */
#include "conf/compare.h"

#include <stdio.h>
#include <string.h>

#include "conf/build.h"
#include "conf/same.h"

struct comparison {
	enum conf_compare which;
	void (*report)(const void *user, const struct conf_change *change);
	const void *user;
};

static const struct instance *find(
	const struct conf *conf, const struct option_section *section, const char *name)
{
	const struct instance *instance = conf->source->instances;

	while (instance && (instance->section != section || strcmp(instance->name, name) != 0))
		instance = instance->next;
	return instance;
}

static void report(const struct comparison *comparison, const struct instance *instance,
	struct conf_change change)
{
	char title[128];

	snprintf(title, sizeof(title), "[%s%s%s]", instance->section->kind,
		*instance->name ? " " : "", instance->name);
	change.title = title;
	comparison->report(comparison->user, &change);
}

static void compare(const struct comparison *comparison, const struct instance *before,
	const struct instance *now)
{
	const struct option_section *section = now->section;

	for (size_t i = 0; i < *section->option_count; i++) {
		const struct option *option = &section->options[i];
		const struct setting *setting = instance_setting(now, option->name);
		bool at_start = option->reload == RELOAD_START;
		if (at_start != (comparison->which == CONF_COMPARE_START) ||
			option_same(option, before->object, now->object))
			continue;
		report(comparison, now,
			(struct conf_change){CONF_CHANGE_SET, NULL, option,
				setting ? setting->line : now->line});
	}
}

void conf_compare(const struct conf *before, const struct conf *now, enum conf_compare which,
	void (*report_to)(const void *user, const struct conf_change *change), const void *user)
{
	const struct comparison comparison = {which, report_to, user};
	bool whole = which == CONF_COMPARE_LIVE;

	for (const struct instance *i = now->source->instances; i; i = i->next) {
		const struct instance *other = find(before, i->section, i->name);
		if (other)
			compare(&comparison, other, i);
		else if (whole)
			report(&comparison, i,
				(struct conf_change){CONF_CHANGE_ADDED, NULL, NULL, i->line});
	}
	for (const struct instance *i = before->source->instances; whole && i; i = i->next) {
		if (!find(now, i->section, i->name))
			report(&comparison, i,
				(struct conf_change){CONF_CHANGE_REMOVED, NULL, NULL, 0});
	}
}
