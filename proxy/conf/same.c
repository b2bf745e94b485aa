/* Comparing values. See same.h. */
#include "conf/same.h"

#include <stddef.h>
#include <string.h>

#include "conf/conf.h"

static const void *at(const struct option *option, const void *object)
{
	return (const char *)object + option->offset;
}

#define VALUE(type, object) (*(type const *)at(option, object))

static bool equal_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool equal_texts(const struct conf_text_list *a, const struct conf_text_list *b)
{
	bool equal = a->count == b->count;

	for (size_t i = 0; equal && i < a->count; i++)
		equal = equal_text(a->items[i], b->items[i]);
	return equal;
}

static bool equal_networks(const struct conf_cidrs *a, const struct conf_cidrs *b)
{
	bool equal = a->count == b->count;

	for (size_t i = 0; equal && i < a->count; i++)
		equal = a->items[i].prefix == b->items[i].prefix &&
			memcmp(a->items[i].address, b->items[i].address, 16) == 0;
	return equal;
}

SAME(same_text)
{
	return equal_text(VALUE(const char *, a), VALUE(const char *, b));
}

SAME(same_texts)
{
	return equal_texts(at(option, a), at(option, b));
}

SAME(same_key)
{
	const struct conf_key *one = VALUE(const struct conf_key *, a);
	const struct conf_key *other = VALUE(const struct conf_key *, b);

	return equal_text(one ? one->text : NULL, other ? other->text : NULL);
}

SAME(same_fields)
{
	const struct conf_fields *one = at(option, a), *other = at(option, b);
	bool equal = one->count == other->count;

	for (size_t i = 0; equal && i < one->count; i++)
		equal = equal_text(one->items[i].name, other->items[i].name) &&
			equal_text(one->items[i].value, other->items[i].value);
	return equal;
}

SAME(same_networks)
{
	return equal_networks(at(option, a), at(option, b));
}

static bool equal_binds(const struct conf_address *one, size_t one_count,
	const struct conf_address *other, size_t other_count)
{
	bool equal = one_count == other_count;

	for (size_t i = 0; equal && i < one_count; i++)
		equal = equal_text(one[i].text, other[i].text);
	return equal;
}

SAME(same_admin_binds)
{
	const struct conf_admin *one = at(option, a), *other = at(option, b);

	return equal_binds(one->binds, one->bind_count, other->binds, other->bind_count);
}

SAME(same_binds)
{
	const struct conf_listener *one = a, *other = b;

	(void)option;
	return equal_binds(one->binds, one->bind_count, other->binds, other->bind_count);
}

SAME(same_log_target)
{
	const struct log_target *one = at(option, a), *other = at(option, b);

	return one->sink == other->sink && equal_text(one->path, other->path);
}

/* All sections that can be referred to begin with their name. */
static const char *name_of(const void *section)
{
	_Static_assert(offsetof(struct conf_upstream, name) == 0, "the name comes first");
	_Static_assert(offsetof(struct conf_limit, name) == 0, "the name comes first");
	return section ? *(const char *const *)section : NULL;
}

SAME(same_reference)
{
	return equal_text(name_of(VALUE(const void *, a)), name_of(VALUE(const void *, b)));
}

SAME(same_references)
{
	const struct conf_limits *one = at(option, a), *other = at(option, b);
	bool equal = one->count == other->count && one->plan == other->plan &&
		     one->plan_position == other->plan_position;

	for (size_t i = 0; equal && i < one->count; i++)
		equal = equal_text(one->items[i]->name, other->items[i]->name);
	return equal;
}

SAME(same_message_exceed)
{
	const struct conf_route *one = a, *other = b;

	(void)option;
	return one->websocket.on_exceed == other->websocket.on_exceed &&
	       one->websocket.delay_max_ms == other->websocket.delay_max_ms;
}

SAME(same_tests)
{
	const struct match_tests *one = at(option, a), *other = at(option, b);
	bool equal = one->count == other->count;

	for (size_t i = 0; equal && i < one->count; i++)
		equal = equal_text(one->items[i].text, other->items[i].text) &&
			equal_texts(&one->items[i].values, &other->items[i].values) &&
			equal_networks(&one->items[i].networks, &other->items[i].networks);
	return equal;
}

