/* A table in use: its growth, its time, its counters. See table_open.c and table.c. */
#include "throttle/table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "throttle/levels.h"
#include "throttle/limit.h"

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

int throttle_table_end_others(struct throttle_table *t)
{
	int lock, error = lock_at_once(t, &lock);

	if (error == 0 && !generation_clear_ended(table_current(t)))
		error = EAGAIN;
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

/* ---- table change --------------------------------------------------------------------------- */

/*
 * Changing a table's limits.
 *
 * A change makes a new generation in a file of its own. It is complete before the first of the old
 * one's callers is frozen; it takes the old one's name when the last was moved. A process killed in
 * between leaves both, and the next one continues moving. Meanwhile it has the folder locked.
 */

/* NULL with errno, and no file is left. */
struct generation *table_create(struct throttle_table *t, const struct generation_source *source,
	const struct throttle_limit *limits, size_t count)
{
	struct generation *g;
	int error;

	if (t->folder != NULL)
		store_remove(t->folder, GENERATION_NEXT);
	g = generation_create(source, limits, count);
	error = errno;
	if (g == NULL && t->folder != NULL)
		store_remove(t->folder, GENERATION_NEXT);
	errno = error;
	return g;
}

/* A new generation for the same time and seed as `last`'s, of the same levels: each bucket is one
 * of the old ones. So those who have an entry of their own there find room here, and what is in
 * flight can be given back. NULL with errno. */
static struct generation *next_generation(struct throttle_table *t, const struct generation *last,
	const struct throttle_limit *limits, size_t count, uint64_t callers, bool shareable)
{
	struct generation_source source = {
		.folder = t->folder,
		.shareable = shareable,
		.name = GENERATION_NEXT,
		.seed = *generation_seed(last),
		.epoch_ns = last->epoch_ns,
		.latest = generation_latest(last),
		.callers = callers,
		.buckets = last->buckets,
		.levels = last->levels,
		.last = last,
		.grows = t->grows,
	};

	generation_size(&source, callers, t->grows);
	return table_create(t, &source, limits, count);
}

/* The last caller has moved: the new table takes the old one's name. */
int table_settle(struct throttle_table *t, struct generation *g)
{
	generation_move_all(g);
	return t->folder == NULL ? 0 : store_rename(t->folder, GENERATION_NEXT, GENERATION_FILE);
}

/* Another process has moved the table on: its file is the one to move from. 0 or errno. */
static int follow(struct throttle_table *t, uint64_t now_ns)
{
	struct generation *last = table_current(t), *g;
	char why[128];
	int error;

	if (t->folder == NULL || store_is_named(&last->store, t->folder, GENERATION_FILE))
		return 0;
	g = generation_open(t->folder, GENERATION_FILE, now_ns, why, sizeof(why));
	if (g == NULL)
		return errno == ENOENT || errno == EBADMSG ? 0 : errno;
	error = table_number_limits(t, g);
	if (error != 0) {
		generation_free(g);
		return error;
	}
	generation_set_number(g, last->number + 1);
	for (uint32_t n = 0; n < g->count * g->levels; n++)
		g->limits[n].section.refunds_since = g->number;
	/* release: pairs with table_current */
	atomic_store_explicit(&t->current, g, memory_order_release);
	last->retired = t->retired;
	t->retired = last;
	return 0;
}

/* Makes change->next, where anything changes. 0 or errno. */
static int prepare(struct throttle_change *change, const struct throttle_limit *limits,
	size_t count, uint64_t callers, uint64_t now_ns)
{
	struct throttle_table *t = change->table;
	struct generation *last;
	uint64_t now;
	int error = 0;

	if (t->is_in_use && t->folder != NULL)
		error = store_lock(t->folder, true, &change->lock);
	if (error == 0 && t->is_in_use)
		error = follow(t, now_ns);
	last = table_current(t);
	callers = callers > 0 ? callers : last->callers;
	if (error != 0 || (generation_has_limits(last, limits, count) && callers == last->callers))
		return error;
	/* Notes the time for what is to be remembered. */
	generation_time(
		last, now_ns, atomic_load_explicit(&t->offset_ns, memory_order_relaxed), &now);
	change->next = next_generation(t, last, limits, count, callers, false);
	return change->next == NULL ? errno : table_number_limits(t, change->next);
}

struct throttle_change *throttle_table_prepare(struct throttle_table *t,
	const struct throttle_limit *limits, size_t count, uint64_t callers, uint64_t now_ns,
	struct throttle_report *report)
{
	struct throttle_limit *wanted = table_copy_limits(limits, count, report);
	struct throttle_change *change = wanted != NULL ? calloc(1, sizeof(*change)) : NULL;
	int error = wanted == NULL ? errno : ENOMEM;

	if (change != NULL) {
		table_report(report, THROTTLE_FOUND_TABLE, "counters go on where they stood", "");
		change->table = t;
		change->lock = -1;
		t->is_changing = true;
		error = prepare(change, wanted, count, callers, now_ns);
	}
	free(wanted);
	if (error == 0)
		return change;
	if (change != NULL)
		table_report(report, THROTTLE_FOUND_UNUSABLE, "limits could not be changed",
			strerror(error));
	throttle_table_discard(change);
	errno = error;
	return NULL;
}

void throttle_table_discard(struct throttle_change *change)
{
	if (change == NULL)
		return;
	change->table->is_changing = false;
	if (change->next != NULL) {
		generation_free(change->next);
		if (change->table->folder != NULL)
			store_remove(change->table->folder, GENERATION_NEXT);
	}
	store_unlock(change->lock);
	free(change);
}

int throttle_table_commit(struct throttle_table *t, struct throttle_change *change, uint64_t now_ns,
	struct throttle_report *report)
{
	struct generation *last = table_current(t), *next = change->next;
	int error = 0, lock = change->lock;
	uint64_t now;

	assert(change->table == t);
	free(change);
	t->is_changing = false;
	if (next != NULL) {
		generation_time(last, now_ns,
			atomic_load_explicit(&t->offset_ns, memory_order_relaxed), &now);
		/* relaxed: the next store publishes it */
		atomic_store_explicit(next->latest, generation_latest(last), memory_order_relaxed);
		generation_link(next, last);
		/* release: pairs with table_current; the generation is whole before it is seen,
		 * and it is seen before the last one is closed */
		atomic_store_explicit(&t->current, next, memory_order_release);
		error = table_settle(t, next);
		if (!t->grows)
			levels_grow(next, true); /* all of it is ready */
		last->retired = t->retired;
		t->retired = last;
	}
	store_unlock(lock);
	if (error == 0)
		return 0;
	table_report(report, THROTTLE_FOUND_UNUSABLE, "the table's file could not be renamed",
		strerror(error));
	errno = error;
	return -1;
}

int throttle_table_apply(struct throttle_table *t, const struct throttle_limit *limits,
	size_t count, uint64_t callers, uint64_t now_ns, struct throttle_report *report)
{
	struct throttle_change *change =
		throttle_table_prepare(t, limits, count, callers, now_ns, report);

	if (change == NULL)
		return -1;
	/* In force even when its file could not be renamed, which the report then says. */
	throttle_table_commit(t, change, now_ns, report);
	return 0;
}

int throttle_table_share(struct throttle_table *t, uint64_t now_ns)
{
	struct generation *last = table_current(t);
	struct throttle_change *change;
	int error = 0;
	uint64_t now;

	errno = EINVAL;
	if (t->folder != NULL)
		return -1;
	if (last->store.file >= 0)
		return last->store.file;
	change = calloc(1, sizeof(*change));
	if (change == NULL)
		return -1;
	change->table = t;
	change->lock = -1;
	/* Notes the time for what is to be remembered. */
	generation_time(
		last, now_ns, atomic_load_explicit(&t->offset_ns, memory_order_relaxed), &now);
	change->next =
		next_generation(t, last, generation_limits(last), last->count, last->callers, true);
	error = change->next == NULL ? errno : table_number_limits(t, change->next);
	if (error == 0) {
		throttle_table_commit(t, change, now_ns, NULL);
		return table_current(t)->store.file;
	}
	throttle_table_discard(change);
	errno = error;
	return -1;
}
