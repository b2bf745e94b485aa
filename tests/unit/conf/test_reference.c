/*
 * The sample ini and the man page say what the option table says: every key, with its default, and
 * no other key.
 */
#include "config.h"

#include "text.h"

#include <ctype.h>

#include "conf/options.h"
#include "conf/reference.h"
#include "tests/unit/suite.h"

/* When a new value takes effect, where it is not at once. */
static const char *effect_of(const struct option *option)
{
	switch (option->reload) {
	case RELOAD_START:
		return "A change takes effect at the next start.";
	case RELOAD_CONNECTIONS:
		return "A change takes effect for connections that become idle from then on.";
	case RELOAD_SOCKETS:
		return "A change takes effect for WebSockets that are opened from then on.";
	case RELOAD_UNSET:
	case RELOAD_LIVE:
		break;
	}
	return NULL;
}

/* A word as an argument of a macro; one that could be taken for a macro is shielded. */
static void print_word(const char *word, FILE *out)
{
	fputs(strlen(word) <= 2 ? "\\&" : "", out);
	fputs(word, out);
}

/* A line a sentence: formatters see the end of one by the end of its line (mdoc(7)). */
static void print_sentences(const char *text, FILE *out)
{
	for (; *text; text++) {
		bool ends = text[0] == '.' && text[1] == ' ' && isupper((unsigned char)text[2]);

		fputc(*text, out);
		if (ends)
			fputc('\n', out);
		text += ends;
	}
	fputc('\n', out);
}

static void print_mdoc(const struct option_section *section, FILE *out)
{
	for (size_t i = 0; i < *section->option_count; i++) {
		const struct option *option = &section->options[i];

		fprintf(out, ".It Ic %s No (", option->name);
		reference_print_type(option, out);
		fputs(")\n", out);
		print_sentences(option->help, out);
		if (option->fallback) {
			fputs("Default:\n.Ql ", out);
			print_word(option->fallback, out);
			fputs(option->flags & OPTION_REPEATABLE ? " .\nRepeatable.\n" : " .\n",
				out);
		} else if (option->flags & OPTION_REQUIRED) {
			fputs(option->flags & OPTION_REPEATABLE ? "Required; repeatable.\n"
								: "Required.\n",
				out);
		} else if (option->flags & OPTION_REPEATABLE) {
			fputs("Repeatable.\n", out);
		}
		if (effect_of(option))
			fprintf(out, "%s\n", effect_of(option));
	}
}

static char *source_path(const char *name)
{
	const char *top = getenv("top_srcdir");
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", top ? top : ".", name) > 0);
	return path;
}

static char *read_source(const char *name)
{
	char *path = source_path(name), *text = NULL;
	size_t len = 0;
	FILE *in, *out;
	int c;

	in = fopen(path, "r");
	if (!in)
		fprintf(stderr, "# can't open %s\n", path);
	assert_non_null(in);
	out = open_memstream(&text, &len);
	while ((c = getc(in)) != EOF)
		putc(c, out);
	fclose(in);
	fclose(out);
	free(path);
	return text;
}

static void write_source(const char *name, const char *text)
{
	char *path = source_path(name);
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
	free(path);
}

/* One line of the sample: a section, or a key that may be commented out. */
struct sample_line {
	bool off; /* commented out */
	char section[64], key[64], value[256];
};

static bool scan_sample_line(const char *line, struct sample_line *seen)
{
	seen->off = line[0] == ';';
	line += seen->off;
	seen->section[0] = seen->key[0] = '\0';
	if (sscanf(line, "[%63[a-z]", seen->section) == 1)
		return true;
	return islower((unsigned char)line[0]) &&
	       sscanf(line, "%63[a-z0-9_] = %255[^\n]", seen->key, seen->value) == 2;
}

