#include "gate/matches.h"

#include <stdlib.h>
#include <string.h>

#include "gate/identity.h"
#include "gate/access.h"
#include "gate/pairs.h"
#include "gate/route_table.h"
#include "gate/text_set.h"
#include "http/path_readings.h"

/* Readings of longer paths are not compared. */
#define ODD_PATH_BYTES 8192

/* The values of a test, compiled. */
struct test {
	const struct match_test *conf;
	struct text_set values;      /* MATCH_EQUAL */
	struct network_set networks; /* MATCH_IN */
};

struct match {
	struct test *all, *any;
	size_t all_count, any_count;
};

struct match_table {
	const struct conf *conf;
	struct match *matches;
	struct test *tests; /* of all of them */
	size_t test_count;
};

/* ---- compiling ------------------------------------------------------------------------------- */

static bool compile_test(struct test *test, const struct match_test *conf)
{
	test->conf = conf;
	if (conf->operator== MATCH_IN)
		return network_set_init(&test->networks, &conf->networks);
	if (conf->operator!= MATCH_EQUAL || conf->values.count == 0)
		return true;
	if (!text_set_init(&test->values, conf->values.count))
		return false;
	for (size_t i = 0; i < conf->values.count; i++)
		text_set_add(&test->values, slice_of(conf->values.items[i]), 0);
	return true;
}

/* Takes room for them off the table's tests. */
static bool compile_tests(struct match_table *table, const struct match_tests *conf,
	struct test **tests, size_t *count)
{
	*tests = table->tests + table->test_count;
	*count = conf->count;
	for (size_t i = 0; i < conf->count; i++) {
		if (!compile_test(&table->tests[table->test_count++], &conf->items[i]))
			return false;
	}
	return true;
}

static size_t count_tests(const struct conf *conf)
{
	size_t count = 0;

	for (size_t i = 0; i < conf->matches.count; i++)
		count += conf->matches.items[i].all.count + conf->matches.items[i].any.count;
	return count;
}

struct match_table *match_table_new(const struct conf *conf)
{
	struct match_table *table = calloc(1, sizeof(*table));
	bool good = table != NULL;

	if (!table)
		return NULL;
	table->conf = conf;
	table->matches = calloc(conf->matches.count + 1, sizeof(*table->matches));
	table->tests = calloc(count_tests(conf) + 1, sizeof(*table->tests));
	good = table->matches && table->tests;
	for (size_t i = 0; i < conf->matches.count && good; i++) {
		struct match *match = &table->matches[i];
		good = compile_tests(table, &conf->matches.items[i].all, &match->all,
			       &match->all_count) &&
		       compile_tests(
			       table, &conf->matches.items[i].any, &match->any, &match->any_count);
	}
	if (good)
		return table;
	match_table_free(table);
	return NULL;
}

void match_table_free(struct match_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->test_count; i++) {
		text_set_free(&table->tests[i].values);
		network_set_free(&table->tests[i].networks);
	}
	free(table->tests);
	free(table->matches);
	free(table);
}

/* ---- one value ------------------------------------------------------------------------------- */

static bool has_affix(const struct match_test *conf, struct slice value)
{
	bool at_end = conf->operator== MATCH_ENDS;

	for (size_t i = 0; i < conf->values.count; i++) {
		struct slice affix = slice_of(conf->values.items[i]);
		size_t at = at_end ? value.len - affix.len : 0;
		if (affix.len <= value.len && memcmp(value.at + at, affix.at, affix.len) == 0)
			return true;
	}
	return false;
}

static bool finds(const struct match_test *conf, struct slice value, struct identity_input *input)
{
	enum route_regex found = ROUTE_REGEX_UNDECIDED;

	if (input->scratch)
		found = route_regex_find(input->scratch, &conf->regex, value);
	input->matches.undecided |= found == ROUTE_REGEX_UNDECIDED;
	return found == ROUTE_REGEX_FITS;
}

static bool value_passes(const struct test *test, struct slice value, struct identity_input *input)
{
	switch (test->conf->operator) {
	case MATCH_PRESENT:
		return value.len > 0;
	case MATCH_EQUAL:
		return text_set_find(&test->values, value) != TEXT_SET_NONE;
	case MATCH_BEGINS:
	case MATCH_ENDS:
		return has_affix(test->conf, value);
	case MATCH_FINDS:
		return finds(test->conf, value, input);
	case MATCH_IN:
		return network_set_has(&test->networks, input->address);
	case MATCH_HOLDS:
		break;
	}
	return false;
}

