#include "gate/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gate/text_set.h"

/* Networks sorted by prefix and address, one run a prefix length: an address is cut to each length
 * there is and searched in that run. */
struct network_run {
	uint8_t prefix;
	size_t begin, end;
};

struct network_set {
	struct conf_cidr *items;
	size_t count;
	struct network_run runs[129];
	size_t run_count;
};

struct access_list {
	struct network_set allow, deny;
	struct text_set allow_keys, deny_keys;
};

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

static bool network_set_init(struct network_set *set, const struct conf_cidrs *networks)
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

static bool network_set_has(const struct network_set *set, const uint8_t address[16])
{
	for (size_t i = 0; i < set->run_count; i++) {
		const struct network_run *run = &set->runs[i];
		struct conf_cidr wanted = {.prefix = run->prefix};
		memcpy(wanted.address, address, sizeof(wanted.address));
		cut(wanted.address, run->prefix);
		if (bsearch(&wanted, set->items + run->begin, run->end - run->begin,
			    sizeof(*set->items), compare_networks))
			return true;
	}
	return false;
}

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
	free(list->allow.items);
	free(list->deny.items);
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
