#include "fleet/views.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"

bool views_init(struct views *views)
{
	memset(views, 0, sizeof(*views));
	views->due_end = &views->due;
	return getentropy(&views->seed, sizeof(views->seed)) == 0;
}

void views_end(struct views *views)
{
	while (views->oldest) {
		struct view *view = views->oldest;
		views->oldest = view->newer;
		free(view);
	}
	hash_table_end(&views->hashed);
	views->newest = views->due = NULL;
	views->due_end = &views->due;
}

/* ---- the order of use ------------------------------------------------------------------------ */

static void unlink_used(struct views *views, struct view *view)
{
	*(view->older ? &view->older->newer : &views->oldest) = view->newer;
	*(view->newer ? &view->newer->older : &views->newest) = view->older;
}

static void link_newest(struct views *views, struct view *view)
{
	view->older = views->newest;
	view->newer = NULL;
	*(view->older ? &view->older->newer : &views->oldest) = view;
	views->newest = view;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* A limit's name is the same text as long as the worker. */
static uint64_t hash_of(const struct views *views, struct throttle_key caller, const char *limit)
{
	const uint64_t words[] = {caller.hi, caller.lo, (uintptr_t)limit};

	return throttle_hash(&views->seed, words, sizeof(words)).lo;
}

/* Memory for another one. */
static struct view *make(struct views *views, size_t most)
{
	struct view *view = views->oldest;

	if (views->hashed.count < most)
		return malloc(sizeof(*view));
	if (!view || view->is_due || view->is_away || view->fresh != 0 || view->given != 0)
		return NULL;
	unlink_used(views, view);
	hash_table_remove(&views->hashed, &view->link);
	return view;
}

static struct view *add(struct views *views, struct throttle_key caller, const char *limit,
	size_t most, uint64_t hash)
{
	struct view *view = make(views, most);

	if (!view)
		return NULL;
	*view = (struct view){.caller = caller, .limit = limit};
	if (!hash_table_add(&views->hashed, &view->link, hash)) {
		free(view);
		return NULL;
	}
	link_newest(views, view);
	return view;
}

struct view *views_find(
	struct views *views, struct throttle_key caller, const char *limit, size_t most)
{
	uint64_t hash = hash_of(views, caller, limit);
	struct hash_link *link = hash_table_first(&views->hashed, hash);

	for (; link; link = hash_table_next(&views->hashed, link)) {
		struct view *view = CONTAINER_OF(link, struct view, link);
		if (view->caller.lo != caller.lo || view->caller.hi != caller.hi ||
			view->limit != limit)
			continue;
		unlink_used(views, view);
		link_newest(views, view);
		return view;
	}
	return add(views, caller, limit, most, hash);
}

/* ---- what is due ----------------------------------------------------------------------------- */

void views_put_due(struct views *views, struct view *view)
{
	if (view->is_due)
		return;
	view->is_due = true;
	view->next_due = NULL;
	*views->due_end = view;
	views->due_end = &view->next_due;
}

struct view *views_take_due(struct views *views)
{
	struct view *view = views->due;

	if (!view)
		return NULL;
	views->due = view->next_due;
	if (!views->due)
		views->due_end = &views->due;
	view->is_due = false;
	return view;
}
