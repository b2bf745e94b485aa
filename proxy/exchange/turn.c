/*
 * An exchange on the way to its turn: what its limits say, its place in its client's order.
 *
 *   judged by the table --> place --> HELD, QUEUED, DELAYED ... --> exchange_admit --> forward
 *   place --> ASKING, an authority judges --^
 *        `-- refused, turned away, no verdict in time: exchange_reply, which gives the place up
 *
 * A verdict that may come later comes after the place is taken: order does not depend on which
 * verdict returns sooner.
 */
#include "exchange/turn.h"

#include "base/container.h"
#include "exchange/report.h"
#include "exchange/client.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "exchange/find_server.h"
#include "exchange/reply.h"
#include "exchange/seek.h"
#include "exchange/turn_ask.h"
#include "exchange/turn_limits.h"
#include "exchange/turn_place.h"
#include "http/problem.h"
#include "upstream/pace.h"
#include "worker/worker_clock.h"

/* ---- without a place ------------------------------------------------------------------------- */

/* Interval at which an exchange that found too many sent without a place looks again. */
#define UNPLACED_LOOK_MS 50

/* Is it a disconnect notice that waits only for a place? */
static bool waits_for_place(const struct exchange *x)
{
	if (x->state == EXCHANGE_QUEUED)
		return !exchange_looks_again(x);
	return x->state == EXCHANGE_DELAYED && !exchange_is_queued(x) && x->turn.unplaced_ns == 0;
}

/* One more? It counts for the upstream's pace as any request does. If not, `*look_ms` is the time
 * until it is to look again. */
static bool take_unplaced(struct exchange *x, uint64_t *look_ms)
{
	struct upstream_state *upstream = x->upstream->state;
	/* acquire: pairs with the release in upstream_commit */
	struct pace *pace = atomic_load_explicit(&upstream->pace, memory_order_acquire);

	*look_ms = UNPLACED_LOOK_MS;
	if (x->turn.unplaced_ns != 0)
		return true;
	/* relaxed: a bound, which orders nothing */
	if (atomic_fetch_add_explicit(&upstream->unplaced, 1, memory_order_relaxed) <
		TURN_UNPLACED_MOST) {
		x->turn.unplaced_ns = clock_monotonic_ns();
		if (!pace || pace_charge(pace, x->turn.unplaced_ns) == 0)
			return true;
		*look_ms = TURN_END_WAIT_MS; /* many may wait; those in the queue get turns */
		x->turn.unplaced_ns = 0;
	}
	atomic_fetch_sub_explicit(&upstream->unplaced, 1, memory_order_relaxed);
	return false;
}

void turn_go_without_place(struct exchange *x)
{
	uint64_t look_ms;

	if (take_unplaced(x, &look_ms)) {
		exchange_leave_queue(x);
		if (x->turn.has_deadline)
			deadline_clear(&x->turn.deadline);
		exchange_forward(x);
		return;
	}
	if (x->state != EXCHANGE_QUEUED)
		exchange_enter(x, EXCHANGE_DELAYED);
	turn_wait_until(x, worker_now_ms(x->worker) + look_ms);
}

/* ---- its deadline ---------------------------------------------------------------------------- */

static void on_deadline(struct deadline *deadline)
{
	struct exchange *x = CONTAINER_OF(deadline, struct exchange, turn.deadline);
	struct client *client = x->client;

	if (x->kind == EXCHANGE_DISCONNECT && waits_for_place(x)) {
		turn_go_without_place(x);
	} else if (x->state == EXCHANGE_DELAYED) {
		exchange_admit(x);
	} else if (x->state == EXCHANGE_SEEKING) {
		seek_expire(x);
	} else if (turn_awaits_riders(x)) {
		exchange_forward(x);
	} else if (x->state == EXCHANGE_ASKING) {
		turn_expire_question(x);
	} else if (x->state == EXCHANGE_QUEUED && exchange_looks_again(x) &&
		   (x->kind == EXCHANGE_DISCONNECT ||
			   worker_now_ms(x->worker) < x->turn.wait_ends_ms)) {
		find_server_again(x);
	} else if (x->state == EXCHANGE_QUEUED) {
		struct run_queue *line = x->upstream->state->run_queue;
		worker_count(x->worker, STATS_SHED);
		if (exchange_is_past_deadline(x))
			exchange_reply(x, 504, "deadline", HTTP_PROBLEM_NO_RETRY);
		else
			exchange_reply(x, 503, "queue timeout", run_queue_retry_after_ms(line));
	}
	if (client)
		client_advance(client);
}