/* Calls `see` with each line of interest and the section it is in. */
static void walk_sample(const char *text,
	void (*see)(
		const struct option_section *section, const struct sample_line *line, void *user),
	void *user)
{
	const struct option_section *section = NULL;

	for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
		struct sample_line line;

		if (!scan_sample_line(at, &line))
			continue;
		if (line.section[0])
			section = option_section_find(slice_of(line.section));
		assert_non_null(section);
		if (line.key[0])
			see(section, &line, user);
	}
}

struct wanted {
	const struct option_section *section;
	const struct option *option;
	unsigned found, with_default;
};

static void see_wanted(
	const struct option_section *section, const struct sample_line *line, void *user)
{
	struct wanted *wanted = user;

	if (section != wanted->section || strcmp(line->key, wanted->option->name) != 0)
		return;
	wanted->found++;
	if (wanted->option->fallback && strcmp(line->value, wanted->option->fallback) == 0)
		wanted->with_default++;
}

static void see_known(
	const struct option_section *section, const struct sample_line *line, void *user)
{
	(void)user;
	if (!option_find(section, slice_of(line->key)))
		fail_msg("the sample has %s under [%s], which is no key", line->key, section->kind);
}

/* Its default, commented out, behind the last key of the section. */
static char *add_to_sample(
	char *text, const struct option_section *section, const struct option *option)
{
	const struct option_section *current = NULL;
	const char *behind = text;
	char *longer = NULL;

	for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
		struct sample_line line;
		if (scan_sample_line(at, &line) && line.section[0])
			current = option_section_find(slice_of(line.section));
		else if (scan_sample_line(at, &line) && current == section)
			behind = strchr(at, '\n') + 1;
	}
	assert_true(asprintf(&longer, "%.*s;%s = %s\n%s", (int)(behind - text), text, option->name,
			    option->fallback, behind) > 0);
	write_source("etc/sluice.ini", longer);
	free(text);
	return longer;
}

static void the_sample_has_every_key_and_no_other(void **state)
{
	char *text = read_source("etc/sluice.ini");

	(void)state;
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];

		for (size_t j = 0; j < *section->option_count; j++) {
			struct wanted wanted = {section, &section->options[j], 0, 0};
			char *pair = NULL;

			if (i == SECTION_SERVER) {
				const char *fallback = wanted.option->fallback;
				assert_true(asprintf(&pair, " %s=%s", wanted.option->name,
						    fallback ? fallback : "") > 0);
				assert_non_null(strstr(text, pair));
				free(pair);
				continue;
			}
			walk_sample(text, see_wanted, &wanted);
			if (!wanted.found && wanted.option->fallback && getenv("WRITE_REFERENCE"))
				text = add_to_sample(text, section, wanted.option);
			else if (!wanted.found || (wanted.option->fallback && !wanted.with_default))
				fail_msg("the sample lacks %s = %s under [%s]", wanted.option->name,
					wanted.option->fallback ? wanted.option->fallback : "...",
					section->kind);
		}
	}
	walk_sample(text, see_known, NULL);
	free(text);
}

static void the_sample_is_good(void **state)
{
	char *text = read_source("etc/sluice.ini");

	(void)state;
	conf_release(parse_good(text));
	free(text);
}

static void the_sample_is_good_with_all_its_examples(void **state)
{
	char *text = read_source("etc/sluice.ini"), *to = text;

	(void)state;
	for (const char *from = text; *from; from++) {
		bool begins = from == text || from[-1] == '\n';

		if (!(begins && *from == ';' &&
			    (islower((unsigned char)from[1]) || from[1] == '[')))
			*to++ = *from;
	}
	*to = '\0';
#ifndef HAVE_REDIS
	char *fleet = strstr(text, "[fleet]"), *routes = strstr(text, "[route sockets]");
	assert_true(fleet && routes);
	memmove(fleet, routes, strlen(routes) + 1);
#endif
#if defined(HAVE_REDIS) && !defined(HAVE_RABBITMQ)
	char *semaphore = strstr(text, "[semaphore "), *behind = strstr(text, "[route sockets]");
	assert_true(semaphore && behind);
	memmove(semaphore, behind, strlen(behind) + 1);
#endif
#ifndef HAVE_WEBSOCKET
	char *sockets = strstr(text, "[route sockets]"); /* to the end: those that are read */
	assert_non_null(sockets);
	*sockets = '\0';
#endif
	conf_release(parse_good(text));
	free(text);
}

