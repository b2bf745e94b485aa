/*
 * Opening a table.
 *
 *   throttle.table  --- open, limits as wanted ------------------------------> in use
 *                   --- open, other limits --> throttle.next, moved into ---> renamed, in use
 *                   --- not to be trusted  --> throttle.table.set-aside, a new one; what was
 *                                              being moved to goes to throttle.next.set-aside
 *
 * While a process opens one it has the folder locked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "throttle/levels.h"
#include "throttle/table.h"

#define SET_ASIDE     ".set-aside"
#define EPOCH_BACK_NS UINT64_C(10000000000)

/* What a process that was killed while limits changed has left: continues with it. NULL with errno:
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
		error = table_settle(t, next);
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
		table_report(report, THROTTLE_FOUND_TABLE, "counters go on where they stood", "");
		return resume_move(t, g, now_ns);
	}
	if (error != EBADMSG) {
		errno = error;
		return NULL;
	}
	/* Callers of a table of another version may have been moved to it already. */
	store_rename(t->folder, GENERATION_NEXT, GENERATION_NEXT SET_ASIDE);
	error = store_rename(t->folder, GENERATION_FILE, GENERATION_FILE SET_ASIDE);
	table_report(report, THROTTLE_FOUND_SET_ASIDE,
		"the file " GENERATION_FILE " was set aside, all counters begin again", why);
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
	*g = table_create(t, &source, limits, count);
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

	table_report(report, THROTTLE_FOUND_TABLE, "counters go on where they stood", "");
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
		table_report(report, THROTTLE_FOUND_UNUSABLE, "the table in use can't be opened",
			why[0] != '\0' ? why : strerror(error));
		return error;
	}
	if (generation_has_limits(*g, limits, count) && (*g)->callers == options->callers)
		return 0;
	table_report(report, THROTTLE_FOUND_UNUSABLE,
		"the limits or the capacity are not those of the table in use", "");
	return EBUSY;
}

/* Finds or makes the generation to begin with. 0 or errno. */
static int begin(struct throttle_table *t, const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct throttle_report *report,
	struct generation **g, int *lock)
{
	int error = ENOENT;

	table_report(report, THROTTLE_FOUND_NONE, "a new table", "");
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
	table_report(report, THROTTLE_FOUND_UNUSABLE, "counters can't be kept in the folder",
		strerror(error));
	if (!options->memory_if_unwritable)
		return error;
	free(t->folder);
	t->folder = NULL;
	return new_table(t, options, limits, count, g);
}

/*
 * Time continues from the newest that the file said when the opening began. Where another process
 * has it open that has gone on since: so what can be the time until it was looked at is no
 * difference of clocks, lest this process is ahead of that one for ever.
 */
static void begin_time(struct throttle_table *t, uint64_t now_ns, uint64_t newest)
{
	const uint64_t newest_now = table_newest(t);

	newest = newest < newest_now ? newest : newest_now; /* of a damaged one */
	table_set_offset(t, now_ns, newest > TIME_LAG_NS ? newest - TIME_LAG_NS : 0);
}

struct throttle_table *throttle_table_open(const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct throttle_report *report)
{
	struct throttle_limit *wanted = table_copy_limits(limits, count, report);
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
		error = table_number_limits(t, g);
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
		table_report(report, THROTTLE_FOUND_UNUSABLE, "limits could not be changed",
			strerror(error));
		throttle_table_close(t);
		t = NULL;
	} else {
		throttle_table_collect(t);
		levels_collect(table_current(t)); /* the folder is locked */
		t->is_in_use = true;
		table_unlock(t, lock);
		lock = -1;
	}
	store_unlock(lock);
	free(wanted);
	errno = error;
	return t;
}

/* ---- table limits --------------------------------------------------------------------------- */

/* The limits of a table: checked copies of them, and the numbers that their names have. */

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
struct throttle_limit *table_copy_limits(
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
	table_report(report, THROTTLE_FOUND_NONE, why, "");
	free(copy);
	errno = EINVAL;
	return NULL;
}

int throttle_table_number(const struct throttle_table *t, const char *name)
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
	int known = throttle_table_number(t, name);

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

int table_number_limits(struct throttle_table *t, struct generation *g)
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

		atomic_init(generation_id(g, (uint32_t)throttle_table_number(t, l->limit.name)),
			&l[l->begins]);
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

int throttle_table_find(const struct throttle_table *t, const char *name)
{
	int number = throttle_table_number(t, name);
	const struct limit_state *l =
		number >= 0 ? table_limit(table_current(t), (uint32_t)number) : NULL;

	/* Under another name it is only for those who hold its number. */
	return l != NULL && strcmp(l->limit.name, name) == 0 ? number : -1;
}
