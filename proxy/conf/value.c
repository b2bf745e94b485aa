/* Scalars: numbers, sizes, durations, words, names. See value.h. */
#include "base/processors.h"
#include "conf/foreign.h"
#include "conf/same.h"
#include "conf/value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- errors ---- */

static void list_words(const struct option_word *words, char *out, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; words[i].word && used < size; i++) {
		const char *before = i == 0 ? "" : words[i + 1].word ? ", " : " or ";

		used += (size_t)snprintf(out + used, size - used, "%s%s", before, words[i].word);
	}
}

bool scan_comment(struct slice text)
{
	for (size_t i = 1; i < text.len; i++)
		if (text.at[i] == '#' && (text.at[i - 1] == ' ' || text.at[i - 1] == '\t'))
			return true;
	return false;
}

const char *value_hint(struct slice text)
{
	if (scan_comment(text))
		return "; only ';' begins a comment after a value";
	if (text.len > 0 && memchr(text.at, ';', text.len))
		return "; ';' begins a comment only after a blank";
	if (foreign_is_variable(text))
		return "; a variable of the environment is written ${NAME}";
	return scan_is_quoted(text) ? "; values are written without quotes" : "";
}

/* After a message that holds a value: how the file has it. */
#define WRITTEN_ARGS(value)                                                                        \
	(value)->written ? "; the line has " : "", (value)->written ? (value)->written : ""

static void say(struct value *value, const char *format, va_list args, bool with_expected)
	__attribute__((format(printf, 2, 0)));

static void say(struct value *value, const char *format, va_list args, bool with_expected)
{
	char text[1024], expected[256];
	int len = vsnprintf(text, sizeof(text), format, args);

	if (with_expected && len >= 0 && (size_t)len < sizeof(text)) {
		const char *what = value->option->type->expected;

		if (value->option->words) {
			list_words(value->option->words, expected, sizeof(expected));
			what = expected;
		}
		snprintf(text + len, sizeof(text) - (size_t)len, "; expected %s", what);
	}
	build_fail(value->build, value->instance, value->line, "%s: %s%s%s%s", value->option->name,
		text, value_hint(value->text), WRITTEN_ARGS(value));
}

bool value_fail(struct value *value, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(value, format, args, true);
	va_end(args);
	return false;
}

bool value_fail_plainly(struct value *value, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(value, format, args, false);
	va_end(args);
	return false;
}

void value_warn(struct value *value, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	build_warn(value->build, value->instance, value->line, "%s: %s%s%s%s", value->option->name,
		text, value_hint(value->text), WRITTEN_ARGS(value));
}

bool value_in_bounds(struct value *value, uint64_t number)
{
	const struct option *option = value->option;
	char low[32], high[32];

	if (option->max == 0 || (number >= option->min && number <= option->max))
		return true;
	option_bound_text(option, option->min, low, sizeof(low));
	option_bound_text(option, option->max, high, sizeof(high));
	return value_fail_plainly(value, "%.*s is out of bounds; expected %s to %s",
		SLICE_ARGS(value->text), low, high);
}

/* ---- scanning ---- */

bool scan_number_before(struct slice *text, uint64_t *number)
{
	uint64_t sum = 0;
	size_t i = 0;

	for (; i < text->len && text->at[i] >= '0' && text->at[i] <= '9'; i++) {
		if (__builtin_mul_overflow(sum, 10, &sum) ||
			__builtin_add_overflow(sum, (uint64_t)(text->at[i] - '0'), &sum))
			return false;
	}
	if (i == 0)
		return false;
	*number = sum;
	text->at += i;
	text->len -= i;
	return true;
}

bool scan_digits(struct slice text, uint64_t *number)
{
	return scan_number_before(&text, number) && text.len == 0;
}

static bool scan_scaled(struct slice text, uint64_t thousand, uint64_t *number)
{
	uint64_t scale = 1;

	if (!scan_number_before(&text, number) || text.len > 1)
		return false;
	switch (text.len ? text.at[0] : ' ') {
	case 'G':
		scale *= thousand;
		/* fall through */
	case 'M':
		scale *= thousand;
		/* fall through */
	case 'k':
	case 'K':
		scale *= thousand;
		/* fall through */
	case ' ':
		return !__builtin_mul_overflow(*number, scale, number);
	default:
		return false;
	}
}

bool scan_count(struct slice text, uint64_t *count)
{
	return scan_scaled(text, 1000, count);
}

bool scan_size(struct slice text, uint64_t *bytes)
{
	return scan_scaled(text, 1024, bytes);
}

bool scan_duration_ms(struct slice text, uint64_t *ms)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {
		{"d", 86400000},
		{"h", 3600000},
		{"m", 60000},
		{"s", 1000},
		{"ms", 1},
	};
	size_t next = 0;

	if (slice_equal(text, SLICE("0"))) {
		*ms = 0;
		return true;
	}
	*ms = 0;
	do { /* larger units first: 1h30m */
		uint64_t number;
		size_t unit_len = 0, unit;

		if (!scan_number_before(&text, &number))
			return false;
		while (unit_len < text.len && text.at[unit_len] >= 'a' && text.at[unit_len] <= 'z')
			unit_len++;
		for (unit = next; unit < 5; unit++)
			if (slice_equal(
				    (struct slice){text.at, unit_len}, slice_of(units[unit].unit)))
				break;
		if (unit == 5 || __builtin_mul_overflow(number, units[unit].ms, &number) ||
			__builtin_add_overflow(*ms, number, ms))
			return false;
		text.at += unit_len;
		text.len -= unit_len;
		next = unit + 1;
	} while (text.len > 0);
	return true;
}

