/* session: one client's tickets, and which of them may go.
 *
 *   lane high    [h1][h2]      \
 *                               > session_next: high first, at most high_burst past a normal one
 *   lane normal  [n1][n2][n3]  /        |
 *                                       +--> in flight {a, b}  tunnels {t}
 *                                       `--> aside {c}   its owner can't use a place yet
 *   claims       [c]  <-- queue_ready --------' `--> first of all into flight
 *
 * Only the next ticket is ever considered; whatever is behind it waits, which is what makes a
 * barrier hold in both directions. A ticket that is aside or claims a place has had its turn in the
 * order: it holds back whatever must come after it, but no place of the upstream and, unless it
 * keeps its part, none of session_in_flight. Nothing in a lane precedes a claim, so a claim waits
 * for places only, and those are held only by exchanges that are with the upstream; and for a part,
 * which one that keeps it holds as well: so that one claims before those without. Pure bookkeeping:
 * the caller holds the shard's mutex. Private to the room. */
#ifndef SLUICE_QUEUE_SESSION_H
#define SLUICE_QUEUE_SESSION_H

#include "queue/queue.h"

enum ticket_state {
	TICKET_OUT,       /* not in a session */
	TICKET_WAITING,   /* in a lane */
	TICKET_ASIDE,     /* its order lets it go, but its owner is not ready: it orders others */
	TICKET_CLAIMING,  /* the same, and its owner is ready: waits for a place */
	TICKET_IN_FLIGHT, /* in flight: it orders others */
	TICKET_DETACHED,  /* a tunnel: it only keeps its session */
};

/* A ticket's condition on the others of its session, by the ordering of its route and its
 * method. */
enum ticket_order {
	TICKET_FREE,    /* overlaps with anything */
	TICKET_SHARED,  /* overlaps with anything but a barrier; FREE once it holds none back */
	TICKET_BARRIER, /* overlaps with nothing that is ordered */
};
#define TICKET_ORDERS 3

/* The waiting tickets: in a lane, or as a claim. */
#define SESSION_CLAIMS QUEUE_LANES
#define SESSION_LISTS  (QUEUE_LANES + 1)

/* The list of the run queue that has a session. */
enum line_place {
	LINE_NONE,
	LINE_NEW,
	LINE_OLD,
};

struct session {
	struct session *hash_next;
	struct session_key key;

	struct ticket *head[SESSION_LISTS], *tail[SESSION_LISTS];
	uint32_t queued[QUEUE_LANES];      /* claims count in their lanes */
	uint32_t in_flight[TICKET_ORDERS]; /* those aside and the claims included */
	uint32_t placeless; /* of these: aside or claiming, and not one of session_in_flight */
	uint32_t detached;
	uint32_t poll_path; /* reads of this ticket.path hold no write back, see dispatch.c; 0: none
			     */
	uint64_t queued_bytes;
	uint32_t high_run;     /* high ones served since a normal one last could have been */
	uint32_t poll_until_s; /* for poll_path, in seconds of the clock */
	struct ticket *flight; /* ASIDE, IN_FLIGHT and DETACHED, for an abort */

	struct session *idle_prev, *idle_next; /* the idle list, or that of held ones; idle_next
						  also the free list */
	uint64_t idle_deadline_ns;
	uint32_t idle_ms;

	uint32_t gap_us; /* smoothed time between completions while others waited; 0: unknown */
	uint64_t last_done_ns; /* the last such completion, 0: none */
	uint64_t accepted, completed;
	void *pin; /* NULL: none, or in use */

	uint8_t state;      /* enum session_state */
	uint8_t idle_class; /* index of the idle list + 1; 0: in none */

	/* Waits in the line of run_queue or is being served from it. Not rolled meanwhile. */
	bool runnable;
	bool forgets; /* queue_policy.forgets */
	bool held;    /* in the shard's list of those whose next write waits for reads */

	/* The rest belongs to the line (line.c): guarded by the run queue's lock while runnable, by
	 * the shard's mutex otherwise. */
	uint8_t place;   /* enum line_place */
	bool backlogged; /* had more queued when it was last served */
	uint8_t lane;    /* of its next ticket, as are weight and high_burst */
	uint16_t weight;
	uint16_t high_burst; /* at most 65535 */
	uint32_t deficit;    /* exchanges left of its turn */
	uint64_t seq;        /* its position in the old list, as a number that only grows */
	struct session *line_prev, *line_next;
	struct run_queue *run_queue;
};

