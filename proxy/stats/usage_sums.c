#include "stats/usage_sums.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a. */
static unsigned slot_of(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash % USAGE_SUMS_SLOTS;
}

/* The number of a limit, a new one if need be; USAGE_SUMS_LIMITS with the fault noted. */
static unsigned limit_of(struct usage_sums *sums, const char *name)
{
	unsigned slot = slot_of(name);

	for (; sums->slots[slot] != 0; slot = (slot + 1) % USAGE_SUMS_SLOTS) {
		unsigned limit = sums->slots[slot] - 1u;
		if (strcmp(sums->limits[limit], name) == 0)
			return limit;
	}
	if (sums->limit_count == USAGE_SUMS_LIMITS) {
		sums->fault = USAGE_SUMS_LIMITS_FULL;
		return USAGE_SUMS_LIMITS;
	}
	char *copy = strdup(name);
	if (!copy) {
		sums->fault = USAGE_SUMS_NO_MEMORY;
		return USAGE_SUMS_LIMITS;
	}
	sums->limits[sums->limit_count++] = copy;
	sums->slots[slot] = (uint16_t)sums->limit_count;
	return sums->limit_count - 1;
}

bool usage_sums_add(struct usage_sums *sums, const char *limit, uint64_t caller, uint64_t admitted,
	uint64_t refused)
{
	unsigned number = limit_of(sums, limit);

	if (number == USAGE_SUMS_LIMITS)
		return false;
	if (usage_table_add_known(&sums->table, number, caller, admitted, refused))
		return true;
	if (sums->table.count >= sums->most_rows) {
		sums->fault = USAGE_SUMS_ROWS;
		return false;
	}
	/* Without room the table would count them all in one row. */
	if (!usage_table_reserve(&sums->table)) {
		sums->fault = USAGE_SUMS_NO_MEMORY;
		return false;
	}
	return usage_table_add(&sums->table, SIZE_MAX, number, caller, admitted, refused);
}

static int by_name(const void *a, const void *b, void *ctx)
{
	const struct usage_sums *sums = ctx;

	return strcmp(sums->limits[*(const uint16_t *)a], sums->limits[*(const uint16_t *)b]);
}

/* Names are compared once for each limit, and then only their ranks. */
static void rank_limits(struct usage_sums *sums)
{
	uint16_t order[USAGE_SUMS_LIMITS], rank_of[USAGE_SUMS_LIMITS];
	char *names[USAGE_SUMS_LIMITS];

	for (unsigned i = 0; i < sums->limit_count; i++)
		order[i] = (uint16_t)i;
	qsort_r(order, sums->limit_count, sizeof(order[0]), by_name, sums);
	for (unsigned rank = 0; rank < sums->limit_count; rank++) {
		rank_of[order[rank]] = (uint16_t)rank;
		names[rank] = sums->limits[order[rank]];
	}
	memcpy(sums->limits, names, sums->limit_count * sizeof(names[0]));
	for (size_t i = 0; i < sums->table.count; i++)
		sums->table.rows[i].limit = rank_of[sums->table.rows[i].limit];
}

static int by_limit_and_caller(const void *a, const void *b)
{
	const struct usage_row *one = a, *other = b;

	if (one->limit != other->limit)
		return one->limit < other->limit ? -1 : 1;
	return (one->caller > other->caller) - (one->caller < other->caller);
}

void usage_sums_sort(struct usage_sums *sums)
{
	struct usage_table *table = &sums->table;
	size_t used = 0;

	if (table->count == 0)
		return;
	for (size_t i = 0; i < table->room; i++) {
		if (table->rows[i].is_used)
			table->rows[used++] = table->rows[i];
	}
	rank_limits(sums);
	qsort(table->rows, table->count, sizeof(*table->rows), by_limit_and_caller);
}

const char *usage_sums_limit(const struct usage_sums *sums, const struct usage_row *row)
{
	return sums->limits[row->limit];
}

void usage_sums_clear(struct usage_sums *sums)
{
	for (unsigned i = 0; i < sums->limit_count; i++)
		free(sums->limits[i]);
	usage_table_clear(&sums->table);
	*sums = (struct usage_sums){.most_rows = sums->most_rows};
}

/* ---- usage table ---------------------------------------------------------------------------- */

#define ROOM_FIRST 256

/* Callers are hashes already; the limit is mixed in (the multiplier is that of SplitMix64). */
static size_t usage_table_slot_of(const struct usage_table *table, uint32_t limit, uint64_t caller)
{
	uint64_t hash = caller ^ (limit + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(hash ^ hash >> 32) & (table->room - 1);
}

/* The row, or the free one in its place. */
static struct usage_row *find(const struct usage_table *table, uint32_t limit, uint64_t caller)
{
	size_t slot = usage_table_slot_of(table, limit, caller);

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

/* ---- usage counts --------------------------------------------------------------------------- */

void usage_count(struct usage_counts *counts, unsigned limit, uint64_t caller, bool admitted)
{
	pthread_mutex_lock(&counts->lock);
	usage_table_add(&counts->table, USAGE_ROWS, limit, caller, admitted, !admitted);
	pthread_mutex_unlock(&counts->lock);
}
