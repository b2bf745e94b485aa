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

#include <assert.h>

#include "base/container.h"
#include "exchange/account.h"
#include "exchange/exchange.h"
#include "exchange/find_server.h"
#include "exchange/kept_request.h"
#include "exchange/max_forwards.h"
#include "exchange/reply.h"
#include "exchange/switched.h"
#include "gate/authority.h"
#include "http/priority.h"
#include "http/problem.h"
#include "listen/listener.h"
#include "worker/worker_clock.h"

/* ---- its limits ------------------------------------------------------------------------------ */

/* What says whose it is: its own request, or its handshake's. */
struct asker {
	const struct http_head *head;
	const struct exchange_facts *facts;
	struct slice query;
};

static inline struct asker asker_of(const struct exchange *x)
{
	return (struct asker){&x->request, &x->facts, x->target.query};
}

static inline __attribute__((always_inline)) void fill_identity(
	const struct exchange *x, const struct asker *by, struct identity_input *input)
{
	input->head = by->head;
	memcpy(input->address, by->facts->address, sizeof(input->address));
	input->host = by->facts->host;
	input->path = by->facts->key_path;
	input->query = by->query;
	input->method = by->facts->method;
	input->route = slice_of(x->route->name);
	input->now_s = gate_needs_time(x->use->site->gate)
			       ? worker_wall_ns(x->worker) / CLOCK_NS_PER_S
			       : 0;
	input->has_key = input->ambiguous = false;
}

uint64_t exchange_hash_key(const struct exchange *x, const struct conf_key *key)
{
	struct throttle_seed seed = throttle_table_seed(x->worker->node->throttles);
	const struct asker by = asker_of(x);
	struct identity_input input;

	fill_identity(x, &by, &input);
	return identity_hash(key, &input, &seed).lo;
}

/* Whom its limits charge, by what `by` says: determined once. */
static inline __attribute__((always_inline)) void identify(
	struct exchange *x, enum gate_kind kind, const struct asker *by)
{
	struct identity_input input;

	fill_identity(x, by, &input);
	gate_identify_as(x->use->site->gate, x->route, kind, &input, &x->gate.identity);
}

/* By the table, the first time and again when a delay is over. */
static void judge(struct exchange *x)
{
	struct worker *worker = x->worker;
	uint64_t now_ns = worker_now_ns(worker);
	uint64_t waited_ns = x->times.judged_ns ? now_ns - x->times.judged_ns : 0;

	gate_judge(x->use->site->gate, x->route, &x->gate.identity, worker_throttle_ns(worker),
		waited_ns, &x->gate.verdict, &x->gate.receipt);
	if (!x->times.judged_ns)
		x->times.judged_ns = now_ns;
}

/* Of a message that is refused: is it to be delayed whatever its limits say? Then it is. */
static __attribute__((noinline)) bool wait_instead(struct exchange *x)
{
	const struct conf_websocket *conf = &x->route->websocket;
	struct gate_verdict *verdict = &x->gate.verdict;
	uint64_t waited_ms = (worker_now_ns(x->worker) - x->times.judged_ns) / CLOCK_NS_PER_MS;

	if (conf->on_exceed != CONF_MESSAGE_DELAY || conf->delay_max_ms <= waited_ms ||
		verdict->retry_after_ms > conf->delay_max_ms - waited_ms ||
		verdict->retry_after_ms == UINT64_MAX)
		return false;
	verdict->outcome = GATE_DELAY;
	verdict->delay_until_ns =
		worker_throttle_ns(x->worker) + verdict->retry_after_ms * CLOCK_NS_PER_MS;
	return true;
}

/* Refused by the gate? Then it is answered. */
static bool is_turned_away(struct exchange *x)
{
	switch (x->gate.verdict.outcome) {
	case GATE_ADMIT:
		return false;
	case GATE_DELAY:
		return false;
	case GATE_REFUSE:
		if (x->tunnel.is_message && wait_instead(x))
			return false;
		exchange_reply(x, 429, "limit", x->gate.verdict.retry_after_ms);
		return true;
	case GATE_AMBIGUOUS:
		exchange_reply(x, 400, "ambiguous key", HTTP_PROBLEM_NO_RETRY);
		return true;
	case GATE_DENY:
		exchange_reply(x, 403, "denied", HTTP_PROBLEM_NO_RETRY);
		return true;
	case GATE_NO_KEY:
		exchange_reply(x, 401, "no key", HTTP_PROBLEM_NO_RETRY);
		return true;
	case GATE_UNKNOWN:
		exchange_reply(x, 403, "unknown key", HTTP_PROBLEM_NO_RETRY);
		return true;
	case GATE_UNAVAILABLE:
		exchange_reply(x, 503, "limits unavailable", x->gate.verdict.retry_after_ms);
		return true;
	}
	return true;
}

