/* See reference.h. */
#include "conf/reference.h"

#include <string.h>

#include "conf/build.h"
#include "conf/options.h"

static void print_title(const struct option_section *section, const char *name, FILE *out)
{
	if (section->id == SECTION_SERVER)
		fprintf(out, "server = ADDRESS ...\n");
	else
		fprintf(out, "[%s%s%s]\n", section->kind, *name ? " " : "", name);
}

void reference_print_type(const struct option *option, FILE *out)
{
	char low[32], high[32];

	if (option->words) {
		for (const struct option_word *word = option->words; word->word; word++)
			fprintf(out, "%s%s", word == option->words ? "" : " | ", word->word);
		return;
	}
	fputs(option->type->name, out);
	if (option->max > 0) {
		option_bound_text(option, option->min, low, sizeof(low));
		option_bound_text(option, option->max, high, sizeof(high));
		fprintf(out, ", %s to %s", low, high);
	}
}

static void print_presence(
	const struct option *option, const char *quote, const char *unquote, FILE *out)
{
	if (option->fallback)
		fprintf(out, "default %s%s%s", quote, option->fallback, unquote);
	else
		fputs(option->flags & OPTION_REQUIRED ? "required" : "no default", out);
	if (option->flags & OPTION_REPEATABLE)
		fputs(", repeatable", out);
}

void reference_print_text(FILE *out)
{
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];

		if (i > 0)
			fputc('\n', out);
		print_title(section, section->named ? "NAME" : "", out);
		fprintf(out, "    %s\n", section->help);
		for (size_t j = 0; j < *section->option_count; j++) {
			const struct option *option = &section->options[j];

			fprintf(out, "\n  %s (", option->name);
			reference_print_type(option, out);
			fputs("; ", out);
			print_presence(option, "", "", out);
			fprintf(out, ")\n    %s\n", option->help);
		}
	}
}

/* ---- dump ---- */

/* URLs without the passwords in them; the names of variables are no passwords. */
static void print_urls(const char *text, FILE *out)
{
	struct slice rest = slice_of(text), url;

	while (slice_next_element(&rest, &url)) {
		const char *at = memrchr(url.at, '@', url.len);
		const char *user = memmem(url.at, url.len, "://", 3);
		const char *colon =
			at && user ? memchr(user + 3, ':', (size_t)(at - user - 3)) : NULL;

		if (url.at != text)
			fputs(", ", out);
		if (colon && !(colon[1] == '$' && at[-1] == '}'))
			fprintf(out, "%.*s:***%.*s", (int)(colon - url.at), url.at,
				(int)(url.at + url.len - at), at);
		else
			fprintf(out, "%.*s", SLICE_ARGS(url));
	}
}

/* Sections of included files are written out, so `include` is not. */
static void dump_option(const struct instance *instance, const struct option *option, FILE *out)
{
	const char *off = option->type == &type_include ? ";" : "";
	bool written = false;

	for (const struct setting *setting = instance ? instance->settings : NULL; setting;
		setting = setting->next) {
		if (setting->option != option)
			continue;
		fprintf(out, "%s%s = ", off, option->name);
		if (option->flags & OPTION_URL)
			print_urls(setting->text, out);
		else
			fputs(setting->text, out);
		fputc('\n', out);
		written = true;
	}
	if (!written && option->fallback)
		fprintf(out, "%s = %s\n", option->name, option->fallback);
	else if (!written)
		fprintf(out, ";%s =\n", option->name);
}

