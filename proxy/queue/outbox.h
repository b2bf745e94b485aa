/* outbox: collects the tickets, pins and run queues that a call makes runnable while locks are
 * held, and delivers them after the locks were released (internal.h). */
#ifndef SLUICE_QUEUE_OUTBOX_H
#define SLUICE_QUEUE_OUTBOX_H

#include "queue/ticket.h"

struct queue;
struct run_queue;

#define OUTBOX_PINS   16
#define OUTBOX_SERVES 4

struct outbox {
	struct message *head, **tail; /* of tickets */
	unsigned pins, serves;
	uint64_t deadline_ns; /* the earliest that was set meanwhile */
	void *pin[OUTBOX_PINS];
	struct run_queue *serve[OUTBOX_SERVES];
};

static inline void outbox_init(struct outbox *outbox)
{
	outbox->head = NULL;
	outbox->tail = &outbox->head;
	outbox->pins = outbox->serves = 0;
	outbox->deadline_ns = QUEUE_NEVER;
}

static inline void outbox_deadline(struct outbox *outbox, uint64_t deadline_ns)
{
	if (deadline_ns < outbox->deadline_ns)
		outbox->deadline_ns = deadline_ns;
}

void outbox_add(struct outbox *outbox, struct ticket *ticket, enum queue_verdict verdict);
void outbox_serve(struct outbox *outbox, struct run_queue *run_queue);
void outbox_deliver(struct queue *queue, struct outbox *outbox, uint64_t now_ns);

/* Delivers what there is; inline, as mostly there is nothing. */
static inline void outbox_flush(struct queue *queue, struct outbox *outbox, uint64_t now_ns)
{
	if (outbox->head != NULL || outbox->pins + outbox->serves > 0 ||
		outbox->deadline_ns != QUEUE_NEVER)
		outbox_deliver(queue, outbox, now_ns);
}

#endif
