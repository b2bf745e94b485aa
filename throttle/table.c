/* A table in use: its growth, its time, its counters. See table_open.c and table_change.c. */
#include "throttle/table.h"
#include "throttle/levels.h"
#include "throttle/limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void table_report(struct throttle_report *report, enum throttle_found found, const char *text,
	const char *detail)
{
	if (report == NULL)
		return;
	report->found = found;
	snprintf(report->text, sizeof(report->text), "%s%s%s", text, detail[0] != '\0' ? ": " : "",
		detail);
}

bool throttle_table_wants_growth(const struct throttle_table *t)
{
	/* relaxed: a hint, which says so again */
	return atomic_load_explicit(&table_current(t)->wants_growth, memory_order_relaxed) != 0;
}

/* 0 or errno: another process changes the table, or this one does. */
static int lock_at_once(struct throttle_table *t, int *lock)
{
	*lock = -1;
	if (t->is_changing)
		return EAGAIN;
	if (t->folder == NULL)
		return store_lock_shared(&table_current(t)->store, false) ? 0 : EAGAIN;
	return store_lock(t->folder, false, lock);
}

void table_unlock(struct throttle_table *t, int lock)
{
	store_unlock(lock);
	if (t->folder == NULL)
		store_unlock_shared(&table_current(t)->store);
}

int throttle_table_grow(struct throttle_table *t)
{
	struct generation *g = table_current(t);
	int lock, error = lock_at_once(t, &lock);

	if (error == 0 &&
		(t->folder == NULL || store_is_named(&g->store, t->folder, GENERATION_FILE)))
		error = levels_grow(g, false);
	table_unlock(t, lock);
	errno = error;
	return error == 0 ? 0 : -1;
}

static void collect_levels(struct throttle_table *t, struct generation *g)
{
	int lock;

	if (!g->has_given_up || lock_at_once(t, &lock) != 0)
		return;
	levels_collect(g);
	table_unlock(t, lock);
}

void throttle_table_collect(struct throttle_table *t)
{
	collect_levels(t, table_current(t));
	while (t->retired != NULL) {
		struct generation *g = t->retired;

		t->retired = g->retired;
		generation_free(g);
	}
}

const char *throttle_table_folder(const struct throttle_table *t)
{
	return t->folder;
}

uint64_t table_newest(const struct throttle_table *t)
{
	const struct generation *g = table_current(t);

	return g->epoch_ns + generation_latest(g);
}

void table_set_offset(struct throttle_table *t, uint64_t now_ns, uint64_t newest)
{
	/* relaxed: no other thread is in a call */
	atomic_store_explicit(
		&t->offset_ns, newest > now_ns ? newest - now_ns : 0, memory_order_relaxed);
	throttle_set_wall(t, now_ns, now_ns);
}

void throttle_table_close(struct throttle_table *t)
{
	if (t == NULL)
		return;
	throttle_table_collect(t);
	generation_free(table_current(t));
	free(t->names);
	free(t->folder);
	free(t);
}

struct throttle_seed throttle_table_seed(const struct throttle_table *t)
{
	return *generation_seed(table_current(t));
}

void throttle_rebase(struct throttle_table *t, uint64_t now_ns)
{
	table_set_offset(t, now_ns, table_newest(t));
}

void throttle_set_wall(struct throttle_table *t, uint64_t now_ns, uint64_t wall_ns)
{
	/* relaxed: set while no other thread is in a call */
	uint64_t offset = atomic_load_explicit(&t->offset_ns, memory_order_relaxed);

	/* relaxed: see wall_of in calendar.c */
	atomic_store_explicit(
		&t->wall_shift_ns, (int64_t)(wall_ns - now_ns - offset), memory_order_relaxed);
}

int throttle_table_counters(
	const struct throttle_table *t, uint32_t limit, struct throttle_counters *counters)
{
	const struct generation *g = table_current(t);
	const struct limit_state *l = table_limit(g, limit);
	uint32_t i;

	if (l == NULL)
		return -1;
	i = (uint32_t)(l - g->limits) / g->levels;
	*counters = (struct throttle_counters){
		.capacity = g->callers,
		.entries = levels_entries(g, i, l->level),
	};
	for (l -= l->level; l != NULL; l = l->level + 1 < g->levels ? l + 1 : NULL) {
		const struct tally *tally = l->section.tally;

		/* relaxed: for people */
		counters->evicted += atomic_load_explicit(&tally->evicted, memory_order_relaxed);
		counters->overflowed +=
			atomic_load_explicit(&tally->overflowed, memory_order_relaxed);
	}
	counters->bytes = levels_reserved(g, i);
	return 0;
}

size_t throttle_limit_bytes(const struct throttle_limit *limit)
{
	const uint64_t callers = 1u << 20;
	struct shape shape;

	limit_shape(limit, &shape);
	return (size_t)((section_bytes(&shape, section_buckets_for(callers)) + callers / 2) /
			callers);
}
