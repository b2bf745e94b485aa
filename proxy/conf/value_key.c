/* Key expressions: `header:X-Api-Key + path | ip/64`. See key.h and value.h. */
#include "conf/foreign.h"
#include "conf/same.h"
#include "conf/value.h"

#include <ctype.h>
#include <string.h>

enum { NAME_BYTES = 128 };

const struct key_form key_forms[KEY_PART_KINDS] = {
	[KEY_IP] = {"ip", KEY_PLAIN},
	[KEY_IP_PREFIX] = {"ip", KEY_PREFIX},
	[KEY_HOST] = {"host", KEY_PLAIN},
	[KEY_PATH] = {"path", KEY_PLAIN},
	[KEY_METHOD] = {"method", KEY_PLAIN},
	[KEY_SCHEME] = {"scheme", KEY_PLAIN},
	[KEY_TLS_VERSION] = {"tls:version", KEY_PLAIN},
	[KEY_TLS_NAME] = {"tls:sni", KEY_PLAIN},
	[KEY_TLS_SUBJECT] = {"tls:subject", KEY_PLAIN},
	[KEY_TLS_SAN] = {"tls:san", KEY_PLAIN},
	[KEY_TLS_FINGERPRINT] = {"tls:fingerprint", KEY_PLAIN},
	[KEY_ROUTE] = {"route", KEY_PLAIN},
	[KEY_ALL] = {"all", KEY_PLAIN},
	[KEY_HEADER] = {"header", KEY_NAMED},
	[KEY_COOKIE] = {"cookie", KEY_NAMED},
	[KEY_QUERY] = {"query", KEY_NAMED},
};

static bool read_prefix(
	struct value *value, struct slice text, struct slice digits, struct key_part *part)
{
	uint64_t bits;

	if (!scan_digits(digits, &bits) || bits < 1 || bits > 128)
		return value_fail_plainly(value,
			"invalid prefix length \"%.*s\"; expected ip/1 to ip/128",
			SLICE_ARGS(text));
	part->prefix = (uint8_t)bits;
	return true;
}

/* A parameter that identifies callers is their secret: the access log leaves it out. */
static void note_query_key(struct value *value, const char *name)
{
	struct conf_text_list *keys = &value->build->conf->keys.query;

	for (size_t i = 0; i < keys->count; i++)
		if (strcmp(keys->items[i], name) == 0)
			return;
	value_list_add(value, keys, name);
}

static bool read_name(struct value *value, struct slice name, struct key_part *part)
{
	char *copy;

	if (!scan_is_token(name) || name.len > NAME_BYTES)
		return value_fail_plainly(value,
			"invalid name \"%.*s\"; expected letters, digits and -._ after the colon",
			SLICE_ARGS(name));
	copy = value_text(value, name);
	if (part->kind == KEY_HEADER)
		for (char *c = copy; *c; c++)
			*c = (char)tolower((unsigned char)*c);
	part->name = copy;
	part->name_len = name.len;
	part->is_credentials =
		part->kind == KEY_HEADER &&
		(strcmp(copy, "authorization") == 0 || strcmp(copy, "proxy-authorization") == 0);
	return true;
}

bool value_is_key_word(struct slice word)
{
	for (size_t kind = 0; kind < KEY_PART_KINDS; kind++) {
		if (slice_equal(word, slice_of(key_forms[kind].word)))
			return true;
	}
	return false;
}

/* Reads the argument behind a form's word. */
static bool read_argument(
	struct value *value, struct slice text, struct slice word, struct key_part *part)
{
	struct slice argument = {text.at + word.len + 1, text.len - word.len - 1};
	const struct key_form *form = &key_forms[part->kind];
	bool stands_alone = text.len == word.len;

	switch (form->argument) {
	case KEY_NAMED:
		if (!stands_alone)
			return read_name(value, argument, part);
		return value_fail_plainly(
			value, "\"%s\" has no name; expected %s:NAME", form->word, form->word);
	case KEY_PREFIX:
		return read_prefix(value, text, argument, part);
	case KEY_PLAIN:
		break;
	}
	return stands_alone || value_fail_plainly(value, "\"%.*s\" has a name; expected %s",
				       SLICE_ARGS(text), form->word);
}

/* The word in front of ':', or of the '/' of a form that has a prefix. */
static struct slice word_of(struct slice text, bool *has_prefix)
{
	*has_prefix = false;
	for (size_t kind = 0; kind < KEY_PART_KINDS; kind++) {
		if (slice_equal(text, slice_of(key_forms[kind].word)))
			return text; /* tls:sni is one */
	}
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] == ':')
			return (struct slice){text.at, i};
		if (text.at[i] != '/' || i + 1 == text.len)
			continue;
		for (size_t kind = 0; kind < KEY_PART_KINDS; kind++)
			*has_prefix |= key_forms[kind].argument == KEY_PREFIX &&
				       slice_equal((struct slice){text.at, i},
					       slice_of(key_forms[kind].word));
		if (*has_prefix)
			return (struct slice){text.at, i};
	}
	return text;
}

