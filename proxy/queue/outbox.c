#include "queue/outbox.h"

#include "queue/internal.h"

void outbox_add(struct outbox *outbox, struct ticket *ticket, enum queue_verdict verdict)
{
	ticket->verdict = (uint8_t)verdict;
	ticket->posted = true;
	ticket->message.next = NULL;
	*outbox->tail = &ticket->message;
	outbox->tail = &ticket->message.next;
}

void outbox_serve(struct outbox *outbox, struct run_queue *run_queue)
{
	for (unsigned i = 0; i < outbox->serves; i++) {
		if (outbox->serve[i] == run_queue)
			return;
	}
	if (outbox->serves < OUTBOX_SERVES) {
		outbox->serve[outbox->serves++] = run_queue_hold(run_queue);
		return;
	}
	/* A chain of sessions over more upstreams than fit here: leave it to the timer thread, at
	 * once. Pairs with the scan in queue_expire. */
	atomic_store_explicit(&run_queue->deadline_ns, 0, memory_order_seq_cst);
	outbox_deadline(outbox, 0);
}

static void deliver_tickets(struct queue *queue, struct outbox *outbox)
{
	const struct queue_callbacks *callbacks = &queue->config.callbacks;
	struct message *message = outbox->head;

	outbox->head = NULL;
	outbox->tail = &outbox->head;
	while (message != NULL) {
		/* From the call on the ticket is its owner's, and may be gone. */
		struct message *next = message->next;
		struct ticket *ticket = ticket_of(message);
		callbacks->dispatch(callbacks->ctx, ticket->worker, ticket);
		message = next;
	}
}

static void deliver_pins(struct queue *queue, struct outbox *outbox)
{
	const struct queue_callbacks *callbacks = &queue->config.callbacks;
	unsigned pins = outbox->pins;

	outbox->pins = 0;
	if (callbacks->unpin == NULL)
		return;
	for (unsigned i = 0; i < pins; i++)
		callbacks->unpin(callbacks->ctx, outbox->pin[i]);
}

void outbox_deliver(struct queue *queue, struct outbox *outbox, uint64_t now_ns)
{
	for (;;) {
		deliver_tickets(queue, outbox);
		deliver_pins(queue, outbox);
		if (outbox->serves == 0)
			break;
		struct run_queue *run_queue = outbox->serve[--outbox->serves];
		dispatch_turn(run_queue, outbox, now_ns);
		run_queue_release(run_queue);
	}
	if (outbox->deadline_ns != QUEUE_NEVER)
		deadline_note(queue, outbox->deadline_ns);
}
