/* Tests of a [match], and the names of matches in `when`. See match.h and value.h. */
#include "conf/match.h"
#include "conf/same.h"
#include "conf/value.h"

#include <ctype.h>
#include <string.h>

/* More in a file of values would be walked at each request for ^= and $=. */
enum { AFFIXES_MOST = 1000 };

/* ---- operators ------------------------------------------------------------------------------- */

static const struct operator_word {
	const char *word;
	enum match_operator operator;
} operators[] = {
	{"^=", MATCH_BEGINS},
	{"$=", MATCH_ENDS},
	{"=", MATCH_EQUAL},
	{"~", MATCH_FINDS},
	{"in", MATCH_IN},
};

/* Takes the source off `rest`: up to a blank or an operator's sign. */
static struct slice take_source(struct slice *rest)
{
	struct slice source = {rest->at, 0};

	while (source.len < rest->len) {
		const char *at = rest->at + source.len;
		bool has_next = source.len + 1 < rest->len;

		if (*at == ' ' || *at == '\t' || *at == '=' || *at == '~' ||
			((*at == '^' || *at == '$') && has_next && at[1] == '='))
			break;
		source.len++;
	}
	*rest = slice_trim((struct slice){rest->at + source.len, rest->len - source.len});
	return source;
}

/* Takes the operator off `rest`; false when there is none of that form. */
static bool take_operator(struct slice *rest, enum match_operator *operator)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		size_t len = strlen(operators[i].word);
		bool is_word = operators[i].operator== MATCH_IN;

		if (rest->len < len || memcmp(rest->at, operators[i].word, len) != 0 ||
			(is_word && rest->len > len && rest->at[len] != ' ' &&
				rest->at[len] != '\t'))
			continue;
		*operator= operators[i].operator;
		*rest = slice_trim((struct slice){rest->at + len, rest->len - len});
		return true;
	}
	return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool add_text(struct value *value, struct match_test *test, struct slice text)
{
	enum key_part_kind kind = test->source.kind;
	char *copy = value_text(value, text);

	if (kind == KEY_HOST)
		for (char *c = copy; *c; c++)
			*c = (char)tolower((unsigned char)*c);
	if (kind == KEY_PATH && test->operator== MATCH_EQUAL && * copy != '/')
		return value_fail_plainly(value,
			"path \"%s\" does not begin with '/'; expected a path, or ^= or ~ for a "
			"part of one",
			copy);
	if (kind == KEY_PATH && !value_check_path_is_normal(value, text))
		return false;
	if (test->operator!= MATCH_EQUAL && test->values.count == AFFIXES_MOST)
		return value_fail_plainly(value,
			"there are more than %d values; expected fewer, or '=' or '~'",
			AFFIXES_MOST);
	value_list_add(value, &test->values, copy);
	return true;
}

static bool take_text_line(
	struct value *value, const char *path, unsigned number, struct slice line, void *user)
{
	(void)path;
	(void)number;
	return add_text(value, user, line);
}

static bool add_network(struct value *value, struct match_test *test, struct slice text)
{
	struct conf_cidr cidr;

	if (!scan_cidr(text, &cidr))
		return value_fail_plainly(value,
			"invalid network \"%.*s\"; expected an address, ADDRESS/PREFIX or "
			"file:PATH",
			SLICE_ARGS(text));
	if (!cidr_is_clear(&cidr))
		return value_fail_plainly(value,
			"network \"%.*s\" has bits behind its prefix; expected the network's own "
			"address",
			SLICE_ARGS(text));
	value_cidrs_add(value, &test->networks, cidr);
	return true;
}

static bool take_network_line(
	struct value *value, const char *path, unsigned number, struct slice line, void *user)
{
	struct match_test *test = user;
	struct conf_cidr cidr;

	if (scan_cidr(line, &cidr) && cidr_is_clear(&cidr)) {
		value_cidrs_add(value, &test->networks, cidr);
		return true;
	}
	return value_fail_plainly(value,
		"%s:%u: invalid network \"%.*s\"; expected an address or ADDRESS/PREFIX", path,
		number, SLICE_ARGS(line));
}

