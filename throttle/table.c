/*
 * Opening, changing and closing a table.
 *
 *   throttle.table  --- open, limits as wanted ------------------------------> in use
 *                   --- open, other limits --> throttle.next, moved into ---> renamed, in use
 *                   --- not to be trusted  --> throttle.table.set-aside, a new one
 *
 * While a process opens a table, or changes its limits, it has the folder locked.
 *
 * A change of limits makes a new generation in a file of its own. It is complete before the first
 * of the old one's callers is frozen; it takes the old one's name when the last was moved. A
 * process killed in between leaves both, and the next one goes on moving.
 */
#include "throttle/table.h"
#include "throttle/levels.h"
#include "throttle/limit.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET_ASIDE     GENERATION_FILE ".set-aside"
#define EPOCH_BACK_NS UINT64_C(10000000000)

static void tell(struct throttle_report *report, enum throttle_found found, const char *text,
	const char *detail)
{
	if (report == NULL)
		return;
	report->found = found;
	snprintf(report->text, sizeof(report->text), "%s%s%s", text, detail[0] != '\0' ? ": " : "",
		detail);
}

/* As they are stored: no stray bytes behind strings, so that equal limits compare equal. */
static void tidy(struct throttle_limit *to, const struct throttle_limit *from)
{
	memset(to, 0, sizeof(*to));
	snprintf(to->name, sizeof(to->name), "%s", from->name);
	snprintf(to->was, sizeof(to->was), "%.*s", THROTTLE_NAME_BYTES - 1, from->was);
	snprintf(to->zone, sizeof(to->zone), "%.*s", THROTTLE_ZONE_BYTES - 1, from->zone);
	to->kind = from->kind;
	to->unit = from->unit;
	to->quota = from->quota;
	to->window_ns = from->window_ns;
	to->guard_ns = from->guard_ns;
	to->slots = from->slots;
	to->burst = from->burst;
	to->period = from->period;
	to->mode = from->mode;
	to->count_refused = from->count_refused;
	to->delay_max_ns = from->delay_max_ns;
	to->ban_count = from->ban_count;
	to->ban_per_ns = from->ban_per_ns;
	to->ban_for_ns = from->ban_for_ns;
}

/* Checked copies, or NULL with errno. */
static struct throttle_limit *tidy_all(
	const struct throttle_limit *limits, size_t count, struct throttle_report *report)
{
	struct throttle_limit *copy = calloc(count > 0 ? count : 1, sizeof(*copy));
	char why[200];

	if (copy == NULL)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (throttle_limit_check(&limits[i], why, sizeof(why)) != 0)
			goto wrong;
		tidy(&copy[i], &limits[i]);
		for (size_t j = 0; j < i; j++)
			if (strcmp(copy[i].name, copy[j].name) == 0) {
				snprintf(why, sizeof(why), "limit \"%s\" is there twice",
					copy[i].name);
				goto wrong;
			}
		for (size_t j = 0; copy[i].was[0] != '\0' && j < count; j++)
			if (strcmp(copy[i].was, limits[j].name) == 0 ||
				(j < i && strcmp(copy[i].was, copy[j].was) == 0)) {
				snprintf(why, sizeof(why),
					"limit \"%s\" can't have been \"%s\", as another is or was",
					copy[i].name, copy[i].was);
				goto wrong;
			}
	}
	if (count <= THROTTLE_MAX_LIMITS)
		return copy;
	snprintf(why, sizeof(why), "more than %d limits", THROTTLE_MAX_LIMITS);
wrong:
	tell(report, THROTTLE_FOUND_NONE, why, "");
	free(copy);
	errno = EINVAL;
	return NULL;
}

/* The number of a name, or -1. */
static int known_number(const struct throttle_table *t, const char *name)
{
	for (uint32_t i = 0; i < t->name_count; i++)
		if (strcmp(t->names[i], name) == 0)
			return (int)i;
	return -1;
}

/* The number of a name, given to it when it is new; -1 without memory. A number is never given to
 * another name: receipts and callers of the table hold on to it. */
static int number_of(struct throttle_table *t, const char *name)
{
	int known = known_number(t, name);

	if (known >= 0)
		return known;
	if (t->name_count == t->name_room) {
		uint32_t room = t->name_room > 0 ? 2 * t->name_room : 16;
		void *names = reallocarray(t->names, room, sizeof(*t->names));

		if (names == NULL)
			return -1;
		t->names = names;
		t->name_room = room;
	}
	snprintf(t->names[t->name_count], THROTTLE_NAME_BYTES, "%s", name);
	return (int)t->name_count++;
}

