/*
 * The place of an exchange in its client's order: in the queue of its session, and among those of
 * its connection.
 *
 *   turn_enter, turn_enter_and_ask --> HELD (others of its connection come first) --exchange_next-.
 *        |                                                                                       v
 *        `--> queue_enter: its turn --> exchange_admit; QUEUED; HELD aside, until it can use a
 * place
 */
#include "exchange/turn_place.h"

#include <assert.h>

#include "base/container.h"
#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "exchange/find_server.h"
#include "exchange/reply.h"
#include "exchange/switched.h"
#include "exchange/turn.h"
#include "exchange/turn_ask.h"
#include "exchange/turn_limits.h"
#include "gate/text_set.h"
#include "http/priority.h"
#include "listen/listener.h"
#include "worker/worker_clock.h"

/* ---- those of its connection ----------------------------------------------------------------- */

static bool same_session(const struct exchange *a, const struct exchange *b)
{
	return a->gate->verdict.session.hi == b->gate->verdict.session.hi &&
	       a->gate->verdict.session.lo == b->gate->verdict.session.lo;
}

/* The exchanges before it on its connection whose answers are still to come. */
enum before {
	BEFORE_NONE,
	BEFORE_SAME,  /* all in the queue, in the same session and lane */
	BEFORE_OTHER, /* one is not in the queue, or in another session or lane */
};

/* It goes together with a message before it, whose place in the queue stands for both. */
static bool follows(const struct exchange *x)
{
	return x->tunnel.lead && x->state == EXCHANGE_FORWARDING && !exchange_is_queued(x);
}

/*
 * Responses leave a connection in the order of its requests. While an exchange waits for those
 * before it, it must hold nothing that they may need:
 *
 *   a place at the upstream, one of session_in_flight: it takes none before its answer is the next
 *   its turn in its session's order: they took theirs before it, when they are of the same lane of
 *   the same session; else it does not enter the queue before they are answered
 *
 * So no circle can close, whatever waits for what on other connections.
 */
static enum before look_before(const struct exchange *x)
{
	enum before found = BEFORE_NONE;

	for (const struct exchange *before = x->client->first; before != x; before = before->next) {
		if (exchange_is_answered(before) || follows(before))
			continue;
		if (!exchange_is_queued(before) || !same_session(before, x) ||
			before->turn.ticket.lane != x->turn.ticket.lane)
			return BEFORE_OTHER;
		found = BEFORE_SAME;
	}
	return found;
}

/* ---- together with the one before it ------------------------------------------------------------
 */

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

/* ---- the queue ------------------------------------------------------------------------------- */

/* The lane of its plan and route, or as its client says where clients are believed: urgent ones
 * high unless the plan is of the normal lane, less than usual ones normal. */
static enum queue_lane lane_of(const struct exchange *x)
{
	bool high = x->gate->verdict.lane == CONF_LANE_HIGH;

	if (client_listener(x->client)->trust_priority) {
		const struct conf_plan *plan = x->gate->verdict.plan;
		int urgency =
			http_priority_urgency(http_head_find_name(&x->request, SLICE("priority")));
		if (urgency >= 0 && urgency <= 2 && (!plan || plan->lane == CONF_LANE_HIGH))
			high = true;
		else if (urgency > 3)
			high = false;
	}
	return high ? QUEUE_LANE_HIGH : QUEUE_LANE_NORMAL;
}

static void turned_away_by_queue(struct exchange *x, enum queue_verdict verdict)
{
	static const char *const reasons[] = {
		[QUEUE_FULL_SESSION] = "queue full",
		[QUEUE_FULL_SESSION_BYTES] = "queue memory full",
		[QUEUE_FULL_TOTAL] = "all queues full",
		[QUEUE_FULL_BYTES] = "all queues' memory full",
		[QUEUE_FULL_SESSIONS] = "too many sessions",
		[QUEUE_CLOSED] = CLIENT_SESSION_CLOSED,
		[QUEUE_SHED] = "overload",
	};

	if (x->kind == EXCHANGE_DISCONNECT) {
		turn_go_without_place(x);
		return;
	}
	worker_count(x->worker, STATS_SHED);
	/* relaxed: for people */
	bool has_no_slots = verdict == QUEUE_SHED &&
			    atomic_load_explicit(&x->upstream->state->semaphore.shown.refuses,
				    memory_order_relaxed);
	exchange_reply(x, 503, has_no_slots ? "semaphore unavailable" : reasons[verdict],
		x->turn.ticket.retry_after_ms);
}

