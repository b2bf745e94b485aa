#include "fleet/inquiry.h"

#include <stdlib.h>

#include "base/container.h"
#include "fleet/batches.h"
#include "fleet/fleet.h"
#include "store/integers.h"
#include "fleet/ladder.h"
#include "fleet/question.h"
#include "fleet/relaxed.h"
#include "fleet/split.h"
#include "fleet/verdict.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker.h"

bool inquiry_is_of_store(
	struct authority *fleet, const struct conf_limit *limit, uint32_t number, uint64_t now_ns)
{
	if (!way_for(limit)->reserve || limit->fleet_way == CONF_FLEET_RELAXED)
		return true;
	return limit->fleet_way == CONF_FLEET_SPLIT &&
	       shares_read(fleet_shares(fleet), number, limit->amount, now_ns).kind == SHARE_EXACT;
}

static enum fleet_function function_of(const struct conf_limit *limit)
{
	const struct way *way = way_for(limit);

	if (limit->fleet_way == CONF_FLEET_RELAXED)
		return INQUIRY_RELAXED;
	return way->reserve ? FLEET_JUDGE : way->function;
}

/* Is it asked about by this call? */
static bool asks(const struct inquiry_call *call, const struct inquiry_limit *limit)
{
	return limit->part == call->part && function_of(limit->limit) == call->function;
}

/* ---- the asker's thread ---------------------------------------------------------------------- */