/* The limit that a number stands for that none has any more: the one that took over from it. */
static struct limit_state *successor_of(
	const struct throttle_table *t, const struct generation *g, uint32_t id)
{
	const struct generation *last = table_current(t);
	const struct limit_state *then = last != NULL ? table_limit(last, id) : NULL;

	for (uint32_t i = 0; i < g->count; i++) {
		struct limit_state *l = &g->limits[i * g->levels];

		if (strcmp(l->limit.was, t->names[id]) == 0 ||
			(then != NULL && strcmp(then->limit.name, t->names[id]) != 0 &&
				(strcmp(l->limit.name, then->limit.name) == 0 ||
					strcmp(l->limit.was, then->limit.name) == 0)))
			return l;
	}
	return NULL;
}

static int number_limits(struct throttle_table *t, struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (number_of(t, generation_limit(g, i)->limit.name) < 0)
			return ENOMEM;
	if (t->name_count > GENERATION_NEAR_IDS) {
		g->far_ids = calloc(t->name_count - GENERATION_NEAR_IDS, sizeof(g->far_ids[0]));
		if (g->far_ids == NULL)
			return ENOMEM;
	}
	g->ids = t->name_count;
	for (uint32_t i = 0; i < g->count; i++) {
		struct limit_state *l = &g->limits[i * g->levels];

		atomic_init(
			generation_id(g, (uint32_t)known_number(t, l->limit.name)), &l[l->begins]);
	}
	for (uint32_t id = 0; id < g->ids; id++) {
		struct limit_state *l = NULL;

		if (table_limit(g, id) == NULL)
			l = successor_of(t, g, id);
		if (l != NULL)
			atomic_init(generation_id(g, id), &l[l->begins]);
	}
	for (uint32_t n = 0; n < g->count * g->levels; n++)
		g->limits[n].section.shape.wall_shift_ns = &t->wall_shift_ns;
	return 0;
}

/* NULL with errno, and no file is left. */
static struct generation *create(struct throttle_table *t, const struct generation_source *source,
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
	return create(t, &source, limits, count);
}

/* The last caller has moved: the new table takes the old one's name. */
static int settle(struct throttle_table *t, struct generation *g)
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
	error = number_limits(t, g);
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
	return change->next == NULL ? errno : number_limits(t, change->next);
}

struct throttle_change *throttle_table_prepare(struct throttle_table *t,
	const struct throttle_limit *limits, size_t count, uint64_t callers, uint64_t now_ns,
	struct throttle_report *report)
{
	struct throttle_limit *wanted = tidy_all(limits, count, report);
	struct throttle_change *change = wanted != NULL ? calloc(1, sizeof(*change)) : NULL;
	int error = wanted == NULL ? errno : ENOMEM;

	if (change != NULL) {
		tell(report, THROTTLE_FOUND_TABLE, "counters go on where they stood", "");
		change->table = t;
		change->lock = -1;
		t->is_changing = true;
		error = prepare(change, wanted, count, callers, now_ns);
	}
	free(wanted);
	if (error == 0)
		return change;
	if (change != NULL)
		tell(report, THROTTLE_FOUND_UNUSABLE, "limits could not be changed",
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
		error = settle(t, next);
		if (!t->grows)
			levels_grow(next, true); /* all of it is ready */
		last->retired = t->retired;
		t->retired = last;
	}
	store_unlock(lock);
	if (error == 0)
		return 0;
	tell(report, THROTTLE_FOUND_UNUSABLE, "the table's file could not be renamed",
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

static void unlock(struct throttle_table *t, int lock)
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
	unlock(t, lock);
	errno = error;
	return error == 0 ? 0 : -1;
}

static void collect_levels(struct throttle_table *t, struct generation *g)
{
	int lock;

	if (!g->has_given_up || lock_at_once(t, &lock) != 0)
		return;
	levels_collect(g);
	unlock(t, lock);
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
	error = change->next == NULL ? errno : number_limits(t, change->next);
	if (error == 0) {
		throttle_table_commit(t, change, now_ns, NULL);
		return table_current(t)->store.file;
	}
	throttle_table_discard(change);
	errno = error;
	return -1;
}

const char *throttle_table_folder(const struct throttle_table *t)
{
	return t->folder;
}

/* What a process that was killed while limits changed has left: goes on with it. NULL with errno:
 * it can't now, and both files stay, since what callers have used up since is only in the newer. */
static struct generation *resume_move(
	struct throttle_table *t, struct generation *last, uint64_t now_ns)
{
	char why[128];
	struct generation *next =
		generation_open(t->folder, GENERATION_NEXT, now_ns, why, sizeof(why));
	int error = next == NULL ? errno : 0;

