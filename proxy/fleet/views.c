#include "fleet/views.h"

#include <stdlib.h>
#include <string.h>

void views_init(struct views *views)
{
	memset(views, 0, sizeof(*views));
	views->due_end = &views->due;
}

void views_end(struct views *views)
{
	while (views->oldest) {
		struct view *view = views->oldest;
		views->oldest = view->newer;
		free(view);
	}
	free(views->chains);
	views_init(views);
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
static struct view **chain_of(struct views *views, struct throttle_key caller, const char *limit)
{
	return &views->chains[(caller.lo >> 4 ^ (uintptr_t)limit >> 4) % VIEWS_CHAINS];
}

static void unchain(struct views *views, struct view *view)
{
	struct view **at = chain_of(views, view->caller, view->limit);

	while (*at != view)
		at = &(*at)->chained;
	*at = view->chained;
}

/* Memory for another one. */
static struct view *make(struct views *views)
{
	struct view *view = views->oldest;

	if (views->count < VIEWS_MOST) {
		view = malloc(sizeof(*view));
		views->count += view != NULL;
		return view;
	}
	if (view->is_due || view->is_away || view->fresh != 0 || view->given != 0)
		return NULL;
	unlink_used(views, view);
	unchain(views, view);
	return view;
}

struct view *views_find(struct views *views, struct throttle_key caller, const char *limit)
{
	if (!views->chains)
		views->chains = calloc(VIEWS_CHAINS, sizeof(struct view *));
	if (!views->chains)
		return NULL;
	struct view **chain = chain_of(views, caller, limit);
	struct view *view = *chain;
	while (view && (view->caller.lo != caller.lo || view->caller.hi != caller.hi ||
			       view->limit != limit))
		view = view->chained;
	if (view) {
		unlink_used(views, view);
		link_newest(views, view);
		return view;
	}
	view = make(views);
	if (!view)
		return NULL;
	*view = (struct view){.chained = *chain, .caller = caller, .limit = limit};
	*chain = view;
	link_newest(views, view);
	return view;
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
