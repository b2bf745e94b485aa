#include "stats/usage_sums.h"

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