static void on_done(struct message *message)
{
	struct inquiry *inquiry = CONTAINER_OF(message, struct inquiry, message);

	inquiry->done(inquiry);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void finish_call(struct inquiry *inquiry, bool is_answered)
{
	inquiry->is_answered = inquiry->is_answered && is_answered;
	if (--inquiry->under_way > 0)
		return;
	deadline_end(&inquiry->silence);
	inquiry->message.run = on_done;
	message_post(inquiry->asker, &inquiry->message);
}

static bool read_judged(struct inquiry_limit *limit, struct answer *answer)
{
	const struct rule *rule = &limit->rule;
	struct answer_limit found;
	bool admitted;

	if (!answer_verdict(answer, &rule, 1, &admitted, &found))
		return false;
	limit->outcome = verdict_outcome(&limit->rule, &found);
	return true;
}

/* It was asked whether anything is free: the store charges what it is asked about. */
static bool read_leased(struct inquiry_limit *limit, struct answer *answer)
{
	struct answer_lease leased;
	uint64_t cost = limit->cost > 0 ? limit->cost : 1;
	bool admitted;

	if (!answer_leases(answer, 1, &admitted, &leased))
		return false;
	struct answer_limit found = {.used = leased.used,
		.time_us = cost > limit->rule.quota ? -1 : leased.time_us,
		.fits = leased.used + cost <= limit->rule.quota};
	limit->outcome = verdict_outcome(&limit->rule, &found);
	return true;
}

static bool read_answer(struct inquiry_call *call, struct answer *answer)
{
	bool good = true;

	for (unsigned i = 0; good && i < call->inquiry->count; i++) {
		struct inquiry_limit *limit = &call->inquiry->limits[i];
		if (!asks(call, limit))
			continue;
		good = call->function == FLEET_LEASE ? read_leased(limit, answer)
						     : read_judged(limit, answer);
	}
	return good;
}

static void begin_batch(struct inquiry_call *call, const struct batch_function *function)
{
	struct fleet_worker *fleet = worker_fleet(call->inquiry->worker);

	batch_begin(&call->batch, function, fleet->prefix, call->part);
	batch_know(
		&call->batch, members_epoch(fleet->joining.members, fleet->store_id, call->part));
	batch_hold_as(&call->batch, fleet->holds.holder,
		site_part(fleet->worker)->use->site->conf->fleet.membership_lease_ms * 1000);
}

static bool send_call(struct inquiry_call *call,
	void (*answered)(struct store_call *call, const char *bytes, size_t len))
{
	struct fleet_worker *fleet = worker_fleet(call->inquiry->worker);
	const char *command;
	size_t len;

	if (!batch_compose(&call->batch, &command, &len))
		return false;
	call->call = store_call_of(command, len, slot_of_part(call->part), answered);
	return store_link_send(&fleet->store, &call->call);
}

static void on_forgotten(struct store_call *store_call, const char *bytes, size_t len)
{
	struct inquiry_call *call = CONTAINER_OF(store_call, struct inquiry_call, call);

	(void)len;
	finish_call(call->inquiry, bytes != NULL);
}

/* What was used comes back, from the oldest on; leases end later than all that was used. */
static bool give_leased_back(struct inquiry_call *call, const struct answer *said)
{
	const struct inquiry *inquiry = call->inquiry;

	begin_batch(call, &batch_lease);
	for (unsigned i = 0; i < inquiry->count; i++) {
		const struct inquiry_limit *limit = &inquiry->limits[i];
		if (!asks(call, limit))
			continue;
		struct batch_charge charge = {
			&limit->rule, limit->limit->name, limit->caller, limit->rule.quota};
		batch_give_lease(&call->batch, &charge, said->epoch, said->now_us);
	}
	return send_call(call, on_forgotten);
}

static void on_answer(struct store_call *store_call, const char *bytes, size_t len)
{
	struct inquiry_call *call = CONTAINER_OF(store_call, struct inquiry_call, call);
	struct answer answer;
	bool good = bytes && answer_begin(&answer, call->batch.function, bytes, len) &&
		    read_answer(call, &answer);

	if (good && call->inquiry->forgets && call->function == FLEET_LEASE &&
		give_leased_back(call, &answer))
		return;
	finish_call(
		call->inquiry, good && (!call->inquiry->forgets || call->function != FLEET_LEASE));
}

/* ---- what nodes have published --------------------------------------------------------------- */

static bool ask_sums(struct inquiry_call *call, uint64_t less,
	void (*answered)(struct store_call *call, const char *bytes, size_t len))
{
	const struct inquiry *inquiry = call->inquiry;
	struct fleet_worker *fleet = worker_fleet(inquiry->worker);
	struct relaxed_part parts[INQUIRY_MOST];
	unsigned count = 0;
	size_t len;

	for (unsigned i = 0; i < inquiry->count; i++) {
		const struct inquiry_limit *limit = &inquiry->limits[i];
		if (asks(call, limit))
			parts[count++] = (struct relaxed_part){
				limit->caller, limit->limit->name, &limit->rule, .less = less};
	}
	free(call->command);
	if (!relaxed_compose(parts, count, fleet->prefix, &call->command, &len))
		return false;
	call->call = store_call_of(call->command, len, slot_of_part(call->part), answered);
	return store_link_send(&fleet->store, &call->call);
}

static void on_sums(struct store_call *store_call, const char *bytes, size_t len)
{
	struct inquiry_call *call = CONTAINER_OF(store_call, struct inquiry_call, call);
	struct inquiry *inquiry = call->inquiry;
	struct integers numbers = {.wrong = true};

	if (bytes)
		integers_begin(&numbers, bytes, len);
	for (unsigned i = 0; i < inquiry->count && !numbers.wrong; i++) {
		struct inquiry_limit *limit = &inquiry->limits[i];
		if (!asks(call, limit))
			continue;
		uint64_t used = (uint64_t)integers_next(&numbers);
		uint64_t cost = limit->cost > 0 ? limit->cost : 1;
		struct answer_limit found = {.used = used,
			.time_us = integers_next(&numbers),
			.fits = used <= limit->rule.quota && cost <= limit->rule.quota - used};
		if (cost > limit->rule.quota)
			found.time_us = -1;
		limit->outcome = verdict_outcome(&limit->rule, &found);
	}
	if (inquiry->forgets && !numbers.wrong && ask_sums(call, RELAXED_ALL, on_forgotten))
		return;
	finish_call(inquiry, !numbers.wrong && !inquiry->forgets);
}

/* ---- the worker's thread --------------------------------------------------------------------- */

static bool describe(struct fleet_worker *fleet, struct inquiry_limit *limit)
{
	limit->rule = rule_of(limit->limit);
	rule_set_waits(&limit->rule,
		ladder_down(site_part(fleet->worker)->use->site->conf, limit->limit),
		fleet->parts[limit->part].knows_epoch);
	if (limit->rule.kind == RULE_CALENDAR)
		limit->rule.edges =
			period_edges(&fleet->periods, limit->limit, fleet_store_us(fleet));
	return limit->rule.kind != RULE_CALENDAR || limit->rule.edges;
}

static bool begin_sums(struct inquiry_call *call, struct fleet_worker *fleet)
{
	for (unsigned i = 0; i < call->inquiry->count; i++) {
		struct inquiry_limit *limit = &call->inquiry->limits[i];
		if (asks(call, limit) && !describe(fleet, limit))
			return false;
	}
	return ask_sums(call, 0, on_sums);
}

static void put_limit(struct inquiry_call *call, const struct inquiry_limit *limit)
{
	const struct batch_lease none = {.term_us = rule_term_us(&limit->rule)};
	struct batch_charge charge = {&limit->rule, limit->limit->name, limit->caller, limit->cost};

	if (call->function == FLEET_LEASE) {
		charge.cost = 0;
		batch_ask_lease(&call->batch, &charge, &none, 1);
		return;
	}
	batch_ask(&call->batch, &charge, 1, false);
	if (call->inquiry->forgets)
		batch_forget(&call->batch, &charge);
}

/* Those that this function judges. False: it can't be asked. */
static bool begin_call(struct inquiry_call *call, struct fleet_worker *fleet)
{
	static const struct batch_function *const functions[] = {
		[FLEET_JUDGE] = &batch_judge, [FLEET_LEASE] = &batch_lease};
	struct inquiry *inquiry = call->inquiry;

	if (call->function == INQUIRY_RELAXED)
		return begin_sums(call, fleet);
	begin_batch(call, functions[call->function]);
	for (unsigned i = 0; i < inquiry->count; i++) {
		struct inquiry_limit *limit = &inquiry->limits[i];
		if (!asks(call, limit))
			continue;
		if (!describe(fleet, limit))
			return false;
		put_limit(call, limit);
	}
	return send_call(call, on_answer);
}

/* Its calls fail; those that were sent again since have as long again. */
static void on_silence(struct deadline *deadline)
{
	struct inquiry *inquiry = CONTAINER_OF(deadline, struct inquiry, silence);
	struct fleet_worker *fleet = worker_fleet(inquiry->worker);
	uint64_t now_ms = worker_now_ms(fleet->worker), longest_ms = fleet_silence_ms(fleet);

	deadline_set(deadline, now_ms + longest_ms, now_ms);
	store_link_drop_silent(&fleet->store, now_ms - longest_ms);
}

/* A call for each function and part of the store. */
static void divide(struct inquiry *inquiry, const struct fleet_worker *fleet)
{
	inquiry->call_count = 0;
	for (unsigned i = 0; i < inquiry->count; i++) {
		struct inquiry_limit *limit = &inquiry->limits[i];
		unsigned n = 0;
		limit->part = fleet_part_of(fleet, limit->caller);
		while (n < inquiry->call_count && !asks(&inquiry->calls[n], limit))
			n++;
		if (n < inquiry->call_count)
			continue;
		struct inquiry_call *call = &inquiry->calls[inquiry->call_count++];
		call->inquiry = inquiry;
		call->function = function_of(limit->limit);
		call->part = limit->part;
	}
}

static void on_worker(struct message *message)
{
	struct inquiry *inquiry = CONTAINER_OF(message, struct inquiry, message);
	struct fleet_worker *fleet = worker_fleet(inquiry->worker);
	uint64_t now_ms = worker_now_ms(fleet->worker);

	deadline_init(&inquiry->silence, fleet->worker->loop.base, on_silence);
	deadline_set(&inquiry->silence, now_ms + fleet_silence_ms(fleet), now_ms);
	divide(inquiry, fleet);
	inquiry->is_answered = true;
	inquiry->under_way = 1; /* this function */
	for (unsigned i = 0; i < inquiry->call_count; i++) {
		inquiry->under_way++;
		if (fleet->store.state != STORE_READY || !begin_call(&inquiry->calls[i], fleet))
			finish_call(inquiry, false);
	}
	store_link_flush(&fleet->store);
	finish_call(inquiry, true);
}

void inquiry_begin(struct inquiry *inquiry, struct worker *worker, struct loop *asker)
{
	inquiry->worker = worker;
	inquiry->asker = asker;
	inquiry->message.run = on_worker;
	message_post(&worker->loop, &inquiry->message);
}

void inquiry_end(struct inquiry *inquiry)
{
	for (unsigned i = 0; i < INQUIRY_MOST; i++) {
		batch_free(&inquiry->calls[i].batch);
		free(inquiry->calls[i].command);
	}
}
