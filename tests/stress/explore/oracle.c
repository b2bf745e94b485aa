/* What happens, and in which order: see oracle.h. */
#include "tests/stress/explore/oracle_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void oracle_wrong(struct oracle *o, const char *format, ...)
{
	va_list arguments;

	if (o->wrong[0] != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(o->wrong, sizeof(o->wrong), format, arguments);
	va_end(arguments);
}

void oracle_reset(struct oracle *o)
{
	o->begun = o->done = 0;
	o->stamp = 1;
	o->wrong[0] = '\0';
	for (unsigned l = 0; l < ORACLE_LIMITS; l++)
		for (unsigned c = 0; c < ORACLE_CALLERS; c++) {
			struct account *a = &o->accounts[l][c];

			a->count = a->resets = 0;
			a->reset_called = a->reset_returned = 0;
		}
}

void oracle_begin_version(struct oracle *o, const struct throttle_limit *rules)
{
	o->begun++;
	memcpy(o->rules[o->begun], rules, sizeof(o->rules[0]));
}

void oracle_end_version(struct oracle *o)
{
	/* Also those that a killed process was about to bring into force. */
	for (unsigned v = o->done; v < o->begun; v++)
		o->moved_at[v] = o->now;
	o->done = o->begun;
}

struct event *oracle_call(struct oracle *o, unsigned limit, unsigned caller, uint64_t cost,
	bool is_alone, uint64_t now_ns, unsigned process)
{
	struct account *a = &o->accounts[limit][caller];
	struct event *e = &a->events[a->count];

	if (a->count == ORACLE_EVENTS)
		return NULL;
	a->count++;
	*e = (struct event){
		.at = now_ns,
		.at_most = ORACLE_NEVER / 2,
		.cost = cost,
		.called = o->stamp++,
		.returned = ORACLE_NEVER,
		.refund_called = ORACLE_NEVER,
		.refund_returned = ORACLE_NEVER,
		.from = o->done,
		.began = o->done,
		.is_one_of_several = !is_alone,
		.to = ORACLE_VERSIONS,
		.process = process,
	};
	return e;
}

void oracle_admitted(struct oracle *o, unsigned limit, unsigned caller, struct event *e,
	uint64_t now_ns, const struct throttle_outcome *outcome)
{
	struct account *a = &o->accounts[limit][caller];
	e->returned = o->stamp++;
	e->to = o->begun;
	/* A reset that was under way may have forgotten it. */
	e->is_sure = a->resets == 0 && a->reset_returned < e->called;
	e->ended = o->begun;
	/* The quota tells which version it was, where they differ. */
	for (unsigned v = e->from; v <= e->to; v++) {
		const struct throttle_limit *l = &o->rules[v][limit];

		if (outcome->quota == (l->kind == THROTTLE_GCRA ? oracle_burst_of(l) : l->quota))
			continue;
		if (v == e->from && v < e->to)
			e->from++;
		else if (v == e->to && v > e->from)
			e->to--;
	}
	e->at = now_ns;
	e->at_most = o->now;
	if (o->rules[e->to][limit].kind == THROTTLE_RING &&
		o->rules[e->from][limit].kind == THROTTLE_RING) {
		if (outcome->at_ns > e->at)
			e->at = outcome->at_ns;
		e->at_most = e->at;
	}
	oracle_check_may(o, limit, a, e);
}

void oracle_refused(struct oracle *o, unsigned limit, unsigned caller, struct event *e,
	bool is_alone, uint64_t now_ns, const struct throttle_outcome *outcome)
{
	e->returned = e->refund_called = o->stamp++;
	e->to = e->ended = o->begun;
	if (outcome != NULL)
		oracle_check_must(o, limit, &o->accounts[limit][caller], e, now_ns, outcome);
	/* One of several may have been taken and given back, when another limit refused. */
	if (is_alone)
		e->refund_returned = o->stamp++;
	else
		oracle_refunded(o, limit, e, 0);
}

void oracle_forced(
	struct oracle *o, unsigned limit, unsigned caller, struct event *e, uint64_t now_ns)
{
	const struct account *a = &o->accounts[limit][caller];

	e->returned = o->stamp++;
	e->to = o->begun;
	e->is_sure = e->is_forced = true;
	/* Of debts a ring knows no more than its slots hold, of which a refund then frees one. */
	if (oracle_most_in_use(o, limit, a, e, e->called, o->begun, o->now) + e->cost >
		o->rules[o->begun][limit].quota)
		e->is_sure = false;
	e->at = now_ns;
	e->at_most = o->now;
}

struct event *oracle_refund(
	struct oracle *o, unsigned limit, unsigned caller, struct event *e, uint64_t cost)
{
	struct account *a = &o->accounts[limit][caller];
	struct event *part = e;

	if (cost < e->cost && a->count < ORACLE_EVENTS) {
		part = &a->events[a->count++];
		*part = *e;
		part->cost = cost;
		e->cost -= cost;
	}
	part->refund_called = o->stamp++;
	part->in_refund = true;
	/* See oracle_forced. */
	for (unsigned i = 0; i < a->count; i++)
		if (a->events[i].is_forced && a->events[i].refund_called == ORACLE_NEVER)
			a->events[i].refund_called = o->stamp++;
	return part;
}

/* Was anything else called between the call of its refund and now, or is it still? */
static bool is_crossed(const struct oracle *o, unsigned limit, const struct event *refunded)
{
	for (unsigned c = 0; c < ORACLE_CALLERS; c++)
		for (unsigned i = 0; i < o->accounts[limit][c].count; i++) {
			const struct event *e = &o->accounts[limit][c].events[i];

			if (e->returned > refunded->refund_called ||
				(e->refund_called != ORACLE_NEVER && e != refunded &&
					e->refund_returned > refunded->refund_called))
				return true;
		}
	return false;
}

void oracle_refunded(struct oracle *o, unsigned limit, struct event *e, uint64_t now_ns)
{
	const struct throttle_limit *l = &o->rules[o->begun][limit];

	e->in_refund = false;
	/* Of what is paced, only what hasn't drained can be given back. */
	if (l->kind == THROTTLE_GCRA)
		return;
	/* A divided ring may have closed a quantum meanwhile, and counts it in that. */
	if (oracle_is_divided(l) && is_crossed(o, limit, e)) {
		e->at_most = o->now;
		return;
	}
	/* What has expired is left as it is, also if for a slower clock it hasn't. */
	if (l->kind == THROTTLE_RING && now_ns >= e->at + l->window_ns)
		return;
	/* After a change of limits its time may have been rounded: then it may not be found. */
	if (e->from == o->begun || l->kind == THROTTLE_CONCURRENCY)
		e->refund_returned = o->stamp++;
}

void oracle_reset_called(struct oracle *o, unsigned limit, unsigned caller)
{
	struct account *a = &o->accounts[limit][caller];

	a->resets++;
	a->reset_called = o->stamp++;
	for (unsigned i = 0; i < a->count; i++)
		if (a->events[i].refund_called == ORACLE_NEVER)
			a->events[i].refund_called = a->reset_called;
}

void oracle_reset_returned(struct oracle *o, unsigned limit, unsigned caller)
{
	struct account *a = &o->accounts[limit][caller];

	/* With weak memory its thread may not have seen them. */
	for (unsigned i = 0; !o->is_weak && i < a->count; i++)
		if (a->events[i].returned < a->reset_called &&
			a->events[i].refund_returned == ORACLE_NEVER)
			a->events[i].refund_returned = o->stamp;
	a->resets--;
	a->reset_returned = o->stamp++;
}

void oracle_process_killed(struct oracle *o, unsigned process)
{
	for (unsigned l = 0; l < ORACLE_LIMITS; l++)
		for (unsigned c = 0; c < ORACLE_CALLERS; c++)
			for (unsigned i = 0; i < o->accounts[l][c].count; i++) {
				struct event *e = &o->accounts[l][c].events[i];

				if (e->process == process && e->refund_called == ORACLE_NEVER &&
					o->rules[o->begun][l].kind == THROTTLE_CONCURRENCY)
					e->refund_called = o->stamp;
			}
	o->stamp++;
}

void oracle_process_ended(struct oracle *o, unsigned process)
{
	for (unsigned l = 0; l < ORACLE_LIMITS; l++)
		for (unsigned c = 0; c < ORACLE_CALLERS; c++)
			for (unsigned i = 0; i < o->accounts[l][c].count; i++) {
				struct event *e = &o->accounts[l][c].events[i];

				if (e->process != process)
					continue;
				/* In the middle of a refund: perhaps not of the account any more
				 * that it was counted in. */
				if (e->in_refund && e->at_most < o->now)
					e->at_most = o->now;
				e->in_refund = false;
				if (e->returned == ORACLE_NEVER) {
					e->at_most = o->now;
					e->to = o->begun;
				}
				if (o->rules[o->begun][l].kind == THROTTLE_CONCURRENCY) {
					e->refund_called = o->stamp;
					e->refund_returned = o->stamp;
				}
			}
	o->stamp++;
}