void turn_wait_until(struct exchange *x, uint64_t at_ms)
{
	if (!x->turn.has_deadline)
		deadline_init(&x->turn.deadline, x->worker->loop.base, on_deadline);
	x->turn.has_deadline = true;
	deadline_set(&x->turn.deadline, at_ms, worker_now_ms(x->worker));
}

void exchange_await_turn(struct exchange *x)
{
	/* One that was sent already, and is to be sent again, has waited for something else. */
	uint64_t since_ns = x->attempt.reach != REACH_NONE ? worker_now_ns(x->worker)
							   : x->turn.ticket.entered_ns;
	uint64_t wait_ms = seek_queue_timeout_ms(x);

	if (x->kind == EXCHANGE_DISCONNECT && x->state != EXCHANGE_CONNECTING &&
		wait_ms > TURN_END_WAIT_MS)
		wait_ms = TURN_END_WAIT_MS;
	turn_give_back(x);
	exchange_enter(x, EXCHANGE_QUEUED);
	if (x->attempt.search == SEARCH_FIRST) /* else it is the same wait, which continues */
		x->turn.wait_ends_ms = since_ns / CLOCK_NS_PER_MS + wait_ms;
	if (x->times.ends_ms != 0 && x->turn.wait_ends_ms > x->times.ends_ms)
		x->turn.wait_ends_ms = x->times.ends_ms;
	turn_wait_until(x, x->turn.wait_ends_ms);
}

void exchange_look_again(struct exchange *x, uint64_t after_ms)
{
	uint64_t at_ms = worker_now_ms(x->worker) + after_ms;

	if (x->kind != EXCHANGE_DISCONNECT && at_ms > x->turn.wait_ends_ms)
		at_ms = x->turn.wait_ends_ms;
	turn_wait_until(x, at_ms);
}

/* ---- its turn -------------------------------------------------------------------------------- */

/* It waits in line, as the first: do its limits admit it by now? Of those of an authority this is
 * not known. */
static bool fits_now(struct exchange *x)
{
	struct gate_verdict verdict;

	if (x->gate->identity.authority)
		return false;
	gate_explain(x->use->site->gate, x->route, &x->gate->identity,
		worker_throttle_ns(x->worker), &verdict);
	return verdict.outcome == GATE_ADMIT;
}

/* In line: is it judged again at once? What was freed before it waits has woken nobody. */
static bool looks_at_once(struct exchange *x)
{
	bool is_to_look = delay_wait(&x->turn.place);

	return delay_take_missed(&x->turn.place) || (is_to_look && fits_now(x));
}

