/* See environment.h. */
#include "conf/environment.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 64 << 10 };

static bool begins_name(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* `${` and a letter or underscore. */
static bool is_variable_at(struct slice text, size_t at)
{
	return at + 2 < text.len && text.at[at] == '$' && text.at[at + 1] == '{' &&
	       begins_name(text.at[at + 2]);
}

bool environment_is_named(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (is_variable_at(text, i))
			return true;
	return false;
}

/* A value that grows. */
struct expansion {
	struct value *value;
	char *text; /* room for VALUE_BYTES */
	size_t len;
};

static bool append(struct expansion *out, struct slice text)
{
	if (out->len + text.len >= VALUE_BYTES)
		return value_fail_plainly(out->value,
			"with its variables the value has more than %d bytes", VALUE_BYTES - 1);
	if (text.len > 0)
		memcpy(out->text + out->len, text.at, text.len);
	out->len += text.len;
	return true;
}

/* Appends the variable's value; its bytes obey the rule for bytes in lines. */
static bool append_variable(struct expansion *out, const char *name, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return value_fail_plainly(out->value,
				"the environment's %s holds byte 0x%02x; expected text of one line",
				name, c);
	}
	return append(out, text);
}

/* `inside` is what stands between the braces. */
static bool expand_one(struct expansion *out, struct slice inside)
{
	struct slice name = {inside.at, 0}, rest, fallback = SLICE_NONE;
	const char *held, *text;

	while (name.len < inside.len &&
		(begins_name(inside.at[name.len]) ||
			(inside.at[name.len] >= '0' && inside.at[name.len] <= '9')))
		name.len++;
	rest = (struct slice){inside.at + name.len, inside.len - name.len};
	if (rest.len >= 2 && rest.at[0] == ':' && rest.at[1] == '-')
		fallback = (struct slice){rest.at + 2, rest.len - 2};
	if ((rest.len > 0 && !fallback.at) || environment_is_named(fallback))
		return value_fail_plainly(out->value,
			"${%.*s} names no variable; expected ${NAME} or ${NAME:-DEFAULT}, or "
			"$${ for a \"${\" that stays",
			SLICE_ARGS(inside));
	text = value_text(out->value, name);
	held = getenv(text);
	if (held && (*held || !fallback.at))
		return append_variable(out, text, slice_of(held));
	if (fallback.at)
		return append(out, fallback);
	return value_fail_plainly(out->value,
		"the environment variable %s is not set; set it, or write a default as in "
		"${%s:-DEFAULT}",
		text, text);
}

static bool expand(struct expansion *out, struct slice text)
{
	size_t done = 0;

	for (size_t i = 0; i < text.len; i++) {
		const char *close;

		if (!is_variable_at(text, i))
			continue;
		if (i > done && text.at[i - 1] == '$') { /* $${ */
			if (!append(out, (struct slice){text.at + done, i - 1 - done}))
				return false;
			done = i;
			continue;
		}
		close = memchr(text.at + i, '}', text.len - i);
		if (!close)
			return value_fail_plainly(out->value,
				"\"%.*s\" has no \"}\"; expected ${NAME}, or $${ for a \"${\" "
				"that stays",
				SLICE_ARGS(((struct slice){text.at + i, text.len - i})));
		if (!append(out, (struct slice){text.at + done, i - done}) ||
			!expand_one(out,
				(struct slice){text.at + i + 2, (size_t)(close - text.at) - i - 2}))
			return false;
		i = (size_t)(close - text.at);
		done = i + 1;
	}
	return append(out, (struct slice){text.at + done, text.len - done});
}

const char *environment_expand(struct value *value, struct slice text)
{
	struct finalizer *held;
	struct expansion out = {
		.value = value, .text = arena_lend(value->build->arena, VALUE_BYTES, &held)};
	const char *result = NULL;

	if (expand(&out, text))
		result = value_text(value, slice_trim((struct slice){out.text, out.len}));
	arena_free_now(held);
	return result;
}
