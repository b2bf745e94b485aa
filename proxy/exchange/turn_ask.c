/*
 * An exchange whose limits an authority judges, which may answer later (gate/authority.h).
 *
 *   place in its session --turn_ask_first--> ASKING --turn_answered, or its time is over-->
 * judged() delayed, its turn comes -----turn_ask-----^ ^ old when its turn comes
 * --turn_renew_due----'
 *
 * While it is ASKING it holds its place in its session and none at its upstream.
 */
#include "exchange/turn_ask.h"

#include <assert.h>

#include "exchange/client.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "exchange/find_server.h"
#include "exchange/reply.h"
#include "exchange/turn.h"
#include "exchange/turn_limits.h"
#include "worker/worker_clock.h"

/* ---- a question ------------------------------------------------------------------------------ */

/* How long its limits have made it wait. */
static uint64_t waited_ns(struct exchange *x)
{
	return x->turn.asks == ASKS_FIRST ? 0 : worker_now_ns(x->worker) - x->times.judged_ns;
}

/* note_verdict_time comes before. */
static struct authority_question question_of(struct exchange *x)
{
	return (struct authority_question){
		.route = x->route,
		.identity = &x->gate->identity,
		.now_ns = x->turn.asked_boot_ns,
		.waited_ns = waited_ns(x),
		.questions = &x->worker->questions,
		.number = x->turn.question,
	};
}

/* It is to wait, and did what it waits for become free while it was asked, so that it is to ask
 * once more? `asks_twice`: it was woken to ask. */
static void look_once_more(struct exchange *x, bool asks_twice)
{
	if (x->gate->verdict.outcome != GATE_DELAY || !x->turn.in_line)
		return;
	if (asks_twice ||
		x->turn.frees != delay_frees(node_delays(x->worker->node), &x->gate->identity))
		delay_miss(&x->turn.place);
	x->turn.place.asks_twice = false;
}

/* Its question is closed. */
static void conclude(struct exchange *x, enum authority_answer answer,
	const struct authority_judgement *judgement, uint64_t now_ns)
{
	uint64_t ahead[GATE_LIMITS_MAX], waited = waited_ns(x);
	bool may_be_behind = x->turn.asks == ASKS_FIRST && !exchange_is_message(x);
	bool is_behind = may_be_behind &&
			 delay_ahead(node_delays(x->worker->node), &x->gate->identity, ahead);

	bool asks_twice = x->turn.in_line && x->turn.place.asks_twice;

	x->turn.question = 0;
	if (x->turn.asks == ASKS_FIRST)
		x->turn.asks = HAS_ASKED;
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
	if (answer == AUTHORITY_JUDGED)
		gate_conclude(&x->gate->identity, judgement, is_behind ? ahead : NULL, now_ns,
			waited, &x->gate->verdict, &x->gate->receipt);
	else
		gate_conclude_unavailable(judgement->retry_after_ms, &x->gate->verdict);
	turn_line_up(x);
	if (may_be_behind && turn_was_passed(x, is_behind, ahead)) {
		gate_conclude(&x->gate->identity, judgement, ahead, now_ns, waited,
			&x->gate->verdict, &x->gate->receipt);
		turn_line_up(x);
	}
	look_once_more(x, asks_twice);
	if (!turn_is_turned_away(x))
		x->turn.judged(x);
}

/* It is of this moment. */
static void note_verdict_time(struct exchange *x)
{
	x->turn.asked_ns = worker_now_ns(x->worker);
	x->turn.asked_boot_ns = worker_throttle_ns(x->worker);
}

bool turn_admit_at_once(struct exchange *x)
{
	struct authority *authority = x->gate->identity.authority;
	struct authority_judgement judgement;

	if (!x->gate->identity.leased || exchange_is_message(x) || !authority->calls->admit)
		return false;
	note_verdict_time(x);
	struct authority_question question = question_of(x);
	if (!authority->calls->admit(authority, &question, &judgement))
		return false;
	gate_conclude(&x->gate->identity, &judgement, NULL, question.now_ns, 0, &x->gate->verdict,
		&x->gate->receipt);
	return true;
}