void turn_delay(struct exchange *x)
{
	uint64_t now_ns = worker_throttle_ns(x->worker);
	uint64_t until_ns = x->gate->verdict.delay_until_ns;
	uint64_t wait_ms = until_ns > now_ns ? (until_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 1;

	exchange_enter(x, EXCHANGE_DELAYED);
	if (!x->gate->delayed)
		report_delay(x);
	x->gate->delayed = true;
	x->attempt.search = SEARCH_FIRST;
	turn_yield_place(x);
	turn_line_up(x);
	if (x->turn.in_line && looks_at_once(x))
		wait_ms = 0;
	turn_wait_until(x, worker_now_ms(x->worker) + wait_ms);
}

void exchange_try_later(struct exchange *x, uint64_t after_ms)
{
	exchange_drop_connection(x);
	turn_give_back(x);
	x->attempt.search = SEARCH_FIRST;
	x->attempt.tried = x->attempt.tries = 0;
	x->turn.ticket.failed = false;
	exchange_enter(x, EXCHANGE_DELAYED);
	turn_yield_place(x);
	turn_wait_until(x, worker_now_ms(x->worker) + after_ms);
}

static void judged_again(struct exchange *x)
{
	if (x->gate->verdict.outcome == GATE_DELAY)
		turn_delay(x);
	else
		turn_leave_aside(x);
}

static void identify(struct exchange *x)
{
	turn_identify(x, exchange_is_handshake(x) ? GATE_HANDSHAKE : GATE_REQUEST);
}

/* An operator has changed a plan, a key or an override. The authority of its limits stays, as it is
 * on the way of that. */
static void identify_again(struct exchange *x)
{
	const struct gate_identity before = x->gate->identity;

	identify(x);
	if (x->gate->identity.authority != before.authority)
		x->gate->identity = before;
}

/* At the head of its session: one that its limit delays waits here until it fits, and then for a
 * place at its upstream once more. */
void exchange_admit(struct exchange *x)
{
	bool is_fresh = x->state == EXCHANGE_HEAD || x->state == EXCHANGE_ASKING;

	if (x->turn.in_line && !exchange_is_message(x) && delay_has_changed(&x->turn.place))
		identify_again(x);
	if (x->gate->judged_late) {
		turn_judge_again(x);
		if (turn_is_turned_away(x))
			return;
	} else if (x->gate->verdict.outcome == GATE_DELAY && !is_fresh) {
		if (x->gate->identity.authority) {
			turn_yield_place(x);
			turn_ask(x, judged_again);
			return;
		}
		turn_judge_again(x);
		if (turn_is_turned_away(x))
			return;
	}
	if (x->gate->verdict.outcome == GATE_DELAY) {
		turn_delay(x);
		return;
	}
	if (x->turn.aside) {
		turn_leave_aside(x);
		return;
	}
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
	if (turn_is_old(x))
		turn_renew_due(x);
	else
		exchange_forward(x);
}

bool turn_is_confirmed(struct exchange *x)
{
	turn_judge_again(x);
	if (x->gate->verdict.outcome == GATE_ADMIT)
		return true;
	exchange_drop_connection(x);
	exchange_enter(x, EXCHANGE_DELAYED);
	if (!turn_is_turned_away(x))
		turn_delay(x);
	return false;
}

/* ---- the way in ------------------------------------------------------------------------------ */

/* It is known whom they charge. */
static void begin(struct exchange *x)
{
	if (!x->gate->identity.authority)
		turn_judge(x);
	else if (turn_enter_and_ask(x))
		return;
	if (!turn_is_turned_away(x) && !turn_is_answered_here(x))
		turn_enter(x);
}

/* It has its turn in the order and no place at its upstream, and no verdict yet. */
static void judge_here(struct exchange *x)
{
	identify(x);
	if (!x->gate->identity.authority) {
		turn_judge(x);
	} else if (gate_begin(x->use->site->gate, x->route, &x->gate->identity, &x->gate->verdict,
			   &x->gate->receipt)) {
		turn_ask_first(x, judged_again);
		return;
	}
	if (!turn_is_turned_away(x))
		judged_again(x);
}

static const struct seek_steps seek_steps = {
	.begin_here = begin,
	.enter = turn_enter,
	.yield_place = turn_yield_place,
	.judge_here = judge_here,
	.forward = exchange_forward,
	.wait_until = turn_wait_until,
};

/* False: it was answered. */
static bool open_gate(struct exchange *x)
{
	if (exchange_open_gate(x))
		return true;
	exchange_reply(x, 503, "no memory", 1000);
	return false;
}

void turn_begin(struct exchange *x)
{
	if (!open_gate(x))
		return;
	identify(x);
	if (x->route->sessions.of_fleet)
		seek_begin(x, &seek_steps);
	else
		begin(x);
}

void turn_begin_message(struct exchange *x, const struct kept_request *handshake)
{
	if (!open_gate(x))
		return;
	turn_identify_message(x, handshake);
	if (x->gate->identity.authority || x->route->websocket.on_exceed != CONF_MESSAGE_DELAY) {
		begin(x);
		return;
	}
	turn_judge_late(x);
	if (!turn_is_turned_away(x))
		turn_enter(x);
}

void turn_begin_event(struct exchange *x, struct throttle_key session)
{
	struct gate_verdict *verdict;

	if (!open_gate(x))
		return;
	verdict = &x->gate->verdict;
	x->gate->identity.authority = NULL;
	verdict->outcome = GATE_ADMIT;
	verdict->plan = NULL;
	verdict->lane = x->kind == EXCHANGE_DISCONNECT ? CONF_LANE_HIGH : CONF_LANE_NORMAL;
	verdict->weight = 1;
	verdict->session = verdict->caller = session;
	verdict->names_client = true;
	verdict->violated = verdict->shadowed = false;
	turn_enter(x);
}
