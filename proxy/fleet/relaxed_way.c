#include "fleet/relaxed_way.h"

#include "fleet/ladder.h"
#include "fleet/question.h"
#include "worker/worker_clock.h"
#include "fleet/fleet.h"

/* The admissions of other nodes, and the time at which some of them may have left the window. */
static struct reserve known(struct view *view, const struct rule *rule, uint64_t now_ns)
{
	if (now_ns - view->asked_ns >= rule->window_us * 1000)
		view->reserved = view->falls_ns = 0; /* all of it has */
	return (struct reserve){
		.units = view->reserved < rule->quota ? view->reserved : rule->quota,
		.falls_ns = view->falls_ns > now_ns ? view->falls_ns - now_ns : 0,
	};
}

static void look_up(struct relaxing *relaxing, struct view *view,
	const struct account_charge *charge, const struct throttle_charge *asked)
{
	view->rule = charge->rule;
	view->number = asked->limit;
	view->here = asked->caller;
	view->site = relaxing->site;
	relaxing_ask(relaxing, view);
}

static enum way_judge reserve(struct account *account, struct account_charge *charge,
	const struct throttle_charge *asked, struct reserve *reserve)
{
	struct relaxing *relaxing = &account->worker->relaxing;
	struct view *view = relaxing_view(relaxing, charge->caller, charge->limit);
	uint64_t now_ns = worker_throttle_ns(relaxing->worker);

	charge->taken_ns = now_ns;
	*reserve = (struct reserve){0};
	if (view) {
		look_up(relaxing, view, charge, asked);
		*reserve = known(view, &charge->rule, now_ns);
	}
	ladder_climb_one(account, charge, view && relaxing_hears(relaxing));
	uint64_t others = charge->quota > charge->share ? charge->quota - charge->share : 0;
	switch (charge->rung) {
	case RUNG_STORE:
		return WAY_HERE;
	case RUNG_RETURNING:
		if (reserve->units < others)
			reserve->units = others;
		return WAY_HERE;
	case RUNG_SHARE:
		*reserve = (struct reserve){.units = others};
		return WAY_HERE;
	case RUNG_WAIT:
	case RUNG_REFUSE:
	case RUNG_ADMIT:
	case RUNGS:
		break;
	}
	return WAY_AWAY;
}

/* What is given back after its window is in no sum any more. */
static void note(struct account *account, struct account_charge *charge, int64_t units)
{
	struct relaxing *relaxing = &account->worker->relaxing;
	uint64_t now_ns = worker_throttle_ns(relaxing->worker);

	if (units < 0 && now_ns - charge->taken_ns >= charge->rule.window_us * 1000)
		return;
	struct view *view = relaxing_view(relaxing, charge->caller, charge->limit);
	if (!view)
		return;
	view->rule = charge->rule;
	relaxing_note(relaxing, view, units, charge->taken_ns);
}

const struct way relaxed_way = {.reserve = reserve, .note = note};

/* ---- split way ------------------------------------------------------------------------------ */

static enum way_judge split_way_reserve(struct account *account, struct account_charge *charge,
	const struct throttle_charge *asked, struct reserve *split_way_reserve)
{
	struct fleet_worker *fleet = account->worker;
	uint64_t now_ns = worker_throttle_ns(fleet->worker);

	switch (split_judge(fleet_shares(fleet->authority), asked->limit, &charge->rule, now_ns,
		split_way_reserve)) {
	case SHARE_UNITS:
		return WAY_HERE;
	case SHARE_EXACT:
		return WAY_STORE;
	case SHARE_NONE:
		break;
	}
	return WAY_AWAY;
}

const struct way split_way = {.reserve = split_way_reserve};