bool scan_word(const struct option_word *words, struct slice text, unsigned *value)
{
	for (; words->word; words++) {
		if (slice_equal(text, slice_of(words->word))) {
			*value = words->value;
			return true;
		}
	}
	return false;
}

bool scan_next_token(struct slice *rest, struct slice *token)
{
	*rest = slice_trim(*rest);
	token->at = rest->at;
	token->len = 0;
	while (token->len < rest->len && token->at[token->len] != ' ' &&
		token->at[token->len] != '\t')
		token->len++;
	rest->at += token->len;
	rest->len -= token->len;
	return token->len > 0;
}

bool scan_is_token(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		bool alphanumeric =
			(c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!alphanumeric && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return text.len > 0;
}

bool scan_is_switch(struct slice text)
{
	static const char *const words[] = {
		"on", "off", "yes", "no", "true", "false", "none", "any", "all", "auto", "*"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (slice_equal_nocase(text, slice_of(words[i])))
			return true;
	return false;
}

bool value_fail_url(struct value *value, struct slice text, bool has_port)
{
	bool is_tls = text.len > 6 && strncasecmp(text.at, "https:", 6) == 0;
	const char *at = memmem(text.at, text.len, "://", 3);
	struct slice bare = {at + 3, text.len - (size_t)(at + 3 - text.at)};

	for (size_t i = 0; i < bare.len; i++)
		if (bare.at[i] == '/' || (bare.at[i] == ':' && !has_port))
			bare.len = i;
	if (has_port && !memchr(bare.at, ':', bare.len))
		bare.len = 0;
	return value_fail_plainly(value, "\"%.*s\" is a URL; expected %s%s%.*s%s", SLICE_ARGS(text),
		value->option->type->expected, bare.len > 0 ? ", here " : "", SLICE_ARGS(bare),
		is_tls ? "; this version speaks HTTP/1.1 without TLS" : "");
}

bool scan_is_url(struct slice text)
{
	return memmem(text.at, text.len, "://", 3) != NULL;
}

bool scan_is_quoted(struct slice text)
{
	return text.len > 0 && (text.at[0] == '"' || text.at[0] == '\'');
}

char *value_text(struct value *value, struct slice text)
{
	return arena_text(value->build->arena, text);
}

void value_list_add(struct value *value, struct conf_text_list *list, const char *text)
{
	list->items = arena_grow(
		value->build->arena, (void *)list->items, list->count, sizeof(*list->items));
	list->items[list->count++] = text;
}

/* ---- types ---- */

static bool is_letters(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((text.at[i] | 0x20) < 'a' || (text.at[i] | 0x20) > 'z')
			return false;
	return text.len > 0;
}

/* A number that can't be read: mostly it is the unit that is not ours. */
static bool fail_number(struct value *value, bool (*scan)(struct slice, uint64_t *))
{
	struct slice text = value->text, unit = text;
	char one[16];
	uint64_t number;

	if (!scan_number_before(&unit, &number))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(text));
	const char *meant = scan == scan_size ? foreign_size(value->build->arena, text) : NULL;
	if (meant)
		return value_fail_plainly(
			value, "invalid size \"%.*s\", did you mean %s?", SLICE_ARGS(text), meant);
	if (unit.len == 0)
		return value_fail(value, "invalid value \"%.*s\": no unit", SLICE_ARGS(text));
	if (memchr(unit.at, ' ', unit.len) || memchr(unit.at, '\t', unit.len))
		return value_fail(value, "invalid value \"%.*s\": a blank in it", SLICE_ARGS(text));
	snprintf(one, sizeof(one), "1%.*s", SLICE_ARGS(unit));
	if (is_letters(unit) && !scan(slice_of(one), &number))
		return value_fail(value, "invalid value \"%.*s\": unknown unit \"%.*s\"",
			SLICE_ARGS(text), SLICE_ARGS(unit));
	return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(text));
}

static bool read_number(
	struct value *value, bool (*scan)(struct slice, uint64_t *), uint64_t *number)
{
	if (!scan(value->text, number))
		return fail_number(value, scan);
	return value_in_bounds(value, *number);
}

static bool store32(struct value *value, bool (*scan)(struct slice, uint64_t *))
{
	uint64_t number;

	if (!read_number(value, scan, &number))
		return false;
	if (number > UINT32_MAX)
		return value_fail_plainly(value, "%.*s is out of bounds; expected at most %u",
			SLICE_ARGS(value->text), UINT32_MAX);
	*(uint32_t *)value->at = (uint32_t)number;
	return true;
}

static bool parse_count32(struct value *value)
{
	return store32(value, scan_count);
}

