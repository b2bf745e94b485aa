/* bounds: is there room for one more ticket that waits? Counters of all shards, hence without the
 * mutex; those of a session with it. */
#include "queue/bounds.h"

/* Reserves the total bounds for one that waits. Counters only, hence relaxed. */
static enum queue_verdict reserve(struct queue *queue, const struct ticket *ticket, uint64_t now_ns)
{
	const struct queue_config *config = &queue->config;
	uint64_t queued, bytes;

	queued = atomic_fetch_add_explicit(&queue->queued, 1, memory_order_relaxed);
	if (config->max_queued != 0 && queued >= config->max_queued) {
		atomic_fetch_sub_explicit(&queue->queued, 1, memory_order_relaxed);
		return QUEUE_FULL_TOTAL;
	}
	if (queued == 0)
		drain_start(&queue->drain, now_ns);
	if (ticket->bytes == 0)
		return QUEUE_WAIT;
	bytes = atomic_fetch_add_explicit(
		&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
	if (config->max_queued_bytes != 0 &&
		(bytes >= config->max_queued_bytes ||
			ticket->bytes > config->max_queued_bytes - bytes)) {
		atomic_fetch_sub_explicit(
			&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
		atomic_fetch_sub_explicit(&queue->queued, 1, memory_order_relaxed);
		return QUEUE_FULL_BYTES;
	}
	return QUEUE_WAIT;
}

/* The time for what the session has queued to get away, else for its upstream's. */
static uint32_t session_retry_ms(const struct session *session, const struct ticket *ticket)
{
	uint32_t drain_ms = session_drain_ms(session);

	return drain_ms != 0 ? drain_ms : run_queue_retry_after_ms(ticket->run_queue);
}

enum queue_verdict bounds_find_room(struct queue *queue, struct shard *shard,
	const struct session *session, struct waiting ahead, struct ticket *ticket, uint64_t now_ns)
{
	uint64_t most = ticket->depth_bytes;
	enum queue_verdict verdict;

	if (ahead.tickets >= ticket->depth) {
		shard->counts.full_session++;
		ticket->retry_after_ms = session_retry_ms(session, ticket);
		return QUEUE_FULL_SESSION;
	}
	if (most != 0 && (ticket->bytes > most || ahead.bytes > most - ticket->bytes)) {
		shard->counts.full_session_bytes++;
		ticket->retry_after_ms = session_retry_ms(session, ticket);
		return QUEUE_FULL_SESSION_BYTES;
	}
	verdict = reserve(queue, ticket, now_ns);
	if (verdict != QUEUE_WAIT) {
		if (verdict == QUEUE_FULL_TOTAL)
			shard->counts.full_total++;
		else
			shard->counts.full_bytes++;
		ticket->retry_after_ms = drain_retry_ms(
			&queue->drain, atomic_load_explicit(&queue->queued, memory_order_relaxed));
	}
	return verdict;
}

void bounds_reserve_always(struct queue *queue, const struct ticket *ticket, uint64_t now_ns)
{
	if (atomic_fetch_add_explicit(&queue->queued, 1, memory_order_relaxed) == 0)
		drain_start(&queue->drain, now_ns);
	atomic_fetch_add_explicit(&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
}
