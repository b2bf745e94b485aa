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

/* Batches that are kept for the next turns. */
enum { SPARE_MOST = 64 };

static const struct conf_fleet *conf_of(const struct fleet_worker *fleet)
{
	return &site_part(fleet->worker)->use->site->conf->fleet;
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

static struct fleet_batch *batch_new(
	struct fleet_worker *fleet, enum fleet_function function, unsigned part)
{
	static const struct batch_function *const functions[] = {
		[FLEET_JUDGE] = &batch_judge, [FLEET_LEASE] = &batch_lease};
	struct fleet_batch *made = fleet->spare_batches[function];

	if (made) {
		fleet->spare_batches[function] = made->next;
		fleet->spare_count--;
	} else {
		made = batch_make(function);
	}
	if (!made)
		return NULL;
	made->function = function;
	made->part_count = 0;
	made->worker = fleet;
	made->next = NULL;
	made->first = NULL;
	made->end = &made->first;
	batch_begin(&made->batch, functions[function], fleet->prefix, part);
	return made;
}

static void batch_end(struct fleet_batch *batch)
{
	batch_free(&batch->batch);
	free(batch->parts);
	free(batch);
}

/* Its questions are answered, and it is spare. */
static void finish(struct fleet_batch *batch, const char *bytes, size_t len)
{
	struct fleet_worker *fleet = batch->worker;

	fleet->was_paid = fleet->was_paid && bytes;
	fleet->calls->answered[batch->function](batch, bytes, len);
	if (fleet->spare_count >= SPARE_MOST) {
		batch_end(batch);
		return;
	}
	batch->next = fleet->spare_batches[batch->function];
	fleet->spare_batches[batch->function] = batch;
	fleet->spare_count++;
}

uint64_t fleet_silence_ms(const struct fleet_worker *fleet)
{
	uint64_t twice_ms = conf_of(fleet)->store_timeout_ms * 2;

	return twice_ms > SILENCE_MS ? twice_ms : SILENCE_MS;
}

/* While something is on its way, the oldest of it has its time. */
static void watch_silence(struct fleet_worker *fleet)
{
	uint64_t oldest_ms = store_link_oldest_of_all_ms(&fleet->store);

	if (oldest_ms != UINT64_MAX)
		deadline_set(&fleet->silence, oldest_ms + fleet_silence_ms(fleet),
			worker_now_ms(fleet->worker));
	else
		deadline_clear(&fleet->silence);
}

static void on_silence(struct deadline *deadline)
{
	struct fleet_worker *fleet = CONTAINER_OF(deadline, struct fleet_worker, silence);

	store_link_drop_silent(
		&fleet->store, worker_now_ms(fleet->worker) - fleet_silence_ms(fleet));
	watch_silence(fleet);
}

static uint64_t now_us(const struct fleet_worker *fleet)
{
	return worker_throttle_ns(fleet->worker) / 1000;
}

uint64_t fleet_store_us(const struct fleet_worker *fleet)
{
	return now_us(fleet) + (uint64_t)fleet->store_ahead_us;
}

static void learn(struct fleet_batch *batch, const char *bytes, size_t len)
{
	struct fleet_worker *fleet = batch->worker;
	struct answer answer;

	if (!bytes || !answer_begin(&answer, batch->batch.function, bytes, len))
		return;
	fleet->store_ahead_us = (int64_t)(answer.now_us - now_us(fleet));
	fleet->calls->learn(fleet, batch->batch.part, &answer);
}

static bool is_late(const struct fleet_worker *fleet, const struct store_call *call)
{
	return worker_now_ms(fleet->worker) - call->sent_ms >= conf_of(fleet)->store_timeout_ms;
}

static void on_answer(struct store_call *call, const char *bytes, size_t len)
{
	struct fleet_batch *batch = CONTAINER_OF(call, struct fleet_batch, call);
	struct fleet_worker *fleet = batch->worker;

	batch->is_late = is_late(fleet, call);
	if (bytes)
		fleet->calls->timed(fleet, batch->batch.part, batch->is_late);
	learn(batch, bytes, len);
	watch_silence(fleet);
	finish(batch, bytes, len);
}

/* Not to be filled any more. */
static void take_out(struct fleet_worker *fleet, struct fleet_batch *batch)
{
	struct filling *filling = &fleet->filling[batch->function];
	struct fleet_batch **at = &filling->first;

	while (*at != batch)
		at = &(*at)->next;
	*at = batch->next;
	filling->of[batch->batch.part] = NULL;
}

static void send_batch(struct fleet_worker *fleet, struct fleet_batch *batch)
{
	struct batch *words = &batch->batch;
	const char *command;
	size_t len;

	take_out(fleet, batch);
	batch_know(words, members_epoch(fleet->joining.members, fleet->store_id, words->part));
	batch_hold_as(words, fleet->holds.holder, conf_of(fleet)->membership_lease_ms * 1000);
	if (!batch_compose(words, &command, &len)) {
		finish(batch, NULL, 0);
		return;
	}
	batch->call = store_call_of(command, len, slot_of_part(words->part), on_answer);
	batch->call.is_lone = batch_is_empty(words);
	if (!store_link_send(&fleet->store, &batch->call)) {
		finish(batch, NULL, 0);
		return;
	}
	worker_count(fleet->worker, STATS_STORE_CALLS);
	watch_silence(fleet);
}

static struct fleet_batch *find_filled(const struct filling *filling)
{
	struct fleet_batch *batch = filling->first;

	while (batch && batch_is_empty(&batch->batch))
		batch = batch->next;
	return batch;
}

/* A call that fails at once may lead to another one, of its part: that is for the next round. */
bool batches_send(struct fleet_worker *fleet, enum fleet_function function)
{
	const struct filling *filling = &fleet->filling[function];
	bool has_work = false;

	for (unsigned left = 1 + SLOT_PARTS; left > 0; left--) {
		struct fleet_batch *batch = find_filled(filling);
		if (!batch)
			break;
		send_batch(fleet, batch);
		has_work = true;
	}
	return has_work;
}

static bool has_room(const struct fleet_batch *batch, unsigned limits)
{
	return batch_has_room(&batch->batch, limits) &&
	       (!batch->parts || batch->part_count + limits <= LEASE_PARTS_MOST);
}

static struct fleet_batch *filling_of(
	struct fleet_worker *fleet, enum fleet_function function, unsigned part, unsigned limits)
{
	struct filling *filling = &fleet->filling[function];
	struct fleet_batch *batch = filling->of[part];

	if (!store_link_has(&fleet->store, slot_of_part(part)))
		return NULL;
	if (batch && !has_room(batch, limits)) {
		send_batch(fleet, batch);
		batch = filling->of[part]; /* it failed at once, and what goes back is in another */
		if (batch && !has_room(batch, limits))
			return NULL;
	}
	if (batch)
		return batch;
	batch = batch_new(fleet, function, part);
	if (!batch)
		return NULL;
	batch->next = filling->first;
	filling->first = filling->of[part] = batch;
	return batch;
}

struct fleet_batch *fleet_filling(struct fleet_worker *fleet, enum fleet_function function,
	struct throttle_key caller, unsigned limits)
{
	return filling_of(fleet, function, fleet_part_of(fleet, caller), limits);
}

void batches_send_part(struct fleet_worker *fleet, enum fleet_function function, unsigned part)
{
	struct fleet_batch *batch = filling_of(fleet, function, part, 0);

	if (batch)
		send_batch(fleet, batch);
}

bool fleet_can_ask(const struct fleet_worker *fleet, struct throttle_key caller)
{
	uint16_t slot = slot_of_part(fleet_part_of(fleet, caller));

	if (!store_link_has(&fleet->store, slot) || fleet->pending >= FLEET_PENDING_MOST)
		return false;
	uint64_t oldest_ms = store_link_oldest_ms(&fleet->store, slot);
	return oldest_ms == UINT64_MAX ||
	       worker_now_ms(fleet->worker) <= oldest_ms + conf_of(fleet)->store_timeout_ms;
}

void batches_init(struct fleet_worker *fleet, const struct batches_calls *calls)
{
	fleet->calls = calls;
	deadline_init(&fleet->silence, fleet->worker->loop.base, on_silence);
}

void batches_end(struct fleet_worker *fleet)
{
	deadline_end(&fleet->silence);
}

void batches_drop(struct fleet_worker *fleet)
{
	for (int i = 0; i < FLEET_FUNCTIONS; i++) {
		while (fleet->filling[i].first) {
			struct fleet_batch *batch = fleet->filling[i].first;
			take_out(fleet, batch);
			finish(batch, NULL, 0);
		}
	}
}

void batches_clear(struct fleet_worker *fleet)
{
	for (int i = 0; i < FLEET_FUNCTIONS; i++) {
		while (fleet->spare_batches[i]) {
			struct fleet_batch *batch = fleet->spare_batches[i];
			fleet->spare_batches[i] = batch->next;
			batch_end(batch);
		}
	}
}
