/*
 * Checks of matches after the whole file has been read: their names, what refers to them, and that
 * none depends on itself.
 */
#include <string.h>

#include "conf/build.h"
#include "conf/match.h"
#include "conf/value.h"

/* The match that a name refers to; NULL with an error. */
static const struct conf_match *find_match(struct build *build, const struct instance *instance,
	const char *key, unsigned line, const char *name)
{
	const struct instance *found =
		name_index_find(&build->names, SECTION_MATCH, slice_of(name));

	if (found)
		return found->object;
	if (build->incomplete)
		return NULL;
	struct near_miss near = {.word = slice_of(name)};
	for (size_t i = 0; i < build->conf->matches.count; i++)
		near_miss_offer(&near, build->conf->matches.items[i].name);
	if (near.best)
		build_fail(build, instance, line,
			"%s: there is no [match %s], did you mean \"%s\"?", key, name, near.best);
	else
		build_fail(build, instance, line,
			"%s: there is no [match %s]; expected the name of one", key, name);
	return NULL;
}

/* Adds a name, with ! in front or not, to the bits. */
static void add_name(struct build *build, const struct instance *instance,
	const struct reference *reference, struct conf_when *when)
{
	const char *name = reference->name;
	bool negated = *name == '!';

	name += negated;
	name += strspn(name, " \t");
	const struct conf_match *match =
		find_match(build, instance, reference->option->name, reference->line, name);
	if (match && match->index < MATCHES_MOST)
		*(negated ? &when->fails : &when->holds) |= UINT64_C(1) << match->index;
	when->text = when->text ? arena_format(build->arena, "%s, %s", when->text, reference->name)
				: reference->name;
}

void check_when(struct build *build, const struct instance *instance, const char *key,
	struct conf_when *when)
{
	for (size_t i = 0; i < instance->reference_count; i++) {
		const struct reference *reference = &instance->references[i];

		if (strcmp(reference->option->name, key) != 0)
			continue;
		add_name(build, instance, reference, when);
		if (when->holds & when->fails)
			build_fail(build, instance, reference->line,
				"%s: \"%s\" contradicts the rest; expected each match once", key,
				reference->name);
	}
}

/* ---- matches --------------------------------------------------------------------------------- */

static void resolve_tests(struct build *build, const struct instance *instance, const char *key,
	struct match_tests *tests)
{
	struct conf_match *match = instance->object;

	for (size_t i = 0; i < tests->count; i++) {
		struct match_test *test = &tests->items[i];
		if (test->operator!= MATCH_HOLDS) {
			match->reads_route |= test->source.kind == KEY_ROUTE;
			match->reads_more |=
				test->source.kind != KEY_IP && test->source.kind != KEY_IP_PREFIX;
			continue;
		}
		const struct conf_match *other =
			find_match(build, instance, key, test->line, test->name);
		test->other = other ? other->index : MATCHES_MOST;
	}
}

/* How far the walk has come with each match. */
enum visit { VISIT_NEW, VISIT_OPEN, VISIT_DONE };

struct walk {
	struct build *build;
	enum visit *visits;
};

static bool visit(struct walk *walk, struct conf_match *match);

static bool visit_tests(struct walk *walk, struct conf_match *match, struct match_tests *tests)
{
	struct conf_match *matches = walk->build->conf->matches.items;
	bool is_free = true;

	for (size_t i = 0; i < tests->count && is_free; i++) {
		struct match_test *test = &tests->items[i];
		if (test->operator!= MATCH_HOLDS || test->other == MATCHES_MOST)
			continue;
		is_free = visit(walk, &matches[test->other]);
		match->reads_route |= matches[test->other].reads_route;
		match->reads_more |= matches[test->other].reads_more;
	}
	return is_free;
}

/* False: it depends on itself, by whatever way. */
static bool visit(struct walk *walk, struct conf_match *match)
{
	enum visit *own = &walk->visits[match->index];

	if (*own != VISIT_NEW)
		return *own == VISIT_DONE;
	*own = VISIT_OPEN;
	if (!visit_tests(walk, match, &match->all) || !visit_tests(walk, match, &match->any))
		return false;
	*own = VISIT_DONE;
	return true;
}

static bool has_reserved_name(const struct instance *instance)
{
	return value_is_key_word(slice_of(instance->name));
}

void check_match(struct build *build, const struct instance *instance)
{
	struct conf_match *match = instance->object;

	if (has_reserved_name(instance))
		build_fail(build, instance, instance->line,
			"invalid name: \"%s\" is a source of tests; expected another",
			instance->name);
	if (instance_lacks(instance, "all") && instance_lacks(instance, "any"))
		build_fail(build, instance, instance->line,
			"has no test; expected all = TEST or any = TEST");
	resolve_tests(build, instance, "all", &match->all);
	resolve_tests(build, instance, "any", &match->any);
}

/* A route's name is not known while a route is looked for. */
static void check_route_conditions(struct build *build)
{
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_route *route = instance->object;

		if (instance->section->id != SECTION_ROUTE)
			continue;
		uint64_t bits = route->when.holds | route->when.fails;
		for (unsigned i = 0; i < build->conf->matches.count; i++) {
			if (bits >> i & 1 && build->conf->matches.items[i].reads_route)
				build_fail(build, instance, instance_setting_line(instance, "when"),
					"when: [match %s] tests the route, which is not known yet; "
					"expected a match without",
					build->conf->matches.items[i].name);
		}
	}
}

void check_matches(struct build *build)
{
	struct conf *conf = build->conf;
	size_t errors = build->errors->count;

	if (conf->matches.count > MATCHES_MOST) {
		conf_errors_add(build->errors, build->name, conf->matches.items[MATCHES_MOST].line,
			"there are %zu matches; expected at most %d", conf->matches.count,
			MATCHES_MOST);
		return;
	}
	struct walk walk = {
		build, arena_alloc(build->arena, (conf->matches.count + 1) * sizeof(*walk.visits))};
	for (const struct instance *instance = build->source->instances;
		instance && build->errors->count == errors; instance = instance->next) {
		if (instance->section->id == SECTION_MATCH && !visit(&walk, instance->object))
			build_fail(build, instance, instance->line,
				"depends on itself; expected tests of other matches only");
	}
	check_route_conditions(build);
}