/* The page with the table's keys between `.\" keys: KIND` and `.\" end`. */
static void put_reference(const char *page, FILE *out)
{
	static const char begin[] = ".\\\" keys: ", end[] = ".\\\" end\n";

	for (const char *at = page, *mark; *at; at = mark) {
		mark = strstr(at, begin);
		if (!mark) {
			fputs(at, out);
			return;
		}
		const char *line_end = strchr(mark, '\n') + 1;
		struct slice kind = {mark + strlen(begin), strcspn(mark + strlen(begin), "\n")};
		const struct option_section *section = &option_sections[SECTION_SERVER];
		if (!slice_equal(kind, slice_of(section->kind)))
			section = option_section_find(kind);
		assert_non_null(section);
		fwrite(at, 1, (size_t)(line_end - at), out);
		print_mdoc(section, out);
		mark = strstr(line_end, end);
		assert_non_null(mark);
	}
}

static void the_man_page_holds_the_reference(void **state)
{
	char *page = read_source("etc/man/sluice.ini.5"), *expected = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&expected, &len);

	(void)state;
	put_reference(page, out);
	fclose(out);
	if (strcmp(page, expected) != 0 && getenv("WRITE_REFERENCE"))
		write_source("etc/man/sluice.ini.5", expected);
	else if (strcmp(page, expected) != 0)
		fail_msg("the man page does not have the keys of the table; run make reference");
	for (size_t i = 0; i < SECTIONS; i++) {
		char *mark = NULL;
		assert_true(asprintf(&mark, ".\\\" keys: %s\n", option_sections[i].kind) > 0);
		assert_non_null(strstr(page, mark));
		free(mark);
	}
	free(expected);
	free(page);
}

/* mdoc(7): a new sentence, a new line; what is left of several in one is set with narrow gaps. */
static void the_man_page_has_a_line_a_sentence(void **state)
{
	(void)state;
	for (size_t i = 0; i < SECTIONS; i++) {
		char *printed = NULL;
		size_t len = 0;
		FILE *out = open_memstream(&printed, &len);

		print_mdoc(&option_sections[i], out);
		fclose(out);
		for (const char *at = printed; (at = strstr(at, ". ")); at++)
			if (isupper((unsigned char)at[2]))
				fail_msg("two sentences in a line of %s: %.60s",
					option_sections[i].kind, at);
		free(printed);
	}
}

/* A default is a good value and within its bounds, or no file could be read at all. */
static void every_default_is_good(void **state)
{
	(void)state;
	conf_release(parse_good(TEXT_BASE "[plans]\nkey = ip\n[plan default]\n"));
}

static void names_and_helps_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];

		assert_int_equal(section->id, i);
		for (size_t j = 0; j < *section->option_count; j++) {
			const struct option *option = &section->options[j];

			assert_ptr_equal(option_find(section, slice_of(option->name)), option);
			assert_int_equal(option->help[strlen(option->help) - 1], '.');
			assert_true(option->min <= option->max);
			assert_true(!(option->flags & OPTION_REQUIRED) || !option->fallback);
		}
	}
}

UNIT_SUITE(test_reference)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sample_has_every_key_and_no_other),
		cmocka_unit_test(the_sample_is_good),
		cmocka_unit_test(the_sample_is_good_with_all_its_examples),
		cmocka_unit_test(the_man_page_holds_the_reference),
		cmocka_unit_test(the_man_page_has_a_line_a_sentence),
		cmocka_unit_test(every_default_is_good),
		cmocka_unit_test(names_and_helps_are_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
