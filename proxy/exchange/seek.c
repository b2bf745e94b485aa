#include "exchange/seek.h"

#include <assert.h>

#include "base/container.h"
#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "ownership/owner_marks.h"
#include "ownership/owner_nodes.h"
#include "exchange/reply.h"
#include "exchange/turn_limits.h"
#include "http/problem.h"
#include "upstream/server_connection.h"

/* Interval at which a node that failed is tried again and the store is asked for the owner. */
#define LOOK_MS 200

/* Retry-After of the requests that are not served. */
#define RETRY_MS 1000

static struct owners *owners_of(const struct exchange *x)
{
	return node_owners(x->worker->node);
}

static struct exchange *exchange_of(struct owner_use *use)
{
	return CONTAINER_OF(use, struct exchange, owner.use);
}

bool seek_is_lost(const struct exchange *x)
{
	return x->owner.progress == SEEK_LOST || x->owner.progress == SEEK_LOST_DECIDED;
}

/* One that was forwarded is for what this node owns already, or for nobody. */
static enum owner_belief belief_of(const struct exchange *x)
{
	return hop_is_from_node(x->client) ? OWNER_ASK_OWN : OWNER_BELIEVE;
}

/* ---- waiting --------------------------------------------------------------------------------- */

uint64_t seek_queue_timeout_ms(const struct exchange *x)
{
	uint64_t timeout_ms = x->route->sessions.queue_timeout_ms;

	/* One that was sent, and is to be sent again, has waited for something else. */
	if (!x->owner.use.session || exchange_is_message(x) || x->attempt.reach != REACH_NONE)
		return timeout_ms;
	return x->owner.waited_ms < timeout_ms ? timeout_ms - x->owner.waited_ms : 0;
}

/* The wait at the node that forwards it is part of the same wait. */
static uint64_t waited_before_ms(const struct exchange *x)
{
	uint64_t timeout_ms = x->route->sessions.queue_timeout_ms;

	if (!hop_is_from_node(x->client))
		return 0;
	return x->client->hop->waited_ms < timeout_ms ? x->client->hop->waited_ms : timeout_ms;
}

/* It waits no longer than it would for its turn, which is part of the same wait, as is that at a
 * node which says that it is not the owner. What a node has failed may have been served there. */
static uint64_t wait_ends_ms(const struct exchange *x, uint64_t now_ms)
{
	if (seek_is_lost(x))
		return now_ms + x->route->sessions.queue_timeout_ms;
	if (x->owner.progress == SEEK_NEW)
		return now_ms + x->route->sessions.queue_timeout_ms - x->owner.waited_ms;
	return x->turn.ticket.entered_ns / CLOCK_NS_PER_MS + seek_queue_timeout_ms(x);
}

static void wait_at_most(struct exchange *x, uint64_t wait_ms)
{
	uint64_t now_ms = worker_now_ms(x->worker);

	if (x->owner.wait_ends_ms == 0)
		x->owner.wait_ends_ms = wait_ends_ms(x, now_ms);
	exchange_enter(x, EXCHANGE_SEEKING);
	uint64_t at_ms = wait_ms < UINT64_MAX - now_ms ? now_ms + wait_ms : UINT64_MAX;
	x->owner.steps->wait_until(
		x, at_ms < x->owner.wait_ends_ms ? at_ms : x->owner.wait_ends_ms);
}

static void wait_for_store(struct exchange *x)
{
	wait_at_most(x, UINT64_MAX);
}

static void answer(struct exchange *x, unsigned status, const char *why, uint64_t retry_after_ms)
{
	x->owner.progress = SEEK_FINAL;
	exchange_reply(x, status, why, retry_after_ms);
}

static void answer_unknown(struct exchange *x)
{
	if (hop_is_from_node(x->client))
		hop_refuse(x, "unknown");
	else if (seek_is_lost(x))
		answer(x, 502, "the session's owner was lost", HTTP_PROBLEM_NO_RETRY);
	else
		answer(x, 503, "the session's owner is not known", RETRY_MS);
}

/* Here, under an ownership that is over. What has begun to leave is cut off, also what our system
 * still has of it (parting.h). */
