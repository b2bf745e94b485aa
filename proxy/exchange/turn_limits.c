/* The verdict of an exchange's limits by the node's table, and the response to a refused one. */
#include "exchange/turn_limits.h"

#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "exchange/kept_request.h"
#include "exchange/reply.h"
#include "http/problem.h"
#include "worker/worker_clock.h"

/* The request that identifies the caller: its own, or its handshake's. */
struct asker {
	const struct http_head *head;
	const struct exchange_facts *facts;
	struct slice query;
	struct slice odd_path; /* as received; none: plain, or allowed, or of a handshake that was
				* judged */
};

static inline struct slice odd_path_of(const struct exchange *x)
{
	bool is_allowed = x->route && x->route->allows_ambiguous_path;

	return x->facts.path_odd && !is_allowed ? x->target.path : SLICE_NONE;
}

static inline struct asker asker_of(const struct exchange *x)
{
	return (struct asker){&x->request, &x->facts, x->target.query, odd_path_of(x)};
}

static inline __attribute__((always_inline)) void fill_identity(
	const struct exchange *x, const struct asker *by, struct identity_input *input)
{
	input->head = by->head;
	memcpy(input->address, by->facts->address, sizeof(input->address));
	input->host = by->facts->host;
	input->path = by->facts->key_path;
	input->odd_path = by->odd_path;
	input->query = by->query;
	input->method = by->facts->method;
	input->scheme = by->facts->is_https ? SLICE("https") : SLICE("http");
	input->tls = x->client ? by->facts->tls : NULL;
	input->route = x->route ? slice_of(x->route->name) : SLICE_NONE;
	input->now_s = gate_needs_time(x->use->site->gate)
			       ? worker_wall_ns(x->worker) / CLOCK_NS_PER_S
			       : 0;
	input->has_key = input->ambiguous = false;
	input->scratch = x->worker->route_scratch;
	input->matches = (struct match_results){0};
}

void turn_fill_identity(const struct exchange *x, struct identity_input *input)
{
	const struct asker by = asker_of(x);

	fill_identity(x, &by, input);
}

uint64_t exchange_hash_key(const struct exchange *x, const struct conf_key *key)
{
	struct throttle_seed seed = throttle_table_seed(x->worker->node->throttles);
	const struct asker by = asker_of(x);
	struct identity_input input;

	fill_identity(x, &by, &input);
	return identity_hash(key, &input, &seed).lo;
}

void turn_identify(struct exchange *x, enum gate_kind kind)
{
	const struct asker by = asker_of(x);
	struct identity_input input;

	fill_identity(x, &by, &input);
	gate_identify_as(x->use->site->gate, x->route, kind, &input, &x->gate->identity);
}

void turn_identify_message(struct exchange *x, const struct kept_request *handshake)
{
	struct http_head head;
	const struct asker by = {&head, &handshake->facts, handshake->query, SLICE_NONE};
	struct identity_input input;

	kept_request_head(handshake, &head);
	fill_identity(x, &by, &input);
	gate_identify_as(x->use->site->gate, x->route, GATE_MESSAGE, &input, &x->gate->identity);
}

/* It was woken: its deadline is now. */
static void look_again(struct delay_place *place)
{
	struct exchange *x = CONTAINER_OF(place, struct exchange, turn.place);
	uint64_t now_ms = worker_now_ms(x->worker);

	place->asks_twice = true;
	if (x->state == EXCHANGE_DELAYED)
		deadline_set(&x->turn.deadline, now_ms, now_ms);
	else
		delay_miss(place);
}

void turn_line_up(struct exchange *x)
{
	if (x->gate->verdict.outcome == GATE_DELAY)
		x->turn.in_line = delay_join(&x->turn.place, x->turn.in_line, x->worker,
			&x->gate->identity, &x->gate->verdict, look_again);
	else
		exchange_leave_line(x);
}

bool turn_was_passed(struct exchange *x, bool is_behind, uint64_t ahead[static GATE_LIMITS_MAX])
{
	if (!x->turn.in_line)
		return false;
	if (!is_behind)
		memset(ahead, 0, GATE_LIMITS_MAX * sizeof(*ahead));
	return delay_was_passed(&x->turn.place, &x->gate->identity, ahead);
}

void turn_judge(struct exchange *x)
{
	struct worker *worker = x->worker;
	uint64_t now_ns = worker_now_ns(worker);
	uint64_t waited_ns = x->times.judged_ns ? now_ns - x->times.judged_ns : 0;
	uint64_t ahead[GATE_LIMITS_MAX];
	bool may_be_behind = !x->times.judged_ns && !exchange_is_message(x);
	bool is_behind =
		may_be_behind && delay_ahead(node_delays(worker->node), &x->gate->identity, ahead);

	gate_judge(x->use->site->gate, x->route, &x->gate->identity, is_behind ? ahead : NULL,
		worker_throttle_ns(worker), waited_ns, &x->gate->verdict, &x->gate->receipt);
	turn_line_up(x);
	if (may_be_behind && turn_was_passed(x, is_behind, ahead)) {
		gate_judge(x->use->site->gate, x->route, &x->gate->identity, ahead,
			worker_throttle_ns(worker), waited_ns, &x->gate->verdict,
			&x->gate->receipt);
		turn_line_up(x);
	}
	if (exchange_is_message(x)) /* it is known whole */
		gate_hold_bytes(x->use->site->gate, &x->gate->receipt, x->tunnel.message_bytes,
			worker_throttle_ns(worker));
	if (!x->times.judged_ns)
		x->times.judged_ns = now_ns;
}