static bool parse_count64(struct value *value)
{
	return read_number(value, scan_count, value->at);
}

static bool parse_size32(struct value *value)
{
	return store32(value, scan_size);
}

static bool parse_size64(struct value *value)
{
	return read_number(value, scan_size, value->at);
}

static bool parse_duration(struct value *value)
{
	return read_number(value, scan_duration_ms, value->at);
}

static const struct option_word flag_words[] = {
	{"on", 1}, {"off", 0}, {"yes", 1}, {"no", 0}, {"true", 1}, {"false", 0}, {NULL, 0}};

static bool parse_flag(struct value *value)
{
	unsigned on;

	if (!scan_word(flag_words, value->text, &on))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	*(bool *)value->at = on;
	return true;
}

static bool read_word(struct value *value, unsigned *chosen)
{
	struct near_miss near = {.word = value->text};

	if (scan_word(value->option->words, value->text, chosen))
		return true;
	for (const struct option_word *word = value->option->words; word->word; word++)
		near_miss_offer(&near, word->word);
	if (near.best)
		return value_fail(value, "unknown word \"%.*s\" (did you mean \"%s\"?)",
			SLICE_ARGS(value->text), near.best);
	return value_fail(value, "unknown word \"%.*s\"", SLICE_ARGS(value->text));
}

static bool parse_word(struct value *value)
{
	unsigned chosen;

	if (!read_word(value, &chosen))
		return false;
	memcpy(value->at, &chosen, sizeof(chosen)); /* enums have the size of unsigned */
	return true;
}

/* Each word of a list is a bit. */
static bool parse_words(struct value *value)
{
	struct slice rest = value->text, item;
	uint64_t *bits = value->at;

	while (slice_next_element(&rest, &item)) {
		struct value one = *value;
		unsigned bit;
		one.text = item;
		if (!read_word(&one, &bit))
			return false;
		*bits |= bit;
	}
	return *bits != 0 || value_fail(value, "no word");
}

static bool parse_choice(struct value *value)
{
	unsigned chosen;

	if (!read_word(value, &chosen))
		return false;
	*(bool *)value->at = chosen;
	return true;
}

static bool parse_text(struct value *value)
{
	*(const char **)value->at = value_text(value, value->text);
	return true;
}

static bool parse_token(struct value *value)
{
	if (!scan_is_token(value->text))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	return parse_text(value);
}

static bool parse_token_or_off(struct value *value)
{
	if (slice_equal(value->text, SLICE("off"))) {
		*(const char **)value->at = NULL;
		return true;
	}
	if (scan_is_switch(value->text))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	return parse_token(value);
}

static bool parse_workers(struct value *value)
{
	unsigned count;

	if (!slice_equal(value->text, SLICE("auto")))
		return parse_count32(value);
	count = processors_usable(value->build->names_files ? "" : NULL);
	if (count > value->option->max)
		count = (unsigned)value->option->max;
	*(unsigned *)value->at = count;
	return true;
}

void value_add_reference(struct value *value, struct slice name)
{
	struct instance *instance = value->instance;

	instance->references = arena_grow(value->build->arena, instance->references,
		instance->reference_count, sizeof(*instance->references));
	instance->references[instance->reference_count++] =
		(struct reference){value->option, value_text(value, name), value->line};
}

static bool parse_reference(struct value *value)
{
	value_add_reference(value, value->text);
	return true;
}

bool value_parse_references(struct value *value)
{
	struct slice rest = value->text, name;

	while (slice_next_element(&rest, &name))
		value_add_reference(value, name);
	return true;
}

const struct option_type type_count32 = {
	"number", "a number such as 100, 10k or 1M", parse_count32, NULL, false};
const struct option_type type_count64 = {
	"number", "a number such as 100, 10k or 1M", parse_count64, NULL, false};
const struct option_type type_size32 = {
	"size", "a size such as 512, 16k or 1M", parse_size32, NULL, false};
const struct option_type type_size64 = {
	"size", "a size such as 512, 16k or 1M", parse_size64, NULL, false};
const struct option_type type_duration = {
	"duration", "a duration such as 500ms, 10s, 1h30m or 7d", parse_duration, NULL, false};
const struct option_type type_flag = {
	"flag", "on or off (or yes, no, true, false)", parse_flag, NULL, false};
const struct option_type type_word = {"word", "one of the words", parse_word, NULL, false};
const struct option_type type_words = {
	"list of words", "words of the list", parse_words, NULL, true};
const struct option_type type_choice = {"word", "one of the words", parse_choice, NULL, false};
const struct option_type type_text = {"text", "a text", parse_text, same_text, false};
const struct option_type type_workers = {"number", "a number or auto", parse_workers, NULL, false};
const struct option_type type_token = {
	"name", "a name of letters, digits and -._", parse_token, same_text, false};
const struct option_type type_token_or_off = {
	"name", "a name of letters, digits and -._, or off", parse_token_or_off, same_text, false};
const struct option_type type_reference = {"name", "NAME", parse_reference, same_reference, false};
const struct option_type type_references = {
	"list of names", "names, with commas", value_parse_references, same_references, false};