/* The memory that it holds while it waits: itself with its parts, and the part of its body that is
 * here already, which is a block of its connection's. */
static uint64_t bytes_of(const struct exchange *x)
{
	uint64_t bytes = exchange_bytes(x);

	if (!exchange_has_request(x) || exchange_is_message(x))
		bytes += client_body_memory(x->client);
	return bytes;
}

/* The message of its ticket: its turn has come, or what else the queue had to say. */
static void on_ticket(struct message *message)
{
	struct exchange *x = CONTAINER_OF(ticket_of(message), struct exchange, turn.ticket);
	struct client *client = x->client;
	enum queue_verdict verdict =
		queue_arrive(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));

	if (x->state == EXCHANGE_ENDED) {
		/* It left while this was under way; only its memory waited. */
		assert(verdict == QUEUE_GONE);
		exchange_free_later(x);
		return;
	}
	/* It may have left and still be writing its answer: then its end frees it. */
	if (x->turn.ticket_use == TURN_TICKET_IS_AWAY)
		x->turn.ticket_use = TURN_HAS_NO_TICKET;
	switch (verdict) {
	case QUEUE_GO:
		exchange_admit(x);
		break;
	case QUEUE_ABORTED:
		exchange_abort(x, "session aborted");
		break;
	case QUEUE_SHED:
	case QUEUE_CLOSED:
		x->turn.ticket_use = TURN_HAS_NO_TICKET;
		turned_away_by_queue(x, verdict);
		break;
	case QUEUE_ENDING: /* to passages only */
	case QUEUE_GONE:
	case QUEUE_WAIT:
	case QUEUE_FULL_SESSION:
	case QUEUE_FULL_SESSION_BYTES:
	case QUEUE_FULL_TOTAL:
	case QUEUE_FULL_BYTES:
	case QUEUE_FULL_SESSIONS:
		break;
	}
	if (client)
		client_advance(client);
}

/* Admitted, or to be delayed when its turn comes. It is where it would be in the queue had the
 * verdict been there at once. */
static void judged_first(struct exchange *x)
{
	if (turn_is_answered_here(x))
		return;
	if (gather_begin(x) || look_before(x) != BEFORE_NONE ||
		(x->client->first != x && client_is_behind(x->client))) {
		exchange_enter(x, EXCHANGE_HELD);
		gather_run(x);
	} else {
		turn_leave_aside(x);
	}
}

static enum queue_verdict offer(struct exchange *x)
{
	struct site *site = x->use->site;
	struct upstream *upstream = x->upstream;
	struct ticket *ticket = &x->turn.ticket;

	ticket->message.run = on_ticket;
	ticket->bytes = bytes_of(x);
	ticket->weight = (uint16_t)(x->gate->verdict.weight > 0 ? x->gate->verdict.weight : 1);
	ticket->unordered =
		x->route->sessions.ordering == CONF_ORDERING_AUTO && !x->gate->verdict.names_client;
	ticket->unsafe = !http_method_is_safe(x->request.method);
	if (!ticket->unsafe && !ticket->unordered)
		ticket->path = (uint32_t)text_hash(x->facts.path) | 1;
	return queue_enter(x->worker->node->queue, &site->policies[x->route->index],
		upstream->state->run_queue,
		(struct session_key){{x->gate->verdict.session.hi, x->gate->verdict.session.lo}},
		ticket, worker_now_ns(x->worker));
}

