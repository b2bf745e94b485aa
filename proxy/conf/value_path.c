/* The paths that a route matches: prefixes, exact ones, regular expressions. See value.h. */
#include "conf/same.h"
#include "conf/value.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <string.h>

static bool is_unreserved(unsigned char c)
{
	return isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Requests are matched by their path's normal form, so a path that is written in any other would
 * match nothing. */
bool value_check_path_is_normal(struct value *value, struct slice path)
{
	for (size_t i = 0; i < path.len; i++) {
		unsigned char c = (unsigned char)path.at[i];

		if (c == '?' || c == '#')
			return value_fail_plainly(value,
				"'%c' in \"%.*s\"; expected the path only, without a query", c,
				SLICE_ARGS(path));
		if (c == '%') {
			int high = i + 2 < path.len ? hex_digit(path.at[i + 1]) : -1;
			int low = high >= 0 ? hex_digit(path.at[i + 2]) : -1;

			if (low < 0)
				return value_fail_plainly(value,
					"\"%.*s\" after '%%'; expected two hex digits, upper case",
					(int)(path.len - i - 1 < 2 ? path.len - i - 1 : 2),
					path.at + i + 1);
			if (is_unreserved((unsigned char)(high * 16 + low)))
				return value_fail_plainly(value,
					"\"%.*s\" is compared decoded; expected \"%c\"", 3,
					path.at + i, (char)(high * 16 + low));
			if (high * 16 + low < 0x20 || high * 16 + low == 0x7f)
				return value_fail_plainly(value,
					"\"%.*s\" is refused in any request; expected a path "
					"without",
					3, path.at + i);
			i += 2;
		} else if (c == ' ') {
			return value_fail_plainly(
				value, "unencoded blank; expected its percent-encoding, %%20");
		} else if (c < ' ' || c >= 0x7f) {
			return value_fail_plainly(value,
				"unencoded byte 0x%02x; expected its percent-encoding, %%%02X", c,
				c);
		} else if (strchr("\"<>\\^`{|}", c)) {
			return value_fail_plainly(value,
				"unencoded '%c'; expected its percent-encoding, %%%02X", c, c);
		} else if (c == '/') {
			struct slice rest = {path.at + i + 1, path.len - i - 1};
			const char *end = memchr(rest.at, '/', rest.len);

			if (end)
				rest.len = (size_t)(end - rest.at);
			if (slice_equal(rest, SLICE(".")) || slice_equal(rest, SLICE("..")))
				return value_fail_plainly(value,
					"the segment \"%.*s\" is resolved before paths are "
					"compared; "
					"expected a path without it",
					SLICE_ARGS(rest));
		}
	}
	return true;
}

static void free_regex(void *regex)
{
	pcre2_code_free(regex);
}

static bool compile(struct value *value, struct slice pattern, uint32_t options, void **regex)
{
	PCRE2_UCHAR why[128];
	PCRE2_SIZE offset;
	int error;
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern.at, pattern.len,
		options | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
		&offset, NULL);

	if (!code) {
		pcre2_get_error_message(error, why, sizeof(why));
		return value_fail_plainly(value,
			"%s at offset %zu of \"%.*s\"; expected a regular "
			"expression (PCRE)",
			(char *)why, (size_t)offset, SLICE_ARGS(pattern));
	}
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* slower without, no worse */
	arena_on_free(value->build->arena, free_regex, code);
	*regex = code;
	return true;
}

bool value_compile_regex(struct value *value, struct slice pattern, struct conf_regex *regex)
{
	return compile(value, pattern, 0, &regex->code) &&
	       compile(value, pattern, PCRE2_AUTO_CALLOUT, &regex->counted);
}

/* Does it set the option x, under which '#' does begin a comment (pcre2pattern(3))? */
static bool is_extended(struct slice pattern)
{
	for (size_t i = 0; i + 2 < pattern.len; i++) {
		if (memcmp(pattern.at + i, "(?", 2) != 0)
			continue;
		for (size_t j = i + 2; j < pattern.len && isalpha((unsigned char)pattern.at[j]);
			j++)
			if (pattern.at[j] == 'x')
				return true;
	}
	return false;
}

/*
 * A blank and a '#' outside brackets: no path in its normal form has them, so the expression would
 * find nothing, and a comment was meant.
 */
static bool check_regex_has_no_comment(struct value *value, struct slice pattern)
{
	bool in_class = false;

	if (is_extended(pattern))
		return true;
	for (size_t i = 0; i < pattern.len; i++) {
		char c = pattern.at[i], next = i + 1 < pattern.len ? pattern.at[i + 1] : '\0';

		if (c == '\\') {
			i++;
		} else if (in_class) {
			in_class = c != ']';
		} else if (c == '[') {
			in_class = true;
			i += next == '^';
			/* in first place it stands for itself */
			i += i + 1 < pattern.len && pattern.at[i + 1] == ']';
		} else if ((c == ' ' || c == '\t') && next == '#') {
			return value_fail_plainly(value,
				"blank before '#', which no path has; expected a regular "
				"expression without, or (?x) in front");
		}
	}
	return true;
}

/* Paths are no patterns of a shell, as they are elsewhere. */
static void warn_of_star(struct value *value, struct slice path)
{
	for (size_t i = 0; i + 1 < path.len; i++)
		if (path.at[i] == '/' && path.at[i + 1] == '*' &&
			(i + 2 == path.len || path.at[i + 2] == '/')) {
			value_warn(value,
				"the '*' in \"%.*s\" is an ordinary character; expected /PREFIX "
				"for all paths below, or ~REGEX for a pattern",
				SLICE_ARGS(path));
			return;
		}
}

/* /prefix, =/exact, ~regex */
static bool parse_path_match(struct value *value)
{
	struct conf_route *route = value->instance->object;
	struct slice path = value->text;

	route->path_kind = CONF_PATH_PREFIX;
	if (path.at[0] == '=' || path.at[0] == '~') {
		route->path_kind = path.at[0] == '=' ? CONF_PATH_EXACT : CONF_PATH_REGEX;
		path = slice_trim((struct slice){path.at + 1, path.len - 1});
	}
	if (path.len == 0)
		return value_fail(value, "the path is empty");
	route->path = value_text(value, path);
	if (route->path_kind == CONF_PATH_REGEX)
		return value_compile_regex(value, path, &route->regex) &&
		       check_regex_has_no_comment(value, path);
	if (path.at[0] != '/')
		return value_fail(value, "\"%.*s\" does not begin with '/'", SLICE_ARGS(path));
	if (!value_check_path_is_normal(value, path))
		return false;
	warn_of_star(value, path);
	return true;
}

const struct option_type type_path_match = {
	"path", "/PREFIX, =/EXACT or ~REGEX", parse_path_match, same_path_match, false};