/* Texts or networks, with commas; `file:PATH` has one a line. */
static bool read_values(struct value *value, struct match_test *test, struct slice text)
{
	bool is_network = test->operator== MATCH_IN;
	struct slice rest = text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		if (item.len > 5 && memcmp(item.at, "file:", 5) == 0)
			good &= value_read_lines(value, (struct slice){item.at + 5, item.len - 5},
				is_network ? take_network_line : take_text_line, test);
		else
			good &= is_network ? add_network(value, test, item)
					   : add_text(value, test, item);
	}
	return good;
}

/* Do source and operator belong together? */
static bool check_operator(struct value *value, const struct match_test *test)
{
	bool is_address = test->source.kind == KEY_IP;

	if (is_address && test->operator!= MATCH_IN)
		return value_fail_plainly(
			value, "ip is compared with networks; expected ip in NETWORKS");
	if (!is_address && test->operator== MATCH_IN)
		return value_fail_plainly(value, "only ip is in networks; expected '=' for one of "
						 "several values");
	return true;
}

static bool read_comparison(
	struct value *value, struct match_test *test, struct slice source, struct slice rest)
{
	if (!take_operator(&rest, &test->operator))
		return value_fail(value, "\"%.*s\" behind \"%.*s\" is no operator",
			SLICE_ARGS(rest), SLICE_ARGS(source));
	if (rest.len == 0)
		return value_fail(value, "there is nothing behind the operator");
	if (!check_operator(value, test))
		return false;
	if (test->operator!= MATCH_FINDS)
		return read_values(value, test, rest);
	test->pattern = value_text(value, rest);
	return value_compile_regex(value, rest, &test->regex);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Is it the form of a name, that of another match, and no form of key? */
static bool is_match_name(struct slice source)
{
	return !memchr(source.at, ':', source.len) && !memchr(source.at, '/', source.len) &&
	       !value_is_key_word(source);
}

static bool read_test(struct value *value, struct match_test *test)
{
	struct slice rest = value->text, source;

	test->line = value->line;
	test->text = value_text(value, value->text);
	if (rest.at[0] == '!') {
		test->negated = true;
		rest = slice_trim((struct slice){rest.at + 1, rest.len - 1});
	}
	source = take_source(&rest);
	if (source.len == 0)
		return value_fail(value, "there is nothing to test");
	if (rest.len == 0 && is_match_name(source)) {
		test->operator= MATCH_HOLDS;
		test->name = value_text(value, source);
		return true;
	}
	if (!value_read_key_part(value, source, &test->source))
		return false;
	if (test->source.kind == KEY_IP_PREFIX)
		return value_fail_plainly(value,
			"\"%.*s\" is no source of a test; expected ip in "
			"NETWORKS",
			SLICE_ARGS(source));
	if (rest.len > 0)
		return read_comparison(value, test, source, rest);
	test->operator= MATCH_PRESENT;
	return test->source.name || test->source.kind >= KEY_TLS_VERSION ||
	       value_fail_plainly(value, "each request has a %.*s; expected an operator and values",
		       SLICE_ARGS(source));
}

static bool parse_tests(struct value *value)
{
	struct match_tests *tests = value->at;
	struct match_test test = {0};

	if (!read_test(value, &test))
		return false;
	size_t count = tests->count++;
	tests->items = arena_grow(value->build->arena, tests->items, count, sizeof(test));
	tests->items[count] = test;
	return true;
}

const struct option_type type_tests = {"test",
	"[!]SOURCE with =, ^=, $= or ~ and values, ip in NETWORKS, a source alone (it is present), "
	"or "
	"the name of a match",
	parse_tests, same_tests, true};

/* ---- when ------------------------------------------------------------------------------------ */

const struct option_type type_when = {"list of matches", "names of matches, with commas; ! negates",
	value_parse_references, same_when, false};