/* Admitted, but answered by us. */
static inline bool is_answered_here(struct exchange *x)
{
	return http_head_has(&x->request, HTTP_FIELD_MAX_FORWARDS) && max_forwards_reached(x);
}

/* ---- its place ------------------------------------------------------------------------------- */

static bool same_session(const struct exchange *a, const struct exchange *b)
{
	return a->gate.verdict.session.hi == b->gate.verdict.session.hi &&
	       a->gate.verdict.session.lo == b->gate.verdict.session.lo;
}

/* Those before it on its connection whose answers are still to come. */
enum before {
	BEFORE_NONE,
	BEFORE_SAME,  /* all in the queue, in the same session and lane */
	BEFORE_OTHER, /* one is not in the queue, or in another session or lane */
};

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
		if (exchange_is_answered(before))
			continue;
		if (!before->turn.in_queue || !same_session(before, x) ||
			before->turn.ticket.lane != x->turn.ticket.lane)
			return BEFORE_OTHER;
		found = BEFORE_SAME;
	}
	return found;
}

/* The lane of its plan and route, or as its client says where clients are believed: urgent ones
 * high unless the plan is of the normal lane, less than usual ones normal. */
static enum queue_lane lane_of(const struct exchange *x)
{
	bool high = x->gate.verdict.lane == CONF_LANE_HIGH;

	if (x->client->listener->conf->trust_priority) {
		const struct conf_plan *plan = x->gate.verdict.plan;
		int urgency =
			http_priority_urgency(http_head_find_name(&x->request, SLICE("priority")));
		if (urgency >= 0 && urgency <= 2 && (!plan || plan->lane == CONF_LANE_HIGH))
			high = true;
		else if (urgency > 3)
			high = false;
	}
	return high ? QUEUE_LANE_HIGH : QUEUE_LANE_NORMAL;
}

static void expire(struct exchange *x);

static void on_deadline(struct deadline *deadline)
{
	struct exchange *x = CONTAINER_OF(deadline, struct exchange, turn.deadline);
	struct client *client = x->client;

	if (x->state == EXCHANGE_DELAYED) {
		exchange_admit(x);
	} else if (turn_awaits_riders(x)) {
		exchange_forward(x);
	} else if (x->state == EXCHANGE_ASKING) {
		expire(x);
	} else if (x->state == EXCHANGE_QUEUED && exchange_looks_again(x) &&
		   worker_now_ms(x->worker) < x->turn.wait_ends_ms) {
		find_server_again(x);
	} else if (x->state == EXCHANGE_QUEUED) {
		struct run_queue *line = x->upstream->state->run_queue;
		worker_count(x->worker, STATS_SHED);
		exchange_reply(x, 503, "queue timeout", run_queue_retry_after_ms(line));
	}
	if (client)
		client_advance(client);
}

static void wait_until(struct exchange *x, uint64_t at_ms)
{
	if (!x->turn.has_deadline)
		deadline_init(&x->turn.deadline, x->worker->loop.base, on_deadline);
	x->turn.has_deadline = true;
	deadline_set(&x->turn.deadline, at_ms, worker_now_ms(x->worker));
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

	worker_count(x->worker, STATS_SHED);
	exchange_reply(x, 503, reasons[verdict], x->turn.ticket.retry_after_ms);
}

/* What it holds in memory while it waits: itself, its head, and what of its body is here already,
 * which is a block of its connection's. */
static uint64_t bytes_of(const struct exchange *x)
{
	uint64_t bytes = sizeof(*x);

	if (x->memory.head != x->memory.inline_head)
		bytes += x->request.len;
	if (x->memory.path)
		bytes += x->facts.path.len;
	if (!exchange_has_request(x) || x->tunnel.is_message)
		bytes += client_body_memory(x->client);
	return bytes;
}

void exchange_await_turn(struct exchange *x)
{
	/* One that was sent already, and is to be sent again, has waited for something else. */
	uint64_t since_ns = x->attempt.sent ? worker_now_ns(x->worker) : x->turn.ticket.entered_ns;

	exchange_enter(x, EXCHANGE_QUEUED);
	if (x->attempt.search == SEARCH_FIRST) /* else it is the same wait, which goes on */
		x->turn.wait_ends_ms =
			since_ns / CLOCK_NS_PER_MS + x->route->sessions.queue_timeout_ms;
	wait_until(x, x->turn.wait_ends_ms);
}

