/* The limits of a table: checked copies of them, and the numbers that their names have. */
#include "throttle/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