static void answer_over(struct exchange *x)
{
	if (x->attempt.request_started)
		answer(x, 502, "session over", HTTP_PROBLEM_NO_RETRY);
	else
		answer(x, 503, "session over", RETRY_MS);
}

/* ---- where it goes on ------------------------------------------------------------------------ */

/* From here on it is forwarded to the node that its use names. */
static void follow_node(struct exchange *x)
{
	owner_follow(&x->owner.use);
	if (x->owner.use.node)
		x->upstream = x->owner.use.node->upstream;
	x->gate->identity.authority = NULL; /* that node asks it */
}

static void begin_elsewhere(struct exchange *x)
{
	if (hop_is_from_node(x->client)) {
		hop_refuse(x, "elsewhere");
		return;
	}
	if (x->route->sessions.refuses_elsewhere) {
		answer(x, 409, "the session is another node's", x->route->sessions.owner_idle_ms);
		return;
	}
	follow_node(x);
	if (x->owner.use.node)
		x->owner.steps->enter(x);
	else
		answer_unknown(x);
}

static void begin_here(struct exchange *x)
{
	const struct hop *hop = x->client->hop;

	owner_follow(&x->owner.use);
	if (hop && hop->fence != x->owner.use.fence)
		hop_refuse(x, "elsewhere"); /* it was for an ownership that is over */
	else if (hop && !owner_take_mark(owners_of(x), &x->owner.use, hop->instance, hop->mark))
		hop_refuse(x, "stale");
	else
		x->owner.steps->begin_here(x);
}

/* Its wait continues with that for its turn. */
static void note_wait(struct exchange *x)
{
	uint64_t left_ms, now_ms = worker_now_ms(x->worker);

	if (x->owner.wait_ends_ms == 0)
		return;
	left_ms = x->owner.wait_ends_ms > now_ms ? x->owner.wait_ends_ms - now_ms : 0;
	x->owner.waited_ms = x->route->sessions.queue_timeout_ms - left_ms;
	x->owner.wait_ends_ms = 0;
}

static void begin(struct exchange *x, enum owner_sight sight)
{
	x->owner.progress = sight == OWNER_PENDING ? SEEK_NEW : SEEK_BEGUN;
	x->owner.begun_ns = worker_now_ns(x->worker);
	if (sight != OWNER_PENDING)
		note_wait(x);
	switch (sight) {
	case OWNER_HERE:
		begin_here(x);
		break;
	case OWNER_ELSEWHERE:
		begin_elsewhere(x);
		break;
	case OWNER_PENDING:
		wait_for_store(x);
		break;
	case OWNER_UNKNOWN:
		answer_unknown(x);
		break;
	}
}

/* In its turn, and its session has become this node's: its place in the order stays its own. */
static void take_over(struct exchange *x)
{
	struct upstream *upstream = x->use->site->upstreams[x->route->upstream->index];

	if (x->owner.wait_ends_ms == 0)
		x->owner.wait_ends_ms = wait_ends_ms(x, worker_now_ms(x->worker));
	note_wait(x);
	x->owner.steps->yield_place(x);
	queue_reroute(x->worker->node->queue, &x->turn.ticket, upstream->state->run_queue);
	x->upstream = upstream;
	owner_follow(&x->owner.use);
	x->owner.steps->judge_here(x);
}

/* At its turn. True: it is forwarded. */
static bool go_on(struct exchange *x, enum owner_sight sight)
{
	switch (sight) {
	case OWNER_PENDING:
		wait_for_store(x);
		return false;
	case OWNER_HERE:
		if (x->owner.use.node) {
			take_over(x);
			return false;
		}
		if (owner_is_same(owners_of(x), &x->owner.use))
			return true;
		answer(x, 503, "session over", RETRY_MS);
		return false;
	case OWNER_ELSEWHERE:
		if (!x->owner.use.node) {
			answer(x, 503, "session over", RETRY_MS);
			return false;
		}
		follow_node(x);
		return true;
	case OWNER_UNKNOWN:
		if (x->owner.use.node)
			wait_at_most(x, LOOK_MS);
		else
			answer_unknown(x);
		return false;
	}
	return false;
}

