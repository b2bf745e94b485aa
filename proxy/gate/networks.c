#include "gate/networks.h"

#include <stdlib.h>
#include <string.h>

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