void exchange_look_again(struct exchange *x, uint64_t after_ms)
{
	uint64_t at_ms = worker_now_ms(x->worker) + after_ms;

	wait_until(x, at_ms < x->turn.wait_ends_ms ? at_ms : x->turn.wait_ends_ms);
}

static void on_ticket(struct message *message);
static void ask(struct exchange *x, void (*judged)(struct exchange *x));
static void judged_first(struct exchange *x);

static void enter_queue(struct exchange *x)
{
	struct site *site = x->use->site;
	struct upstream *upstream = x->upstream;
	struct ticket *ticket = &x->turn.ticket;

	ticket->message.run = on_ticket;
	ticket->bytes = bytes_of(x);
	ticket->weight = (uint16_t)(x->gate.verdict.weight > 0 ? x->gate.verdict.weight : 1);
	ticket->unordered =
		x->route->sessions.ordering == CONF_ORDERING_AUTO && !x->gate.verdict.names_client;
	ticket->unsafe = !http_method_is_safe(x->request.method);
	enum queue_verdict verdict = queue_enter(x->worker->node->queue,
		&site->policies[x->route->index], upstream->state->run_queue,
		(struct session_key){{x->gate.verdict.session.hi, x->gate.verdict.session.lo}},
		ticket, worker_now_ns(x->worker));
	if (verdict == QUEUE_GO) {
		x->turn.in_queue = true;
		exchange_admit(x);
	} else if (verdict == QUEUE_WAIT) {
		x->turn.in_queue = true;
		x->turn.aside = ticket->unready;
		if (x->turn.asks)
			ask(x, judged_first);
		else if (x->turn.aside)
			exchange_enter(x, EXCHANGE_HELD);
		else
			exchange_await_turn(x);
	} else {
		turned_away_by_queue(x, verdict);
	}
}

/* It can use a place now. */
static void leave_aside(struct exchange *x)
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

