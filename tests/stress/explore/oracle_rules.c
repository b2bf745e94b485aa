/* What the oracle makes of a limit's events: may this be admitted, must it be? See oracle.h. */
#include "tests/stress/explore/oracle_rules.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)
/* How far a change of limits may be ahead of the clock. */
#define MOVE_AHEAD_NS UINT64_C(34000000)

/* What a version may know of an account: events in the order of their times. */
struct known {
	uint64_t at[ORACLE_EVENTS], cost[ORACLE_EVENTS];
	const struct event *event[ORACLE_EVENTS];
	unsigned count;
};

/* ---- limits ---- */

bool oracle_is_divided(const struct throttle_limit *l)
{
	if (l->kind != THROTTLE_RING || l->slots == THROTTLE_EXACT)
		return false;
	return l->slots == 0 ? l->quota > 20 : l->quota > l->slots;
}

static uint64_t precision_of(const struct throttle_limit *l)
{
	uint64_t ticks = 8192 + (l->window_ns + 2 * SECOND) / (1 << 16);

	if (oracle_is_divided(l))
		return ticks + l->window_ns / (l->slots == 0 ? 19 : l->slots) + 4096;
	return ticks;
}

uint64_t oracle_slack(const struct oracle *o, unsigned limit)
{
	uint64_t sum = 0;

	/* Each change of limits may round once more. */
	for (unsigned v = 1; v <= o->begun; v++)
		sum += precision_of(&o->rules[v][limit]) + (v > 1 ? MOVE_AHEAD_NS : 0);
	return sum;
}

static uint64_t increment_of(const struct throttle_limit *l)
{
	return (l->window_ns + l->quota - 1) / l->quota;
}

uint64_t oracle_burst_of(const struct throttle_limit *l)
{
	return l->burst > 0 ? l->burst : 1;
}

/* When version v was replaced, at the latest. */
static uint64_t moved_at(const struct oracle *o, unsigned v)
{
	return v < o->done ? o->moved_at[v] : o->now;
}

/* ---- what is known ---- */

static void insert(struct known *k, const struct event *e)
{
	unsigned i = k->count++;

	for (; i > 0 && k->at[i - 1] > e->at; i--) {
		k->at[i] = k->at[i - 1];
		k->cost[i] = k->cost[i - 1];
		k->event[i] = k->event[i - 1];
	}
	k->at[i] = e->at;
	k->cost[i] = e->cost;
	k->event[i] = e;
}

/* Keeps the newest `units`. */
static void keep_newest(struct known *k, uint64_t units)
{
	unsigned kept = 0;

	for (unsigned i = k->count; i > 0; i--) {
		if (k->cost[i - 1] > units)
			k->cost[i - 1] = units;
		units -= k->cost[i - 1];
	}
	for (unsigned i = 0; i < k->count; i++)
		if (k->cost[i] > 0) {
			k->at[kept] = k->at[i];
			k->cost[kept] = k->cost[i];
			k->event[kept++] = k->event[i];
		}
	k->count = kept;
}

/* What a throttle of this limit remembers when it is replaced at `now`. */
static void forget(struct known *k, const struct throttle_limit *l, uint64_t now)
{
	uint64_t drained = 0;

	if (l->kind == THROTTLE_GCRA) {
		for (unsigned i = 0; i < k->count; i++)
			drained = (drained > k->at[i] ? drained : k->at[i]) +
				  k->cost[i] * increment_of(l);
		now += MOVE_AHEAD_NS;
		keep_newest(k, drained > now ? (drained - now) / increment_of(l) : 0);
		return;
	}
	for (unsigned i = 0; i < k->count; i++)
		if (k->at[i] + l->window_ns <= now)
			k->cost[i] = 0;
	keep_newest(k, l->quota);
}

/* What the next one takes over of that: pacing no more than its burst. */
static void replace(struct known *k, const struct throttle_limit *last,
	const struct throttle_limit *next, uint64_t now)
{
	forget(k, last, now);
	if (next->kind == THROTTLE_GCRA)
		keep_newest(k, oracle_burst_of(next));
}

/* All that version v knows for sure, of those events that `is_wanted`. */
static void recall(const struct oracle *o, unsigned limit, const struct account *a, unsigned v,
	bool (*is_wanted)(const struct event *, const struct event *), const struct event *one,
	struct known *k)
{
	k->count = 0;
	for (unsigned i = 1; i <= v; i++) {
		for (unsigned n = 0; n < a->count; n++)
			/* As if by the first of the versions that it may have been judged by. */
			if (a->events[n].from == i && a->events[n].to <= v &&
				a->events[n].cost > 0 && is_wanted(&a->events[n], one))
				insert(k, &a->events[n]);
		if (i < v && memcmp(&o->rules[i][limit], &o->rules[i + 1][limit],
				     sizeof(o->rules[0][0])) != 0)
			replace(k, &o->rules[i][limit], &o->rules[i + 1][limit], moved_at(o, i));
	}
}

