/* session: the two lanes, the rules of order, the states. See session.h. */
#include "queue/session.h"

#include <assert.h>

#include "base/list.h"
#include "base/log.h"

/* ---- lanes ---------------------------------------------------------------------------------- */

struct ticket *session_next(const struct session *session)
{
	struct ticket *high = session->head[QUEUE_LANE_HIGH];
	struct ticket *normal = session->head[QUEUE_LANE_NORMAL];

	if (session->head[SESSION_CLAIMS] != NULL)
		return session->head[SESSION_CLAIMS];
	if (high == NULL)
		return normal;
	if (normal == NULL)
		return high;
	/* Once the burst is used up the normal one is next until it went, even if it has to wait
	 * for what is in flight: else a barrier could be passed for ever. */
	return session->high_run >= normal->high_burst ? normal : high;
}

bool session_is_next(const struct session *session, const struct ticket *ticket)
{
	const struct ticket *normal = session->head[QUEUE_LANE_NORMAL];

	if (session->head[QUEUE_LANE_HIGH] != NULL || session->head[SESSION_CLAIMS] != NULL)
		return false;
	if (normal == NULL)
		return true;
	return ticket->lane == QUEUE_LANE_HIGH && session->high_run < normal->high_burst;
}

/* The list that a waiting ticket is in. */
static unsigned list_of(const struct ticket *ticket)
{
	return ticket->state == TICKET_CLAIMING ? SESSION_CLAIMS : ticket->lane;
}

/* Before `before`, or at the end. */
static void insert(struct session *session, struct ticket *ticket, enum ticket_state state,
	struct ticket *before)
{
	ticket->state = (uint8_t)state;
	unsigned list = list_of(ticket);

	LIST_INSERT(session->head[list], session->tail[list], ticket, before, prev, next);
	session->queued[ticket->lane]++;
	session->queued_bytes += ticket->bytes;
}

void session_insert(struct session *session, struct ticket *ticket)
{
	const struct ticket *behind = ticket->behind;
	struct ticket *next = NULL;

	if (behind != NULL && behind->state == TICKET_WAITING && behind->lane == ticket->lane)
		next = behind->next;
	else if (behind != NULL)
		next = session->head[ticket->lane];
	insert(session, ticket, TICKET_WAITING, next);
}

static void unlink_queued(struct session *session, struct ticket *ticket)
{
	unsigned list = list_of(ticket);

	assert(ticket->state == TICKET_WAITING || ticket->state == TICKET_CLAIMING);
	LIST_REMOVE(session->head[list], session->tail[list], ticket, prev, next);
	ticket->prev = ticket->next = NULL;
	session->queued[ticket->lane]--;
	session->queued_bytes -= ticket->bytes;
}

/* One that was aside or claiming is one of session_in_flight again, or of nothing any more. */
static void take_part(struct session *session, struct ticket *ticket)
{
	if (!ticket->keeps_part)
		session->placeless--;
	ticket->keeps_part = false;
}

void session_remove(struct session *session, struct ticket *ticket)
{
	unlink_queued(session, ticket);
	if (ticket->state == TICKET_CLAIMING) {
		session->in_flight[ticket->order]--;
		take_part(session, ticket);
	}
	ticket->state = TICKET_OUT;
}

/* ---- in flight ------------------------------------------------------------------------------ */

static void link_flight(struct session *session, struct ticket *ticket)
{
	CHAIN_PUSH(session->flight, ticket, prev, next);
}

static void unlink_flight(struct session *session, struct ticket *ticket)
{
	CHAIN_REMOVE(session->flight, ticket, prev, next);
	ticket->prev = ticket->next = NULL;
}

void session_start(struct session *session, struct ticket *ticket)
{
	if (ticket->lane == QUEUE_LANE_HIGH && session->head[QUEUE_LANE_NORMAL] != NULL)
		session->high_run++;
	else
		session->high_run = 0;
	link_flight(session, ticket);
	session->in_flight[ticket->order]++;
	ticket->state = TICKET_IN_FLIGHT;
	if (session->held) /* pairs with queue_answered, which can't have come yet */
		atomic_store_explicit(&ticket->holds, true, memory_order_seq_cst);
}

void session_finish(struct session *session, struct ticket *ticket)
{
	assert(ticket->state == TICKET_ASIDE || ticket->state == TICKET_IN_FLIGHT ||
		ticket->state == TICKET_DETACHED);
	unlink_flight(session, ticket);
	if (ticket->state == TICKET_DETACHED)
		session->detached--;
	else
		session->in_flight[ticket->order]--;
	if (ticket->state == TICKET_ASIDE)
		take_part(session, ticket);
	ticket->state = TICKET_OUT;
}

void session_detach(struct session *session, struct ticket *ticket)
{
	assert(ticket->state == TICKET_IN_FLIGHT);
	session->in_flight[ticket->order]--;
	session->detached++;
	ticket->state = TICKET_DETACHED;
}

