/* deadline: one timer for all idle and held sessions and all paced run queues.
 *
 *   worker:  shard or run queue deadline = d;   if d < armed: armed = d, timer_changed(d)
 *   timer:   armed = never;   roll and serve what is due;   scan all deadlines;   armed = the least
 *
 * The worker writes its deadline before it reads armed, the timer thread writes armed before it
 * scans, all sequentially consistent: so either the scan sees the deadline, or the worker sees
 * armed = never and calls. Deadlines of shards may be early, as a session that is used again does
 * not put them back: then the timer wakes once, finds nothing and sleeps until the real one. */
#include "queue/internal.h"

void deadline_note(struct queue *queue, uint64_t deadline_ns)
{
	uint64_t armed = atomic_load_explicit(&queue->armed_ns, memory_order_seq_cst);

	while (deadline_ns < armed) {
		if (atomic_compare_exchange_weak_explicit(&queue->armed_ns, &armed, deadline_ns,
			    memory_order_seq_cst, memory_order_seq_cst)) {
			if (queue->config.callbacks.timer_changed != NULL)
				queue->config.callbacks.timer_changed(
					queue->config.callbacks.ctx, deadline_ns);
			return;
		}
	}
}

/* Rolls what is due in a shard, a few at a time so that its lock is free in between. */
static void expire_shard(struct queue *queue, struct shard *shard, uint64_t now_ns)
{
	struct outbox outbox;
	struct session *session;

	do {
		outbox_init(&outbox);
		pthread_mutex_lock(&shard->mutex);
		for (unsigned i = 0; i < OUTBOX_PINS; i++) {
			session = shard_idle_due(shard, now_ns);
			if (session == NULL)
				break;
			shard_idle_stop(shard, session);
			session_roll(queue, shard, session, &outbox);
		}
		pthread_mutex_unlock(&shard->mutex);
		outbox_flush(queue, &outbox, now_ns);
	} while (session != NULL);
}

/* Lets the writes go that waited long enough for reads. */
static void expire_held(struct queue *queue, struct shard *shard, uint64_t now_ns)
{
	struct outbox outbox;
	struct session *session;

	do {
		outbox_init(&outbox);
		pthread_mutex_lock(&shard->mutex);
		session = shard_hold_due(shard, now_ns);
		if (session != NULL)
			session_pump(queue, shard, session, &outbox, now_ns);
		pthread_mutex_unlock(&shard->mutex);
		outbox_flush(queue, &outbox, now_ns);
	} while (session != NULL);
}

/* A run queue whose deadline has come, referenced, or NULL. */
static struct run_queue *due_run_queue(struct queue *queue, uint64_t now_ns)
{
	struct run_queue *run_queue;

	pthread_mutex_lock(&queue->registry_mutex);
	for (run_queue = queue->registry; run_queue != NULL; run_queue = run_queue->registry_next) {
		/* Pairs with set_deadline. */
		if (atomic_load_explicit(&run_queue->deadline_ns, memory_order_seq_cst) <= now_ns) {
			run_queue_hold(run_queue);
			break;
		}
	}
	pthread_mutex_unlock(&queue->registry_mutex);
	return run_queue;
}

uint64_t queue_next_deadline_ns(struct queue *queue)
{
	uint64_t least = QUEUE_NEVER, deadline;

	for (uint64_t i = 0; i <= queue->shard_mask; i++) {
		/* Pairs with shard_idle_start. */
		deadline =
			atomic_load_explicit(&queue->shards[i].deadline_ns, memory_order_seq_cst);
		if (deadline < least)
			least = deadline;
	}
	pthread_mutex_lock(&queue->registry_mutex);
	for (struct run_queue *run_queue = queue->registry; run_queue != NULL;
		run_queue = run_queue->registry_next) {
		deadline = atomic_load_explicit(&run_queue->deadline_ns, memory_order_seq_cst);
		if (deadline < least)
			least = deadline;
	}
	pthread_mutex_unlock(&queue->registry_mutex);
	return least;
}

uint64_t queue_expire(struct queue *queue, uint64_t now_ns)
{
	struct run_queue *run_queue;
	uint64_t least, armed = QUEUE_NEVER;

	/* Pairs with deadline_note. */
	atomic_store_explicit(&queue->armed_ns, QUEUE_NEVER, memory_order_seq_cst);
	for (uint64_t i = 0; i <= queue->shard_mask; i++) {
		struct shard *shard = &queue->shards[i];
		if (atomic_load_explicit(&shard->deadline_ns, memory_order_seq_cst) <= now_ns) {
			expire_shard(queue, shard, now_ns);
			expire_held(queue, shard, now_ns);
		}
	}
	while ((run_queue = due_run_queue(queue, now_ns)) != NULL) {
		struct outbox outbox;

		outbox_init(&outbox);
		outbox_serve(&outbox, run_queue);
		outbox_flush(queue, &outbox, now_ns);
		run_queue_release(run_queue);
	}
	least = queue_next_deadline_ns(queue);
	/* Down to least, unless a worker asked for something earlier meanwhile, of which the caller
	 * was told by timer_changed. */
	armed = atomic_load_explicit(&queue->armed_ns, memory_order_seq_cst);
	while (least < armed && !atomic_compare_exchange_weak_explicit(&queue->armed_ns, &armed,
					least, memory_order_seq_cst, memory_order_seq_cst))
		;
	return least;
}