/* Debts only where there is not `one` to be judged. */
static bool is_sure(const struct event *e, const struct event *one)
{
	return e->is_sure && !(e->is_forced && one != NULL) && e->refund_called == ORACLE_NEVER;
}

/* ... when `one` was called. */
static bool was_sure(const struct event *e, const struct event *one)
{
	return e == one ||
	       (e->is_sure && e->returned < one->called && e->refund_called == ORACLE_NEVER);
}

/* ---- never more than the limit ---- */

static void check_windows(
	struct oracle *o, unsigned limit, const struct event *e, unsigned v, const struct known *k)
{
	const struct throttle_limit *l = &o->rules[v][limit];

	for (unsigned last = 0; last < k->count; last++) {
		uint64_t sum = 0;
		bool is_judged = false;

		if (k->at[last] < e->at || k->at[last] >= e->at + l->window_ns)
			continue;
		for (unsigned i = last + 1; i-- > 0 && k->at[i] + l->window_ns > k->at[last];) {
			sum += k->cost[i];
			is_judged = is_judged || k->event[i]->from == v;
		}
		for (unsigned i = last + 1; i < k->count && k->at[i] == k->at[last]; i++)
			sum += k->cost[i];
		if (is_judged && sum > l->quota)
			oracle_wrong(o, "%llu in a window, the limit is %llu",
				(unsigned long long)sum, (unsigned long long)l->quota);
	}
}

static void check_paced(
	struct oracle *o, unsigned limit, unsigned v, const struct known *k, const struct event *e)
{
	const struct throttle_limit *l = &o->rules[v][limit];
	uint64_t room = oracle_burst_of(l) * increment_of(l) + 1000 + oracle_burst_of(l) * 2;

	for (unsigned first = 0; first < k->count; first++) {
		uint64_t sum = 0, end = 0;
		bool is_judged = false;

		for (unsigned i = first; i < k->count; i++) {
			if (k->event[i]->at_most > end)
				end = k->event[i]->at_most;
			sum += k->cost[i] * (l->window_ns / l->quota);
			is_judged = is_judged || k->event[i]->from == v;
			if (k->event[i] == e || i + 1 == k->count) {
				if (is_judged && sum > room + (end - k->at[first]))
					oracle_wrong(o, "paced: %u charges within %llu ns",
						i - first + 1,
						(unsigned long long)(end - k->at[first]));
			}
		}
	}
}

static void check_in_flight(struct oracle *o, unsigned limit, const struct account *a, unsigned v)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->count; i++)
		if (is_sure(&a->events[i], NULL) && a->events[i].from == v)
			sum += a->events[i].cost;
	if (sum > o->rules[v][limit].quota)
		oracle_wrong(o, "%llu in flight, the limit is %llu", (unsigned long long)sum,
			(unsigned long long)o->rules[v][limit].quota);
}

void oracle_check_may(
	struct oracle *o, unsigned limit, const struct account *a, const struct event *e)
{
	static struct known k;

	for (unsigned v = e->to; v <= o->begun; v++) {
		const struct throttle_limit *l = &o->rules[v][limit];

		if (l->kind == THROTTLE_CONCURRENCY) {
			check_in_flight(o, limit, a, v);
			continue;
		}
		recall(o, limit, a, v, is_sure, e, &k);
		if (l->kind == THROTTLE_GCRA)
			check_paced(o, limit, v, &k, e);
		else
			check_windows(o, limit, e, v, &k);
	}
	if (e->from == e->to && o->rules[e->to][limit].kind == THROTTLE_RING) {
		const struct throttle_limit *l = &o->rules[e->to][limit];
		uint64_t sum = 0;

		/* Debts are not judged themselves, but what comes after them is. */
		recall(o, limit, a, e->to, was_sure, e, &k);
		for (unsigned i = 0; i < k.count; i++)
			if (k.at[i] <= e->at && k.at[i] + l->window_ns > e->at)
				sum += k.cost[i];
		if (sum > l->quota)
			oracle_wrong(o, "%llu with debts in a window, the limit is %llu",
				(unsigned long long)sum, (unsigned long long)l->quota);
	}
}

/* ---- nobody is refused without need ---- */

/* One of several that began again with newer limits may be there twice, for as long as it is in
 * the window: what was taken first is not found again to be given back. */
static bool is_perhaps_twice(const struct oracle *o, const struct event *e)
{
	return e->is_one_of_several &&
	       e->began != (e->returned == ORACLE_NEVER ? o->begun : e->ended);
}

static bool is_possible(const struct event *e, uint64_t since)
{
	return e->cost > 0 && (e->refund_returned == ORACLE_NEVER || e->refund_returned > since);
}