bool value_read_key_part(struct value *value, struct slice text, struct key_part *part)
{
	bool has_prefix;
	struct slice word = word_of(text, &has_prefix);
	struct near_miss near = {.word = word};

	memset(part, 0, sizeof(*part));
	for (unsigned kind = 0; kind < KEY_PART_KINDS; kind++) {
		if (has_prefix != (key_forms[kind].argument == KEY_PREFIX))
			continue;
		if (!slice_equal(word, slice_of(key_forms[kind].word))) {
			near_miss_offer(&near, key_forms[kind].word);
			continue;
		}
		part->kind = (enum key_part_kind)kind;
		value->build->conf->keys.has_tls |=
			part->kind >= KEY_TLS_VERSION && part->kind <= KEY_TLS_FINGERPRINT;
		return read_argument(value, text, word, part);
	}
	const char *meant = foreign_key_part(value->build->arena, text);
	if (meant)
		return value_fail(value, "unknown part \"%.*s\" (did you mean \"%s\"?)",
			SLICE_ARGS(text), meant);
	if (near.best)
		return value_fail(value, "unknown part \"%.*s\" (did you mean \"%s\"?)",
			SLICE_ARGS(text), near.best);
	if (text.len == 0)
		return value_fail(value, "a part is empty");
	if (memchr(text.at, ',', text.len))
		return value_fail_plainly(value,
			"a comma in a key; expected one key (to charge several, write a limit for "
			"each), '+' to join parts, '|' to fall back");
	return value_fail(value, "unknown part \"%.*s\"", SLICE_ARGS(text));
}

/* Takes what stands before the next `sign`; false when there was nothing left to take. */
static bool take_before(struct slice *rest, char sign, struct slice *taken)
{
	const char *at;

	if (!rest->at)
		return false;
	at = memchr(rest->at, sign, rest->len);
	*taken = (struct slice){rest->at, at ? (size_t)(at - rest->at) : rest->len};
	if (at)
		*rest = (struct slice){at + 1, rest->len - taken->len - 1};
	else
		*rest = SLICE_NONE;
	*taken = slice_trim(*taken);
	return true;
}

static bool read_alternative(
	struct value *value, struct slice text, struct key_alternative *alternative)
{
	struct slice rest = text, item;

	*alternative = (struct key_alternative){0};
	while (take_before(&rest, '+', &item)) {
		if (alternative->part_count == KEY_PARTS_MOST)
			return value_fail_plainly(value,
				"too many parts are joined; expected at most %d", KEY_PARTS_MOST);
		alternative->parts = arena_grow(value->build->arena, alternative->parts,
			alternative->part_count, sizeof(*alternative->parts));
		struct key_part *part = &alternative->parts[alternative->part_count];
		if (!value_read_key_part(value, item, part))
			return false;
		if (part->kind == KEY_QUERY)
			note_query_key(value, part->name);
		alternative->part_count++;
	}
	for (size_t i = 0; i < alternative->part_count; i++) {
		if (alternative->parts[i].kind == KEY_ALL && alternative->part_count > 1)
			return value_fail_plainly(value, "\"all\" is one caller for all requests; "
							 "expected no part beside it "
							 "(write \"|\" for a fallback)");
	}
	return true;
}

struct conf_key *value_read_key(struct value *value)
{
	struct conf_key *key = arena_alloc(value->build->arena, sizeof(*key));
	struct slice rest = value->text, item;

	key->text = value_text(value, value->text);
	while (take_before(&rest, '|', &item)) {
		if (key->alternative_count == KEY_ALTERNATIVES_MOST) {
			value_fail_plainly(value, "too many alternatives; expected at most %d",
				KEY_ALTERNATIVES_MOST);
			return NULL;
		}
		key->alternatives = arena_grow(value->build->arena, key->alternatives,
			key->alternative_count, sizeof(*key->alternatives));
		if (!read_alternative(value, item, &key->alternatives[key->alternative_count]))
			return NULL;
		key->alternative_count++;
	}
	return key;
}

static bool parse_key(struct value *value)
{
	struct conf_key *key = value_read_key(value);

	*(const struct conf_key **)value->at = key;
	return key != NULL;
}

const struct option_type type_key = {"key",
	"ip, ip/PREFIX, header:NAME, cookie:NAME, query:NAME, host, path, method, scheme, "
	"route, all, tls:subject, tls:san, tls:fingerprint, tls:version or tls:sni, joined "
	"by '+', with '|' before a fallback",
	parse_key, same_key, false};
