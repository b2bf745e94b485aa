#include "fleet/batches.h"

#include <stdlib.h>

#include "base/container.h"
#include "fleet/question.h"
#include "site/site.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

/* A store that has not answered for so long is left, and looked for again. */
enum { SILENCE_MS = 1000 };

static const struct conf_fleet *conf_of(const struct fleet_worker *fleet)
{
	return &fleet->worker->use->site->conf->fleet;
}

static struct fleet_batch *batch_make(enum fleet_function function)
{
	struct fleet_batch *made = calloc(1, sizeof(*made));

	if (!made || function == FLEET_JUDGE)
		return made;
	made->parts = calloc(LEASE_PARTS_MOST, sizeof(*made->parts));
	if (!made->parts) {
		free(made);
		made = NULL;
	}
	return made;
}

static struct fleet_batch *batch_new(struct fleet_worker *fleet, enum fleet_function function)
{
	static const struct batch_function *const functions[] = {
		[FLEET_JUDGE] = &batch_judge, [FLEET_LEASE] = &batch_lease};
	struct fleet_batch *made = fleet->spare_batches[function];

	if (made)
		fleet->spare_batches[function] = made->next;
	else
		made = batch_make(function);
	if (!made)
		return NULL;
	made->function = function;
	made->part_count = 0;
	made->worker = fleet;
	made->next = NULL;
	made->first = NULL;
	made->end = &made->first;
	made->call.is_again = false;
	batch_begin(&made->batch, functions[function], fleet->prefix);
	return made;
}

/* Its questions are answered, and it is spare. */
static void finish(struct fleet_batch *batch, const char *bytes, size_t len)
{
	struct fleet_worker *fleet = batch->worker;

	fleet->was_paid = fleet->was_paid && bytes;
	fleet->calls->answered[batch->function](batch, bytes, len);
	batch->next = fleet->spare_batches[batch->function];
	fleet->spare_batches[batch->function] = batch;
}

uint64_t fleet_silence_ms(const struct fleet_worker *fleet)
{
	uint64_t timeout_ms = conf_of(fleet)->store_timeout_ms;

	return timeout_ms * 2 > SILENCE_MS ? timeout_ms * 2 : SILENCE_MS;
}

/* While something is in flight, the first of it has its time. */
static void watch_silence(struct fleet_worker *fleet)
{
	uint64_t now_ms = worker_now_ms(fleet->worker);

	if (fleet->in_flight)
		deadline_set(&fleet->silence, fleet->in_flight->sent_ms + fleet_silence_ms(fleet),
			now_ms);
	else
		deadline_clear(&fleet->silence);
}

static void on_silence(struct deadline *deadline)
{
	struct fleet_worker *fleet = CONTAINER_OF(deadline, struct fleet_worker, silence);

	store_link_drop(&fleet->store, "no answer in time");
}

static uint64_t now_us(const struct fleet_worker *fleet)
{
	return worker_throttle_ns(fleet->worker) / 1000;
}

uint64_t fleet_store_us(const struct fleet_worker *fleet)
{
	return now_us(fleet) + (uint64_t)fleet->store_ahead_us;
}

static void learn(struct fleet_worker *fleet, const char *bytes, size_t len)
{
	struct answer answer;

	if (!bytes || !answer_begin(&answer, bytes, len))
		return;
	fleet->store_ahead_us = (int64_t)(answer.now_us - now_us(fleet));
	fleet->calls->learn(fleet, &answer);
}

static void on_answer(struct store_call *call, const char *bytes, size_t len)
{
	struct fleet_batch *batch = CONTAINER_OF(call, struct fleet_batch, call);
	struct fleet_worker *fleet = batch->worker;

	if (batch->function == FLEET_JUDGE)
		learn(fleet, bytes, len);
	struct fleet_batch **at = &fleet->in_flight;
	while (*at != batch)
		at = &(*at)->next;
	*at = batch->next;
	if (fleet->in_flight_end == &batch->next)
		fleet->in_flight_end = at;
	watch_silence(fleet);
	finish(batch, bytes, len);
}

void batches_send(struct fleet_worker *fleet, enum fleet_function function)
{
	struct fleet_batch *batch = fleet->filling[function];

	fleet->filling[function] = NULL;
	batch->call.answered = on_answer;
	if (function == FLEET_JUDGE) {
		batch_know(&batch->batch, members_epoch(fleet->joining.members, fleet->store_id));
		batch_hold_as(&batch->batch, fleet->holds.holder,
			conf_of(fleet)->membership_lease_ms * 1000);
	}
	if (!batch_compose(&batch->batch, &batch->call.command, &batch->call.len) ||
		!store_link_send(&fleet->store, &batch->call)) {
		finish(batch, NULL, 0);
		return;
	}
	worker_count(fleet->worker, STATS_STORE_CALLS);
	batch->sent_ms = worker_now_ms(fleet->worker);
	*fleet->in_flight_end = batch;
	fleet->in_flight_end = &batch->next;
	watch_silence(fleet);
}

static bool has_room(const struct fleet_batch *batch, unsigned limits)
{
	return batch_has_room(&batch->batch, limits) &&
	       (!batch->parts || batch->part_count + limits <= LEASE_PARTS_MOST);
}

struct fleet_batch *fleet_filling(
	struct fleet_worker *fleet, enum fleet_function function, unsigned limits)
{
	if (fleet->store.state != STORE_READY)
		return NULL;
	struct fleet_batch **filling = &fleet->filling[function];
	if (*filling && !has_room(*filling, limits))
		batches_send(fleet, function);
	if (!*filling)
		*filling = batch_new(fleet, function);
	return *filling;
}

bool fleet_can_ask(const struct fleet_worker *fleet)
{
	if (fleet->store.state != STORE_READY || fleet->pending >= FLEET_PENDING_MOST)
		return false;
	return !fleet->in_flight || worker_now_ms(fleet->worker) - fleet->in_flight->sent_ms <=
					    conf_of(fleet)->store_timeout_ms;
}

void batches_init(struct fleet_worker *fleet, const struct batches_calls *calls)
{
	fleet->calls = calls;
	fleet->in_flight_end = &fleet->in_flight;
	deadline_init(&fleet->silence, fleet->worker->loop.base, on_silence);
}

void batches_end(struct fleet_worker *fleet)
{
	deadline_end(&fleet->silence);
}

void batches_drop(struct fleet_worker *fleet)
{
	for (int i = 0; i < FLEET_FUNCTIONS; i++) {
		struct fleet_batch *filling = fleet->filling[i];
		fleet->filling[i] = NULL;
		if (filling)
			finish(filling, NULL, 0);
	}
}

void batches_clear(struct fleet_worker *fleet)
{
	for (int i = 0; i < FLEET_FUNCTIONS; i++) {
		while (fleet->spare_batches[i]) {
			struct fleet_batch *batch = fleet->spare_batches[i];
			fleet->spare_batches[i] = batch->next;
			batch_free(&batch->batch);
			free(batch->parts);
			free(batch);
		}
	}
}