	if (error == ENOENT || error == EBADMSG) {
		store_remove(t->folder, GENERATION_NEXT);
		generation_thaw(last);
		return last;
	}
	if (error == 0) {
		generation_link(next, last);
		error = settle(t, next);
	}
	generation_free(last);
	if (error == 0)
		return next;
	generation_free(next);
	errno = error;
	return NULL;
}

/* The table in the folder's file, or NULL with errno: ENOENT, or what makes it unusable. */
static struct generation *open_file(
	struct throttle_table *t, uint64_t now_ns, struct throttle_report *report)
{
	char why[128];
	struct generation *g =
		generation_open(t->folder, GENERATION_FILE, now_ns, why, sizeof(why));
	int error = errno;

	if (g != NULL) {
		tell(report, THROTTLE_FOUND_TABLE, "counters go on where they stood", "");
		return resume_move(t, g, now_ns);
	}
	if (error != EBADMSG) {
		errno = error;
		return NULL;
	}
	store_remove(t->folder, GENERATION_NEXT);
	error = store_rename(t->folder, GENERATION_FILE, SET_ASIDE);
	tell(report, THROTTLE_FOUND_SET_ASIDE,
		"the file " GENERATION_FILE " was set aside, all counters begin anew", why);
	errno = error != 0 ? error : ENOENT;
	return NULL;
}

static int new_table(struct throttle_table *t, const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct generation **g)
{
	struct generation_source source = {
		.folder = t->folder,
		.name = GENERATION_NEXT,
		.callers = options->callers,
		.grows = t->grows,
	};
	int error = 0;

	generation_size(&source, options->callers, t->grows);

	if (options->seed != NULL)
		source.seed = *options->seed;
	else
		error = store_random(&source.seed, sizeof(source.seed));
	if (options->now_ns > EPOCH_BACK_NS) {
		source.epoch_ns = options->now_ns - EPOCH_BACK_NS;
		source.latest = EPOCH_BACK_NS;
	}
	if (error != 0)
		return error;
	*g = create(t, &source, limits, count);
	if (*g == NULL)
		return errno;
	if (t->folder != NULL)
		error = store_rename(t->folder, GENERATION_NEXT, GENERATION_FILE);
	return error;
}

/* The generation that another process has open, if it is of these limits. 0 or errno. */
static int join(struct throttle_table *t, const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct throttle_report *report,
	struct generation **g, int *lock)
{
	char why[128] = "";
	int error =
		t->folder != NULL && options->shared < 0 ? store_lock(t->folder, true, lock) : 0;

	tell(report, THROTTLE_FOUND_TABLE, "counters go on where they stood", "");
	if (options->shared >= 0) {
		free(t->folder);
		t->folder = NULL;
		*g = generation_open_shared(options->shared, options->now_ns, why, sizeof(why));
	} else if (error == 0) {
		*g = t->folder == NULL ? NULL
				       : generation_open(t->folder, GENERATION_FILE,
						 options->now_ns, why, sizeof(why));
	}
	if (*g == NULL) {
		error = error != 0                                 ? error
			: t->folder == NULL && options->shared < 0 ? EINVAL
								   : errno;
		tell(report, THROTTLE_FOUND_UNUSABLE, "the table in use can't be opened",
			why[0] != '\0' ? why : strerror(error));
		return error;
	}
	if (generation_has_limits(*g, limits, count) && (*g)->callers == options->callers)
		return 0;
	tell(report, THROTTLE_FOUND_UNUSABLE,
		"the limits or the capacity are not those of the table in use", "");
	return EBUSY;
}

/* Finds or makes the generation to begin with. 0 or errno. */
static int begin(struct throttle_table *t, const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct throttle_report *report,
	struct generation **g, int *lock)
{
	int error = ENOENT;

