/* bounds: of the tickets that wait in a session and in all, and of their bytes. Private to the
 * room. */
#ifndef SLUICE_QUEUE_BOUNDS_H
#define SLUICE_QUEUE_BOUNDS_H

#include "queue/internal.h"

/* How much waits already. */
struct waiting {
	uint32_t tickets;
	uint64_t bytes;
};

/* It has to wait behind these of its session: is there room, and room in all? WAIT: it is counted
 * among those that wait. FULL_*: it is not, and its retry_after_ms is set. With the mutex held. */
enum queue_verdict bounds_find_room(struct queue *queue, struct shard *shard,
	const struct session *session, struct waiting ahead, struct ticket *ticket,
	uint64_t now_ns);

/* Counts one that was let in already among those that wait: no bound refuses it. */
void bounds_reserve_always(struct queue *queue, const struct ticket *ticket, uint64_t now_ns);

#endif