/* As late as it can have been recorded, the changes since it was made included. */
static uint64_t latest_of(const struct oracle *o, unsigned limit, const struct event *e, unsigned v)
{
	/* A divided ring that is interrupted in a refund counts it in the newest quantum. */
	uint64_t at = e->in_refund ? o->now : e->at_most;

	for (unsigned i = e->from; i < v; i++)
		if ((o->rules[i][limit].kind != THROTTLE_RING ||
			    o->rules[i + 1][limit].kind != THROTTLE_RING) &&
			at < moved_at(o, i) + MOVE_AHEAD_NS)
			at = moved_at(o, i) + MOVE_AHEAD_NS;
	return at;
}

/* Each change from pacing rounds up to a unit. */
static uint64_t roundings_of(
	const struct oracle *o, unsigned limit, const struct event *e, unsigned v)
{
	uint64_t n = 0;

	for (unsigned i = e->from; i < v; i++)
		n += o->rules[i][limit].kind == THROTTLE_GCRA &&
		     o->rules[i + 1][limit].kind != THROTTLE_CONCURRENCY;
	return n;
}

/* The most that may be in use at `now`, but for `own`. */
uint64_t oracle_most_in_use(const struct oracle *o, unsigned limit, const struct account *a,
	const struct event *own, uint64_t since, unsigned v, uint64_t now)
{
	const struct throttle_limit *l = &o->rules[v][limit];
	uint64_t sum = 0, slack = oracle_slack(o, limit);
	uint64_t drained = o->now + (o->begun > 1 ? MOVE_AHEAD_NS : 0);

	/* Paced: what is drained is never recorded as that before the newest time, which is not
	 * after the clock. A slower one waits for that. */
	for (unsigned i = 0; i < a->count; i++) {
		const struct event *e = &a->events[i];
		uint64_t at = latest_of(o, limit, e, v);
		uint64_t cost = (e != own && is_possible(e, since) ? e->cost : 0) +
				(is_perhaps_twice(o, e) ? e->cost : 0);

		if (cost == 0)
			continue;
		cost += roundings_of(o, limit, e, v);
		if (l->kind == THROTTLE_GCRA)
			drained = (drained > at ? drained : at) + cost * (increment_of(l) + 1);
		else if (l->kind == THROTTLE_CONCURRENCY || at + l->window_ns + slack > now)
			sum += cost;
	}
	if (l->kind == THROTTLE_GCRA && drained > now)
		sum = (drained - now + increment_of(l) - 1) / increment_of(l) + 1;
	return sum;
}

void oracle_check_must(struct oracle *o, unsigned limit, const struct account *a,
	const struct event *e, uint64_t now, const struct throttle_outcome *outcome)
{
	uint64_t wanted = e->cost > 0 ? e->cost : 1;
	unsigned v;

	if (o->is_shared || o->is_weak)
		return;
	for (v = e->from; v <= o->begun; v++) {
		const struct throttle_limit *l = &o->rules[v][limit];
		uint64_t quota = l->kind == THROTTLE_GCRA ? oracle_burst_of(l) : l->quota;

		if (wanted > quota ||
			oracle_most_in_use(o, limit, a, e, e->called, v, now) + wanted > quota)
			break;
	}
	if (v > o->begun)
		oracle_wrong(o, "refused for %llu ns, with at most %llu of %llu in use",
			(unsigned long long)outcome->retry_after_ns,
			(unsigned long long)oracle_most_in_use(
				o, limit, a, e, e->called, o->begun, now),
			(unsigned long long)outcome->quota);
	v = o->begun;
	if (e->from == v && outcome->retry_after_ns != THROTTLE_NEVER &&
		o->rules[v][limit].kind == THROTTLE_RING &&
		now + outcome->retry_after_ns >
			o->now + o->rules[v][limit].window_ns + 2 * oracle_slack(o, limit))
		oracle_wrong(o, "to come back after %llu ns, the window is %llu",
			(unsigned long long)outcome->retry_after_ns,
			(unsigned long long)o->rules[v][limit].window_ns);
}

/* ---- what the table says ---- */

void oracle_explained(
	struct oracle *o, unsigned limit, unsigned caller, const struct throttle_outcome *outcome)
{
	static struct known k;
	const struct account *a = &o->accounts[limit][caller];
	const struct throttle_limit *l = &o->rules[o->begun][limit];
	uint64_t used = outcome->quota - outcome->remaining, least = 0, most;

	most = oracle_most_in_use(o, limit, a, NULL, o->stamp, o->begun, o->now);
	if (l->kind == THROTTLE_RING) {
		recall(o, limit, a, o->begun, is_sure, NULL, &k);
		for (unsigned i = 0; i < k.count; i++)
			if (k.at[i] + l->window_ns > o->now)
				least += k.cost[i];
		least = least < l->quota ? least : l->quota;
	}
	if (used < least)
		oracle_wrong(o, "%llu are said to be in use, at least %llu are",
			(unsigned long long)used, (unsigned long long)least);
	if (used > most && !o->is_shared)
		oracle_wrong(o, "%llu are said to be in use, at most %llu are",
			(unsigned long long)used, (unsigned long long)most);
}
