/* run_queue: creation, configuration and counters of an upstream's run queue. See run_queue.h; the
 * turns themselves are in line.c. */
#include "queue/run_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "queue/internal.h"

#define DEFAULT_ADAPTIVE_MIN     4
#define DEFAULT_ADAPTIVE_MAX     1000
#define DEFAULT_SHED_INTERVAL_MS 100

/* Lock held, or not yet shared. */
static void take_config(struct run_queue *run_queue, const struct run_queue_config *config)
{
	bool was_adaptive = run_queue->config.adaptive;
	struct run_queue_config *own = &run_queue->config;

	*own = *config;
	if (own->quantum < RUN_QUEUE_MIN_QUANTUM)
		own->quantum = RUN_QUEUE_DEFAULT_QUANTUM;
	if (own->quantum > RUN_QUEUE_MAX_QUANTUM)
		own->quantum = RUN_QUEUE_MAX_QUANTUM;
	if (own->adaptive_min == 0)
		own->adaptive_min = DEFAULT_ADAPTIVE_MIN;
	if (own->adaptive_max == 0)
		own->adaptive_max = DEFAULT_ADAPTIVE_MAX;
	if (own->shed_interval_ms == 0)
		own->shed_interval_ms = DEFAULT_SHED_INTERVAL_MS;

	if (own->adaptive) {
		uint32_t start = own->max_in_flight != 0 ? own->max_in_flight : own->adaptive_min;
		/* A reload keeps what was learnt. */
		if (was_adaptive)
			start = run_queue->limit;
		adapt_init(&run_queue->adapt, start, own->adaptive_min, own->adaptive_max);
		run_queue->limit = adapt_limit(&run_queue->adapt);
	} else {
		run_queue->limit = own->max_in_flight != 0 ? own->max_in_flight : UINT32_MAX;
	}
	run_queue->pace_until_ns = 0;
	run_queue->capacity = UINT32_MAX;
	run_queue->capacity_until_ns = own->capacity != NULL ? 0 : QUEUE_NEVER;
	/* Read by every ticket without a lock: one that sees an old value goes by the old
	 * configuration, which is as good. */
	atomic_store_explicit(&run_queue->has_pace, own->pace != NULL, memory_order_relaxed);
	atomic_store_explicit(&run_queue->bounded,
		own->adaptive || own->max_in_flight != 0 || own->pace != NULL || own->takes_slots ||
			own->capacity != NULL,
		memory_order_relaxed);
}

struct run_queue *run_queue_create(struct queue *queue, const struct run_queue_config *config)
{
	struct run_queue *run_queue = aligned_alloc(64, sizeof(*run_queue));

	if (run_queue == NULL)
		return NULL;
	memset(run_queue, 0, sizeof(*run_queue));
	if (pthread_mutex_init(&run_queue->lock, NULL) != 0) {
		free(run_queue);
		return NULL;
	}
	run_queue->queue = queue;
	atomic_init(&run_queue->references, 1);
	atomic_init(&run_queue->deadline_ns, QUEUE_NEVER);
	take_config(run_queue, config);

	pthread_mutex_lock(&queue->registry_mutex);
	run_queue->registry_next = queue->registry;
	queue->registry = run_queue;
	pthread_mutex_unlock(&queue->registry_mutex);
	return run_queue;
}

void run_queue_configure(
	struct run_queue *run_queue, const struct run_queue_config *config, uint64_t now_ns)
{
	pthread_mutex_lock(&run_queue->lock);
	take_config(run_queue, config);
	pthread_mutex_unlock(&run_queue->lock);
	run_queue_refresh(run_queue, now_ns);
}

void run_queue_refresh(struct run_queue *run_queue, uint64_t now_ns)
{
	struct outbox outbox;
	bool serve;

	outbox_init(&outbox);
	pthread_mutex_lock(&run_queue->lock);
	serve = line_refresh(run_queue, now_ns);
	pthread_mutex_unlock(&run_queue->lock);
	if (serve)
		outbox_serve(&outbox, run_queue);
	outbox_deadline(
		&outbox, atomic_load_explicit(&run_queue->deadline_ns, memory_order_relaxed));
	outbox_flush(run_queue->queue, &outbox, now_ns);
}