/* Some of it has left for a node that has failed it. */
static void decide_lost(struct exchange *x, enum owner_sight sight)
{
	if (sight == OWNER_PENDING) {
		wait_for_store(x);
	} else if (sight == OWNER_UNKNOWN) {
		wait_at_most(x, LOOK_MS);
	} else if (!owner_is_same(owners_of(x), &x->owner.use)) {
		answer(x, 502, "the session's owner was lost", HTTP_PROBLEM_NO_RETRY);
	} else {
		x->owner.progress = SEEK_LOST_DECIDED; /* does it live on? */
		x->owner.steps->forward(x);
	}
}

static void decide(struct exchange *x, enum owner_sight sight)
{
	if (x->owner.progress == SEEK_NEW) {
		begin(x, sight);
	} else if (seek_is_lost(x)) {
		decide_lost(x, sight);
	} else if (go_on(x, sight)) {
		x->owner.progress = SEEK_DECIDED;
		x->owner.steps->forward(x);
	}
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_answered(struct owner_use *use, enum owner_sight sight)
{
	struct exchange *x = exchange_of(use);
	struct client *client = x->client;

	assert(x->state == EXCHANGE_SEEKING && client);
	deadline_clear(&x->turn.deadline);
	decide(x, sight);
	client_advance(client);
}

/* Has its server all of it? */
static bool has_arrived(const struct exchange *x)
{
	return exchange_has_sent(x) && !(x->connection && server_has_untaken(x->connection));
}

/* Its session has another owner than when it continued. */
static void on_changed(struct owner_use *use)
{
	struct exchange *x = exchange_of(use);
	struct client *client = x->client;

	if (!client) {
		/* Its answer was read on for the order's sake alone, and may never come. Here its
		 * server still bounds it, once it has it. */
		if (use->node || !has_arrived(x))
			exchange_end(x);
		return;
	}
	if (x->state == EXCHANGE_SEEKING && !use->wait && x->owner.progress != SEEK_NEW)
		seek_expire(x);
	else if (x->state == EXCHANGE_FORWARDING && use->node && x->attempt.request_started)
		answer(x, 502, "the session's owner was lost", HTTP_PROBLEM_NO_RETRY);
	else if ((x->state == EXCHANGE_FORWARDING || x->state == EXCHANGE_RELAYING) && !use->node &&
		 !has_arrived(x))
		answer_over(x);
	client_advance(client);
}

/* The lease is over, and from now on another node may take the session. */
static void on_lapsed(struct owner_use *use)
{
	struct exchange *x = exchange_of(use);
	struct client *client = x->client;

	if (!x->connection || !server_has_untaken(x->connection))
		return;
	if (!client) {
		exchange_end(x);
		return;
	}
	answer_over(x);
	client_advance(client);
}

/* A stream of events continues until its client leaves, and what comes next may wait behind it. */
static void on_moves(struct owner_use *use)
{
	struct exchange *x = exchange_of(use);

	if (x->attempt.endless)
		exchange_abort(x, "session moves");
	else if (!owner_is_valid(owners_of(x), use))
		on_lapsed(use);
}

/* ---- failures of the other node -------------------------------------------------------------- */

/* As it was when its turn came. */
static void reset(struct exchange *x)
{
	exchange_drop_connection(x);
	x->attempt.search = SEARCH_FIRST;
	x->attempt.tried = x->attempt.tries = 0;
	x->attempt.request_started = false;
	exchange_drop_held_interim(x);
	x->times.first_byte_ns = 0;
	x->turn.ticket.failed = false;
}

/* The answer would have this status. False: it is to be answered. */
static bool take_failure(struct exchange *x, unsigned status)
{
	bool was_tried = x->state == EXCHANGE_CONNECTING || x->state == EXCHANGE_FORWARDING;

	if (x->owner.progress == SEEK_FINAL || !x->client || !was_tried || status < 502)
		return false;
	if (x->attempt.request_started) {
		if (!seek_is_lost(x))
			x->owner.wait_ends_ms = 0;
		x->owner.progress = SEEK_LOST;
		owner_raise_mark(owners_of(x), &x->owner.use);
	}
	reset(x);
	wait_at_most(x, LOOK_MS);
	return true;
}

/* The first time it is no wonder: the owner has given the session up meanwhile. */
void seek_refused(struct exchange *x)
{
	bool is_first = x->owner.refusals == 0;

	if (x->framing.body != HTTP_BODY_NONE && !x->memory.body) {
		answer(x, 503, "the session has moved", RETRY_MS);
		return;
	}
	reset(x);
	/* The owner did nothing with it: it has gone nowhere, and its limits are judged at this
	 * node. */
	x->attempt.reach = REACH_NONE;
	wait_at_most(x, LOOK_MS);
	x->owner.refusals++;
	if (is_first)
		decide(x, owner_look(owners_of(x), &x->owner.use, OWNER_ASK));
}

/* ---- its way --------------------------------------------------------------------------------- */

void seek_begin(struct exchange *x, const struct seek_steps *steps)
{
	struct owner_use *use = &x->owner.use;

	gate_begin(x->use->site->gate, x->route, &x->gate->identity, &x->gate->verdict,
		&x->gate->receipt);
	if (turn_is_turned_away(x))
		return;
	const struct session_key key = {{x->gate->verdict.session.hi, x->gate->verdict.session.lo}};
	x->owner.wait_ends_ms = 0;
	x->owner.waited_ms = waited_before_ms(x);
	x->owner.progress = SEEK_NEW;
	x->owner.refusals = 0;
	x->owner.steps = steps;
	x->owner.take_failure = take_failure;
	use->answered = on_answered;
	use->changed = on_changed;
	use->moves = on_moves;
	use->lapsed = on_lapsed;
	enum owner_begun begun =
		owners_of(x) ? owner_begin(owners_of(x), x->worker, use, key,
				       x->route->sessions.owner_idle_ms, turn_name_session)
			     : OWNER_NO_MEMORY;
	if (begun == OWNER_BEGUN)
		begin(x, owner_look(owners_of(x), use, belief_of(x)));
	else
		exchange_reply(
			x, 503, begun == OWNER_FULL ? "too many sessions" : "no memory", RETRY_MS);
}

bool seek_at_turn(struct exchange *x)
{
	if (x->owner.progress == SEEK_DECIDED || x->owner.progress == SEEK_LOST_DECIDED) {
		x->owner.progress = seek_is_lost(x) ? SEEK_LOST : SEEK_BEGUN;
		return true;
	}
	/* As nearly all: owned as it was when it came. What has come in this turn of the loop was
	 * looked up in it, and seek_may_send looks once more. */
	if (x->owner.begun_ns == worker_now_ns(x->worker) ||
		(!x->owner.use.node && owner_is_valid(owners_of(x), &x->owner.use)))
		return true;
	return go_on(x, owner_look(owners_of(x), &x->owner.use, belief_of(x)));
}

/* The session had this owner when the connection was sought, and has another one, of which it was
 * not told: then it was nowhere yet. That node may stand still, and never answer. */
static bool is_late_for_node(struct exchange *x)
{
	if (x->attempt.request_started || owner_is_same(owners_of(x), &x->owner.use))
		return false;
	if (!x->body)
		x->up = (struct pump){0};
	reset(x);
	wait_at_most(x, 0);
	return true;
}

bool seek_may_send(struct exchange *x)
{
	if (x->owner.use.node)
		return !is_late_for_node(x);
	if (exchange_has_sent(x) || owner_is_valid(owners_of(x), &x->owner.use))
		return true;
	answer_over(x);
	return false;
}

bool seek_is_connected(struct exchange *x)
{
	if (!seek_is_lost(x))
		return true;
	answer(x, 502, "the session's owner was cut off", HTTP_PROBLEM_NO_RETRY);
	return false;
}

void seek_expire(struct exchange *x)
{
	if (x->owner.use.wait || worker_now_ms(x->worker) >= x->owner.wait_ends_ms)
		answer_unknown(x);
	else
		decide(x, owner_look(owners_of(x), &x->owner.use, OWNER_ASK));
}