/* A key that the section can't have beside another it has, when its default is written out. */
static bool excluded(const struct instance *instance, const struct option *option)
{
	const struct conf_limit *limit;

	if (!instance || instance_setting(instance, option->name))
		return false;
	if (option->needs.fails && !check_has_effect(instance, option))
		return true;
	if (instance->section->id != SECTION_LIMIT)
		return false;
	limit = instance->object;
	if (strcmp(option->name, "burst") == 0)
		return limit->algorithm != CONF_LIMIT_GCRA;
	if (strcmp(option->name, "precision") == 0)
		return limit->algorithm != CONF_LIMIT_RING;
	if (strcmp(option->name, "algorithm") == 0)
		return limit->algorithm == CONF_LIMIT_CALENDAR ||
		       limit->algorithm == CONF_LIMIT_CONCURRENCY;
	if (strcmp(option->name, "on_exceed") == 0 || strcmp(option->name, "count_refused") == 0)
		return limit->algorithm == CONF_LIMIT_CONCURRENCY;
	return false;
}

static void dump_section(const struct option_section *section, const struct instance *instance,
	const char *name, FILE *out)
{
	print_title(section, name, out);
	for (size_t i = 0; i < *section->option_count; i++)
		if (!excluded(instance, &section->options[i]))
			dump_option(instance, &section->options[i], out);
	fputc('\n', out);
}

void reference_dump(const struct conf *conf, FILE *out)
{
	const struct instance *first = conf->source->instances;
	bool has_sluice = false;

	for (const struct instance *instance = first; instance; instance = instance->next)
		has_sluice = has_sluice || instance->section->id == SECTION_SLUICE;
	if (!has_sluice)
		dump_section(&option_sections[SECTION_SLUICE], NULL, "", out);
	for (const struct instance *instance = first; instance; instance = instance->next)
		dump_section(instance->section, instance, instance->name, out);
}

/* ---- one by one ---- */

/* Cuts what may hold a credential: the value of a field to set, a query, the user of a URL. */
static const char *mask(const struct option *option, const char *text, char *room, size_t size)
{
	const char *host = option->flags & OPTION_URL ? strrchr(text, '@') : NULL;
	const char *colon = host ? strchr(text, ':') : NULL;

	if (host) {
		snprintf(room, size, "%.*s%s***%s", (int)(colon ? colon - text : 0), text,
			colon ? "://" : "", host);
		return room;
	}
	const char *end = option->flags & OPTION_SECRET  ? strchr(text, ':')
			  : option->flags & OPTION_QUERY ? strchr(text, '?')
							 : NULL;

	if (!end)
		return text;
	snprintf(room, size, "%.*s%s***", (int)(end - text) + 1, text, *end == ':' ? " " : "");
	return room;
}

static void visit_option(const struct instance *instance, const struct option *option,
	void (*visit)(void *ctx, const struct reference_setting *setting), void *ctx)
{
	char room[1024];
	struct reference_setting found = {
		.kind = instance->section->kind,
		.name = instance->name,
		.key = option->name,
		.repeatable = option->flags & OPTION_REPEATABLE,
	};

	for (const struct setting *s = instance->settings; s; s = s->next) {
		if (s->option != option)
			continue;
		found.text = mask(option, s->text, room, sizeof(room));
		visit(ctx, &found);
	}
	if (!found.text && option->fallback) {
		found.text = option->fallback;
		found.is_default = true;
		visit(ctx, &found);
	}
}

static void visit_section(const struct instance *instance,
	void (*visit)(void *ctx, const struct reference_setting *setting), void *ctx)
{
	const struct option_section *section = instance->section;

	for (size_t i = 0; i < *section->option_count; i++) {
		if (!excluded(instance, &section->options[i]))
			visit_option(instance, &section->options[i], visit, ctx);
	}
}

void reference_each(const struct conf *conf,
	void (*visit)(void *ctx, const struct reference_setting *setting), void *ctx)
{
	const struct instance sluice = {.section = &option_sections[SECTION_SLUICE], .name = ""};
	const struct instance *first = conf->source->instances;
	bool has_sluice = false;

	for (const struct instance *instance = first; instance; instance = instance->next)
		has_sluice = has_sluice || instance->section->id == SECTION_SLUICE;
	if (!has_sluice)
		visit_section(&sluice, visit, ctx);
	for (const struct instance *instance = first; instance; instance = instance->next)
		visit_section(instance, visit, ctx);
}