void session_replace(struct session *session, struct ticket *ticket, struct ticket *heir)
{
	struct message message = heir->message;

	assert(ticket->state == TICKET_DETACHED);
	*heir = *ticket;
	heir->message = message;
	heir->posted = false;
	if (heir->prev != NULL)
		heir->prev->next = heir;
	else
		session->flight = heir;
	if (heir->next != NULL)
		heir->next->prev = heir;
	ticket->prev = ticket->next = NULL;
	ticket->session = NULL;
	ticket->state = TICKET_OUT;
}

bool session_hears_end(const struct session *session, const struct ticket *ticket)
{
	bool ends = session->state == SESSION_DRAINING || session->state == SESSION_CLOSING;

	return ends && ticket->state == TICKET_DETACHED && ticket->hears_end && !ticket->posted;
}

/* ---- without a place ------------------------------------------------------------------------ */

void session_put_aside(struct session *session, struct ticket *ticket, bool keeps_part)
{
	assert(ticket->state == TICKET_IN_FLIGHT);
	ticket->keeps_part = keeps_part;
	if (!keeps_part)
		session->placeless++;
	ticket->state = TICKET_ASIDE;
}

void session_claim(struct session *session, struct ticket *ticket)
{
	struct ticket *next = NULL;

	assert(ticket->state == TICKET_ASIDE);
	if (ticket->keeps_part)
		for (next = session->head[SESSION_CLAIMS]; next != NULL && next->keeps_part;)
			next = next->next;
	unlink_flight(session, ticket);
	insert(session, ticket, TICKET_CLAIMING, next);
}

void session_grant(struct session *session, struct ticket *ticket)
{
	assert(ticket->state == TICKET_CLAIMING);
	unlink_queued(session, ticket);
	link_flight(session, ticket);
	take_part(session, ticket);
	ticket->state = TICKET_IN_FLIGHT;
}

void session_resume(struct session *session, struct ticket *ticket)
{
	assert(ticket->state == TICKET_ASIDE);
	take_part(session, ticket);
	ticket->state = TICKET_IN_FLIGHT;
}

/* ---- states --------------------------------------------------------------------------------- */

static const char *const state_names[SESSION_STATES] = {
	[SESSION_OPEN] = "open",
	[SESSION_DRAINING] = "draining",
	[SESSION_CLOSING] = "closing",
	[SESSION_ABORTED] = "aborted",
	[SESSION_CLOSED] = "closed",
};

#define TO(state) (1u << (state))
_Static_assert(SESSION_STATES <= 32, "states are bits of a row of transitions");

/* From the row's state to any of these: ever sterner, and CLOSED is the end. */
static const unsigned transitions[SESSION_STATES] = {
	[SESSION_OPEN] = TO(SESSION_DRAINING) | TO(SESSION_CLOSING) | TO(SESSION_ABORTED) |
			 TO(SESSION_CLOSED),
	[SESSION_DRAINING] = TO(SESSION_CLOSING) | TO(SESSION_ABORTED) | TO(SESSION_CLOSED),
	[SESSION_CLOSING] = TO(SESSION_ABORTED) | TO(SESSION_CLOSED),
	[SESSION_ABORTED] = TO(SESSION_CLOSED),
	[SESSION_CLOSED] = 0,
};

const char *session_state_name(enum session_state state)
{
	return (unsigned)state < SESSION_STATES ? state_names[state] : "unknown";
}

bool session_set_state(struct session *session, enum session_state state)
{
	if ((transitions[session->state] & TO(state)) == 0)
		return false;
	/* The common roll of an idle session is counted, not told. */
	if (session->state != SESSION_OPEN || state != SESSION_CLOSED)
		log_debug("session %016llx: %s -> %s", (unsigned long long)session->key.word[0],
			state_names[session->state], state_names[state]);
	session->state = (uint8_t)state;
	return true;
}

/* ---- drain rate ----------------------------------------------------------------------------- */

#define DRAIN_SMOOTHING 8 /* weight of the past, as in TCP's SRTT (RFC 6298) */
#define MAX_GAP_US      300000000u
#define MAX_DRAIN_MS    300000u

void session_note_drain(struct session *session, uint64_t now_ns)
{
	if (session_queued(session) == 0) {
		session->last_done_ns = 0;
		return;
	}
	if (session->last_done_ns != 0 && now_ns > session->last_done_ns) {
		uint64_t gap_us = (now_ns - session->last_done_ns) / 1000;
		if (gap_us > MAX_GAP_US)
			gap_us = MAX_GAP_US;
		if (session->gap_us == 0)
			session->gap_us = (uint32_t)gap_us;
		else
			session->gap_us =
				(uint32_t)((session->gap_us * (DRAIN_SMOOTHING - 1ull) + gap_us) /
					   DRAIN_SMOOTHING);
	}
	session->last_done_ns = now_ns;
}

uint32_t session_drain_ms(const struct session *session)
{
	uint64_t ms = ((uint64_t)session->gap_us * session_queued(session) + 999) / 1000;
	return ms > MAX_DRAIN_MS ? MAX_DRAIN_MS : (uint32_t)ms;
}