SAME(same_when)
{
	const struct conf_when *one = at(option, a), *other = at(option, b);

	return equal_text(one->text, other->text);
}

bool option_same(const struct option *option, const void *a, const void *b)
{
	return option->type->same ? option->type->same(option, a, b)
				  : memcmp(at(option, a), at(option, b), option->size) == 0;
}

bool section_same(const struct option_section *section, const void *a, const void *b)
{
	bool same = true;

	for (size_t i = 0; same && i < *section->option_count; i++)
		same = option_same(&section->options[i], a, b);
	return same;
}

SAME(same_store)
{
	const struct conf_store *one = at(option, a), *other = at(option, b);

	bool equal = one->count == other->count;

	for (size_t i = 0; equal && i < one->count; i++)
		equal = equal_text(one->addresses[i].text, other->addresses[i].text);
	return equal && equal_text(one->user, other->user) &&
	       equal_text(one->password, other->password) && one->database == other->database &&
	       one->has_tls == other->has_tls;
}

SAME(same_broker)
{
	const struct conf_broker *one = at(option, a), *other = at(option, b);

	return equal_text(one->address.text, other->address.text) &&
	       equal_text(one->user, other->user) && equal_text(one->password, other->password) &&
	       equal_text(one->vhost, other->vhost) && one->has_tls == other->has_tls;
}

SAME(same_servers)
{
	const struct conf_upstream *one = a, *other = b;
	bool equal = one->server_count == other->server_count;

	(void)option;
	for (size_t i = 0; equal && i < one->server_count; i++)
		equal = equal_text(one->servers[i].address.text, other->servers[i].address.text) &&
			section_same(&option_sections[SECTION_SERVER], &one->servers[i],
				&other->servers[i]);
	return equal;
}

static bool is_concurrency(const void *limit)
{
	return ((const struct conf_limit *)limit)->algorithm == CONF_LIMIT_CONCURRENCY;
}

/* A limit has a rate or a concurrency. */
SAME(same_rate)
{
	const struct conf_limit *one = a, *other = b;

	(void)option;
	if (is_concurrency(a) || is_concurrency(b))
		return is_concurrency(a) == is_concurrency(b);
	/* A rate per day of a calendar is no rate per 24 hours: its per_ns is 0. */
	return one->amount == other->amount && one->unit == other->unit &&
	       one->per_ns == other->per_ns && one->calendar == other->calendar &&
	       equal_text(one->time_zone, other->time_zone);
}

SAME(same_concurrency)
{
	const struct conf_limit *one = a, *other = b;

	(void)option;
	return is_concurrency(a) == is_concurrency(b) &&
	       (!is_concurrency(a) || one->amount == other->amount);
}

SAME(same_callers)
{
	const struct conf_plan *one = a, *other = b;

	(void)option;
	return equal_text(one->callers_path, other->callers_path) &&
	       equal_texts(&one->callers, &other->callers);
}

SAME(same_path_match)
{
	const struct conf_route *one = a, *other = b;

	(void)option;
	return one->path_kind == other->path_kind && equal_text(one->path, other->path);
}

SAME(same_cost)
{
	const struct conf_route *one = a, *other = b;

	(void)option;
	return one->cost == other->cost && equal_text(one->cost_field, other->cost_field);
}

SAME(same_access)
{
	const struct conf_route *one = a, *other = b;
	bool allows = option->offset == offsetof(struct conf_route, access.allow_addresses);

	return allows ? equal_networks(
				&one->access.allow_addresses, &other->access.allow_addresses) &&
				equal_texts(&one->access.allow_keys, &other->access.allow_keys) &&
				equal_text(
					one->access.allow_when.text, other->access.allow_when.text)
		      : equal_networks(
				&one->access.deny_addresses, &other->access.deny_addresses) &&
				equal_texts(&one->access.deny_keys, &other->access.deny_keys) &&
				equal_text(
					one->access.deny_when.text, other->access.deny_when.text);
}