	tell(report, THROTTLE_FOUND_NONE, "a new table", "");
	*g = NULL;
	if (t->folder != NULL) {
		error = store_lock(t->folder, true, lock);
		if (error == 0)
			*g = open_file(t, options->now_ns, report);
		if (error == 0 && *g == NULL)
			error = errno;
	}
	if (error == ENOENT)
		error = new_table(t, options, limits, count, g);
	if (error == 0 || t->folder == NULL)
		return error;
	generation_free(*g);
	*g = NULL;
	tell(report, THROTTLE_FOUND_UNUSABLE, "counters can't be kept in the folder",
		strerror(error));
	if (!options->memory_if_unwritable)
		return error;
	free(t->folder);
	t->folder = NULL;
	return new_table(t, options, limits, count, g);
}

static uint64_t newest_of(const struct generation *g)
{
	return g->epoch_ns + generation_latest(g);
}

static void set_offset(struct throttle_table *t, uint64_t now_ns, uint64_t newest)
{
	/* relaxed: no other thread is in a call */
	atomic_store_explicit(
		&t->offset_ns, newest > now_ns ? newest - now_ns : 0, memory_order_relaxed);
	throttle_set_wall(t, now_ns, now_ns);
}

/*
 * Time goes on from the newest that the file said when the opening began. Where another process has
 * it open that has gone on since: so what can be the time until it was looked at is no difference
 * of clocks, lest this process is ahead of that one for ever.
 */
static void begin_time(struct throttle_table *t, uint64_t now_ns, uint64_t newest)
{
	const uint64_t newest_now = newest_of(table_current(t));

	newest = newest < newest_now ? newest : newest_now; /* of a damaged one */
	set_offset(t, now_ns, newest > TIME_LAG_NS ? newest - TIME_LAG_NS : 0);
}

struct throttle_table *throttle_table_open(const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct throttle_report *report)
{
	struct throttle_limit *wanted = tidy_all(limits, count, report);
	struct throttle_table *t = calloc(1, sizeof(*t));
	struct generation *g = NULL;
	int error = wanted == NULL ? errno : ENOMEM, lock = -1;
	uint64_t newest = 0;

	if (t != NULL && wanted != NULL) {
		t->grows = options->grows;
		t->folder = options->folder != NULL ? strdup(options->folder) : NULL;
		/* Before the folder's lock is waited for, while `now_ns` is still now. */
		if (t->folder != NULL)
			newest = generation_peek(t->folder, GENERATION_FILE);
		if (t->folder != NULL || options->folder == NULL)
			error = (options->joins ? join : begin)(
				t, options, wanted, count, report, &g, &lock);
	}
	if (error == 0)
		error = number_limits(t, g);
	if (error != 0) {
		generation_free(g);
		if (t != NULL) {
			free(t->names);
			free(t->folder);
		}
		free(t);
		free(wanted);
		store_unlock(lock);
		errno = error;
		return NULL;
	}
	atomic_init(&t->current, g);
	begin_time(t, options->now_ns, newest);
	if (throttle_table_apply(t, wanted, count, options->callers, options->now_ns, NULL) != 0)
		error = errno;
	else if (!t->grows)
		error = levels_grow(table_current(t), true);
	if (error != 0) {
		tell(report, THROTTLE_FOUND_UNUSABLE, "limits could not be changed",
			strerror(error));
		throttle_table_close(t);
		t = NULL;
	} else {
		throttle_table_collect(t);
		levels_collect(table_current(t)); /* the folder is locked */
		t->is_in_use = true;
		unlock(t, lock);
		lock = -1;
	}
	store_unlock(lock);
	free(wanted);
	errno = error;
	return t;
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

int throttle_table_number(const struct throttle_table *t, const char *name)
{
	return known_number(t, name);
}

int throttle_table_find(const struct throttle_table *t, const char *name)
{
	int number = known_number(t, name);
	const struct limit_state *l =
		number >= 0 ? table_limit(table_current(t), (uint32_t)number) : NULL;

	/* Under another name it is only for those who hold its number. */
	return l != NULL && strcmp(l->limit.name, name) == 0 ? number : -1;
}

struct throttle_seed throttle_table_seed(const struct throttle_table *t)
{
	return *generation_seed(table_current(t));
}

void throttle_rebase(struct throttle_table *t, uint64_t now_ns)
{
	set_offset(t, now_ns, newest_of(table_current(t)));
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
