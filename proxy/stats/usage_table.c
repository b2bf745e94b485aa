#include "stats/usage_table.h"

#include <stdint.h>
#include <stdlib.h>

#define ROOM_FIRST 256

/* Callers are hashes already; the limit is mixed in (the multiplier is that of SplitMix64). */
static size_t slot_of(const struct usage_table *table, uint32_t limit, uint64_t caller)
{
	uint64_t hash = caller ^ (limit + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(hash ^ hash >> 32) & (table->room - 1);
}

/* The row, or the free one in its place. */
static struct usage_row *find(const struct usage_table *table, uint32_t limit, uint64_t caller)
{
	size_t slot = slot_of(table, limit, caller);

	while (table->rows[slot].is_used &&
		(table->rows[slot].caller != caller || table->rows[slot].limit != limit))
		slot = (slot + 1) & (table->room - 1);
	return &table->rows[slot];
}

bool usage_table_reserve(struct usage_table *table)
{
	struct usage_table next = {.room = table->room ? table->room * 2 : ROOM_FIRST};

	if (table->count + 1 <= table->room / 4 * 3)
		return true;
	next.rows = calloc(next.room, sizeof(*next.rows));
	if (!next.rows)
		return table->count + 1 < table->room; /* one must stay free */
	for (size_t i = 0; i < table->room; i++) {
		const struct usage_row *row = &table->rows[i];
		if (row->is_used)
			*find(&next, row->limit, row->caller) = *row;
	}
	next.count = table->count;
	free(table->rows);
	*table = next;
	return true;
}

bool usage_table_add_known(struct usage_table *table, uint32_t limit, uint64_t caller,
	uint64_t admitted, uint64_t refused)
{
	struct usage_row *row = table->room ? find(table, limit, caller) : NULL;

	if (!row || !row->is_used)
		return false;
	row->admitted += admitted;
	row->refused += refused;
	return true;
}

bool usage_table_add(struct usage_table *table, size_t most, uint32_t limit, uint64_t caller,
	uint64_t admitted, uint64_t refused)
{
	if (usage_table_add_known(table, limit, caller, admitted, refused))
		return true;
	if ((table->count >= most && caller != 0) || !usage_table_reserve(table))
		return caller != 0 && usage_table_add(table, most, limit, 0, admitted, refused);
	*find(table, limit, caller) = (struct usage_row){.caller = caller,
		.limit = limit,
		.is_used = true,
		.admitted = admitted,
		.refused = refused};
	table->count++;
	return true;
}

void usage_table_fold(struct usage_table *table)
{
	struct usage_table folded = {0};

	for (size_t i = 0; i < table->room; i++) {
		const struct usage_row *row = &table->rows[i];
		if (row->is_used && !usage_table_add(&folded, SIZE_MAX, row->limit, 0,
					    row->admitted, row->refused)) {
			usage_table_clear(&folded);
			return;
		}
	}
	usage_table_clear(table);
	*table = folded;
}

void usage_table_clear(struct usage_table *table)
{
	free(table->rows);
	*table = (struct usage_table){0};
}
