#include "stats/stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct scope_names {
	char *names[STATS_ROWS];
	atomic_uint count; /* rows in use */
};

struct stats {
	unsigned workers;
	pthread_mutex_t lock; /* guards registering */
	struct scope_names scopes[STATS_SCOPES];
	struct stats_block blocks[];
};

static void free_chunks(struct stats *stats, enum stats_scope scope, unsigned chunk)
{
	for (unsigned i = 0; i < stats->workers; i++) {
		/* relaxed: no thread counts in it */
		free(atomic_exchange_explicit(
			&stats->blocks[i].chunks[scope][chunk], NULL, memory_order_relaxed));
	}
}

/* Room for the rows of a chunk, at every worker or at none. */
static bool make_chunks(struct stats *stats, enum stats_scope scope, unsigned chunk)
{
	for (unsigned i = 0; i < stats->workers; i++) {
		_Atomic uint64_t *rows =
			calloc(STATS_CHUNK_ROWS, stats_slots[scope] * sizeof(*rows));
		if (!rows) {
			free_chunks(stats, scope, chunk);
			return false;
		}
		/* relaxed: readers come by the release of count below */
		atomic_store_explicit(
			&stats->blocks[i].chunks[scope][chunk], rows, memory_order_relaxed);
	}
	return true;
}

/* The lock is held, or no other thread knows of `stats`. 0 without memory. */
static unsigned add_row(struct stats *stats, enum stats_scope scope, const char *name)
{
	struct scope_names *names = &stats->scopes[scope];
	unsigned row = atomic_load_explicit(&names->count, memory_order_relaxed);

	if (row == STATS_ROWS || !(names->names[row] = strdup(name)))
		return 0;
	if (row % STATS_CHUNK_ROWS == 0 && !make_chunks(stats, scope, row / STATS_CHUNK_ROWS)) {
		free(names->names[row]);
		names->names[row] = NULL;
		return 0;
	}
	/* release: pairs with the acquire in stats_row_count, so name and chunks are seen */
	atomic_store_explicit(&names->count, row + 1, memory_order_release);
	return row;
}

struct stats *stats_new(unsigned workers)
{
	struct stats *stats = calloc(1, sizeof(*stats) + workers * sizeof(stats->blocks[0]));

	if (!stats)
		return NULL;
	stats->workers = workers;
	pthread_mutex_init(&stats->lock, NULL);
	for (unsigned scope = 0; scope < STATS_SCOPES; scope++) {
		add_row(stats, scope, STATS_OTHER);
		if (stats_row_count(stats, scope) == 0) {
			stats_free(stats);
			return NULL;
		}
	}
	return stats;
}

void stats_free(struct stats *stats)
{
	if (!stats)
		return;
	for (unsigned scope = 0; scope < STATS_SCOPES; scope++) {
		for (unsigned i = 0; i < STATS_CHUNKS; i++)
			free_chunks(stats, scope, i);
		for (unsigned i = 0; i < stats_row_count(stats, scope); i++)
			free(stats->scopes[scope].names[i]);
	}
	pthread_mutex_destroy(&stats->lock);
	free(stats);
}

unsigned stats_register(struct stats *stats, enum stats_scope scope, const char *name)
{
	struct scope_names *names = &stats->scopes[scope];
	unsigned row;

	pthread_mutex_lock(&stats->lock);
	unsigned count = atomic_load_explicit(&names->count, memory_order_relaxed);
	for (row = 0; row < count; row++) {
		if (strcmp(names->names[row], name) == 0)
			break;
	}
	if (row == count)
		row = add_row(stats, scope, name);
	pthread_mutex_unlock(&stats->lock);
	return row;
}

struct stats_block *stats_block(struct stats *stats, unsigned worker)
{
	return &stats->blocks[worker];
}

unsigned stats_row_count(const struct stats *stats, enum stats_scope scope)
{
	/* acquire: pairs with the release in add_row */
	return atomic_load_explicit(&stats->scopes[scope].count, memory_order_acquire);
}

const char *stats_row_name(const struct stats *stats, enum stats_scope scope, unsigned row)
{
	return stats->scopes[scope].names[row];
}

void stats_sum(const struct stats *stats, enum stats_scope scope, unsigned row, uint64_t *slots)
{
	memset(slots, 0, stats_slots[scope] * sizeof(*slots));
	for (unsigned i = 0; i < stats->workers; i++) {
		const _Atomic uint64_t *own =
			stats_row((struct stats_block *)(uintptr_t)&stats->blocks[i], scope, row);
		for (unsigned slot = 0; slot < stats_slots[scope]; slot++) {
			/* relaxed: any recent value */
			slots[slot] += atomic_load_explicit(&own[slot], memory_order_relaxed);
		}
	}
}
