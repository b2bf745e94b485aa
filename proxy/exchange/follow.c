#include "exchange/follow.h"

#include "exchange/exchange.h"
#include "exchange/turn_limits.h"

/* Would it be the next behind its lead in the order, by the same rules? */
static bool is_alike(const struct exchange *x, const struct exchange *lead)
{
	return lead->use == x->use && lead->route == x->route &&
	       lead->turn.ticket.lane == x->turn.ticket.lane &&
	       lead->gate->verdict.session.hi == x->gate->verdict.session.hi &&
	       lead->gate->verdict.session.lo == x->gate->verdict.session.lo;
}

bool follow_lead(struct exchange *x)
{
	struct exchange *lead = x->tunnel.lead;

	/* Its place may be by slots of a semaphore that are another node's by now. */
	if (!exchange_is_queued(lead) || !is_alike(x, lead) ||
		!semaphore_slots_let(
			&lead->upstream->state->semaphore, lead->turn.ticket.placed_ns) ||
		!queue_lets_follow(x->worker->node->queue, &lead->turn.ticket) ||
		!turn_judge_early(x))
		return false;
	lead->tunnel.followers++;
	return true;
}

void follow_count(const struct exchange *lead)
{
	if (lead->tunnel.followers > 0 && exchange_is_queued(lead))
		queue_count_followers(
			lead->worker->node->queue, &lead->turn.ticket, lead->tunnel.followers);
}
