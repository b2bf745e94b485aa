#include "fleet/probing.h"

#include <stdio.h>
#include <string.h>

#define PERIOD_MOST_MS 1000
/* With nothing heard there is no state to keep: so long the store and a prober have for a word. */
#define WAITING_MS 2000

void probing_begin(struct probing *probing, const struct probing_terms *terms, const char *self,
	uint64_t now_ms)
{
	*probing = (struct probing){.terms = *terms, .self = self, .begun_ms = now_ms};
}

uint64_t probing_period_ms(const struct probing_terms *terms)
{
	uint64_t period_ms = terms->interval_ms / 2;

	if (period_ms > terms->lease_ms / 3)
		period_ms = terms->lease_ms / 3;
	return period_ms < PERIOD_MOST_MS ? period_ms : PERIOD_MOST_MS;
}

uint64_t probing_bound_ms(const struct probing_terms *terms)
{
	return terms->lease_ms + 3 * (terms->interval_ms + terms->timeout_ms);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

static bool is_old(const struct probing *probing, uint64_t heard_ms, uint64_t now_ms)
{
	uint64_t last_ms = heard_ms > probing->begun_ms ? heard_ms : probing->begun_ms;

	return now_ms > last_ms && now_ms - last_ms > probing_bound_ms(&probing->terms);
}

enum probes_role probing_role(const struct probing *probing, uint64_t now_ms, bool is_store_there)
{
	if (probing->fence > 0 && now_ms < probing->held_until_ms)
		return PROBES_PROBER;
	if (probing->fence > 0 && !is_store_there)
		return PROBES_ALONE;
	if (probing->heard_fence == 0)
		return now_ms > probing->begun_ms + WAITING_MS ? PROBES_ALONE : PROBES_WAITING;
	return is_old(probing, probing->heard_ms, now_ms) ? PROBES_ALONE : PROBES_FOLLOWER;
}

bool probing_is_mine(const struct probing *probing, uint64_t checked_ms, bool is_unshared,
	uint64_t now_ms, bool is_store_there)
{
	enum probes_role role = probing_role(probing, now_ms, is_store_there);

	return role == PROBES_PROBER || role == PROBES_ALONE || is_unshared ||
	       is_old(probing, checked_ms, now_ms);
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool probing_ask(struct probing *probing, struct lock_ask *ask, struct findings_head *head)
{
	if (probing->is_leaving) {
		ask->verb = probing->fence > 0 ? LOCK_RELEASE : LOCK_LOOK;
		ask->number = probing->fence;
		return false;
	}
	lock_ask_own(ask, probing->fence);
	if (probing->fence == 0)
		return false;
	*head = (struct findings_head){.fence = probing->fence,
		.number = ++probing->number,
		.lease_ms = probing->terms.lease_ms};
	return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum probing_outcome take_held(
	struct probing *probing, const struct lock_ask *ask, const struct lock_answer *answer)
{
	bool is_new = probing->fence == 0;

	probing->fence = answer->fence;
	probing->held_until_ms = probing->is_leaving ? 0 : ask->asked_ms + ask->lease_ms;
	probing->heard_fence = answer->fence;
	probing->heard_ms = ask->asked_ms;
	snprintf(probing->prober, sizeof(probing->prober), "%s", probing->self);
	if (is_new)
		probing->number = 0;
	return is_new ? PROBING_ELECTED : PROBING_NOTHING;
}

/* When a publication left its prober, as the lease that it renewed tells. */
static uint64_t published_ms(
	uint64_t asked_ms, const struct findings_head *head, const struct lock_answer *answer)
{
	uint64_t ago_ms = head->lease_ms > answer->left_ms ? head->lease_ms - answer->left_ms : 0;

	return asked_ms > ago_ms ? asked_ms - ago_ms : 1;
}

/* What was published by another fence than the holder's is of a prober whose session is over. */
static enum probing_outcome take_busy(struct probing *probing, const struct lock_ask *ask,
	const struct lock_answer *answer, struct findings_reader *reader)
{
	struct findings_head head;

	snprintf(probing->prober, sizeof(probing->prober), "%s",
		lock_session_is_valid(answer->session) ? answer->session : "");
	if (!findings_read_head(reader, answer->value, answer->value_len, &head) ||
		head.fence != answer->fence)
		return PROBING_NOTHING;
	if (head.fence == probing->heard_fence && head.number == probing->heard_number)
		return PROBING_NOTHING;
	probing->heard_fence = head.fence;
	probing->heard_number = head.number;
	probing->heard_ms = published_ms(ask->asked_ms, &head, answer);
	return PROBING_HEARD;
}

enum probing_outcome probing_take(struct probing *probing, const struct lock_ask *ask,
	const struct lock_answer *answer, struct findings_reader *reader)
{
	switch (answer->status) {
	case LOCK_HELD:
		return take_held(probing, ask, answer);
	case LOCK_BUSY:
		return take_busy(probing, ask, answer, reader);
	case LOCK_OVER:
		if (probing->fence == 0)
			return PROBING_NOTHING;
		probing->fence = 0;
		probing->prober[0] = '\0';
		return PROBING_OVER;
	case LOCK_FREE:
	case LOCK_LAPSED:
		probing->fence = 0;
		probing->prober[0] = '\0';
		return PROBING_NOTHING;
	case LOCK_UNKNOWN:
		break;
	}
	return PROBING_NOTHING;
}

void probing_leave(struct probing *probing)
{
	probing->is_leaving = true;
	probing->held_until_ms = 0;
}

void probing_node_of(const char *session, char node[static PROBE_NODE_BYTES])
{
	const char *slash = strrchr(session, '/');
	size_t len = slash ? (size_t)(slash - session) : strlen(session);

	snprintf(node, PROBE_NODE_BYTES, "%.*s", (int)len, session);
}
