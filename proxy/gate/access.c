#include "gate/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gate/text_set.h"
#include "base/digest.h"
#include "http/forwarded.h"

struct access_list {
	struct network_set allow, deny;
	struct text_set allow_keys, deny_keys;
};

static bool keys_init(struct text_set *set, const struct conf_text_list *keys)
{
	if (keys->count == 0)
		return true;
	if (!text_set_init(set, keys->count))
		return false;
	for (size_t i = 0; i < keys->count; i++)
		text_set_add(set, slice_of(keys->items[i]), 0);
	return true;
}

struct access_list *access_list_new(const struct conf_route *route)
{
	errno = 0;
	if (route->access.allow_addresses.count + route->access.deny_addresses.count +
			route->access.allow_keys.count + route->access.deny_keys.count ==
		0)
		return NULL;
	struct access_list *list = calloc(1, sizeof(*list));
	if (list && network_set_init(&list->allow, &route->access.allow_addresses) &&
		network_set_init(&list->deny, &route->access.deny_addresses) &&
		keys_init(&list->allow_keys, &route->access.allow_keys) &&
		keys_init(&list->deny_keys, &route->access.deny_keys))
		return list;
	access_list_free(list);
	errno = ENOMEM;
	return NULL;
}

void access_list_free(struct access_list *list)
{
	if (!list)
		return;
	network_set_free(&list->allow);
	network_set_free(&list->deny);
	text_set_free(&list->allow_keys);
	text_set_free(&list->deny_keys);
	free(list);
}

enum access_verdict access_check(
	const struct access_list *list, const uint8_t address[16], struct slice key)
{
	if (network_set_has(&list->deny, address) ||
		text_set_find(&list->deny_keys, key) != TEXT_SET_NONE)
		return ACCESS_DENIED;
	if (network_set_has(&list->allow, address) ||
		text_set_find(&list->allow_keys, key) != TEXT_SET_NONE)
		return ACCESS_ALLOWED;
	return ACCESS_LIMITED;
}

bool access_needs_key(const struct access_list *list)
{
	return list->allow_keys.count + list->deny_keys.count > 0;
}

/* ---- networks ------------------------------------------------------------------------------- */

static void cut(uint8_t address[16], unsigned prefix)
{
	for (unsigned i = prefix / 8; i < 16; i++)
		address[i] &= (uint8_t)(i == prefix / 8 ? 0xff00 >> prefix % 8 : 0);
}

static int compare_networks(const void *left, const void *right)
{
	const struct conf_cidr *a = left, *b = right;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return memcmp(a->address, b->address, sizeof(a->address));
}

bool network_set_init(struct network_set *set, const struct conf_cidrs *networks)
{
	if (networks->count == 0)
		return true;
	set->items = malloc(networks->count * sizeof(*set->items));
	if (!set->items)
		return false;
	set->count = networks->count;
	memcpy(set->items, networks->items, networks->count * sizeof(*set->items));
	for (size_t i = 0; i < set->count; i++)
		cut(set->items[i].address, set->items[i].prefix);
	qsort(set->items, set->count, sizeof(*set->items), compare_networks);
	for (size_t i = 0; i < set->count; i++) {
		if (i == 0 || set->items[i].prefix != set->items[i - 1].prefix)
			set->runs[set->run_count++] =
				(struct network_run){set->items[i].prefix, i, i};
		set->runs[set->run_count - 1].end = i + 1;
	}
	return true;
}

bool network_set_has(const struct network_set *set, const uint8_t address[16])
{
	for (size_t i = 0; i < set->run_count; i++) {
		const struct network_run *run = &set->runs[i];
		struct conf_cidr wanted = {.prefix = run->prefix};
		if (!forwarded_address_fits(address, run->prefix))
			continue;
		memcpy(wanted.address, address, sizeof(wanted.address));
		cut(wanted.address, run->prefix);
		if (bsearch(&wanted, set->items + run->begin, run->end - run->begin,
			    sizeof(*set->items), compare_networks))
			return true;
	}
	return false;
}

void network_set_free(struct network_set *set)
{
	free(set->items);
}

/* ---- plans ---------------------------------------------------------------------------------- */

struct plan_table {
	const struct conf *conf;
	struct text_set callers; /* number: index in conf.plans */
	bool has_digests;
};

struct plan_table *plan_table_new(const struct conf *conf)
{
	struct plan_table *table = calloc(1, sizeof(*table));
	size_t count = 0;

	for (size_t i = 0; i < conf->plan_count; i++)
		count += conf->plans[i].callers.count;
	if (!table || !text_set_init(&table->callers, count)) {
		free(table);
		return NULL;
	}
	table->conf = conf;
	for (uint32_t i = 0; i < conf->plan_count; i++) {
		const struct conf_text_list *callers = &conf->plans[i].callers;
		for (size_t j = 0; j < callers->count; j++) {
			struct slice caller = slice_of(callers->items[j]);
			table->has_digests |= digest_is_text(caller);
			text_set_add(&table->callers, caller, i);
		}
	}
	return table;
}

void plan_table_free(struct plan_table *table)
{
	if (!table)
		return;
	text_set_free(&table->callers);
	free(table);
}

const struct conf_plan *plan_find(const struct plan_table *table, struct slice caller)
{
	uint32_t number = text_set_find(&table->callers, caller);
	char digest[DIGEST_TEXT_BYTES];

	/* The digest itself is no key. */
	if (table->has_digests && caller.len > 0 &&
		(number == TEXT_SET_NONE || digest_is_text(caller))) {
		digest_text(caller, digest);
		number = text_set_find(&table->callers, (struct slice){digest, sizeof(digest)});
	}
	return number == TEXT_SET_NONE ? NULL : &table->conf->plans[number];
}