/* Lock held. */
static uint32_t limit_of(const struct run_queue *run_queue)
{
	return run_queue->capacity < run_queue->limit ? run_queue->capacity : run_queue->limit;
}

/* Lock held. */
static void read_use(struct run_queue *run_queue, struct run_queue_use *use)
{
	uint32_t in_flight = run_queue->in_flight - run_queue->earlier;

	*use = (struct run_queue_use){
		in_flight, run_queue->peak, run_queue->runnable, limit_of(run_queue)};
	run_queue->peak = in_flight;
	if (run_queue->runnable == 0)
		run_queue->lacks = false;
}

void run_queue_read_use(struct run_queue *run_queue, struct run_queue_use *use)
{
	pthread_mutex_lock(&run_queue->lock);
	read_use(run_queue, use);
	pthread_mutex_unlock(&run_queue->lock);
}

void run_queue_set_slots(struct run_queue *run_queue, const struct run_queue_slots *slots,
	struct run_queue_use *use, uint64_t now_ns)
{
	struct outbox outbox;

	outbox_init(&outbox);
	pthread_mutex_lock(&run_queue->lock);
	run_queue->slots = *slots;
	read_use(run_queue, use);
	pthread_mutex_unlock(&run_queue->lock);
	if (use->sessions == 0)
		return;
	outbox_serve(&outbox, run_queue);
	outbox_flush(run_queue->queue, &outbox, now_ns);
}

void run_queue_begin_era(struct run_queue *run_queue, struct run_queue_era *era)
{
	struct run_queue_era **at = &run_queue->eras;

	pthread_mutex_lock(&run_queue->lock);
	while (*at != NULL)
		at = &(*at)->next;
	*at = era;
	*era = (struct run_queue_era){
		.number = run_queue->era++, .in_flight = run_queue->in_flight - run_queue->earlier};
	run_queue->earlier = run_queue->in_flight;
	run_queue->peak = 0;
	run_queue->slots = (struct run_queue_slots){.count = 0};
	pthread_mutex_unlock(&run_queue->lock);
}

uint32_t run_queue_era_in_flight(struct run_queue *run_queue, const struct run_queue_era *era)
{
	pthread_mutex_lock(&run_queue->lock);
	uint32_t in_flight = era->in_flight;
	pthread_mutex_unlock(&run_queue->lock);
	return in_flight;
}

void run_queue_end_era(struct run_queue *run_queue, struct run_queue_era *era)
{
	struct run_queue_era **at = &run_queue->eras;

	pthread_mutex_lock(&run_queue->lock);
	while (*at != era)
		at = &(*at)->next;
	*at = era->next;
	if (era->next != NULL)
		era->next->in_flight += era->in_flight;
	else
		run_queue->earlier -= era->in_flight;
	pthread_mutex_unlock(&run_queue->lock);
}

void run_queue_destroy(struct run_queue *run_queue)
{
	struct run_queue **link;
	struct queue *queue;

	if (run_queue == NULL)
		return;
	queue = run_queue->queue;
	pthread_mutex_lock(&queue->registry_mutex);
	for (link = &queue->registry; *link != run_queue; link = &(*link)->registry_next)
		;
	*link = run_queue->registry_next;
	pthread_mutex_unlock(&queue->registry_mutex);
	run_queue_release(run_queue);
}

/* ---- counts --------------------------------------------------------------------------------- */

uint32_t run_queue_retry_after_ms(struct run_queue *run_queue)
{
	return drain_retry_ms(
		&run_queue->drain, atomic_load_explicit(&run_queue->waiting, memory_order_relaxed));
}

void run_queue_count(struct run_queue *run_queue, struct run_queue_counts *counts)
{
	pthread_mutex_lock(&run_queue->lock);
	*counts = (struct run_queue_counts){
		.in_flight = run_queue->in_flight,
		.max_in_flight = limit_of(run_queue) == UINT32_MAX ? 0 : limit_of(run_queue),
		.sessions = run_queue->runnable,
		.dispatched = run_queue->dispatched,
		.shed = run_queue->shed,
		.paced = run_queue->paced,
	};
	pthread_mutex_unlock(&run_queue->lock);
	counts->waiting = atomic_load_explicit(&run_queue->waiting, memory_order_relaxed);
	counts->drain_gap_ns = atomic_load_explicit(&run_queue->drain.gap_ns, memory_order_relaxed);
}