static void enter_queue(struct exchange *x)
{
	enum queue_verdict verdict = offer(x);

	if (verdict == QUEUE_GO) {
		x->turn.ticket_use = TURN_HAS_TICKET;
		exchange_admit(x);
	} else if (verdict == QUEUE_WAIT) {
		x->turn.ticket_use = TURN_HAS_TICKET;
		x->turn.aside = x->turn.ticket.unready;
		if (x->turn.asks == ASKS_WHEN_PLACED)
			turn_ask_first(x, judged_first);
		else if (x->turn.aside)
			exchange_enter(x, EXCHANGE_HELD);
		else
			exchange_await_turn(x);
	} else {
		turned_away_by_queue(x, verdict);
	}
}

void turn_leave_aside(struct exchange *x)
{
	x->turn.aside = false;
	enum queue_verdict verdict =
		queue_ready(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
	if (verdict == QUEUE_GO)
		exchange_admit(x);
	else if (verdict == QUEUE_WAIT)
		exchange_await_turn(x);
	else
		turned_away_by_queue(x, verdict);
}

void turn_yield_place(struct exchange *x)
{
	x->turn.aside |=
		queue_yield(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
}

/* ---- in -------------------------------------------------------------------------------------- */

void turn_enter(struct exchange *x)
{
	x->turn.ticket.lane = (uint8_t)lane_of(x);
	if (x->tunnel.lead && follow_lead(x)) {
		exchange_forward(x);
		return;
	}
	x->turn.ticket.unready = gather_begin(x);
	switch (look_before(x)) {
	case BEFORE_OTHER:
		exchange_enter(x, EXCHANGE_HELD);
		break;
	case BEFORE_SAME:
		x->turn.ticket.unready = true;
		enter_queue(x);
		break;
	case BEFORE_NONE:
		x->turn.ticket.unready |= x->client->first != x && client_is_behind(x->client);
		enter_queue(x);
		break;
	}
	if (x->state == EXCHANGE_HELD) {
		turn_give_back(x);
		gather_run(x);
	}
}

bool turn_enter_and_ask(struct exchange *x)
{
	x->times.judged_ns = worker_now_ns(x->worker);
	if (!gate_begin(x->use->site->gate, x->route, &x->gate->identity, &x->gate->verdict,
		    &x->gate->receipt) ||
		turn_admit_at_once(x))
		return false;
	x->turn.asks = ASKS_WHEN_PLACED;
	x->turn.ticket.lane = (uint8_t)lane_of(x);
	x->turn.ticket.unready = true;
	x->turn.ticket.bounded = true; /* those that are asked for are many */
	if (look_before(x) == BEFORE_OTHER)
		exchange_enter(x, EXCHANGE_HELD);
	else
		enter_queue(x);
	return true;
}

void turn_enter_behind(struct exchange *x, const struct exchange *before)
{
	assert(x->state == EXCHANGE_HELD && !exchange_is_queued(x) && x->turn.asks == ASKS_NOTHING);
	turn_refund(x);
	x->times.judged_ns = 0;
	turn_judge_late(x);
	if (x->turn.ticket_use == TURN_TICKET_IS_AWAY)
		return; /* of its last ticket, whose session was aborted */
	x->turn.ticket.unready = true;
	x->turn.ticket.behind = &before->turn.ticket;
	x->turn.ticket_use = offer(x) == QUEUE_WAIT ? TURN_HAS_TICKET : TURN_HAS_NO_TICKET;
	x->turn.aside = exchange_is_queued(x);
	x->turn.ticket.behind = NULL;
}

void exchange_next(struct exchange *x)
{
	if (x->state != EXCHANGE_HELD || x->turn.ticket_use == TURN_TICKET_IS_AWAY)
		return; /* or its last ticket is still to come back */
	if (!exchange_is_queued(x)) {
		x->turn.ticket.unready =
			x->turn.asks == ASKS_WHEN_PLACED || x->gathering == GATHERING_READING;
		enter_queue(x);
	} else if (x->gathering != GATHERING_READING) {
		turn_leave_aside(x);
	}
}
