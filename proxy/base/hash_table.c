#include "base/hash_table.h"

#include <stdlib.h>

enum { FEWEST_CHAINS = 64, MOVED_AT_ONCE = 2 };

void hash_table_end(struct hash_table *table)
{
	free(table->chains);
	free(table->older);
	*table = (struct hash_table){.count = 0};
}

static struct hash_link **chain_of(const struct hash_table *table, uint64_t hash)
{
	size_t older = hash & table->older_mask;

	if (table->older && older >= table->moved)
		return &table->older[older];
	return &table->chains[hash & table->mask];
}

static void push(struct hash_link **chain, struct hash_link *link)
{
	link->next = *chain;
	*chain = link;
}

static void move_some(struct hash_table *table)
{
	for (int n = 0; n < MOVED_AT_ONCE && table->older; n++) {
		struct hash_link *link = table->older[table->moved++];
		while (link) {
			struct hash_link *next = link->next;
			table->steps++;
			push(&table->chains[link->hash & table->mask], link);
			link = next;
		}
		if (table->moved <= table->older_mask)
			continue;
		free(table->older);
		table->older = NULL;
	}
}

/* False: there are none at all. */
static bool make_chains(struct hash_table *table)
{
	size_t count = table->chains ? 2 * (table->mask + 1) : FEWEST_CHAINS;
	struct hash_link **chains = calloc(count, sizeof(*chains));

	if (!chains)
		return table->chains != NULL;
	table->older = table->chains;
	table->older_mask = table->mask;
	table->moved = 0;
	table->chains = chains;
	table->mask = count - 1;
	return true;
}

bool hash_table_begin(struct hash_table *table)
{
	return table->chains || make_chains(table);
}

bool hash_table_add(struct hash_table *table, struct hash_link *link, uint64_t hash)
{
	if ((!table->chains || (!table->older && table->count > table->mask)) &&
		!make_chains(table))
		return false;
	move_some(table);
	link->hash = hash;
	push(chain_of(table, hash), link);
	table->count++;
	return true;
}

void hash_table_remove(struct hash_table *table, struct hash_link *link)
{
	struct hash_link **at = chain_of(table, link->hash);

	for (; *at != link; at = &(*at)->next)
		table->steps++;
	*at = link->next;
	table->count--;
}

static struct hash_link *of_hash(struct hash_table *table, struct hash_link *link, uint64_t hash)
{
	for (; link; link = link->next) {
		table->steps++;
		if (link->hash == hash)
			break;
	}
	return link;
}

struct hash_link *hash_table_first(struct hash_table *table, uint64_t hash)
{
	return table->chains ? of_hash(table, *chain_of(table, hash), hash) : NULL;
}

struct hash_link *hash_table_next(struct hash_table *table, const struct hash_link *link)
{
	return of_hash(table, link->next, link->hash);
}