_Static_assert(sizeof(struct session) <= 240, "an idle session has 256 bytes, its bucket included");

static inline uint32_t session_queued(const struct session *session)
{
	return session->queued[QUEUE_LANE_HIGH] + session->queued[QUEUE_LANE_NORMAL];
}

/* Has session_next none to give? */
static inline bool session_has_no_next(const struct session *session)
{
	return session->head[QUEUE_LANE_HIGH] == NULL && session->head[QUEUE_LANE_NORMAL] == NULL &&
	       session->head[SESSION_CLAIMS] == NULL;
}

static inline uint32_t session_in_flight(const struct session *session)
{
	return session->in_flight[TICKET_FREE] + session->in_flight[TICKET_SHARED] +
	       session->in_flight[TICKET_BARRIER] - session->placeless;
}

/* Nothing queued, in flight, tunnelled or about to be served. */
static inline bool session_is_empty(const struct session *session)
{
	return session->flight == NULL && session->head[QUEUE_LANE_HIGH] == NULL &&
	       session->head[QUEUE_LANE_NORMAL] == NULL && session->head[SESSION_CLAIMS] == NULL &&
	       !session->runnable;
}

/* Would the next one of an empty session find anything that a new one had not? Its connection, or
 * its rate, or its long poll. */
static inline bool session_remembers(const struct session *session)
{
	return session->pin != NULL || session->gap_us != 0 || session->poll_path != 0;
}

/* Does the order let this one go beside what went before it? A claim was released already. */
static inline bool session_order_lets(const struct session *session, const struct ticket *ticket)
{
	if (ticket->state == TICKET_CLAIMING)
		return true;
	switch ((enum ticket_order)ticket->order) {
	case TICKET_FREE:
		return true;
	case TICKET_SHARED:
		return session->in_flight[TICKET_BARRIER] == 0;
	case TICKET_BARRIER:
		return session->in_flight[TICKET_BARRIER] + session->in_flight[TICKET_SHARED] == 0;
	}
	return false;
}

/* Does the bound on the session's own exchanges let it go? */
static inline bool session_in_flight_lets(
	const struct session *session, const struct ticket *ticket)
{
	return ticket->session_in_flight == 0 || ticket->keeps_part ||
	       session_in_flight(session) < ticket->session_in_flight;
}

/* May this one go into flight now? */
static inline bool session_may_go(const struct session *session, const struct ticket *ticket)
{
	return session_in_flight_lets(session, ticket) && session_order_lets(session, ticket);
}

/* The queued ticket whose turn is next, NULL if none waits. */
struct ticket *session_next(const struct session *session);

/* Would this newcomer be the next one if it were queued now? */
bool session_is_next(const struct session *session, const struct ticket *ticket);

/* Into its lane, to the end or to its place (ticket.behind); out of it or of the claims; from
 * nowhere into flight; out of flight, or from aside. */
void session_insert(struct session *session, struct ticket *ticket);
void session_remove(struct session *session, struct ticket *ticket);
void session_start(struct session *session, struct ticket *ticket);
void session_finish(struct session *session, struct ticket *ticket);

/* In flight to tunnel. */
void session_detach(struct session *session, struct ticket *ticket);
/* Is it a tunnel whose owner is to end it, as its session ends? */
bool session_hears_end(const struct session *session, const struct ticket *ticket);

/* A tunnel's place in its session is another ticket's from now on, whose message stays its own. */
void session_replace(struct session *session, struct ticket *ticket, struct ticket *heir);

/* In flight to aside; aside to the end of the claims, or behind those that keep their part; a claim
 * into flight; aside into flight. */
void session_put_aside(struct session *session, struct ticket *ticket, bool keeps_part);
void session_claim(struct session *session, struct ticket *ticket);
void session_grant(struct session *session, struct ticket *ticket);
void session_resume(struct session *session, struct ticket *ticket);

/* The only place where a session's state changes. Returns false, changing nothing, where the table
 * of transitions has none. */
bool session_set_state(struct session *session, enum session_state state);

/* Notes a completion, for the session's own drain rate; how long what
 * is queued takes by it, in ms up to 300000, 0 unknown. */
void session_note_drain(struct session *session, uint64_t now_ns);
uint32_t session_drain_ms(const struct session *session);

#endif