/* One that counts decoded. */
static bool encoded_passes(
	const struct test *test, struct slice value, struct identity_input *input)
{
	char scratch[IDENTITY_TEXT_BYTES];

	if (!identity_decode(&test->conf->source, &value, scratch)) {
		input->matches.undecided = true;
		return false;
	}
	return value_passes(test, value, input);
}

/* ---- all values of a source ------------------------------------------------------------------ */

static bool field_passes(const struct test *test, struct identity_input *input)
{
	const struct http_head *head = input->head;
	struct slice name = {test->conf->source.name, test->conf->source.name_len};

	for (unsigned i = 0; i < head->field_count; i++) {
		if (head->fields[i].name_len == name.len &&
			slice_equal_nocase(http_field_name(head, &head->fields[i]), name) &&
			value_passes(test, http_field_value(head, &head->fields[i]), input))
			return true;
	}
	return false;
}

static bool cookie_passes(const struct test *test, struct identity_input *input)
{
	struct slice name = {test->conf->source.name, test->conf->source.name_len}, value;
	struct pairs_place place = {0};

	while (pairs_next_cookie(input->head, name, &place, &value)) {
		if (encoded_passes(test, value, input))
			return true;
	}
	return false;
}

static bool parameter_passes(const struct test *test, struct identity_input *input)
{
	struct slice name = {test->conf->source.name, test->conf->source.name_len}, value;
	struct pairs_parameters rest = {.query = input->query};

	while (pairs_next_parameter(&rest, name, &value)) {
		if (encoded_passes(test, value, input))
			return true;
	}
	return false;
}

/* A path that a server may read otherwise: where that makes a difference, the server's reading is
 * not known. */
static __attribute__((noinline)) bool odd_path_passes(
	const struct test *test, struct identity_input *input)
{
	char scratch[ODD_PATH_BYTES];
	unsigned features = http_path_features(input->odd_path), some = features;
	bool passes = value_passes(test, input->path, input);

	for (;; some = (some - 1) & features) {
		struct slice path =
			http_path_reading(input->odd_path, some, scratch, sizeof(scratch));
		if (!path.at || value_passes(test, path, input) != passes)
			input->matches.undecided = true;
		if (some == 0 || input->matches.undecided)
			return passes;
	}
}

static bool source_passes(const struct test *test, struct identity_input *input)
{
	enum key_part_kind kind = test->conf->source.kind;
	uint8_t address[16];

	if (kind == KEY_HEADER)
		return field_passes(test, input);
	if (kind == KEY_COOKIE)
		return cookie_passes(test, input);
	if (kind == KEY_QUERY)
		return parameter_passes(test, input);
	if (kind == KEY_PATH && input->odd_path.len > 0)
		return odd_path_passes(test, input);
	return value_passes(test, identity_value(&test->conf->source, input, address), input);
}

/* ---- matches --------------------------------------------------------------------------------- */

static void evaluate(const struct match_table *table, unsigned index, struct identity_input *input);

static bool test_holds(
	const struct match_table *table, const struct test *test, struct identity_input *input)
{
	bool passes;

	if (test->conf->operator== MATCH_HOLDS) {
		evaluate(table, test->conf->other, input);
		passes = input->matches.holds >> test->conf->other & 1;
	} else {
		passes = source_passes(test, input);
	}
	return passes != test->conf->negated;
}

static bool match_holds(
	const struct match_table *table, const struct match *match, struct identity_input *input)
{
	bool holds = match->any_count == 0;

	for (size_t i = 0; i < match->all_count; i++) {
		if (!test_holds(table, &match->all[i], input))
			return false;
	}
	for (size_t i = 0; i < match->any_count && !holds; i++)
		holds = test_holds(table, &match->any[i], input);
	return holds;
}

/* Once a request. No match depends on itself (conf/check_match.c). */
static void evaluate(const struct match_table *table, unsigned index, struct identity_input *input)
{
	uint64_t bit = UINT64_C(1) << index;

	if (input->matches.known & bit)
		return;
	if (match_holds(table, &table->matches[index], input))
		input->matches.holds |= bit;
	input->matches.known |= bit;
}

uint64_t matches_find(const struct match_table *table, uint64_t bits, struct identity_input *input)
{
	if (input->matches.known == 0 && bits != 0 && input->scratch)
		route_regex_begin(input->scratch);
	for (uint64_t left = bits & ~input->matches.known; left != 0; left &= left - 1)
		evaluate(table, (unsigned)__builtin_ctzll(left), input);
	return input->matches.holds & bits;
}
