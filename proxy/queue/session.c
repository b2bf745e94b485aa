/* session: the two lanes, the rules of order, the states. See session.h. */
#include "queue/session.h"

#include <assert.h>

#include "base/log.h"

/* ---- lanes ---------------------------------------------------------------------------------- */

struct ticket *session_next(const struct session *session)
{
	struct ticket *high = session->head[QUEUE_LANE_HIGH];
	struct ticket *normal = session->head[QUEUE_LANE_NORMAL];

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

	if (session->head[QUEUE_LANE_HIGH] != NULL)
		return false;
	if (normal == NULL)
		return true;
	return ticket->lane == QUEUE_LANE_HIGH && session->high_run < normal->high_burst;
}

void session_append(struct session *session, struct ticket *ticket)
{
	unsigned lane = ticket->lane;

	ticket->next = NULL;
	ticket->prev = session->tail[lane];
	if (ticket->prev != NULL)
		ticket->prev->next = ticket;
	else
		session->head[lane] = ticket;
	session->tail[lane] = ticket;
	session->queued[lane]++;
	session->queued_bytes += ticket->bytes;
	ticket->state = TICKET_WAITING;
}

void session_prepend(struct session *session, struct ticket *ticket)
{
	unsigned lane = ticket->lane;

	ticket->prev = NULL;
	ticket->next = session->head[lane];
	if (ticket->next != NULL)
		ticket->next->prev = ticket;
	else
		session->tail[lane] = ticket;
	session->head[lane] = ticket;
	session->queued[lane]++;
	session->queued_bytes += ticket->bytes;
	ticket->state = TICKET_WAITING;
}

void session_remove(struct session *session, struct ticket *ticket)
{
	unsigned lane = ticket->lane;

	assert(ticket->state == TICKET_WAITING);
	if (ticket->prev != NULL)
		ticket->prev->next = ticket->next;
	else
		session->head[lane] = ticket->next;
	if (ticket->next != NULL)
		ticket->next->prev = ticket->prev;
	else
		session->tail[lane] = ticket->prev;
	ticket->prev = ticket->next = NULL;
	session->queued[lane]--;
	session->queued_bytes -= ticket->bytes;
	ticket->state = TICKET_OUT;
}

/* ---- in flight ------------------------------------------------------------------------------ */

void session_launch(struct session *session, struct ticket *ticket)
{
	if (ticket->lane == QUEUE_LANE_HIGH && session->head[QUEUE_LANE_NORMAL] != NULL)
		session->high_run++;
	else
		session->high_run = 0;

	ticket->prev = NULL;
	ticket->next = session->flight;
	if (ticket->next != NULL)
		ticket->next->prev = ticket;
	session->flight = ticket;
	session->flying[ticket->order]++;
	ticket->state = TICKET_FLYING;
}

void session_land(struct session *session, struct ticket *ticket)
{
	assert(ticket->state == TICKET_FLYING || ticket->state == TICKET_DETACHED);
	if (ticket->prev != NULL)
		ticket->prev->next = ticket->next;
	else
		session->flight = ticket->next;
	if (ticket->next != NULL)
		ticket->next->prev = ticket->prev;
	ticket->prev = ticket->next = NULL;
	if (ticket->state == TICKET_FLYING)
		session->flying[ticket->order]--;
	else
		session->detached--;
	ticket->state = TICKET_OUT;
}

void session_detach(struct session *session, struct ticket *ticket)
{
	assert(ticket->state == TICKET_FLYING);
	session->flying[ticket->order]--;
	session->detached++;
	ticket->state = TICKET_DETACHED;
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