void turn_name_session(struct owner_use *use, char out[OWNER_NAME_BYTES])
{
	const struct exchange *x = CONTAINER_OF(use, struct exchange, owner.use);
	const struct asker by = asker_of(x);
	struct identity_input input;

	fill_identity(x, &by, &input);
	const struct throttle_key key = gate_shared_session(x->use->site->gate, x->route, &input);
	snprintf(out, OWNER_NAME_BYTES, "%016llx%016llx", (unsigned long long)key.hi,
		(unsigned long long)key.lo);
}

void turn_judge_late(struct exchange *x)
{
	exchange_leave_line(x);
	x->gate->judged_late = gate_begin(x->use->site->gate, x->route, &x->gate->identity,
		&x->gate->verdict, &x->gate->receipt);
	if (!x->gate->judged_late)
		x->times.judged_ns = worker_now_ns(x->worker);
}

bool turn_judge_early(struct exchange *x)
{
	if (!x->gate->judged_late)
		return x->gate->verdict.outcome == GATE_ADMIT;
	turn_judge(x);
	if (x->gate->verdict.outcome == GATE_ADMIT) {
		x->gate->judged_late = false;
		return true;
	}
	x->times.judged_ns = 0;
	turn_judge_late(x);
	return false;
}

/* ---- a charge of the moment when it leaves --------------------------------------------------- */

/* Had it anything? */
static bool give_back(struct exchange *x)
{
	static const struct gate_end unused = {.never_forwarded = true};

	if (gate_receipt_is_empty(&x->gate->receipt))
		return false;
	gate_finish(x->use->site->gate, x->route, &x->gate->receipt, &unused,
		worker_throttle_ns(x->worker));
	return true;
}

void turn_refund(struct exchange *x)
{
	if (give_back(x))
		delay_freed(node_delays(x->worker->node), &x->gate->identity);
}

/* And what those have that leave in one request with it. */
static bool give_all_back(struct exchange *x)
{
	bool had_any = give_back(x);

	for (struct exchange *rider = x->tunnel.riders; rider; rider = rider->next)
		had_any |= give_back(rider);
	return had_any;
}

/* Without a receipt it was charged nothing, or has no limits. */
static bool is_charged_at_turn(const struct exchange *x)
{
	return x->gate->receipt.throttle.count > 0 && !x->gate->receipt.authority &&
	       x->attempt.reach != REACH_LEFT && gate_judges_at_turn(&x->gate->identity);
}

void turn_give_back(struct exchange *x)
{
	if (!is_charged_at_turn(x))
		return;
	if (give_all_back(x))
		delay_freed(node_delays(x->worker->node), &x->gate->identity);
	x->gate->judged_late = true;
}

void turn_doubt(struct exchange *x)
{
	if (is_charged_at_turn(x))
		x->gate->judged_late = true;
}

void turn_judge_again(struct exchange *x)
{
	struct exchange *rider = x->tunnel.riders;

	x->gate->judged_late = false;
	bool had_any = give_all_back(x);
	turn_judge(x);
	if (had_any && x->gate->verdict.outcome != GATE_ADMIT)
		delay_freed(node_delays(x->worker->node), &x->gate->identity);
	for (; rider && x->gate->verdict.outcome == GATE_ADMIT; rider = rider->next) {
		turn_judge(rider);
		if (rider->gate->verdict.outcome != GATE_ADMIT)
			break;
	}
	if (rider)
		client_part(x->client, x, rider);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Delays a refused message whose route prefers that. False: it stays refused. */
static __attribute__((noinline)) bool wait_instead(struct exchange *x)
{
	const struct conf_websocket *conf = &x->route->websocket;
	struct gate_verdict *verdict = &x->gate->verdict;
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

bool turn_is_turned_away(struct exchange *x)
{
	switch (x->gate->verdict.outcome) {
	case GATE_ADMIT:
		return false;
	case GATE_DELAY:
		return false;
	case GATE_REFUSE:
		if (exchange_is_message(x) && wait_instead(x))
			return false;
		exchange_reply(x, 429, "limit", x->gate->verdict.retry_after_ms);
		return true;
	case GATE_AMBIGUOUS:
		exchange_reply(x, 400, "ambiguous key", HTTP_PROBLEM_NO_RETRY);
		return true;
	case GATE_UNDECIDED:
		exchange_reply(x, 400, "undecided match", HTTP_PROBLEM_NO_RETRY);
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
		exchange_reply(x, 503, "limits unavailable", x->gate->verdict.retry_after_ms);
		return true;
	}
	return true;
}