void turn_ask(struct exchange *x, void (*judged)(struct exchange *x))
{
	struct authority *authority = x->gate->identity.authority;
	struct authority_judgement judgement;

	x->turn.question = questions_open(&x->worker->questions, x);
	if (x->turn.question == 0) {
		exchange_reply(x, 503, "no memory", 1000);
		return;
	}
	x->turn.judged = judged;
	x->gate->asked_behind = x->tunnel.gateway && !exchange_is_first(x);
	note_verdict_time(x);
	x->turn.frees = delay_frees(node_delays(x->worker->node), &x->gate->identity);
	exchange_enter(x, EXCHANGE_ASKING);
	struct authority_question question = question_of(x);
	enum authority_answer answer = authority->calls->ask(authority, &question, &judgement);
	if (answer == AUTHORITY_PENDING) {
		turn_wait_until(x, worker_now_ms(x->worker) + authority->timeout_ms);
		return;
	}
	questions_close(&x->worker->questions, x->turn.question);
	conclude(x, answer, &judgement, question.now_ns);
}

void turn_ask_first(struct exchange *x, void (*judged)(struct exchange *exchange))
{
	x->turn.asks = ASKS_FIRST;
	x->times.judged_ns = worker_now_ns(x->worker); /* delays count from here */
	turn_ask(x, judged);
}

void turn_expire_question(struct exchange *x)
{
	struct authority *authority = x->gate->identity.authority;
	struct authority_judgement judgement;

	note_verdict_time(x);
	struct authority_question question = question_of(x);
	questions_close(&x->worker->questions, x->turn.question);
	enum authority_answer answer = authority->calls->expire(authority, &question, &judgement);
	assert(answer != AUTHORITY_PENDING);
	conclude(x, answer, &judgement, question.now_ns);
}

void turn_answered(
	void *exchange, enum authority_answer answer, const struct authority_judgement *judgement)
{
	struct exchange *x = exchange;
	struct client *client = x->client;

	assert(x->state == EXCHANGE_ASKING && client);
	conclude(x, answer, judgement, worker_throttle_ns(x->worker));
	client_advance(client);
}

/* ---- a verdict that is old ------------------------------------------------------------------- */

/*
 * A verdict of an authority is of the moment when it was asked. While the request waited for its
 * place, or the node stood still, that has passed: sent now, the request would be in another window
 * than it was charged in. The clock is read again, as the turn itself may have been held up. Where
 * authorities take so long, the third verdict counts.
 *
 * Of a message that was asked about behind others, a limit in bytes was judged without theirs,
 * which are charged as they leave: that verdict is old from the beginning.
 */
#define VERDICT_FRESH_NS (100 * CLOCK_NS_PER_MS)
#define RENEWALS_MOST    3

bool turn_verdict_is_old(const struct exchange *x)
{
	return x->attempt.reach != REACH_LEFT && x->turn.renewals < RENEWALS_MOST &&
	       ((x->gate->asked_behind && x->gate->receipt.in_bytes != 0) ||
		       worker_now_ns(x->worker) - x->turn.asked_ns > VERDICT_FRESH_NS ||
		       worker_throttle_ns(x->worker) - x->turn.asked_boot_ns > VERDICT_FRESH_NS);
}

static void judged_at_turn(struct exchange *x)
{
	if (x->gate->verdict.outcome == GATE_DELAY)
		turn_delay(x);
	else
		exchange_forward(x);
}

void turn_renew_due(struct exchange *x)
{
	turn_refund(x);
	x->turn.renewals++;
	turn_ask(x, judged_at_turn);
}

/* ---- those that leave with another ----------------------------------------------------------- */

/* Delayed or not: its turn is still to come. */
static void judged_as_rider(struct exchange *x)
{
	exchange_enter(x, EXCHANGE_HELD);
}

void turn_renew(struct exchange *x)
{
	assert(x->state == EXCHANGE_HELD && exchange_is_queued(x));
	turn_refund(x);
	turn_ask(x, judged_as_rider);
}

bool turn_is_renewed(const struct exchange *x)
{
	return x->state == EXCHANGE_ASKING && x->turn.judged == judged_as_rider;
}

void turn_await_riders(struct exchange *x)
{
	assert(x->state == EXCHANGE_ASKING && x->turn.question == 0);
	turn_wait_until(x, worker_now_ms(x->worker) + x->gate->identity.authority->timeout_ms);
}

bool turn_awaits_riders(const struct exchange *x)
{
	return x->state == EXCHANGE_ASKING && x->turn.question == 0;
}