/* Others need not wait for what it waits for at the head of its session. */
static void yield_place(struct exchange *x)
{
	x->turn.aside |=
		queue_yield(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
}

static void delay(struct exchange *x)
{
	uint64_t now_ns = worker_throttle_ns(x->worker);
	uint64_t until_ns = x->gate.verdict.delay_until_ns;
	uint64_t wait_ms = until_ns > now_ns ? (until_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 1;

	exchange_enter(x, EXCHANGE_DELAYED);
	if (!x->turn.delayed)
		account_delay(x);
	x->turn.delayed = true;
	yield_place(x);
	wait_until(x, worker_now_ms(x->worker) + wait_ms);
}

void exchange_try_later(struct exchange *x, uint64_t after_ms)
{
	exchange_drop_connection(x);
	x->attempt.search = SEARCH_FIRST;
	x->attempt.tried = x->attempt.tries = 0;
	x->turn.ticket.failed = false;
	exchange_enter(x, EXCHANGE_DELAYED);
	yield_place(x);
	wait_until(x, worker_now_ms(x->worker) + after_ms);
}

static void judged_again(struct exchange *x)
{
	if (x->gate.verdict.outcome == GATE_DELAY)
		delay(x);
	else
		leave_aside(x);
}

/*
 * A verdict of an authority is of the moment when it was asked. While the request waited for its
 * place, or the node stood still, that has passed: sent now, the request would be in another window
 * than it was charged in. The clock is read again, as the turn itself may have been held up. Where
 * authorities take so long, the third verdict counts.
 */
#define VERDICT_FRESH_NS (100 * CLOCK_NS_PER_MS)
#define RENEWALS_MOST    3

static bool is_old(const struct exchange *x)
{
	return x->turn.renewals < RENEWALS_MOST &&
	       (worker_now_ns(x->worker) - x->turn.asked_ns > VERDICT_FRESH_NS ||
		       worker_throttle_ns(x->worker) - x->turn.asked_boot_ns > VERDICT_FRESH_NS);
}

static void judged_at_turn(struct exchange *x)
{
	if (x->gate.verdict.outcome == GATE_DELAY)
		delay(x);
	else
		exchange_forward(x);
}

static void give_back_verdict(struct exchange *x)
{
	static const struct gate_end unused = {.never_forwarded = true};

	gate_finish(x->use->site->gate, x->route, &x->gate.receipt, &unused,
		worker_throttle_ns(x->worker));
}

/* Gives back what the old verdict took, and asks again; it keeps its place meanwhile. */
static __attribute__((noinline)) void renew_verdict(struct exchange *x)
{
	give_back_verdict(x);
	x->turn.renewals++;
	ask(x, judged_at_turn);
}

/* ---- those that leave with another ----------------------------------------------------------- */

bool turn_is_old(const struct exchange *x)
{
	return x->gate.receipt.authority && is_old(x);
}

/* Delayed or not: its turn is still to come. */
static void judged_as_rider(struct exchange *x)
{
	exchange_enter(x, EXCHANGE_HELD);
}

void turn_renew(struct exchange *x)
{
	assert(x->state == EXCHANGE_HELD && x->turn.in_queue);
	give_back_verdict(x);
	ask(x, judged_as_rider);
}

bool turn_is_renewed(const struct exchange *x)
{
	return x->state == EXCHANGE_ASKING && x->turn.judged == judged_as_rider;
}

void turn_await_riders(struct exchange *x)
{
	assert(x->state == EXCHANGE_ASKING && x->turn.question == 0);
	wait_until(x, worker_now_ms(x->worker) + x->gate.identity.authority->timeout_ms);
}

bool turn_awaits_riders(const struct exchange *x)
{
	return x->state == EXCHANGE_ASKING && x->turn.question == 0;
}

/* ---- its turn -------------------------------------------------------------------------------- */

/* At the head of its session: one that its limit delays waits here until it fits, and then for a
 * place at its upstream once more. */
void exchange_admit(struct exchange *x)
{
	bool is_fresh = x->state == EXCHANGE_HEAD || x->state == EXCHANGE_ASKING;

	if (x->gate.verdict.outcome == GATE_DELAY && !is_fresh) {
		if (x->gate.identity.authority) {
			yield_place(x);
			ask(x, judged_again);
			return;
		}
		judge(x);
		if (is_turned_away(x))
			return;
	}
	if (x->gate.verdict.outcome == GATE_DELAY) {
		delay(x);
		return;
	}
	if (x->turn.aside) {
		leave_aside(x);
		return;
	}
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
	if (x->gate.receipt.authority && is_old(x))
		renew_verdict(x);
	else
		exchange_forward(x);
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
	x->turn.awaits_mail = false;
	switch (verdict) {
	case QUEUE_GO:
		exchange_admit(x);
		break;
	case QUEUE_ABORTED:
		exchange_abort(x, "session aborted");
		break;
	case QUEUE_SHED:
	case QUEUE_CLOSED:
		x->turn.in_queue = false;
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

static inline void enter(struct exchange *x)
{
	x->turn.ticket.lane = (uint8_t)lane_of(x);
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
	if (x->state == EXCHANGE_HELD)
		gather_run(x);
}

/* ---- its limits, judged elsewhere ------------------------------------------------------------ */

/* How long its limits have made it wait. */
static uint64_t waited_ns(struct exchange *x)
{
	return x->turn.judged == judged_first ? 0 : worker_now_ns(x->worker) - x->times.judged_ns;
}

static struct authority_question question_of(struct exchange *x)
{
	return (struct authority_question){
		.route = x->route,
		.identity = &x->gate.identity,
		.now_ns = worker_throttle_ns(x->worker),
		.waited_ns = waited_ns(x),
		.questions = &x->worker->questions,
		.number = x->turn.question,
	};
}

/* Its question is closed. */
static void conclude(struct exchange *x, enum authority_answer answer,
	const struct authority_judgement *judgement)
{
	x->turn.question = 0;
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
	if (answer == AUTHORITY_JUDGED)
		gate_conclude(&x->gate.identity, judgement, worker_throttle_ns(x->worker),
			waited_ns(x), &x->gate.verdict, &x->gate.receipt);
	else
		gate_conclude_unavailable(judgement->retry_after_ms, &x->gate.verdict);
	if (!is_turned_away(x))
		x->turn.judged(x);
}

/* It is of this moment. */
static void note_verdict_time(struct exchange *x)
{
	x->turn.asked_ns = worker_now_ns(x->worker);
	x->turn.asked_boot_ns = worker_throttle_ns(x->worker);
}

/* It holds its place in its session and none at its upstream. */
static void ask(struct exchange *x, void (*judged)(struct exchange *x))
{
	struct authority *authority = x->gate.identity.authority;
	struct authority_judgement judgement;

	x->turn.question = questions_open(&x->worker->questions, x);
	if (x->turn.question == 0) {
		exchange_reply(x, 503, "no memory", 1000);
		return;
	}
	x->turn.judged = judged;
	if (judged == judged_first)
		x->times.judged_ns = worker_now_ns(x->worker); /* delays count from here */
	note_verdict_time(x);
	exchange_enter(x, EXCHANGE_ASKING);
	struct authority_question question = question_of(x);
	enum authority_answer answer = authority->calls->ask(authority, &question, &judgement);
	if (answer == AUTHORITY_PENDING) {
		wait_until(x, worker_now_ms(x->worker) + authority->timeout_ms);
		return;
	}
	questions_close(&x->worker->questions, x->turn.question);
	conclude(x, answer, &judgement);
}

/* No reply came in time: one that comes later finds no question. */
static void expire(struct exchange *x)
{
	struct authority *authority = x->gate.identity.authority;
	struct authority_question question = question_of(x);
	struct authority_judgement judgement;

	questions_close(&x->worker->questions, x->turn.question);
	note_verdict_time(x);
	enum authority_answer answer = authority->calls->expire(authority, &question, &judgement);
	assert(answer != AUTHORITY_PENDING);
	conclude(x, answer, &judgement);
}

void turn_answered(
	void *exchange, enum authority_answer answer, const struct authority_judgement *judgement)
{
	struct exchange *x = exchange;
	struct client *client = x->client;

	assert(x->state == EXCHANGE_ASKING && client);
	conclude(x, answer, judgement);
	client_advance(client);
}

/* Admitted, or to be delayed when its turn comes. It is where it would be in the queue had the
 * verdict been there at once. */
static void judged_first(struct exchange *x)
{
	if (is_answered_here(x))
		return;
	if (gather_begin(x) || look_before(x) != BEFORE_NONE ||
		(x->client->first != x && client_is_behind(x->client))) {
		exchange_enter(x, EXCHANGE_HELD);
		gather_run(x);
	} else {
		leave_aside(x);
	}
}

/* Takes its place, then asks. False: the verdict stands, as its limits do not apply. */
static __attribute__((noinline)) bool begin_asking(struct exchange *x)
{
	x->times.judged_ns = worker_now_ns(x->worker);
	if (!gate_begin(x->use->site->gate, x->route, &x->gate.identity, &x->gate.verdict,
		    &x->gate.receipt))
		return false;
	x->turn.asks = true;
	x->turn.ticket.lane = (uint8_t)lane_of(x);
	x->turn.ticket.unready = true;
	x->turn.ticket.bounded = true; /* those that are asked for are many */
	if (look_before(x) == BEFORE_OTHER)
		exchange_enter(x, EXCHANGE_HELD);
	else
		enter_queue(x);
	return true;
}

/* ---- the way ----------------------------------------------------------------------------------
 */

/* It is known whom they charge. */
static inline __attribute__((always_inline)) void begin(struct exchange *x)
{
	if (!x->gate.identity.authority)
		judge(x);
	else if (begin_asking(x))
		return;
	if (!is_turned_away(x) && !is_answered_here(x))
		enter(x);
}

void turn_begin(struct exchange *x)
{
	const struct asker by = asker_of(x);

	identify(x, x->tunnel.opens_socket ? GATE_HANDSHAKE : GATE_REQUEST, &by);
	begin(x);
}

void turn_begin_message(struct exchange *x, const struct kept_request *handshake)
{
	const struct asker by = {&handshake->head, &handshake->facts, handshake->query};

	identify(x, GATE_MESSAGE, &by);
	begin(x);
}

void turn_begin_event(struct exchange *x, struct throttle_key session)
{
	struct gate_verdict *verdict = &x->gate.verdict;

	x->gate.identity.authority = NULL;
	verdict->outcome = GATE_ADMIT;
	verdict->plan = NULL;
	verdict->lane = CONF_LANE_NORMAL;
	verdict->weight = 1;
	verdict->session = verdict->caller = session;
	verdict->names_client = true;
	verdict->violated = verdict->shadowed = false;
	enter(x);
}

void exchange_next(struct exchange *x)
{
	if (x->state != EXCHANGE_HELD)
		return;
	if (!x->turn.in_queue) {
		x->turn.ticket.unready = x->turn.asks || x->gathering == GATHERING_READING;
		enter_queue(x);
	} else if (x->gathering != GATHERING_READING) {
		leave_aside(x);
	}
}
