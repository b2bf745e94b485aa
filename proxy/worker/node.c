#include "worker/node.h"

#include "worker/worker.h"

void node_wake_workers(struct node *node)
{
	for (unsigned i = 0; i < node->worker_count; i++)
		loop_wake(&node->workers[i]->loop);
}

void node_command_workers(struct node *node, unsigned commands)
{
	for (unsigned i = 0; i < node->worker_count; i++)
		worker_command(node->workers[i], commands);
}

void node_note_failure(struct node *node)
{
	/* acquire: pairs with the release in failure_lines.c, on_timer: the message has been run,
	 * and may be posted again */
	if (!atomic_exchange_explicit(&node->failures.is_reported, true, memory_order_acquire))
		message_post(&node->loop, &node->failures.message);
}
