#include "store/locks.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"

struct lock_call {
	struct store_call call;
	struct lock_call *next, **at; /* at: where it is pointed to from, while it is sent */
	struct locks *locks;
	enum lock_kind kind;
	unsigned part, count;
	struct lock_ask *asks[LOCKS_AT_ONCE]; /* NULL: cancelled */
	char *command;
};

static const struct lock_answer unknown = {.status = LOCK_UNKNOWN};

static void watch_silence(struct locks *locks)
{
	uint64_t oldest_ms = locks->sent ? store_link_oldest_of_all_ms(locks->store) : UINT64_MAX;

	if (oldest_ms == locks->watched_ms)
		return; /* its patience is once for a call, whatever is asked beside it */
	locks->watched_ms = oldest_ms;
	if (oldest_ms != UINT64_MAX)
		deadline_set(
			&locks->silence, oldest_ms + locks->silence_ms, loop_now_ms(locks->loop));
	else
		deadline_clear(&locks->silence);
	locks->silence.is_patient = true;
}

static void on_silence(struct deadline *deadline)
{
	struct locks *locks = CONTAINER_OF(deadline, struct locks, silence);

	store_link_drop_silent(locks->store, loop_now_ms(locks->loop) - locks->silence_ms);
	locks->watched_ms = UINT64_MAX;
	watch_silence(locks);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* `bytes`: NULL, or the answer. Each ask may be asked again from within its done, or freed. */
static void finish(struct lock_call *call, const char *bytes, size_t len)
{
	struct lock_reader reader = {bytes, bytes ? bytes + len : NULL};
	struct lock_answer answer = unknown;

	for (unsigned i = 0; i < call->count; i++) {
		struct lock_ask *ask = call->asks[i];
		if (reader.at && !lock_read(&reader, &answer)) {
			answer = unknown;
			reader.at = NULL;
		}
		call->asks[i] = NULL;
		if (ask)
			ask->done(ask, reader.at ? &answer : &unknown);
	}
	free(call->command);
	free(call);
}

static void on_answer(struct store_call *store_call, const char *bytes, size_t len)
{
	struct lock_call *call = CONTAINER_OF(store_call, struct lock_call, call);
	struct locks *locks = call->locks;

	*call->at = call->next;
	if (call->next)
		call->next->at = call->at;
	watch_silence(locks);
	finish(call, bytes, len);
}

/* ---- asks ------------------------------------------------------------------------------------ */

void locks_ask(struct locks *locks, struct lock_ask *ask)
{
	ask->asked_ms = loop_now_ms(locks->loop);
	ask->next = NULL;
	*locks->end = ask;
	locks->end = &ask->next;
}

static bool cancel_waiting(struct locks *locks, const struct lock_ask *ask)
{
	for (struct lock_ask **at = &locks->first; *at; at = &(*at)->next) {
		if (*at != ask)
			continue;
		*at = ask->next;
		if (!*at)
			locks->end = at;
		return true;
	}
	return false;
}

static bool cancel_in(struct lock_call *call, const struct lock_ask *ask)
{
	for (; call; call = call->next) {
		for (unsigned i = 0; i < call->count; i++) {
			if (call->asks[i] == ask) {
				call->asks[i] = NULL;
				return true;
			}
		}
	}
	return false;
}

void locks_cancel(struct locks *locks, struct lock_ask *ask)
{
	if (!cancel_waiting(locks, ask) && !cancel_in(locks->ready, ask))
		cancel_in(locks->sent, ask);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A call with room for one more lock of this kind and part. NULL without memory. */
static struct lock_call *call_for(struct locks *locks, enum lock_kind kind, unsigned part)
{
	struct lock_call *call = locks->filling[kind][part];

	if (call && call->count < LOCKS_AT_ONCE)
		return call;
	call = malloc(sizeof(*call));
	if (!call)
		return NULL;
	call->next = NULL;
	call->command = NULL;
	call->locks = locks;
	call->kind = kind;
	call->part = part;
	call->count = 0;
	*locks->ready_end = call;
	locks->ready_end = &call->next;
	locks->filling[kind][part] = call;
	return call;
}

/* Asks that were cancelled meanwhile. */
static void drop_cancelled(struct lock_call *call)
{
	unsigned left = 0;

	for (unsigned i = 0; i < call->count; i++) {
		if (call->asks[i])
			call->asks[left++] = call->asks[i];
	}
	call->count = left;
}

static void send_call(struct locks *locks, struct lock_call *call)
{
	uint16_t slot = slot_of_part(call->part);
	size_t len = 0;

	drop_cancelled(call);
	if (call->count > 0 && store_link_has(locks->store, slot))
		call->command =
			lock_compose(locks->prefix, call->part, call->asks, call->count, &len);
	call->call = store_call_of(call->command, len, slot, on_answer);
	if (!call->command || !store_link_send(locks->store, &call->call)) {
		finish(call, NULL, 0);
		return;
	}
	call->at = &locks->sent;
	call->next = locks->sent;
	if (call->next)
		call->next->at = &call->next;
	locks->sent = call;
}

/* What is asked from within a done waits until the next time. */
static void sort_asks(struct locks *locks)
{
	struct lock_ask *ask = locks->first;

	locks->first = NULL;
	locks->end = &locks->first;
	while (ask) {
		struct lock_ask *next = ask->next;
		unsigned part = locks->store->cluster ? lock_part_of(ask->name) : 0;
		struct lock_call *call = call_for(locks, ask->kind, part);
		if (!call) {
			locks_ask(locks, ask); /* later */
			loop_hurry(locks->loop);
		} else {
			call->asks[call->count++] = ask;
		}
		ask = next;
	}
}

bool locks_send(struct locks *locks)
{
	struct lock_call *call;

	if (!locks->first)
		return false;
	sort_asks(locks);
	while ((call = locks->ready)) {
		locks->ready = call->next;
		if (!locks->ready)
			locks->ready_end = &locks->ready;
		locks->filling[call->kind][call->part] = NULL;
		send_call(locks, call);
	}
	watch_silence(locks);
	return true;
}

/* ---- its life -------------------------------------------------------------------------------- */

void locks_init(struct locks *locks, struct loop *loop, struct store_link *store)
{
	memset(locks, 0, sizeof(*locks));
	locks->loop = loop;
	locks->store = store;
	locks->end = &locks->first;
	locks->ready_end = &locks->ready;
	deadline_init(&locks->silence, loop->base, on_silence);
}

void locks_end(struct locks *locks)
{
	deadline_end(&locks->silence);
	locks->first = NULL;
	locks->end = &locks->first;
}
